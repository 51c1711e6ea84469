//! SAC for one discrete action against its slow reference.

use super::fixture::{Fixture, choices, masked_choices};
use warp_core::EnvSpec;

fn check(spec: &EnvSpec, keys: &str) {
    let mut fixture = Fixture::new(spec, &format!("algorithm = \"sac\"\n{keys}"));
    fixture.follows(4);
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

#[test]
fn weights_decay_and_the_temperature_does_not() {
    check(&choices(), "weight_decay = 0.3\nalpha_start = 2.0");
}

#[test]
fn samples_of_agents_that_left_count_for_nothing() {
    for spec in [choices(), masked_choices()] {
        Fixture::follows_few(&spec, "algorithm = \"sac\"");
    }
}
