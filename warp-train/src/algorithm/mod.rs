//! Algorithms as schedules over an engine, one file each, the same on every device.

mod a2c;
mod agents;
mod algorithms;
pub(crate) mod choices;
mod critics;
mod ddpg;
mod deterministic;
mod dqn;
mod engine;
mod entry;
mod figures;
mod keys;
mod minibatch_schedule;
mod noise;
mod on_policy;
mod plan;
mod plan_builder;
pub(crate) mod policy_config;
pub(crate) mod policy_keys;
pub(crate) mod policy_plan;
mod ppo;
mod sac;
mod sac_discrete;
pub mod schedule;
pub(crate) mod table;
mod td3;
mod temperature;

pub use agents::AgentRange;
pub use algorithms::{Algorithms, WithAlgorithm};
pub use choices::{ActionDistribution, Noise, Precision};
pub use engine::Engine;
pub use entry::{Entry, Learns, OnPolicyOf, OwnKeys, PlanOf, Planned};
pub use figures::{PolicyFigures, PolicyMetrics};
pub use keys::{A2C, COMMON, OFF_POLICY, ON_POLICY, PPO};
pub(crate) use minibatch_schedule::MinibatchSchedule;
pub use on_policy::{Advantages, OnPolicyAlgorithm, OnPolicyEngine};
pub use plan::*;
pub use plan_builder::{Allowed, Bounds, Common, InputGradientPass, LearningPass, PlanBuilder};
pub use policy_config::PolicyConfig;
pub use policy_keys::drop_foreign_keys;
pub use policy_plan::PolicyPlan;
pub(crate) use policy_plan::Rollouts;
pub use schedule::Schedule;
pub use {a2c::A2c, ddpg::Ddpg, dqn::Dqn, ppo::Ppo, sac::Sac};
pub use {sac_discrete::SacDiscrete, td3::Td3};

use crate::error::Result;
use std::fmt::Debug;

/// Which of an algorithm's updates: each is recorded once on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant(pub usize);

/// How a policy acts and learns, as a schedule that never sees a number.
pub trait Algorithm: Send + Debug {
    /// Chooses [`Acting::action`] and [`Acting::env_action`] of all acting rows by [`Acting::obs`].
    ///
    /// # Errors
    /// A device that failed.
    fn act(&self, engine: &mut dyn Engine) -> Result<()>;

    /// How many variants [`Algorithm::update`] has.
    fn n_variants(&self) -> usize {
        1
    }

    /// The variant of update number `update`, counted from 0.
    fn variant(&self, _update: u64) -> Variant {
        Variant(0)
    }

    /// Learns from one batch.
    ///
    /// # Errors
    /// A device that failed, or a gradient that is not finite.
    fn update(&self, engine: &mut dyn Engine, variant: Variant) -> Result<()>;
}
