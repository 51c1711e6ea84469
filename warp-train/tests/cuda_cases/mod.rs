//! What the tests of learners on a GPU share: runs of every kind, an iteration here and one there, and
//! what counts as the same.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod go_on;
pub(crate) mod hold;
pub(crate) mod many_inputs;
pub(crate) mod normed;
pub(crate) mod of_128;
pub(crate) mod one_launch;
pub(crate) mod padded;
pub(crate) mod relay;
pub(crate) mod remembers;
pub(crate) mod replay;
pub(crate) mod shards;
pub(crate) mod small;
pub(crate) mod texts;

use libtest_mimic::Failed;
use warp_core::toml::Table;
use warp_func::cuda::{Build, Device, Kernels, nvrtc_version};
use warp_func::{Registry, VecEnv};
use warp_train::config::TrainConfig;
use warp_train::learner::{Learner, LearnerState, Progress};
use warp_train::metrics::PolicyFigures;
use warp_train::native::NativeLearner;
use warp_train::native::cuda::CudaLearner;

pub(crate) type Result<T> = std::result::Result<T, Failed>;

/// A name and keys.
pub(crate) type Case = (&'static str, &'static str);

/// In the order of names, which a checkpoint need not keep.
pub(crate) fn sorted(mut state: LearnerState) -> LearnerState {
    state.weights.sort_by(|a, b| a.name.cmp(&b.name));
    state.optimizer.sort_by(|a, b| a.name.cmp(&b.name));
    state.statistics.sort_by(|a, b| a.name.cmp(&b.name));
    state.numbers.sort_by(|a, b| a.name.cmp(&b.name));
    state.flags.sort_by(|a, b| a.name.cmp(&b.name));
    state.optimizer_steps.sort();
    state
}

/// Rules of the optimiser beside its default. The large epsilon keeps a step from being the sign of a gradient.
pub(crate) const STEPS: [Case; 2] = [
    (
        "rmsprop, weight decay, a rate of the critic's own",
        "optimiser = \"rmsprop\"\nweight_decay = 0.5\nlearning_rate = 0.005\n\
         critic_learning_rate = 0.02\nadam_eps = 0.1\n",
    ),
    (
        "adam, weight decay, a rate of the critic's own that changes",
        "weight_decay = 0.5\nlearning_rate = 0.005\ncritic_learning_rate = [[0, 0.02], [9000, 0.001]]\n\
         adam_eps = 0.1\n",
    ),
];
pub(crate) const SHARED_GAUSSIAN: Case = (
    "gaussian, shared trunk, relu",
    "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128]\nnum_minibatches = 1\n\
     shared_trunk = true\nactivation = \"relu\"\nupdate_epochs = 1",
);
pub(crate) const ODD_WIDTHS: Case = (
    "one policy for two groups, odd widths",
    "env_id = \"tag_continuous\"\nnum_envs = 5\nnum_steps = 9\nhidden = [40, 24, 33]\n\
     num_minibatches = 1\nupdate_epochs = 1\n[env]\nnum_taggers = 3\nnum_runners = 8\n\
     tagging_distance = 0.1\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
);
pub(crate) const MASKS: Case = (
    "masks, a policy that does not learn",
    "env_id = \"covid19\"\nnum_envs = 3\nnum_steps = 6\nhidden = [64]\nalgorithm = \"a2c\"\n\
     [policy.planner]\nto_train = false\n[policy.governor]\nhidden = [128, 64]",
);
pub(crate) const NO_HIDDEN_LAYER: Case = (
    "no hidden layer",
    "env_id = \"acrobot\"\nnum_envs = 16\nnum_steps = 10\nhidden = []\nnum_minibatches = 1\n\
     update_epochs = 1",
);

/// Why nothing can be compiled here.
pub(crate) fn no_compiler() -> Option<String> {
    nvrtc_version().err().map(|error| error.to_string())
}

/// Why nothing can be run here.
pub(crate) fn no_device() -> Option<String> {
    no_compiler().or_else(|| Device::open(0).err().map(|error| error.to_string()))
}

/// Every environment that runs are of.
pub(crate) fn registry() -> Registry {
    warp_envs::registry().with::<relay::Relay>()
}

pub(crate) fn config(keys: &str) -> Result<TrainConfig> {
    let table = keys.parse::<Table>().map_err(|e| e.to_string())?;
    Ok(TrainConfig::resolve(&table, &registry())?)
}

pub(crate) fn envs_on_gpu(config: &TrainConfig) -> Result<Box<dyn VecEnv>> {
    envs_on_gpu_number(0, config)
}

fn envs_on_gpu_number(number: usize, config: &TrainConfig) -> Result<Box<dyn VecEnv>> {
    let kernels = Kernels::new(&Device::open(number)?);
    let registry = registry();
    let entry = registry.get(&config.run.env_id)?;
    Ok(entry.make_cuda(&config.env, &config.vec_options(), &kernels, Build::Parity)?)
}

pub(crate) fn progress(config: &TrainConfig, iteration: u64) -> Progress {
    let env_steps = iteration * config.steps_per_iteration();
    Progress { iteration, env_steps, seed: config.run.seed }
}

/// What iterations leave: the figures of the last one, and what a checkpoint would hold.
pub(crate) struct Done {
    pub(crate) seen: Vec<PolicyFigures>,
    pub(crate) state: LearnerState,
}

/// `n` iterations behind `before`, in episodes that begin, by a learner with its rollout on the GPU.
pub(crate) fn on_gpu(
    config: &TrainConfig,
    learner: &mut dyn Learner,
    before: u64,
    n: u64,
) -> Result<Done> {
    done(config, learner, &mut *envs_on_gpu(config)?, before, n)
}

/// The same on one of several GPUs.
pub(crate) fn on_gpu_number(
    number: usize,
    config: &TrainConfig,
    learner: &mut dyn Learner,
    before: u64,
    n: u64,
) -> Result<Done> {
    done(config, learner, &mut *envs_on_gpu_number(number, config)?, before, n)
}

fn done(
    config: &TrainConfig,
    learner: &mut dyn Learner,
    envs: &mut dyn VecEnv,
    before: u64,
    n: u64,
) -> Result<Done> {
    let mut done = learner.iterate(envs, progress(config, before), n)?;
    let seen = done.pop().ok_or("nothing was said of the iteration")?.policies;
    Ok(Done { seen, state: learner.state() })
}

/// The same on the CPU.
pub(crate) fn on_cpu(
    config: &TrainConfig,
    learner: &mut dyn Learner,
    before: u64,
    n: u64,
) -> Result<Done> {
    let registry = registry();
    let entry = registry.get(&config.run.env_id)?;
    done(config, learner, &mut *entry.make(&config.env, &config.vec_options())?, before, n)
}

/// One iteration on the GPU and on the CPU; a second one where the first leaves something for it.
pub(crate) fn both(config: &TrainConfig) -> Result<[Done; 2]> {
    let normalises = config.policies.iter().any(|plan| plan.config.norm_obs);
    let n = if normalises { 2 } else { 1 };
    Ok([
        on_gpu(config, &mut CudaLearner::new(config, 1)?, 0, n)?,
        on_cpu(config, &mut NativeLearner::new(config, 1)?, 0, n)?,
    ])
}

/// The steps of two iterations move the weights as they do on the CPU, but for `bound` of the way.
pub(crate) fn steps(config: &TrainConfig, bound: f64) -> Result<()> {
    let start = NativeLearner::new(config, 1)?.state();
    let found = on_gpu(config, &mut CudaLearner::new(config, 1)?, 0, 2)?;
    let expected = on_cpu(config, &mut NativeLearner::new(config, 1)?, 0, 2)?;
    for (a, b) in found.seen.iter().zip(&expected.seen) {
        check_figure("critic_learning_rate", a, b, 1e-12)?;
    }
    for (tensor, before) in expected.state.weights.iter().zip(&start.weights) {
        let other = found.state.weights.iter().find(|other| other.name == tensor.name);
        let other = other.ok_or_else(|| format!("no tensor {}", tensor.name))?;
        let way = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
        };
        let (apart, way) = (way(&other.data, &tensor.data), way(&tensor.data, &before.data));
        // False for what is no number.
        let fits = apart <= bound * way;
        if !fits {
            return Err(
                format!("{}: {apart:.1e} apart after a way of {way:.1e}", tensor.name).into()
            );
        }
    }
    Ok(())
}

/// Where schedules have come to their ends an iteration leaves the bits that their last values leave as numbers; at
/// their beginning it does not.
pub(crate) fn schedules_end_as_numbers(keys: &str) -> Result<()> {
    let ends = [("gamma", 0.9, 0.7), ("gae_lambda", 0.5, 0.8), ("max_grad_norm", 5.0, 0.1)];
    let ends = ends.into_iter().chain([("clip_coef", 0.5, 0.01)]);
    let (mut points, mut numbers) = (String::new(), String::new());
    for (key, first, last) in ends {
        points += &format!("{key} = [[0, {first:?}], [10, {last:?}]]\n");
        numbers += &format!("{key} = {last:?}\n");
    }
    let after = |given: &str, before: u64| -> Result<LearnerState> {
        let config = config(&format!("{given}{keys}"))?;
        Ok(on_gpu(&config, &mut CudaLearner::new(&config, 1)?, before, 1)?.state)
    };
    let same = |before| -> Result<bool> { Ok(after(&points, before)? == after(&numbers, before)?) };
    match (same(0)?, same(3)?) {
        (false, true) => Ok(()),
        (at_first, at_last) => {
            Err(format!("the same at first: {at_first}, at last: {at_last}").into())
        }
    }
}

/// ||a - b|| / ||b|| over the first moments, each a tenth of the clipped gradient: the gradient
/// itself, where Adam's step would be its sign. RMSprop has only second moments.
pub(crate) fn distance(found: &LearnerState, expected: &LearnerState) -> Result<f64> {
    let firsts = expected.optimizer.iter().filter(|tensor| tensor.name.ends_with(".exp_avg"));
    let has_firsts = firsts.flat_map(|tensor| &tensor.data).any(|x| *x != 0.0);
    let moments = if has_firsts { ".exp_avg" } else { ".exp_avg_sq" };
    let (mut difference, mut size) = (0.0, 0.0);
    for tensor in &expected.optimizer {
        let other = found.optimizer.iter().find(|other| other.name == tensor.name);
        let other = other.ok_or_else(|| format!("no tensor {}", tensor.name))?;
        if !tensor.name.ends_with(moments) {
            continue;
        }
        for (a, b) in other.data.iter().zip(&tensor.data) {
            difference += f64::from(a - b).powi(2);
            size += f64::from(*b).powi(2);
        }
    }
    Ok((difference / size).sqrt())
}

pub(crate) fn check(name: &str, found: f64, expected: f64, bound: f64) -> Result<()> {
    // False for what is no number.
    let fits = (found - expected).abs() <= bound * (1.0 + expected.abs());
    if fits { Ok(()) } else { Err(format!("{name} is {found}, expected {expected}").into()) }
}

/// The same of a figure that both have.
pub(crate) fn check_figure(
    name: &str,
    found: &PolicyFigures,
    expected: &PolicyFigures,
    bound: f64,
) -> Result<()> {
    let missing = || format!("there is no figure {name}");
    let figure = |of: &PolicyFigures| of.get(name).ok_or_else(missing);
    check(name, figure(found)?, figure(expected)?, bound)
}

/// Figures within `of_figures`, first moments within `of_moments`; returns how far the latter are.
pub(crate) fn near(
    found: &Done,
    expected: &Done,
    (of_figures, of_moments): (f64, f64),
) -> Result<f64> {
    if found.seen.len() != expected.seen.len() {
        return Err("figures of another number of policies".into());
    }
    for (a, b) in found.seen.iter().zip(&expected.seen) {
        // Means of what a rollout holds are the CPU's alone.
        for (name, _) in a.iter() {
            check_figure(name, a, b, if name == "learning_rate" { 0.0 } else { of_figures })?;
        }
    }
    let distance = distance(&found.state, &expected.state)?;
    let fits = distance <= of_moments;
    if fits { Ok(distance) } else { Err(format!("gradients differ by {distance:e}").into()) }
}

/// How far figures and gradients may be off where operands are fp16.
pub(crate) const NEAR: (f64, f64) = (0.02, 0.03);
/// Several minibatches are of other samples than the CPU's: their figures are near, not their gradients.
pub(crate) const NEAR_IN_MINIBATCHES: (f64, f64) = (0.1, f64::INFINITY);
/// How much coarser bf16 is: it has 8 bits of a number, fp16 has 11.
pub(crate) const COARSER: f64 = 8.0;

/// With bf16 an iteration is as near the CPU's as its bits allow, and another one than with fp16.
pub(crate) fn near_in_bf16(keys: &str) -> Result<()> {
    let of = |precision: &str| config(&format!("precision = \"{precision}\"\n{keys}"));
    let [found, expected] = both(&of("bf16")?)?;
    let distance = near(&found, &expected, (COARSER * NEAR.0, COARSER * NEAR.1))?;
    println!("bf16: {distance:.2e}: {}", keys.lines().next().unwrap_or_default());
    let [half, _] = both(&of("fp16")?)?;
    if half.state.weights == found.state.weights {
        return Err("fp16 gives the same weights".into());
    }
    Ok(())
}

/// With bf16 a run is repeated and resumed bit by bit.
pub(crate) fn resumes_in_bf16(keys: &str) -> Result<()> {
    resumes(&config(&format!("precision = \"bf16\"\n{keys}"))?, CudaLearner::new)
}

/// What normalisers know, which is of observations that hardly differ.
pub(crate) fn statistics(found: &LearnerState, expected: &LearnerState) -> Result<()> {
    if found.statistics.len() != expected.statistics.len() {
        return Err("other statistics than on the CPU".into());
    }
    for (a, b) in found.statistics.iter().zip(&expected.statistics) {
        for (x, y) in a.data.iter().zip(&b.data) {
            check(&a.name, *x, *y, 0.01)?;
        }
    }
    Ok(())
}

/// Two and two iterations on a GPU are four, and so are four of a run that was only prepared before.
pub(crate) fn resumes<L: Learner>(
    config: &TrainConfig,
    make: impl Fn(&TrainConfig, usize) -> warp_train::Result<L>,
) -> Result<()> {
    let run = |parts: &[u64]| -> Result<LearnerState> {
        let mut envs = envs_on_gpu(config)?;
        let mut learner = make(config, 1)?;
        let mut done = 0;
        for part in parts {
            let state = learner.state();
            learner = make(config, 1)?;
            learner.load_state(&state)?;
            learner.iterate(&mut *envs, progress(config, done), *part)?;
            done += part;
        }
        Ok(learner.state())
    };
    let whole = run(&[4])?;
    if whole != run(&[0, 4])? {
        return Err("the same run gave other weights".into());
    }
    if whole != run(&[2, 2])? {
        return Err("a run that was resumed gave other weights".into());
    }
    Ok(())
}
