//! DQN against its slow reference.

use super::fixture::{Fixture, choices, masked_choices};
use warp_core::EnvSpec;

fn check(spec: &EnvSpec, keys: &str) {
    let keys = format!("algorithm = \"dqn\"\ntarget_interval = 2\n{keys}");
    let mut fixture = Fixture::new(spec, &keys);
    assert_eq!([0, 1, 2, 3].map(|n| fixture.algorithm.variant(n).0), [0, 1, 0, 1]);
    fixture.follows(5);
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
    let mut fixture =
        Fixture::new(&choices(), "algorithm = \"dqn\"\ngamma = 1.0\ninit = \"orthogonal\"");
    for model in &mut fixture.engine.models {
        model.parameters.iter_mut().for_each(|p| *p *= 3.0);
        model.transpose();
    }
    fixture.follows(2);
    let errors = fixture.column("error");
    assert!(errors.iter().any(|e| e[0] > 1.0) && errors.iter().any(|e| e[0] < 1.0));
}

#[test]
fn samples_may_have_weights() {
    check(&masked_choices(), "prioritised = true\nn_step = 3");
}
