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

/// An update of TD3.
fn td3_by_hand(scene: &Scene, variant: Variant, reference: &mut Reference) {
    let keys = &scene.policy.config;
    let (batch, before) = (scene.batch(), reference.networks.clone());
    let most = keys.target_noise_clip;
    let target = |(sample, noise): (&Sample, [f64; 2])| {
        let mut next = action(&before, "actor_target", &sample.next_obs);
        for (a, z) in next.iter_mut().zip(noise) {
            let noise = (keys.target_noise * z).clamp(-most, most);
            *a = (*a + noise).clamp(-1.0, 1.0);
        }
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
