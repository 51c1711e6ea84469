//! The native learner on a GPU, wide path: against the learner on the CPU, repeated, resumed.
//!
//! Without a GPU (or NVRTC) the tests are reported as ignored, with the reason; that is why this
//! binary has its own harness.

mod cuda_cases;

use cuda_cases::many_inputs::MANY_INPUTS;
use cuda_cases::normed::{MANY_HEADS, NORMED, NORMED_LAYERS};
use cuda_cases::of_128::OF_128;
use cuda_cases::one_launch::ONE_LAUNCH;
use cuda_cases::texts::{are_not_small, numbers_are_shown};
use cuda_cases::{
    Case, MASKS, NEAR, NEAR_IN_MINIBATCHES, NO_HIDDEN_LAYER, ODD_WIDTHS, Result, SHARED_GAUSSIAN,
    STEPS, check, check_figure, near_in_bf16, no_compiler, no_device, on_gpu, registry,
    resumes_in_bf16, schedules_end_as_numbers, steps,
};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::Mutex;
use warp_func::cuda::{Build, Source, env_kernels};
use warp_train::config::TrainConfig;
use warp_train::native::cuda::{CudaLearner, wide_sources};

/// Environments, algorithms, networks and spaces of every kind: a name and keys.
const CASES: [Case; 14] = [
    (
        "one agent, ppo, tanh, truncations",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [192, 64]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    SHARED_GAUSSIAN,
    (
        "squashed, deviations from the network",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 192]\nalgorithm = \"a2c\"\n\
         action_distribution = \"squashed\"\nlog_std = \"state_dependent\"",
    ),
    (
        "two policies, runners that leave, shared trunks",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 24\nhidden = [256, 256]\n\
         algorithm = \"a2c\"\nactivation = \"relu\"\nshared_trunk = true\nnorm_adv = false\n\
         [env]\nuse_full_observation = false\nnum_taggers = 5\nnum_runners = 20\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    ODD_WIDTHS,
    (
        "policies by agent, runners that leave, normalised",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 12\nhidden = [192]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 3\nnum_runners = 9\ntagging_distance = 0.1\nepisode_length = 9\n\
         [policy.some]\ngroups = [\"runner[0-3,7]\", \"tagger[1]\"]\nnorm_obs = true\n\
         [policy.others]\ngroups = [\"tagger[0,2]\", \"runner[4-6,8]\"]\nnorm_reward = true",
    ),
    MASKS,
    (
        "the original's last step",
        "env_id = \"tag_gridworld\"\nnum_envs = 16\nnum_steps = 10\nhidden = [64, 64]\n\
         algorithm = \"a2c\"\ncompat_last_step = true\nmax_grad_norm = 0",
    ),
    (
        "normalised observations and rewards, truncations",
        "env_id = \"pendulum\"\nnum_envs = 40\nnum_steps = 12\nhidden = [64, 192]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true\nnorm_reward = true\n[env]\nepisode_length = 7",
    ),
    (
        "normalised, two groups, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 12\nhidden = [64]\nalgorithm = \"a2c\"\n\
         norm_obs = true\nnorm_reward = true\n[env]\nnum_taggers = 3\nnum_runners = 9\n\
         tagging_distance = 0.1\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    NO_HIDDEN_LAYER,
    (
        "returns of the same size at every step, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 9\nnum_steps = 20\nhidden = [64, 64]\n\
         algorithm = \"a2c\"\nnorm_return = true\n[env]\nnum_taggers = 3\nnum_runners = 9\n\
         tagging_distance = 0.1",
    ),
    (
        "epochs that end early",
        "env_id = \"acrobot\"\nnum_envs = 32\nnum_steps = 20\nhidden = [64, 64, 64]\nnum_minibatches = 1\n\
         update_epochs = 5\nlearning_rate = 3e-3\ntarget_kl = 1e-7",
    ),
    (
        "rows and samples that go through the layers in parts",
        "env_id = \"cartpole\"\nnum_envs = 17000\nnum_steps = 6\nhidden = [512]\nalgorithm = \"a2c\"\n\
         shared_trunk = true",
    ),
];

/// Where a changed action changes which replicas are learned from: only fp32 is the CPU's.
const SELECTED: [Case; 3] = [
    (
        "replicas with a goal alone, normalised returns",
        "env_id = \"cartpole\"\nnum_envs = 60\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\nneg_pos_env_ratio = 0\nnorm_return = true\n[env]\nepisode_length = 30",
    ),
    (
        "replicas with a goal alone, runs of a2c",
        "env_id = \"catalysis\"\nnum_envs = 50\nnum_steps = 40\nhidden = [64]\nalgorithm = \"a2c\"\n\
         neg_pos_env_ratio = 0\n[env]\nepisode_length = 25\nexploring_starts = 0.95",
    ),
    (
        "replicas of three shards with a goal alone, normalised returns",
        "env_id = \"cartpole\"\nnum_envs = 60\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\nneg_pos_env_ratio = 0\nnorm_return = true\nshards = 3\n[env]\nepisode_length = 30",
    ),
];

/// One minibatch of several shards: agents that leave, observations and rewards that are normalised.
const SHARDS: [Case; 2] = [
    (
        "three shards, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 24\nhidden = [64, 64]\nalgorithm = \"a2c\"\n\
         shards = 3\n[env]\nnum_taggers = 5\nnum_runners = 20\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "two shards, normalised",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [40, 24, 33]\nnum_minibatches = 1\n\
         update_epochs = 2\nnorm_obs = true\nnorm_reward = true\nshards = 2\n[env]\nepisode_length = 7",
    ),
];

/// Several minibatches of them, of other samples than the CPU's.
const SHARDS_IN_MINIBATCHES: [Case; 2] = [
    (
        "four shards, minibatches",
        "env_id = \"cartpole\"\nnum_envs = 200\nnum_steps = 30\nhidden = [96, 40, 33]\nnum_minibatches = 4\n\
         update_epochs = 2\nshards = 4",
    ),
    (
        "two shards, minibatches, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 60\nnum_steps = 24\nhidden = [64, 64]\nnum_minibatches = 3\n\
         update_epochs = 2\nshards = 2\n[env]\nnum_taggers = 5\nnum_runners = 20\ntagging_distance = 0.05\n\
         episode_length = 17",
    ),
];

/// Networks that run as whole towers in fp32: several tiles of rows and of samples a block, some of them
/// not full, layers of several widths, a box.
const WHOLE: [Case; 6] = [
    (
        "whole towers, three layers",
        "env_id = \"cartpole\"\nnum_envs = 2900\nnum_steps = 13\nhidden = [64, 32, 64]\n\
         num_minibatches = 1\nupdate_epochs = 1\n[env]\nepisode_length = 9",
    ),
    (
        "whole towers, shared, relu",
        "env_id = \"tag_gridworld\"\nnum_envs = 900\nnum_steps = 11\nhidden = [96, 32]\n\
         algorithm = \"a2c\"\nactivation = \"relu\"\nshared_trunk = true\nrollout_metrics = true",
    ),
    (
        "whole towers, policies by agent",
        "env_id = \"tag_continuous\"\nnum_envs = 90\nnum_steps = 11\nhidden = [64, 64]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 2\nnum_runners = 8\ntagging_distance = 0.1\nepisode_length = 8\n\
         [policy.some]\ngroups = [\"runner[2-6]\"]\n[policy.others]\ngroups = [\"tagger\", \"runner[0,1,7]\"]",
    ),
    (
        "whole towers, a shared box",
        "env_id = \"pendulum\"\nnum_envs = 2300\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         shared_trunk = true\nupdate_epochs = 1\nnorm_obs = true\n[env]\nepisode_length = 7",
    ),
    (
        "whole towers, narrow layers, masks, more samples than groups take at once",
        "env_id = \"covid19\"\nnum_envs = 50\nnum_steps = 15\nhidden = [40, 24]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true",
    ),
    (
        "whole towers, rollouts of more replicas than groups take at once",
        "env_id = \"cartpole\"\nnum_envs = 17100\nnum_steps = 6\nhidden = [96, 33]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 1\nnorm_obs = true\n[env]\nepisode_length = 4",
    ),
];

/// Networks whose layers run on tensor cores one by one: tiles that are not full, layers of several widths
/// and of odd ones, many inputs, deviations that are parameters, more rows than go through at once.
const TILED: [Case; 4] = [
    (
        "tiled, three layers, truncations",
        "env_id = \"cartpole\"\nnum_envs = 300\nnum_steps = 13\nhidden = [512, 384, 256]\n\
         num_minibatches = 1\nupdate_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "tiled, a shared box, relu, an odd width",
        "env_id = \"pendulum\"\nnum_envs = 70\nnum_steps = 12\nhidden = [300]\nnum_minibatches = 1\n\
         shared_trunk = true\nactivation = \"relu\"\nupdate_epochs = 1",
    ),
    (
        "tiled, two policies, many inputs, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 24\nhidden = [512, 130]\n\
         algorithm = \"a2c\"\nnorm_adv = false\n[env]\nnum_taggers = 5\nnum_runners = 20\n\
         tagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "tiled, 176 inputs",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 12\nhidden = [512]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 5\nnum_runners = 21\ntagging_distance = 0.1\nepisode_length = 17",
    ),
];

/// More rows than go through such layers at once; the CPU would take long.
const TILED_IN_PARTS: &str = "env_id = \"cartpole\"\nnum_envs = 131000\nnum_steps = 1\n\
                              hidden = [16384]\nalgorithm = \"a2c\"\nactivation = \"relu\"\n\
                              shared_trunk = true";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (no_compiler, no_device) = (no_compiler(), no_device());
    if let Some(reason) = &no_device {
        println!("ignored (cuda_*): {reason}");
    }
    let ignored = no_device.is_some();
    let compiles = Trial::test("cuda_wide_text_compiles", compiles);
    let mut trials = vec![compiles.with_ignored_flag(no_compiler.is_some())];
    trials.push(Trial::test("wide_layers_of_128_are_not_the_small_paths", are_not_small));
    trials.push(Trial::test("worlds_that_show_a_number_are_known", numbers_are_shown));
    for (name, keys) in compared() {
        let trial = |test: &str, run: fn(&str) -> Result<()>| {
            Trial::test(format!("cuda_wide_{test}: {name}"), move || run(keys))
                .with_ignored_flag(ignored)
        };
        trials.push(trial("fp32_is_the_cpus", exact));
        trials.push(trial("fp16_is_near", near));
        trials.push(trial("repeats_and_resumes", resumes));
        if WHOLE.iter().any(|case| case.0 == name) {
            trials.push(trial("fp32_repeats_and_resumes", resumes_exactly));
        }
    }
    type Run = fn(&str) -> Result<()>;
    let in_parts: [(&str, Run); 2] =
        [("repeats_and_resumes", resumes), ("is_near_fp32", near_single)];
    for (test, run) in in_parts {
        let name = format!("cuda_wide_tiled_in_parts_{test}");
        trials.push(Trial::test(name, move || run(TILED_IN_PARTS)).with_ignored_flag(ignored));
    }
    trials.extend(trials_of_schedules(ignored));
    for (network, hidden) in
        [("towers", "[64, 64]"), ("layers", "[96, 40]"), ("tiled", "[512, 256]")]
    {
        for ((rule, keys), precision) in
            STEPS.into_iter().flat_map(|rule| [(rule, "fp16"), (rule, "fp32")])
        {
            let keys = format!(
                "{keys}env_id = \"tag_continuous\"\nnum_envs = 12\nnum_steps = 15\nhidden = {hidden}\n\
                 num_minibatches = 1\nupdate_epochs = 1\n[env]\nnum_taggers = 3\nnum_runners = 8\n\
                 tagging_distance = 0.1"
            );
            let name = format!("cuda_wide_steps_are_the_cpus: {precision}, {network}, {rule}");
            let bound = if precision == "fp16" { 0.05 } else { 1e-3 };
            let trial = Trial::test(name, move || steps(&config(&keys, precision)?, bound));
            trials.push(trial.with_ignored_flag(ignored));
        }
    }
    trials.extend(trials_in_bf16(ignored));
    trials.extend(trials_of_shards(ignored));
    for (name, keys) in SELECTED {
        let trial = |test: &str, run: fn(&str) -> Result<()>| {
            Trial::test(format!("cuda_wide_{test}: {name}"), move || run(keys))
                .with_ignored_flag(ignored)
        };
        trials.push(trial("fp32_is_the_cpus", exact));
        trials.push(trial("repeats_and_resumes", resumes));
    }
    let spreads = Trial::test("cuda_wide_figures_of_rollouts_are_there", figures_are_there);
    trials.push(spreads.with_ignored_flag(ignored));
    let selects = Trial::test("cuda_wide_replicas_are_selected", selects);
    trials.push(selects.with_ignored_flag(ignored));
    let shuffles = Trial::test("cuda_wide_minibatches_have_every_sample_once", shuffles);
    trials.push(shuffles.with_ignored_flag(ignored));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials_of_schedules(ignored: bool) -> Vec<Trial> {
    let trial = |norm_reward: bool| {
        let keys = format!(
            "hidden = [96, 40, 33]\nenv_id = \"cartpole\"\nnum_envs = 300\nnum_steps = 20\nnum_minibatches = 2\n\
             update_epochs = 2\nnorm_reward = {norm_reward}\n[env]\nepisode_length = 30"
        );
        let name = format!("cuda_wide_schedules_end_as_numbers: norm_reward = {norm_reward}");
        let trial = Trial::test(name, move || schedules_end_as_numbers(&keys));
        trial.with_ignored_flag(ignored)
    };
    [false, true].into_iter().map(trial).collect()
}

fn trials_of_shards(ignored: bool) -> Vec<Trial> {
    let trials = |(name, keys): Case| {
        let trial = |test: &str, run: fn(&str) -> Result<()>| {
            Trial::test(format!("cuda_wide_{test}: {name}"), move || run(keys))
                .with_ignored_flag(ignored)
        };
        let near = |keys: &str| compare(keys, "fp32", NEAR_IN_MINIBATCHES);
        [trial("fp32_is_near", near), trial("repeats_and_resumes", resumes)]
    };
    SHARDS_IN_MINIBATCHES.into_iter().flat_map(trials).collect()
}

fn trials_in_bf16(ignored: bool) -> Vec<Trial> {
    let trials = |(name, keys): Case| {
        let trial = |test: &str, run: fn(&str) -> Result<()>| {
            Trial::test(format!("cuda_wide_bf16_{test}: {name}"), move || run(keys))
                .with_ignored_flag(ignored)
        };
        [trial("is_near", near_in_bf16), trial("repeats_and_resumes", resumes_in_bf16)]
    };
    in_bf16().into_iter().flat_map(trials).collect()
}

/// Those that are tried with bf16, too: every way of multiplying.
fn in_bf16() -> Vec<Case> {
    let cases = [CASES[0], CASES[1], CASES[3], MASKS, CASES[8], NO_HIDDEN_LAYER];
    let whole = [OF_128[0], OF_128[3], OF_128[4], MANY_INPUTS[0], MANY_INPUTS[4]];
    let layers = [NORMED_LAYERS[1], NORMED_LAYERS[2], ONE_LAUNCH[0], ONE_LAUNCH[2]];
    let layers = layers.into_iter().chain(MANY_HEADS);
    cases.into_iter().chain([WHOLE[2], WHOLE[4]]).chain(whole).chain(TILED).chain(layers).collect()
}

/// Those whose iterations are compared with the CPU's, repeated and resumed.
fn compared() -> impl Iterator<Item = Case> {
    let whole = WHOLE.into_iter().chain(OF_128).chain(MANY_INPUTS);
    CASES.into_iter().chain(whole).chain(all_normed()).chain(SHARDS)
}

/// Layers one by one, normalised or not, and whole towers that are normalised.
fn all_normed() -> impl Iterator<Item = Case> {
    TILED.into_iter().chain(ONE_LAUNCH).chain(MANY_HEADS).chain(NORMED).chain(NORMED_LAYERS)
}

/// A translation unit, and what needs it.
type Unit = (String, Source, Build);

/// The texts of some cases, each once.
fn some_units() -> Result<Vec<Unit>> {
    let very_wide = ("very wide", "env_id = \"cartpole\"\nhidden = [1024, 1024]");
    let some = CASES[1..5].iter().chain(&SELECTED).chain(&WHOLE).chain(&TILED[1..3]);
    let some = some.chain([&OF_128[1], &OF_128[7]]).chain(&MANY_INPUTS[..3]);
    let some = some.chain(&SHARDS).chain(&SHARDS_IN_MINIBATCHES);
    let some = some.chain(&NORMED[1..3]).chain([&very_wide, &MANY_HEADS[0]]);
    let some = some.flat_map(|case| [(*case, "fp16"), (*case, "fp32")]);
    let (registry, mut units) = (registry(), Vec::<Unit>::new());
    // Of those with many heads that differ in numbers alone one is enough.
    let alike = &MANY_HEADS[4..7];
    let in_bf16 = in_bf16().into_iter().filter(|case| !alike.contains(case));
    for ((name, keys), precision) in some.chain(in_bf16.map(|case| (case, "bf16"))) {
        let config = config(keys, precision)?;
        let env = registry.get(&config.run.env_id)?.blueprint(&config.env)?;
        for (source, build) in wide_sources(&config, Some(&env_kernels(&env)?))? {
            if !units.iter().any(|(_, known, how)| (known, *how) == (&source, build)) {
                units.push((format!("{name}, {precision}"), source, build));
            }
        }
    }
    Ok(units)
}

/// They become an H200's machine code; this needs no GPU.
fn compiles() -> Result<()> {
    let left = Mutex::new(some_units()?.into_iter());
    let next = || left.lock().ok().and_then(|mut left| left.next());
    let work = || {
        while let Some((name, source, build)) = next() {
            cuda_cases::texts::check(&source, build).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok::<(), String>(())
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            Ok(thread.join().map_err(|_| "a thread panicked".to_string())??)
        })
    })
}

fn config(keys: &str, precision: &str) -> Result<TrainConfig> {
    cuda_cases::config(&format!("precision = \"{precision}\"\n{keys}"))
}

fn compare(keys: &str, precision: &str, bounds: (f64, f64)) -> Result<()> {
    let config = config(keys, precision)?;
    let [found, expected] = cuda_cases::both(&config)?;
    cuda_cases::statistics(&found.state, &expected.state)?;
    let distance = cuda_cases::near(&found, &expected, bounds)?;
    println!("{precision}: {distance:.2e}: {}", keys.lines().next().unwrap_or_default());
    Ok(())
}

fn exact(keys: &str) -> Result<()> {
    compare(keys, "fp32", (1e-4, 1e-4))
}

fn near(keys: &str) -> Result<()> {
    compare(keys, "fp16", NEAR)
}

/// Half precision beside fp32, both on the GPU.
fn near_single(keys: &str) -> Result<()> {
    let done = |precision: &str| -> Result<cuda_cases::Done> {
        let config = config(keys, precision)?;
        on_gpu(&config, &mut CudaLearner::new(&config, 1)?, 0, 1)
    };
    let distance = cuda_cases::near(&done("fp16")?, &done("fp32")?, NEAR)?;
    println!("fp16: {distance:.2e}: {}", keys.lines().next().unwrap_or_default());
    Ok(())
}

/// Without a step the mean over minibatches of one size is that over all samples, whatever their order; of advantages that
/// each minibatch normalises it is none.
fn shuffles() -> Result<()> {
    for (shards, norm_adv) in [(1, false), (7, false), (1, true), (7, true)] {
        let keys = format!(
            "env_id = \"tag_continuous\"\nnum_envs = 7\nnum_steps = 9\nhidden = [64, 64]\n\
             num_minibatches = 3\nupdate_epochs = 2\nlearning_rate = 0.0\nnorm_adv = {norm_adv}\n\
             shards = {shards}\n[env]\nnum_taggers = 4\nnum_runners = 6\n\
             runner_exits_game_after_tagged = false"
        );
        let [found, expected] = cuda_cases::both(&config(&keys, "fp32")?)?;
        for (a, b) in found.seen.iter().zip(&expected.seen) {
            check_figure("policy_loss", a, b, 1e-5)?;
            check_figure("value_loss", a, b, 1e-5)?;
            check_figure("entropy", a, b, 1e-5)?;
            if a.get("grad_norm") == b.get("grad_norm") {
                return Err("minibatches are those of the CPU: nothing was shuffled here".into());
            }
        }
    }
    Ok(())
}

/// As many replicas without a goal as the key says, and the same ones again. In cartpole an episode that ends before its
/// limit counts as a success.
fn selects() -> Result<()> {
    let run = |ratio: f64| -> Result<cuda_cases::Done> {
        let keys = format!(
            "neg_pos_env_ratio = {ratio:?}\nenv_id = \"cartpole\"\nnum_envs = 700\nnum_steps = 12\n\
             hidden = [64, 64]\nalgorithm = \"a2c\""
        );
        let config = config(&keys, "fp32")?;
        on_gpu(&config, &mut CudaLearner::new(&config, 1)?, 0, 1)
    };
    for (ratio, selects) in [(0.4, true), (1.7, true), (1e9, false)] {
        let done = run(ratio)?;
        let [positive, negative] = ["positive_replicas", "negative_replicas"]
            .map(|name| done.seen[0].get(name).unwrap_or(f64::NAN));
        let (wanted, others) = ((positive * ratio).floor(), 700.0 - positive);
        println!("ratio {ratio}: {positive} and {negative}");
        if selects != (positive > 0.0 && wanted < others) {
            return Err("the case is none".into());
        }
        check("negative_replicas", negative, if selects { wanted } else { others }, 0.0)?;
        if done.state != run(ratio)?.state {
            return Err(format!("ratio {ratio}: the same run gave other weights").into());
        }
    }
    Ok(())
}

/// Every figure of a rollout that the CPU reports; of a small network if the key asks for them.
fn figures_are_there() -> Result<()> {
    let many = "env_id = \"tag_continuous\"\nnum_envs = 5\nnum_steps = 9\nhidden = [48]\n\
                algorithm = \"a2c\"\n[env]\nnum_taggers = 3\nnum_runners = 8";
    let small = "rollout_metrics = true\nenv_id = \"pendulum\"\nnum_envs = 40\nnum_steps = 9\n\
                 hidden = [64, 64]\nnum_minibatches = 1\nupdate_epochs = 1\n[env]\nepisode_length = 7";
    let of_shards = format!("shards = 2\n{}", many.replace("num_envs = 5", "num_envs = 6"));
    let of_shards = (&*of_shards, "fp32", 1e-4);
    for (keys, precision, bound) in [(many, "fp32", 1e-4), of_shards, (small, "fp16", 0.02)] {
        let [found, expected] = cuda_cases::both(&config(keys, precision)?)?;
        for (a, b) in found.seen.iter().zip(&expected.seen) {
            for (name, _) in b.iter() {
                check_figure(name, a, b, bound)?;
            }
            for name in ["action_std_replicas", "action_std_steps"] {
                if b.get(name).is_none_or(|spread| spread <= 0.0) {
                    return Err(format!("actions have no {name}").into());
                }
            }
        }
    }
    Ok(())
}

fn resumes(keys: &str) -> Result<()> {
    cuda_cases::resumes(&config(keys, "fp16")?, CudaLearner::new)
}

fn resumes_exactly(keys: &str) -> Result<()> {
    cuda_cases::resumes(&config(keys, "fp32")?, CudaLearner::new)
}
