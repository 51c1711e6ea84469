//! SAC for elements of a box: Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018.

use super::networks::Networks;
use super::objective::{Objective, Row};
use crate::algorithm::PolicyConfig;
use std::f64::consts::TAU;

pub(crate) static OBJECTIVES: [Objective; 3] = [
    // Equation 5, for both critics, with weights.
    Objective {
        name: "critics",
        models: &["critic_1", "critic_2"],
        column: Some("critic_loss"),
        given: |keys, networks, row| vec![target(keys, networks, row)],
        loss: |_, networks, row, target| {
            let x = [&row.obs[..], &row.action].concat();
            let half_square = |critic: &str| 0.5 * (networks.value(critic, &x) - target[0]).powi(2);
            row.weight * (half_square("critic_1") + half_square("critic_2"))
        },
    },
    // Equation 9.
    Objective {
        name: "actor",
        models: &["actor"],
        column: Some("actor_loss"),
        given: |keys, networks, _| vec![alpha(keys, networks)],
        loss: |keys, networks, row, alpha| {
            let drawn = draw(keys, networks, &row.obs, &row.noise);
            let q = value(networks, "", &row.obs, &drawn.action);
            row.counts() * (alpha[0] * drawn.log_prob - q)
        },
    },
    // Equation 18 with ln(alpha) in alpha's place, as the authors' code has it.
    Objective {
        given: |keys, networks, row| vec![-draw(keys, networks, &row.obs, &row.noise).log_prob],
        loss: |keys, networks, row, entropy| {
            let aim = keys.target_entropy.unwrap_or(-(row.action.len() as f64));
            row.counts() * log_alpha(networks) * (entropy[0] - aim)
        },
        ..TEMPERATURE
    },
];

/// The temperature's, but for its loss.
pub(super) const TEMPERATURE: Objective = Objective {
    name: "temperature",
    models: &["temperature"],
    column: None,
    given: |_, _, _| Vec::new(),
    loss: |_, _, _, _| f64::NAN,
};

/// An action, and the logarithm of its density.
struct Drawn {
    action: Vec<f64>,
    log_prob: f64,
}

/// tanh(u) where u is normal, and ln(normal density of u) - ln(dtanh(u) / du).
fn draw(keys: &PolicyConfig, networks: &Networks, obs: &[f64], noise: &[f64]) -> Drawn {
    let output = networks.apply("actor", obs);
    let (means, log_stds) = output.split_at(noise.len());
    let mut drawn = Drawn { action: Vec::new(), log_prob: 0.0 };
    for ((mean, log_std), z) in means.iter().zip(log_stds).zip(noise) {
        networks.note_bend(log_std - keys.log_std_min);
        networks.note_bend(log_std - keys.log_std_max);
        let std = log_std.max(keys.log_std_min).min(keys.log_std_max).exp();
        let u = mean + std * z;
        let density = (-0.5 * ((u - mean) / std).powi(2)).exp() / (std * TAU.sqrt());
        drawn.log_prob += density.ln() - (1.0 - u.tanh().powi(2)).ln();
        drawn.action.push(u.tanh());
    }
    drawn
}

pub(super) fn log_alpha(networks: &Networks) -> f64 {
    networks.value("temperature", &[])
}

pub(super) fn alpha(keys: &PolicyConfig, networks: &Networks) -> f64 {
    keys.alpha.unwrap_or_else(|| log_alpha(networks).exp())
}

/// The value of an action by the smaller of two critics.
fn value(networks: &Networks, suffix: &str, obs: &[f64], action: &[f64]) -> f64 {
    let x = [obs, action].concat();
    let [a, b] =
        ["critic_1", "critic_2"].map(|name| networks.value(&format!("{name}{suffix}"), &x));
    networks.least(a, b)
}

/// The reward and the soft value of what follows, by equation 3.
fn target(keys: &PolicyConfig, networks: &Networks, row: &Row) -> f64 {
    let next = draw(keys, networks, &row.next_obs, &row.next_noise);
    let q = value(networks, "_target", &row.next_obs, &next.action);
    row.reward + row.discount * (q - alpha(keys, networks) * next.log_prob)
}
