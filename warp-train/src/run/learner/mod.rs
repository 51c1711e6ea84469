//! Learners: what trains all policies of a run on one backend, with one interface.
//!
//! `iterate` collects and learns, wherever that happens; `act` is for evaluation; `state` is what a
//! checkpoint holds.

#[cfg(feature = "burn")]
mod burn;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod lockstep;
pub mod native;
pub mod policies;
#[cfg(feature = "tch")]
pub mod torch;

#[cfg(feature = "burn")]
pub use burn::BurnLearner;
#[cfg(feature = "cuda")]
pub use cuda::CudaLearner;
pub use native::NativeLearner;
pub use policies::PolicyLearner;

pub use crate::engine::{Iterated, Progress};
pub use crate::model::LearnerState;

use crate::engine::rollout::Rollout;
use crate::engine::rollout::normalise::Normaliser;
use crate::error::Result;
use crate::run::league::{League, LeagueLearner};
use warp_func::VecEnv;
use warp_sample::{ActionLayout, ActionSamples, ActionsMut, Mode, Rows};

/// Something that learns.
pub trait Learner: Send {
    /// What it is called in summaries.
    fn backend(&self) -> &'static str;

    /// Runs policy `policy` on `n_rows` observations, f32 `[n_rows, width]`, normalised if the policy normalises;
    /// fills `outputs` f32 `[n_rows, output_width]` (logits, or means and then log standard deviations) and
    /// `values` f32 `[n_rows]`.
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
    fn act(
        &mut self,
        policy: usize,
        input: &PolicyInput<'_>,
        out: &mut PolicyOutput<'_>,
    ) -> Result<()> {
        let n_rows = out.values.len();
        match self.normaliser(policy)?.filter(|normaliser| normaliser.changes_obs()) {
            Some(normaliser) => {
                let mut obs = input.obs.to_vec();
                normaliser.apply(&mut obs);
                self.forward(policy, &obs, n_rows, out.outputs, out.values)?;
            }
            None => self.forward(policy, input.obs, n_rows, out.outputs, out.values)?,
        }
        let actions = match &mut out.actions {
            ActionsMut::Discrete(actions) => ActionsMut::Discrete(actions),
            ActionsMut::Continuous { raw, bounded } => ActionsMut::Continuous { raw, bounded },
        };
        let (log_probs, entropies) = (&mut *out.log_probs, &mut *out.entropies);
        let into = ActionSamples { actions, log_probs, entropies };
        let PolicyInput { action_mask, layout, rows, mode, .. } = input;
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

    /// Which way its iterations take, and why not a faster one; known once it is prepared, where there are several.
    fn path(&self) -> Option<&str> {
        None
    }

    /// The league that its policies play in, if they do.
    fn league(&self) -> Option<&League> {
        None
    }

    /// The learner that plays the games of its league, if its policies play in one.
    fn as_league(&mut self) -> Option<&mut LeagueLearner> {
        None
    }

    /// What a checkpoint holds. After an error of [`Learner::iterate`], that may be of any iteration since the last call.
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

/// What a policy acts on.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// As the environment wrote them, f32 `[n_rows, width]`.
    pub obs: &'a [f32],
    /// u8 `[n_rows, sum of head sizes]`, if the environment has masks.
    pub action_mask: Option<&'a [u8]>,
    /// What outputs and actions are.
    pub layout: &'a ActionLayout,
    /// The rows and the step, on which random numbers depend.
    pub rows: Rows,
    /// Sampled or greedy.
    pub mode: Mode,
}

/// What a policy chose.
#[derive(Debug)]
pub struct PolicyOutput<'a> {
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
