//! What a learner is: four verbs over all policies of a run.
//!
//! `collect` has a default that works for every learner and environment; one that owns the whole
//! rollout (a fused kernel, one thread per shard) replaces it. `update` learns from a rollout,
//! `act` is for evaluation, `state` is what a checkpoint holds.

use crate::burn::NamedTensor;
use crate::error::Result;
use crate::metrics::{PhaseSeconds, PolicyMetrics};
use crate::rollout::Rollout;
use std::time::Instant;
use warp_func::VecEnv;
use warp_sample::{CategoricalLayout, Mode, Rows, Samples};

/// Everything a learner needs to go on where it was: named tensors, the same for every backend.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnerState {
    /// Weights and biases, `<policy>.<layer>.weight` and `.bias`.
    pub weights: Vec<NamedTensor>,
    /// Adam's moments, `<policy>.<layer>.weight.exp_avg` and `.exp_avg_sq`.
    pub optimizer: Vec<NamedTensor>,
    /// Adam's steps per policy, by its name.
    pub optimizer_steps: Vec<(String, u64)>,
}

impl LearnerState {
    /// Adds the tensors of a policy under its name.
    pub fn add_policy(
        &mut self,
        policy: &str,
        weights: Vec<NamedTensor>,
        optimizer: Vec<NamedTensor>,
        n_steps: u64,
    ) {
        let under = |tensor: NamedTensor| NamedTensor {
            name: format!("{policy}.{}", tensor.name),
            ..tensor
        };
        self.weights.extend(weights.into_iter().map(under));
        self.optimizer.extend(optimizer.into_iter().map(under));
        self.optimizer_steps.push((policy.into(), n_steps));
    }

    /// The tensors of a policy, without its name: weights, optimiser, optimiser steps.
    #[must_use]
    pub fn of_policy(&self, policy: &str) -> (Vec<NamedTensor>, Vec<NamedTensor>, u64) {
        let own = |tensors: &[NamedTensor]| {
            let strip = |tensor: &NamedTensor| {
                let name = tensor.name.strip_prefix(policy)?.strip_prefix('.')?.into();
                Some(NamedTensor { name, ..tensor.clone() })
            };
            tensors.iter().filter_map(strip).collect()
        };
        let steps = self.optimizer_steps.iter().find(|(name, _)| name == policy);
        (own(&self.weights), own(&self.optimizer), steps.map_or(0, |(_, n)| *n))
    }
}

/// Where a run stands when a learner works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Iterations done.
    pub iteration: u64,
    /// Environment steps done, summed over replicas.
    pub env_steps: u64,
    /// The run's seed.
    pub seed: u64,
}

/// Something that learns.
pub trait Learner: Send {
    /// What it is called in summaries.
    fn backend(&self) -> &'static str;

    /// Runs policy `policy` on `n_rows` observations, f32 `[n_rows, width]`; fills `logits` f32
    /// `[n_rows, sum of head sizes]` and `values` f32 `[n_rows]`.
    ///
    /// # Errors
    /// A network that gives something else than its configuration says.
    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        n_rows: usize,
        logits: &mut [f32],
        values: &mut [f32],
    ) -> Result<()>;

    /// Chooses an action for every row: network, then sampler.
    ///
    /// # Errors
    /// As [`Learner::forward`]; or logits that are not finite, that is, a policy that diverged.
    fn act(&mut self, policy: usize, scene: &Scene<'_>, out: &mut Acted<'_>) -> Result<()> {
        self.forward(policy, scene.obs, out.values.len(), out.logits, out.values)?;
        draw(scene, out)
    }

    /// Fills `rollout` with the next `n_steps` steps of `envs`. Returns where the time went.
    ///
    /// # Errors
    /// As [`Learner::act`].
    fn collect(&mut self, envs: &mut dyn VecEnv, rollout: &mut Rollout) -> Result<PhaseSeconds> {
        collect(
            &mut |policy, obs, n, logits, values| self.forward(policy, obs, n, logits, values),
            envs,
            rollout,
        )
    }

    /// Learns from a full rollout; one entry per policy.
    ///
    /// # Errors
    /// A loss that diverged.
    fn update(&mut self, rollout: &mut Rollout, progress: Progress) -> Result<Vec<PolicyMetrics>>;

    /// What a checkpoint holds.
    fn state(&self) -> LearnerState;

    /// Takes over what a checkpoint holds, bit by bit.
    ///
    /// # Errors
    /// A tensor that is missing, unknown, or of another shape.
    fn load_state(&mut self, state: &LearnerState) -> Result<()>;
}

/// What a policy acts on.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// f32 `[n_rows, width]`.
    pub obs: &'a [f32],
    /// u8 `[n_rows, sum of head sizes]`, if the environment has masks.
    pub action_mask: Option<&'a [u8]>,
    /// The discrete heads.
    pub heads: &'a CategoricalLayout,
    /// Whose rows they are, and at which step: what draws depend on.
    pub rows: Rows,
    /// Sampled or greedy.
    pub mode: Mode,
}

/// What a policy chose.
#[derive(Debug)]
pub struct Acted<'a> {
    /// Scratch and by-product, f32 `[n_rows, sum of head sizes]`.
    pub logits: &'a mut [f32],
    /// f32 `[n_rows]`.
    pub values: &'a mut [f32],
    /// i32 `[n_rows, n_heads]`.
    pub actions: &'a mut [i32],
    /// f32 `[n_rows]`.
    pub log_probs: &'a mut [f32],
    /// f32 `[n_rows]`.
    pub entropies: &'a mut [f32],
}

/// Draws actions from the logits that a forward pass left.
fn draw(scene: &Scene<'_>, out: &mut Acted<'_>) -> Result<()> {
    let samples =
        Samples { actions: out.actions, log_probs: out.log_probs, entropies: out.entropies };
    Ok(scene.heads.sample(out.logits, scene.action_mask, &scene.rows, scene.mode, samples)?)
}

/// A forward pass: policy, observations, rows, logits out, values out.
type Forward<'a> = dyn FnMut(usize, &[f32], usize, &mut [f32], &mut [f32]) -> Result<()> + 'a;

/// The default of [`Learner::collect`]: look, act, step, store; for every step in turn.
fn collect(
    forward: &mut Forward<'_>,
    envs: &mut dyn VecEnv,
    rollout: &mut Rollout,
) -> Result<PhaseSeconds> {
    let mut phases = PhaseSeconds::default();
    let mut clock = Instant::now();
    let mut lap = |phase: &mut f64| {
        *phase += std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64()
    };
    let mut scratch = Scratch::new(rollout)?;
    for policy in &mut rollout.policies {
        policy.truncated.at.clear();
        policy.truncated.obs.clear();
    }
    for t in 0..=rollout.n_steps {
        for (index, policy) in rollout.policies.iter_mut().enumerate() {
            policy.store_inputs(t, envs);
            let rows = policy.rows(t);
            let logits = &mut scratch.logits[index];
            lap(&mut phases.step);
            let (n_rows, width) = (policy.n_rows, policy.width);
            let obs = &policy.obs[t * n_rows * width..][..n_rows * width];
            forward(index, obs, n_rows, logits, &mut policy.values[rows.clone()])?;
            lap(&mut phases.policy);
            if t == rollout.n_steps {
                // Only the values of what follows the last step are needed.
                continue;
            }
            let heads = &scratch.heads[index];
            let names = Rows {
                first_replica: envs.options().first_replica,
                first_agent: policy.first_agent,
                n_agents: policy.n_agents as u32,
                ..Rows::new(envs.options().seed, envs.run_step())
            };
            let mask_row = heads.width();
            let mask = (!policy.action_mask.is_empty())
                .then(|| &policy.action_mask[t * n_rows * mask_row..][..n_rows * mask_row]);
            let n_heads = heads.n_heads();
            let samples = Samples {
                actions: &mut policy.actions[t * n_rows * n_heads..][..n_rows * n_heads],
                log_probs: &mut policy.log_probs[rows],
                entropies: &mut scratch.entropies[index],
            };
            heads.sample(logits, mask, &names, Mode::Sample, samples)?;
            policy.send_actions(t, envs);
            lap(&mut phases.sample);
        }
        if t < rollout.n_steps {
            envs.step()?;
            rollout.policies.iter_mut().for_each(|policy| policy.store_outcome(t, envs));
            lap(&mut phases.step);
        }
    }
    Ok(phases)
}

/// What a rollout needs beside its own arrays.
struct Scratch {
    heads: Vec<CategoricalLayout>,
    logits: Vec<Vec<f32>>,
    entropies: Vec<Vec<f32>>,
}

impl Scratch {
    fn new(rollout: &Rollout) -> Result<Self> {
        let layouts = rollout.policies.iter().map(|p| CategoricalLayout::new(&p.head_sizes));
        let heads = layouts.collect::<std::result::Result<Vec<_>, _>>()?;
        let sized = || rollout.policies.iter().zip(&heads);
        Ok(Self {
            logits: sized().map(|(p, heads)| vec![0.0; p.n_rows * heads.width()]).collect(),
            entropies: sized().map(|(p, _)| vec![0.0; p.n_rows]).collect(),
            heads,
        })
    }
}
