//! Numbers that Python hands over: arrays of any type, sequences, tensors of other libraries.

use numpy::PyUntypedArrayMethods;
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray};
use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

/// An argument with its name, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument<'a, 'py> {
    pub(super) name: &'a str,
    pub(super) value: &'a Bound<'py, PyAny>,
}

/// What is asked of an argument's shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    /// Rows; none: any number.
    pub(super) rows: Option<usize>,
    /// The dimensions of one row.
    pub(super) item: &'a [usize],
}

impl<'py> Argument<'_, 'py> {
    /// Its integers, appended to `to`; returns the number of rows.
    pub(super) fn integers(self, shape: Shape<'_>, to: &mut Vec<i32>) -> PyResult<usize> {
        if let Some(array) = as_it_is::<i64>(self.value) {
            let rows = self.check(array.shape(), shape)?;
            return self.narrow(array.as_slice()?, to).map(|()| rows);
        }
        if let Some(array) = as_it_is::<i32>(self.value) {
            let rows = self.check(array.shape(), shape)?;
            to.extend_from_slice(array.as_slice()?);
            return Ok(rows);
        }
        let array = self.as_array()?;
        let kind: char = array.getattr(intern!(array.py(), "dtype"))?.getattr("kind")?.extract()?;
        if array.cast::<PyUntypedArray>()?.is_empty() {
            // No element at all has no type of its own: an empty list is one of floats.
            return self.check(array.cast::<PyUntypedArray>()?.shape(), shape);
        }
        if !matches!(kind, 'i' | 'u') {
            let dtype = array.getattr("dtype")?;
            let reason = format!("{} has dtype {dtype}, but integers are needed", self.name);
            return Err(PyTypeError::new_err(reason));
        }
        if kind == 'u' {
            let most: u64 = array.call_method0("max")?.call_method0("item")?.extract()?;
            if i64::try_from(most).is_err() {
                return Err(self.outside(most));
            }
        }
        let signed = array.call_method1("astype", ("int64",))?;
        let signed = array.py().import("numpy")?.call_method1("ascontiguousarray", (signed,))?;
        let read = signed.cast::<PyArrayDyn<i64>>()?.readonly();
        let rows = self.check(array.cast::<PyUntypedArray>()?.shape(), shape)?;
        self.narrow(read.as_slice()?, to).map(|()| rows)
    }

    /// Its real numbers, appended to `to`; returns the number of rows.
    pub(super) fn reals(self, shape: Shape<'_>, to: &mut Vec<f32>) -> PyResult<usize> {
        if let Some(array) = as_it_is::<f32>(self.value) {
            let rows = self.check(array.shape(), shape)?;
            to.extend_from_slice(array.as_slice()?);
            return Ok(rows);
        }
        let array = self.as_array()?;
        let kind: char = array.getattr(intern!(array.py(), "dtype"))?.getattr("kind")?.extract()?;
        if !matches!(kind, 'i' | 'u' | 'f') {
            let dtype = array.getattr("dtype")?;
            let reason = format!("{} has dtype {dtype}, but real numbers are needed", self.name);
            return Err(PyTypeError::new_err(reason));
        }
        // Narrowed here: NumPy would warn of what overflows, and whoever reads it refuses it.
        let double = array.call_method1("astype", ("float64",))?;
        let double = array.py().import("numpy")?.call_method1("ascontiguousarray", (double,))?;
        let read = double.cast::<PyArrayDyn<f64>>()?.readonly();
        let rows = self.check(array.cast::<PyUntypedArray>()?.shape(), shape)?;
        to.extend(read.as_slice()?.iter().map(|value| *value as f32));
        Ok(rows)
    }

    /// It as an array of NumPy's.
    fn as_array(self) -> PyResult<Bound<'py, PyAny>> {
        let numpy = self.value.py().import(intern!(self.value.py(), "numpy"))?;
        let by_dlpack = self.value.hasattr("__dlpack__")? && !self.value.hasattr("__array__")?;
        let convert = if by_dlpack { "from_dlpack" } else { "asarray" };
        let made = numpy.call_method1(convert, (self.value,));
        made.map_err(|error| unreadable(self.name, self.value, "as an array", error))
    }

    fn check(self, given: &[usize], wanted: Shape<'_>) -> PyResult<usize> {
        let rows = given.first().copied();
        let fits = rows.is_some_and(|rows| wanted.rows.is_none_or(|n| n == rows));
        if let (true, Some(rows)) = (fits && given[1..] == *wanted.item, rows) {
            return Ok(rows);
        }
        let first = wanted.rows.map_or("n".to_string(), |n| n.to_string());
        let each = wanted.item.iter().map(|n| format!(", {n}")).collect::<String>();
        let comma = if wanted.item.is_empty() { "," } else { "" };
        let given = tuple(given);
        let name = self.name;
        Err(PyValueError::new_err(format!(
            "{name} has shape {given}, but ({first}{each}{comma}) is needed"
        )))
    }

    /// Appends 64-bit integers that fit into 32 bits.
    fn narrow(self, values: &[i64], to: &mut Vec<i32>) -> PyResult<()> {
        let start = to.len();
        to.extend(values.iter().map(|value| *value as i32));
        let fits = to[start..].iter().zip(values).all(|(narrow, wide)| i64::from(*narrow) == *wide);
        if fits {
            return Ok(());
        }
        let bad = values.iter().find(|value| i32::try_from(**value).is_err());
        Err(self.outside(bad.copied().unwrap_or_default()))
    }

    fn outside(self, value: impl std::fmt::Display) -> PyErr {
        PyValueError::new_err(format!("{} holds {value}, which is out of range", self.name))
    }
}

/// An array of this type whose elements lie one after another, to be read where it lies.
fn as_it_is<'py, T: Element>(value: &Bound<'py, PyAny>) -> Option<PyReadonlyArrayDyn<'py, T>> {
    let array = value.cast::<PyArrayDyn<T>>().ok()?.try_readonly().ok()?;
    array.as_slice().is_ok().then_some(array)
}

/// An argument's own fault while it was read, as a TypeError that says so; Ctrl-C and a lack of memory stay what they are.
pub(super) fn unreadable(name: &str, value: &Bound<'_, PyAny>, what: &str, error: PyErr) -> PyErr {
    let py = value.py();
    let own = error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py);
    if !own {
        return error;
    }
    let kind = value.get_type();
    let told = PyTypeError::new_err(format!("{name} of {kind} can't be read {what}: {error}"));
    told.set_cause(py, Some(error));
    told
}

/// A shape as Python writes it.
pub(super) fn tuple(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
