//! The configurations in a run's folder: `config.toml`, and `config-<12-digit step>.toml` for those that held before.

use crate::error::{Error, Result};
use crate::run::durable::write_whole;
use std::path::{Path, PathBuf};
use warp_data::file;

/// Where [`keep_config`] keeps what held until `env_steps`.
pub(super) fn kept_config(folder: &Path, env_steps: u64) -> PathBuf {
    folder.join(format!("config-{env_steps:012}.toml"))
}

/// The configuration of the run in `folder`.
///
/// # Errors
/// No such folder, or one without a run.
pub(super) fn config(folder: &Path) -> Result<String> {
    let path = folder.join("config.toml");
    file::read_text(&path, file::CONFIGURATION)
        .map_err(|e| Error::file("cannot read a run's", &path, e))
}

/// Keeps the configuration of the run in `folder` as `config-<12-digit step>.toml`: what held until
/// then, before another takes its place; one with changes, or one that came later than that step.
///
/// # Errors
/// A folder that can't be read or written.
pub(super) fn keep_config(folder: &Path, env_steps: u64, has_changes: bool) -> Result<()> {
    let earlier = earlier_configs(folder)?;
    let text = match earlier.into_iter().find(|(until, _)| *until >= env_steps) {
        // There already: the run was continued from this step before, and did not get further.
        Some((until, _)) if until == env_steps => return Ok(()),
        Some((_, text)) => text,
        None if has_changes => config(folder)?,
        None => return Ok(()),
    };
    write_whole(&kept_config(folder, env_steps), &text)
}

/// What [`keep_config`] has kept: until which step, and the text; in the order of the steps.
///
/// # Errors
/// A file that can't be read.
pub(super) fn earlier_configs(folder: &Path) -> Result<Vec<(u64, String)>> {
    let unreadable = |path: &Path, e| Error::file("cannot read", path, e);
    let entries = std::fs::read_dir(folder).map_err(|e| unreadable(folder, e))?;
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let step = name.strip_prefix("config-").and_then(|name| name.strip_suffix(".toml"));
        let Some(step) = step.and_then(|step| step.parse().ok()) else { continue };
        let text = file::read_text(&path, file::CONFIGURATION);
        found.push((step, text.map_err(|e| unreadable(&path, e))?));
    }
    found.sort();
    Ok(found)
}
