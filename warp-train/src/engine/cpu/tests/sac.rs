//! SAC for elements of a box: Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018.

use super::reference::{Networks, Reference};
use super::scene::{Sample, Scene, arm, mean};
use std::f64::consts::TAU;

/// An action, and the logarithm of its density.
#[derive(Debug)]
struct Drawn {
    action: Vec<f64>,
    log_prob: f64,
}

/// What the batch and the draws leave to be computed.
#[derive(Debug)]
struct Given {
    batch: Vec<Sample>,
    /// Standard normal numbers of the actions on the batch.
    noise: Vec<Vec<f64>>,
    /// And on what follows.
    next_noise: Vec<Vec<f64>>,
    /// Bounds of log-deviations.
    range: [f64; 2],
    /// The temperature, where it is not learned.
    alpha: Option<f64>,
    target_entropy: f64,
}

impl Given {
    fn of(scene: &Scene) -> Self {
        let keys = &scene.policy.config;
        Self {
            batch: scene.batch(),
            noise: scene.column("drawn_noise"),
            next_noise: scene.column("next_noise"),
            range: [keys.log_std_min, keys.log_std_max],
            alpha: keys.alpha,
            target_entropy: keys.target_entropy.unwrap_or(-2.0),
        }
    }

    /// tanh(u) where u is normal, and ln(normal density of u) - ln(dtanh(u) / du).
    fn draw(&self, networks: &Networks, obs: &[f64], noise: &[f64]) -> Drawn {
        let output = networks["actor"].apply(obs);
        let (means, log_stds) = output.split_at(noise.len());
        let mut drawn = Drawn { action: Vec::new(), log_prob: 0.0 };
        for ((mean, log_std), z) in means.iter().zip(log_stds).zip(noise) {
            let std = log_std.max(self.range[0]).min(self.range[1]).exp();
            let u = mean + std * z;
            let density = (-0.5 * ((u - mean) / std).powi(2)).exp() / (std * TAU.sqrt());
            drawn.log_prob += density.ln() - (1.0 - u.tanh().powi(2)).ln();
            drawn.action.push(u.tanh());
        }
        drawn
    }

    fn alpha(&self, networks: &Networks) -> f64 {
        self.alpha.unwrap_or_else(|| networks["temperature"].value(&[]).exp())
    }

    /// The value of an action by the smaller of two critics.
    fn value(networks: &Networks, suffix: &str, obs: &[f64], action: &[f64]) -> f64 {
        let x = [obs, action].concat();
        let of = |critic: &str| networks[&format!("{critic}{suffix}")].value(&x);
        of("critic_1").min(of("critic_2"))
    }

    /// Equation 5, for both critics, with weights.
    fn critic_loss(&self, networks: &Networks, targets: &[f64]) -> f64 {
        mean(self.batch.len(), |i| {
            let Sample { obs, action, weight, .. } = &self.batch[i];
            let x = [&obs[..], action].concat();
            let half_square =
                |critic: &str| 0.5 * (networks[critic].value(&x) - targets[i]).powi(2);
            weight * (half_square("critic_1") + half_square("critic_2"))
        })
    }

    /// Rewards and the soft values of what follows, by equation 3.
    fn targets(&self, networks: &Networks) -> Vec<f64> {
        let alpha = self.alpha(networks);
        let target = |(sample, noise): (&Sample, &Vec<f64>)| {
            let next = self.draw(networks, &sample.next_obs, noise);
            let q = Self::value(networks, "_target", &sample.next_obs, &next.action);
            sample.reward + sample.discount * (q - alpha * next.log_prob)
        };
        self.batch.iter().zip(&self.next_noise).map(target).collect()
    }

    /// Equation 9.
    fn actor_loss(&self, networks: &Networks, alpha: f64) -> f64 {
        mean(self.batch.len(), |i| {
            let obs = &self.batch[i].obs;
            let drawn = self.draw(networks, obs, &self.noise[i]);
            alpha * drawn.log_prob - Self::value(networks, "", obs, &drawn.action)
        })
    }

    /// Equation 18 with ln(alpha) in alpha's place, as the authors' code has it.
    fn temperature_loss(&self, networks: &Networks, entropies: &[f64]) -> f64 {
        let log_alpha = networks["temperature"].value(&[]);
        mean(entropies.len(), |i| log_alpha * (entropies[i] - self.target_entropy))
    }
}

/// An update of SAC.
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
        let rows = given.batch.iter().zip(&given.noise);
        let entropies: Vec<f64> =
            rows.map(|(s, noise)| -given.draw(&before, &s.obs, noise).log_prob).collect();
        reference.descend("temperature", &["temperature"], |networks| {
            given.temperature_loss(networks, &entropies)
        });
    }
    reference.follow(&["critic_1", "critic_2"]);
}

fn check(keys: &str) {
    let mut scene = Scene::new(&arm(), &format!("algorithm = \"sac\"\n{keys}"));
    scene.follows(4, |scene, _, reference| by_hand(scene, reference));
}

#[test]
fn updates_follow_the_paper() {
    check("");
    check("activation = \"tanh\"\ninit = \"orthogonal\"");
}

#[test]
fn a_temperature_may_be_given() {
    check("alpha = 0.3");
}

#[test]
fn the_gradient_may_be_clipped() {
    check("max_grad_norm = 0.05\ntarget_entropy = 0.5");
}

#[test]
fn a_deviation_outside_its_range_has_no_slope() {
    check("activation = \"tanh\"\nlog_std_min = -0.1\nlog_std_max = 0.2");
}

#[test]
fn a_batch_may_take_several_tiles() {
    check("batch_size = 200");
}

#[test]
fn samples_may_have_weights() {
    check("prioritised = true");
}
