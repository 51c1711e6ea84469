//! Burn's learner on a GPU through LibTorch: against the learner on the CPU, repeated, resumed.
//!
//! Without a GPU, NVRTC or LibTorch's CUDA libraries the tests are reported as ignored, with the
//! reason; that is why this binary has its own harness. A launch that did not wait for another
//! stream's would show as other numbers than the CPU's, or as others from run to run. With
//! `WARP_BENCH` set, `cuda_tch_speed` prints how long iterations take, and `cuda_tch_returns` trains.

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use std::time::Instant;
use warp_core::toml::Table;
use warp_func::VecEnv;
use warp_func::cuda::{Build, Device, Kernels, nvrtc_version};
use warp_train::burn::{BurnLearner, TorchLearner};
use warp_train::config::TrainConfig;
use warp_train::learner::{Learner, LearnerState, Progress};
use warp_train::metrics::PolicyMetrics;
use warp_train::rollout::Rollout;
use warp_train::{Trainer, metrics::RecentReturn};

type Result<T> = std::result::Result<T, Failed>;

/// Environments, algorithms, networks and spaces of every kind: a name and keys.
const CASES: [(&str, &str); 8] = [
    (
        "one agent, ppo, tanh, truncations",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "gaussian, shared trunk, relu",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128]\nnum_minibatches = 1\n\
         shared_trunk = true\nactivation = \"relu\"\nupdate_epochs = 1",
    ),
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
    (
        "one policy for two groups, odd widths",
        "env_id = \"tag_continuous\"\nnum_envs = 5\nnum_steps = 9\nhidden = [40, 24, 33]\n\
         num_minibatches = 1\nupdate_epochs = 1\n[env]\nnum_taggers = 3\nnum_runners = 8\n\
         tagging_distance = 0.1\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "masks, a policy that does not learn",
        "env_id = \"covid19\"\nnum_envs = 3\nnum_steps = 6\nhidden = [64]\nalgorithm = \"a2c\"\n\
         [policy.planner]\nto_train = false\n[policy.governor]\nhidden = [128, 64]",
    ),
    (
        "normalised observations and rewards",
        "env_id = \"tag_gridworld\"\nnum_envs = 16\nnum_steps = 10\nhidden = [32]\n\
         num_minibatches = 1\nupdate_epochs = 2\nnorm_obs = true\nnorm_reward = true\n\
         [env]\nepisode_length = 7\n[policy.tagger]\ngroups = [\"tagger\"]\n[policy.runner]\n\
         groups = [\"runner\"]",
    ),
    (
        "no hidden layer",
        "env_id = \"acrobot\"\nnum_envs = 16\nnum_steps = 10\nhidden = []\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
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
    let no_compiler = nvrtc_version().err().map(|error| error.to_string());
    let no_device = no_compiler.or_else(|| Device::open(0).err().map(|e| e.to_string()));
    let no_torch = || {
        let config = config(CASES[0].1).ok()?;
        TorchLearner::new(&config, 1).err().map(|error| error.to_string())
    };
    no_device.or_else(no_torch)
}

fn config(keys: &str) -> Result<TrainConfig> {
    let table = keys.parse::<Table>().map_err(|e| e.to_string())?;
    Ok(TrainConfig::resolve(&table, &warp_envs::registry())?)
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

/// One iteration on the GPU and on the CPU.
fn both(config: &TrainConfig) -> Result<[(Vec<PolicyMetrics>, LearnerState); 2]> {
    let mut envs = envs_on_gpu(config)?;
    let mut on_gpu = TorchLearner::new(config, 1)?;
    let mut done = on_gpu.iterate(&mut *envs, progress(config, 0), 1)?;
    let seen = done.pop().ok_or("nothing was said of the iteration")?.policies;
    let registry = warp_envs::registry();
    let entry = registry.get(&config.run.env_id)?;
    let mut envs = entry.make(&config.env, &config.vec_options())?;
    let mut on_cpu = BurnLearner::new(config, 1)?;
    let mut rollout = Rollout::new(config);
    on_cpu.collect(&mut *envs, &mut rollout)?;
    let expected = on_cpu.update(&mut rollout, progress(config, 0))?;
    Ok([(seen, on_gpu.state()), (expected, on_cpu.state())])
}

/// ||a - b|| / ||b|| over the first moments.
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

fn check(name: &str, found: f64, expected: f64) -> Result<()> {
    if (found - expected).abs() <= 1e-4 * (1.0 + expected.abs()) {
        return Ok(());
    }
    Err(format!("{name} is {found}, expected {expected}").into())
}

fn equal(keys: &str) -> Result<()> {
    let [(seen, found), (wanted, expected)] = both(&config(keys)?)?;
    for (a, b) in seen.iter().zip(&wanted) {
        check("policy_loss", a.policy_loss, b.policy_loss)?;
        check("value_loss", a.value_loss, b.value_loss)?;
        check("entropy", a.entropy, b.entropy)?;
        check("approx_kl", a.approx_kl, b.approx_kl)?;
        check("grad_norm", a.grad_norm, b.grad_norm)?;
        check("explained_variance", a.explained_variance, b.explained_variance)?;
    }
    // The first moment is a tenth of the clipped gradient: the gradient itself, where Adam's step
    // would be its sign.
    let distance = distance(&found, &expected)?;
    if distance <= 1e-4 {
        return Ok(());
    }
    Err(format!("gradients differ by {distance:e} of their norm").into())
}

/// Two and two iterations are four, and four again are the same four.
fn resumes(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let run = |halves: bool| -> Result<LearnerState> {
        let mut envs = envs_on_gpu(&config)?;
        let mut learner = TorchLearner::new(&config, 1)?;
        if !halves {
            learner.iterate(&mut *envs, progress(&config, 0), 4)?;
            return Ok(learner.state());
        }
        learner.iterate(&mut *envs, progress(&config, 0), 2)?;
        let mut second = TorchLearner::new(&config, 1)?;
        second.load_state(&learner.state())?;
        second.iterate(&mut *envs, progress(&config, 2), 2)?;
        Ok(second.state())
    };
    let whole = run(false)?;
    if whole != run(false)? {
        return Err("the same run gave other weights".into());
    }
    if whole != run(true)? {
        return Err("a run that was resumed gave other weights".into());
    }
    Ok(())
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
