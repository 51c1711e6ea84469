//! DDPG (Lillicrap et al., "Continuous control with deep reinforcement learning", 2016) and TD3 (Fujimoto
//! et al., "Addressing Function Approximation Error in Actor-Critic Methods", 2018).

use super::networks::Networks;
use super::objective::{Objective, Row};
use crate::algorithm::PolicyConfig;

pub(crate) static DDPG: [Objective; 2] = [
    Objective {
        name: "critic",
        models: &["critic"],
        column: Some("critic_loss"),
        given: |_, networks, row| {
            let next = action(networks, "actor_target", &row.next_obs);
            let q = value(networks, "critic_target", &row.next_obs, &next);
            vec![row.reward + row.discount * q]
        },
        loss: |_, networks, row, target| squares(networks, &["critic"], row, target[0]),
    },
    Objective { loss: |_, networks, row, _| climb(networks, "critic", row), ..ACTOR },
];

pub(crate) static TD3: [Objective; 2] = [
    Objective {
        name: "critics",
        models: &["critic_1", "critic_2"],
        column: Some("critic_loss"),
        given: |keys, networks, row| vec![smoothed_target(keys, networks, row)],
        loss: |_, networks, row, target| {
            squares(networks, &["critic_1", "critic_2"], row, target[0])
        },
    },
    Objective { loss: |_, networks, row, _| climb(networks, "critic_1", row), ..ACTOR },
];

/// The actor's, but for which critic it climbs.
pub(super) const ACTOR: Objective = Objective {
    name: "actor",
    models: &["actor"],
    column: Some("actor_loss"),
    given: |_, _, _| Vec::new(),
    loss: |_, _, _, _| f64::NAN,
};

/// What an actor does: tanh of what it gives.
pub(super) fn action(networks: &Networks, actor: &str, obs: &[f64]) -> Vec<f64> {
    networks.apply(actor, obs).iter().map(|x| x.tanh()).collect()
}

fn value(networks: &Networks, critic: &str, obs: &[f64], action: &[f64]) -> f64 {
    networks.value(critic, &[obs, action].concat())
}

/// Squared errors of `critics`.
fn squares(networks: &Networks, critics: &[&str], row: &Row, target: f64) -> f64 {
    let error = |critic: &&str| value(networks, critic, &row.obs, &row.action) - target;
    row.weight * critics.iter().map(|critic| error(critic).powi(2)).sum::<f64>()
}

/// The actor climbs the values that `critic` gives its actions.
fn climb(networks: &Networks, critic: &str, row: &Row) -> f64 {
    -row.counts() * value(networks, critic, &row.obs, &action(networks, "actor", &row.obs))
}

/// What the target's actor does next, with the noise that was drawn.
pub(super) fn smoothed(keys: &PolicyConfig, networks: &Networks, row: &Row) -> Vec<f64> {
    let most = keys.target_noise_clip;
    let with_noise =
        |(a, z): (f64, &f64)| (a + (keys.target_noise * z).clamp(-most, most)).clamp(-1.0, 1.0);
    let next = action(networks, "actor_target", &row.next_obs);
    next.into_iter().zip(&row.next_noise).map(with_noise).collect()
}

fn smoothed_target(keys: &PolicyConfig, networks: &Networks, row: &Row) -> f64 {
    let next = smoothed(keys, networks, row);
    let q = ["critic_1_target", "critic_2_target"]
        .map(|critic| value(networks, critic, &row.next_obs, &next));
    row.reward + row.discount * q[0].min(q[1])
}
