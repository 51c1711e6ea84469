//! An algorithm of your own, with the whole `warp` command: PPO with a penalty on the divergence from the
//! old policy in place of clipping (Schulman et al., 2017, section 4, with a fixed coefficient).
//!
//! `cargo run --release -p warp-examples --example 06_your_own_algorithm -- train cartpole --set
//! algorithm=ppo_kl --set kl_coef=0.5`
//!
//! The loss is a row function; `warp translate` makes the CUDA text beside this file of it, so that the
//! same lines learn on a GPU. Who needs no GPU leaves the name of the text out.

use std::process::ExitCode;
use warp_core::math;
use warp_train::Result;
use warp_train::algorithm::{
    Entry, Learns, ON_POLICY, OnPolicyAlgorithm, OnPolicyEngine, OwnKeys, WithAlgorithm,
};
use warp_train::config::PolicyPlan;
use warp_train::loss::{Objective, Part, ppo};
use warp_train::row_functions;

warp_core::config! {
    /// Keys that PPO with a penalty has beside those of every algorithm that learns from rollouts.
    pub struct PenaltyKeys {
        /// Weight of the divergence from the old policy.
        pub kl_coef: f64 = 0.2,
        /// Passes over the rollout.
        pub n_epochs: u32 = 4,
        /// Parts into which the rollout is cut for each pass.
        pub n_minibatches: u32 = 4,
    }
}

/// The ratio's loss and `kl_coef` times an estimate of the divergence, `ratio - 1 - ln ratio`.
pub fn policy_loss(
    kl_coef: f32,
    log_prob: &[f32],
    old_log_prob: &[f32],
    advantage: &[f32],
    loss: &mut [f32],
    d_log_prob: &mut [f32],
    approx_kl: &mut [f32],
) {
    let log_ratio = log_prob[0] - old_log_prob[0];
    let ratio = math::exp(log_ratio);
    approx_kl[0] = (ratio - 1.0) - log_ratio;
    loss[0] = -advantage[0] * ratio + kl_coef * approx_kl[0];
    d_log_prob[0] = -advantage[0] * ratio + kl_coef * (ratio - 1.0);
}

row_functions! { "06_your_own_algorithm.cu";
    POLICY_LOSS = policy_loss(
        kl_coef; log_prob, old_log_prob, advantage; loss, d_log_prob, approx_kl
    );
}

/// PPO with a penalty.
#[derive(Debug)]
struct PpoKl {
    keys: PenaltyKeys,
}

impl PpoKl {
    fn new(policy: &PolicyPlan) -> Result<Self> {
        let keys: PenaltyKeys = policy.own_keys()?;
        for (key, value) in [("n_epochs", keys.n_epochs), ("n_minibatches", keys.n_minibatches)] {
            if value == 0 {
                return Err(warp_core::Error::invalid(key, value, "must be at least 1").into());
            }
        }
        Ok(Self { keys })
    }
}

impl OnPolicyAlgorithm for PpoKl {
    fn objective(&self, _env_steps: u64) -> Objective {
        let kl_coef = self.keys.kl_coef as f32;
        Objective {
            policy: Part { function: &POLICY_LOSS, cells: vec![kl_coef] },
            // PPO's, not clipped.
            value: Part { function: &ppo::VALUE_LOSS, cells: vec![0.0, 0.0] },
        }
    }

    fn update(&self, engine: &mut dyn OnPolicyEngine) -> Result<()> {
        engine.compute_advantages()?;
        for epoch in 0..self.keys.n_epochs as usize {
            engine.shuffle(epoch)?;
            for minibatch in engine.split_into_minibatches(self.keys.n_minibatches as usize) {
                engine.load_minibatch(minibatch)?;
                engine.compute_gradient()?;
                engine.optimiser_step()?;
            }
        }
        Ok(())
    }
}

/// What `algorithm = "ppo_kl"` means.
pub const PPO_KL: Entry = Entry {
    name: "ppo_kl",
    keys: &[ON_POLICY],
    defaults: "",
    own: Some(OwnKeys::of::<PenaltyKeys>()),
    learns: Learns::FromRollouts(|policy, _| Ok(Box::new(PpoKl::new(policy)?))),
};

fn main() -> ExitCode {
    warp_examples::run(warp_envs::registry().with_algorithm(PPO_KL))
}
