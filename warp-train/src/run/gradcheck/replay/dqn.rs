//! DQN: Mnih et al., "Human-level control through deep reinforcement learning", 2015; with van Hasselt et
//! al.'s choice by the network itself (2016) and Wang et al.'s duelling values (2016).

use super::networks::Networks;
use super::objective::{Objective, Row};
use crate::algorithm::PolicyConfig;

pub(crate) static OBJECTIVES: [Objective; 1] = [Objective {
    name: "q",
    models: &["q"],
    column: Some("loss"),
    given: |keys, networks, row| vec![target(keys, networks, row)],
    loss: |keys, networks, row, target| {
        let q = values(networks, "q", keys, &row.obs)[row.action[0] as usize];
        row.weight * huber(q - target[0])
    },
}];

fn target(keys: &PolicyConfig, networks: &Networks, row: &Row) -> f64 {
    let next = values(networks, "q_target", keys, &row.next_obs);
    let chosen = if keys.double {
        networks.best(&values(networks, "q", keys, &row.next_obs), &row.next_mask)
    } else {
        networks.best(&next, &row.next_mask)
    };
    row.reward + row.discount * next[chosen]
}

/// The values of all choices.
fn values(networks: &Networks, model: &str, keys: &PolicyConfig, obs: &[f64]) -> Vec<f64> {
    let output = networks.apply(model, obs);
    if !keys.dueling {
        return output;
    }
    // Equation 9 of Wang et al.
    let (value, advantages) = (output[0], &output[1..]);
    let mean = advantages.iter().sum::<f64>() / advantages.len() as f64;
    advantages.iter().map(|advantage| value + (advantage - mean)).collect()
}

/// Half the square of small errors, the magnitude of large ones.
fn huber(error: f64) -> f64 {
    if error.abs() <= 1.0 { 0.5 * error * error } else { error.abs() - 0.5 }
}
