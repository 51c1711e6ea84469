//! The native learner on a GPU, small path: against the learner on the CPU, repeated, resumed, in fleets.
//!
//! Without NVRTC the texts are not compiled, without a GPU nothing is run: such tests are reported as
//! ignored, with the reason; that is why this binary has its own harness.

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Mutex;
use warp_core::toml::Table;
use warp_func::VecEnv;
use warp_func::cuda::{Build, Device, Kernels, compile, env_kernels, nvrtc_version};
use warp_train::config::TrainConfig;
use warp_train::fleet::{FleetEvent, FleetLearner, FleetRun, ThreadFleet};
use warp_train::learner::{Learner, LearnerState, Progress};
use warp_train::metrics::PolicyMetrics;
use warp_train::native::NativeLearner;
use warp_train::native::cuda::{CudaFleet, CudaLearner, small_sources};
use warp_train::rollout::Rollout;

type Result<T> = std::result::Result<T, Failed>;

/// Networks, heads, algorithms, and every way of collecting: a name and keys.
const CASES: [(&str, &str); 10] = [
    (
        "ppo, truncations, several minibatches",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 2\n\
         [env]\nepisode_length = 9",
    ),
    (
        "a2c, relu, shared trunk",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         activation = \"relu\"\nshared_trunk = true",
    ),
    (
        "three choices, layers of 128",
        "env_id = \"acrobot\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 1\nmax_grad_norm = 0",
    ),
    (
        "gaussian",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nnum_minibatches = 1\nupdate_epochs = 1\n\
         log_std_init = -0.5",
    ),
    (
        "gaussian, deviations from the network, the original's last step",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         log_std = \"state_dependent\"\ncompat_last_step = true\nnorm_adv = false",
    ),
    (
        "a block per network",
        "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 64\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "a block for a shared trunk",
        "env_id = \"acrobot\"\nnum_envs = 3\nnum_steps = 40\nhidden = [32, 32]\nshared_trunk = true\n\
         num_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "16 replicas a warp",
        "env_id = \"acrobot\"\nnum_envs = 4104\nnum_steps = 3\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "32 replicas a warp",
        "env_id = \"acrobot\"\nnum_envs = 16400\nnum_steps = 2\nnum_minibatches = 1\nupdate_epochs = 1\n\
         hidden = [32, 32]",
    ),
    (
        "two blocks on a multiprocessor",
        "env_id = \"cartpole\"\nnum_envs = 16384\nnum_steps = 13\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
];

fn main() -> ExitCode {
    let no_compiler = nvrtc_version().err().map(|error| error.to_string());
    let no_device = no_compiler.clone().or_else(|| Device::open(0).err().map(|e| e.to_string()));
    for reason in [&no_compiler, &no_device].into_iter().flatten() {
        println!("ignored: {reason}");
    }
    let mut trials = Vec::new();
    for (name, keys) in CASES {
        let trial = |test: &str, run: fn(&str) -> Result<()>, ignored: bool| {
            Trial::test(format!("{test}: {name}"), move || run(keys)).with_ignored_flag(ignored)
        };
        trials.push(trial("small_compiles", compiles, no_compiler.is_some()));
        trials.push(trial("cuda_small_is_near_the_cpus", near, no_device.is_some()));
        trials.push(trial("cuda_small_repeats_and_resumes", resumes, no_device.is_some()));
    }
    let fleet = Trial::test("cuda_small_fleet_of_one_is_a_run", fleet);
    trials.push(fleet.with_ignored_flag(no_device.is_some()));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn config(keys: &str) -> Result<TrainConfig> {
    let table = keys.parse::<Table>().map_err(|e| e.to_string())?;
    Ok(TrainConfig::resolve(&table, &warp_envs::registry())?)
}

fn compiles(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let registry = warp_envs::registry();
    let env = env_kernels(&registry.get(&config.run.env_id)?.blueprint(&config.env)?)?;
    let sources = small_sources(&config, &env);
    if sources.is_empty() {
        return Err("the small path does not take it".into());
    }
    for source in sources {
        if !compile(&source, Build::Release, "sm_90a")?.starts_with(b"\x7fELF") {
            return Err("no machine code came out".into());
        }
    }
    Ok(())
}

fn envs_on_gpu(config: &TrainConfig) -> Result<Box<dyn VecEnv>> {
    let kernels = Kernels::new(&Device::open(0)?);
    let registry = warp_envs::registry();
    let entry = registry.get(&config.run.env_id)?;
    Ok(entry.make_cuda(&config.env, &config.vec_options(), (&kernels, Build::Parity))?)
}

fn progress(config: &TrainConfig, iteration: u64) -> Progress {
    let env_steps = iteration * config.steps_per_iteration();
    Progress { iteration, env_steps, seed: config.run.seed }
}

fn one_on_cpu(config: &TrainConfig) -> Result<(Vec<PolicyMetrics>, LearnerState)> {
    let registry = warp_envs::registry();
    let entry = registry.get(&config.run.env_id)?;
    let mut envs = entry.make(&config.env, &config.vec_options())?;
    let mut learner = NativeLearner::new(config, 1)?;
    let mut rollout = Rollout::new(config);
    learner.collect(&mut *envs, &mut rollout)?;
    let seen = learner.update(&mut rollout, progress(config, 0))?;
    Ok((seen, learner.state()))
}

/// ||a - b|| / ||b|| over the first moments, each a tenth of the clipped gradient.
fn distance(found: &LearnerState, expected: &LearnerState) -> Result<f64> {
    let (mut difference, mut size) = (0.0, 0.0);
    for tensor in expected.optimizer.iter().filter(|tensor| tensor.name.ends_with(".exp_avg")) {
        let other = found.optimizer.iter().find(|other| other.name == tensor.name);
        let other = other.ok_or_else(|| format!("no tensor {}", tensor.name))?;
        for (a, b) in other.data.iter().zip(&tensor.data) {
            difference += f64::from(a - b).powi(2);
            size += f64::from(*b).powi(2);
        }
    }
    Ok((difference / size).sqrt())
}

/// One iteration has the figures and the gradient that it has on the CPU, but for half precision and the
/// few actions that it changes.
fn near(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let mut envs = envs_on_gpu(&config)?;
    let mut learner = CudaLearner::new(&config, 1)?;
    let done = learner.iterate(&mut *envs, progress(&config, 0), 1)?;
    let (wanted, expected) = one_on_cpu(&config)?;
    for (a, b) in done[0].policies.iter().zip(&wanted) {
        for (name, a, b) in [
            ("policy_loss", a.policy_loss, b.policy_loss),
            ("value_loss", a.value_loss, b.value_loss),
            ("entropy", a.entropy, b.entropy),
            ("approx_kl", a.approx_kl, b.approx_kl),
            ("grad_norm", a.grad_norm, b.grad_norm),
            ("explained_variance", a.explained_variance, b.explained_variance),
        ] {
            // False for what is no number.
            let fits = (a - b).abs() <= 0.02 * (1.0 + b.abs());
            if !fits {
                return Err(format!("{name} is {a}, expected {b}").into());
            }
        }
    }
    let distance = distance(&learner.state(), &expected)?;
    println!("{distance:.2e}: {}", keys.lines().next().unwrap_or_default());
    if distance <= 0.03 { Ok(()) } else { Err(format!("gradients differ by {distance:e}").into()) }
}

/// Two and two iterations are four, and four again are the same four.
fn resumes(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let run = |parts: &[u64]| -> Result<LearnerState> {
        let mut envs = envs_on_gpu(&config)?;
        let mut learner = CudaLearner::new(&config, 1)?;
        let mut done = 0;
        for part in parts {
            let state = learner.state();
            learner = CudaLearner::new(&config, 1)?;
            learner.load_state(&state)?;
            learner.iterate(&mut *envs, progress(&config, done), *part)?;
            done += part;
        }
        Ok(learner.state())
    };
    let whole = run(&[4])?;
    if whole != run(&[4])? {
        return Err("the same run gave other weights".into());
    }
    if whole != run(&[2, 2])? {
        return Err("a run that was resumed gave other weights".into());
    }
    Ok(())
}

/// A run's weights do not depend on how many others share its launch, nor on whether it is of a fleet.
fn fleet() -> Result<()> {
    let keys = "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 32\ntotal_steps = 1280\nseed = ";
    let run = |number: usize, seed: u64| -> Result<FleetRun> {
        Ok(FleetRun { number, swept: Vec::new(), config: config(&format!("{keys}{seed}"))? })
    };
    let kernels = Kernels::new(&Device::open(0)?);
    let registry = warp_envs::registry().on_gpu(&kernels, Build::Parity);
    let train = |runs: &[FleetRun]| -> Result<BTreeMap<usize, LearnerState>> {
        let ends = Mutex::new(BTreeMap::new());
        let make = |config: &TrainConfig| -> warp_train::Result<Box<dyn Learner>> {
            Ok(Box::new(CudaLearner::new(config, 1)?))
        };
        let others = ThreadFleet::new(&registry, "native", 1, make);
        CudaFleet::new(&registry, others, 2).launch(runs, &|number, event| {
            if let (FleetEvent::Finished(state), Ok(mut ends)) = (event, ends.lock()) {
                ends.insert(number, state.clone());
            }
            ControlFlow::Continue(())
        })?;
        Ok(ends.into_inner().map_err(|e| e.to_string())?)
    };
    let many = train(&[run(0, 5)?, run(1, 6)?, run(2, 7)?])?;
    let alone = train(&[run(0, 6)?])?;
    let config = run(0, 6)?.config;
    let mut envs = envs_on_gpu(&config)?;
    let mut learner = CudaLearner::new(&config, 1)?;
    learner.iterate(&mut *envs, progress(&config, 0), 10)?;
    if many.len() != 3 || many.get(&1) != alone.get(&0) || alone.get(&0) != Some(&learner.state()) {
        return Err("a run of a fleet differs from the run by itself".into());
    }
    if many.get(&0) == many.get(&1) {
        return Err("runs of different seeds are the same".into());
    }
    Ok(())
}
