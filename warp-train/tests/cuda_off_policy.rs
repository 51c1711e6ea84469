//! Learning from replay memories on a GPU: against the engine on the CPU, repeated, resumed.
//!
//! Without NVRTC the texts are not compiled, without a GPU nothing is run: such tests are reported as
//! ignored, with the reason; that is why this binary has its own harness. `--bench` prints rates.

mod cuda_cases;

use cuda_cases::{
    Case, Done, Result, envs_on_gpu, no_compiler, no_device, progress, registry, remembers,
};
use libtest_mimic::{Arguments, Measurement, Trial};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;
use warp_func::VecEnv;
use warp_func::cuda::{Build, CudaVecEnv, Device, Kernels};
use warp_train::config::{Precision, TrainConfig};
use warp_train::fleet::{FleetEvent, FleetLearner, FleetRun, ThreadFleet, Watch};
use warp_train::learner::{Learner, LearnerState};
use warp_train::native::cuda::off_policy_check::{Kind, pieces, times, wholes};
use warp_train::native::cuda::{CudaFleet, CudaLearner, off_policy_sources};

/// Algorithms, networks and batches of every kind: a name and keys.
const CASES: [Case; 17] = [
    (
        "sac",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 2\nnum_steps = 8\nlearning_starts = 32\n\
         [env]\nepisode_length = 13",
    ),
    (
        "td3, odd widths, clipped",
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 5\nnum_steps = 8\nhidden = [40, 65, 24]\n\
         activation = \"tanh\"\nmax_grad_norm = 0.5\nbatch_size = 100\nn_step = 3\nlearning_starts = 40\n\
         gradient_steps = 2\ntrain_freq = 2\nbuffer_size = 200",
    ),
    (
        "ddpg, noise that goes on",
        "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nnum_envs = 33\nnum_steps = 4\nhidden = [64]\n\
         noise = \"ou\"\nlearning_starts = 0",
    ),
    (
        "dqn, a large batch",
        "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nnum_envs = 40\nnum_steps = 8\nhidden = [32]\n\
         batch_size = 5000\nlearning_starts = 0",
    ),
    (
        "dueling dqn, several agents, prioritised",
        "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48, 48]\n\
         prioritised = true\ndueling = true\nn_step = 2\nlearning_starts = 0\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "dqn, policies by agent",
        "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48]\n\
         learning_starts = 0\n[env]\nnum_taggers = 4\n[policy.odd]\ngroups = [\"tagger[1,3]\", \"runner\"]\n\
         [policy.even]\ngroups = [\"tagger[0,2]\"]\nlearning_rate = 1e-3",
    ),
    (
        "discrete sac, no hidden layer",
        "env_id = \"acrobot\"\nalgorithm = \"sac\"\nnum_envs = 3\nnum_steps = 4\nhidden = []\n\
         learning_starts = 0",
    ),
    (
        "td3, distributions",
        "env_id = \"pendulum\"\nalgorithm = \"fast_td3\"\nnum_envs = 16\nnum_steps = 4\nhidden = [64, 48]\n\
         batch_size = 200\nlearning_starts = 0\natoms = 51\nvalue_min = -40\nvalue_max = 2",
    ),
    (
        "td3, rmsprop, weight decay",
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 4\nnum_steps = 8\nhidden = [48, 32]\n\
         optimiser = \"rmsprop\"\nweight_decay = 0.1\nadam_eps = 0.1\nlearning_starts = 24\nbatch_size = 60",
    ),
    (
        "sac, prioritised",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 3\nnum_steps = 8\nlearning_starts = 24\n\
         hidden = [32]\nbuffer_size = 500\nprioritised = true\npriority_beta = [[0, 0.4], [200, 1.0]]",
    ),
    (
        "sac, layer norm",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 5\nnum_steps = 8\nlearning_starts = 40\n\
         hidden = [40, 33]\nlayer_norm = true\nbatch_size = 100",
    ),
    (
        "dueling dqn, layer norm, a large batch, clipped",
        "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nnum_envs = 40\nnum_steps = 8\nhidden = [32]\n\
         layer_norm = true\ndueling = true\nbatch_size = 5000\nmax_grad_norm = 0.5\nlearning_starts = 0",
    ),
    (
        "sac, layers shared by two blocks",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 2\nnum_steps = 8\nlearning_starts = 32\n\
         hidden = [512, 290]\n[env]\nepisode_length = 13",
    ),
    (
        "td3, tanh, layer norm, layers shared by two blocks",
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 2\nnum_steps = 8\nlearning_starts = 32\n\
         hidden = [290, 512]\nlayer_norm = true\nactivation = \"tanh\"",
    ),
    (
        "td3, tanh, layers shared by eight blocks, clipped",
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 5\nnum_steps = 8\nhidden = [64, 1100]\n\
         activation = \"tanh\"\nmax_grad_norm = 0.5\nbatch_size = 100\nlearning_starts = 40",
    ),
    (
        "ddpg, layers of 32 rows shared by two blocks",
        "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nnum_envs = 33\nnum_steps = 4\nhidden = [300]\n\
         batch_size = 2100\nlearning_starts = 0",
    ),
    (
        "discrete sac, masks, episodes that are cut",
        "env_id = \"taxi\"\nalgorithm = \"sac\"\nnum_envs = 40\nnum_steps = 8\nhidden = [32]\n\
         batch_size = 200\nlearning_starts = 0\n[env]\nepisode_length = 7",
    ),
];

/// Runs whose replay memory has several shards on the GPU.
const SHARDS: [Case; 6] = [
    (
        "sac",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 4\nnum_steps = 8\nlearning_starts = 32\n\
         [env]\nepisode_length = 13",
    ),
    (
        "td3, odd widths, clipped",
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 8\nnum_steps = 8\nhidden = [40, 65, 24]\n\
         activation = \"tanh\"\nmax_grad_norm = 0.5\nbatch_size = 144\nn_step = 3\nlearning_starts = 48\n\
         gradient_steps = 2\ntrain_freq = 2\nbuffer_size = 200",
    ),
    (
        "ddpg, noise that goes on",
        "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nnum_envs = 36\nnum_steps = 4\nhidden = [64]\n\
         noise = \"ou\"\nlearning_starts = 0",
    ),
    (
        "td3, distributions",
        "env_id = \"pendulum\"\nalgorithm = \"fast_td3\"\nnum_envs = 16\nnum_steps = 4\nhidden = [64, 48]\n\
         batch_size = 192\nlearning_starts = 0\natoms = 51\nvalue_min = -40\nvalue_max = 2",
    ),
    (
        "sac, prioritised",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 4\nnum_steps = 8\nlearning_starts = 24\n\
         hidden = [32]\nbuffer_size = 500\nprioritised = true\npriority_beta = [[0, 0.4], [200, 1.0]]",
    ),
    (
        "dueling dqn, several agents, prioritised",
        "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\nnum_envs = 8\nnum_steps = 4\nhidden = [48, 48]\n\
         prioritised = true\ndueling = true\nn_step = 2\nlearning_starts = 0\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
];

/// Taggers that learn from rollouts beside runners that learn from a replay memory.
const MIXED: Case = (
    "a2c beside dqn",
    "env_id = \"tag_gridworld\"\nalgorithm = \"a2c\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48, 48]\n\
     [policy.tagger]\ngroups = [\"tagger\"]\n\
     [policy.runner]\ngroups = [\"runner\"]\nalgorithm = \"dqn\"\nlearning_starts = 24\ntrain_freq = 2",
);

/// What rates are measured of.
const RATES: [Case; 6] = [
    (
        "pendulum, 1 replica",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 1\nnum_steps = 250\nlearning_starts = 0",
    ),
    (
        "pendulum, 16 replicas, 16 updates a step",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 16\nnum_steps = 16\ngradient_steps = 16\n\
         learning_starts = 0",
    ),
    (
        "pendulum, 4096 replicas, batches of 4096",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 4096\nnum_steps = 50\nlearning_starts = 0\n\
         batch_size = 4096",
    ),
    (
        "cartpole, dqn, 16 replicas, 16 updates a step",
        "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nnum_envs = 16\nnum_steps = 16\ntrain_freq = 1\n\
         gradient_steps = 16\nbatch_size = 128\nlearning_starts = 0",
    ),
    (
        "pendulum, 1 replica, 512 x 3",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 1\nnum_steps = 250\nlearning_starts = 0\n\
         hidden = [512, 512, 512]",
    ),
    (
        "pendulum, 1 replica, 1024 x 4",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 1\nnum_steps = 250\nlearning_starts = 0\n\
         hidden = [1024, 1024, 1024, 1024]",
    ),
];

fn main() -> ExitCode {
    let (no_compiler, no_device) = (no_compiler(), no_device());
    for reason in [&no_compiler, &no_device].into_iter().flatten() {
        println!("ignored: {reason}");
    }
    let missing = Missing { compiler: no_compiler.is_some(), device: no_device.is_some() };
    let mut trials = Vec::new();
    for (name, keys) in [CASES[0], CASES[1], CASES[4]] {
        trials.extend(missing.trials(&format!("bf16, {name}"), keys, "bf16", true));
    }
    for (i, (name, keys)) in CASES.into_iter().enumerate() {
        for (j, precision) in ["fp16", "fp32"].into_iter().enumerate() {
            // The compiler takes its time.
            let compiled = (i + j) % 2 == 0;
            trials.extend(missing.trials(
                &format!("{precision}, {name}"),
                keys,
                precision,
                compiled,
            ));
        }
    }
    for (name, keys) in SHARDS {
        for (shards, precision) in [(2, "fp16"), (4, "fp32")] {
            let name = format!("{precision}, {shards} shards, {name}");
            trials.extend(missing.trials(&name, &in_shards(keys, shards), precision, true));
        }
    }
    for precision in ["fp16", "fp32"] {
        for (test, run) in
            [("resumes", resumes as fn(&TrainConfig) -> Result<()>), ("runs_are_the_cpus", runs)]
        {
            let name = format!("cuda_off_policy_{test}: {precision}, {}", MIXED.0);
            let trial = Trial::test(name, move || run(&config(MIXED.1, precision)?));
            trials.push(trial.with_ignored_flag(no_device.is_some()));
        }
    }
    trials.extend(remembers::trials(no_device.is_some()));
    let name = "cuda_off_policy_refuses_to_forbid_everything";
    let trial = Trial::test(name, remembers::refuses_to_forbid_everything);
    trials.push(trial.with_ignored_flag(no_device.is_some()));
    for (case, precision, n) in [
        (CASES[0], "fp16", 64),
        (CASES[0], "fp16", 40),
        (CASES[0], "bf16", 16),
        (CASES[1], "fp16", 64),
        (CASES[1], "fp32", 40),
        (CASES[4], "fp16", 64),
        (CASES[10], "fp16", 64),
        (CASES[12], "fp16", 8),
    ] {
        let name = format!("cuda_off_policy_fleet: {precision}, {n} runs, {}", case.0);
        let trial = Trial::test(name, move || fleet(case.1, precision, n));
        trials.push(trial.with_ignored_flag(no_device.is_some()));
    }
    let sharded = Trial::test("cuda_off_policy_fleet: fp16, 2 shards, sac, prioritised", || {
        fleet(&in_shards(SHARDS[4].1, 2), "fp16", 40)
    });
    trials.push(sharded.with_ignored_flag(no_device.is_some()));
    for n in [8, 16, 32, 64] {
        let name = format!("cuda_off_policy_rate: pendulum, {n} seeds at once");
        let rate = move |test_mode: bool| (!test_mode).then(|| fleet_rate(n)).transpose();
        trials.push(Trial::bench(name, rate).with_ignored_flag(no_device.is_some()));
    }
    for (name, keys) in RATES {
        let trial = Trial::bench(format!("cuda_off_policy_rate: {name}"), move |test_mode| {
            let rate = |()| rate(name, &config(keys, "fp16")?);
            (!test_mode).then_some(()).map(rate).transpose()
        });
        trials.push(trial.with_ignored_flag(no_device.is_some()));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What is not there, so that some tests are ignored.
#[derive(Clone, Copy)]
struct Missing {
    compiler: bool,
    device: bool,
}

impl Missing {
    /// What is to hold of every run, and of its texts if they are to be `compiled`.
    fn trials(self, name: &str, keys: &str, precision: &'static str, compiled: bool) -> Vec<Trial> {
        let trial = |test: &str, run: fn(&TrainConfig) -> Result<()>, ignored: bool| {
            let keys = keys.to_string();
            let run = move || run(&config(&keys, precision)?);
            Trial::test(format!("{test}: {name}"), run).with_ignored_flag(ignored)
        };
        let mut trials = vec![
            trial("cuda_off_policy_pieces_are_the_cpus", near, self.device),
            trial("cuda_off_policy_programs_are_their_pieces", whole, self.device),
            trial("cuda_off_policy_repeats_and_resumes", resumes, self.device),
            trial("cuda_off_policy_runs_are_the_cpus", runs, self.device),
        ];
        trials.extend(compiled.then(|| trial("off_policy_compiles", compiles, self.compiler)));
        trials
    }
}

fn config(keys: &str, precision: &str) -> Result<TrainConfig> {
    cuda_cases::config(&format!("precision = \"{precision}\"\n{keys}"))
}

fn in_shards(keys: &str, shards: usize) -> String {
    format!("shards = {shards}\n{keys}")
}

/// Relative errors of outputs and of derivatives.
fn bounds(config: &TrainConfig) -> [f64; 2] {
    match config.policies[0].config.precision {
        Precision::Single => [1e-5, 1e-5],
        Precision::Half => [2e-3, 0.1],
        // What goes back is bf16 in both.
        Precision::BFloat => [cuda_cases::COARSER * 2e-3, 0.1],
    }
}

/// All programs, of a run by itself and of many, for the H200's machine code; this needs no GPU.
fn compiles(config: &TrainConfig) -> Result<()> {
    for runs in [1, 64] {
        for (source, build) in off_policy_sources(config, runs)? {
            cuda_cases::texts::check(&source, build)?;
        }
    }
    Ok(())
}

fn with_envs<T>(
    config: &TrainConfig,
    of: impl FnOnce(&mut CudaVecEnv) -> warp_train::Result<T>,
) -> Result<T> {
    let mut envs = envs_on_gpu(config)?;
    Ok(of(envs.as_cuda().ok_or("the environments are not on a GPU")?)?)
}

/// Row functions and batches bit by bit, products within a bound.
fn near(config: &TrainConfig) -> Result<()> {
    let seen = with_envs(config, |envs| pieces(config, envs))?;
    let [output, derivative] = bounds(config);
    // Operands of derivatives are rounded on both sides: sums differ, and seldom a unit of relu with them.
    let derivative = derivative.min(0.02);
    let bound = |kind| match kind {
        Kind::Same => 0.0,
        Kind::Output => output,
        Kind::Derivative => derivative,
    };
    let wrong: Vec<_> = seen.iter().filter(|s| s.apart > bound(s.kind)).collect();
    let most = |kind| seen.iter().filter(|s| s.kind == kind).map(|s| s.apart).fold(0.0, f64::max);
    let (output, derivative) = (most(Kind::Output), most(Kind::Derivative));
    println!(
        "{} comparisons: outputs {output:.1e}, derivatives {derivative:.1e} apart",
        seen.len()
    );
    if seen.len() > 5 && wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:#?}").into()) }
}

fn whole(config: &TrainConfig) -> Result<()> {
    let [whole, pieces] = with_envs(config, |envs| wholes(config, envs, 5))?;
    let same = whole == pieces;
    let names = whole.weights.iter().zip(&pieces.weights).filter(|(a, b)| a != b);
    let names: Vec<_> = names.map(|(a, _)| a.name.clone()).collect();
    if same { Ok(()) } else { Err(format!("programs differ from their pieces: {names:?}").into()) }
}

fn resumes(config: &TrainConfig) -> Result<()> {
    cuda_cases::resumes(config, CudaLearner::new)
}

/// A few iterations on both devices; chaos takes its time to grow.
fn runs(config: &TrainConfig) -> Result<()> {
    let run = |learner: &mut dyn Learner, envs: &mut dyn VecEnv| -> Result<Done> {
        let seen = learner.iterate(envs, progress(config, 0), 3)?.pop();
        Ok(Done { seen: seen.ok_or("no iteration")?.policies, state: learner.state() })
    };
    let registry = registry();
    let entry = registry.get(&config.run.env_id)?;
    let mut envs = entry.make(&config.env, &config.vec_options())?;
    let expected = run(&mut *warp_train::native::learner(config, 1)?, &mut *envs)?;
    let found = run(&mut CudaLearner::new(config, 1)?, &mut *envs_on_gpu(config)?)?;
    let [output, derivative] = bounds(config).map(|bound| 10.0 * bound);
    let distance = cuda_cases::near(&found, &expected, (output, derivative))?;
    println!("moments {distance:.2e} apart");
    Ok(())
}

/// Trains runs to their ends.
fn launched(runs: &[FleetRun], watch: &Watch<'_>) -> Result<()> {
    let kernels = Kernels::new(&Device::open(0)?);
    let registry = warp_envs::registry().on_gpu(&kernels, Build::Parity);
    let make = |config: &TrainConfig| -> warp_train::Result<Box<dyn Learner>> {
        Ok(Box::new(CudaLearner::new(config, 1)?))
    };
    let others = ThreadFleet::new(&registry, "native", 1, make);
    Ok(CudaFleet::new(&registry, others, 2).launch(runs, watch)?)
}

/// Trains runs to their ends; returns what they end with, by number.
fn trained(runs: &[FleetRun]) -> Result<BTreeMap<usize, LearnerState>> {
    let ends = Mutex::new(BTreeMap::new());
    launched(runs, &|number, event| {
        if let (FleetEvent::Finished(state), Ok(mut ends)) = (event, ends.lock()) {
            ends.insert(number, state.clone());
        }
        ControlFlow::Continue(())
    })?;
    Ok(ends.into_inner().map_err(|e| e.to_string())?)
}

/// Runs of `keys` with seeds from 5 on.
fn seeds(keys: &str, n: u64, precision: &str) -> Result<Vec<FleetRun>> {
    let run = |number: u64| -> Result<FleetRun> {
        let config = config(&format!("seed = {}\n{keys}", 5 + number), precision)?;
        Ok(FleetRun { number: number as usize, swept: Vec::new(), pauses: false, config })
    };
    (0..n).map(run).collect()
}

/// A run does not depend on how many others there are, nor on whether it is of a fleet.
fn fleet(keys: &str, precision: &str, n: usize) -> Result<()> {
    let (last, before) = (n - 1, n - 2);
    let runs = seeds(&format!("total_steps = 200\n{keys}"), n as u64, precision)?;
    let (many, few) = (trained(&runs)?, trained(&runs[before..])?);
    let config = &runs[last].config;
    let mut envs = envs_on_gpu(config)?;
    let mut alone = CudaLearner::new(config, 1)?;
    let n_iterations = 200_u64.div_ceil(config.steps_per_iteration());
    alone.iterate(&mut *envs, progress(config, 0), n_iterations)?;
    let differs = |run: &usize| many.get(run) != few.get(run);
    if many.len() != n || [before, last].iter().any(differs) {
        return Err("a run of a large fleet differs from that of a small one".into());
    }
    if many.get(&last) != Some(&alone.state()) {
        return Err("a run of a fleet differs from the run by itself".into());
    }
    if many.get(&0) == many.get(&1) {
        return Err("runs of different seeds are the same".into());
    }
    Ok(())
}

/// Iterations between two looks of a fleet at the device.
const AT_ONCE: usize = 64;

/// Prints updates per second of all seeds together: of the iterations between a fleet's first look at the device and
/// its second, without its beginning, whose time varies.
fn fleet_rate(n: u64) -> Result<Measurement> {
    let config = config(RATES[0].1, "fp16")?;
    print_times(&config, n as usize)?;
    let steps = AT_ONCE as u64 * config.run.num_steps as u64;
    let runs = seeds(&format!("total_steps = {}\n{}", 2 * steps, RATES[0].1), n, "fp16")?;
    let times = Mutex::new(Vec::new());
    launched(&runs, &|_, event| {
        if let (FleetEvent::Iterations(_), Ok(mut times)) = (event, times.lock()) {
            times.push(Instant::now());
        }
        ControlFlow::Continue(())
    })?;
    let times = times.into_inner().map_err(|e| e.to_string())?;
    let (first, second) = (times.first(), times.get(n as usize));
    let (first, second) = first.zip(second).ok_or("the fleet ended early")?;
    let each = (*second - *first).as_secs_f64() / (n * steps) as f64;
    println!("{n} seeds: {:.0} updates/s in all", 1.0 / each);
    Ok(Measurement { avg: (1e9 * each) as u64, variance: 0 })
}

/// Prints what programs and their pieces take where `n` runs share the GPU.
fn print_times(config: &TrainConfig, n: usize) -> Result<()> {
    let kernels = Kernels::new(&Device::open(0)?);
    let registry = registry();
    let entry = registry.get(&config.run.env_id)?;
    let make = |_| entry.make_cuda(&config.env, &config.vec_options(), &kernels, Build::Parity);
    let mut envs = (0..n).map(make).collect::<std::result::Result<Vec<_>, _>>()?;
    let envs: Option<Vec<_>> = envs.iter_mut().map(|envs| envs.as_cuda()).collect();
    for (what, us) in times(config, &envs.ok_or("the environments are not on a GPU")?)? {
        println!("{us:9.2} us  {what}");
    }
    Ok(())
}

/// Prints updates and steps per second, and the time of every program and piece.
fn rate(name: &str, config: &TrainConfig) -> Result<Measurement> {
    let mut envs = envs_on_gpu(config)?;
    let mut learner = CudaLearner::new(config, 1)?;
    learner.iterate(&mut *envs, progress(config, 0), 4)?;
    let clock = Instant::now();
    learner.iterate(&mut *envs, progress(config, 4), 20)?;
    let seconds = clock.elapsed().as_secs_f64();
    let keys = &config.policies[0].config;
    let updates = 20.0 * (config.run.num_steps * keys.gradient_steps / keys.train_freq) as f64;
    print_times(config, 1)?;
    println!("{name}: {:.0} updates/s, {:.1} us each", updates / seconds, 1e6 * seconds / updates);
    Ok(Measurement { avg: (1e9 * seconds / updates) as u64, variance: 0 })
}
