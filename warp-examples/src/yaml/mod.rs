//! Run configurations of the original, WarpDrive, read as they are.
//!
//! `tree` turns YAML into nodes that know their lines, `section` takes keys out of a mapping and
//! refuses what is left, `world` finds the environment, `policy` and `run` translate. What comes out
//! is the same table that a `.toml` file gives.
//!
//! Defaults are the original's (`default_configs.yaml`), and so are the choices that it does not let
//! one make: one update per rollout by Adam with epsilon 1e-8, hidden layers of ReLU that policy and
//! value share, torch's initialisation, returns without GAE. Where the original is at fault, this
//! program does what was meant: the last step of a rollout counts with its reward and the value of
//! what follows (`compat_last_step = true` brings back the original's), start states of a pool are
//! whole rows whose observation is computed anew, and agents that left the game no longer learn.

mod policy;
mod run;
mod section;
mod tree;
mod world;

use anyhow::{Context, Result, anyhow};
use std::path::Path;
use warp_core::toml::Table;
use warp_data::file;
use warp_func::Registry;

/// What a run configuration of the original comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// The configuration in this program's keys.
    pub table: Table,
    /// Keys that mean nothing here, by their full names.
    pub without_effect: Vec<String>,
}

/// Whether `target` names a file in YAML.
#[must_use]
pub fn is_yaml(target: &str) -> bool {
    target.ends_with(".yaml") || target.ends_with(".yml")
}

/// Reads and translates the file `path`.
///
/// # Errors
/// A file that can't be read or is no YAML, a key or value that is unknown or means something that
/// is not built yet; with its line.
pub fn read(path: &str, registry: &Registry) -> Result<Translated> {
    let place = || format!("configuration \"{path}\"");
    let text = file::read_text(Path::new(path), file::CONFIGURATION)
        .map_err(|e| anyhow!("cannot read the configuration \"{path}\": {e}"))?;
    translate(&text, registry).with_context(place)
}

/// Translates the text of a run configuration.
///
/// # Errors
/// As [`read`].
pub fn translate(text: &str, registry: &Registry) -> Result<Translated> {
    run::translate(&tree::parse(text)?, registry)
}
