//! DDPG and TD3 against their slow references.

use super::fixture::{Fixture, arm};

fn ddpg(keys: &str) {
    let mut fixture = Fixture::new(&arm(), &format!("algorithm = \"ddpg\"\n{keys}"));
    fixture.follows(4);
}

fn td3(keys: &str) {
    let mut fixture = Fixture::new(&arm(), &format!("algorithm = \"td3\"\n{keys}"));
    // Critics alone, then with the actor: the delay is two.
    assert_eq!([0, 1, 2, 3].map(|n| fixture.algorithm.variant(n).0), [0, 1, 0, 1]);
    fixture.follows(5);
}

/// Critics that give a distribution over `atoms` values.
fn distributional_td3(keys: &str) {
    let mut fixture = Fixture::new(&arm(), &format!("algorithm = \"td3\"\n{keys}"));
    fixture.follows(5);
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

#[test]
fn other_optimisers_and_weight_decay_follow_their_formulas() {
    // Where a square is tiny, its root hangs on the last bits of a gradient.
    ddpg("optimiser = \"rmsprop\"\nadam_eps = 0.01");
    ddpg("weight_decay = 0.3");
    td3("optimiser = \"rmsprop\"\nadam_eps = 0.01\nweight_decay = 0.3\nmax_grad_norm = 0.05");
}

#[test]
fn samples_of_agents_that_left_count_for_nothing() {
    let atoms = "algorithm = \"td3\"\natoms = 5\nvalue_min = -3.0\nvalue_max = 3.0";
    for keys in ["algorithm = \"ddpg\"", "algorithm = \"td3\"", atoms] {
        Fixture::follows_few(&arm(), keys);
    }
}
