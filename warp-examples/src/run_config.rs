//! The configuration of a run that is there already, alone or in a fleet.

use crate::settings;
use anyhow::{Context, Result};
use std::path::Path;
use warp_core::toml::{Table, Value};
use warp_func::Registry;
use warp_train::config::drop_foreign_keys;
use warp_train::fleet::Listed;
use warp_train::world::World;
use warp_train::{Run, TrainConfig};

/// The configuration of the run in `folder`, without the rows of its `pool_file`.
pub(crate) fn read_config(folder: &Path, registry: &Registry) -> Result<TrainConfig> {
    read_config_of(folder, &Run::config(folder)?, registry)
}

/// The configuration that `text` is, of the run in `folder` or an earlier one, without the rows of its `pool_file`.
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

/// The configuration of one run of the fleet whose shared configuration is `shared`, without the rows of its `pool_file`.
pub(crate) fn resolve_listed(
    shared: &Table,
    listed: &Listed,
    registry: &Registry,
) -> Result<TrainConfig> {
    let mut table = shared.clone();
    let sweep = |table: &mut Table| {
        let mut swept = listed.swept.iter();
        swept.try_for_each(|(key, value)| settings::insert(table, key, value.clone()))
    };
    sweep(&mut table)?;
    // What is shared may be for another of the algorithms that are swept over; what is swept may not.
    drop_foreign_keys(&mut table, registry);
    sweep(&mut table)?;
    let seed =
        i64::try_from(listed.seed).map_or_else(|_| listed.seed.to_string().into(), Value::from);
    table.insert("seed".into(), seed);
    // A fleet's run is one rank's, which may have several shards.
    Ok(TrainConfig::resolve(&table, registry)?.on_rank(World::default())?)
}
