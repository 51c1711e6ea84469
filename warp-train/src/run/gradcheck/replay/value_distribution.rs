//! TD3 whose critics give distributions over values: Bellemare et al., "A Distributional Perspective on
//! Reinforcement Learning", 2017.

use super::deterministic::{ACTOR, action, smoothed};
use super::networks::Networks;
use super::objective::{Objective, Row};
use crate::algorithm::PolicyConfig;

pub(crate) static TD3: [Objective; 2] = [
    Objective {
        name: "critics",
        models: &["critic_1", "critic_2"],
        column: Some("critic_loss"),
        given: target,
        loss: |keys, networks, row, target| {
            let input = [&row.obs[..], &row.action].concat();
            let entropy = |critic: &str| {
                let of = Distribution::of(keys, networks, critic, &input);
                -target.iter().zip(of.probabilities).map(|(t, p)| t * p.ln()).sum::<f64>()
            };
            row.weight * (entropy("critic_1") + entropy("critic_2"))
        },
    },
    Objective {
        loss: |keys, networks, row, _| {
            let input = [&row.obs[..], &action(networks, "actor", &row.obs)].concat();
            let [q_1, q_2] = ["critic_1", "critic_2"]
                .map(|critic| Distribution::of(keys, networks, critic, &input).mean());
            -row.counts() * networks.least(q_1, q_2)
        },
        ..ACTOR
    },
];

/// The values of a critic that gives a distribution, and their probabilities.
struct Distribution {
    values: Vec<f64>,
    probabilities: Vec<f64>,
}

impl Distribution {
    /// That of `critic`, between the policy's bounds.
    fn of(keys: &PolicyConfig, networks: &Networks, critic: &str, input: &[f64]) -> Self {
        let logits = networks.apply(critic, input);
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        let apart = (keys.value_max - keys.value_min) / (keys.atoms - 1) as f64;
        let value = |i: usize| keys.value_min + apart * i as f64;
        Self {
            values: (0..keys.atoms).map(value).collect(),
            probabilities: logits.iter().map(|x| x.exp() / sum).collect(),
        }
    }

    fn mean(&self) -> f64 {
        self.values.iter().zip(&self.probabilities).map(|(value, p)| value * p).sum()
    }

    /// The probabilities of `r + gamma Z`: each value's share of a moved one falls off linearly to its neighbours.
    fn moved(&self, reward: f64, discount: f64) -> Vec<f64> {
        let (low, apart) = (self.values[0], self.values[1] - self.values[0]);
        let high = self.values[self.values.len() - 1];
        let near = |value: f64| {
            let moved = self.values.iter().map(|z| (reward + discount * z).clamp(low, high));
            let share = moved.map(|z| (1.0 - (z - value).abs() / apart).max(0.0));
            share.zip(&self.probabilities).map(|(share, p)| share * p).sum()
        };
        self.values.iter().map(|value| near(*value)).collect()
    }
}

/// The smaller of two distributions of what follows, by its mean, moved.
fn target(keys: &PolicyConfig, networks: &Networks, row: &Row) -> Vec<f64> {
    let input = [&row.next_obs[..], &smoothed(keys, networks, row)].concat();
    let [first, second] = ["critic_1_target", "critic_2_target"]
        .map(|critic| Distribution::of(keys, networks, critic, &input));
    networks.note_jump(first.mean() - second.mean());
    let smaller = if second.mean() < first.mean() { second } else { first };
    smaller.moved(row.reward, row.discount)
}
