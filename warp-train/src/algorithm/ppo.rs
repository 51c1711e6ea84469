//! Proximal policy optimisation (Schulman et al., 2017), as CleanRL writes it: advantages, then
//! epochs of shuffled minibatches, the loss of one sample at a time ([`crate::loss::ppo`]).

use super::on_policy::{OnPolicyAlgorithm, OnPolicyEngine};
use crate::algorithm::{PolicyConfig, Schedule};
use crate::error::Result;
use crate::loss::Objective;
use crate::loss::ppo::PpoConfig;

/// PPO's passes over a rollout.
#[derive(Debug)]
pub struct Ppo {
    clip_coef: Schedule,
    clip_vloss: bool,
    update_epochs: usize,
    num_minibatches: usize,
}

impl Ppo {
    /// PPO as a policy's keys describe it.
    #[must_use]
    pub fn new(keys: &PolicyConfig) -> Self {
        Self {
            clip_coef: keys.clip_coef.clone(),
            clip_vloss: keys.clip_vloss,
            update_epochs: keys.update_epochs,
            num_minibatches: keys.num_minibatches,
        }
    }
}

impl OnPolicyAlgorithm for Ppo {
    fn objective(&self, env_steps: u64) -> Objective {
        let clip_coef = self.clip_coef.at(env_steps) as f32;
        PpoConfig { clip_coef, clip_vloss: self.clip_vloss, ..PpoConfig::default() }.objective()
    }

    fn update(&self, engine: &mut dyn OnPolicyEngine) -> Result<()> {
        engine.compute_advantages()?;
        for epoch in 0..self.update_epochs {
            engine.shuffle(epoch)?;
            for minibatch in engine.split_into_minibatches(self.num_minibatches) {
                engine.load_minibatch(minibatch)?;
                engine.compute_gradient()?;
                engine.optimiser_step()?;
            }
            if !engine.within_target_kl()? {
                break;
            }
        }
        Ok(())
    }
}
