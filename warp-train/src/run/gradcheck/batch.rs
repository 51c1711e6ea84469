//! The minibatch that gradients are checked on: what the environment really shows and what a policy really does
//! there, with random advantages and value targets.

use super::formulas::Formula;
use super::reference::{Margin, Reference};
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::engine::rollout::{PolicyRollout, Rollout};
use crate::error::{Error, Result};
use crate::loss::a2c::A2cConfig;
use crate::loss::actions::{Actions, pick_rows};
use crate::model::NamedTensor;
use crate::network::Policy;
use crate::optimiser::UpdateRule;
use crate::run::learner::Learner;
use crate::run::learner::PolicyLearner;
use warp_core::{Draw, Purpose};
use warp_func::Registry;

/// Steps of the rollout that rows are taken from.
const STEPS: usize = 24;
/// Replicas of it, or more where these have too few rows.
const REPLICAS: usize = 6;
/// Deviation of what is added to each weight, so that ratios and values leave their clipping ranges.
const SHIFT: f32 = 0.1;

/// How large a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// Rows of the minibatch.
    pub rows: usize,
    /// Seed of its random numbers.
    pub seed: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { rows: 48, seed: 0 }
    }
}

/// One policy's minibatch and weights.
#[derive(Debug, Clone)]
pub struct CheckBatch {
    /// The weights at which gradients are taken: the initial ones, moved at random.
    pub weights: Vec<NamedTensor>,
    /// Normalised observations, f32 `[rows, width]`.
    pub obs: Vec<f32>,
    /// What was done.
    pub actions: Actions,
    /// Allowed actions, u8 `[rows, sum of head sizes]`; empty without a mask.
    pub action_mask: Vec<u8>,
    /// Log-probabilities under the initial weights, f32 `[rows]`.
    pub log_probs: Vec<f32>,
    /// Advantages, f32 `[rows]`.
    pub advantages: Vec<f32>,
    /// Value targets, f32 `[rows]`.
    pub returns: Vec<f32>,
    /// Value estimates under the initial weights, f32 `[rows]`.
    pub values: Vec<f32>,
    /// Weights of the samples, f32 `[rows]`; 0 for some.
    pub sample_weights: Vec<f32>,
}

impl CheckBatch {
    /// A batch for every policy of `config`, from a short rollout by `learner`, which must be fresh.
    ///
    /// # Errors
    /// An environment that can't be built or stepped.
    pub fn collect<P: Policy>(
        config: &TrainConfig,
        registry: &Registry,
        learner: &mut PolicyLearner<P>,
        options: CheckOptions,
    ) -> Result<Vec<Self>> {
        if options.rows == 0 {
            return Err(Error::Invalid("rows = 0: at least one is needed".into()));
        }
        let vec_options = config.vec_options();
        let mut envs = registry.get(&config.run.env_id)?.make(&config.env, &vec_options)?;
        let mut rollout = Rollout::new(config);
        learner.collect(&mut *envs, &mut rollout)?;
        let state = learner.state();
        let batch = |(index, part): (usize, &PolicyRollout)| {
            let (weights, ..) = state.of_policy(&config.policies[index].name);
            let draw = Draw::new(options.seed, index as u32, 0, Purpose::Initialise);
            Self::of_rollout(part, weights, options.rows, draw)
        };
        Ok(rollout.policies.iter().enumerate().map(batch).collect())
    }

    /// This batch with what `plan`'s network says at these weights as old values, and advantages that
    /// are the distance from there to the targets: as where both come from the weights alone.
    ///
    /// # Errors
    /// Weights of another network.
    pub fn with_own_values(&self, plan: &PolicyPlan) -> Result<Self> {
        let loss = Formula::A2c(A2cConfig::default());
        let values = Reference::new(plan, self, &loss, Margin::NONE)?.values();
        let pairs = self.returns.iter().zip(&values);
        let advantages = pairs.map(|(target, value)| target - value).collect();
        Ok(Self { advantages, values, ..self.clone() })
    }

    /// The run that is short enough, and still has `rows` rows for each policy: `config`'s own with few replicas and
    /// steps, and with Adam, from whose first moment gradients are read.
    #[must_use]
    pub fn shorten(mut config: TrainConfig, rows: usize) -> TrainConfig {
        let fewest_agents = config.policies.iter().map(PolicyPlan::n_agents).min().unwrap_or(1);
        config.run.num_envs = REPLICAS.max(rows.div_ceil(STEPS * fewest_agents.max(1)));
        config.run.num_steps = STEPS;
        config.policies.iter_mut().for_each(|plan| plan.config.optimiser = UpdateRule::Adam);
        config
    }

    fn of_rollout(
        part: &PolicyRollout,
        mut weights: Vec<NamedTensor>,
        rows: usize,
        draw: Draw,
    ) -> Self {
        let cells = part.rewards.len();
        let picked: Vec<u32> = (0..rows).map(|i| (i * cells / rows) as u32).collect();
        for (number, tensor) in weights.iter_mut().enumerate() {
            let mut draw = draw.agent(number as u32 + 1);
            tensor.data.iter_mut().for_each(|x| *x += SHIFT * draw.normal());
        }
        let mut draw = draw.agent(0);
        let values = picked_rows(&part.values, &picked, 1);
        let in_game = |at: u32| part.weights.get(at as usize).is_none_or(|weight| *weight > 0.0);
        let weight = |(i, at): (usize, &u32)| {
            let left_out = i % 7 == 6 || !in_game(*at);
            if left_out { 0.0 } else { 0.5 + 0.125 * (i % 5) as f32 }
        };
        Self {
            weights,
            obs: picked_rows(&part.obs, &picked, part.width),
            actions: {
                let mut actions = Actions::default();
                actions.pick(part.actions.view(), &picked, part.layout.action_width());
                actions
            },
            action_mask: if part.action_mask.is_empty() {
                Vec::new()
            } else {
                picked_rows(&part.action_mask, &picked, part.layout.mask_width())
            },
            log_probs: picked_rows(&part.log_probs, &picked, 1),
            advantages: (0..rows).map(|_| draw.normal()).collect(),
            returns: values.iter().map(|value| value + draw.normal()).collect(),
            values,
            sample_weights: picked.iter().enumerate().map(weight).collect(),
        }
    }
}

fn picked_rows<T: Copy>(source: &[T], picked: &[u32], width: usize) -> Vec<T> {
    let mut rows = Vec::new();
    pick_rows(&mut rows, source, picked, width);
    rows
}
