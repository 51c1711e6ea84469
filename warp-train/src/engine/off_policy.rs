//! A policy that learns from a replay memory, in environments on the host.

use super::EngineState;
use super::cpu::{CpuEngine, Place};
use super::member::Member;
use crate::algorithm::PolicyFigures;
use crate::algorithm::{Acting, Algorithm, Greedy, Learns, PassId, Plan, Planned};
use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::Progress;
use crate::engine::rollout::PolicyRollout;
use crate::error::{Error, Result};
use crate::loss::row::{Read, Rows, Write, no_draws};
use crate::memory::{ENDS, GOES_ON, TERMINATED, TRUNCATED, Transition};
use crate::model::LearnerState;
use crate::model::Statistic;
use warp_func::VecEnv;

/// What a learner's state calls the number of updates made.
pub(crate) const UPDATES: &str = "updates";
/// What a learner's state calls the place where the replay memory goes on.
pub(crate) const REPLAY_HEAD: &str = "replay_head";

/// An algorithm, its engine, and its window onto the environments.
#[derive(Debug)]
pub(super) struct OffPolicy {
    policy: PolicyPlan,
    algorithm: Box<dyn Algorithm>,
    engine: CpuEngine,
    /// One step of the policy's agents.
    window: PolicyRollout,
    outcome: Outcome,
    /// Whether nothing is learned yet.
    warming_up: bool,
}

/// What came of a step, as the memory takes it; row by row.
#[derive(Debug, Default)]
struct Outcome {
    ends: Vec<u8>,
    alive: Vec<u8>,
    next_obs: Vec<f32>,
    next_mask: Vec<u8>,
}

impl OffPolicy {
    /// Policy number `index` of `config`, whose agents are numbered from `first_agent`.
    ///
    /// # Errors
    /// Actions that the algorithm does not take, or too little memory.
    pub(super) fn new(
        config: &TrainConfig,
        index: usize,
        first_agent: u32,
        threads: usize,
    ) -> Result<Self> {
        let policy = config.policies[index].clone();
        let Planned { plan, algorithm } = planned(config, &policy)?;
        let mut one_step = config.clone();
        one_step.run.num_steps = 1;
        let window = PolicyRollout::new(&policy, &one_step, first_agent);
        let place = Place {
            seed: config.run.seed,
            policy: index,
            n_rows: window.n_rows,
            n_agents: window.n_agents,
            first_agent,
            first_replica: config.vec_options().first_replica,
        };
        let sharing = config.sharing();
        let engine = CpuEngine::new(plan, place, &sharing, policy.config.activation, threads)?;
        let outcome = Outcome::default();
        Ok(Self { policy, algorithm, engine, window, outcome, warming_up: true })
    }

    fn acting(&self) -> Acting {
        self.engine.plan().acting
    }

    /// What the window shows as the plan's columns.
    ///
    /// # Errors
    /// A mask that forbids everything.
    fn show(&mut self) -> Result<()> {
        let Acting { obs, mask, .. } = self.acting();
        self.engine.column_mut(obs).copy_from_slice(self.window.obs_at(0));
        if let (Some(id), Some(mask)) = (mask, self.window.mask_at(0)) {
            // These algorithms choose in a single head.
            let mut rows = mask.chunks(self.window.layout.mask_width());
            if let Some(row) = rows.position(|allowed| allowed.iter().all(|one| *one == 0)) {
                return Err(warp_sample::Error::NothingAllowed { row, head: 0 }.into());
            }
            let column = self.engine.column_mut(id).iter_mut().zip(mask);
            column.for_each(|(to, allowed)| *to = f32::from(*allowed));
        }
        Ok(())
    }

    /// Fills [`Outcome`] with what came of the window's step.
    fn note_outcome(&mut self) {
        let Self { window, outcome, .. } = self;
        let truncated = &window.truncated;
        let Outcome { ends, alive, next_obs, next_mask } = outcome;
        ends.clear();
        ends.extend(window.ended.iter().map(|ended| TERMINATED * (*ended).min(1)));
        next_obs.clear();
        next_obs.extend_from_slice(window.obs_at(1));
        for (row, obs) in truncated.at.iter().zip(truncated.obs.chunks(window.width)) {
            ends[*row] = TRUNCATED;
            next_obs[row * window.width..][..window.width].copy_from_slice(obs);
        }
        alive.clear();
        let in_game = |row: usize| window.weights.get(row).is_none_or(|weight| *weight > 0.0);
        alive.extend((0..window.n_rows).map(|row| u8::from(in_game(row))));
        next_mask.clear();
        if let Some(mask) = window.mask_at(1) {
            next_mask.extend_from_slice(mask);
            let width = window.layout.mask_width();
            let terminated = next_mask.chunks_mut(width).zip(&*ends);
            let terminated = terminated.filter(|(_, ends)| **ends == TERMINATED);
            terminated.for_each(|(mask, _)| mask.fill(1));
            for (row, last) in truncated.at.iter().zip(truncated.action_mask.chunks(width)) {
                next_mask[row * width..][..width].copy_from_slice(last);
            }
        }
    }

    /// Learns from as many batches as belong to a step of number `t`.
    fn learn(&mut self, t: usize) -> Result<()> {
        let keys = &self.policy.config;
        let due = (t + 1).is_multiple_of(keys.train_freq);
        if self.warming_up || !due || !keys.to_train {
            return Ok(());
        }
        for _ in 0..keys.gradient_steps {
            let variant = self.algorithm.variant(self.engine.updates());
            self.algorithm.update(&mut self.engine, variant)?;
            self.engine.finish_update()?;
        }
        Ok(())
    }
}

/// What the policy's algorithm declares.
///
/// # Errors
/// Actions that it does not take, or an algorithm that learns from rollouts.
pub(crate) fn planned(config: &TrainConfig, policy: &PolicyPlan) -> Result<Planned> {
    match policy.algorithm.learns {
        Learns::FromReplay(plan) => {
            let planned = plan(policy, &config.spec)?;
            planned.plan.check()?;
            Ok(planned)
        }
        Learns::FromRollouts(_) => Err(Error::Invalid(format!(
            "policy \"{}\": {} learns from rollouts",
            policy.name, policy.algorithm.name
        ))),
    }
}

impl Member for OffPolicy {
    fn begin(&mut self, progress: Progress) {
        let PolicyConfig { to_train, learning_starts, .. } = self.policy.config;
        // One that does not learn acts as it is from the first step on.
        self.warming_up = to_train && progress.env_steps < learning_starts;
        self.engine.set_cells(progress.env_steps, self.warming_up);
    }

    fn act(&mut self, _t: usize, envs: &mut dyn VecEnv) -> Result<()> {
        self.window.store_inputs(0, envs);
        self.show()?;
        self.engine.set_run_step(envs.run_step());
        self.algorithm.act(&mut self.engine)?;
        let env_actions = self.engine.column(self.acting().env_action);
        self.window.set_env_actions(env_actions);
        self.window.send_actions(0, envs)?;
        Ok(())
    }

    fn store(&mut self, t: usize, envs: &dyn VecEnv) -> Result<()> {
        self.window.truncated.clear();
        self.window.store_outcome(0, envs);
        self.window.store_inputs(1, envs);
        self.note_outcome();
        let Acting { action, begins, .. } = self.acting();
        // Lent and put back: the ring is a part of the engine, too.
        let actions = self.engine.column(action).to_vec();
        let Outcome { ends, alive, next_obs, next_mask } = &self.outcome;
        let step = Transition {
            obs: self.window.obs_at(0),
            action: &actions,
            reward: &self.window.rewards,
            next_obs,
            ends,
            alive,
            mask: self.window.mask_at(0).unwrap_or_default(),
            next_mask,
        };
        if self.policy.config.to_train {
            self.engine.memory_mut().store(&step);
        }
        let begins = self.engine.column_mut(begins).iter_mut().zip(ends);
        begins.for_each(|(begins, ends)| *begins = f32::from(u8::from(*ends > 0)));
        self.learn(t)
    }

    fn finish(&mut self, _envs: &dyn VecEnv, progress: Progress) -> Result<PolicyFigures> {
        let rates = self.policy.learning_rates(progress.env_steps);
        Ok(rates.chain(self.engine.take_figures()?).collect())
    }

    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()> {
        values.fill(0.0);
        let Greedy { pass, outputs: made } = self.engine.plan().greedy;
        let Some(function) = made else {
            self.engine.evaluate(pass, obs, outputs);
            return Ok(());
        };
        let width = width_of(self.engine.plan(), pass);
        let mut output = vec![0.0; values.len() * width];
        self.engine.evaluate(pass, obs, &mut output);
        (function.run)(Rows {
            n: values.len(),
            cells: &[],
            reads: &[Read::rows(&output, width)],
            writes: &mut [Write { numbers: outputs, width: self.policy.layout.output_width() }],
            draws: &no_draws,
        });
        Ok(())
    }

    fn save(&self, state: &mut LearnerState) {
        save(&self.policy.name, self.engine.state(), state);
    }

    fn load(&mut self, state: &LearnerState) -> Result<()> {
        let own = self.engine.of_this_rank(resumed(&self.policy, state));
        let engine = self.engine.load(&own);
        engine.map_err(|e| Error::Invalid(format!("policy \"{}\": {e}", self.policy.name)))
    }
}

fn width_of(plan: &Plan, pass: PassId) -> usize {
    plan.columns[plan.passes[pass.0].output.0].width
}

/// Adds an engine's state to a learner's, under its policy's name.
pub(crate) fn save(policy: &str, engine: EngineState, state: &mut LearnerState) {
    let under = |name: String| format!("{policy}.{name}");
    let EngineState { weights, moments, steps, numbers, flags, updates, head } = engine;
    for (from, to) in [
        (weights, &mut state.weights),
        (moments, &mut state.optimizer),
        (numbers, &mut state.numbers),
    ] {
        to.extend(from.into_iter().map(|mut tensor| {
            tensor.name = under(tensor.name);
            tensor
        }));
    }
    state.flags.extend(flags.into_iter().map(|mut bytes| {
        bytes.name = under(bytes.name);
        bytes
    }));
    state.optimizer_steps.extend(steps.into_iter().map(|(name, n)| (under(name), n)));
    for (name, n) in [(UPDATES, updates), (REPLAY_HEAD, head)] {
        let data = vec![n as f64];
        state.statistics.push(Statistic { name: under(name.into()), shape: vec![1], data });
    }
}

/// What a policy goes on with: [`load`], and where it keeps no steps now, episodes in its memory end with the newest
/// one. Those that it keeps when it learns again do not follow that one.
pub(crate) fn resumed(policy: &PolicyPlan, state: &LearnerState) -> EngineState {
    let mut own = load(&policy.name, state);
    if !policy.config.to_train {
        cut(&mut own);
    }
    own
}

/// Marks the newest step in a memory as truncated where the episode goes on: that changes no sample yet, since none goes
/// beyond that step.
fn cut(state: &mut EngineState) {
    let EngineState { flags, head, .. } = state;
    let Some(ends) = flags.iter_mut().find(|array| array.name == ENDS) else { return };
    let Some(size) = ends.shape.first().copied().filter(|size| *size > 0) else { return };
    let (newest, n_rows) = ((*head as usize + size - 1) % size, ends.data.len() / size);
    let newest = ends.data[newest * n_rows..][..n_rows].iter_mut();
    newest.filter(|ends| **ends == GOES_ON).for_each(|ends| *ends = TRUNCATED);
}

/// The reverse of [`save`].
pub(crate) fn load(policy: &str, state: &LearnerState) -> EngineState {
    let own = |name: &str| {
        let rest = name.strip_prefix(policy)?.strip_prefix('.')?;
        Some(rest.to_string())
    };
    let tensors = |of: &[crate::model::NamedTensor]| {
        let tensor = |tensor: &crate::model::NamedTensor| {
            let name = own(&tensor.name)?;
            Some(crate::model::NamedTensor { name, ..tensor.clone() })
        };
        of.iter().filter_map(tensor).collect()
    };
    let counter = |wanted: &str| {
        let is_it = |s: &&Statistic| own(&s.name).as_deref() == Some(wanted);
        let found = state.statistics.iter().find(is_it);
        found.and_then(|s| s.data.first()).map_or(0, |n| *n as u64)
    };
    let flags = state.flags.iter().filter_map(|bytes| {
        let name = own(&bytes.name)?;
        Some(crate::model::NamedBytes { name, ..bytes.clone() })
    });
    let steps = state.optimizer_steps.iter();
    EngineState {
        weights: tensors(&state.weights),
        moments: tensors(&state.optimizer),
        steps: steps.filter_map(|(name, n)| Some((own(name)?, *n))).collect(),
        numbers: tensors(&state.numbers),
        flags: flags.collect(),
        updates: counter(UPDATES),
        head: counter(REPLAY_HEAD),
    }
}
