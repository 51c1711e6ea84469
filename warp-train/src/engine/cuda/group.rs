//! Runs that share every launch: their members, and the steps of an iteration.

use super::Setting;
use super::member::Member;
use crate::algorithm::Variant;
use crate::config::TrainConfig;
use crate::engine::collectives::RankConnector;
use crate::error::Result;
use std::ops::Range;
use warp_core::DType::U32;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::programmatic_launch;
use warp_func::cuda::{Arg, Build, CudaRuns, CudaVecEnv, Function, Kernels, Launch, Source};

/// What decides a recorded iteration: the variants of every member's updates, in order.
pub(super) type Round = Vec<Vec<Variant>>;

/// Runs that share every launch.
#[derive(Debug)]
pub(super) struct Group {
    /// Their numbers.
    pub(super) runs: Range<usize>,
    pub(super) members: Vec<Member>,
    /// The environments, where there are several.
    pub(super) together: Option<CudaRuns>,
    /// Before an iteration's steps, unless the group is the first.
    pub(super) wait: Option<Wait>,
}

/// Keeps a group behind the other, so that both do not do the same at the same time.
#[derive(Debug)]
pub(super) struct Wait {
    function: Function,
    /// u32 `[1]`.
    pub(super) nanoseconds: DeviceArray,
}

impl Wait {
    fn new(kernels: &Kernels) -> Result<Self> {
        let source = Source::new("wait.cu", include_str!("wait.cu"));
        let function = kernels.compile(&source, Build::Parity)?.function("wait")?;
        let nanoseconds = DeviceArray::zeros(kernels.device(), "wait", U32, &[1])?;
        Ok(Self { function, nanoseconds })
    }

    fn launch(&self) -> Result<()> {
        Ok(self.function.launch(&Launch::over(1, 1), &[Arg::array(&self.nanoseconds, 1)])?)
    }
}

impl Group {
    /// Those of `configs` number `runs`, among all that share the GPU.
    pub(super) fn new(
        configs: &[TrainConfig],
        runs: Range<usize>,
        envs: &[&mut CudaVecEnv],
    ) -> Result<Self> {
        let (config, envs) = (&configs[0], &envs[runs.clone()]);
        let connector = RankConnector::new(envs[0].gpu(), &config.world);
        let mut first_agent = 0;
        let mut members = Vec::new();
        for (index, policy) in config.policies.iter().enumerate() {
            let setting = Setting::new(config, (index, first_agent)).beside(configs.len());
            members.push(Member::new(&configs[runs.clone()], setting, envs, &connector)?);
            first_agent += policy.n_agents() as u32;
        }
        let together = (envs.len() > 1).then(|| CudaRuns::new(envs)).transpose()?;
        let wait = (runs.start > 0).then(|| Wait::new(envs[0].kernels())).transpose()?;
        Ok(Self { runs, members, together, wait })
    }

    /// Starts the steps of an iteration.
    pub(super) fn steps(
        &mut self,
        round: &Round,
        num_steps: usize,
        envs: &mut [&mut CudaVecEnv],
    ) -> Result<()> {
        if let Some(wait) = &self.wait {
            wait.launch()?;
        }
        // Of one policy, each kernel waits for the one before it alone.
        let early = self.members.len() == 1;
        for t in 0..num_steps {
            self.members.iter_mut().try_for_each(|member| member.act(early))?;
            if early {
                programmatic_launch(envs[0].gpu())?;
            }
            match &self.together {
                Some(together) => together.step(envs)?,
                None => envs[0].device_step()?,
            }
            for (member, variants) in self.members.iter_mut().zip(round) {
                member.learn(t, variants, early)?;
            }
        }
        Ok(())
    }
}
