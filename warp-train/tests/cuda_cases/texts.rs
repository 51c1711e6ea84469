//! What kernels' texts are made for; no GPU is needed to see that.

use super::of_128::OF_128;
use super::{Result, config, registry};
use warp_core::toml::Table;
use warp_func::cuda::env_kernels;
use warp_train::native::cuda::small_sources;

/// Small networks come here where something refuses them there.
pub(crate) fn are_not_small() -> Result<()> {
    let registry = registry();
    for (name, keys) in OF_128 {
        let config = config(&format!("precision = \"fp16\"\n{keys}"))?;
        let env = env_kernels(&registry.get(&config.run.env_id)?.blueprint(&config.env)?)?;
        if !small_sources(&config, &env).is_empty() {
            return Err(format!("the small path takes it: {name}").into());
        }
    }
    Ok(())
}

/// Bodies whose agent sees a number have functions that kernels call for it.
pub(crate) fn numbers_are_shown() -> Result<()> {
    let registry = registry();
    for entry in registry.entries() {
        let blueprint = entry.blueprint(&Table::new())?;
        if blueprint.body.is_none() {
            continue;
        }
        let defines = env_kernels(&blueprint)?.defines;
        let shows = defines.iter().any(|(name, _)| name == "WARP_ONE_HOT");
        let name = blueprint.name;
        let expected = ["taxi", "cliff_walking", "frozen_lake", "nchain"].contains(&name);
        if shows != expected {
            return Err(format!("{name} shows a number: {shows}").into());
        }
    }
    Ok(())
}
