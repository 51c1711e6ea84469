//! Burn's learner on a GPU through LibTorch: against the learner on the CPU, repeated, resumed.
//!
//! Without a GPU, NVRTC or LibTorch's CUDA libraries the tests are reported as ignored, with the
//! reason; that is why this binary has its own harness. That LibTorch's stream and the device's wait for
//! each other is tried with one of them held up: what does not wait has then worked with old numbers.

mod cuda_cases;

use cuda_cases::hold::Hold;
use cuda_cases::{
    Case, MASKS, NO_HIDDEN_LAYER, ODD_WIDTHS, Result, SHARED_GAUSSIAN, config, no_device, on_cpu,
    on_gpu,
};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};
use warp_core::DType;
use warp_data::cuda::cudarc::driver::CudaStream;
use warp_func::cuda::{Device, DeviceArray};
use warp_train::burn::BurnLearner;
use warp_train::burn::tch::{self, TorchPass};

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

/// Which stream is held up, and whether it is the way back that has to wait, or be waited for.
const WAITS: [(&str, Side, bool); 4] = [
    ("LibTorch's forward pass waits for the device", Side::Device, false),
    ("the device waits for LibTorch's forward pass", Side::Torch, false),
    ("LibTorch's way back waits for the device", Side::Device, true),
    ("the device waits for LibTorch's way back", Side::Torch, true),
];
/// Observations in a pass.
const ROWS: usize = 64;

/// All of LibTorch works on one stream of the process: written while it is held up.
static STREAMS: RwLock<()> = RwLock::new(());

#[derive(Debug, Clone, Copy)]
enum Side {
    Device,
    Torch,
}

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
            let run = move || {
                let _others = STREAMS.read().unwrap_or_else(PoisonError::into_inner);
                run(keys)
            };
            Trial::test(format!("cuda_tch_{test}: {name}"), run).with_ignored_flag(ignored)
        };
        trials.push(trial("is_the_cpus", equal));
        trials.push(trial("repeats_and_resumes", resumes));
    }
    for (name, held, back) in WAITS {
        let run = move || {
            let _alone = STREAMS.write().unwrap_or_else(PoisonError::into_inner);
            waits(held, back)
        };
        let trial = Trial::test(format!("cuda_tch_streams: {name}"), run);
        trials.push(trial.with_ignored_flag(ignored));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Why nothing can be tried here.
fn missing() -> Option<String> {
    let no_torch = || {
        let config = config(CASES[0].1).ok()?;
        tch::learner(&config, 1).err().map(|error| error.to_string())
    };
    no_device().or_else(no_torch)
}

fn equal(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let found = on_gpu(&config, &mut tch::learner(&config, 1)?, 0, 1)?;
    let expected = on_cpu(&config, &mut BurnLearner::new(&config, 1)?, 0, 1)?;
    cuda_cases::near(&found, &expected, (1e-4, 1e-4))?;
    Ok(())
}

fn resumes(keys: &str) -> Result<()> {
    cuda_cases::resumes(&config(keys)?, tch::learner)
}

/// With either stream held up, a pass over other numbers gives what it gives when nothing is held up.
fn waits(held: Side, back: bool) -> Result<()> {
    let gpu = Device::open(0)?;
    let stream = match held {
        Side::Device => gpu.stream().clone(),
        Side::Torch => gpu.context().default_stream(),
    };
    let mut pass = Pass::new(&gpu)?;
    let n = if back { pass.d_outs.len() } else { pass.x.len() };
    let (old, new) = (numbers(&gpu, "old", (n, 5))?, numbers(&gpu, "new", (n, 7))?);
    let hold = Hold::new()?;
    let before = pass.run(&old, back, None)?;
    let expected = pass.run(&new, back, None)?;
    if before == expected || pass.run(&old, back, None)? != before {
        return Err("results do not say what they come from".into());
    }
    // Everywhere on the device now lies what belongs to the old numbers.
    let found = pass.run(&new, back, Some((&hold, &stream)))?;
    if found == before {
        return Err("old numbers were read: somebody did not wait".into());
    }
    if found == expected { Ok(()) } else { Err("neither old numbers nor new".into()) }
}

/// An array of `n` numbers between -1 and 1, others for every `by`.
fn numbers(gpu: &Device, name: &str, (n, by): (usize, usize)) -> Result<DeviceArray> {
    let numbers: Vec<_> = (0..n).map(|i| (i * by % 17) as f32 / 8.0 - 1.0).collect();
    Ok(DeviceArray::from_slice(gpu, name, &[n], &numbers)?)
}

/// A network of LibTorch's between arrays of the device's.
struct Pass {
    network: TorchPass,
    x: DeviceArray,
    outs: DeviceArray,
    d_outs: DeviceArray,
    gradient: DeviceArray,
}

impl Pass {
    fn new(gpu: &Device) -> Result<Self> {
        let config = config("env_id = \"cartpole\"\nhidden = [64, 64]")?;
        let network = TorchPass::new(&config, 0, gpu)?;
        let zeros = |name, n| DeviceArray::zeros(gpu, name, DType::F32, &[n]);
        let x = numbers(gpu, "x", (ROWS * config.spec.groups[0].observation_width(), 3))?;
        let n_outs = ROWS * (config.policies[0].layout.output_width() + 1);
        let (outs, d_outs) = (zeros("outs", n_outs)?, zeros("d_outs", n_outs)?);
        let gradient = zeros("gradient", network.n_parameters())?;
        Ok(Self { network, x, outs, d_outs, gradient })
    }

    /// What comes of `numbers` as observations, or `back` as gradients by the outputs: given on the
    /// device's stream and read there, while a stream may be held up.
    fn run(
        &mut self,
        numbers: &DeviceArray,
        back: bool,
        held: Option<(&Hold, &CudaStream)>,
    ) -> Result<Vec<f32>> {
        if back {
            self.network.forward(&self.x, ROWS, &self.outs, true)?;
            self.outs.device().synchronize()?;
        }
        let (given, comes) =
            if back { (&self.d_outs, &self.gradient) } else { (&self.x, &self.outs) };
        let seen = DeviceArray::zeros(comes.device(), "seen", DType::F32, comes.shape())?;
        if let Some((hold, stream)) = held {
            hold.stop(stream)?;
        }
        given.copy_from(numbers)?;
        match back {
            true => self.network.backward(&self.d_outs, &self.gradient)?,
            false => self.network.forward(&self.x, ROWS, &self.outs, false)?,
        }
        seen.copy_from(comes)?;
        if let Some((hold, _)) = held {
            hold.release()?;
        }
        Ok(seen.pull()?)
    }
}
