//! What every backend has in common, on a GPU: gradients of given minibatches, and checkpoints that go on
//! elsewhere.
//!
//! Without a GPU the tests are reported as ignored, with the reason; that is why this binary has its
//! own harness.

mod cuda_cases;

use cuda_cases::{
    Case, Done, NO_HIDDEN_LAYER, ODD_WIDTHS, Result, config, near, no_device, sorted,
};
use libtest_mimic::{Arguments, Trial};
use std::path::PathBuf;
use std::process::ExitCode;
use warp_func::Registry;
use warp_func::cuda::{Build, Device, Kernels};
#[cfg(feature = "burn")]
use warp_train::burn::BurnLearner;
use warp_train::config::TrainConfig;
use warp_train::gradcheck::{CheckBatch, CheckOptions, GradientSource, compare};
use warp_train::learner::Learner;
use warp_train::native::NativeLearner;
use warp_train::native::cuda::{CudaGradients, CudaLearner, Products, precompile};
use warp_train::run::{Evaluator, Snapshot, train};
use warp_train::{Checkpoint, Run, Trainer, checkpoint};

/// Networks, heads and boxes of every kind, small and wide.
const GRADIENTS: [Case; 13] = [
    ("two choices, separate networks", "env_id = \"cartpole\""),
    (
        "a shared trunk of relus",
        "env_id = \"acrobot\"\nhidden = [32, 32]\nactivation = \"relu\"\nshared_trunk = true",
    ),
    ("a box", "env_id = \"pendulum\""),
    (
        "a squashed box, deviations from the network",
        "env_id = \"pendulum\"\nhidden = [64, 128]\naction_distribution = \"squashed\"\n\
         log_std = \"state_dependent\"",
    ),
    (
        "so many relus that most rows are near a kink",
        "env_id = \"pendulum\"\nhidden = [128, 128]\nactivation = \"relu\"",
    ),
    (
        "two policies, runners that leave",
        "env_id = \"tag_continuous\"\nhidden = [64]\n[env]\nnum_taggers = 3\nnum_runners = 8\n\
         tagging_distance = 0.1",
    ),
    (
        "several agents, two policies",
        "env_id = \"tag_gridworld\"\nhidden = [32, 32]\n[env]\nnum_taggers = 4",
    ),
    ODD_WIDTHS,
    ("masks, one layer", "env_id = \"covid19\"\nhidden = [40]"),
    ("layer norm", "env_id = \"cartpole\"\nlayer_norm = true"),
    (
        "layer norm, a shared trunk of relus",
        "env_id = \"acrobot\"\nhidden = [32, 32]\nactivation = \"relu\"\nshared_trunk = true\n\
         layer_norm = true",
    ),
    ("layer norm, a box", "env_id = \"pendulum\"\nhidden = [128, 128]\nlayer_norm = true"),
    ("layer norm, odd widths", "env_id = \"cartpole\"\nhidden = [96, 40]\nlayer_norm = true"),
];

/// Runs that change sides: of the small path, and of the wide one in f32.
const RUNS: [Case; 7] = [
    (
        "small, ppo",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 2\n\
         [env]\nepisode_length = 30",
    ),
    (
        "small, a2c, a box",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nalgorithm = \"a2c\"\nhidden = [32, 32]",
    ),
    (
        "small, a block per network",
        "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 64\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "small, several agents, two policies",
        "env_id = \"tag_gridworld\"\nnum_envs = 16\nnum_steps = 10\nhidden = [32, 32]\n\
         algorithm = \"a2c\"\n[env]\nnum_taggers = 4",
    ),
    (
        "wide, normalised observations and rewards",
        "env_id = \"pendulum\"\nnum_envs = 40\nnum_steps = 12\nhidden = [64, 128]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true\nnorm_reward = true\nprecision = \"fp32\"",
    ),
    (
        "wide, two policies",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 12\nhidden = [64, 64]\n\
         algorithm = \"a2c\"\nprecision = \"fp32\"\n[env]\nnum_taggers = 3\nnum_runners = 8\n\
         tagging_distance = 0.1\nepisode_length = 50",
    ),
    NO_HIDDEN_LAYER,
];

/// Ways of learning that those do not take.
const AHEAD: [Case; 3] = [
    (
        "layers on tensor cores, normalised observations",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nhidden = [512, 256]\nnorm_obs = true",
    ),
    (
        "sac",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 2\nnum_steps = 8\nlearning_starts = 8",
    ),
    (
        "a2c beside dqn",
        "env_id = \"tag_gridworld\"\nalgorithm = \"a2c\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48, 48]\n\
         [policy.tagger]\ngroups = [\"tagger\"]\n\
         [policy.runner]\ngroups = [\"runner\"]\nalgorithm = \"dqn\"\nlearning_starts = 24\ntrain_freq = 2",
    ),
];

fn main() -> ExitCode {
    let no_device = no_device();
    if let Some(reason) = &no_device {
        println!("ignored: {reason}");
    }
    let trial = |test: &str, (name, keys): Case, run: fn(&str) -> Result<()>| {
        let trial = Trial::test(format!("cuda_{test}: {name}"), move || run(keys));
        trial.with_ignored_flag(no_device.is_some())
    };
    let gradients = GRADIENTS.map(|case| trial("gradients", case, gradients));
    let in_bf16 = GRADIENTS.map(|case| trial("gradients_in_bf16", case, gradients_in_bf16));
    let runs = RUNS.map(|case| trial("runs_change_sides", case, changes_sides));
    let passing = RUNS.into_iter().chain(AHEAD);
    let passing = passing.map(|case| trial("checkpoints_in_passing", case, in_passing));
    let ahead = RUNS.into_iter().chain(AHEAD);
    let ahead = ahead.map(|case| trial("all_that_compiles_is_begun_ahead", case, ahead_of));
    let room = trial("arrays_are_checked_as_a_sum", ("rice_n", ""), room);
    let trials = std::iter::once(room).chain(gradients).chain(in_bf16).chain(runs).chain(ahead);
    let trials = trials.chain(passing).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What a run loads is what was begun before it, no more and no less.
fn ahead_of(keys: &str) -> Result<()> {
    let (config, registry) = (config(keys)?, warp_envs::registry());
    let kernels = Kernels::new(&Device::open(0)?);
    precompile(&config, &registry, &kernels)?;
    let begun = kernels.n_begun();
    let entry = registry.get(&config.run.env_id)?;
    let mut envs = entry.make_cuda(&config.env, &config.vec_options(), &kernels, Build::Parity)?;
    CudaLearner::new(&config, 1)?.iterate(&mut *envs, cuda_cases::progress(&config, 0), 2)?;
    let (left, loaded) = (kernels.n_begun(), kernels.n_loaded());
    println!("{begun} units: {}", keys.lines().next().unwrap_or_default());
    match begun > 2 && left == 0 && loaded == begun {
        true => Ok(()),
        false => Err(format!("{begun} units were begun, {loaded} loaded, {left} not used").into()),
    }
}

/// A rollout that is too large is refused with what all arrays need, and nothing has been taken; one that fits needs
/// what was planned.
fn room(_: &str) -> Result<()> {
    let learner = |n_envs: usize, n_steps: usize| -> Result<_> {
        let keys = format!("num_envs = {n_envs}\nnum_steps = {n_steps}\nhidden = [64]");
        let config = config(&format!("env_id = \"rice_n\"\n{keys}"))?;
        Ok((CudaLearner::new(&config, 1)?, cuda_cases::envs_on_gpu(&config)?, config))
    };
    let (mut large, mut envs, config) = learner(500, 8000)?;
    let gpu = envs.as_cuda().ok_or("not on a GPU")?.gpu().clone();
    let (held, free) = (gpu.allocations(), gpu.free_bytes()?);
    let done = large.iterate(&mut *envs, cuda_cases::progress(&config, 0), 0);
    let error = done.err().ok_or("it fits")?.to_string();
    println!("{error}");
    if !error.starts_with("the learner's arrays on the GPU would need ")
        || !error.ends_with("are missing: lower num_envs or num_steps")
    {
        return Err(format!("it says: {error}").into());
    }
    if held != gpu.allocations() || gpu.free_bytes()? + (64 << 20) < free {
        return Err("something was taken".into());
    }
    let (mut small, mut envs, config) = learner(20, 30)?;
    let gpu = envs.as_cuda().ok_or("not on a GPU")?.gpu().clone();
    let bytes = || gpu.allocations().iter().map(|held| held.bytes).sum::<u64>();
    let before = bytes();
    small.iterate(&mut *envs, cuda_cases::progress(&config, 0), 1)?;
    match bytes() > before + (1 << 20) {
        true => Ok(()),
        false => Err("a learner that fits has taken nothing".into()),
    }
}

fn gradients_in_bf16(keys: &str) -> Result<()> {
    gradients(&format!("precision = \"bf16\"\n{keys}"))
}

/// Every parameter, against finite differences and the CPU.
fn gradients(keys: &str) -> Result<()> {
    let options = CheckOptions { rows: 96, seed: 1 };
    let config = CheckBatch::shorten(config(keys)?, options.rows);
    let registry = warp_envs::registry();
    let kernels = Kernels::new(&Device::open(0)?);
    let mut native = NativeLearner::new(&config, 1)?;
    let batches = CheckBatch::collect(&config, &registry, &mut native, options)?;
    let own = config.policies.iter().zip(&batches).map(|(plan, batch)| batch.with_own_values(plan));
    let own = own.collect::<warp_train::Result<Vec<_>>>()?;
    for products in [Products::Single, Products::Half, Products::Small] {
        let gpu = CudaGradients::new(&config, &registry, &kernels, products)?;
        let Some(mut gpu) = gpu else { continue };
        let batches = if products == Products::Small { &own } else { &batches };
        let sources: &mut [&mut dyn GradientSource] = &mut [&mut native, &mut gpu];
        let mut found = compare(&config, batches, sources)?;
        found.retain(|c| c.against.starts_with("cuda") || c.backend.starts_with("cuda"));
        let worst = found.iter().fold(0.0f64, |worst, c| worst.max(c.error));
        println!("{products:?}: {worst:.1e}: {}", keys.lines().next().unwrap_or_default());
        if let Some(wrong) = found.iter().find(|c| !c.passed()) {
            return Err(format!("{products:?}: {wrong:?}").into());
        }
        // No comparison of nothing with nothing.
        if worst == 0.0 {
            return Err(format!("{products:?}: no gradient differs in any bit").into());
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Native,
    #[cfg(feature = "burn")]
    Burn,
    Gpu,
}

impl Side {
    /// Those that the build has, with whom each run begins.
    const ALL: &[Self] = &[
        Self::Gpu,
        Self::Native,
        #[cfg(feature = "burn")]
        Self::Burn,
    ];
    /// In the order of comparison: all that follow against the first.
    const NEXT: &[Self] = &[
        Self::Native,
        #[cfg(feature = "burn")]
        Self::Burn,
        Self::Gpu,
    ];

    /// Whether it computes on the processor, in f32.
    fn is_exact(self) -> bool {
        self != Self::Gpu
    }
}

fn trainer(config: &TrainConfig, side: Side, gpu: &Registry) -> Result<Trainer> {
    let cpu = warp_envs::registry();
    let (registry, learner): (_, Box<dyn Learner>) = match side {
        Side::Native => (&cpu, Box::new(NativeLearner::new(config, 1)?)),
        #[cfg(feature = "burn")]
        Side::Burn => (&cpu, Box::new(BurnLearner::new(config, 1)?)),
        Side::Gpu => (gpu, Box::new(CudaLearner::new(config, 1)?)),
    };
    Ok(Trainer::new(config.clone(), registry, learner, 1)?)
}

/// A run that any side began goes on at every other: the same policy, the same environments, and an
/// iteration from there that is as near to the CPU's as one from the start.
fn changes_sides(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let kernels = Kernels::new(&Device::open(0)?);
    let gpu = warp_envs::registry().on_gpu(&kernels, Build::Parity);
    // Half precision moves an action now and then, and with it everything behind it.
    let exact = keys.contains("fp32");
    let bounds = if exact { (1e-4, 1e-4) } else { (0.02, 0.03) };
    for &began in Side::ALL {
        let folder = Folder::new(&format!("{began:?}"))?;
        let mut first = trainer(&config, began, &gpu)?;
        first.iterate_times(3)?;
        first.sync()?;
        let state = first.learner().state();
        let path = checkpoint::save(
            &folder.0,
            &Snapshot::of(&first.counters(), state.clone(), first.envs()),
        )?;
        let kept = Checkpoint::open(&path)?;
        let mut expected = None;
        for &side in Side::NEXT {
            let mut next = trainer(&config, side, &gpu)?;
            next.restore(&kept)?;
            if sorted(next.learner().state()) != sorted(kept.learner.clone()) {
                return Err(format!("{side:?} took over other tensors from {began:?}").into());
            }
            let metrics = next.iterate_times(1)?.remove(0);
            let seen = metrics.policy.values().cloned().collect();
            let done = Done { seen, state: next.learner().state() };
            let bounds = if side.is_exact() { (1e-4, 1e-4) } else { bounds };
            let Some(expected) = &expected else {
                expected = Some(done);
                continue;
            };
            let distance = near(&done, expected, bounds);
            let distance = distance.map_err(|e| format!("{began:?} to {side:?}: {e:?}"))?;
            println!("{began:?} to {side:?}: {distance:.1e}: {}", &keys[..keys.len().min(24)]);
        }
    }
    Ok(())
}

/// Checkpoints that are taken while the GPU goes on are those of a run that waits for them, byte for byte.
fn in_passing(keys: &str) -> Result<()> {
    let mut config = config(keys)?;
    let steps = config.steps_per_iteration();
    (config.run.total_steps, config.run.checkpoint_steps) = (4 * steps, Some(steps));
    config.run.keep_checkpoints = 9;
    let kernels = Kernels::new(&Device::open(0)?);
    let gpu = warp_envs::registry().on_gpu(&kernels, Build::Parity);
    let (folder, mut going) = (Folder::new("passing")?, trainer(&config, Side::Gpu, &gpu)?);
    going.sync()?;
    let mut run = Run::create(&folder.0.join("run"), "", &going)?;
    train(&mut going, Evaluator { registry: &gpu, threads: 1 }, &mut [&mut run])?;
    run.settle()?;
    let mut waiting = trainer(&config, Side::Gpu, &gpu)?;
    for _ in 0..4 {
        waiting.iterate()?;
        waiting.sync()?;
        let snapshot = waiting.snapshot()?;
        let expected = checkpoint::save(&folder.0.join("waiting"), &snapshot)?;
        let found = Run::checkpoints(run.folder()).join(expected.file_name().unwrap_or_default());
        for entry in std::fs::read_dir(&expected)? {
            let path = entry?.path();
            let same = found.join(path.file_name().unwrap_or_default());
            if std::fs::read(&path)? != std::fs::read(&same)? {
                return Err(format!("{} differs", same.display()).into());
            }
        }
    }
    Ok(())
}

/// A folder that vanishes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self> {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("warp-sides-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|e| e.to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
