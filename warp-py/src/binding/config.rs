//! Configurations: a dictionary of Python's as a table of TOML.

use super::numbers::unreadable;
use super::shortened;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use toml::{Table, Value};

/// Lists and dictionaries in each other at most: one that holds itself has no end.
const DEEPEST: usize = 16;

/// The table that `config` says. A key whose value is `None` is left at its default.
pub(super) fn table(config: &Bound<'_, PyDict>) -> PyResult<Table> {
    table_at(config, 0)
}

fn table_at(config: &Bound<'_, PyDict>, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    // A list of its own: what reads a value may change the dictionary.
    for item in config.items() {
        let (key, value): (String, Bound<'_, PyAny>) = item.extract()?;
        if !value.is_none() {
            let value = value_of(&key, &value, depth)?;
            table.insert(key, value);
        }
    }
    Ok(table)
}

fn value_of(key: &str, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        let reason = format!("{key} holds more than {DEEPEST} lists or dictionaries in each other");
        return Err(PyValueError::new_err(reason));
    }
    // A bool is an int to Python.
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract().map_err(|_| {
            let value = shortened(&value.to_string());
            PyValueError::new_err(format!("{key} is {value}, but whole numbers have 64 bits here"))
        })?;
        return Ok(Value::Integer(number));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::String(value.extract()?));
    }
    if let Ok(inner) = value.cast::<PyDict>() {
        return Ok(Value::Table(table_at(inner, depth + 1)?));
    }
    // Arrays and scalars of NumPy's, and of whoever is like them.
    let unread = |error| unreadable(key, value, "as a list", error);
    if let Some(tolist) = value.getattr_opt("tolist")? {
        return value_of(key, &tolist.call0().map_err(unread)?, depth + 1);
    }
    if !value.hasattr("__iter__")? && !value.hasattr("__getitem__")? {
        let kind = value.get_type();
        let reason = format!("{key} is of {kind}, which a configuration can't contain");
        return Err(PyTypeError::new_err(reason));
    }
    let items = value.try_iter().map_err(unread)?;
    let items = items.map(|item| value_of(key, &item.map_err(unread)?, depth + 1));
    Ok(Value::Array(items.collect::<PyResult<_>>()?))
}
