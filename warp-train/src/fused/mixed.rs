//! Policies of one run on a GPU of which some learn from rollouts and others from replay memories: they act in
//! lockstep, and each learns in its own way.

use super::halves::is_exact;
use super::policy_number::PolicyNumber;
use super::wide::{Machine, NetworkBackend, WidePolicy, WideText};
use crate::algorithm::{PolicyFigures, Variant};
use crate::config::TrainConfig;
use crate::engine::collectives::RankConnector;
use crate::engine::cuda::{self, Member, Setting, sources_of};
use crate::engine::{Iterated, Progress, episodes};
use crate::error::Result;
use crate::model::LearnerState;
use warp_func::VecEnv;
use warp_func::cuda::{Build, CudaVecEnv, DeviceInfo, Graph, Source};

/// A policy, by what it learns from.
#[derive(Debug)]
enum Policy {
    Rollouts(Box<WidePolicy>),
    Replay(Box<Member>),
}

/// Policies of both kinds.
#[derive(Debug)]
pub(crate) struct MixedLearner {
    config: TrainConfig,
    policies: Vec<Policy>,
    /// A rollout with the updates that belong to its steps, and what they were: where another number of them
    /// comes next, it is recorded again.
    collecting: Option<(Vec<Vec<Variant>>, Graph)>,
    /// What follows a rollout.
    learning: Option<Graph>,
}

/// How policies that learn from rollouts multiply.
fn backend(config: &TrainConfig) -> NetworkBackend {
    NetworkBackend { tensor_cores: !is_exact(config), foreign: None }
}

/// The translation units of all policies of `config`.
///
/// # Errors
/// Networks or algorithms that can't be built.
pub(super) fn units(config: &TrainConfig, info: &DeviceInfo) -> Result<Vec<(Source, Build)>> {
    let (mut units, mut first_agent) = (Vec::new(), 0);
    for (index, plan) in config.policies.iter().enumerate() {
        if plan.is_off_policy() {
            let setting = Setting::new(config, (index, first_agent));
            units.extend(sources_of(config, setting, cuda::Machine::of(info))?);
        } else {
            let number = PolicyNumber { index, first_agent };
            let text = WideText::new(config, number, Machine::of(info), backend(config), None)?;
            units.extend(text.units().map(|(unit, build)| (unit.clone(), build)));
        }
        first_agent += plan.n_agents() as u32;
    }
    Ok(units)
}

impl MixedLearner {
    /// The policies of `config` with the weights of `state`, for `envs`.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, or a state of other policies.
    pub(super) fn new(
        config: &TrainConfig,
        envs: &mut CudaVecEnv,
        state: &LearnerState,
    ) -> Result<Self> {
        let (backend, machine) = (backend(config), Machine::of(envs.gpu().info()));
        let connector = RankConnector::new(envs.gpu(), &config.world);
        let mut first_agent = 0;
        let mut policies = Vec::new();
        for (index, plan) in config.policies.iter().enumerate() {
            policies.push(if plan.is_off_policy() {
                let configs = std::slice::from_ref(config);
                let setting = Setting::new(config, (index, first_agent));
                Policy::Replay(Box::new(Member::new(configs, setting, &[envs], &connector)?))
            } else {
                let number = PolicyNumber { index, first_agent };
                let text = WideText::new(config, number, machine, backend, None)?;
                let kernels = envs.kernels().clone();
                let policy =
                    WidePolicy::new(config, index, text, &kernels, envs, &connector, None)?;
                Policy::Rollouts(Box::new(policy))
            });
            first_agent += plan.n_agents() as u32;
        }
        let config = config.clone();
        let mut learner = Self { config, policies, collecting: None, learning: None };
        learner.load(state)?;
        Ok(learner)
    }

    /// Takes over weights, moments, memories and counters.
    ///
    /// # Errors
    /// A tensor that is missing, or of another shape.
    pub(super) fn load(&mut self, state: &LearnerState) -> Result<()> {
        self.policies.iter_mut().try_for_each(|policy| match policy {
            Policy::Rollouts(policy) => policy.load_from(state),
            Policy::Replay(member) => member.load(std::slice::from_ref(state)),
        })
    }

    /// Writes weights, moments and counters into `state`, but no replay memory, which may be large.
    ///
    /// # Errors
    /// Whatever went wrong on the device, here and below.
    pub(super) fn store(&self, state: &mut LearnerState) -> Result<()> {
        self.store_by(state, |member, state| member.store(0, state))
    }

    /// Writes all that is needed to go on into `state`.
    pub(super) fn store_all(&self, state: &mut LearnerState) -> Result<()> {
        self.store_by(state, |member, state| member.store_all(0, state))
    }

    fn store_by(
        &self,
        state: &mut LearnerState,
        store: impl Fn(&Member, &mut LearnerState) -> Result<()>,
    ) -> Result<()> {
        let mut new = LearnerState::default();
        self.policies.iter().try_for_each(|policy| match policy {
            Policy::Rollouts(policy) => policy.store_into(&mut new),
            Policy::Replay(member) => store(member, &mut new),
        })?;
        *state = new;
        Ok(())
    }

    /// Acts and learns for `n` iterations.
    ///
    /// # Errors
    /// A policy that diverged, or whatever went wrong on the device.
    pub(super) fn run(
        &mut self,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        self.policies.iter().try_for_each(Policy::check_ranks)?;
        let iteration = |i: u64| {
            let progress = Progress {
                iteration: progress.iteration + i,
                env_steps: progress.env_steps + i * self.config.steps_per_iteration(),
                ..progress
            };
            self.begin(progress)?;
            self.collect(envs)?;
            self.learn(envs)?;
            self.policies.iter().try_for_each(Policy::wait_for_ranks)?;
            let figures = self.policies.iter().map(|policy| policy.figures(progress));
            let policies = figures.collect::<Result<_>>()?;
            Ok(Iterated { episodes: envs.take_episodes(), policies, phases: None })
        };
        let mut done: Vec<Iterated> = (0..n).map(iteration).collect::<Result<_>>()?;
        episodes::sum_in(&mut done, &self.config.sharing())?;
        Ok(done)
    }

    fn begin(&mut self, progress: Progress) -> Result<()> {
        self.policies.iter_mut().try_for_each(|policy| match policy {
            Policy::Rollouts(policy) => policy.push_settings(progress),
            Policy::Replay(member) => member.begin(progress.env_steps),
        })
    }

    /// Starts a rollout, with the updates between its steps.
    fn collect(&mut self, envs: &mut CudaVecEnv) -> Result<()> {
        let n_steps = self.config.run.num_steps;
        let round: Vec<_> = self.policies.iter().map(|policy| policy.variants(n_steps)).collect();
        match &mut self.collecting {
            Some((recorded, graph)) if *recorded == round => {
                graph.launch()?;
                envs.note_steps(n_steps as u32);
            }
            _ => {
                let device = envs.gpu().clone();
                let mut graph = Graph::capture(&device, || self.steps(&round, n_steps, envs))?;
                // All ranks record the same: nobody loads or frees anything while a kernel waits for another rank.
                self.collecting = None;
                self.config.world.barrier("a recorded rollout")?;
                graph.launch()?;
                self.collecting = Some((round.clone(), graph));
            }
        }
        for (policy, variants) in self.policies.iter_mut().zip(&round) {
            if let Policy::Replay(member) = policy {
                member.note_updates(variants.len() as u64);
            }
        }
        Ok(())
    }

    fn steps(
        &mut self,
        round: &[Vec<Variant>],
        n_steps: usize,
        envs: &mut CudaVecEnv,
    ) -> Result<()> {
        for t in 0..n_steps {
            for policy in &mut self.policies {
                match policy {
                    Policy::Rollouts(policy) => {
                        policy.sum_obs()?;
                        policy.act(t, envs)?;
                    }
                    Policy::Replay(member) => member.act(false)?,
                }
            }
            envs.device_step()?;
            for (policy, variants) in self.policies.iter_mut().zip(round) {
                match policy {
                    Policy::Rollouts(policy) => policy.outcome(t)?,
                    Policy::Replay(member) => member.learn(t, variants, false)?,
                }
            }
        }
        Ok(())
    }

    /// Starts to learn from the last rollout.
    fn learn(&mut self, envs: &CudaVecEnv) -> Result<()> {
        let learn = || {
            self.policies.iter().try_for_each(|policy| match policy {
                Policy::Rollouts(policy) => {
                    policy.finish_rollout()?;
                    policy.learn()
                }
                Policy::Replay(_) => Ok(()),
            })
        };
        if self.learning.is_none() {
            self.learning = Some(Graph::capture(envs.gpu(), learn)?);
        }
        match &mut self.learning {
            Some(graph) => Ok(graph.launch()?),
            None => Ok(()),
        }
    }
}

impl Policy {
    /// The variants of the updates between the steps of an iteration.
    fn variants(&self, n_steps: usize) -> Vec<Variant> {
        match self {
            Self::Rollouts(_) => Vec::new(),
            Self::Replay(member) => member.variants(n_steps),
        }
    }

    /// Checks that the other ranks are still there.
    fn check_ranks(&self) -> Result<()> {
        match self {
            Self::Rollouts(policy) => policy.check_ranks(),
            Self::Replay(member) => member.check_ranks(),
        }
    }

    /// Waits for what was started, if other ranks take part in it.
    fn wait_for_ranks(&self) -> Result<()> {
        match self {
            Self::Rollouts(policy) => policy.wait_for_ranks(),
            Self::Replay(member) => member.wait_for_ranks(),
        }
    }

    /// Waits for an iteration's figures.
    fn figures(&self, progress: Progress) -> Result<PolicyFigures> {
        match self {
            Self::Rollouts(policy) => policy.figures(progress),
            Self::Replay(member) => {
                member.check(0)??;
                let sums = member.sum_figures(&member.figures_array().pull::<u32>()?)?;
                Ok(member.read_figures(&sums, progress.env_steps))
            }
        }
    }
}
