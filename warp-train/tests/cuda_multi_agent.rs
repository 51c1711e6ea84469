//! The native learner on a GPU where several agents and policies share a launch: against the learner on
//! the CPU, repeated, resumed, and what it says of episodes.
//!
//! Without NVRTC the texts are not compiled, without a GPU nothing is run: such tests are reported as
//! ignored, with the reason; that is why this binary has its own harness.

mod cuda_cases;

use cuda_cases::small::{compiles, near, near_in_minibatches, resumes};
use cuda_cases::{
    Case, Result, STEPS, check, config, envs_on_gpu, near_in_bf16, no_compiler, no_device,
    progress, registry, resumes_in_bf16, steps,
};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use warp_func::{EpisodeTotals, VecEnv};
use warp_train::learner::Learner;
use warp_train::native::NativeLearner;
use warp_train::native::cuda::CudaLearner;
use warp_train::rollout::Rollout;

/// Policies, networks, starts, and every number of replicas that a warp takes: a name and keys.
const CASES: [Case; 19] = [
    (
        "a2c, one policy for two groups",
        "env_id = \"tag_gridworld\"\nnum_envs = 43\nnum_steps = 30\nalgorithm = \"a2c\"\n\
         hidden = [32, 32]\nactivation = \"relu\"\nshared_trunk = true\n[env]\nnum_taggers = 4\n\
         grid_length = 5\nepisode_length = 12\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "a2c, a policy per group, original starts, the original's last step",
        "env_id = \"tag_gridworld\"\nnum_envs = 30\nnum_steps = 25\nalgorithm = \"a2c\"\n\
         hidden = [32, 32]\nactivation = \"relu\"\nshared_trunk = true\nstart = \"fixed\"\n\
         compat_last_step = true\n[env]\nnum_taggers = 4\ngrid_length = 4\nplacement = \"original\"\n\
         [policy.tagger]\nent_coef = 0.05\n[policy.runner]\ngamma = 0.9",
    ),
    (
        "a2c, policies by agent",
        "env_id = \"tag_gridworld\"\nnum_envs = 27\nnum_steps = 25\nalgorithm = \"a2c\"\n\
         hidden = [32, 32]\nactivation = \"relu\"\nshared_trunk = true\n[env]\nnum_taggers = 4\n\
         grid_length = 5\nepisode_length = 12\n[policy.odd]\ngroups = [\"tagger[1,3]\", \"runner\"]\n\
         [policy.even]\ngroups = [\"tagger[0,2]\"]\nlearning_rate = 1e-3",
    ),
    (
        "ppo, a policy per group, networks of 64, a pool of starts",
        "env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\n\
         update_epochs = 2\nstart = \"pool\"\npool_size = 5\n[env]\nnum_taggers = 3\ngrid_length = 4\n\
         episode_length = 7",
    ),
    (
        "ppo, eleven agents that see one other",
        "env_id = \"tag_gridworld\"\nnum_envs = 20\nnum_steps = 12\nnum_minibatches = 1\n\
         update_epochs = 1\nhidden = [32, 32]\n[env]\nuse_full_observation = false\nepisode_length = 5",
    ),
    (
        "a2c, truncations, two heads, a policy per group",
        "env_id = \"relay\"\nnum_envs = 40\nnum_steps = 24\nalgorithm = \"a2c\"\nhidden = [32, 32]",
    ),
    (
        "ppo, truncations, two heads, one policy for two groups",
        "env_id = \"relay\"\nnum_envs = 45\nnum_steps = 16\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\n[env]\nlimit = 3\n[policy.all]\ngroups = [\"pair\", \"last\"]",
    ),
    (
        "16 replicas a warp, two blocks on a multiprocessor",
        "env_id = \"tag_gridworld\"\nnum_envs = 12300\nnum_steps = 6\nalgorithm = \"a2c\"\n\
         hidden = [32, 32]\nshared_trunk = true\n[env]\nnum_taggers = 4\ngrid_length = 6\n\
         episode_length = 4",
    ),
    (
        "many replicas, networks apart",
        "env_id = \"tag_gridworld\"\nnum_envs = 16400\nnum_steps = 3\nalgorithm = \"a2c\"\n\
         hidden = [32, 32]\n[env]\nnum_taggers = 4\ngrid_length = 6\nepisode_length = 2",
    ),
    (
        "normalised, a policy per group, truncations",
        "env_id = \"relay\"\nnum_envs = 45\nnum_steps = 16\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true\nnorm_reward = true\n[env]\nlimit = 3",
    ),
    (
        "normalised, one policy for two groups",
        "env_id = \"tag_gridworld\"\nnum_envs = 43\nnum_steps = 12\nhidden = [32, 32]\n\
         num_minibatches = 1\nupdate_epochs = 1\nnorm_obs = true\nnorm_reward = true\n[env]\n\
         num_taggers = 4\ngrid_length = 5\nepisode_length = 5\n\
         [policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "normalised observations, 8 replicas a warp",
        "env_id = \"tag_gridworld\"\nnum_envs = 4100\nnum_steps = 4\nhidden = [64, 64]\n\
         num_minibatches = 1\nupdate_epochs = 1\nnorm_obs = true\n[env]\nnum_taggers = 4\n\
         grid_length = 6\nepisode_length = 3",
    ),
    (
        "normalised observations, 16 replicas a warp",
        "env_id = \"tag_gridworld\"\nnum_envs = 12300\nnum_steps = 4\nhidden = [64, 64]\n\
         num_minibatches = 1\nupdate_epochs = 1\nnorm_obs = true\n[env]\nnum_taggers = 4\n\
         grid_length = 6\nepisode_length = 3",
    ),
    (
        "ppo, epochs that end early for one policy",
        "env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\n\
         update_epochs = 3\n[env]\nnum_taggers = 3\ngrid_length = 4\nepisode_length = 7\n\
         [policy.tagger]\ntarget_kl = 1e-7\n[policy.runner]",
    ),
    (
        "ppo, seventeen numbers, layers of 128",
        "env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\n\
         update_epochs = 1\nhidden = [128, 128]\nnorm_obs = true\n[env]\nnum_taggers = 3\ngrid_length = 4\n\
         episode_length = 7",
    ),
    (
        "ppo, 25 numbers, layers of 128, one policy for two groups, shared trunk",
        "env_id = \"tag_gridworld\"\nnum_envs = 4100\nnum_steps = 5\nnum_minibatches = 1\n\
         update_epochs = 1\nhidden = [128, 128]\nshared_trunk = true\n[env]\nnum_taggers = 5\ngrid_length = 6\n\
         episode_length = 4\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "six warps a block, layers of 128",
        "env_id = \"tag_gridworld\"\nnum_envs = 12300\nnum_steps = 4\nhidden = [128, 128]\n\
         num_minibatches = 1\nupdate_epochs = 1\nnorm_obs = true\n[env]\nnum_taggers = 4\n\
         grid_length = 6\nepisode_length = 3",
    ),
    (
        "ppo, layer norm, a policy per group",
        "env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\n\
         update_epochs = 1\nlayer_norm = true\n[env]\nnum_taggers = 3\ngrid_length = 4\n\
         episode_length = 7",
    ),
    (
        "ppo, padded layers, a policy per group",
        "env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nhidden = [50, 17]\n\
         num_minibatches = 1\nupdate_epochs = 1\n[env]\nnum_taggers = 3\ngrid_length = 4\n\
         episode_length = 7",
    ),
];

/// Minibatches, which on the CPU have other samples.
const MINIBATCHES: &str = "env_id = \"tag_gridworld\"\nnum_envs = 50\nnum_steps = 16\n\
     hidden = [32, 32]\nupdate_epochs = 2\nnum_minibatches = 3\n[env]\nnum_taggers = 2\n\
     grid_length = 4\nepisode_length = 10";

/// The same of several shards; more rows than warps compute advantages of.
const SHARDS: [Case; 3] = [
    (
        "five shards, a policy per group",
        "env_id = \"tag_gridworld\"\nnum_envs = 50\nnum_steps = 16\nhidden = [32, 32]\nupdate_epochs = 2\n\
         num_minibatches = 3\nshards = 5\n[env]\nnum_taggers = 2\ngrid_length = 4\nepisode_length = 10",
    ),
    (
        "two shards, one policy for two groups",
        "env_id = \"relay\"\nnum_envs = 46\nnum_steps = 16\nhidden = [64, 64]\nupdate_epochs = 2\n\
         num_minibatches = 4\nshards = 2\n[env]\nlimit = 3\n[policy.all]\ngroups = [\"pair\", \"last\"]",
    ),
    (
        "two shards, a row per thread",
        "env_id = \"tag_gridworld\"\nnum_envs = 6200\nnum_steps = 3\nhidden = [32, 32]\nupdate_epochs = 2\n\
         num_minibatches = 2\nshards = 2\n[env]\nnum_taggers = 4\ngrid_length = 6\nepisode_length = 4",
    ),
];

fn main() -> ExitCode {
    let (no_compiler, no_device) = (no_compiler(), no_device());
    for reason in [&no_compiler, &no_device].into_iter().flatten() {
        println!("ignored: {reason}");
    }
    let mut trials = Vec::new();
    for (name, keys) in [CASES[0], CASES[3], CASES[6], CASES[12]] {
        let trial = |test: &str, run: fn(&str) -> Result<()>| {
            Trial::test(format!("cuda_multi_agent_bf16_{test}: {name}"), move || run(keys))
                .with_ignored_flag(no_device.is_some())
        };
        trials.push(trial("is_near_the_cpus", near_in_bf16));
        trials.push(trial("repeats_and_resumes", resumes_in_bf16));
    }
    for (name, keys) in CASES {
        let trial = |test: &str, run: fn(&str) -> Result<()>, ignored: bool| {
            Trial::test(format!("{test}: {name}"), move || run(keys)).with_ignored_flag(ignored)
        };
        trials.push(trial("team_compiles", |keys| compiles(keys, 2), no_compiler.is_some()));
        trials.push(trial("cuda_multi_agent_is_near_the_cpus", near, no_device.is_some()));
        trials.push(trial("cuda_multi_agent_repeats_and_resumes", resumes, no_device.is_some()));
        trials.push(trial("cuda_multi_agent_counts_episodes", episodes, no_device.is_some()));
    }
    trials.extend(trials_of_shards(no_compiler.is_some(), no_device.is_some()));
    for (rule, keys) in STEPS {
        let keys = move || {
            format!(
                "{keys}env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\n\
                 update_epochs = 1\n[env]\nnum_taggers = 3\ngrid_length = 4\nepisode_length = 7"
            )
        };
        let compiles = Trial::test(format!("team_compiles: {rule}"), move || compiles(&keys(), 2));
        trials.push(compiles.with_ignored_flag(no_compiler.is_some()));
        let steps =
            Trial::test(format!("cuda_multi_agent_steps_are_the_cpus: {rule}"), move || {
                steps(&config(&keys())?, 0.05)
            });
        trials.push(steps.with_ignored_flag(no_device.is_some()));
    }
    let minibatches = Trial::test("cuda_multi_agent_repeats_minibatches", || resumes(MINIBATCHES));
    trials.push(minibatches.with_ignored_flag(no_device.is_some()));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials_of_shards(no_compiler: bool, no_device: bool) -> Vec<Trial> {
    let trials = |(name, keys): Case| {
        let trial = |test: &str, run: fn(&str) -> Result<()>, ignored: bool| {
            Trial::test(format!("{test}: {name}"), move || run(keys)).with_ignored_flag(ignored)
        };
        [
            trial("team_compiles", |keys| compiles(keys, 2), no_compiler),
            trial("cuda_multi_agent_shards_are_near_the_cpus", near_in_minibatches, no_device),
            trial("cuda_multi_agent_shards_repeat_and_resume", resumes, no_device),
        ]
    };
    SHARDS.into_iter().flat_map(trials).collect()
}

/// What is said of an iteration's episodes is near what the CPU says of them, and so is where it leaves
/// the replicas.
fn episodes(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let mut envs = envs_on_gpu(&config)?;
    let done = CudaLearner::new(&config, 1)?.iterate(&mut *envs, progress(&config, 0), 1)?;
    let registry = registry();
    let mut twins = registry.get(&config.run.env_id)?.make(&config.env, &config.vec_options())?;
    NativeLearner::new(&config, 1)?.collect(&mut *twins, &mut Rollout::new(&config))?;
    same_episodes(&done[0].episodes, &twins.take_episodes())?;
    same_counters(&mut *envs, &mut *twins)
}

fn same_episodes(found: &EpisodeTotals, expected: &EpisodeTotals) -> Result<()> {
    let n = expected.count as f64;
    check("count", found.count as f64, n, 0.03)?;
    let spreads = std::iter::once((&found.length, &expected.length));
    for (a, b) in spreads.chain(found.returns.iter().zip(&expected.returns)) {
        check("mean", a.sum / found.count as f64, b.sum / n, 0.05)?;
        if a.min * found.count as f64 > a.sum || a.sum > a.max * found.count as f64 {
            return Err(format!("no mean lies within {a:?}").into());
        }
    }
    check("longest", found.length.max, expected.length.max, 0.0)?;
    if found.statistics.len() != expected.statistics.len() || found.returns.len() != 2 {
        return Err("another number of groups or statistics".into());
    }
    for (a, b) in found.statistics.iter().zip(&expected.statistics) {
        check("statistic", a / found.count as f64, b / n, 0.05)?;
    }
    Ok(())
}

/// Steps in the episodes that go on add up to the same, but for episodes that ended elsewhere.
fn same_counters(envs: &mut dyn VecEnv, twins: &mut dyn VecEnv) -> Result<()> {
    let sum = |envs: &mut dyn VecEnv| -> Result<f64> {
        envs.sync()?;
        let lengths = envs.store().slice::<u32>(envs.ids().episode_length);
        Ok(lengths.iter().map(|n| f64::from(*n)).sum())
    };
    if envs.run_step() != twins.run_step() {
        return Err(format!("step {} of {}", envs.run_step(), twins.run_step()).into());
    }
    check("steps of running episodes", sum(envs)?, sum(twins)?, 0.1)
}
