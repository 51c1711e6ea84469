//! Advantage actor-critic (Mnih et al., 2016), synchronous: one step of gradient descent on the
//! whole rollout, as WarpDrive does it ([`crate::loss::a2c`]).

use super::on_policy::{Advantages, OnPolicyAlgorithm, OnPolicyEngine};
use crate::algorithm::PolicyConfig;
use crate::error::Result;
use crate::loss::{Objective, a2c};

/// A2C's one step.
#[derive(Debug)]
pub struct A2c {
    advantages: Advantages,
}

impl A2c {
    /// A2C as a policy's keys describe it.
    #[must_use]
    pub fn new(keys: &PolicyConfig) -> Self {
        let compat = keys.compat_last_step;
        Self { advantages: if compat { Advantages::WarpDrive } else { Advantages::Gae } }
    }
}

impl OnPolicyAlgorithm for A2c {
    fn objective(&self, _env_steps: u64) -> Objective {
        a2c::objective()
    }

    fn advantages(&self) -> Advantages {
        self.advantages
    }

    fn update(&self, engine: &mut dyn OnPolicyEngine) -> Result<()> {
        engine.compute_advantages()?;
        for minibatch in engine.split_into_minibatches(1) {
            engine.load_minibatch(minibatch)?;
            engine.compute_gradient()?;
            engine.optimiser_step()?;
        }
        Ok(())
    }
}
