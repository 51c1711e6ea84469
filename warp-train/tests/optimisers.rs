//! Rules of optimisers, step sizes and coefficients that change: what each does, and that none of them is there
//! unless it is asked for.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{CARTPOLE, Folder, PENDULUM, bits, config, iterate, trainer};
use warp_train::run::Snapshot;
use warp_train::{Checkpoint, TrainConfig, checkpoint};

/// Steps of an iteration of [`CARTPOLE`].
const ITERATION: u64 = 560;

/// The bits after `n` iterations, by the names of tensors.
fn trained(keys: &str, n: usize) -> Vec<(String, Vec<u32>)> {
    let mut trainer = trainer(&config(CARTPOLE, keys, ""), 2);
    iterate(&mut trainer, n);
    bits(&trainer.learner().state())
}

fn weights<'a>(all: &'a [(String, Vec<u32>)], part: &str) -> Vec<&'a (String, Vec<u32>)> {
    let is_own = |name: &str| name.contains(part) && !name.contains("exp_avg");
    let found: Vec<_> = all.iter().filter(|(name, _)| is_own(name)).collect();
    assert!(!found.is_empty(), "{part}");
    found
}

#[test]
fn what_is_the_default_changes_no_bit_when_it_is_said() {
    let plain = trained("", 3);
    for keys in [
        "optimiser = \"adam\"\nweight_decay = 0",
        "critic_learning_rate = 1e-2",
        "clip_coef = [[0, 0.2], [100000, 0.2]]",
        "gamma = [[0, 0.99], [9, 0.99]]\ngae_lambda = [[0, 0.95], [9, 0.95]]",
        "max_grad_norm = [[0, 0.5], [100000, 0.5]]",
        "target_kl = 1e9",
    ] {
        assert!(trained(keys, 3) == plain, "{keys}");
    }
}

#[test]
fn the_value_may_have_a_step_size_of_its_own() {
    // Without clipping, which looks at both networks together.
    let plain = trained("max_grad_norm = 0", 1);
    let still = trained("max_grad_norm = 0\ncritic_learning_rate = 0", 1);
    let begun = trained("", 0);
    assert_eq!(weights(&still, "actor."), weights(&plain, "actor."));
    assert_eq!(weights(&still, "critic."), weights(&begun, "critic."));
    assert_ne!(weights(&plain, "critic."), weights(&begun, "critic."));
    let keys = "critic_learning_rate = [[0, 0.01], [1120, 0.0]]";
    let mut run = trainer(&config(CARTPOLE, keys, ""), 1);
    let rate = |run: &mut warp_train::Trainer| {
        run.iterate().unwrap().policy["pole"].get("critic_learning_rate")
    };
    assert_eq!(
        [rate(&mut run), rate(&mut run), rate(&mut run)],
        [Some(0.01), Some(0.005), Some(0.0)]
    );
}

#[test]
fn no_epoch_follows_one_that_moved_the_policy_further_than_the_target() {
    let steps = |keys: &str| {
        let mut run = trainer(&config(CARTPOLE, keys, ""), 1);
        let metrics = run.iterate().unwrap();
        metrics.policy["pole"].get("optimiser_steps")
    };
    // Two minibatches each.
    assert_eq!(steps("update_epochs = 10\ntarget_kl = 0"), Some(2.0));
    assert_eq!(steps("update_epochs = 10\ntarget_kl = 1e9"), Some(20.0));
    assert_eq!(steps(""), None);
    let some = steps("update_epochs = 40\ntarget_kl = 0.01").unwrap();
    assert!((2.0..80.0).contains(&some), "{some}");
    // What was done is what fewer epochs do.
    assert!(trained("target_kl = 0", 1) == trained("update_epochs = 1", 1));
}

#[test]
fn clipping_follows_its_schedule() {
    let schedule = format!("clip_coef = [[0, 0.2], [{ITERATION}, 0.01]]");
    assert!(trained(&schedule, 1) == trained("clip_coef = 0.2", 1));
    assert!(trained(&schedule, 2) != trained("clip_coef = 0.2", 2));
    let clipped = |keys: &str| {
        let mut run = trainer(&config(CARTPOLE, keys, ""), 1);
        iterate(&mut run, 1);
        run.iterate().unwrap().policy["pole"].get("clip_fraction").unwrap()
    };
    assert!(clipped(&schedule) > clipped("clip_coef = 0.2"));
    let shares =
        config(CARTPOLE, "total_steps = 1000\nclip_coef = [[\"0%\", 0.2], [\"50%\", 0.1]]", "");
    assert_eq!(shares.policies[0].config.clip_coef.at(250), 0.15000000000000002);
}

/// What a run does from some step on is what it does with the number that holds there.
#[test]
fn discount_lambda_and_clipping_of_the_gradient_follow_their_schedules() {
    let folder = Folder::new("coefficients");
    for (base, keys) in [
        (CARTPOLE, [("gamma", 0.99, 0.5), ("gae_lambda", 0.95, 0.2), ("max_grad_norm", 0.5, 0.01)]),
        (PENDULUM, [("gamma", 0.9, 0.0), ("gae_lambda", 1.0, 0.0), ("max_grad_norm", 0.0, 0.1)]),
    ] {
        for (key, first, then) in keys {
            let with =
                |value: &str| config(base, &format!("norm_reward = true\n{key} = {value}"), "");
            let step = with("0").steps_per_iteration();
            let mut whole = trainer(&with(&format!("[[0, {first:?}], [{step}, {then:?}]]")), 1);
            let mut begun = trainer(&with(&format!("{first:?}")), 1);
            let mut other = trainer(&with(&format!("{first:?}")), 1);
            [&mut whole, &mut begun, &mut other].into_iter().for_each(|run| iterate(run, 1));
            let state = begun.learner().state();
            assert!(bits(&whole.learner().state()) == bits(&state), "{key}");
            let snapshot = Snapshot::of(&begun.counters(), state, begun.envs());
            let path = checkpoint::save(folder.path(), &snapshot).unwrap();
            let mut on = trainer(&with(&format!("{then:?}")), 1);
            on.restore(&Checkpoint::open(&path).unwrap()).unwrap();
            [&mut whole, &mut on, &mut other].into_iter().for_each(|run| iterate(run, 1));
            assert!(bits(&whole.learner().state()) == bits(&on.learner().state()), "{key}");
            assert!(bits(&whole.learner().state()) != bits(&other.learner().state()), "{key}");
            std::fs::remove_dir_all(path).unwrap();
        }
    }
}

#[test]
fn runs_with_other_rules_go_on_exactly() {
    let folder = Folder::new("rules");
    let goes_on = |config: &TrainConfig| {
        let mut whole = trainer(config, 1);
        iterate(&mut whole, 4);
        let mut first = trainer(config, 2);
        iterate(&mut first, 2);
        let state = first.learner().state();
        let snapshot = Snapshot::of(&first.counters(), state, first.envs());
        let path = checkpoint::save(folder.path(), &snapshot).unwrap();
        let mut second = trainer(config, 1);
        second.restore(&Checkpoint::open(&path).unwrap()).unwrap();
        iterate(&mut second, 2);
        assert!(bits(&second.learner().state()) == bits(&whole.learner().state()));
        std::fs::remove_dir_all(path).unwrap();
    };
    let keys = "optimiser = \"rmsprop\"\nweight_decay = 0.01\ntarget_kl = 0.02\n\
                critic_learning_rate = [[0, 0.01], [2000, 0.0]]\nclip_coef = [[0, 0.3], [2000, 0.1]]\n\
                gamma = [[0, 0.9], [2000, 0.99]]\ngae_lambda = [[0, 0.9], [2000, 1.0]]\n\
                max_grad_norm = [[0, 1.0], [2000, 0.1]]\nnorm_reward = true\nlayer_norm = true";
    goes_on(&config(CARTPOLE, keys, ""));
    goes_on(&config(PENDULUM, "algorithm = \"a2c\"\noptimiser = \"rmsprop\"", ""));
}

#[test]
fn weights_decay_apart_from_their_gradients() {
    let size = |keys: &str| {
        let mut run = trainer(&config(CARTPOLE, &format!("learning_rate = 1e-3\n{keys}"), ""), 1);
        iterate(&mut run, 5);
        let state = run.learner().state();
        state.weights.iter().flat_map(|t| &t.data).map(|x| f64::from(x * x)).sum::<f64>()
    };
    assert!(size("weight_decay = 20") < 0.9 * size(""));
}

#[test]
fn what_does_not_fit_is_refused() {
    for (keys, words) in [
        ("optimiser = \"sgd\"", "one of \"adam\", \"rmsprop\""),
        ("weight_decay = -0.1", "weight_decay = -0.1: must not be negative"),
        ("target_kl = -1", "target_kl = -1: must not be negative"),
        ("clip_coef = [[0, 0.2], [9, -0.2]]", "clip_coef = -0.2: must not be negative"),
        (
            "critic_learning_rate = 0.1\nshared_trunk = true",
            "the value function has no separate network",
        ),
        ("gamma = [[0, 0.9], [9, 1.1]]", "gamma = 1.1: must lie between 0 and 1"),
        ("gae_lambda = [[0, -0.5], [9, 1]]", "gae_lambda = -0.5: must lie between 0 and 1"),
        ("max_grad_norm = [[0, 1], [9, -1]]", "max_grad_norm = -1: must not be negative"),
        ("algorithm = \"dqn\"\nmax_grad_norm = [[0, 1], [9, 2]]", "dqn needs a constant"),
        ("algorithm = \"a2c\"\ntarget_kl = 0.1", "a2c has no such key"),
    ] {
        let table = format!("env_id = \"cartpole\"\n[policy.pole]\ngroups = [\"pole\"]\n{keys}");
        let error = TrainConfig::resolve(&table.parse().unwrap(), &warp_envs::registry());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
