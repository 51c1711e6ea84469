//! Reset pools: start states as arrays, one per state field, of which whole rows are drawn.
//!
//! One row index per replica and episode takes every field from the same row, so that what belongs
//! together stays together (positions of agents, say). Rows are drawn by the environment's own
//! `reset`, or given as arrays.

use crate::error::{Error, Result};
use std::sync::Arc;
use warp_core::by_value::{declared, element_of};
use warp_core::{Bits, DType};

/// Rows of a pool that is not described further.
const DEFAULT_ROWS: usize = 1000;

/// Where the rows of a reset pool come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolSource {
    /// The environment's own `reset`: row i depends on the seed of the starts and i alone.
    Generated {
        /// How many, at least 1.
        rows: usize,
    },
    /// These arrays.
    Given(Arc<ResetPool>),
}

impl Default for PoolSource {
    fn default() -> Self {
        PoolSource::Generated { rows: DEFAULT_ROWS }
    }
}

impl PoolSource {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            PoolSource::Generated { rows } => *rows,
            PoolSource::Given(pool) => pool.rows(),
        }
    }
}

/// Start states: an array of `[rows, dims...]` for every field of an environment's state, `[rows, 3]` for
/// `position: [f32; 3]`.
///
/// Values are taken as they are: rows must be states in which an episode can begin.
///
/// ```
/// use warp_func::ResetPool;
/// let pool = ResetPool::new().with("x", &[2], &[0.5_f32, -0.5])?.with("n", &[2], &[1_i32, 2])?;
/// assert_eq!(pool.rows(), 2);
/// # Ok::<(), warp_func::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResetPool {
    arrays: Vec<PoolArray>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PoolArray {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    bits: Vec<u32>,
}

/// A state field, its dimensions resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateField {
    /// Its name.
    pub name: &'static str,
    /// The type of its elements.
    pub dtype: DType,
    /// Sizes per replica; empty for a scalar.
    pub dims: Vec<usize>,
}

impl StateField {
    /// Bytes of one row.
    #[must_use]
    pub fn bytes(&self) -> u128 {
        let elements = self.dims.iter().map(|size| *size as u128).product::<u128>();
        elements * self.dtype.size() as u128
    }
}

impl std::fmt::Display for StateField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.dtype, shape_of_rows(&self.dims))
    }
}

/// `[rows, 5]` for rows of five.
fn shape_of_rows(dims: &[usize]) -> String {
    let sizes = dims.iter().map(ToString::to_string);
    let all: Vec<String> = std::iter::once("rows".to_string()).chain(sizes).collect();
    format!("[{}]", all.join(", "))
}

impl ResetPool {
    /// No arrays yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the array of state field `name`, `[rows, dims...]`, row-major.
    ///
    /// # Errors
    /// A name that is there already, a number of elements other than the shape's, a number that is
    /// not finite, or other rows than the first array has.
    pub fn with<T: Bits>(mut self, name: &str, shape: &[usize], data: &[T]) -> Result<Self> {
        let refuse = |reason: String| Err(Error::InvalidPool { reason });
        if self.arrays.iter().any(|array| array.name == name) {
            return refuse(format!("array \"{name}\" is given twice"));
        }
        let elements = shape.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
        if shape.is_empty() || elements != Some(data.len()) {
            let n = data.len();
            return refuse(format!("array \"{name}\" of shape {shape:?} is given {n} elements"));
        }
        if let Some(first) = self.arrays.first().filter(|first| first.shape[0] != shape[0]) {
            return refuse(format!(
                "array \"{name}\" has {} rows, but \"{}\" has {}",
                shape[0], first.name, first.shape[0]
            ));
        }
        let bits: Vec<u32> = data.iter().map(|element| element.bits()).collect();
        let broken = |bits: &u32| T::DTYPE == DType::F32 && !f32::from_bits(*bits).is_finite();
        if let Some(at) = bits.iter().position(broken) {
            let (row, value) = (at * shape[0] / data.len(), f32::from_bits(bits[at]));
            return refuse(format!("row {row} of array \"{name}\" holds {value}"));
        }
        let (name, shape) = (name.to_string(), shape.to_vec());
        self.arrays.push(PoolArray { name, dtype: T::DTYPE, shape, bits });
        Ok(self)
    }

    /// Number of rows; 0 before the first array.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.arrays.first().map_or(0, |array| array.shape[0])
    }

    /// Whether there is one array for each of `fields`, and no other. The elements of an array in a state
    /// by value are given together.
    pub(crate) fn check(&self, env: &str, fields: &[StateField]) -> Result<()> {
        let fields = &together(fields)[..];
        let refuse = |reason: String| Err(Error::InvalidPool { reason });
        let known = || fields.iter().map(|field| field.name);
        let list = || {
            let each = fields.iter().map(|field| format!("{} {field}", field.name));
            each.collect::<Vec<_>>().join(", ")
        };
        for field in fields {
            let Some(array) = self.arrays.iter().find(|array| array.name == field.name) else {
                let name = field.name;
                let missing = match self.arrays.is_empty() {
                    true => "it holds no arrays yet".into(),
                    false => format!("it lacks \"{name}\""),
                };
                return refuse(format!("{missing}; the state of {env} is {}", list()));
            };
            if array.dtype != field.dtype || array.shape[1..] != field.dims {
                return refuse(format!(
                    "array \"{}\" is {} {:?}, but {env} needs {field}",
                    field.name, array.dtype, array.shape
                ));
            }
        }
        let other = self.arrays.iter().find(|array| known().all(|name| name != array.name));
        if let Some(PoolArray { name, .. }) = other {
            return refuse(format!("\"{name}\" is no field of the state of {env}, {}", list()));
        }
        Ok(())
    }

    /// The elements of state field `name`, as bits: an array, or the column of one that `position[1]` names.
    pub(crate) fn bits<'p>(&'p self, name: &str) -> impl Iterator<Item = u32> + use<'p> {
        let (name, element) = element_of(name);
        let array = self.arrays.iter().find(|array| array.name == name);
        let (bits, columns) = array.map_or((&[][..], 1), |array| (&array.bits, array.columns()));
        let step = if element.is_some() { columns } else { 1 };
        bits.iter().skip(element.unwrap_or(0)).step_by(step).copied()
    }
}

impl PoolArray {
    /// Elements of a row, at least 1.
    fn columns(&self) -> usize {
        self.shape[1..].iter().product::<usize>().max(1)
    }
}

/// State fields with the elements of each array as one field.
fn together(fields: &[StateField]) -> Vec<StateField> {
    let mut at = 0;
    let field = |(name, len): (&'static str, Option<usize>)| {
        let StateField { dtype, dims, .. } = fields[at].clone();
        at += len.unwrap_or(1);
        StateField { name, dtype, dims: len.map_or(dims, |len| vec![len]) }
    };
    declared(fields.iter().map(|field| field.name)).into_iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_that_do_not_fit_together_are_refused() {
        let refused = |pool: Result<ResetPool>| pool.unwrap_err().to_string();
        let x = || ResetPool::new().with("x", &[3], &[0.0_f32; 3]).unwrap();
        assert!(refused(x().with("x", &[3], &[0_i32; 3])).contains("\"x\" is given twice"));
        let error = refused(x().with("y", &[2, 2], &[0_i32; 4]));
        assert!(error.contains("\"y\" has 2 rows, but \"x\" has 3"), "{error}");
        let error = refused(x().with("y", &[3, 2], &[0_i32; 5]));
        assert!(error.contains("shape [3, 2] is given 5 elements"), "{error}");
        assert!(refused(x().with("y", &[], &[0_i32])).contains("shape []"));
        assert!(refused(x().with("y", &[3, usize::MAX, 2], &[0_i32])).contains("given 1"));
        let data = [0.0, 1.0, 2.0, 3.0, f32::NAN, 5.0];
        let error = refused(x().with("y", &[3, 2], &data));
        assert!(error.contains("row 2 of array \"y\" holds NaN"), "{error}");
        assert!(refused(x().with("y", &[3], &[0.0, f32::INFINITY, 0.0])).contains("row 1"));
        // Bits of an integer that would be no number as a float are fine.
        x().with("y", &[3], &[-1_i32; 3]).unwrap();
    }

    #[test]
    fn an_empty_pool_has_no_rows() {
        assert_eq!(ResetPool::new().with("x", &[0, 4], &[0.0_f32; 0]).unwrap().rows(), 0);
        assert_eq!(PoolSource::Given(Arc::default()).rows(), 0);
        assert_eq!(PoolSource::default().rows(), DEFAULT_ROWS);
    }
}
