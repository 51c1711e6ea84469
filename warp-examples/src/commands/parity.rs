//! `warp parity`: compares the Rust and the CUDA code of environments, on a GPU or on the host.

use super::{Device, print_json, say};
use crate::{Outcome, settings};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use warp_core::TimeLimit;
use warp_func::cuda::{self, Build, Kernels};
use warp_func::host::{self, Compiler, HostBuild};
use warp_func::{Entry, Parity, Registry, VecOptions};

/// Largest error of a float in the release build, relative to max(1, |value|).
const RELEASE_BOUND: f64 = 1e-3;

/// Compare the Rust code and the CUDA code of environments bit for bit, on a GPU or with --host.
#[derive(Debug, Clone, Args)]
pub struct ParityArgs {
    /// Environments; by default all that have CUDA code.
    #[arg(value_name = "ENV")]
    pub envs_named: Vec<String>,
    /// Device: cuda or cuda:N.
    #[arg(long, default_value = "cuda")]
    pub device: String,
    /// Number of environment replicas.
    #[arg(long, value_name = "N", default_value_t = 65)]
    pub envs: usize,
    /// Number of steps; 0: enough for at least two episodes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub steps: u32,
    /// Seed of start states and actions.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Compile the CUDA code with this machine's C++ compiler ($CXX, c++, g++, clang++) and compare
    /// on the CPU; needs no GPU.
    #[arg(long, conflicts_with_all = ["device", "release"])]
    pub host: bool,
    /// Compare the release build within bounds, instead of the parity build bit for bit.
    #[arg(long)]
    pub release: bool,
    /// Set a key of the environment's configuration; the prefix env. is optional.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object to standard output.
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
    // Reporting an environment without a body needs no GPU and no compiler.
    for entry in &entries {
        entry.blueprint(&entry.defaults)?;
    }
    let twin = Twin::find(args)?;
    let mut reports = Vec::new();
    let mut all_hold = true;
    for entry in entries {
        let parity = one(args, entry, registry, &twin)?;
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

/// What runs the CUDA bodies.
enum Twin {
    Gpu(Kernels),
    Host(Compiler),
}

impl Twin {
    fn find(args: &ParityArgs) -> Result<Self> {
        if args.host {
            let none = "--host: no C++ compiler was found ($CXX, c++, g++, clang++)";
            return Ok(Self::Host(Compiler::find().context(none)?));
        }
        match Device::choose(&args.device)? {
            Device::Cuda(kernels) => Ok(Self::Gpu(kernels)),
            _ => bail!(
                "--device {}: parity compares with a GPU, so cuda or cuda:N, or --host",
                args.device
            ),
        }
    }
}

fn one(args: &ParityArgs, entry: &Entry, registry: &Registry, twin: &Twin) -> Result<Parity> {
    let sets: Vec<String> =
        args.set.iter().map(|set| format!("env.{}", set.trim_start_matches("env."))).collect();
    let config = settings::configure(entry.name, &sets, registry)?;
    let (_, spec) = entry.describe(&config.env)?;
    let options =
        VecOptions { n_envs: args.envs, seed: args.seed, threads: 0, ..VecOptions::default() };
    // Two episodes and a step; if episodes have no limit, enough for many.
    let whole = match spec.time_limit {
        TimeLimit::UNLIMITED => 1_000,
        limit => limit.steps.saturating_mul(2).saturating_add(1),
    };
    let steps = if args.steps > 0 { args.steps } else { whole };
    match twin {
        Twin::Gpu(kernels) => {
            let build = if args.release { Build::Release } else { Build::Parity };
            let (env, bound) = (&config.env, RELEASE_BOUND);
            Ok(cuda::parity::compare(entry, env, &options, kernels, build, steps, bound)?)
        }
        Twin::Host(compiler) => {
            let folder = tempfile::tempdir()?;
            let build = HostBuild { compiler, team: 1, folder: folder.path() };
            Ok(host::compare(entry, &config.env, &options, &build, steps)?)
        }
    }
}

fn tell(args: &ParityArgs, entry: &Entry, parity: &Parity) -> Result<()> {
    let (name, envs, Parity { steps, episodes, .. }) = (entry.name, args.envs, parity);
    let over = format!("{envs} replicas, {steps} steps, {episodes} episodes");
    match &parity.first {
        None if args.release => {
            let worst = parity.arrays.iter().map(|a| a.largest_error).fold(0.0, f64::max);
            say(&format!("{name}: within {RELEASE_BOUND:e}, largest error {worst:.1e} ({over})"))
        }
        None => say(&format!("{name}: bit-identical ({over})")),
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
        "build": if args.host { "host" } else if args.release { "release" } else { "parity" },
        "envs": args.envs,
        "steps": parity.steps,
        "episodes": parity.episodes,
        "holds": parity.holds(),
        "first": parity.first.as_ref().map(ToString::to_string),
        "arrays": arrays,
    })
}
