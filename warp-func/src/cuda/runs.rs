//! The environments of several runs, which step in one launch.

use super::arg::{Arg, Structs};
use super::env::CudaVecEnv;
use super::env_kernels::ExecutorPart;
use super::launch::{Function, Launch};
use crate::error::{Error, Result};
use crate::vec_env::VecEnv;
use warp_core::DType;
use warp_data::cuda::DeviceArray;

/// The kernels of several runs.
#[derive(Debug)]
struct RunsFunctions {
    step: Function,
    /// Counts steps, where `step` does not.
    tick: Function,
    /// Both stages of the sums over ended episodes.
    take: Function,
    merge: Function,
}

impl RunsFunctions {
    fn of(env: &CudaVecEnv) -> Result<Self> {
        let late = |name| env.late(ExecutorPart::Runs, name);
        Ok(Self {
            step: late("warp_step_runs")?,
            tick: late("warp_tick_runs")?,
            take: late("warp_take_episodes_runs")?,
            merge: env.merge_function().clone(),
        })
    }
}

/// Environments of one kind on one GPU, with the same number of replicas each; the code that steps them owns
/// them.
#[derive(Debug)]
pub struct CudaRuns {
    runs: Structs,
    n: u32,
    functions: RunsFunctions,
    /// Of one run.
    shape: Launch,
    totals_shape: Launch,
    /// Of all runs, [`CudaVecEnv::totals_array`] of each: of every block that sums, and of the run.
    totals: [DeviceArray; 2],
}

impl CudaRuns {
    /// The runs of `envs`.
    ///
    /// # Errors
    /// Environments that differ in more than their seeds, none at all, or too little memory.
    pub fn new(envs: &[&mut CudaVecEnv]) -> Result<Self> {
        let alike = |env: &&mut CudaVecEnv| {
            env.text().text == envs[0].text().text
                && env.options().n_envs == envs[0].options().n_envs
        };
        if envs.is_empty() || !envs.iter().all(alike) {
            let reason = "runs that step together have environments of one kind".into();
            return Err(Error::Launch { kernel: "warp_step_runs".into(), reason });
        }
        let rows = envs.iter().map(|env| env.args().to_vec()).collect();
        let functions = RunsFunctions::of(envs[0])?;
        let (gpu, n, words) = (envs[0].gpu(), envs.len(), envs[0].totals_array().len());
        let runs = Structs::new(gpu, rows)?;
        let (shape, totals_shape) = (envs[0].shape(), envs[0].totals_shape());
        let blocks = n * totals_shape.blocks as usize;
        let totals = [
            DeviceArray::zeros(gpu, "partial totals", DType::U32, &[blocks, words])?,
            DeviceArray::zeros(gpu, "totals", DType::U32, &[n, words])?,
        ];
        Ok(Self { runs, n: n as u32, functions, shape, totals_shape, totals })
    }

    /// Starts a step of every replica of `envs`, those that this was created from, with the actions on the
    /// device. Its first kernel may begin early ([`programmatic_launch`](super::programmatic_launch)).
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn step(&self, envs: &mut [&mut CudaVecEnv]) -> Result<()> {
        let runs = Arg::Structs(self.runs.clone());
        let launch = Launch { blocks: self.n * self.shape.blocks, ..self.shape };
        // A run's block by itself needs no other kernel that counts.
        let counts = u32::from(self.shape.blocks == 1);
        let blocks = Arg::U32(self.shape.blocks);
        self.functions.step.launch(&launch, &[runs.clone(), blocks, Arg::U32(counts)])?;
        if counts == 0 {
            let launch = Launch::over(self.n as usize, 128);
            self.functions.tick.launch(&launch, &[runs, Arg::U32(self.n), Arg::U32(1)])?;
        }
        envs.iter_mut().for_each(|env| env.note_steps(1));
        Ok(())
    }

    /// Starts the sums over ended episodes of every run; their result is [`CudaRuns::totals_array`].
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn device_totals(&self) -> Result<()> {
        let [partial, totals] = &self.totals;
        let (runs, blocks) = (Arg::Structs(self.runs.clone()), self.totals_shape.blocks);
        let part = Arg::array(partial, partial.len());
        let launch = Launch { blocks: self.n * blocks, ..self.totals_shape };
        self.functions.take.launch(&launch, &[runs, Arg::U32(blocks), part.clone()])?;
        let (launch, out) = (Launch { blocks: self.n, ..launch }, Arg::array(totals, totals.len()));
        self.functions.merge.launch(&launch, &[part, Arg::U32(blocks), out])
    }

    /// What [`CudaVecEnv::totals_array`] contains, of one run after the other.
    #[must_use]
    pub fn totals_array(&self) -> &DeviceArray {
        &self.totals[1]
    }
}
