//! What the kernels know of an algorithm that learns from rollouts.

use crate::config::{Algorithm, PolicyPlan};

/// A loss that there are kernels for, by its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RolloutLoss {
    Ppo = 0,
    A2c = 1,
}

impl RolloutLoss {
    /// That of `plan`. What learns from a replay memory has an engine, and no policy here.
    pub(super) fn of(plan: &PolicyPlan) -> Self {
        match plan.config.algorithm {
            Algorithm::Ppo => Self::Ppo,
            Algorithm::A2c | Algorithm::Dqn | Algorithm::Ddpg | Algorithm::Td3 | Algorithm::Sac => {
                Self::A2c
            }
        }
    }

    /// Whether each epoch takes the samples in an order of its own.
    pub(super) fn shuffles(self) -> bool {
        match self {
            Self::Ppo => true,
            Self::A2c => false,
        }
    }

    /// Whether advantages are those of the program that `compat_last_step` stands for.
    pub(super) fn compat_last_step(self, plan: &PolicyPlan) -> bool {
        match self {
            Self::Ppo => false,
            Self::A2c => plan.config.compat_last_step,
        }
    }
}
