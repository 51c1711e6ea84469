//! Policies that learn from replay memories, with everything on the GPU: a round of steps and updates is
//! recorded once and replayed.

use super::member::Member;
use crate::algorithm::Variant;
use crate::config::TrainConfig;
use crate::engine::{Iterated, Progress};
use crate::error::Result;
use crate::model::LearnerState;
use std::collections::HashMap;
use warp_core::DType::U32;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{CudaRuns, CudaVecEnv, Graph};

/// Iterations that are kept recorded, at most. Where a target moves every so many updates, and an iteration
/// has another number of them, nearly every iteration is another one.
const MOST_RECORDED: usize = 64;

/// What decides a recorded iteration: the variants of every member's updates, in order.
type Round = Vec<Vec<Variant>>;

/// Off-policy policies on a GPU: those of one run, or of several that differ in their seeds alone.
#[derive(Debug)]
pub(crate) struct OffPolicyLearner {
    /// The first run's.
    config: TrainConfig,
    members: Vec<Member>,
    /// The environments, where there are several.
    together: Option<CudaRuns>,
    recorded: HashMap<Round, Graph>,
}

/// What a run's iterations leave, until the host looks: a row each.
struct Log {
    /// By policy.
    figures: Vec<DeviceArray>,
    episodes: DeviceArray,
}

impl OffPolicyLearner {
    /// The policies of `configs`, a run each, with the weights of `states`, for `envs`.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, a state of other policies, or policies that learn from
    /// rollouts.
    pub(crate) fn new(
        configs: &[TrainConfig],
        envs: &[&mut CudaVecEnv],
        states: &[LearnerState],
    ) -> Result<Self> {
        let config = &configs[0];
        let mut first_agent = 0;
        let mut members = Vec::new();
        for (index, policy) in config.policies.iter().enumerate() {
            members.push(Member::new(configs, (index, first_agent), envs)?);
            first_agent += policy.n_agents(&config.spec) as u32;
        }
        let together = (envs.len() > 1).then(|| CudaRuns::new(envs)).transpose()?;
        let (config, recorded) = (config.clone(), HashMap::new());
        let mut learner = Self { config, members, together, recorded };
        learner.load(states)?;
        Ok(learner)
    }

    /// Takes over each run's weights, moments, memories and counters.
    ///
    /// # Errors
    /// A tensor that is missing, or of another shape.
    pub(crate) fn load(&mut self, states: &[LearnerState]) -> Result<()> {
        self.members.iter_mut().try_for_each(|member| member.load(states))
    }

    /// Writes weights, moments and counters of a run into `state`, but no memory, which may be large.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        let mut new = LearnerState::default();
        self.members.iter().try_for_each(|member| member.store(run, &mut new))?;
        *state = new;
        Ok(())
    }

    /// Writes all that a run needs to go on into `state`.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store_all(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        let mut new = LearnerState::default();
        self.members.iter().try_for_each(|member| member.store_all(run, &mut new))?;
        *state = new;
        Ok(())
    }

    /// Acts and learns for `n` iterations of every run; the host waits once, at their end. A run that diverged is
    /// an error of its own.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn run(
        &mut self,
        envs: &mut [&mut CudaVecEnv],
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Result<Vec<Iterated>>>> {
        let log = |(run, envs): (usize, &&mut CudaVecEnv)| self.log(run, envs, n as usize);
        let logs = envs.iter().enumerate().map(log).collect::<Result<Vec<_>>>()?;
        for i in 0..n as usize {
            let env_steps = progress.env_steps + i as u64 * self.config.steps_per_iteration();
            self.members.iter_mut().try_for_each(|member| member.begin(env_steps))?;
            self.iterate(envs)?;
            for (run, (envs, log)) in envs.iter_mut().zip(&logs).enumerate() {
                self.note(run, envs, (i, log))?;
            }
        }
        let read = |(run, (envs, log)): (usize, (&&mut CudaVecEnv, &Log))| {
            self.read((run, envs), progress, log)
        };
        envs.iter().zip(&logs).enumerate().map(read).collect()
    }

    fn log(&self, run: usize, envs: &CudaVecEnv, n: usize) -> Result<Log> {
        let rows =
            |array: &DeviceArray| DeviceArray::zeros(envs.gpu(), "log", U32, &[n, array.len()]);
        let figures = self.members.iter().map(|member| rows(member.figures_array(run)));
        let figures = figures.collect::<warp_data::Result<_>>()?;
        Ok(Log { figures, episodes: rows(envs.totals_array())? })
    }

    /// Keeps what iteration `i` left in a run.
    fn note(&self, run: usize, envs: &mut CudaVecEnv, (i, log): (usize, &Log)) -> Result<()> {
        for (member, figures) in self.members.iter().zip(&log.figures) {
            let from = member.figures_array(run);
            figures.copy_part(i * from.len(), from, 0..from.len())?;
        }
        envs.device_totals()?;
        let totals = envs.totals_array();
        Ok(log.episodes.copy_part(i * totals.len(), totals, 0..totals.len())?)
    }

    /// Starts an iteration, recorded if it is the first of its kind.
    fn iterate(&mut self, envs: &mut [&mut CudaVecEnv]) -> Result<()> {
        let num_steps = self.config.run.num_steps;
        let round: Round = self.members.iter().map(|member| member.variants(num_steps)).collect();
        if let Some(graph) = self.recorded.get_mut(&round) {
            graph.launch()?;
            envs.iter_mut().for_each(|envs| envs.note_steps(num_steps as u32));
        } else {
            let device = envs[0].gpu().clone();
            let mut graph = Graph::capture(&device, || self.steps(&round, num_steps, envs))?;
            graph.launch()?;
            if self.recorded.len() == MOST_RECORDED {
                self.recorded.clear();
            }
            self.recorded.insert(round.clone(), graph);
        }
        for (member, variants) in self.members.iter_mut().zip(&round) {
            member.note_updates(variants.len() as u64);
        }
        Ok(())
    }

    /// Starts the steps of an iteration.
    fn steps(
        &mut self,
        round: &Round,
        num_steps: usize,
        envs: &mut [&mut CudaVecEnv],
    ) -> Result<()> {
        for t in 0..num_steps {
            self.members.iter_mut().try_for_each(Member::act)?;
            match &self.together {
                Some(together) => together.step(envs)?,
                None => envs[0].device_step()?,
            }
            for (member, variants) in self.members.iter_mut().zip(round) {
                member.learn(t, variants)?;
            }
        }
        Ok(())
    }

    /// What the iterations of a call left in a run: the error is the device's, then the run's.
    fn read(
        &self,
        (run, envs): (usize, &CudaVecEnv),
        progress: Progress,
        log: &Log,
    ) -> Result<Result<Vec<Iterated>>> {
        for member in &self.members {
            if let Err(error) = member.check(run)? {
                return Ok(Err(error));
            }
        }
        let episodes = log.episodes.pull::<u32>()?;
        let figures = log.figures.iter().map(|array| array.pull::<u32>());
        let figures = figures.collect::<warp_data::Result<Vec<_>>>()?;
        let width = envs.totals_array().len();
        let iteration = |(i, totals): (usize, &[u32])| {
            let env_steps = progress.env_steps + i as u64 * self.config.steps_per_iteration();
            let policy = |(member, words): (&Member, &Vec<u32>)| {
                let row = member.figures_array(run).len();
                member.read_figures(&words[i * row..][..row], env_steps)
            };
            let policies = self.members.iter().zip(&figures).map(policy).collect();
            Iterated { episodes: envs.read_totals(totals), policies, phases: None }
        };
        Ok(Ok(episodes.chunks(width).enumerate().map(iteration).collect()))
    }
}
