//! DQN: Mnih et al., "Human-level control through deep reinforcement learning", 2015; with van Hasselt et
//! al.'s choice by the network itself (2016) and Wang et al.'s duelling values (2016).

use super::reference::{Networks, Reference};
use super::scene::{Sample, Scene, choices, masked_choices, mean};
use crate::algorithm::Variant;
use warp_core::EnvSpec;

/// The values of all choices.
fn values(networks: &Networks, model: &str, duels: bool, obs: &[f64]) -> Vec<f64> {
    let output = networks[model].apply(obs);
    if !duels {
        return output;
    }
    // Equation 9 of Wang et al.
    let (value, advantages) = (output[0], &output[1..]);
    let mean = advantages.iter().sum::<f64>() / advantages.len() as f64;
    advantages.iter().map(|advantage| value + (advantage - mean)).collect()
}

/// The allowed choice of the largest value.
fn best(values: &[f64], mask: &[bool]) -> usize {
    let allowed = (0..values.len()).filter(|i| mask.get(*i).is_none_or(|allowed| *allowed));
    allowed.max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap()
}

/// Half the square of small errors, the magnitude of large ones.
fn huber(error: f64) -> f64 {
    if error.abs() <= 1.0 { 0.5 * error * error } else { error.abs() - 0.5 }
}

/// An update of DQN.
fn by_hand(scene: &Scene, variant: Variant, reference: &mut Reference) {
    let keys = &scene.policy.config;
    let (batch, before) = (scene.batch(), reference.networks.clone());
    let target = |sample: &Sample| {
        let next = values(&before, "q_target", keys.dueling, &sample.next_obs);
        let own = values(&before, "q", keys.dueling, &sample.next_obs);
        let chosen = best(if keys.double { &own } else { &next }, &sample.next_mask);
        sample.reward + sample.discount * next[chosen]
    };
    let targets: Vec<f64> = batch.iter().map(target).collect();
    reference.descend("q", &["q"], |networks| {
        mean(batch.len(), |i| {
            let Sample { obs, action, weight, .. } = &batch[i];
            let q = values(networks, "q", keys.dueling, obs)[action[0] as usize];
            weight * huber(q - targets[i])
        })
    });
    if variant == Variant(1) {
        reference.follow(&["q"]);
    }
}

fn check(spec: &EnvSpec, keys: &str) {
    let keys = format!("algorithm = \"dqn\"\ntarget_interval = 2\n{keys}");
    let mut scene = Scene::new(spec, &keys);
    assert_eq!([0, 1, 2, 3].map(|n| scene.algorithm.variant(n).0), [0, 1, 0, 1]);
    scene.follows(5, by_hand);
}

#[test]
fn plain_updates_follow_the_paper() {
    check(&choices(), "double = false");
    check(&choices(), "double = false\nactivation = \"tanh\"\ninit = \"orthogonal\"");
}

#[test]
fn the_network_may_choose_for_its_target() {
    check(&choices(), "double = true");
    check(&choices(), "double = true\nbatch_size = 200\nactivation = \"tanh\"");
}

#[test]
fn values_may_duel() {
    check(&choices(), "double = false\ndueling = true");
    check(&choices(), "double = true\ndueling = true\nactivation = \"tanh\"");
}

#[test]
fn choices_may_be_forbidden() {
    for double in [true, false] {
        for dueling in [true, false] {
            check(&masked_choices(), &format!("double = {double}\ndueling = {dueling}"));
        }
    }
}

#[test]
fn the_gradient_may_be_clipped() {
    check(&choices(), "max_grad_norm = 0.05\ntau = 1.0");
}

/// Errors larger than 1 have the slope of their magnitude.
#[test]
fn large_errors_count_by_their_magnitude() {
    let mut scene =
        Scene::new(&choices(), "algorithm = \"dqn\"\ngamma = 1.0\ninit = \"orthogonal\"");
    for model in &mut scene.engine.models {
        model.parameters.iter_mut().for_each(|p| *p *= 3.0);
        model.turn();
    }
    scene.follows(2, by_hand);
    let errors = scene.column("error");
    assert!(errors.iter().any(|e| e[0] > 1.0) && errors.iter().any(|e| e[0] < 1.0));
}

#[test]
fn samples_may_have_weights() {
    check(&masked_choices(), "prioritised = true\nn_step = 3");
}
