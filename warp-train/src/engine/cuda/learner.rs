//! Policies that learn from replay memories, with everything on the GPU: a round of steps and updates is
//! recorded once and replayed.

use super::group::{Group, Round, Wait};
use super::log::Log;
use super::member::Member;
use crate::config::TrainConfig;
use crate::engine::{Iterated, Progress};
use crate::error::Result;
use crate::model::LearnerState;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use warp_func::cuda::{CudaVecEnv, Device, Graph, fork_join};

/// Iterations that are kept recorded, at most. Where a target moves every so many updates, and an iteration
/// has another number of them, nearly every iteration is another one.
const MOST_RECORDED: usize = 64;

/// Runs from which on they make two groups.
const TWO_GROUPS: usize = 16;
/// Steps of an iteration from which on the groups begin at different times.
const STEPS_TO_STAGGER: usize = 16;

/// Off-policy policies on a GPU: those of one run, or of several that differ in their seeds alone.
///
/// Many runs make two groups, whose launches go on side by side: while one group waits for memory, the other
/// multiplies.
#[derive(Debug)]
pub(crate) struct OffPolicyLearner {
    /// The first run's.
    config: TrainConfig,
    groups: Vec<Group>,
    /// Whether the groups' iterations begin at different times.
    staggered: bool,
    recorded: HashMap<Round, Graph>,
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
        let n = configs.len();
        let most = if n < TWO_GROUPS { n } else { n.div_ceil(2) };
        let groups =
            (0..n).step_by(most).map(|first| Group::new(configs, first..n.min(first + most), envs));
        let groups = groups.collect::<Result<_>>()?;
        let (config, recorded) = (configs[0].clone(), HashMap::new());
        let mut learner = Self { config, groups, staggered: false, recorded };
        learner.load(states)?;
        Ok(learner)
    }

    /// Takes over each run's weights, moments, memories and counters.
    ///
    /// # Errors
    /// A tensor that is missing, or of another shape.
    pub(crate) fn load(&mut self, states: &[LearnerState]) -> Result<()> {
        for Group { runs, members, .. } in &mut self.groups {
            members.iter_mut().try_for_each(|member| member.load(&states[runs.clone()]))?;
        }
        Ok(())
    }

    /// Writes weights, moments and counters of a run into `state`, but no memory, which may be large.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        let mut new = LearnerState::default();
        let (members, run) = self.members(run);
        members.iter().try_for_each(|member| member.store(run, &mut new))?;
        *state = new;
        Ok(())
    }

    /// Writes all that a run needs to go on into `state`.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store_all(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        let mut new = LearnerState::default();
        let (members, run) = self.members(run);
        members.iter().try_for_each(|member| member.store_all(run, &mut new))?;
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
        let log = |group: &Group| Log::new(group, &envs[group.runs.clone()], n as usize);
        let logs = self.groups.iter().map(log).collect::<Result<Vec<_>>>()?;
        let members = || self.groups.iter().flat_map(|group| &group.members);
        members().try_for_each(Member::check_ranks)?;
        // Nobody allocates while a kernel may wait for another rank.
        self.config.world.barrier("the beginning of iterations")?;
        for i in 0..n as usize {
            let env_steps = progress.env_steps + i as u64 * self.config.steps_per_iteration();
            let mut members = self.groups.iter_mut().flat_map(|group| &mut group.members);
            members.try_for_each(|member| member.begin(env_steps))?;
            self.iterate(envs)?;
            for (group, log) in self.groups.iter().zip(&logs) {
                log.note(i, group, &mut envs[group.runs.clone()])?;
            }
            let mut members = self.groups.iter().flat_map(|group| &group.members);
            members.try_for_each(Member::wait_for_ranks)?;
        }
        let mut done = Vec::new();
        for (group, log) in self.groups.iter().zip(&logs) {
            done.extend(log.read(group, &envs[group.runs.clone()], &self.config, progress)?);
        }
        Ok(done)
    }

    /// Keeps the second group half a step and its updates behind the first, from the time that an iteration `took`.
    fn stagger(&mut self, took: Duration) -> Result<()> {
        let step = took.as_nanos() as u64 / self.config.run.num_steps as u64;
        for Wait { nanoseconds, .. } in self.groups.iter().filter_map(|group| group.wait.as_ref()) {
            nanoseconds.push(&[u32::try_from(step / 2).unwrap_or(u32::MAX)])?;
        }
        self.staggered = true;
        Ok(())
    }

    /// Starts a recorded iteration; the first that has updates is waited for and timed, if groups are to be kept
    /// apart and have so many steps that this gives more than it costs.
    fn replay(&mut self, round: &Round, device: &Device) -> Result<()> {
        let Some(graph) = self.recorded.get_mut(round) else { return Ok(()) };
        let learns = round.iter().any(|variants| !variants.is_empty());
        let apart = self.groups.len() > 1 && self.config.run.num_steps >= STEPS_TO_STAGGER;
        if self.staggered || !learns || !apart {
            return Ok(graph.launch()?);
        }
        device.synchronize()?;
        let clock = Instant::now();
        graph.launch()?;
        device.synchronize()?;
        self.stagger(clock.elapsed())
    }

    /// Starts an iteration, recorded if it is the first of its kind.
    fn iterate(&mut self, envs: &mut [&mut CudaVecEnv]) -> Result<()> {
        let num_steps = self.config.run.num_steps;
        let members = &self.groups[0].members;
        let round: Round = members.iter().map(|member| member.variants(num_steps)).collect();
        if self.recorded.contains_key(&round) {
            self.replay(&round, &envs[0].gpu().clone())?;
            envs.iter_mut().for_each(|envs| envs.note_steps(num_steps as u32));
        } else {
            let device = envs[0].gpu().clone();
            let mut graph = Graph::capture(&device, || self.steps(&round, num_steps, envs))?;
            if self.recorded.len() == MOST_RECORDED {
                self.recorded.clear();
            }
            // All ranks record the same: nobody loads or frees anything while a kernel waits for another rank.
            self.config.world.barrier("a recorded iteration")?;
            graph.launch()?;
            self.recorded.insert(round.clone(), graph);
        }
        for group in &mut self.groups {
            for (member, variants) in group.members.iter_mut().zip(&round) {
                member.note_updates(variants.len() as u64);
            }
        }
        Ok(())
    }

    /// The policies of a run, and its number among those of its group.
    fn members(&self, run: usize) -> (&[Member], usize) {
        let group = self.groups.iter().find(|group| group.runs.contains(&run));
        group.map_or((&[], run), |group| (&group.members, run - group.runs.start))
    }

    /// Starts the steps of an iteration.
    fn steps(
        &mut self,
        round: &Round,
        num_steps: usize,
        mut envs: &mut [&mut CudaVecEnv],
    ) -> Result<()> {
        let device = envs[0].gpu().clone();
        let works = self.groups.iter_mut().map(|group| {
            let (own, others) = std::mem::take(&mut envs).split_at_mut(group.runs.len());
            envs = others;
            move || group.steps(round, num_steps, own)
        });
        fork_join(&device, works)
    }
}
