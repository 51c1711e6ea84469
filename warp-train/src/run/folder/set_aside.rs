//! A run that is resumed from an older checkpoint: what it did after that is set aside, never deleted.
//!
//! `RUN/after-<12-digit step>/` gets a copy of the run's records, and its later checkpoints. That makes it a
//! run of its own, which can be drawn, evaluated and continued.

use super::array_files::ARRAYS;
use super::configurations::{earlier_configs, kept_config};
use super::journal::METRICS;
use super::open_line::OPEN_LINE;
use crate::error::{Error, Result};
use crate::run::checkpoint;
use crate::run::durable;
use crate::run::league::LEAGUE;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is copied as it is; curves are drawn from it.
const RECORDS: [&str; 7] =
    ["config.toml", METRICS, OPEN_LINE, "summary.json", LEAGUE, "tensorboard", ARRAYS];

/// Sets aside what the run in `run` did after `step`; `None` if there is no later checkpoint.
///
/// Killed on the way, the run still has all that has not been set aside yet.
///
/// # Errors
/// A folder that can't be read or written.
pub(crate) fn set_aside(run: &Path, step: u64) -> Result<Option<PathBuf>> {
    let checkpoints = run.join("checkpoints");
    let mut later = checkpoint::list(&checkpoints)?;
    later.retain(|(at, _)| *at > step);
    if later.is_empty() {
        return Ok(None);
    }
    let base = run.join(format!("after-{step:012}"));
    let numbered = |n: u32| PathBuf::from(format!("{}-{n}", base.display()));
    let mut names = std::iter::once(base.clone()).chain((2..).map(numbered));
    let aside = names.find(|name| !name.exists()).unwrap_or(base);
    let partial = durable::partial(&aside);
    durable::delete(&partial)?;
    let kept = partial.join("checkpoints");
    std::fs::create_dir_all(&kept).map_err(|e| Error::file("cannot create", &kept, e))?;
    for name in RECORDS {
        copy(&run.join(name), &partial.join(name))?;
    }
    let configs = earlier_configs(run)?;
    for (until, _) in &configs {
        copy(&kept_config(run, *until), &kept_config(&partial, *until))?;
    }
    durable::sync_folder(&partial)?;
    durable::rename(&partial, &aside)?;
    // The newest first: what is left is a run that ends earlier.
    for (_, path) in later.iter().rev() {
        let name = path.file_name().unwrap_or_default();
        durable::rename(path, &aside.join("checkpoints").join(name))?;
    }
    // What held until later steps is of what was set aside.
    for (until, _) in configs.iter().filter(|(until, _)| *until > step) {
        durable::delete(&kept_config(run, *until))?;
    }
    Ok(Some(aside))
}

/// Copies a file, or a folder of files, if it is there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let unreadable = |e| Error::file("cannot read", from, e);
    if !from.is_dir() {
        let mut file = match File::open(from) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.map_err(unreadable)?,
        };
        let mut write = || {
            let mut copy = File::create(to)?;
            std::io::copy(&mut file, &mut copy)?;
            copy.sync_all()
        };
        return write().map_err(|e| Error::file("cannot write", to, e));
    }
    std::fs::create_dir(to).map_err(|e| Error::file("cannot create", to, e))?;
    for entry in std::fs::read_dir(from).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    durable::sync_folder(to)
}
