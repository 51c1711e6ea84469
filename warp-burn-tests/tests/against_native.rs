//! The native learner against burn's: same weights in, same gradients, same parameters after a few
//! steps, and checkpoints that either reads.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

use warp_train::burn::BurnLearner;
use warp_train::config::drop_foreign_keys;
use warp_train::model::NamedTensor;
use warp_train::native::NativeLearner;
use warp_train::{Learner, TrainConfig, Trainer};

/// One update per iteration, and an epsilon that keeps Adam's step a smooth function of the gradient.
const SMOOTH: &str = "num_envs = 7\nnum_steps = 23\nnum_minibatches = 1\nupdate_epochs = 1\n\
                      adam_eps = 0.1\nlearning_rate = 0.01\n";

/// Networks of every shape: separate and shared, with and without hidden layers, several heads, both
/// activations, both kinds of deviation, several policies, agents that leave.
const CASES: [&str; 8] = [
    "env_id = \"cartpole\"\nhidden = [64, 64]",
    "env_id = \"cartpole\"\nhidden = [33, 9, 5]\nshared_trunk = true\nactivation = \"relu\"",
    "env_id = \"cartpole\"\nhidden = []\nalgorithm = \"a2c\"",
    "env_id = \"cartpole\"\nhidden = [16]\noptimiser = \"rmsprop\"\nweight_decay = 0.1\n\
     critic_learning_rate = 0.003",
    "env_id = \"acrobot\"\nhidden = [17]\nclip_vloss = false\nnorm_obs = true",
    "env_id = \"pendulum\"\nhidden = [16, 16]\naction_distribution = \"squashed\"\n\
     log_std = \"state_dependent\"",
    "env_id = \"pendulum\"\nhidden = [24]\nshared_trunk = true\nlog_std = \"state_dependent\"\n\
     algorithm = \"a2c\"",
    "env_id = \"tag_continuous\"\nhidden = [40]\n[env]\nnum_taggers = 2\nnum_runners = 4\n\
     tagging_distance = 0.2\nepisode_length = 15",
];

fn config(case: &str) -> TrainConfig {
    let mut table = format!("{SMOOTH}{case}").parse().unwrap();
    // Minibatches are PPO's alone.
    drop_foreign_keys(&mut table, &warp_envs::registry());
    TrainConfig::resolve(&table, &warp_envs::registry()).unwrap()
}

fn trainer(config: &TrainConfig, learner: Box<dyn Learner>) -> Trainer {
    Trainer::new(config.clone(), &warp_envs::registry(), learner, 1).unwrap()
}

fn native(config: &TrainConfig, threads: usize) -> Trainer {
    trainer(config, Box::new(NativeLearner::new(config, threads).unwrap()))
}

fn burn(config: &TrainConfig) -> Trainer {
    trainer(config, Box::new(BurnLearner::new(config, 1).unwrap()))
}

/// Largest difference relative to the largest element of each tensor.
fn difference(a: &[NamedTensor], b: &[NamedTensor]) -> f32 {
    assert_eq!(a.len(), b.len());
    let mut worst = 0.0f32;
    for a in a {
        let b = b.iter().find(|b| b.name == a.name).unwrap();
        assert_eq!(a.shape, b.shape, "{}", a.name);
        let scale = a.data.iter().fold(1e-3f32, |scale, x| scale.max(x.abs()));
        let pairs = a.data.iter().zip(&b.data);
        worst = pairs.fold(worst, |worst, (x, y)| worst.max((x - y).abs() / scale));
    }
    worst
}

#[test]
fn burn_and_native_start_alike_and_have_the_same_gradients() {
    for case in CASES {
        let config = config(case);
        let (mut native, mut burn) = (native(&config, 2), burn(&config));
        let (a, b) = (native.learner().state(), burn.learner().state());
        assert_eq!(difference(&a.weights, &b.weights), 0.0, "{case}");
        let (m, n) = (native.iterate().unwrap(), burn.iterate().unwrap());
        for (name, seen) in &m.policy {
            let expected = &n.policy[name];
            let near = |figure: &str, bound: f64| {
                let (a, b) = (seen.get(figure).unwrap(), expected.get(figure).unwrap());
                assert!((a - b).abs() < bound * (1.0 + b.abs()), "{case}: {figure} {a} {b}");
            };
            near("loss", 1e-4);
            near("entropy", 1e-4);
        }
        // After one step the first moment is a tenth of the (clipped) gradient.
        let (a, b) = (native.learner().state(), burn.learner().state());
        let gradients = difference(&a.optimizer, &b.optimizer);
        assert!(gradients < 2e-4, "{case}: {gradients}");
        assert!(difference(&a.weights, &b.weights) < 1e-4, "{case}");
    }
}

#[test]
fn ten_steps_lead_to_the_same_parameters() {
    for case in CASES {
        let config = config(case);
        let (mut native, mut burn) = (native(&config, 1), burn(&config));
        for _ in 0..10 {
            native.iterate().unwrap();
            burn.iterate().unwrap();
        }
        let (a, b) = (native.learner().state(), burn.learner().state());
        let weights = difference(&a.weights, &b.weights);
        assert!(weights < 5e-3, "{case}: {weights}");
    }
}

#[test]
fn each_reads_the_others_checkpoints_bit_by_bit() {
    for case in CASES {
        let config = config(case);
        let mut trained = burn(&config);
        trained.iterate().unwrap();
        let mut state = trained.learner().state();
        let mut native = NativeLearner::new(&config, 1).unwrap();
        native.load_state(&state).unwrap();
        let mut back = native.state();
        let by_name = |tensors: &mut Vec<NamedTensor>| tensors.sort_by(|a, b| a.name.cmp(&b.name));
        for state in [&mut state, &mut back] {
            by_name(&mut state.weights);
            by_name(&mut state.optimizer);
        }
        assert_eq!(state, back, "{case}");
        let mut again = BurnLearner::new(&config, 1).unwrap();
        again.load_state(&back).unwrap();
    }
}
