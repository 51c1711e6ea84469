//! Proximal policy optimisation (Schulman et al., 2017), as CleanRL writes it: advantages, then
//! epochs of shuffled minibatches, the loss of one sample at a time ([`crate::loss::ppo`]).

use super::on_policy::{OnPolicyAlgorithm, OnPolicyEngine};
use crate::algorithm::PolicyConfig;
use crate::error::Result;
use crate::loss::Objective;
use crate::loss::ppo::PpoConfig;

/// PPO's passes over a rollout.
#[derive(Debug)]
pub struct Ppo {
    objective: Objective,
    update_epochs: usize,
    num_minibatches: usize,
}

impl Ppo {
    /// PPO as a policy's keys describe it.
    #[must_use]
    pub fn new(keys: &PolicyConfig) -> Self {
        let clip_coef = keys.clip_coef as f32;
        let clipping = PpoConfig { clip_coef, clip_vloss: keys.clip_vloss, ..PpoConfig::default() };
        Self {
            objective: clipping.objective(),
            update_epochs: keys.update_epochs,
            num_minibatches: keys.num_minibatches,
        }
    }
}

impl OnPolicyAlgorithm for Ppo {
    fn objective(&self) -> Objective {
        self.objective.clone()
    }

    fn update(&self, engine: &mut dyn OnPolicyEngine) -> Result<()> {
        engine.estimate()?;
        for epoch in 0..self.update_epochs {
            engine.shuffle(epoch)?;
            for minibatch in engine.cut(self.num_minibatches) {
                engine.gather(minibatch)?;
                engine.gradient()?;
                engine.step()?;
            }
        }
        Ok(())
    }
}
