//! Policies that learn from replay memories, with everything on the GPU: a round of steps and updates is
//! recorded once and replayed.

use super::layout::{Layout, Machine};
use super::op::{self, Op};
use super::schedule::fuse;
use super::text::{Agents, Scene};
use super::{CudaEngine, Setting};
use crate::algorithm::{Algorithm, Plan, Planned, Variant};
use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::EngineState;
use crate::engine::off_policy::planned;
use crate::engine::off_policy::{load, save};
use crate::engine::{Iterated, Progress};
use crate::error::PolicyError;
use crate::error::{Error, Result};
use crate::model::LearnerState;
use std::collections::HashMap;
use warp_core::DType::U32;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{CudaRuns, CudaVecEnv, Graph, Source};

/// A policy, its algorithm and its engine.
#[derive(Debug)]
struct Member {
    policy: PolicyPlan,
    algorithm: Box<dyn Algorithm>,
    engine: CudaEngine,
    acting: Vec<Op>,
    /// By variant.
    updating: Vec<Vec<Op>>,
    /// Updates made.
    updates: u64,
    warming_up: bool,
}

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

/// What a member does, as lists of work.
struct Programs {
    acting: Vec<Op>,
    updating: Vec<Vec<Op>>,
}

impl Programs {
    /// Of `policy`, whose gradients are summed in `shares`.
    fn new(
        policy: &PolicyPlan,
        algorithm: &dyn Algorithm,
        plan: &Plan,
        shares: usize,
    ) -> Result<Self> {
        let kept = policy.config.to_train;
        let updating = (0..algorithm.n_variants()).map(|variant| {
            let ops = op::updating(algorithm, Variant(variant), shares > 1)?;
            Ok(fuse(&ops, plan))
        });
        Ok(Self {
            acting: op::acting(algorithm, kept)?,
            updating: updating.collect::<Result<_>>()?,
        })
    }
}

/// The texts of the programs of `config` for a GPU like `machine`.
///
/// # Errors
/// Policies that an algorithm does not take.
pub(crate) fn sources(config: &TrainConfig, machine: Machine) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for (index, policy) in config.policies.iter().enumerate() {
        let Planned { plan, algorithm } = planned(config, policy)?;
        let setting = Setting::new(config, (index, 0));
        let layout = Layout::new(&plan, setting.place.n_rows, machine, setting.exact);
        let Programs { acting, updating } =
            Programs::new(policy, &*algorithm, &plan, layout.shares)?;
        let agents = Agents::new(&config.spec, &setting.groups);
        let place = &setting.place;
        let (plan, layout, agents) = (&plan, &layout, &agents);
        let scene = Scene { plan, layout, place, agents, runs: machine.runs(), machine };
        let mut lists = vec![acting, vec![Op::Store]];
        lists.extend(updating);
        sources.extend(lists.iter().map(|ops| scene.program(ops).source));
    }
    Ok(sources)
}

impl Member {
    fn new(
        configs: &[TrainConfig],
        (index, first_agent): (usize, u32),
        envs: &[&mut CudaVecEnv],
    ) -> Result<Self> {
        let config = &configs[0];
        let policy = config.policies[index].clone();
        let Planned { plan, algorithm } = planned(config, &policy)?;
        let setting = Setting::new(config, (index, first_agent));
        let seeds: Vec<u64> = configs.iter().map(|config| config.run.seed).collect();
        let mut engine = CudaEngine::new(plan, setting, (&seeds, envs))?;
        let Programs { acting, updating } =
            Programs::new(&policy, &*algorithm, &engine.plan, engine.layout.shares)?;
        let mut all = vec![acting.clone(), vec![Op::Store]];
        all.extend(updating.iter().cloned());
        engine.prepare(&all)?;
        let (updates, warming_up) = (0, true);
        Ok(Self { policy, algorithm, engine, acting, updating, updates, warming_up })
    }

    /// The variants of the updates of an iteration that begins now, `num_steps` long.
    fn variants(&self, num_steps: usize) -> Vec<Variant> {
        let keys = &self.policy.config;
        if self.warming_up || !keys.to_train {
            return Vec::new();
        }
        let n = (num_steps / keys.train_freq * keys.gradient_steps) as u64;
        (self.updates..self.updates + n).map(|update| self.algorithm.variant(update)).collect()
    }

    /// Starts the updates that belong to step `t`, the next of `variants`.
    fn learn(&mut self, t: usize, variants: &[Variant]) -> Result<()> {
        let keys = &self.policy.config;
        if variants.is_empty() || !(t + 1).is_multiple_of(keys.train_freq) {
            return Ok(());
        }
        let first = ((t + 1) / keys.train_freq - 1) * keys.gradient_steps;
        for Variant(variant) in &variants[first..first + keys.gradient_steps] {
            self.engine.run(&self.updating[*variant])?;
        }
        Ok(())
    }
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
        if let Some(other) = config.policies.iter().find(|policy| !policy.is_off_policy()) {
            return Err(Error::Invalid(format!(
                "policy \"{}\" learns from rollouts and others from replay memories, which a GPU does not do \
                 in one run; train on the CPU",
                other.name
            )));
        }
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
        for member in &mut self.members {
            let own = |state| load(&member.policy.name, state);
            let own: Vec<EngineState> = states.iter().map(own).collect();
            member.engine.load(&own)?;
            // Runs side by side have made as many.
            member.updates = own.first().map_or(0, |state| state.updates);
        }
        Ok(())
    }

    /// Writes weights, moments and counters of a run into `state`, but no memory, which may be large.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        self.save_into(state, |engine| engine.weights(run))
    }

    /// Writes all that a run needs to go on into `state`.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn store_all(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        self.save_into(state, |engine| engine.state(run))
    }

    fn save_into(
        &self,
        state: &mut LearnerState,
        of: impl Fn(&CudaEngine) -> Result<EngineState>,
    ) -> Result<()> {
        let mut new = LearnerState::default();
        for member in &self.members {
            save(&member.policy.name, of(&member.engine)?, &mut new);
        }
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
            for member in &mut self.members {
                let PolicyConfig { to_train, learning_starts, .. } = member.policy.config;
                // One that does not learn acts as it is from the first step on.
                member.warming_up = to_train && env_steps < learning_starts;
                member.engine.set_cells(env_steps, member.warming_up)?;
                member.engine.clear_figures()?;
            }
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
        let figures = self.members.iter().map(|member| rows(member.engine.figures_array(run)));
        let figures = figures.collect::<warp_data::Result<_>>()?;
        Ok(Log { figures, episodes: rows(envs.totals_array())? })
    }

    /// Keeps what iteration `i` left in a run.
    fn note(&self, run: usize, envs: &mut CudaVecEnv, (i, log): (usize, &Log)) -> Result<()> {
        for (member, figures) in self.members.iter().zip(&log.figures) {
            let from = member.engine.figures_array(run);
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
            member.updates += variants.len() as u64;
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
            for member in &mut self.members {
                member.engine.run(&member.acting)?;
            }
            match &self.together {
                Some(together) => together.step(envs)?,
                None => envs[0].device_step()?,
            }
            for (member, variants) in self.members.iter_mut().zip(round) {
                member.engine.run(&[Op::Store])?;
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
            if member.engine.fault(run)?.is_some() {
                let source = PolicyError::NonFiniteGradient { norm: f64::NAN };
                return Ok(Err(Error::Policy { policy: member.policy.name.clone(), source }));
            }
        }
        let episodes = log.episodes.pull::<u32>()?;
        let figures = log.figures.iter().map(|array| array.pull::<u32>());
        let figures = figures.collect::<warp_data::Result<Vec<_>>>()?;
        let width = envs.totals_array().len();
        let iteration = |(i, totals): (usize, &[u32])| {
            let env_steps = progress.env_steps + i as u64 * self.config.steps_per_iteration();
            let policy = |(member, words): (&Member, &Vec<u32>)| {
                let row = member.engine.figures_array(run).len();
                let rate = member.policy.config.learning_rate.at(env_steps);
                let own = member.engine.read_figures(&words[i * row..][..row]);
                [("learning_rate", rate)].into_iter().chain(own).collect()
            };
            let policies = self.members.iter().zip(&figures).map(policy).collect();
            Iterated { episodes: envs.read_totals(totals), policies, phases: None }
        };
        Ok(Ok(episodes.chunks(width).enumerate().map(iteration).collect()))
    }
}
