//! The native learner on a GPU, small path: against the learner on the CPU, repeated, resumed, in fleets.
//!
//! Without NVRTC the texts are not compiled, without a GPU nothing is run: such tests are reported as
//! ignored, with the reason; that is why this binary has its own harness.

mod cuda_cases;

use cuda_cases::normed::NORMED_SMALL;
use cuda_cases::padded::PADDED;
use cuda_cases::shards::SHARDS;
use cuda_cases::small::{compiles, diverging_runs_are_told, near, near_in_minibatches, resumes};
use cuda_cases::{
    Case, Result, STEPS, config, near_in_bf16, no_compiler, no_device, registry, resumes_in_bf16,
    schedules_end_as_numbers, sorted, steps,
};
use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use warp_func::Registry;
use warp_func::cuda::{Build, Device, Kernels, Source, env_kernels};
use warp_train::Trainer;
use warp_train::config::TrainConfig;
use warp_train::fleet::{FleetEvent, FleetLearner, FleetRun, ThreadFleet, Watch};
use warp_train::learner::{Learner, LearnerState};
use warp_train::native::cuda::{CudaFleet, CudaLearner, small_sources};

/// Networks, heads, algorithms, and every way of collecting: a name and keys.
const CASES: [Case; 24] = [
    (
        "ppo, truncations, several minibatches",
        "env_id = \"cartpole\"\nnum_envs = 48\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 2\n\
         [env]\nepisode_length = 9",
    ),
    (
        "a2c, relu, shared trunk",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         activation = \"relu\"\nshared_trunk = true",
    ),
    (
        "shared trunk, layers of 64",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nshared_trunk = true\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
    (
        "three choices, layers of 128",
        "env_id = \"acrobot\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 1\nmax_grad_norm = 0",
    ),
    (
        "gaussian",
        "env_id = \"pendulum\"\nnum_envs = 48\nnum_steps = 12\nnum_minibatches = 1\nupdate_epochs = 1\n\
         log_std_init = -0.5",
    ),
    (
        "gaussian, deviations from the network, the original's last step",
        "env_id = \"pendulum\"\nnum_envs = 48\nnum_steps = 12\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         log_std = \"state_dependent\"\ncompat_last_step = true\nnorm_adv = false",
    ),
    (
        "a block per network",
        "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 64\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "a block per network, layers of 32",
        "env_id = \"acrobot\"\nnum_envs = 5\nnum_steps = 40\nhidden = [32, 32]\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
    (
        "a block for a shared trunk",
        "env_id = \"acrobot\"\nnum_envs = 3\nnum_steps = 40\nhidden = [32, 32]\nshared_trunk = true\n\
         num_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "a block per network, gaussian, a minibatch of several tiles",
        "env_id = \"pendulum\"\nnum_envs = 7\nnum_steps = 50\nnum_minibatches = 1\nupdate_epochs = 1\n\
         log_std_init = -0.5",
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
        "normalised observations and rewards, truncations",
        "env_id = \"acrobot\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 1\n\
         norm_obs = true\nnorm_reward = true\n[env]\nepisode_length = 7",
    ),
    (
        "squashed actions, normalised",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nnum_minibatches = 1\nupdate_epochs = 1\n\
         action_distribution = \"squashed\"\nent_coef = 0.1\nnorm_obs = true\nnorm_reward = true",
    ),
    (
        "squashed actions, deviations from the network",
        "env_id = \"pendulum\"\nnum_envs = 4\nnum_steps = 60\nnum_minibatches = 1\nupdate_epochs = 1\n\
         action_distribution = \"squashed\"\nlog_std = \"state_dependent\"\nent_coef = 0.1",
    ),
    (
        "normalised rewards, 16 replicas a warp, a row per thread",
        "env_id = \"mountain_car\"\nnum_envs = 4104\nnum_steps = 4\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_reward = true\n[env]\nepisode_length = 3",
    ),
    (
        "normalised observations, 32 replicas a warp",
        "env_id = \"acrobot\"\nnum_envs = 16400\nnum_steps = 2\nnum_minibatches = 1\nupdate_epochs = 1\n\
         norm_obs = true",
    ),
    (
        "two blocks on a multiprocessor",
        "env_id = \"cartpole\"\nnum_envs = 16384\nnum_steps = 13\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "a block per network, normalised, truncations",
        "env_id = \"acrobot\"\nnum_envs = 5\nnum_steps = 40\nnum_minibatches = 1\nupdate_epochs = 1\n\
         norm_obs = true\nnorm_reward = true\n[env]\nepisode_length = 7",
    ),
    (
        "a block for a shared trunk, normalised, squashed actions",
        "env_id = \"pendulum\"\nnum_envs = 7\nnum_steps = 24\nnum_minibatches = 1\nupdate_epochs = 1\n\
         shared_trunk = true\naction_distribution = \"squashed\"\nnorm_obs = true\nnorm_reward = true",
    ),
    (
        "epochs that end early",
        "env_id = \"acrobot\"\nnum_envs = 32\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 5\n\
         learning_rate = 3e-3\ntarget_kl = 1e-7",
    ),
    (
        "a2c, two shards",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         shards = 2",
    ),
    (
        "sixteen numbers, layers of 128",
        "env_id = \"frozen_lake\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
    (
        "sixteen numbers, layers of 128, 16 replicas a warp, shared trunk",
        "env_id = \"frozen_lake\"\nnum_envs = 4104\nnum_steps = 4\nhidden = [128, 128]\nshared_trunk = true\n\
         num_minibatches = 1\nupdate_epochs = 1\nactivation = \"relu\"",
    ),
];

/// Runs that share launches.
const FLEETS: [(&str, &str); 4] = [
    ("cartpole", "env_id = \"cartpole\""),
    ("padded layers", "env_id = \"cartpole\"\nhidden = [48, 20]"),
    (
        "normalised",
        "env_id = \"acrobot\"\nnorm_obs = true\nnorm_reward = true\nenv = { episode_length = 40 }",
    ),
    (
        "many updates of squashed actions, normalised rewards",
        "env_id = \"pendulum\"\nnum_minibatches = 16\nupdate_epochs = 10\nnorm_reward = true\n\
         action_distribution = \"squashed\"",
    ),
];

/// Those that are tried with bf16, too: every activation, head, width and way of collecting.
const IN_BF16: [usize; 10] = [0, 1, 3, 4, 6, 10, 12, 13, 17, 22];

fn main() -> ExitCode {
    let (no_compiler, no_device) = (no_compiler(), no_device());
    for reason in [&no_compiler, &no_device].into_iter().flatten() {
        println!("ignored: {reason}");
    }
    let mut trials = Vec::new();
    for (name, keys) in IN_BF16.map(|case| CASES[case]).into_iter().chain([NORMED_SMALL[0]]) {
        let trial = |test: &str, run: fn(&str) -> Result<()>, ignored: bool| {
            Trial::test(format!("{test}: {name}"), move || run(keys)).with_ignored_flag(ignored)
        };
        let compiles = |keys: &str| compiles(&format!("precision = \"bf16\"\n{keys}"), 1);
        trials.push(trial("small_compiles_in_bf16", compiles, no_compiler.is_some()));
        trials.push(trial("cuda_small_bf16_is_near_the_cpus", near_in_bf16, no_device.is_some()));
        let resumes = resumes_in_bf16;
        trials.push(trial("cuda_small_bf16_repeats_and_resumes", resumes, no_device.is_some()));
    }
    for (name, keys) in CASES.into_iter().chain(NORMED_SMALL).chain(PADDED) {
        let trial = |test: &str, run: fn(&str) -> Result<()>, ignored: bool| {
            Trial::test(format!("{test}: {name}"), move || run(keys)).with_ignored_flag(ignored)
        };
        trials.push(trial("small_compiles", |keys| compiles(keys, 1), no_compiler.is_some()));
        trials.push(trial("cuda_small_is_near_the_cpus", near, no_device.is_some()));
        trials.push(trial("cuda_small_repeats_and_resumes", resumes, no_device.is_some()));
    }
    trials.extend(trials_of_shards(no_compiler.is_some(), no_device.is_some()));
    trials.extend(trials_of_many_inputs(no_compiler.is_some()));
    trials.push(Trial::test("small_kernels_serve_all_coefficients", one_text_for_all));
    for ((name, rule), n_envs) in STEPS.into_iter().flat_map(|rule| [(rule, 7), (rule, 40)]) {
        let keys = move || {
            format!(
                "{rule}env_id = \"cartpole\"\nnum_envs = {n_envs}\nnum_steps = 40\nnum_minibatches = 1\n\
                 update_epochs = 1"
            )
        };
        let of = |test: &str| format!("{test}: {name}, {n_envs} replicas");
        let compiles = Trial::test(of("small_compiles"), move || compiles(&keys(), 1));
        trials.push(compiles.with_ignored_flag(no_compiler.is_some()));
        let steps = Trial::test(of("cuda_small_steps_are_the_cpus"), move || {
            steps(&config(&keys())?, 0.05)
        });
        trials.push(steps.with_ignored_flag(no_device.is_some()));
    }
    for n_envs in [7, 40] {
        let keys = format!(
            "env_id = \"cartpole\"\nnum_envs = {n_envs}\nnum_steps = 20\nnum_minibatches = 2\nupdate_epochs = 2"
        );
        let name = format!("cuda_small_schedules_end_as_numbers: {n_envs} replicas");
        let trial = Trial::test(name, move || schedules_end_as_numbers(&keys));
        trials.push(trial.with_ignored_flag(no_device.is_some()));
    }
    trials.extend(trials_of_fleets(no_compiler.is_some(), no_device.is_some()));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Fleets: of runs that share launches, and of others.
fn trials_of_fleets(no_compiler: bool, no_device: bool) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, keys) in [
        (
            "normalised",
            "env_id = \"acrobot\"\nnum_envs = 80\nnum_steps = 32\ntotal_steps = 51200\nnorm_obs = true",
        ),
        (
            "wide",
            "env_id = \"cartpole\"\nnum_envs = 16\nnum_steps = 32\ntotal_steps = 5120\nhidden = [96, 40, 33]\n\
             norm_reward = true",
        ),
    ] {
        let trial =
            Trial::test(format!("cuda_small_fleet_side_by_side: {name}"), || side_by_side(keys));
        trials.push(trial.with_ignored_flag(no_device));
    }
    // 384 updates: the most with which runs share launches.
    let many = "env_id = \"acrobot\"\nnum_envs = 16\nnum_steps = 64\nnum_minibatches = 16\nupdate_epochs = 24\n\
                norm_obs = true\nnorm_reward = true";
    let fits = Trial::test("small_compiles: fleet, as many updates as there is room for", || {
        compiles(many, 3)
    });
    trials.push(fits.with_ignored_flag(no_compiler));
    let breaks = Trial::test("cuda_small_fleet_breaks_as_a_whole", breaks_as_a_whole);
    trials.push(breaks.with_ignored_flag(no_device));
    let diverging = Trial::test("cuda_small_fleet_tells_of_diverging_runs", || {
        diverging_runs_are_told(|runs, watch| launched(runs, 2, watch))
    });
    trials.push(diverging.with_ignored_flag(no_device));
    let waves = Trial::test("cuda_small_fleet_of_several_waves", waves);
    trials.push(waves.with_ignored_flag(no_device));
    for (name, keys) in FLEETS {
        let of_fleet = Trial::test(format!("small_compiles: fleet, {name}"), move || {
            compiles(&format!("num_envs = 19\nnum_steps = 32\n{keys}"), 1)
        });
        trials.push(of_fleet.with_ignored_flag(no_compiler));
        let small = Trial::test(format!("cuda_small_fleet_of_one_is_a_run: {name}"), move || {
            fleet(keys, 4, 10)
        });
        trials.push(small.with_ignored_flag(no_device));
        let large = Trial::test(format!("cuda_small_fleet_of_larger_runs: {name}"), move || {
            fleet(keys, 19, 1)
        });
        trials.push(large.with_ignored_flag(no_device));
    }
    trials
}

fn trials_of_shards(no_compiler: bool, no_device: bool) -> Vec<Trial> {
    let trials = |(name, keys): Case| {
        let trial = |test: &str, run: fn(&str) -> Result<()>, ignored: bool| {
            Trial::test(format!("{test}: {name}"), move || run(keys)).with_ignored_flag(ignored)
        };
        [
            trial("small_compiles", |keys| compiles(keys, 1), no_compiler),
            trial("cuda_small_shards_are_near_the_cpus", near_in_minibatches, no_device),
            trial("cuda_small_shards_repeat_and_resume", resumes, no_device),
        ]
    };
    SHARDS.into_iter().flat_map(trials).collect()
}

/// Layers of 128 beside as many inputs as there may be, in every way that takes more room.
fn trials_of_many_inputs(no_compiler: bool) -> Vec<Trial> {
    let ways =
        ["layer_norm = true", "target_kl = 0.1\nnum_minibatches = 4", "precision = \"bf16\""];
    let trial = |(keys, n_envs): (&'static str, usize)| {
        let compiles = move || {
            compiles(
                &format!(
                    "env_id = \"catch\"\nnum_envs = {n_envs}\nhidden = [128, 128]\n{keys}\n[env]\nheight = 6\n\
                     width = 5"
                ),
                2,
            )
        };
        Trial::test(format!("small_compiles: 30 numbers, {keys:?}, {n_envs} replicas"), compiles)
            .with_ignored_flag(no_compiler)
    };
    ways.into_iter().flat_map(|keys| [(keys, 2048), (keys, 8192)]).map(trial).collect()
}

/// A sweep over what a schedule holds compiles nothing anew, unlike one over what decides loops.
fn one_text_for_all() -> Result<()> {
    let sources = |keys: &str| -> Result<Vec<Source>> {
        let config = config(&format!("env_id = \"cartpole\"\nnum_envs = 4\n{keys}"))?;
        let blueprint = registry().get(&config.run.env_id)?.blueprint(&config.env)?;
        Ok(small_sources(&config, &env_kernels(&blueprint)?))
    };
    let plain = sources("")?;
    for keys in ["gamma = 0.5", "gae_lambda = 0.5", "clip_coef = 0.5", "max_grad_norm = 0"]
        .into_iter()
        .chain([
            "adam_eps = 1e-3",
            "learning_rate = 1e-3",
            "ent_coef = 0.5",
            "vf_coef = 0.1",
            "seed = 9",
        ])
    {
        if plain.is_empty() || sources(keys)? != plain {
            return Err(format!("{keys} changes the kernels' text").into());
        }
    }
    let own = ["critic_learning_rate = 1e-3", "weight_decay = 0.1"].map(sources);
    let others = ["critic_learning_rate = 1e-2", "weight_decay = 0.2"].map(sources);
    for (own, other) in own.into_iter().zip(others) {
        let (own, other) = (own?, other?);
        if own != other || own == plain {
            return Err("a rate of the critic's or a decay is not one text for all values".into());
        }
    }
    if sources("num_minibatches = 2")? == plain {
        return Err("minibatches do not change the kernels' text".into());
    }
    let whole = "num_minibatches = 1";
    if sources("shards = 2")? == plain
        || sources(&format!("{whole}\nshards = 2"))? != sources(whole)?
    {
        return Err("shards are not in the text of several minibatches, and of these alone".into());
    }
    Ok(())
}

/// Trains runs to their ends, with so many threads of the host.
fn launched(runs: &[FleetRun], threads: usize, watch: &Watch<'_>) -> Result<()> {
    let registry = registry_on_gpu()?;
    let make = |config: &TrainConfig| -> warp_train::Result<Box<dyn Learner>> {
        Ok(Box::new(CudaLearner::new(config, 1)?))
    };
    let others = ThreadFleet::new(&registry, "native", 1, make);
    Ok(CudaFleet::new(&registry, others, threads).launch(runs, watch)?)
}

/// What runs of a fleet end with, by number.
fn trained(runs: &[FleetRun], threads: usize) -> Result<BTreeMap<usize, LearnerState>> {
    let ends = Mutex::new(BTreeMap::new());
    launched(runs, threads, &|number, event| {
        if let (FleetEvent::Finished(state), Ok(mut ends)) = (event, ends.lock()) {
            ends.insert(number, sorted(state.clone()));
        }
        ControlFlow::Continue(())
    })?;
    Ok(ends.into_inner().map_err(|e| e.to_string())?)
}

/// Whoever breaks once ends all runs of a fleet, those of its other half as well.
fn breaks_as_a_whole() -> Result<()> {
    let run = |number: usize| -> Result<FleetRun> {
        let keys = "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 32\ntotal_steps = 1280000";
        let config = config(&format!("seed = {number}\n{keys}"))?;
        Ok(FleetRun { number, swept: Vec::new(), pauses: false, config })
    };
    let runs = (0..300).map(run).collect::<Result<Vec<_>>>()?;
    let events = AtomicUsize::new(0);
    launched(&runs, 2, &|_, _| match events.fetch_add(1, Ordering::Relaxed) {
        0 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    // Two threads of each half may have been at an event.
    match events.into_inner() {
        ..=4 => Ok(()),
        n => Err(format!("{n} events came, though the first one ended the fleet").into()),
    }
}

/// Runs of several waves, each of several launches that are given to the device ahead, end as they do in a wave of their own.
fn waves() -> Result<()> {
    let run = |number: usize| -> Result<FleetRun> {
        let keys = "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 32\ntotal_steps = 66560";
        let config = config(&format!("seed = {}\n{keys}", number % 200))?;
        Ok(FleetRun { number, swept: Vec::new(), pauses: false, config })
    };
    let runs = (0..1200).map(run).collect::<Result<Vec<_>>>()?;
    let [many, few] = [trained(&runs, 3)?, trained(&runs[..200], 3)?];
    let differs = |number: &usize| many.get(number) != few.get(&(number % 200));
    match (0..1200).find(differs) {
        None if few.len() == 200 => Ok(()),
        differing => Err(format!("{} runs ended, {differing:?} differs", many.len()).into()),
    }
}

/// Runs that share no launch have the same bits one after the other and side by side.
fn side_by_side(keys: &str) -> Result<()> {
    let run = |number: usize| -> Result<FleetRun> {
        let config = config(&format!("seed = {number}\n{keys}"))?;
        Ok(FleetRun { number, swept: Vec::new(), pauses: false, config })
    };
    let runs = (0..9).map(run).collect::<Result<Vec<_>>>()?;
    let [one, four] = [trained(&runs, 1)?, trained(&runs, 4)?];
    if one.len() != 9 || one != four {
        return Err(
            format!("{} runs, {} side by side, are not the same", one.len(), four.len()).into()
        );
    }
    Ok(())
}

/// What a run that is not of a fleet has after some iterations.
fn by_itself(config: &TrainConfig, n_iterations: u64) -> Result<LearnerState> {
    let learner = Box::new(CudaLearner::new(config, 1)?);
    let mut trainer = Trainer::new(config.clone(), &registry_on_gpu()?, learner, 1)?;
    trainer.iterate_times(n_iterations)?;
    Ok(trainer.learner().state())
}

fn registry_on_gpu() -> Result<Registry> {
    let kernels = Kernels::new(&Device::open(0)?);
    Ok(registry().on_gpu(&kernels, Build::Parity))
}

/// ||a - b|| / ||b - c||: how far weights are from those `expected`, which have moved away from `begun`.
fn moved_apart(found: &LearnerState, expected: &LearnerState, begun: &LearnerState) -> f64 {
    let all = |state: &LearnerState| -> Vec<f32> {
        state.weights.iter().flat_map(|tensor| tensor.data.clone()).collect()
    };
    let (found, expected, begun) = (all(found), all(expected), all(begun));
    let squared = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
    };
    (squared(&found, &expected) / squared(&expected, &begun)).sqrt()
}

/// A run's weights do not depend on how many others share its launch, nor, up to eight replicas, on whether it is of
/// a fleet; with more they are near.
fn fleet(keys: &str, n_envs: usize, n_iterations: u64) -> Result<()> {
    let keys = format!(
        "{keys}\nnum_envs = {n_envs}\nnum_steps = 32\ntotal_steps = {}",
        n_iterations as usize * 32 * n_envs
    );
    let run = |number: usize, seed: u64| -> Result<FleetRun> {
        // All that a schedule holds differs from run to run.
        let by = seed as f64;
        let (gamma, lambda, clip) = (0.999 - 1e-4 * by, 0.99 - 1e-3 * by, 0.1 + 1e-3 * by);
        let coefficients = format!(
            "seed = {seed}\ngamma = {gamma}\ngae_lambda = {lambda}\nclip_coef = {clip}\n\
             max_grad_norm = {}\nadam_eps = {}\nent_coef = {}",
            0.1 * (by % 5.0),
            1e-7 * (1.0 + by),
            1e-4 * by,
        );
        let config = config(&format!("{keys}\n{coefficients}"))?;
        Ok(FleetRun { number, swept: Vec::new(), pauses: false, config })
    };
    let train = |runs: &[FleetRun]| trained(runs, 2);
    // More than there is room for at a time, two to a block.
    let runs = (0..300).map(|i| run(i, 5 + i as u64)).collect::<Result<Vec<_>>>()?;
    let many = train(&runs)?;
    let few = train(&[run(0, 303)?, run(1, 304)?])?;
    let alone = train(&[run(0, 6)?])?;
    // Moments stay on the device.
    let by_itself = by_itself(&run(0, 6)?.config, n_iterations)?;
    let by_itself = sorted(LearnerState { optimizer: Vec::new(), ..by_itself });
    if many.len() != 300 || many.get(&298) != few.get(&0) || many.get(&299) != few.get(&1) {
        return Err("a run of a large fleet differs from that of a small one".into());
    }
    let begun = sorted(CudaLearner::new(&run(0, 6)?.config, 1)?.state());
    let apart = alone.get(&0).map_or(f64::MAX, |state| moved_apart(state, &by_itself, &begun));
    let same = if n_envs <= 8 { alone.get(&0) == Some(&by_itself) } else { apart < 0.1 };
    if many.get(&1) != alone.get(&0) || !same {
        return Err(format!("a run of a fleet differs from the run by itself by {apart}").into());
    }
    if many.get(&0) == many.get(&1) {
        return Err("runs of different seeds are the same".into());
    }
    Ok(())
}
