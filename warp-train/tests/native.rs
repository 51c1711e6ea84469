//! The native learner by itself: threads, values apart, and tensors that are not its own.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

use warp_train::learner::LearnerState;
use warp_train::native::NativeLearner;
use warp_train::{Learner, TrainConfig, Trainer};

/// Networks apart and shared, with and without hidden layers, several policies.
const CASES: [&str; 4] = [
    "env_id = \"cartpole\"\nhidden = [64, 64]",
    "env_id = \"cartpole\"\nhidden = []",
    "env_id = \"pendulum\"\nhidden = [24]\nshared_trunk = true\nlog_std = \"state_dependent\"",
    "env_id = \"tag_continuous\"\nhidden = [40]",
];

fn config(case: &str) -> TrainConfig {
    TrainConfig::resolve(&case.parse().unwrap(), &warp_envs::registry()).unwrap()
}

#[test]
fn results_do_not_depend_on_threads() {
    // Minibatches of several chunks, of networks apart and shared, and one of a few rows.
    for case in [
        "env_id = \"cartpole\"\nnum_envs = 64\nnum_steps = 16\nhidden = [32, 32]",
        "env_id = \"pendulum\"\nnum_envs = 64\nnum_steps = 20\nhidden = [24]\nshared_trunk = true\n\
         num_minibatches = 1",
        "env_id = \"cartpole\"\nnum_envs = 3\nnum_steps = 30\nhidden = [16]\nnorm_obs = true",
    ] {
        let config = config(case);
        let after = |threads: usize| -> LearnerState {
            let learner = Box::new(NativeLearner::new(&config, threads).unwrap());
            let registry = warp_envs::registry();
            let mut trainer = Trainer::new(config.clone(), &registry, learner, 1).unwrap();
            (0..4).for_each(|_| {
                trainer.iterate().unwrap();
            });
            trainer.learner().state()
        };
        let one = after(1);
        assert_eq!(one, after(2), "{case}");
        assert_eq!(one, after(3), "{case}");
    }
}

/// Outputs and values that are asked for apart are those that come together.
#[test]
fn values_apart_are_values_together() {
    for case in CASES {
        let config = config(case);
        let mut learner = NativeLearner::new(&config, 1).unwrap();
        let width = config.policies[0].group(&config.spec).observation_width();
        let n_outputs = config.policies[0].layout.output_width();
        for n in [1, 5, 300] {
            let obs: Vec<f32> = (0..n * width).map(|i| (i * 37 % 19) as f32 / 9.0 - 1.0).collect();
            let (mut outputs, mut values) = (vec![0.0; n * n_outputs], vec![0.0; n]);
            learner.forward(0, &obs, n, &mut outputs, &mut values).unwrap();
            let (mut alone, mut alone_values) = (outputs.clone(), values.clone());
            alone.fill(9.0);
            alone_values.fill(9.0);
            let apart = learner.outputs(0, &obs, &mut alone).unwrap();
            assert_eq!(apart, !config.policies[0].config.shared_trunk, "{case}");
            if apart {
                assert_eq!(alone, outputs, "{case}");
            }
            learner.values(0, &obs, &mut alone_values).unwrap();
            assert_eq!(alone_values, values, "{case}");
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let config = config(CASES[0]);
    let state = NativeLearner::new(&config, 1).unwrap().state();
    let refused = |change: &dyn Fn(&mut LearnerState)| {
        let mut state = state.clone();
        change(&mut state);
        NativeLearner::new(&config, 1).unwrap().load_state(&state).unwrap_err().to_string()
    };
    assert!(refused(&|s| s.weights.retain(|t| t.name != "pole.actor.0.bias")).contains("missing"));
    assert!(refused(&|s| s.weights[0].shape = vec![1, 2]).contains("[1, 2]"));
    assert!(refused(&|s| s.weights[0].name = "pole.ghost".into()).contains("ghost"));
}
