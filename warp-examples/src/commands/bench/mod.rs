//! `warp bench`: environment steps per second, with and without a policy; or training: its rate, its curves, or the
//! time until a return.
//!
//! Alone: random actions are sampled before the clock starts (a few sets, used in turn) unless the
//! environment masks actions; every step writes all observations, rewards and flags, and restarts
//! finished episodes. With a policy: the default configuration's network acts, but nothing is learned.

#[cfg(feature = "cuda")]
mod cuda;
mod curves;
mod gemm;
mod map;
mod place;
mod scaling;
mod train;
mod until;

use super::{Device, learner, options, print_json, say, tell, thread_count};
use crate::output::short;
use crate::{Outcome, settings};
use anyhow::{Result, bail};
use clap::Args;
use place::Place;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use warp_core::Space;
use warp_func::{Registry, VecEnv, VecOptions};
use warp_sample::{Bounding, CategoricalLayout, GaussianLayout, Mode, Rows};
use warp_train::TrainConfig;
use warp_train::evaluate::choose_actions;
use warp_train::rollout::Rollout;

/// Sets of random actions that are used in turn.
const ACTION_SETS: usize = 32;
/// Parts of the measuring time; the median of their rates is reported.
const WINDOWS: usize = 5;

/// Measure how fast an environment runs.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// An environment's name, or a configuration file; or gemm, to measure the products of linear layers on the
    /// CPU.
    #[arg(
        value_name = "ENV | FILE.toml | gemm",
        required_unless_present = "map",
        default_value = ""
    )]
    #[arg(hide_default_value = true)]
    pub target: String,
    /// Device: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Measure training instead.
    #[arg(long, conflicts_with = "envs")]
    pub train: bool,
    /// With --train: numbers of replicas to measure, one after the other; by default that of the configuration.
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', requires = "train")]
    #[arg(value_parser = options::count)]
    pub replicas: Vec<usize>,
    /// With --train: also measure learning curves, each over this many environment steps.
    #[arg(long, value_name = "N", requires = "train")]
    pub curve_steps: Option<u64>,
    /// Shorten curves that would take more seconds than this, judging by the measured rate.
    #[arg(long, value_name = "S", requires = "curve_steps", value_parser = options::seconds)]
    pub curve_seconds: Option<f64>,
    /// With --train: instead of the rate, measure the time until the episodes that finish in an iteration reach this
    /// mean return, or until total_steps is reached.
    #[arg(long, value_name = "RETURN", requires = "train", conflicts_with = "curve_steps")]
    #[arg(allow_negative_numbers = true, value_parser = options::finite)]
    pub until: Option<f64>,
    /// Number of runs per curve or for --until: seeds 0 to N - 1.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "train")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// With --train, the learner: auto, native, or burn (in a build with that feature).
    #[arg(long, default_value = "auto")]
    pub backend: String,
    /// Number of environment replicas.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub envs: usize,
    /// Number of threads; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// Seconds to measure each part, excluding warm-up.
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub seconds: f64,
    /// On a GPU: number of steps per launch (default: 100).
    #[arg(long, value_name = "N", conflicts_with = "train")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// On a GPU: compare the state after the steps with the CPU's.
    #[arg(long, conflicts_with = "train")]
    pub check: bool,
    /// With --train: measure how much faster several GPUs are than one: a number of GPUs, or their indices.
    #[arg(long, value_name = "N | I,J,...", requires = "train", conflicts_with_all = ["until", "curve_steps"])]
    pub gpus: Option<String>,
    /// With --gpus: divide the replicas among the GPUs, instead of giving each as many as the single GPU.
    #[arg(long, requires = "gpus")]
    pub strong: bool,
    /// Measure training over environments, networks, replicas and algorithms, as a fraction of the machine's limit:
    /// the cells that the file does not yet contain for this program on this device. A plot is written next to it.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["target", "train", "envs", "steps", "check"])]
    pub map: Option<PathBuf>,
    /// With --map: core, all, or words that select cells, such as "cartpole ppo 2048".
    #[arg(long, value_name = "CELLS", default_value = "core", requires = "map")]
    pub cells: String,
    /// With --map: start no cell after this many seconds.
    #[arg(long, value_name = "S", requires = "map", value_parser = options::seconds)]
    pub limit: Option<f64>,
    /// With --map: the limit, in 10^12 operations per second (790 on an H200; unknown for other GPUs).
    #[arg(long, value_name = "TFLOPS", requires = "map", value_parser = options::seconds)]
    pub peak: Option<f64>,
    /// Set a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A configuration that does not fit, or too little memory.
pub fn execute(args: &BenchArgs, registry: &Registry) -> Result<Outcome> {
    let started = Instant::now();
    anyhow::ensure!(
        args.seconds > 0.0 && args.seconds <= 3600.0,
        "--seconds {}: expected more than 0 and at most 3600",
        args.seconds
    );
    // Beside a target, which conflicts with --map, nothing is said of these that need it.
    let of_maps = [(args.peak.is_some(), "--peak"), (args.limit.is_some(), "--limit")];
    if let Some((_, option)) = of_maps.iter().find(|(given, _)| *given && args.map.is_none()) {
        bail!("{option}: only with --map");
    }
    if args.target == gemm::NAME {
        return gemm::execute(args);
    }
    if let Some(path) = &args.map {
        return map::execute(args, path, registry);
    }
    if let Some(gpus) = &args.gpus {
        return scaling::execute(args, gpus, registry);
    }
    if args.train {
        let configs = train::configurations(args, registry)?;
        let entry = registry.get(&configs[0].run.env_id)?;
        let (device, why) = Device::for_training(&args.device, &args.backend, entry)?;
        if !why.is_empty() {
            tell(&why);
        }
        let place = Place::new(&device, args, registry);
        return match args.until {
            Some(wanted) => until::execute(args, &configs, wanted, &place, started),
            None => train::execute(args, configs, &place),
        };
    }
    let device = Device::choose(&args.device)?;
    if matches!(device, Device::Cpu) {
        let cuda_only = [(args.check, "--check"), (args.steps.is_some(), "--steps")];
        if let Some((_, option)) = cuda_only.into_iter().find(|(given, _)| *given) {
            bail!("{option}: only on a GPU, that is, with --device cuda");
        }
    }
    let threads = thread_count(args.threads);
    let mut sets = args.set.clone();
    sets.push(format!("num_envs={}", args.envs));
    let mut config = settings::configure(&args.target, &sets, registry)?;
    // A policy acts, but nothing is learned.
    config.run.num_steps = 1;
    config.policies.iter_mut().for_each(|plan| plan.config.num_minibatches = 1);
    warp_train::trainer::check_memory(&config, registry, "--envs")?;
    #[cfg(feature = "cuda")]
    if let Device::Cuda(kernels) = &device {
        return cuda::execute(args, &config, registry, kernels, started);
    }
    let alone = measure_alone(&config, registry, threads, args.seconds)?;
    let with_policy = measure_with_policy(&config, registry, threads, args.seconds)?;
    say_rates(args, &config.run.env_id, [alone, with_policy])
}

/// Prints the rates of environments alone and with a policy.
fn say_rates(args: &BenchArgs, env: &str, [alone, with_policy]: [f64; 2]) -> Result<Outcome> {
    let (envs, threads) = (args.envs, thread_count(args.threads));
    if !args.json {
        say(&format!("{env}, {envs} replicas, {threads} threads, observations written"))?;
        say(&format!("environment alone   {}steps/s", short(alone)))?;
        say(&format!("with a policy       {}steps/s", short(with_policy)))?;
        return Ok(Outcome::Done);
    }
    let figures = |rate: f64| {
        json!({
            "env": env,
            "device": Device::Cpu.name(),
            "envs": envs,
            "threads": threads,
            "observations_written": true,
            "env_steps_per_second": rate,
        })
    };
    let mut all = figures(alone);
    if let Value::Object(all) = &mut all {
        all.insert("with_policy".into(), figures(with_policy));
    }
    print_json(&all)?;
    Ok(Outcome::Done)
}

fn make(config: &TrainConfig, registry: &Registry, threads: usize) -> Result<Box<dyn VecEnv>> {
    let options = VecOptions { threads, ..config.vec_options() };
    Ok(registry.get(&config.run.env_id)?.make(&config.env, &options)?)
}

fn measure_alone(
    config: &TrainConfig,
    registry: &Registry,
    threads: usize,
    seconds: f64,
) -> Result<f64> {
    let mut envs = make(config, registry, threads)?;
    let masked = envs.ids().action_mask.iter().any(Option::is_some);
    let n_sets = if masked { 0 } else { ACTION_SETS };
    let mut sets = Vec::new();
    for set in 0..n_sets {
        write_random_actions(&mut *envs, set as u32)?;
        sets.push(read_actions(&*envs));
    }
    let mut step = 0;
    rate(seconds, config.run.num_envs, || {
        if masked {
            let run_step = envs.run_step();
            write_random_actions(&mut *envs, run_step)?;
        } else {
            write_actions(&mut *envs, &sets[step % sets.len()])?;
            step += 1;
        }
        Ok(envs.step()?)
    })
}

/// Steps per second of the environment of `config` alone, with random actions, on the device that trains.
fn rate_of_world(config: &TrainConfig, place: &Place<'_>, seconds: f64) -> Result<f64> {
    match place.device {
        Device::Cpu => measure_alone(config, place.plain, place.threads, seconds),
        #[cfg(feature = "cuda")]
        Device::Cuda(kernels) => cuda::rate_of_world(config, place.plain, kernels),
    }
}

fn measure_with_policy(
    config: &TrainConfig,
    registry: &Registry,
    threads: usize,
    seconds: f64,
) -> Result<f64> {
    let mut envs = make(config, registry, threads)?;
    let mut learner = learner("auto", config, threads)?;
    let mut rollout = Rollout::new(config);
    let random = vec![false; config.policies.len()];
    rate(seconds, config.run.num_envs, || {
        choose_actions(&mut *learner, &mut rollout, &mut *envs, Mode::Sample, &random)?;
        Ok(envs.step()?)
    })
}

/// Runs `step` for a while; the median rate of several windows, after a warm-up of one.
fn rate(seconds: f64, n_envs: usize, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let window = Duration::from_secs_f64(seconds / WINDOWS as f64);
    let mut rates = Vec::new();
    for _ in 0..=WINDOWS {
        let started = Instant::now();
        let mut steps = 0u64;
        // Reading the clock is not free, so it is not read after every step.
        while started.elapsed() < window {
            for _ in 0..if steps < 64 { 1 } else { 16 } {
                step()?;
                steps += 1;
            }
        }
        rates.push(steps as f64 * n_envs as f64 / started.elapsed().as_secs_f64());
    }
    let mut rates = rates.split_off(1);
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

/// One group's actions, kept.
enum KeptActions {
    Discrete(Vec<i32>),
    Continuous(Vec<f32>),
}

fn read_actions(envs: &dyn VecEnv) -> Vec<KeptActions> {
    let groups = envs.spec().groups.iter().zip(&envs.ids().action);
    let read = |(group, id): (&warp_core::GroupSpec, &_)| match group.action {
        Space::Box { .. } => KeptActions::Continuous(envs.store().slice(*id).to_vec()),
        _ => KeptActions::Discrete(envs.store().slice(*id).to_vec()),
    };
    groups.map(read).collect()
}

fn write_actions(envs: &mut dyn VecEnv, actions: &[KeptActions]) -> Result<()> {
    for (g, actions) in actions.iter().enumerate() {
        let target = envs.actions_mut(g)?;
        match actions {
            KeptActions::Discrete(a) => target.discrete().copy_from_slice(a),
            KeptActions::Continuous(a) => target.continuous().copy_from_slice(a),
        }
    }
    Ok(())
}

/// Random actions for every agent, within the masks.
pub(super) fn write_random_actions(envs: &mut dyn VecEnv, step: u32) -> Result<()> {
    let (spec, ids, seed) = (envs.spec().clone(), envs.ids().clone(), envs.options().seed);
    for (g, group) in spec.groups.iter().enumerate() {
        let first_agent = spec.first_agent(g) as u32;
        let n_agents = group.n_agents as u32;
        let mask = ids.action_mask[g].map(|id| envs.store().slice::<u8>(id).to_vec());
        let rows = Rows { first_agent, n_agents, ..Rows::new(seed, step) };
        match &group.action {
            Space::Box { low, high, .. } => {
                let elements = GaussianLayout::new(low, high, Bounding::Clip)?;
                elements.random_actions(&rows, envs.actions_mut(g)?.continuous())?;
            }
            action => {
                let heads = CategoricalLayout::new(&action.head_sizes())?;
                let target = envs.actions_mut(g)?.discrete();
                heads.random_actions(mask.as_deref(), &rows, target)?;
            }
        }
    }
    Ok(())
}
