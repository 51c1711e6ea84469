//! NumPy's `.npz` and `.npy` files as arrays of f64, which hold every element exactly: the form of
//! published data sets and of recorded trajectories.

mod error;
mod header;
mod write;
mod zip;

pub use error::{Error, Result};
pub use write::{Written, write_npz};

use error::{ensure, unfit};
use header::Header;
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

    /// The type that an `.npy` file calls `descr`, whatever the order of its bytes.
    fn of(descr: &str) -> Option<Numeric> {
        let all = [
            Numeric::F32,
            Numeric::F64,
            Numeric::I8,
            Numeric::I32,
            Numeric::I64,
            Numeric::U8,
            Numeric::U32,
            Numeric::Bool,
        ];
        let kind = descr.strip_prefix(['<', '>', '|', '='])?;
        all.into_iter().find(|dtype| dtype.descr()[1..] == *kind)
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

/// In which order elements lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The last index goes first, as in C.
    Rows,
    /// The first index goes first, as in Fortran.
    Columns,
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
/// What is damaged or not supported, as one sentence.
pub fn read_npz(bytes: &[u8]) -> Result<BTreeMap<String, Recorded>> {
    let mut arrays = BTreeMap::new();
    for member in zip::members(bytes)? {
        let name = member.name.strip_suffix(".npy");
        let name = name.ok_or_else(|| unfit!("member \"{}\" is not an .npy array", member.name))?;
        let array = read_npy(member.bytes).map_err(|e| unfit!("array \"{name}\": {e}"))?;
        arrays.insert(name.to_string(), array);
    }
    Ok(arrays)
}

/// The array of an `.npy` file.
///
/// # Errors
/// What is damaged or not supported, as one sentence.
pub fn read_npy(bytes: &[u8]) -> Result<Recorded> {
    let Header { dtype, big_endian, order, shape, elements } = header::read(bytes)?;
    let held = elements.len();
    let len = shape.iter().try_fold(1_usize, |len, n| len.checked_mul(*n));
    let len = len.filter(|len| len.checked_mul(dtype.size()) == Some(held));
    let len = len.ok_or_else(|| unfit!("{dtype} {shape:?} does not fit into its {held} bytes"))?;
    check_memory(len, held)?;
    let data = widened(elements, dtype, big_endian)?;
    let data = if order == Order::Rows { data } else { row_major(&data, &shape) };
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

/// Elements of any type as f64.
fn widened(elements: &[u8], dtype: Numeric, big_endian: bool) -> Result<Vec<f64>> {
    fn all<const N: usize>(
        elements: &[u8],
        big_endian: bool,
        read: impl Fn([u8; N]) -> Result<f64>,
    ) -> Result<Vec<f64>> {
        let (elements, _) = elements.as_chunks::<N>();
        let lowest_first = |mut bytes: [u8; N]| {
            if big_endian {
                bytes.reverse();
            }
            read(bytes)
        };
        elements.iter().copied().map(lowest_first).collect()
    }
    let exact = |bytes| {
        let value = i64::from_le_bytes(bytes);
        let fits = (-EXACT..=EXACT).contains(&value);
        ensure!(fits, "its element {value} is too large: at most {EXACT} is supported");
        Ok(value as f64)
    };
    let truth = |[byte]: [u8; 1]| {
        ensure!(byte <= 1, "its element {byte} is no bool");
        Ok(f64::from(byte))
    };
    match dtype {
        Numeric::F32 => all(elements, big_endian, |b| Ok(f32::from_le_bytes(b).into())),
        Numeric::F64 => all(elements, big_endian, |b| Ok(f64::from_le_bytes(b))),
        Numeric::I8 => all(elements, big_endian, |b| Ok(i8::from_le_bytes(b).into())),
        Numeric::I32 => all(elements, big_endian, |b| Ok(i32::from_le_bytes(b).into())),
        Numeric::I64 => all(elements, big_endian, exact),
        Numeric::U8 => all(elements, big_endian, |b| Ok(u8::from_le_bytes(b).into())),
        Numeric::U32 => all(elements, big_endian, |b| Ok(u32::from_le_bytes(b).into())),
        Numeric::Bool => all(elements, big_endian, truth),
    }
}

/// Elements whose first index goes first, in row-major order.
fn row_major(data: &[f64], shape: &[usize]) -> Vec<f64> {
    let element = |mut flat: usize| {
        let (mut at, mut stride) = (0, data.len());
        for n in shape.iter().rev() {
            stride /= n;
            at += (flat % n) * stride;
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
        assert!(refused("(4294967295, 4294967295)", "<f4").contains("does not fit"));
        assert!(refused("((((((1))))))", "<f4").contains("not one that NumPy writes"));
        assert!(refused("(999999999999999999,)", "<f8").contains("does not fit"));
        assert!(refused("(4,)", "<f2").contains("'<f2'"));
        assert!(refused("(1,)", "|O").contains("'|O'"));
        assert!(read_npy(&npy(HEADER, &[0; 5])).unwrap_err().to_string().contains("5 bytes"));
        assert!(read_npy(b"").unwrap_err().to_string().contains("header is truncated"));
        assert!(read_npy(&[0; 80]).unwrap_err().to_string().contains("does not begin"));
        let no_bool = "{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}";
        assert!(read_npy(&npy(no_bool, &[2])).unwrap_err().to_string().contains("2 is no bool"));
    }

    #[test]
    fn headers_are_read_in_all_of_their_forms() {
        let read = |header: &str, data: &[u8]| read_npy(&npy(header, data)).unwrap();
        let scalar = read("{\"shape\": (), 'fortran_order':False,'descr': '<i4'}", &[1, 1, 0, 0]);
        assert_eq!((&scalar.shape[..], &scalar.data[..]), (&[][..], &[257.0][..]));
        let big =
            read("{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }   \n", &[0, 0, 1, 1]);
        assert_eq!((big.dtype, &big.data[..]), (Numeric::I32, &[257.0][..]));
        let none = read("{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3)}", &[]);
        assert_eq!((none.shape, none.data), (vec![0, 3], vec![]));
        let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}";
        let mut second = b"\x93NUMPY\x02\x00".to_vec();
        second.extend((header.len() as u32).to_le_bytes());
        second.extend(header);
        second.extend(1.5_f32.to_le_bytes());
        assert_eq!(read_npy(&second).unwrap().data, [1.5]);
        for strange in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1)} x",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        ] {
            let error = read_npy(&npy(strange, &[0; 4])).unwrap_err().to_string();
            assert!(error.contains("not one that NumPy writes"), "{strange}: {error}");
        }
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
