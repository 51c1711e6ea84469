//! Where chosen arrays are recorded during training: `RUN/arrays/STEP.npz`, a file for each record.
//!
//! Files that a resumed run writes anew are first moved to `RUN/arrays.superseded/`.

use crate::error::{Error, Result};
use crate::run::durable;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder in a run's that has these files.
pub const ARRAYS: &str = "arrays";
/// Where files go that a run writes anew since it was resumed from before them.
const SUPERSEDED: &str = "arrays.superseded";
const ENDING: &str = "npz";

/// The file of the record after `env_steps` steps of the run in `folder`.
#[must_use]
pub fn array_file(folder: &Path, env_steps: u64) -> PathBuf {
    folder.join(ARRAYS).join(format!("{env_steps:012}.{ENDING}"))
}

/// Moves records after `env_steps` steps out of the way, and deletes what a kill left half-written; returns what
/// there is to say of that.
///
/// # Errors
/// A folder that can't be read or written.
pub(crate) fn supersede(folder: &Path, env_steps: u64) -> Result<Option<String>> {
    let (from, to) = (folder.join(ARRAYS), folder.join(SUPERSEDED));
    durable::sweep(&from)?;
    let later = later_than(&from, env_steps)?;
    if later.is_empty() {
        return Ok(None);
    }
    std::fs::create_dir_all(&to).map_err(|e| Error::file("cannot create", &to, e))?;
    for path in &later {
        durable::rename(path, &free_name(&to, path))?;
    }
    let files = if later.len() == 1 { "1 file".into() } else { format!("{} files", later.len()) };
    let from = from.display();
    Ok(Some(format!(
        "\"{from}\": {files} after the checkpoint's step {env_steps} moved to {SUPERSEDED}"
    )))
}

/// The records in `arrays` after `env_steps` steps, in their order.
fn later_than(arrays: &Path, env_steps: u64) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(arrays) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| Error::file("cannot read", arrays, e))?,
    };
    let is_later = |path: &PathBuf| {
        let step = path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok());
        step.is_some_and(|step| step > env_steps)
    };
    let mut later: Vec<PathBuf> =
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_later).collect();
    later.sort();
    Ok(later)
}

/// A name in `folder` for the file `path` that no earlier one has.
fn free_name(folder: &Path, path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let first = folder.join(format!("{stem}.{ENDING}"));
    let numbered = (2_u32..).map(|n| folder.join(format!("{stem}-{n}.{ENDING}")));
    let mut names = std::iter::once(first.clone()).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or(first)
}
