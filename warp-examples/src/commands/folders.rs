//! Folders of runs that are named on the command line, often as `runs/*`.

use super::tell;
use anyhow::Result;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use warp_train::Run;

/// Those of `given` that hold a run or a fleet, each once; of the others it is said that they are left out. A name that
/// ends in one of `also` is taken as it is.
///
/// # Errors
/// A name of nothing, or no run in any of them.
pub(super) fn with_runs<'a>(given: &'a [PathBuf], also: &[&str]) -> Result<Vec<&'a Path>> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut empty: Vec<&Path> = Vec::new();
    for path in given {
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            continue;
        }
        let is_known =
            || path.extension().is_some_and(|own| also.iter().any(|ending| own == *ending));
        if path.join("config.toml").exists() || !path.exists() || is_known() {
            found.push(path.as_path());
        } else {
            empty.push(path);
        }
    }
    if let (true, Some(first)) = (found.is_empty(), empty.first()) {
        // Fails, and says why.
        Run::config(first)?;
    }
    for path in empty {
        tell(&format!("\"{}\" has no run and is left out", path.display()));
    }
    Ok(found)
}
