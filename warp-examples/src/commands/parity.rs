//! `warp parity`: the Rust and the CUDA body of environments side by side.

use super::{Device, print_json, say};
use crate::{Outcome, settings};
use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use warp_func::cuda::parity::{Parity, compare};
use warp_func::cuda::{Build, Kernels};
use warp_func::{Entry, Registry, VecOptions};

/// Largest error of a float in the release build, relative to max(1, |value|).
const RELEASE_BOUND: f64 = 1e-3;

/// Compare environments on the CPU and on the GPU, bit for bit.
#[derive(Debug, Clone, Args)]
pub struct ParityArgs {
    /// Environments; all that have a CUDA body, if none is named.
    #[arg(value_name = "ENV")]
    pub envs_named: Vec<String>,
    /// cuda or cuda:N.
    #[arg(long, default_value = "cuda")]
    pub device: String,
    /// Environment replicas.
    #[arg(long, value_name = "N", default_value_t = 65)]
    pub envs: usize,
    /// Steps; 0: two episodes at least.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub steps: u32,
    /// Seed of starts and actions.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Compare the release build, with bounds, instead of the parity build, bit for bit.
    #[arg(long)]
    pub release: bool,
    /// Changes a key of the environment's configuration; it may begin with env.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One JSON object on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// No GPU, an unknown environment, or a CUDA body that does not compile.
pub fn execute(args: &ParityArgs, registry: &Registry) -> Result<Outcome> {
    let named = args.envs_named.iter().map(|name| registry.get(name));
    let mut entries = named.collect::<Result<Vec<_>, _>>()?;
    if entries.is_empty() {
        entries = registry.entries().filter(|entry| entry.kernel.is_some()).collect();
    }
    let Device::Cuda(kernels) = Device::choose(&args.device)? else {
        bail!("--device {}: parity compares with a GPU, so cuda or cuda:N", args.device)
    };
    let mut reports = Vec::new();
    let mut all_hold = true;
    for entry in entries {
        let parity = one(args, entry, registry, &kernels)?;
        all_hold &= parity.holds();
        if !args.json {
            tell(args, entry, &parity)?;
        }
        reports.push(report(args, entry, &parity));
    }
    if args.json {
        print_json(&json!({ "holds": all_hold, "environments": reports }))?;
    }
    Ok(if all_hold { Outcome::Done } else { Outcome::Failed })
}

fn one(args: &ParityArgs, entry: &Entry, registry: &Registry, kernels: &Kernels) -> Result<Parity> {
    let sets: Vec<String> =
        args.set.iter().map(|set| format!("env.{}", set.trim_start_matches("env."))).collect();
    let config = settings::configure(entry.name, &sets, registry)?;
    let (_, spec) = entry.describe(&config.env)?;
    let build = if args.release { Build::Release } else { Build::Parity };
    let options =
        VecOptions { n_envs: args.envs, seed: args.seed, threads: 0, ..VecOptions::default() };
    let steps = if args.steps > 0 { args.steps } else { 2 * spec.time_limit.steps + 1 };
    Ok(compare(entry, &config.env, &options, (kernels, build), (steps, RELEASE_BOUND))?)
}

fn tell(args: &ParityArgs, entry: &Entry, parity: &Parity) -> Result<()> {
    let (name, envs, Parity { steps, episodes, .. }) = (entry.name, args.envs, parity);
    let over = format!("{envs} replicas, {steps} steps, {episodes} episodes");
    match &parity.first {
        None if args.release => {
            let worst = parity.arrays.iter().map(|a| a.largest_error).fold(0.0, f64::max);
            say(&format!("{name}: within {RELEASE_BOUND:e}, largest error {worst:.1e} ({over})"))
        }
        None => say(&format!("{name}: bit-equal ({over})")),
        Some(first) => {
            say(&format!("{name}: differs ({over})\n  first: {first}"))?;
            for array in parity.arrays.iter().filter(|array| array.different > 0) {
                say(&format!(
                    "  {}: {} elements, largest error {:.3e}",
                    array.name, array.different, array.largest_error
                ))?;
            }
            Ok(())
        }
    }
}

fn report(args: &ParityArgs, entry: &Entry, parity: &Parity) -> Value {
    let arrays: Vec<Value> = parity
        .arrays
        .iter()
        .map(|a| json!({ "name": a.name, "different": a.different, "beyond": a.beyond, "largest_error": a.largest_error }))
        .collect();
    json!({
        "env": entry.name,
        "build": if args.release { "release" } else { "parity" },
        "envs": args.envs,
        "steps": parity.steps,
        "episodes": parity.episodes,
        "holds": parity.holds(),
        "first": parity.first.as_ref().map(ToString::to_string),
        "arrays": arrays,
    })
}
