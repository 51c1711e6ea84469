//! The whole `warp` command, as a function.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs a command line, without the program's name, and gives the exit code that the process is to end with. Python's lock
/// is let go of.
#[pyfunction]
pub(super) fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let line: Vec<OsString> = std::iter::once("warp".into()).chain(args).collect();
    py.detach(|| warp_examples::run_line(&line, &warp_envs::registry()))
}
