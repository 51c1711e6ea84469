//! `warp gradcheck`: checks gradients, every parameter against finite differences.
//!
//! The networks are those of the default configurations; observations and actions come from a short
//! rollout, and losses are PPO's and A2C's or, for a configuration with an algorithm that learns from a replay
//! memory, that algorithm's own. The native learner's are always compared, burn's for PPO and A2C if the
//! build has it. If there is a GPU, the gradients of its kernels are compared as well: in f32 together with the
//! CPU's, and in half precision separately, within a looser bound. With `--ranks`, ranks share the rows, as threads on
//! the CPU and on a GPU each.

use super::{Device, print_json, say, tell};
use crate::{Outcome, settings};
use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use warp_func::Registry;
use warp_train::TrainConfig;
#[cfg(feature = "burn")]
use warp_train::burn::BurnLearner;
use warp_train::config::PolicyPlan;
#[cfg(feature = "cuda")]
use warp_train::gradcheck::compare_replay_on;
use warp_train::gradcheck::{
    BOUND, CheckBatch, CheckOptions, Comparison, GradientSource, HALF_BOUND, Rows, SplitGradients,
    compare, compare_replay, knows_loss,
};
use warp_train::native::NativeLearner;
#[cfg(feature = "cuda")]
use warp_train::native::cuda::{CudaGradients, CudaSplitGradients, Products};

/// Check gradients against finite differences.
#[derive(Debug, Clone, Args)]
pub struct GradcheckArgs {
    /// An environment's name, or a configuration file; by default all environments.
    #[arg(value_name = "ENV | FILE.toml")]
    pub target: Option<String>,
    /// Device: auto, cpu, cuda or cuda:N; the CPU is always checked.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Rows of the minibatch.
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub rows: usize,
    /// Also split the rows over N ranks, which sum their gradients as those of a run do: threads on the CPU and, with
    /// --device cuda, or auto where there are as many, GPUs 0 to N - 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    pub ranks: Option<u16>,
    /// Set a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// Comparisons that belong in one table, and its subject.
struct Table {
    what: &'static str,
    found: Vec<Comparison>,
}

/// Runs the command; [`Outcome::Failed`] if a gradient is wrong.
///
/// # Errors
/// A configuration that does not fit.
pub fn execute(args: &GradcheckArgs, registry: &Registry) -> Result<Outcome> {
    let (device, why) = Device::beside_processor(&args.device)?;
    if !why.is_empty() {
        tell(&why);
    }
    let gpus = gpus_of_ranks(args, &device)?;
    let targets: Vec<String> = match &args.target {
        Some(target) => vec![target.clone()],
        None => registry.entries().map(|entry| entry.name.to_string()).collect(),
    };
    let mut all = Vec::new();
    let (mut passed, mut largest) = (true, BOUND);
    for target in targets {
        let config = settings::configure(&target, &args.set, registry)?;
        let config = CheckBatch::shorten(config, args.rows);
        let tables = check(&config, args, registry, &device, &gpus)?;
        let found = || tables.iter().flat_map(|table| &table.found);
        passed &= found().all(Comparison::passed);
        largest = found().fold(largest, |largest, comparison| largest.max(comparison.bound));
        if args.json {
            let found: Vec<_> = found().collect();
            all.push(json!({ "env": config.run.env_id, "comparisons": found }));
        } else {
            tables.iter().try_for_each(|table| print(&config, table))?;
        }
    }
    if args.json {
        print_json(&json!({
            "passed": passed,
            "device": device.name(),
            "bound": BOUND,
            "half_bound": largest.max(HALF_BOUND),
            "environments": all,
        }))?;
    } else {
        let in_half = match largest > BOUND {
            true => format!(", in half precision {largest:.0e}"),
            false => String::new(),
        };
        let bound = format!("the bound of {BOUND:.0e}{in_half}");
        say(&if passed {
            format!("all gradients agree within {bound}")
        } else {
            format!("FAILED: a gradient differs by more than {bound}")
        })?;
    }
    Ok(if passed { Outcome::Done } else { Outcome::Failed })
}

#[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "there are no GPUs"))]
fn check(
    config: &TrainConfig,
    args: &GradcheckArgs,
    registry: &Registry,
    device: &Device,
    gpus: &[Device],
) -> Result<Vec<Table>> {
    let options = CheckOptions { rows: args.rows, seed: config.run.seed };
    if config.policies.iter().all(PolicyPlan::is_off_policy) {
        if let Some(ranks) = args.ranks {
            bail!(
                "--ranks {ranks}: {} learns from a replay memory, whose updates are checked on one \
                 rank only",
                config.algorithm()
            );
        }
        return check_replay(config, options, registry, device);
    }
    tell_of_unknown_losses(config);
    let mut native = NativeLearner::new(config, 1)?;
    let batches = CheckBatch::collect(config, registry, &mut native, options)?;
    let split = args.ranks.map(|n| SplitGradients::new(config, usize::from(n)));
    let mut split = split.transpose()?;
    let mut sources: Vec<&mut dyn GradientSource> = vec![&mut native];
    sources.extend(split.as_mut().map(|split| split as &mut dyn GradientSource));
    #[cfg(feature = "burn")]
    let mut burn = BurnLearner::new(config, 1)?;
    #[cfg(feature = "burn")]
    sources.push(&mut burn);
    match device {
        Device::Cpu => {
            let found = compare(config, &batches, &mut sources)?;
            Ok(vec![Table { what: "", found }])
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(kernels) => {
            let on_gpu = |products| CudaGradients::new(config, registry, kernels, products);
            let kernels_of = |gpu: &Device| match gpu {
                Device::Cuda(kernels) => Some(kernels.clone()),
                Device::Cpu => None,
            };
            let gpus: Vec<_> = gpus.iter().filter_map(kernels_of).collect();
            let on_ranks = |products| match gpus.is_empty() {
                true => Ok(None),
                false => CudaSplitGradients::new(config, registry, &gpus, products),
            };
            let mut single = on_gpu(Products::Single)?;
            sources.extend(single.as_mut().map(|gpu| gpu as &mut dyn GradientSource));
            let mut single = on_ranks(Products::Single)?;
            sources.extend(single.as_mut().map(|gpus| gpus as &mut dyn GradientSource));
            #[cfg(feature = "tch")]
            let mut torch = warp_train::burn::tch::gradients(config, registry, kernels)?;
            #[cfg(feature = "tch")]
            sources.extend(torch.as_mut().map(|gpu| gpu as &mut dyn GradientSource));
            let found = compare(config, &batches, &mut sources)?;
            let mut tables = vec![Table { what: "", found }];
            let [gpu, ranks] =
                [on_gpu(Products::Half)?.map(boxed), on_ranks(Products::Half)?.map(boxed)];
            tables.extend(halves(config, &batches, &mut native, [gpu, ranks])?);
            if let Some(gpu) = on_gpu(Products::Small)? {
                let own = config.policies.iter().zip(&batches);
                let own = own.map(|(plan, batch)| batch.with_own_values(plan));
                let own = own.collect::<warp_train::Result<Vec<_>>>()?;
                let ranks = on_ranks(Products::Small)?.map(boxed);
                tables.extend(halves(config, &own, &mut native, [Some(boxed(gpu)), ranks])?);
            }
            Ok(tables)
        }
    }
}

/// Says of which algorithms the losses have no formulas to be compared with: those that others have added.
fn tell_of_unknown_losses(config: &TrainConfig) {
    let is_unknown = |plan: &&PolicyPlan| !knows_loss(plan);
    for PolicyPlan { name, algorithm, .. } in config.policies.iter().filter(is_unknown) {
        tell(&format!(
            "policy \"{name}\": the losses of {} have no formulas to be compared with; PPO's and A2C's are checked \
             instead, with its networks",
            algorithm.name
        ));
    }
}

/// Compares gradients of algorithms that learn from a replay memory.
fn check_replay(
    config: &TrainConfig,
    options: CheckOptions,
    registry: &Registry,
    device: &Device,
) -> Result<Vec<Table>> {
    let found = match device {
        Device::Cpu => compare_replay(config, registry, options)?,
        #[cfg(feature = "cuda")]
        Device::Cuda(kernels) => compare_replay_on(config, registry, options, kernels)?,
    };
    let (exact, half): (Vec<_>, Vec<_>) = found.into_iter().partition(|c| c.bound <= BOUND);
    let tables = [("", exact), (" in half precision", half)].into_iter();
    let tables = tables.filter(|(_, found)| !found.is_empty());
    Ok(tables.map(|(what, found)| Table { what, found }).collect())
}

/// Half precision on a GPU, and on those of ranks, against the CPU and finite differences.
#[cfg(feature = "cuda")]
fn halves(
    config: &TrainConfig,
    batches: &[CheckBatch],
    native: &mut NativeLearner,
    gpus: [Option<Box<dyn GradientSource>>; 2],
) -> Result<Option<Table>> {
    let mut gpus: Vec<_> = gpus.into_iter().flatten().collect();
    if gpus.is_empty() {
        return Ok(None);
    }
    let mut sources: Vec<&mut dyn GradientSource> = vec![native];
    sources.extend(gpus.iter_mut().map(|gpu| gpu.as_mut() as &mut dyn GradientSource));
    let mut found = compare(config, batches, &mut sources)?;
    found.retain(|comparison| comparison.bound > BOUND);
    Ok(Some(Table { what: " in half precision", found }))
}

#[cfg(feature = "cuda")]
fn boxed(source: impl GradientSource + 'static) -> Box<dyn GradientSource> {
    Box::new(source)
}

/// The GPUs of `--ranks`, beside which ranks are always threads on the CPU.
fn gpus_of_ranks(args: &GradcheckArgs, device: &Device) -> Result<Vec<Device>> {
    let (Some(n), true) = (args.ranks, device.name() == "cuda") else { return Ok(Vec::new()) };
    let name = &args.device;
    if !["auto", "cuda"].contains(&&**name) {
        bail!("--device {name}: {n} ranks take GPUs 0 to {}, with --device cuda", n - 1);
    }
    let gpus = (0..n).map(|rank| Device::choose(&format!("cuda:{rank}")));
    match gpus.collect::<Result<Vec<_>>>() {
        Err(error) if name == "auto" => {
            tell(&format!("checking ranks only on the CPU: {error:#}"));
            Ok(Vec::new())
        }
        gpus => gpus,
    }
}

/// A line per tensor and loss, a column per pair of backends. That of a loss says on how many rows, of which those
/// too near a point without a derivative are left out.
fn print(config: &TrainConfig, Table { what, found }: &Table) -> Result<()> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for comparison in found {
        let pair = (comparison.backend, comparison.against);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let env = &config.run.env_id;
    say(&format!("{env}{what}: largest difference of each gradient, relative"))?;
    let heads: String = pairs.iter().map(|(a, b)| format!("{:>24}", format!("{a}/{b}"))).collect();
    say(&format!("  {:<40}{heads}", "policy, loss, tensor"))?;
    for one in found.iter().filter(|c| (c.backend, c.against) == pairs[0]) {
        let same = |c: &&Comparison| {
            (&c.policy, c.loss, &c.tensor) == (&one.policy, one.loss, &one.tensor)
        };
        let cell = |pair: &(&str, &str)| {
            let cell = found.iter().filter(same).find(|c| (c.backend, c.against) == *pair);
            let mark = |c: &Comparison| if c.passed() { "" } else { " !" };
            cell.map_or(String::new(), |c| format!("{:.1e}{}", c.error, mark(c)))
        };
        let cells: String = pairs.iter().map(|pair| format!("{:>24}", cell(pair))).collect();
        let of = match (&*one.tensor, one.rows) {
            ("loss", Rows { compared, left_out }) => {
                format!("loss, {compared} of {} rows", compared + left_out)
            }
            (tensor, _) => format!("{tensor} {:?}", one.shape),
        };
        let name = format!("{} {} {of}", one.policy, one.loss);
        say(&format!("  {name:<40}{cells}"))?;
    }
    Ok(())
}
