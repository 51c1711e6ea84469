//! SAC for one discrete action: Christodoulou, "Soft Actor-Critic for Discrete Action Settings", 2019.

use super::networks::Networks;
use super::objective::{Objective, Row};
use super::sac::{TEMPERATURE, alpha, log_alpha};
use crate::algorithm::PolicyConfig;

pub(crate) static OBJECTIVES: [Objective; 3] = [
    Objective {
        name: "critics",
        models: &["critic_1", "critic_2"],
        column: Some("critic_loss"),
        given: |keys, networks, row| vec![target(keys, networks, row)],
        loss: |_, networks, row, target| {
            let q = |critic: &str| networks.apply(critic, &row.obs)[row.action[0] as usize];
            let half_square = |critic: &str| 0.5 * (q(critic) - target[0]).powi(2);
            row.weight * (half_square("critic_1") + half_square("critic_2"))
        },
    },
    // Equation 12.
    Objective {
        name: "actor",
        models: &["actor"],
        column: Some("actor_loss"),
        given: |keys, networks, _| vec![alpha(keys, networks)],
        loss: |_, networks, row, alpha| {
            let q = values(networks, "", &row.obs);
            let p = probabilities(networks, &row.obs, &row.mask);
            row.counts() * expectation(&p, |choice, log_p| alpha[0] * log_p - q[choice])
        },
    },
    // Equation 11 with ln(alpha) in alpha's place; probabilities are those of before. The largest entropy is that of
    // the choices that are allowed.
    Objective {
        given: |keys, networks, row| {
            let p = probabilities(networks, &row.obs, &row.mask);
            let n_allowed = p.iter().filter(|p| **p > 0.0).count();
            let share = if row.mask.is_empty() { 0.98 } else { 0.89 };
            let aim = keys.target_entropy.unwrap_or(share * (n_allowed as f64).ln());
            vec![expectation(&p, |_, log_p| -(log_p + aim))]
        },
        loss: |_, networks, row, beyond| row.counts() * log_alpha(networks) * beyond[0],
        ..TEMPERATURE
    },
];

/// A policy's probabilities of the allowed choices; of others, nothing.
fn probabilities(networks: &Networks, obs: &[f64], mask: &[bool]) -> Vec<f64> {
    let logits = networks.apply("actor", obs);
    let allowed = |i: usize| mask.get(i).is_none_or(|allowed| *allowed);
    let of = |(i, logit): (usize, &f64)| if allowed(i) { logit.exp() } else { 0.0 };
    let numbers: Vec<f64> = logits.iter().enumerate().map(of).collect();
    let sum: f64 = numbers.iter().sum();
    numbers.iter().map(|x| x / sum).collect()
}

/// The expectation of `of` a choice and the logarithm of its probability.
fn expectation(probabilities: &[f64], of: impl Fn(usize, f64) -> f64) -> f64 {
    let possible = probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0);
    possible.map(|(i, p)| p * of(i, p.ln())).sum()
}

/// Each choice's value by the smaller of two critics.
fn values(networks: &Networks, suffix: &str, obs: &[f64]) -> Vec<f64> {
    let of = |critic: &str| networks.apply(&format!("{critic}{suffix}"), obs);
    let both = of("critic_1").into_iter().zip(of("critic_2"));
    both.map(|(q_1, q_2)| networks.least(q_1, q_2)).collect()
}

/// The reward and the soft value of what follows, by equation 10.
fn target(keys: &PolicyConfig, networks: &Networks, row: &Row) -> f64 {
    let q = values(networks, "_target", &row.next_obs);
    let p = probabilities(networks, &row.next_obs, &row.next_mask);
    let alpha = alpha(keys, networks);
    let soft = expectation(&p, |i, log_p| q[i] - alpha * log_p);
    row.reward + row.discount * soft
}
