//! SAC for one discrete action: Christodoulou, "Soft Actor-Critic for Discrete Action Settings", 2019.

use super::reference::{Networks, Reference};
use super::scene::{Sample, Scene, choices, masked_choices, mean};
use warp_core::EnvSpec;

/// A policy's probabilities of the allowed choices; of others, nothing.
fn probabilities(networks: &Networks, obs: &[f64], mask: &[bool]) -> Vec<f64> {
    let logits = networks["actor"].apply(obs);
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

/// What the batch leaves to be computed.
#[derive(Debug)]
struct Given {
    batch: Vec<Sample>,
    /// The temperature, where it is not learned.
    alpha: Option<f64>,
    target_entropy: f64,
}

impl Given {
    fn of(scene: &Scene) -> Self {
        let keys = &scene.policy.config;
        let target_entropy = keys.target_entropy.unwrap_or(0.98 * 4.0_f64.ln());
        Self { batch: scene.batch(), alpha: keys.alpha, target_entropy }
    }

    fn alpha(&self, networks: &Networks) -> f64 {
        self.alpha.unwrap_or_else(|| networks["temperature"].value(&[]).exp())
    }

    /// Each choice's value by the smaller of two critics.
    fn values(networks: &Networks, suffix: &str, obs: &[f64]) -> Vec<f64> {
        let of = |critic: &str| networks[&format!("{critic}{suffix}")].apply(obs);
        of("critic_1").iter().zip(of("critic_2")).map(|(q_1, q_2)| q_1.min(q_2)).collect()
    }

    /// Rewards and the soft values of what follows, by equation 10.
    fn targets(&self, networks: &Networks) -> Vec<f64> {
        let alpha = self.alpha(networks);
        let target = |sample: &Sample| {
            let q = Self::values(networks, "_target", &sample.next_obs);
            let p = probabilities(networks, &sample.next_obs, &sample.next_mask);
            let soft = expectation(&p, |i, log_p| q[i] - alpha * log_p);
            sample.reward + sample.discount * soft
        };
        self.batch.iter().map(target).collect()
    }

    fn critic_loss(&self, networks: &Networks, targets: &[f64]) -> f64 {
        mean(self.batch.len(), |i| {
            let Sample { obs, action, weight, .. } = &self.batch[i];
            let q = |critic: &str| networks[critic].apply(obs)[action[0] as usize];
            let half_square = |critic: &str| 0.5 * (q(critic) - targets[i]).powi(2);
            weight * (half_square("critic_1") + half_square("critic_2"))
        })
    }

    /// Equation 12.
    fn actor_loss(&self, networks: &Networks, alpha: f64) -> f64 {
        mean(self.batch.len(), |i| {
            let Sample { obs, mask, .. } = &self.batch[i];
            let q = Self::values(networks, "", obs);
            let p = probabilities(networks, obs, mask);
            expectation(&p, |choice, log_p| alpha * log_p - q[choice])
        })
    }

    /// Equation 11 with ln(alpha) in alpha's place; probabilities are those of `before`.
    fn temperature_loss(&self, networks: &Networks, before: &Networks) -> f64 {
        let log_alpha = networks["temperature"].value(&[]);
        mean(self.batch.len(), |i| {
            let Sample { obs, mask, .. } = &self.batch[i];
            let p = probabilities(before, obs, mask);
            expectation(&p, |_, log_p| -log_alpha * (log_p + self.target_entropy))
        })
    }
}

/// An update of discrete SAC.
fn by_hand(scene: &Scene, reference: &mut Reference) {
    let given = Given::of(scene);
    let before = reference.networks.clone();
    let targets = given.targets(&before);
    reference.descend("critics", &["critic_1", "critic_2"], |networks| {
        given.critic_loss(networks, &targets)
    });
    // The critics are those of after their step, the temperature that of before its own.
    let alpha = given.alpha(&before);
    reference.descend("actor", &["actor"], |networks| given.actor_loss(networks, alpha));
    if given.alpha.is_none() {
        reference.descend("temperature", &["temperature"], |networks| {
            given.temperature_loss(networks, &before)
        });
    }
    reference.follow(&["critic_1", "critic_2"]);
}

fn check(spec: &EnvSpec, keys: &str) {
    let mut scene = Scene::new(spec, &format!("algorithm = \"sac\"\n{keys}"));
    scene.follows(4, |scene, _, reference| by_hand(scene, reference));
}

#[test]
fn updates_follow_the_paper() {
    check(&choices(), "");
    check(&choices(), "activation = \"tanh\"\ninit = \"orthogonal\"");
}

#[test]
fn choices_may_be_forbidden() {
    check(&masked_choices(), "");
    check(&masked_choices(), "batch_size = 200\nactivation = \"tanh\"");
}

#[test]
fn a_temperature_may_be_given() {
    check(&masked_choices(), "alpha = 0.3");
}

#[test]
fn the_gradient_may_be_clipped() {
    check(&choices(), "max_grad_norm = 0.05\ntarget_entropy = 0.5");
}

#[test]
fn samples_may_have_weights() {
    check(&masked_choices(), "prioritised = true\nbatch_size = 40");
}
