//! What a learner is: four verbs over all policies of a run.
//!
//! `collect` has a default that works for every learner and environment; one that owns the whole
//! rollout (fused kernels on a GPU) replaces it. `update` learns from a rollout,
//! `act` is for evaluation, `state` is what a checkpoint holds.

use crate::error::Result;
use crate::metrics::{PhaseSeconds, PolicyFigures};
use crate::model::{NamedBytes, NamedTensor};
use crate::normalise::{Normaliser, Statistic};
use crate::rollout::{PolicyRollout, Rollout};
use std::time::Instant;
use warp_func::{EpisodeTotals, VecEnv};
use warp_sample::{ActionLayout, ActionSamples, ActionsMut, Mode, Rows};

/// Everything a learner needs to go on where it was: named tensors, the same for every backend.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnerState {
    /// Weights and biases, `<policy>.<layer>.weight` and `.bias`, and `<policy>.log_std`.
    pub weights: Vec<NamedTensor>,
    /// Adam's moments, `<policy>.<layer>.weight.exp_avg` and `.exp_avg_sq`.
    pub optimizer: Vec<NamedTensor>,
    /// Adam's steps per policy, by its name.
    pub optimizer_steps: Vec<(String, u64)>,
    /// What normalisers know, `<policy>.obs_mean` and so on, and counters.
    pub statistics: Vec<Statistic>,
    /// Replay memories and what else goes on from step to step, `<policy>.replay.obs` and so on.
    pub numbers: Vec<NamedTensor>,
    /// Flags of replay memories.
    pub flags: Vec<NamedBytes>,
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

    /// Adds the statistics of a policy under its name.
    pub fn add_statistics(&mut self, policy: &str, statistics: Vec<Statistic>) {
        let under = |statistic: Statistic| Statistic {
            name: format!("{policy}.{}", statistic.name),
            ..statistic
        };
        self.statistics.extend(statistics.into_iter().map(under));
    }

    /// Checks that all weights, moments and statistics are finite. That a policy still acts says nothing:
    /// relu turns what is not a number into 0.
    ///
    /// # Errors
    /// The first number that is not, in words.
    pub fn check_finite(&self) -> std::result::Result<(), String> {
        let wrong = |name: &str, at: usize, x: f64| {
            Err(format!("tensor \"{name}\" holds {x} as its element {at}"))
        };
        for NamedTensor { name, data, .. } in self.weights.iter().chain(&self.optimizer) {
            if let Some(at) = data.iter().position(|x| !x.is_finite()) {
                return wrong(name, at, data[at].into());
            }
        }
        for Statistic { name, data, .. } in &self.statistics {
            if let Some(at) = data.iter().position(|x| !x.is_finite()) {
                return wrong(name, at, data[at]);
            }
        }
        Ok(())
    }

    /// The statistics of a policy, without its name.
    #[must_use]
    pub fn statistics_of_policy(&self, policy: &str) -> Vec<Statistic> {
        let strip = |statistic: &Statistic| {
            let name = statistic.name.strip_prefix(policy)?.strip_prefix('.')?.into();
            Some(Statistic { name, ..statistic.clone() })
        };
        self.statistics.iter().filter_map(strip).collect()
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

    /// Runs policy `policy` on `n_rows` observations, f32 `[n_rows, width]`, normalised if the
    /// policy normalises; fills `outputs` f32 `[n_rows, output_width]` (logits, or means and then
    /// log-deviations) and `values` f32 `[n_rows]`.
    ///
    /// # Errors
    /// A network that gives something else than its configuration says.
    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        n_rows: usize,
        outputs: &mut [f32],
        values: &mut [f32],
    ) -> Result<()>;

    /// Fills `outputs` alone and says true, if they can be had without the values: then a rollout asks
    /// for all its values at once, by [`Learner::values`]. Else does nothing.
    ///
    /// # Errors
    /// As [`Learner::forward`].
    fn outputs(&mut self, _policy: usize, _obs: &[f32], _outputs: &mut [f32]) -> Result<bool> {
        Ok(false)
    }

    /// Fills `values` f32 `[n_rows]` of observations f32 `[n_rows, width]`; only where
    /// [`Learner::outputs`] says true.
    ///
    /// # Errors
    /// As [`Learner::forward`].
    fn values(&mut self, policy: usize, _obs: &[f32], _values: &mut [f32]) -> Result<()> {
        let reason = format!("the values of policy {policy} can't be had alone");
        Err(crate::error::Error::Invalid(reason))
    }

    /// What a policy's observations are normalised by, if they are. Without a default, so that no learner
    /// acts on what its policies have never seen.
    ///
    /// # Errors
    /// A state on a device that can't be brought here.
    fn normaliser(&mut self, policy: usize) -> Result<Option<&Normaliser>>;

    /// What each policy normalises by, in order, to be taught by a rollout on the host; only for learners
    /// that work on [`Rollout`]s.
    fn normalisers_mut(&mut self) -> &mut [Normaliser] {
        &mut []
    }

    /// Chooses an action for every row: normaliser (which learns nothing), network, sampler.
    ///
    /// # Errors
    /// As [`Learner::forward`]; or logits that are not finite, that is, a policy that diverged.
    fn act(&mut self, policy: usize, scene: &Scene<'_>, out: &mut Acted<'_>) -> Result<()> {
        let n_rows = out.values.len();
        match self.normaliser(policy)?.filter(|normaliser| normaliser.changes_obs()) {
            Some(normaliser) => {
                let mut obs = scene.obs.to_vec();
                normaliser.apply(&mut obs);
                self.forward(policy, &obs, n_rows, out.outputs, out.values)?;
            }
            None => self.forward(policy, scene.obs, n_rows, out.outputs, out.values)?,
        }
        let actions = match &mut out.actions {
            ActionsMut::Discrete(actions) => ActionsMut::Discrete(actions),
            ActionsMut::Continuous { raw, bounded } => ActionsMut::Continuous { raw, bounded },
        };
        let (log_probs, entropies) = (&mut *out.log_probs, &mut *out.entropies);
        let into = ActionSamples { actions, log_probs, entropies };
        let Scene { action_mask, layout, rows, mode, .. } = scene;
        Ok(layout.sample(out.outputs, *action_mask, rows, *mode, into)?)
    }

    /// Fills `rollout` with the next `n_steps` steps of `envs`. Returns where the time went.
    ///
    /// # Errors
    /// As [`Learner::act`].
    fn collect(&mut self, envs: &mut dyn VecEnv, rollout: &mut Rollout) -> Result<PhaseSeconds> {
        collect(self, envs, rollout)
    }

    /// Whether the learner has a rollout of its own where the environments are, and how many
    /// iterations it takes at once at most; nothing if it works on [`Rollout`]s.
    fn iterates(&self) -> Option<u64> {
        None
    }

    /// Collects and learns `n` times from where `progress` says, without anything on the host; one
    /// entry per iteration. What it does does not depend on how iterations are put together.
    ///
    /// # Errors
    /// A learner that works on [`Rollout`]s; environments elsewhere; a policy that diverged.
    fn iterate(
        &mut self,
        _envs: &mut dyn VecEnv,
        _progress: Progress,
        _n: u64,
    ) -> Result<Vec<Iterated>> {
        let reason = format!("the learner {} works on rollouts on the host", self.backend());
        Err(crate::Error::Invalid(reason))
    }

    /// Learns from a full rollout; one entry per policy.
    ///
    /// # Errors
    /// A loss that diverged.
    fn update(&mut self, rollout: &mut Rollout, progress: Progress) -> Result<Vec<PolicyFigures>>;

    /// What a checkpoint holds.
    fn state(&self) -> LearnerState;

    /// Takes over what a checkpoint holds, bit by bit.
    ///
    /// # Errors
    /// A tensor that is missing, unknown, or of another shape.
    fn load_state(&mut self, state: &LearnerState) -> Result<()>;
}

impl std::fmt::Debug for dyn Learner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the learner {}", self.backend())
    }
}

/// What an iteration leaves of which the host has seen nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Iterated {
    /// The episodes that ended.
    pub episodes: EpisodeTotals,
    /// One entry per policy.
    pub policies: Vec<PolicyFigures>,
}

/// What a policy acts on.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// As the environment wrote them, f32 `[n_rows, width]`.
    pub obs: &'a [f32],
    /// u8 `[n_rows, sum of head sizes]`, if the environment has masks.
    pub action_mask: Option<&'a [u8]>,
    /// What outputs and actions are.
    pub layout: &'a ActionLayout,
    /// Whose rows they are, and at which step: what draws depend on.
    pub rows: Rows,
    /// Sampled or greedy.
    pub mode: Mode,
}

/// What a policy chose.
#[derive(Debug)]
pub struct Acted<'a> {
    /// Scratch and by-product, f32 `[n_rows, output_width]`.
    pub outputs: &'a mut [f32],
    /// f32 `[n_rows]`.
    pub values: &'a mut [f32],
    /// Choices, or samples and what the environment gets.
    pub actions: ActionsMut<'a>,
    /// f32 `[n_rows]`.
    pub log_probs: &'a mut [f32],
    /// f32 `[n_rows]`.
    pub entropies: &'a mut [f32],
}

/// The default of [`Learner::collect`]: look, act, step, store; for every step in turn.
fn collect<L: Learner + ?Sized>(
    learner: &mut L,
    envs: &mut dyn VecEnv,
    rollout: &mut Rollout,
) -> Result<PhaseSeconds> {
    let mut phases = PhaseSeconds::default();
    let mut clock = Instant::now();
    let mut lap = |phase: &mut f64| {
        *phase += std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64()
    };
    let sized = |p: &PolicyRollout| {
        (vec![0.0; p.n_rows * p.layout.output_width()], vec![0.0; p.n_rows], false)
    };
    let mut scratch: Vec<_> = rollout.policies.iter().map(sized).collect();
    for policy in &mut rollout.policies {
        policy.truncated.at.clear();
        policy.truncated.obs.clear();
    }
    for t in 0..=rollout.n_steps {
        let last = t == rollout.n_steps;
        for (index, policy) in rollout.policies.iter_mut().enumerate() {
            policy.store_inputs(t, envs);
            if let Some(normaliser) = learner.normalisers_mut().get_mut(index) {
                let (obs, weights) = policy.inputs_mut(t);
                // What follows the last step is the next rollout's first.
                if last { normaliser.apply(obs) } else { normaliser.observe(obs, weights) }
            }
            let (outputs, entropies, apart) = &mut scratch[index];
            lap(&mut phases.step);
            let (n_rows, width, rows) = (policy.n_rows, policy.width, policy.rows(t));
            let obs = &policy.obs[t * n_rows * width..][..n_rows * width];
            if !last {
                *apart = learner.outputs(index, obs, outputs)?;
            }
            if !*apart {
                learner.forward(index, obs, n_rows, outputs, &mut policy.values[rows])?;
            }
            lap(&mut phases.policy);
            if last {
                // Only the values of what follows the last step are needed.
                if *apart {
                    learner.values(index, &policy.obs, &mut policy.values)?;
                    lap(&mut phases.policy);
                }
                continue;
            }
            let names = policy.names(envs);
            policy.draw(t, outputs, &names, entropies)?;
            policy.send_actions(t, envs)?;
            lap(&mut phases.sample);
        }
        if !last {
            envs.step()?;
            rollout.policies.iter_mut().for_each(|policy| policy.store_outcome(t, envs));
            lap(&mut phases.step);
        }
    }
    for (normaliser, policy) in learner.normalisers_mut().iter().zip(&mut rollout.policies) {
        normaliser.apply(&mut policy.truncated.obs);
    }
    Ok(phases)
}
