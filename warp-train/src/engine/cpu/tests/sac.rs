//! SAC for elements of a box against its slow reference.

use super::fixture::{Fixture, arm};

fn check(keys: &str) {
    let mut fixture = Fixture::new(&arm(), &format!("algorithm = \"sac\"\n{keys}"));
    fixture.follows(4);
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

#[test]
fn weights_decay_and_the_temperature_does_not() {
    check("weight_decay = 0.3\nalpha_start = 2.0");
}

#[test]
fn samples_of_agents_that_left_count_for_nothing() {
    Fixture::follows_few(&arm(), "algorithm = \"sac\"");
}
