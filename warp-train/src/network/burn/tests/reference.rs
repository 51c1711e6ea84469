//! Networks and losses of the tests in f64, written plainly from the formulas.

use super::{Arrays, HALF_RANGE};
use crate::loss::actions::Actions;
use crate::model::{Activation, NamedTensor, NetworkConfig, PolicyTensors};
use crate::run::gradcheck::Formula;
use warp_sample::{ActionLayout, Bounding};

/// An f64 perceptron that reads its weights from a policy's named tensors (torch's layout).
pub(super) struct Reference<'a> {
    pub(super) config: &'a NetworkConfig,
    pub(super) weights: Vec<(String, Vec<f64>)>,
}

impl<'a> Reference<'a> {
    pub(super) fn new(config: &'a NetworkConfig, tensors: &PolicyTensors) -> Self {
        let widen = |t: &NamedTensor| t.data.iter().map(|&x| f64::from(x)).collect();
        let weights = tensors.weights.iter().map(|t| (t.name.clone(), widen(t))).collect();
        Self { config, weights }
    }

    fn get(&self, name: &str) -> &[f64] {
        &self.weights.iter().find(|(n, _)| n == name).expect(name).1
    }

    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let weight = self.get(&format!("{name}.weight"));
        let bias = self.get(&format!("{name}.bias"));
        let row = |o: usize| &weight[o * x.len()..(o + 1) * x.len()];
        let dot = |o: usize| row(o).iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        (0..bias.len()).map(|o| bias[o] + dot(o)).collect()
    }

    fn stack(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mut x = x.to_vec();
        for i in 0..self.config.hidden.len() {
            x = self.linear(&format!("{name}.{i}"), &x);
            for value in &mut x {
                *value = match self.config.activation {
                    Activation::Tanh => value.tanh(),
                    Activation::Relu => value.max(0.0),
                };
            }
        }
        x
    }

    pub(super) fn forward(&self, observation: &[f32]) -> (Vec<f64>, f64) {
        let x: Vec<f64> = observation.iter().map(|&x| f64::from(x)).collect();
        let names = if self.config.shared_trunk { ["trunk"; 2] } else { ["actor", "critic"] };
        let [actor, critic] = names.map(|name| self.stack(name, &x));
        let mut outputs = self.linear("policy_head", &actor);
        if self.weights.iter().any(|(name, _)| name == "log_std") {
            outputs.extend_from_slice(self.get("log_std"));
        } else if self.config.layout.head_sizes().is_empty() {
            outputs.extend(self.linear("log_std_head", &actor));
        }
        (outputs, self.linear("value_head", &critic)[0])
    }

    pub(super) fn loss(&self, arrays: &Arrays, loss: &Formula) -> f64 {
        let layout = &self.config.layout;
        let (mut sum, mut total) = (0.0, 0.0);
        for (i, &weight) in arrays.weights.iter().enumerate() {
            let observation = &arrays.observations[i * self.config.observation_width..]
                [..self.config.observation_width];
            let (logits, value) = self.forward(observation);
            let (log_prob, entropy) = match (layout, &arrays.actions) {
                (ActionLayout::Discrete(heads), Actions::Discrete(actions)) => {
                    let (sizes, width) = (heads.sizes(), heads.width());
                    let mask = &arrays.action_mask[i * width..][..width];
                    let actions = &actions[i * sizes.len()..][..sizes.len()];
                    distribution(&logits, mask, actions, sizes)
                }
                (ActionLayout::Continuous(elements), Actions::Continuous(raw)) => {
                    let dim = elements.dim();
                    gaussian(&logits, &raw[i * dim..][..dim], elements.bounding())
                }
                _ => unreachable!(),
            };
            let advantage = f64::from(arrays.advantages[i]);
            let error = value - f64::from(arrays.returns[i]);
            let row = match loss {
                Formula::A2c(c) => {
                    -log_prob * advantage + f64::from(c.vf_coef) * error * error
                        - f64::from(c.ent_coef) * entropy
                }
                Formula::Ppo(c) => {
                    let clip = f64::from(c.clip_coef);
                    let ratio = (log_prob - f64::from(arrays.log_probs[i])).exp();
                    let clipped = ratio.clamp(1.0 - clip, 1.0 + clip);
                    let policy = (-advantage * ratio).max(-advantage * clipped);
                    let old = f64::from(arrays.values[i]);
                    let near = old + (value - old).clamp(-clip, clip);
                    let far = (near - f64::from(arrays.returns[i])).powi(2);
                    let plain = error * error;
                    let squared = if c.clip_vloss { plain.max(far) } else { plain };
                    policy + f64::from(c.vf_coef) * 0.5 * squared - f64::from(c.ent_coef) * entropy
                }
            };
            sum += f64::from(weight) * row;
            total += f64::from(weight);
        }
        sum / total
    }
}

fn distribution(logits: &[f64], mask: &[u8], actions: &[i32], heads: &[usize]) -> (f64, f64) {
    let (mut log_prob, mut entropy, mut start) = (0.0, 0.0, 0);
    for (&size, &action) in heads.iter().zip(actions) {
        let allowed: Vec<usize> = (start..start + size).filter(|&j| mask[j] == 1).collect();
        let log_sum = allowed.iter().map(|&j| logits[j].exp()).sum::<f64>().ln();
        log_prob += logits[start + action as usize] - log_sum;
        entropy -= allowed
            .iter()
            .map(|&j| (logits[j] - log_sum).exp() * (logits[j] - log_sum))
            .sum::<f64>();
        start += size;
    }
    (log_prob, entropy)
}

/// Log-density of the action and entropy, squashing's part of it by the seven nodes that are used.
pub(super) fn gaussian(outputs: &[f64], raw: &[f32], bounding: Bounding) -> (f64, f64) {
    let (mut log_prob, mut entropy) = (0.0, 0.0);
    let half_ln_tau = 0.5 * std::f64::consts::TAU.ln();
    let slope = |u: f64| (1.0 - u.tanh().powi(2)).ln();
    for (i, &u) in raw.iter().enumerate() {
        let (u, mean, log_std) = (f64::from(u), outputs[i], outputs[raw.len() + i]);
        log_prob += -0.5 * ((u - mean) / log_std.exp()).powi(2) - log_std - half_ln_tau;
        entropy += 0.5 + half_ln_tau + log_std;
        if bounding == Bounding::Squash {
            let ln_half = f64::from(HALF_RANGE[i]).ln();
            log_prob -= ln_half + slope(u);
            let nodes = [
                (0.0, 0.457_142_857_142_857_1),
                (1.154_405_394_739_968_2, 0.240_123_178_605_012_7),
                (2.366_759_410_734_541_5, 0.030_757_123_967_586_5),
                (3.750_439_717_725_742_3, 0.000_548_268_855_972_2),
            ];
            let both = |z: f64| slope(mean + log_std.exp() * z) + slope(mean - log_std.exp() * z);
            let part =
                |(z, weight): (f64, f64)| weight * both(z) * if z == 0.0 { 0.5 } else { 1.0 };
            entropy += ln_half + nodes.into_iter().map(part).sum::<f64>();
        }
    }
    (log_prob, entropy)
}
