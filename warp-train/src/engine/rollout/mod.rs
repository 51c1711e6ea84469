//! Rollouts: what happened in `num_steps` steps of all replicas, policy by policy; allocated once.
//!
//! A row is one agent of one replica; rows go replica by replica, agents in the order of the
//! policy's groups. Everything is `[n_steps, n_rows, ...]`, time first.

pub mod batch;
mod engine;
mod interleave;
pub mod normalise;
mod rewards;
mod selection;
mod spread;

pub use engine::RolloutEngine;
pub(crate) use engine::share_gradients;

use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
pub(crate) use crate::engine::rollout::interleave::GroupRows;
use crate::engine::rollout::interleave::Interleave;
#[cfg(feature = "cuda")]
pub(crate) use crate::engine::rollout::selection::GOAL_REACHED;
use crate::engine::rollout::selection::{Goals, Selected};
use crate::error::Result;
use crate::loss::actions::Actions;
use std::ops::Range;
use warp_core::Draw;
use warp_func::VecEnv;
use warp_sample::{ActionLayout, ActionSamples, Mode, Rows};

/// A rollout of every policy.
#[derive(Debug)]
pub struct Rollout {
    /// Steps it holds.
    pub n_steps: usize,
    /// One part per policy, in the order of the configuration.
    pub policies: Vec<PolicyRollout>,
}

/// One policy's part of a rollout.
#[derive(Debug)]
pub struct PolicyRollout {
    groups: Vec<GroupRows>,
    /// Agents per replica.
    pub n_agents: usize,
    /// Number of the first agent, counted over policies; identifies the agents' random numbers.
    pub first_agent: u32,
    /// Rows per step: agents of all replicas.
    pub n_rows: usize,
    /// Numbers per observation.
    pub width: usize,
    /// What a policy's outputs mean and what its actions are.
    pub layout: ActionLayout,
    /// What the agents saw before each step, f32 `[n_steps + 1, n_rows, width]`; normalised once the
    /// learner has looked at it, if the policy is to.
    pub obs: Vec<f32>,
    /// Which actions were allowed, u8 `[n_steps + 1, n_rows, sum of head sizes]`; empty without a mask.
    pub action_mask: Vec<u8>,
    /// What they did: choices i32 `[n_steps, n_rows, n_heads]`, or samples before they are clipped or
    /// squashed, f32 `[n_steps, n_rows, dim]`.
    pub actions: Actions,
    /// What the environments got of continuous actions in the last step, f32 `[n_rows, dim]`; empty
    /// for discrete ones.
    pub bounded: Vec<f32>,
    /// Log-probability of `actions` when they were sampled, f32 `[n_steps, n_rows]`.
    pub log_probs: Vec<f32>,
    /// Value estimates of the observations, f32 `[n_steps + 1, n_rows]`.
    pub values: Vec<f32>,
    /// Rewards, f32 `[n_steps, n_rows]`.
    pub rewards: Vec<f32>,
    /// 1 where the agent's episode ended in the step, u8 `[n_steps, n_rows]`.
    pub ended: Vec<u8>,
    /// 1 for an agent that was in the game before the step, else 0, f32 `[n_steps, n_rows]`; empty if
    /// none can leave.
    pub weights: Vec<f32>,
    /// Value of the last observation where an episode was truncated, f32 `[n_steps, n_rows]`.
    pub truncated_values: Vec<f32>,
    /// The truncated rows (`step * n_rows + row`) with their last observations and masks, row after row.
    pub truncated: Truncated,
    /// Where episodes reached their goals, if that decides what is learned from.
    goals: Option<Goals>,
}

/// Rows whose episode was truncated, with what they saw last and could have done then.
#[derive(Debug, Default)]
pub struct Truncated {
    /// `step * n_rows + row`.
    pub at: Vec<usize>,
    /// f32 `[at.len(), width]`.
    pub obs: Vec<f32>,
    /// u8 `[at.len(), sum of head sizes]`; empty without a mask.
    pub action_mask: Vec<u8>,
}

impl Truncated {
    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.at.clear();
        self.obs.clear();
        self.action_mask.clear();
    }
}

impl Rollout {
    /// Room for one iteration of a run.
    #[must_use]
    pub fn new(config: &TrainConfig) -> Self {
        let n_steps = config.run.num_steps;
        let mut first_agent = 0;
        let part = |plan| {
            let part = PolicyRollout::new(plan, config, first_agent);
            first_agent += part.n_agents as u32;
            part
        };
        Self { n_steps, policies: config.policies.iter().map(part).collect() }
    }

    /// Bytes that [`Rollout::new`] will allocate, gathered minibatches included.
    #[must_use]
    pub fn bytes(config: &TrainConfig) -> u128 {
        let steps = config.run.num_steps as u128 + 1;
        let per_policy = |plan: &PolicyPlan| {
            let group = plan.group(&config.spec);
            let rows = config.n_envs() as u128 * plan.n_agents() as u128;
            let stored = 4 * (group.observation_width() + group.action.action_width() + 8)
                + group.mask_width();
            (2 * stored as u128).saturating_mul(steps).saturating_mul(rows)
        };
        config.policies.iter().map(per_policy).fold(0, u128::saturating_add)
    }
}

impl PolicyRollout {
    /// Room for `config.run.num_steps` steps of the agents of `plan`, numbered from `first_agent`.
    pub(crate) fn new(plan: &PolicyPlan, config: &TrainConfig, first_agent: u32) -> Self {
        let (spec, n_steps) = (&config.spec, config.run.num_steps);
        let (groups, n_agents) = (GroupRows::of(plan, spec), plan.n_agents());
        let first = plan.group(spec);
        let (width, layout) = (first.observation_width(), plan.layout.clone());
        let mortal = plan.is_mortal(spec);
        let n_rows = config.n_envs() * n_agents;
        let cells = n_steps * n_rows;
        let bounded =
            if layout.head_sizes().is_empty() { n_rows * layout.action_width() } else { 0 };
        Self {
            groups,
            n_agents,
            first_agent,
            n_rows,
            width,
            obs: vec![0.0; (cells + n_rows) * width],
            action_mask: vec![0; (cells + n_rows) * first.mask_width()],
            actions: Actions::new(&layout, cells),
            bounded: vec![0.0; bounded],
            layout,
            log_probs: vec![0.0; cells],
            values: vec![0.0; cells + n_rows],
            rewards: vec![0.0; cells],
            ended: vec![0; cells],
            weights: vec![0.0; if mortal { cells } else { 0 }],
            truncated_values: vec![0.0; cells],
            truncated: Truncated::default(),
            goals: Goals::new(plan, config),
        }
    }

    /// Which replicas of those that have `rows` are learned from, by the key `neg_pos_env_ratio`; nothing
    /// where all are.
    fn selected(&self, rows: &Range<usize>, ratio: Option<f64>, draw: Draw) -> Option<Selected> {
        let replicas = rows.start / self.n_agents..rows.end / self.n_agents;
        Some(self.goals.as_ref()?.select(replicas, ratio?, draw))
    }

    /// The rows of step `t`.
    #[must_use]
    pub fn rows(&self, t: usize) -> Range<usize> {
        t * self.n_rows..(t + 1) * self.n_rows
    }

    /// Observations before step `t`, f32 `[n_rows, width]`.
    #[must_use]
    pub fn obs_at(&self, t: usize) -> &[f32] {
        &self.obs[t * self.n_rows * self.width..][..self.n_rows * self.width]
    }

    /// Observations before step `t`, f32 `[n_rows, width]`, to be normalised in place, and the weights of those rows,
    /// f32 `[n_rows]` (empty if nobody can leave).
    pub fn inputs_mut(&mut self, t: usize) -> (&mut [f32], &[f32]) {
        let rows = self.rows(t);
        let obs = &mut self.obs[rows.start * self.width..rows.end * self.width];
        (obs, self.weights.get(rows).unwrap_or(&[]))
    }

    /// The random streams of the rows in the environments' next step.
    #[must_use]
    pub fn names(&self, envs: &dyn VecEnv) -> Rows {
        Rows {
            first_replica: envs.options().first_replica,
            first_agent: self.first_agent,
            n_agents: self.n_agents as u32,
            ..Rows::new(envs.options().seed, envs.run_step())
        }
    }

    /// Draws the actions of step `t` from what the policy gave, f32 `[n_rows, output_width]`; fills
    /// `entropies` f32 `[n_rows]`.
    ///
    /// # Errors
    /// Outputs that are not finite, that is, a policy that diverged.
    pub fn draw(
        &mut self,
        t: usize,
        outputs: &[f32],
        names: &Rows,
        entropies: &mut [f32],
    ) -> Result<()> {
        let (rows, width) = (self.rows(t), self.layout.mask_width());
        let mask = (!self.action_mask.is_empty())
            .then(|| &self.action_mask[rows.start * width..rows.end * width]);
        let width = self.layout.action_width();
        let actions = self.actions.rows_mut(rows.clone(), width, &mut self.bounded);
        let out = ActionSamples { actions, log_probs: &mut self.log_probs[rows], entropies };
        Ok(self.layout.sample(outputs, mask, names, Mode::Sample, out)?)
    }

    /// Takes what the environments are to get in step 0, f32 `[n_rows, width]`: numbers of choices or
    /// elements of a box.
    pub(crate) fn set_env_actions(&mut self, actions: &[f32]) {
        match &mut self.actions {
            Actions::Discrete(choices) => {
                choices
                    .iter_mut()
                    .zip(actions)
                    .for_each(|(choice, action)| *choice = *action as i32);
            }
            Actions::Continuous(_) => self.bounded.copy_from_slice(actions),
        }
    }

    /// Action masks before step `t`; `None` without a mask.
    #[must_use]
    pub fn mask_at(&self, t: usize) -> Option<&[u8]> {
        let row = self.layout.mask_width();
        (!self.action_mask.is_empty())
            .then(|| &self.action_mask[t * self.n_rows * row..][..self.n_rows * row])
    }

    /// Copies the current observations, and which agents are in the game, as the inputs of step `t`.
    pub fn store_inputs(&mut self, t: usize, envs: &dyn VecEnv) {
        if let Some(goals) = self.goals.as_mut().filter(|_| t * self.n_rows < self.rewards.len()) {
            goals.look(t, envs);
        }
        let (ids, store) = (envs.ids(), envs.store());
        let (n_rows, width) = (self.n_rows, self.width);
        let mask_width = self.layout.mask_width();
        let per_replica = self.n_agents;
        for rows in self.groups.clone() {
            let layout = Interleave { rows, per_replica };
            let target = &mut self.obs[t * n_rows * width..][..n_rows * width];
            layout.copy(store.slice(ids.obs[rows.group()]), target, width);
            if let Some(mask) = ids.action_mask[rows.group()] {
                let target =
                    &mut self.action_mask[t * n_rows * mask_width..][..n_rows * mask_width];
                layout.copy(store.slice(mask), target, mask_width);
            }
            let Some(weights) = self.weights.get_mut(t * n_rows..(t + 1) * n_rows) else {
                continue;
            };
            match ids.alive[rows.group()] {
                Some(alive) => {
                    layout.map(store.slice::<u8>(alive), weights, |alive| f32::from(*alive))
                }
                None => layout.fill(weights, 1.0),
            }
        }
    }

    /// Writes the actions of step `t`, the last ones sampled, into the environments.
    ///
    /// # Errors
    /// Whatever went wrong on a device.
    pub fn send_actions(&self, t: usize, envs: &mut dyn VecEnv) -> Result<()> {
        let width = self.layout.action_width();
        for rows in &self.groups {
            let layout = Interleave { rows: *rows, per_replica: self.n_agents };
            let target = envs.actions_mut(rows.group())?;
            match &self.actions {
                Actions::Discrete(actions) => {
                    let actions = &actions[t * self.n_rows * width..][..self.n_rows * width];
                    layout.copy_back(actions, target.discrete(), width);
                }
                Actions::Continuous(_) => {
                    layout.copy_back(&self.bounded, target.continuous(), width);
                }
            }
        }
        Ok(())
    }

    /// Copies what came of step `t`.
    pub fn store_outcome(&mut self, t: usize, envs: &dyn VecEnv) {
        let (ids, store) = (envs.ids(), envs.store());
        let per_replica = self.n_agents;
        let range = self.rows(t);
        self.truncated_values[range.clone()].fill(0.0);
        let terminated = store.slice::<u8>(ids.terminated);
        let truncated = store.slice::<u8>(ids.truncated);
        for rows in self.groups.clone() {
            let layout = Interleave { rows, per_replica };
            layout.copy(store.slice(ids.reward[rows.group()]), &mut self.rewards[range.clone()], 1);
            let ended = &mut self.ended[range.clone()];
            for (replica, over) in terminated.iter().zip(truncated).map(|(a, b)| a | b).enumerate()
            {
                ended[replica * per_replica + rows.at..][..rows.agents.n_agents].fill(over);
            }
            if let Some(left) = ids.agent_terminated[rows.group()] {
                layout.zip(store.slice::<u8>(left), ended, |ended, left| *ended |= left);
            }
        }
        if let Some(goals) = &mut self.goals {
            goals.note(envs);
        }
        if truncated.iter().any(|cut| *cut != 0) {
            self.store_truncated(t, envs);
        }
    }

    /// Keeps the last observations and masks of the agents that a time limit cut short.
    fn store_truncated(&mut self, t: usize, envs: &dyn VecEnv) {
        let (ids, store) = (envs.ids(), envs.store());
        let mask_width = self.layout.mask_width();
        for (replica, cut) in store.slice::<u8>(ids.truncated).iter().enumerate() {
            if *cut == 0 {
                continue;
            }
            for rows in self.groups.clone() {
                let last = store.slice::<f32>(ids.final_obs[rows.group()]);
                let mask = ids.final_action_mask[rows.group()].map(|id| store.slice::<u8>(id));
                let left = ids.agent_terminated[rows.group()].map(|id| store.slice::<u8>(id));
                for agent in 0..rows.agents.n_agents {
                    let source = replica * rows.of_group + rows.agents.first + agent;
                    // Who left in this very step has nothing to come.
                    if left.is_some_and(|left| left[source] != 0) {
                        continue;
                    }
                    let row = replica * self.n_agents + rows.at + agent;
                    self.truncated.at.push(t * self.n_rows + row);
                    let seen = &last[source * self.width..][..self.width];
                    self.truncated.obs.extend_from_slice(seen);
                    if let Some(mask) = mask {
                        let allowed = &mask[source * mask_width..][..mask_width];
                        self.truncated.action_mask.extend_from_slice(allowed);
                    }
                }
            }
        }
    }
}
