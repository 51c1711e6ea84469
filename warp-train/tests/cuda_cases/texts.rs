//! What kernels' texts are made for, and whether they can be compiled; no GPU is needed to see that.

use super::of_128::OF_128;
use super::{Result, config, registry};
use std::hash::{DefaultHasher, Hash, Hasher};
use warp_core::toml::Table;
use warp_func::cuda::{Build, Check, Source, check_source, env_kernels};
use warp_train::native::cuda::small_sources;

/// Checks that a text can be compiled for an H200. The assembler takes twice the compiler's time, so it gets every fourth
/// text, by a hash of what is in it.
pub(crate) fn check(source: &Source, build: Build) -> warp_func::Result<()> {
    let mut hash = DefaultHasher::new();
    (&source.text, &source.defines).hash(&mut hash);
    let check = if hash.finish().is_multiple_of(4) { Check::Assembled } else { Check::Compiled };
    check_source(source, build, "sm_90a", check)
}

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
