//! NumPy's `.npz` and `.npy` files as arrays of f64, which hold every element exactly: the form of
//! published data sets and of recorded trajectories.
//!
//! The header of an `.npy` is Python source: [`npyz`] reads it, after a guard that keeps nested or
//! overlong text away from it.

mod error;
mod write;
mod zip;

pub use error::{Error, Result};
pub use write::{Written, write_npz};

use error::{bail, ensure, unfit};
use npyz::{DType, NpyFile, Order, TypeChar};
use std::collections::BTreeMap;
use warp_func::memory;

/// Integers up to this size are exact in f64.
const EXACT: i64 = 1 << 53;

/// The type of a recorded array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numeric {
    /// `float32`.
    F32,
    /// `float64`.
    F64,
    /// `int8`.
    I8,
    /// `int32`.
    I32,
    /// `int64`.
    I64,
    /// `uint8`.
    U8,
    /// `uint32`.
    U32,
    /// `bool`.
    Bool,
}

impl Numeric {
    /// Whether elements are real numbers rather than whole ones.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Numeric::F32 | Numeric::F64)
    }

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Numeric::F32 | Numeric::I32 | Numeric::U32 => 4,
            Numeric::F64 | Numeric::I64 => 8,
            Numeric::I8 | Numeric::U8 | Numeric::Bool => 1,
        }
    }

    /// What an `.npy` file calls it.
    fn descr(self) -> &'static str {
        match self {
            Numeric::F32 => "<f4",
            Numeric::F64 => "<f8",
            Numeric::I8 => "|i1",
            Numeric::I32 => "<i4",
            Numeric::I64 => "<i8",
            Numeric::U8 => "|u1",
            Numeric::U32 => "<u4",
            Numeric::Bool => "|b1",
        }
    }

    fn of(dtype: &DType) -> Option<Numeric> {
        let DType::Plain(text) = dtype else { return None };
        match (text.type_char(), text.size_field()) {
            (TypeChar::Float, 4) => Some(Numeric::F32),
            (TypeChar::Float, 8) => Some(Numeric::F64),
            (TypeChar::Int, 1) => Some(Numeric::I8),
            (TypeChar::Int, 4) => Some(Numeric::I32),
            (TypeChar::Int, 8) => Some(Numeric::I64),
            (TypeChar::Uint, 1) => Some(Numeric::U8),
            (TypeChar::Uint, 4) => Some(Numeric::U32),
            (TypeChar::Bool, 1) => Some(Numeric::Bool),
            _ => None,
        }
    }
}

impl std::fmt::Display for Numeric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Numeric::F32 => "float32",
            Numeric::F64 => "float64",
            Numeric::I8 => "int8",
            Numeric::I32 => "int32",
            Numeric::I64 => "int64",
            Numeric::U8 => "uint8",
            Numeric::U32 => "uint32",
            Numeric::Bool => "bool",
        })
    }
}

/// A recorded array.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Type of its elements in the file.
    pub dtype: Numeric,
    /// Its shape; the first dimension counts steps in most arrays.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub data: Vec<f64>,
}

impl Recorded {
    /// Entries of the first dimension; 1 for a scalar.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Elements in one entry of the first dimension.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.shape.iter().skip(1).product()
    }
}

/// The arrays of an `.npz` file, by name.
///
/// # Errors
/// What is damaged or not supported, in a sentence.
pub fn read_npz(bytes: &[u8]) -> Result<BTreeMap<String, Recorded>> {
    let mut arrays = BTreeMap::new();
    for member in zip::members(bytes)? {
        let name = member.name.strip_suffix(".npy");
        let name = name.ok_or_else(|| unfit!("member \"{}\" is no .npy array", member.name))?;
        let array = read_npy(member.bytes).map_err(|e| unfit!("array \"{name}\": {e}"))?;
        arrays.insert(name.to_string(), array);
    }
    Ok(arrays)
}

/// The array of an `.npy` file.
///
/// # Errors
/// What is damaged or not supported, in a sentence.
pub fn read_npy(bytes: &[u8]) -> Result<Recorded> {
    guard_header(bytes)?;
    let file = NpyFile::new(bytes).map_err(|e| unfit!("its header is damaged: {e}"))?;
    let Some(dtype) = Numeric::of(&file.dtype()) else {
        bail!("its dtype {} is none of those that are supported", file.dtype().descr());
    };
    let (order, strides) = (file.order(), file.strides().to_vec());
    let whole = |n: &u64| usize::try_from(*n).map_err(|_| unfit!("its dimension {n} is too large"));
    let shape: Vec<usize> = file.shape().iter().map(whole).collect::<Result<_>>()?;
    // The guard has seen to it that this product is within range.
    let len: usize = shape.iter().product();
    let held = file.clone().into_inner().len();
    ensure!(
        len.checked_mul(dtype.size()) == Some(held),
        "{dtype} {shape:?} does not fit into its {held} bytes"
    );
    check_memory(len, held)?;
    let data = elements(file, dtype)?;
    let data = if order == Order::C { data } else { row_major(&data, &shape, &strides) };
    Ok(Recorded { dtype, shape, data })
}

/// Checks that an array of `len` elements in `held` bytes can be widened; small ones always can.
fn check_memory(len: usize, held: usize) -> Result<()> {
    // Its elements as they are stored, as f64, and those again in row-major order.
    let needed = held as u128 + 2 * (len as u128 * size_of::<f64>() as u128);
    if needed > 1 << 24 {
        memory::check("reading it", needed, "the number of its elements")
            .map_err(|e| unfit!("{e}"))?;
    }
    Ok(())
}

/// Lets through headers such as NumPy writes: short, one tuple in one dictionary, and so few digits
/// that the product of all dimensions cannot overflow.
fn guard_header(bytes: &[u8]) -> Result<()> {
    let at = |i: usize| bytes.get(i).copied().map_or(0, usize::from);
    let (begin, length): (usize, usize) = match at(6) {
        1 => (10, at(8) | at(9) << 8),
        _ => (12, at(8) | at(9) << 8 | at(10) << 16 | at(11) << 24),
    };
    let text = begin.checked_add(length).and_then(|end| bytes.get(begin..end));
    let text = text.ok_or_else(|| unfit!("its header is cut: it has {} bytes", bytes.len()))?;
    let count = |wanted: &dyn Fn(u8) -> bool| text.iter().filter(|b| wanted(**b)).count();
    let plain = text.len() <= 4096
        && count(&|b| b"([{".contains(&b)) <= 4
        && count(&|b| b.is_ascii_digit()) <= 19
        && text.is_ascii();
    ensure!(plain, "its header of {length} bytes is none that NumPy writes for numbers");
    Ok(())
}

fn elements(file: NpyFile<&[u8]>, dtype: Numeric) -> Result<Vec<f64>> {
    fn widen<T: npyz::Deserialize + Into<f64>>(file: NpyFile<&[u8]>) -> Result<Vec<f64>> {
        Ok(file.into_vec::<T>()?.into_iter().map(Into::into).collect())
    }
    match dtype {
        Numeric::F32 => widen::<f32>(file),
        Numeric::F64 => widen::<f64>(file),
        Numeric::I8 => widen::<i8>(file),
        Numeric::I32 => widen::<i32>(file),
        Numeric::U8 => widen::<u8>(file),
        Numeric::U32 => widen::<u32>(file),
        Numeric::Bool => {
            Ok(file.into_vec::<bool>()?.into_iter().map(|b| f64::from(u8::from(b))).collect())
        }
        Numeric::I64 => {
            let exact = |value: i64| {
                let fits = (-EXACT..=EXACT).contains(&value);
                ensure!(fits, "its element {value} is too large: at most {EXACT} is supported");
                Ok(value as f64)
            };
            file.into_vec::<i64>()?.into_iter().map(exact).collect()
        }
    }
}

/// Elements stored with other strides, in row-major order.
fn row_major(data: &[f64], shape: &[usize], strides: &[u64]) -> Vec<f64> {
    let element = |mut flat: usize| {
        let mut at = 0;
        for (n, stride) in shape.iter().zip(strides).rev() {
            at += (flat % n) * *stride as usize;
            flat /= n;
        }
        data[at]
    };
    (0..data.len()).map(element).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An `.npz` file of f64 arrays: name, shape, elements.
    pub(crate) fn npz<'a>(
        arrays: impl Iterator<Item = (&'a str, &'a [usize], &'a [f64])>,
    ) -> Vec<u8> {
        let member = |(name, shape, data): (&str, &[usize], &[f64])| {
            let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
            let header =
                format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}\n");
            let bytes: Vec<u8> = data.iter().flat_map(|v| v.to_le_bytes()).collect();
            (format!("{name}.npy"), npy(&header, &bytes))
        };
        zip::archive(&arrays.map(member).collect::<Vec<_>>()).unwrap()
    }

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    const HEADER: &str = "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }\n";

    #[test]
    fn arrays_in_fortran_order_are_turned() {
        let array = read_npy(&npy(HEADER, &[0, 3, 1, 4, 2, 255])).unwrap();
        assert_eq!((array.dtype, &array.shape[..]), (Numeric::I8, &[2, 3][..]));
        assert_eq!(array.data, [0.0, 1.0, 2.0, 3.0, 4.0, -1.0]);
        assert_eq!((array.rows(), array.row_len()), (2, 3));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_a_sentence() {
        let refused = |shape: &str, descr: &str| {
            let header =
                format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
            read_npy(&npy(&header, &[0; 8])).unwrap_err().to_string()
        };
        assert!(refused("(3,)", "<f4").contains("float32 [3] does not fit into its 8 bytes"));
        assert!(refused("(4294967295, 4294967295)", "<f4").contains("none that NumPy writes"));
        assert!(refused("((((((1))))))", "<f4").contains("none that NumPy writes"));
        assert!(refused("(999999999999999999,)", "<f8").contains("does not fit"));
        assert!(refused("(4,)", "<f2").contains("'<f2'"));
        assert!(refused("(1,)", "|O").contains("'|O'"));
        assert!(read_npy(&npy(HEADER, &[0; 5])).unwrap_err().to_string().contains("5 bytes"));
        assert!(read_npy(b"").unwrap_err().to_string().contains("header is cut"));
    }

    proptest! {
        #[test]
        fn damaged_arrays_never_panic(
            flips in prop::collection::vec((0usize..100, any::<u8>()), 0..6),
            cut in 0usize..100,
        ) {
            let mut bytes = npy(HEADER, &[0, 3, 1, 4, 2, 255]);
            for (at, byte) in flips {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let _ = read_npy(&bytes);
        }
    }
}
