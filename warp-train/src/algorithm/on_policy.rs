//! Algorithms that learn from rollouts, and what they ask of a device.

use crate::error::Result;
use crate::loss::Objective;
use std::fmt::Debug;
use std::ops::Range;

/// An actor-critic that learns from each rollout by itself, as a schedule that never sees a number.
pub trait OnPolicyAlgorithm: Send + Debug {
    /// The loss after `env_steps` environment steps. Its functions are always the same; only its cells may change, and
    /// unless `clip_coef` is a schedule, GPU kernels use the values of step 0. The engine applies `vf_coef` and
    /// `ent_coef`.
    fn objective(&self, env_steps: u64) -> Objective;

    /// How advantages and value targets are estimated.
    fn advantages(&self) -> Advantages {
        Advantages::Gae
    }

    /// Learns from one rollout.
    ///
    /// # Errors
    /// A device that failed, or a gradient that is not finite.
    fn update(&self, engine: &mut dyn OnPolicyEngine) -> Result<()>;
}

/// How advantages are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advantages {
    /// Generalised advantage estimation (Schulman et al., 2016).
    Gae,
    /// Returns as WarpDrive computes them ([`crate::loss::gae::warpdrive_returns`]).
    WarpDrive,
}

/// A rollout and the policy that learns from it, on one device.
pub trait OnPolicyEngine {
    /// Computes the advantages and value targets of all samples.
    ///
    /// # Errors
    /// A device that failed; so for all functions of an engine.
    fn compute_advantages(&mut self) -> Result<()>;

    /// Puts the samples in an order of epoch number `epoch`.
    ///
    /// # Errors
    /// As [`OnPolicyEngine::compute_advantages`].
    fn shuffle(&mut self, epoch: usize) -> Result<()>;

    /// Splits the samples into `n` minibatches; into fewer if there are not as many samples.
    fn split_into_minibatches(&mut self, n: usize) -> Range<usize>;

    /// Loads a minibatch of the last split; its advantages are brought to mean 0 and standard deviation 1 if the key
    /// `norm_adv` says so.
    ///
    /// # Errors
    /// As [`OnPolicyEngine::compute_advantages`].
    fn load_minibatch(&mut self, minibatch: usize) -> Result<()>;

    /// Computes the objective over the minibatch, and its gradient.
    ///
    /// # Errors
    /// As [`OnPolicyEngine::compute_advantages`].
    fn compute_gradient(&mut self) -> Result<()>;

    /// Takes a step of the optimiser along the gradient.
    ///
    /// # Errors
    /// A gradient that is not finite.
    fn optimiser_step(&mut self) -> Result<()>;

    /// Whether the policy may go through the samples again: false once it has moved, in the mean over the steps
    /// since this was last asked, further than the key `target_kl` says.
    ///
    /// # Errors
    /// As [`OnPolicyEngine::compute_advantages`].
    fn within_target_kl(&mut self) -> Result<bool> {
        Ok(true)
    }
}
