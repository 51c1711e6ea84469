//! The environments of several runs, which step in one launch.

use super::arg::{Arg, Structs};
use super::env::CudaVecEnv;
use super::launch::{Function, Launch};
use crate::error::{Error, Result};
use crate::vec_env::VecEnv;

/// Environments of one kind on one GPU, with the same number of replicas each; the code that steps them owns
/// them.
#[derive(Debug)]
pub struct CudaRuns {
    runs: Structs,
    n: u32,
    step: Function,
    tick: Function,
    /// Of one run.
    shape: Launch,
}

impl CudaRuns {
    /// Those of `envs`.
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
        let [step, tick] = envs[0].functions_of_runs()?;
        let runs = Structs::new(envs[0].gpu(), rows)?;
        Ok(Self { runs, n: envs.len() as u32, step, tick, shape: envs[0].shape() })
    }

    /// Starts a step of every replica of `envs`, those that this was created from, with the actions on the
    /// device. Its first kernel may begin early ([`begin_early`](super::begin_early)).
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn step(&self, envs: &mut [&mut CudaVecEnv]) -> Result<()> {
        let runs = Arg::Structs(self.runs.clone());
        let launch = Launch { blocks: self.n * self.shape.blocks, ..self.shape };
        // A run's block by itself needs no other kernel that counts.
        let counts = u32::from(self.shape.blocks == 1);
        let blocks = Arg::U32(self.shape.blocks);
        self.step.launch(&launch, &[runs.clone(), blocks, Arg::U32(counts)])?;
        if counts == 0 {
            let launch = Launch::over(self.n as usize, 128);
            self.tick.launch(&launch, &[runs, Arg::U32(self.n), Arg::U32(1)])?;
        }
        envs.iter_mut().for_each(|env| env.note_steps(1));
        Ok(())
    }
}
