//! Dimensions of rows: numbers, and names that `Env::dims` gives a size.

use crate::error::{Error, Result};
use crate::state::Field;

/// The size of a dimension of a row: its own if it is a number, else the one that `dims` has for it.
#[must_use]
pub fn dim_size(dims: &[(&'static str, usize)], dim: &str) -> Option<usize> {
    let named = || dims.iter().find(|(name, _)| *name == dim).map(|(_, size)| *size);
    dim_number(dim).or_else(named)
}

/// The size of one replica's part of `field` in elements, where dimensions have the sizes `dims`; an error names `env`.
///
/// # Errors
/// A symbolic dimension that `dims` does not name.
pub fn field_len(env: &str, dims: &[(&'static str, usize)], field: &Field) -> Result<usize> {
    let mut len = 1;
    for dim in field.dims {
        len *= dim_size(dims, dim).ok_or_else(|| Error::InvalidSpec {
            env: env.into(),
            reason: format!("state field \"{}\" has the unknown dimension \"{dim}\"", field.name),
        })?;
    }
    Ok(len)
}

/// The size of a dimension that is a number, written as Rust writes it; `None` for a name.
const fn dim_number(dim: &str) -> Option<usize> {
    let bytes = dim.as_bytes();
    let (mut number, mut i) = (0_usize, 0);
    while i < bytes.len() {
        match bytes[i] {
            digit @ b'0'..=b'9' if number <= MAX_DIM => {
                number = 10 * number + (digit - b'0') as usize;
            }
            b'_' if i > 0 => {}
            _ => return None,
        }
        i += 1;
    }
    if bytes.is_empty() { None } else { Some(number) }
}

/// What a dimension that is written as a number is at most.
const MAX_DIM: usize = 1 << 20;

/// Whether the dimensions of rows that are numbers can be sizes; the compiler asks.
#[doc(hidden)]
pub const fn check_dims(fields: &[Field]) {
    let mut field = 0;
    while field < fields.len() {
        let mut at = 0;
        while at < fields[field].dims.len() {
            let dim = fields[field].dims[at];
            assert!(
                dim.as_bytes()[0] != b'{',
                "beside rows a constant is a name that `Env::dims` gives a size"
            );
            if dim.as_bytes()[0].is_ascii_digit() {
                let fits = matches!(dim_number(dim), Some(1..=MAX_DIM));
                assert!(
                    fits,
                    "a dimension of a row is a name that `Env::dims` gives a size, or a number from 1 to \
                     1048576"
                );
            }
            at += 1;
        }
        field += 1;
    }
}
