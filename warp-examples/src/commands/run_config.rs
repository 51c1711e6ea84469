//! The configuration of a run that is there already.

use crate::settings;
use anyhow::{Context, Result};
use std::path::Path;
use warp_func::Registry;
use warp_train::config::drop_foreign_keys;
use warp_train::{Run, TrainConfig};

/// The configuration of the run in `folder`, without the rows of its `pool_file`.
pub(crate) fn read_config(folder: &Path, registry: &Registry) -> Result<TrainConfig> {
    read_config_of(folder, &Run::config(folder)?, registry)
}

/// The same of `text`, which is the configuration of that run or an earlier one.
pub(crate) fn read_config_of(
    folder: &Path,
    text: &str,
    registry: &Registry,
) -> Result<TrainConfig> {
    let path = || format!("configuration \"{}\"", folder.join("config.toml").display());
    let mut table = settings::parse(text).with_context(path)?;
    drop_foreign_keys(&mut table, registry);
    TrainConfig::resolve(&table, registry).with_context(path)
}
