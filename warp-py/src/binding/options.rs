//! Arguments that environments have in common, wherever they lie.

use super::numbers::{Argument, Shape};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warp_func::AutoReset;

/// What follows the end of an episode.
pub(super) fn auto_reset(mode: &str) -> PyResult<AutoReset> {
    match mode {
        "next_step" => Ok(AutoReset::NextStep),
        "same_step" => Ok(AutoReset::SameStep),
        "disabled" => Ok(AutoReset::Disabled),
        other => {
            let reason = format!(
                "autoreset_mode is '{other}', but must be one of 'next_step', 'same_step' and \
                 'disabled'"
            );
            Err(PyValueError::new_err(reason))
        }
    }
}

/// Numbers of environments, of which there are `n`.
pub(super) fn env_ids(value: &Bound<'_, PyAny>, n: usize, to: &mut Vec<u32>) -> PyResult<()> {
    let mut ids = Vec::new();
    let shape = Shape { rows: None, item: &[] };
    Argument { name: "env_id", value }.integers(shape, &mut ids)?;
    check_ids(&ids, n, to)
}

/// Puts `ids` into `to` as numbers of environments, of which there are `n`.
pub(super) fn check_ids(ids: &[i32], n: usize, to: &mut Vec<u32>) -> PyResult<()> {
    if let Some(id) = ids.iter().find(|id| **id < 0 || **id as usize >= n) {
        let most = n - 1;
        let reason = format!("env_id holds {id}, but environments are numbered from 0 to {most}");
        return Err(PyValueError::new_err(reason));
    }
    to.clear();
    to.extend(ids.iter().map(|id| *id as u32));
    Ok(())
}
