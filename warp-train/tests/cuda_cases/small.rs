//! What holds of every run that the small learner takes.

use super::{Result, config, registry};
use warp_func::cuda::{Build, compile, env_kernels};
use warp_train::config::TrainConfig;
use warp_train::native::cuda::{CudaLearner, small_sources};

/// All texts of a run become machine code; there are `n_texts` of them at least.
pub(crate) fn compiles(keys: &str, n_texts: usize) -> Result<()> {
    compiles_on(&config(keys)?, n_texts)
}

/// The same for a configuration.
pub(crate) fn compiles_on(config: &TrainConfig, n_texts: usize) -> Result<()> {
    let registry = registry();
    let env = env_kernels(&registry.get(&config.run.env_id)?.blueprint(&config.env)?)?;
    let sources = small_sources(config, &env);
    if sources.len() < n_texts {
        return Err("the small path does not take it".into());
    }
    for source in sources {
        if !compile(&source, Build::Release, "sm_90a")?.starts_with(b"\x7fELF") {
            return Err("no machine code came out".into());
        }
    }
    Ok(())
}

/// One iteration has the figures and the gradients that it has on the CPU, but for half precision and
/// the few actions that it changes.
pub(crate) fn near(keys: &str) -> Result<()> {
    near_within(keys, super::NEAR)
}

/// The same of several minibatches, whose figures are near.
pub(crate) fn near_in_minibatches(keys: &str) -> Result<()> {
    near_within(keys, super::NEAR_IN_MINIBATCHES)
}

fn near_within(keys: &str, bounds: (f64, f64)) -> Result<()> {
    let config = config(keys)?;
    let [found, expected] = super::both(&config)?;
    super::statistics(&found.state, &expected.state)?;
    let distance = super::near(&found, &expected, bounds)?;
    println!("{distance:.2e}: {}", keys.lines().next().unwrap_or_default());
    Ok(())
}

pub(crate) fn resumes(keys: &str) -> Result<()> {
    super::resumes(&config(keys)?, CudaLearner::new)
}
