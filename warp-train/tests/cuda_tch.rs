//! Burn's learner on a GPU through LibTorch: against the learner on the CPU, repeated, resumed.
//!
//! Without a GPU, NVRTC or LibTorch's CUDA libraries the tests are reported as ignored, with the
//! reason; that is why this binary has its own harness. A launch that did not wait for another
//! stream's would show as other numbers than the CPU's, or as others from run to run. With
//! `WARP_BENCH` set, `cuda_tch_speed` prints how long iterations take, and `cuda_tch_returns` trains.

mod cuda_cases;

use cuda_cases::{
    Case, MASKS, NO_HIDDEN_LAYER, ODD_WIDTHS, Result, SHARED_GAUSSIAN, config, envs_on_gpu,
    no_device, on_cpu, on_gpu, progress,
};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::time::Instant;
use warp_func::cuda::{Build, Device, Kernels};
use warp_train::burn::{BurnLearner, TorchLearner};
use warp_train::learner::Learner;
use warp_train::{Trainer, metrics::RecentReturn};

/// Environments, algorithms, networks and spaces of every kind: a name and keys.
const CASES: [Case; 8] = [
    (
        "one agent, ppo, tanh, truncations",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    SHARED_GAUSSIAN,
    (
        "squashed, deviations from the network",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 48]\nalgorithm = \"a2c\"\n\
         action_distribution = \"squashed\"\nlog_std = \"state_dependent\"",
    ),
    (
        "two policies, runners that leave, shared trunks",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 24\nhidden = [256, 256]\n\
         algorithm = \"a2c\"\nactivation = \"relu\"\nshared_trunk = true\nnorm_adv = false\n\
         [env]\nnum_taggers = 5\nnum_runners = 20\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    ODD_WIDTHS,
    MASKS,
    (
        "normalised observations and rewards",
        "env_id = \"tag_gridworld\"\nnum_envs = 16\nnum_steps = 10\nhidden = [32]\n\
         num_minibatches = 1\nupdate_epochs = 2\nnorm_obs = true\nnorm_reward = true\n\
         [env]\nepisode_length = 7\n[policy.tagger]\ngroups = [\"tagger\"]\n[policy.runner]\n\
         groups = [\"runner\"]",
    ),
    NO_HIDDEN_LAYER,
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(reason) = &missing {
        println!("ignored (cuda_*): {reason}");
    }
    let ignored = missing.is_some();
    let mut trials = Vec::new();
    for (name, keys) in CASES {
        let trial = |test: &str, run: fn(&str) -> Result<()>| {
            Trial::test(format!("cuda_tch_{test}: {name}"), move || run(keys))
                .with_ignored_flag(ignored)
        };
        trials.push(trial("is_the_cpus", equal));
        trials.push(trial("repeats_and_resumes", resumes));
    }
    trials.push(Trial::test("cuda_tch_speed", speed).with_ignored_flag(ignored));
    trials.push(Trial::test("cuda_tch_returns", returns).with_ignored_flag(ignored));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Why nothing can be tried here.
fn missing() -> Option<String> {
    let no_torch = || {
        let config = config(CASES[0].1).ok()?;
        TorchLearner::new(&config, 1).err().map(|error| error.to_string())
    };
    no_device().or_else(no_torch)
}

fn equal(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let found = on_gpu(&config, &mut TorchLearner::new(&config, 1)?, 0, 1)?;
    let expected = on_cpu(&config, &mut BurnLearner::new(&config, 1)?, 0, 1)?;
    cuda_cases::near(&found, &expected, (1e-4, 1e-4))?;
    Ok(())
}

fn resumes(keys: &str) -> Result<()> {
    cuda_cases::resumes(&config(keys)?, TorchLearner::new)
}

/// WarpDrive's algorithm, batches and networks.
const CARTPOLE: &str = "env_id = \"cartpole\"\nnum_envs = 10000\nnum_steps = 100\nhidden = [32, 32]\n\
    algorithm = \"a2c\"\nactivation = \"relu\"\nshared_trunk = true\nnorm_adv = false\n\
    gae_lambda = 1.0\nlearning_rate = 1e-3";
const TAG: &str = "env_id = \"tag_continuous\"\nnum_envs = 500\nnum_steps = 50\nhidden = [256, 256]\n\
    algorithm = \"a2c\"\nactivation = \"relu\"\nshared_trunk = true\nnorm_adv = false\ngamma = 0.98\n\
    gae_lambda = 1.0\nent_coef = 0.05\nvf_coef = 1.0\nlearning_rate = 1e-3\n\
    [env]\nnum_taggers = 5\nnum_runners = 100\nnum_other_agents_observed = 10\n\
    use_full_observation = false";

fn speed() -> Result<()> {
    if std::env::var_os("WARP_BENCH").is_none() {
        return Ok(());
    }
    for (name, keys) in [("cartpole, 10,000", CARTPOLE), ("tag_continuous, 500", TAG)] {
        let config = config(keys)?;
        let mut envs = envs_on_gpu(&config)?;
        let mut learner = TorchLearner::new(&config, 1)?;
        learner.iterate(&mut *envs, progress(&config, 0), 3)?;
        let (n, started) = (10, Instant::now());
        learner.iterate(&mut *envs, progress(&config, 3), n)?;
        let seconds = started.elapsed().as_secs_f64();
        let rate = (n * config.steps_per_iteration()) as f64 / seconds;
        let each = seconds * 1e3 / n as f64;
        println!("burn-tch, a2c, {name} replicas: {each:.2} ms an iteration, {rate:.3e} steps/s");
    }
    Ok(())
}

/// Three seeds of short runs, to be held against the CPU's.
fn returns() -> Result<()> {
    let Some(which) = std::env::var_os("WARP_RETURNS") else { return Ok(()) };
    let text = std::fs::read_to_string(which).map_err(|e| e.to_string())?;
    let kernels = Kernels::new(&Device::open(0)?);
    let registry = warp_envs::registry().on_gpu(&kernels, Build::Release);
    for case in text.split("---\n") {
        for seed in 0..3 {
            let config = config(&format!("seed = {seed}\n{case}"))?;
            let learner = Box::new(TorchLearner::new(&config, 1)?);
            let mut trainer = Trainer::new(config.clone(), &registry, learner, 1)?;
            let (mut recent, started) = (RecentReturn::default(), Instant::now());
            while trainer.env_steps() < config.run.total_steps {
                for metrics in trainer.advance(config.run.total_steps)? {
                    if let Some(spread) = metrics.episodes.episode_return {
                        recent.add(metrics.episodes.episodes, spread.mean);
                    }
                }
            }
            let (env, seconds) = (&config.run.env_id, started.elapsed().as_secs_f64());
            println!("{env} seed {seed}: mean return {:?} in {seconds:.1} s", recent.mean());
        }
    }
    Ok(())
}
