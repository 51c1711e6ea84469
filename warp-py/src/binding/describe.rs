//! What environments there are, and what they look like, as plain dictionaries from which Python makes spaces.

use super::config::table;
use super::raised;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use warp_core::{EnvSpec, GroupSpec, LimitEnds, Space, TimeLimit};

/// Names of all environments.
#[pyfunction]
pub(super) fn names() -> Vec<&'static str> {
    warp_envs::registry().entries().map(|entry| entry.name).collect()
}

/// An environment with a configuration, seen from outside: `config` (complete), `groups`, `max_episode_steps`
/// (None: no limit), `truncates`, `statistics`, `global_width`.
#[pyfunction]
pub(super) fn describe<'py>(
    py: Python<'py>,
    name: &str,
    config: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let registry = warp_envs::registry();
    let entry = registry.get(name).map_err(raised)?;
    let (config, spec) = entry.describe(&table(config)?).map_err(raised)?;
    let said = PyDict::new(py);
    said.set_item("config", dict(py, &config)?)?;
    said.set_item("keys", entry.fields.iter().map(|field| field.name).collect::<Vec<_>>())?;
    said.set_item("groups", groups(py, &spec)?)?;
    let steps = spec.time_limit.steps;
    said.set_item("max_episode_steps", (steps != TimeLimit::UNLIMITED.steps).then_some(steps))?;
    said.set_item("truncates", spec.time_limit.ends == LimitEnds::Truncated)?;
    said.set_item("statistics", &spec.statistics)?;
    let global = spec.global_observation.as_ref().map_or(0, |space| space.flatten().width);
    said.set_item("global_width", global)?;
    Ok(said)
}

/// What the groups of agents see and do.
pub(super) fn groups<'py>(py: Python<'py>, spec: &EnvSpec) -> PyResult<Bound<'py, PyList>> {
    let each = spec.groups.iter().map(|group: &GroupSpec| {
        let said = PyDict::new(py);
        said.set_item("name", &group.name)?;
        said.set_item("n_agents", group.n_agents)?;
        said.set_item("mortal", group.mortal)?;
        said.set_item("width", group.observation_width())?;
        said.set_item("mask_width", group.mask_width())?;
        said.set_item("observation", space(py, &group.observation)?)?;
        said.set_item("action", space(py, &group.action)?)?;
        Ok(said)
    });
    PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)
}

fn space<'py>(py: Python<'py>, space_: &Space) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    match space_ {
        Space::Discrete { n } => {
            said.set_item("kind", "discrete")?;
            said.set_item("n", n)?;
        }
        Space::MultiDiscrete { sizes } => {
            said.set_item("kind", "multi_discrete")?;
            said.set_item("sizes", sizes)?;
        }
        Space::Box { low, high, shape } => {
            said.set_item("kind", "box")?;
            said.set_item("low", low)?;
            said.set_item("high", high)?;
            said.set_item("shape", shape)?;
        }
        Space::Dict(parts) => {
            said.set_item("kind", "dict")?;
            let inner = PyDict::new(py);
            for (key, part) in parts {
                inner.set_item(key, space(py, part)?)?;
            }
            said.set_item("parts", inner)?;
        }
    }
    Ok(said)
}

/// A table as a dictionary.
pub(super) fn dict<'py>(py: Python<'py>, table: &toml::Table) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    for (key, value) in table {
        said.set_item(key, value_of(py, value)?)?;
    }
    Ok(said)
}

fn value_of<'py>(py: Python<'py>, value: &toml::Value) -> PyResult<Bound<'py, PyAny>> {
    use toml::Value;
    Ok(match value {
        Value::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Integer(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Array(items) => {
            let items =
                items.iter().map(|item| value_of(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Table(inner) => dict(py, inner)?.into_any(),
        other => other
            .as_str()
            .map_or_else(|| other.to_string(), Into::into)
            .into_pyobject(py)?
            .into_any(),
    })
}
