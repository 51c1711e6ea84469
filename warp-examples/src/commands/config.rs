//! `warp config`: the full default configuration of an environment, a comment per key.

use super::say;
use crate::{Outcome, settings};
use anyhow::Result;
use clap::Args;
use warp_func::Registry;

/// Print an environment's default configuration.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// An environment's name, or a configuration file to complete.
    #[arg(value_name = "ENV | FILE.toml | FILE.yaml")]
    pub target: String,
    /// Set a key, such as algorithm=a2c.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// A configuration that does not fit.
pub fn execute(args: &ConfigArgs, registry: &Registry) -> Result<Outcome> {
    let config = settings::configure(&args.target, &args.set, registry)?;
    say(config.to_toml_as_given(registry.get(&config.run.env_id)?.fields).trim_end())?;
    Ok(Outcome::Done)
}
