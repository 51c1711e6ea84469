//! DDPG (Lillicrap et al., "Continuous control with deep reinforcement learning", 2016) and TD3 (Fujimoto
//! et al., "Addressing Function Approximation Error in Actor-Critic Methods", 2018).

use super::reference::{Networks, Reference};
use super::scene::{Sample, Scene, arm, mean};
use crate::algorithm::Variant;
use warp_core::{Draw, Purpose};

/// What an actor does: tanh of what it gives.
fn action(networks: &Networks, actor: &str, obs: &[f64]) -> Vec<f64> {
    networks[actor].apply(obs).iter().map(|x| x.tanh()).collect()
}

fn value(networks: &Networks, critic: &str, obs: &[f64], action: &[f64]) -> f64 {
    networks[critic].value(&[obs, action].concat())
}

/// Squared errors of `critics`.
fn critic_loss(networks: &Networks, critics: &[&str], batch: &[Sample], targets: &[f64]) -> f64 {
    mean(batch.len(), |i| {
        let Sample { obs, action, weight, .. } = &batch[i];
        let error = |critic: &&str| value(networks, critic, obs, action) - targets[i];
        weight * critics.iter().map(|critic| error(critic).powi(2)).sum::<f64>()
    })
}

/// The actor climbs the values that `critic` gives its actions.
fn climb(reference: &mut Reference, critic: &str, batch: &[Sample]) {
    reference.descend("actor", &["actor"], |networks| {
        mean(batch.len(), |i| {
            let obs = &batch[i].obs;
            -value(networks, critic, obs, &action(networks, "actor", obs))
        })
    });
}

/// An update of DDPG.
fn ddpg_by_hand(scene: &Scene, reference: &mut Reference) {
    let (batch, before) = (scene.batch(), reference.networks.clone());
    let target = |sample: &Sample| {
        let next = action(&before, "actor_target", &sample.next_obs);
        let q = value(&before, "critic_target", &sample.next_obs, &next);
        sample.reward + sample.discount * q
    };
    let targets: Vec<f64> = batch.iter().map(target).collect();
    reference.descend("critic", &["critic"], |networks| {
        critic_loss(networks, &["critic"], &batch, &targets)
    });
    climb(reference, "critic", &batch);
    reference.follow(&["actor", "critic"]);
}

/// The normal numbers that the last update of TD3 has drawn, row by row.
fn smoothing(scene: &Scene) -> Vec<[f64; 2]> {
    let plan = scene.engine.plan();
    let rows = plan.rows.iter().position(|rows| rows.function.name == "smooth").unwrap();
    let (place, number) = (scene.engine.place, scene.engine.updates() as u32);
    let draws = |row: usize| {
        let agent = (place.policy as u32) << 16 | rows as u32;
        let mut draw = Draw::new(place.seed, row as u32, number, Purpose::Learn).agent(agent);
        [f64::from(draw.normal()), f64::from(draw.normal())]
    };
    (0..plan.batch_size).map(draws).collect()
}

/// What the target's actor does next in row `row`, with the noise that was drawn there.
fn smoothed(scene: &Scene, networks: &Networks, sample: &Sample, noise: [f64; 2]) -> Vec<f64> {
    let keys = &scene.policy.config;
    let most = keys.target_noise_clip;
    let with_noise =
        |(a, z): (f64, f64)| (a + (keys.target_noise * z).clamp(-most, most)).clamp(-1.0, 1.0);
    let next = action(networks, "actor_target", &sample.next_obs);
    next.into_iter().zip(noise).map(with_noise).collect()
}

/// An update of TD3.
fn td3_by_hand(scene: &Scene, variant: Variant, reference: &mut Reference) {
    let (batch, before) = (scene.batch(), reference.networks.clone());
    let target = |(sample, noise): (&Sample, [f64; 2])| {
        let next = smoothed(scene, &before, sample, noise);
        let q = ["critic_1_target", "critic_2_target"]
            .map(|critic| value(&before, critic, &sample.next_obs, &next));
        sample.reward + sample.discount * q[0].min(q[1])
    };
    let targets: Vec<f64> = batch.iter().zip(smoothing(scene)).map(target).collect();
    let critics = ["critic_1", "critic_2"];
    reference
        .descend("critics", &critics, |networks| critic_loss(networks, &critics, &batch, &targets));
    if variant == Variant(1) {
        climb(reference, "critic_1", &batch);
        reference.follow(&["actor", "critic_1", "critic_2"]);
    }
}

/// The values of a critic that gives a distribution, and their probabilities.
#[derive(Debug, Clone)]
struct Distribution {
    values: Vec<f64>,
    probabilities: Vec<f64>,
}

impl Distribution {
    /// That of `critic`, between the policy's bounds.
    fn of(scene: &Scene, networks: &Networks, critic: &str, input: &[f64]) -> Self {
        let keys = &scene.policy.config;
        let logits = networks[critic].apply(input);
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

/// An update of TD3 whose critics give distributions.
fn distributional_td3_by_hand(scene: &Scene, variant: Variant, reference: &mut Reference) {
    let (batch, before) = (scene.batch(), reference.networks.clone());
    let target = |(sample, noise): (&Sample, [f64; 2])| {
        let input = [&sample.next_obs[..], &smoothed(scene, &before, sample, noise)].concat();
        let [first, second] = ["critic_1_target", "critic_2_target"]
            .map(|critic| Distribution::of(scene, &before, critic, &input));
        let smaller = if second.mean() < first.mean() { second } else { first };
        smaller.moved(sample.reward, sample.discount)
    };
    let targets: Vec<Vec<f64>> = batch.iter().zip(smoothing(scene)).map(target).collect();
    let critics = ["critic_1", "critic_2"];
    reference.descend("critics", &critics, |networks| {
        mean(batch.len(), |i| {
            let Sample { obs, action, weight, .. } = &batch[i];
            let entropy = |critic: &&str| {
                let of = Distribution::of(scene, networks, critic, &[&obs[..], action].concat());
                let terms = targets[i].iter().zip(of.probabilities);
                -terms.map(|(target, p)| target * p.ln()).sum::<f64>()
            };
            weight * critics.iter().map(entropy).sum::<f64>()
        })
    });
    if variant == Variant(1) {
        reference.descend("actor", &["actor"], |networks| {
            mean(batch.len(), |i| {
                let obs = &batch[i].obs;
                let input = [&obs[..], &action(networks, "actor", obs)].concat();
                -Distribution::of(scene, networks, "critic_1", &input).mean()
            })
        });
        reference.follow(&["actor", "critic_1", "critic_2"]);
    }
}

fn ddpg(keys: &str) {
    let mut scene = Scene::new(&arm(), &format!("algorithm = \"ddpg\"\n{keys}"));
    scene.follows(4, |scene, _, reference| ddpg_by_hand(scene, reference));
}

fn td3(keys: &str) {
    let mut scene = Scene::new(&arm(), &format!("algorithm = \"td3\"\n{keys}"));
    // Critics alone, then with the actor: the delay is two.
    assert_eq!([0, 1, 2, 3].map(|n| scene.algorithm.variant(n).0), [0, 1, 0, 1]);
    scene.follows(5, td3_by_hand);
}

/// Critics that give a distribution over `atoms` values.
fn distributional_td3(keys: &str) {
    let mut scene = Scene::new(&arm(), &format!("algorithm = \"td3\"\n{keys}"));
    scene.follows(5, distributional_td3_by_hand);
}

#[test]
fn critics_of_td3_may_give_distributions() {
    distributional_td3("atoms = 11\nvalue_min = -2\nvalue_max = 3");
    // Most of what comes lies beyond the values.
    distributional_td3("atoms = 2\nvalue_min = -0.1\nvalue_max = 0.2\nactivation = \"tanh\"");
    distributional_td3("atoms = 7\nvalue_min = -4\nvalue_max = 4\nprioritised = true\nn_step = 2");
}

#[test]
fn updates_of_ddpg_follow_the_paper() {
    ddpg("");
    ddpg("activation = \"tanh\"\ninit = \"orthogonal\"");
}

#[test]
fn gradients_of_ddpg_may_be_clipped() {
    ddpg("max_grad_norm = 0.05\nbatch_size = 200");
}

#[test]
fn updates_of_td3_follow_the_paper() {
    td3("");
    td3("activation = \"tanh\"\ninit = \"orthogonal\"");
}

#[test]
fn noise_of_td3_is_limited_and_stays_within_the_bounds() {
    td3("target_noise = 0.9\ntarget_noise_clip = 0.7\nbatch_size = 200");
}

#[test]
fn gradients_of_td3_may_be_clipped() {
    td3("max_grad_norm = 0.05");
}

#[test]
fn samples_may_have_weights() {
    ddpg("prioritised = true");
    td3("prioritised = true");
}
