//! Writing `.npz` files, as `numpy.savez` does: arrays in an archive without compression.

use super::error::{Result, ensure};
use super::{Numeric, zip};

/// An array to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What the file calls it.
    pub name: String,
    /// The type of its elements.
    pub dtype: Numeric,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements in row-major order, little end first.
    pub bytes: Vec<u8>,
}

/// The bytes of an `.npz` file of `arrays`.
///
/// # Errors
/// Bytes that are not as many as type and shape say, a name that is too long or there twice, or more than an
/// archive of 4 GiB holds.
pub fn write_npz(arrays: &[Written]) -> Result<Vec<u8>> {
    let mut members = Vec::new();
    for Written { name, dtype, shape, bytes } in arrays {
        let needed = shape.iter().product::<usize>() * dtype.size();
        ensure!(
            bytes.len() == needed,
            "array \"{name}\" is {dtype} {shape:?}, that is {needed} bytes, but has {}",
            bytes.len()
        );
        members.push((format!("{name}.npy"), [header(*dtype, shape), bytes.clone()].concat()));
    }
    zip::archive(&members)
}

/// What stands before an array's elements: version 1.0, so long that they begin at a multiple of 64.
fn header(dtype: Numeric, shape: &[usize]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let descr = dtype.descr();
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Magic, version, length, text and a line break.
    let padding = (64 - (10 + text.len() + 1) % 64) % 64;
    let text = format!("{text}{}\n", " ".repeat(padding));
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::{read_npy, read_npz};
    use super::*;

    fn array(name: &str, dtype: Numeric, shape: &[usize], bytes: Vec<u8>) -> Written {
        Written { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let floats: Vec<u8> =
            [1.5_f32, -2.0, 0.0, 1e30, 7.0, 0.1].iter().flat_map(|x| x.to_le_bytes()).collect();
        let arrays = [
            array("a.b", Numeric::F32, &[2, 3], floats),
            array("none", Numeric::I32, &[0, 4], vec![]),
            array("flags", Numeric::U8, &[3], vec![1, 0, 255]),
            array("alone", Numeric::U32, &[], 7_u32.to_le_bytes().to_vec()),
        ];
        let found = read_npz(&write_npz(&arrays).unwrap()).unwrap();
        assert_eq!(found.len(), 4);
        assert_eq!((found["a.b"].dtype, &found["a.b"].shape[..]), (Numeric::F32, &[2, 3][..]));
        assert_eq!(
            found["a.b"].data,
            [1.5, -2.0, 0.0, f64::from(1e30_f32), 7.0, f64::from(0.1_f32)]
        );
        assert_eq!(
            (found["none"].data.len(), &found["flags"].data[..]),
            (0, &[1.0, 0.0, 255.0][..])
        );
        assert_eq!((found["alone"].shape.len(), found["alone"].data[0]), (0, 7.0));
    }

    #[test]
    fn headers_end_where_numpy_ends_them() {
        for n in 0..12 {
            let header = header(Numeric::U8, &vec![1; n]);
            assert!(header.len().is_multiple_of(64) && header.ends_with(b"\n"), "{n}");
            let array = read_npy(&[header, vec![9]].concat()).unwrap();
            assert_eq!((array.shape.len(), array.data[0]), (n, 9.0));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |arrays: &[Written]| write_npz(arrays).unwrap_err().to_string();
        let error = refused(&[array("a", Numeric::F32, &[2], vec![0; 7])]);
        assert!(error.contains("\"a\" is float32 [2], that is 8 bytes, but has 7"), "{error}");
        let one = || array("a", Numeric::U8, &[1], vec![0]);
        assert!(refused(&[one(), one()]).contains("\"a.npy\" twice"));
    }
}
