//! What a learner is: three verbs over all policies of a run.
//!
//! `iterate` collects and learns, wherever that happens; `act` is for evaluation; `state` is what a
//! checkpoint holds.

use crate::error::Result;
use crate::metrics::{PhaseSeconds, PolicyFigures};
use crate::model::{NamedBytes, NamedTensor};
use crate::normalise::{Normaliser, Statistic};
use crate::rollout::Rollout;
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

impl Progress {
    /// Where it stands `n` iterations of `steps` environment steps later.
    #[must_use]
    pub(crate) fn after(self, n: u64, steps: u64) -> Self {
        let (iteration, env_steps) = (self.iteration + n, self.env_steps + n * steps);
        Self { iteration, env_steps, ..self }
    }
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

    /// What a policy's observations are normalised by, if they are. Without a default, so that no learner
    /// acts on what its policies have never seen.
    ///
    /// # Errors
    /// A state on a device that can't be brought here.
    fn normaliser(&mut self, policy: usize) -> Result<Option<&Normaliser>>;

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

    /// How many iterations it takes at once at most, at least 1.
    fn most_iterations(&self) -> u64;

    /// Collects and learns `n` times from where `progress` says; one entry per iteration. What it does
    /// does not depend on how iterations are put together. `n` = 0 prepares what the first one would
    /// begin with: kernels, arrays.
    ///
    /// # Errors
    /// Environments that are not where the learner is, a policy or a loss that diverged, too little memory.
    fn iterate(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>>;

    /// What the last iteration collected, where the learner keeps that on the host for all policies.
    fn rollout(&self) -> Option<&Rollout> {
        None
    }

    /// Bytes of [`Learner::rollout`], which is made with the first iteration; 0 where there is none.
    fn rollout_bytes(&self) -> u128 {
        0
    }

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

/// What an iteration leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Iterated {
    /// The episodes that ended.
    pub episodes: EpisodeTotals,
    /// One entry per policy.
    pub policies: Vec<PolicyFigures>,
    /// Where its time went; nothing where nobody waits between the phases.
    pub phases: Option<PhaseSeconds>,
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
