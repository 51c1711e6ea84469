//! Burn's learner on a GPU through LibTorch: against the learner on the CPU, repeated, resumed.
//!
//! Without a GPU, NVRTC or LibTorch's CUDA libraries the tests are reported as ignored, with the
//! reason; that is why this binary has its own harness. A launch that did not wait for another
//! stream's would show as other numbers than the CPU's, or as others from run to run.

mod cuda_cases;

use cuda_cases::{
    Case, MASKS, NO_HIDDEN_LAYER, ODD_WIDTHS, Result, SHARED_GAUSSIAN, config, no_device, on_cpu,
    on_gpu,
};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use warp_train::burn::{BurnLearner, TorchLearner};

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
