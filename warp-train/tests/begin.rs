//! What a run begins with: weights of other runs, frozen policies, and moments of the first observations.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod runs;

use runs::{CARTPOLE, Folder, PENDULUM, TAG, bits_of, config, iterate, trainer};
use std::path::Path;
use warp_train::native::NativeLearner;
use warp_train::normalise::{BEGINNING, CLIP, EPSILON};
use warp_train::{Learner, Run, TrainConfig, Trainer, begin};

/// The first rollout is seen through the moments of what the reset left; nothing is out of bounds.
#[test]
fn the_first_rollout_is_normalised_by_the_first_observations() {
    for base in [PENDULUM, TAG, CARTPOLE] {
        let plain = trainer(&config(base, "", ""), 1);
        let config = config(base, "norm_obs = true", "");
        let native = || Box::new(NativeLearner::new(&config, 1).unwrap());
        let registry = warp_envs::registry();
        let native = Trainer::new(config.clone(), &registry, native(), 1).unwrap();
        for mut run in [trainer(&config, 1), native] {
            let begun = run.learner().state();
            for (plan, raw) in config.policies.iter().zip(&config.policies) {
                let envs = plain.envs();
                let obs = envs.store().slice::<f32>(envs.ids().obs[raw.agents[0].group]);
                check_beginning(&begun.statistics_of_policy(&plan.name), obs);
            }
            let metrics = run.iterate().unwrap();
            for part in &run.rollout().unwrap().policies {
                assert!(part.obs.iter().all(|x| x.abs() <= CLIP));
            }
            // They count for next to nothing: the rollout holds them once more.
            let name = &config.policies[0].name;
            let after = run.learner().state().statistics_of_policy(name);
            let count = after.iter().find(|s| s.name == "obs_count").unwrap().data[0];
            assert!(count <= metrics.agent_steps as f64 + BEGINNING, "{count}");
            assert!(count.fract() > 0.0);
        }
    }
}

/// Mean and deviation of observations f32 `[rows, width]` in two passes.
fn check_beginning(statistics: &[warp_train::normalise::Statistic], obs: &[f32]) {
    let find = |name: &str| &statistics.iter().find(|s| s.name == name).unwrap().data;
    assert_eq!(find("obs_count")[..], [BEGINNING]);
    let width = find("obs_mean").len();
    for column in 0..width {
        let numbers: Vec<f64> = obs.chunks(width).map(|row| f64::from(row[column])).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let var = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        // Of what is the same everywhere nothing is known.
        let var = if numbers.iter().all(|x| *x == numbers[0]) { 1.0 } else { var };
        assert!((find("obs_mean")[column] - mean).abs() < 1e-9 * (1.0 + mean.abs()));
        let deviation = |var: f64| (var + EPSILON).sqrt();
        assert!((deviation(find("obs_var")[column]) - deviation(var)).abs() < 1e-6);
    }
}

/// A run of two iterations in a folder, and its folder.
fn finished(folder: &Folder, name: &str, config: &TrainConfig) -> (Trainer, String) {
    let path = folder.path().join(name);
    let mut trainer = trainer(config, 1);
    iterate(&mut trainer, 2);
    let registry = warp_envs::registry();
    let fields = registry.get(&config.run.env_id).unwrap().fields;
    Run::create(&path, &config.to_toml(fields), &trainer).unwrap();
    (trainer, path.display().to_string())
}

fn begun(base: &str, keys: &str, tables: &str) -> warp_train::Result<TrainConfig> {
    let mut config = config(base, keys, tables);
    begin::read(&mut config).map(|()| config)
}

#[test]
fn a_whole_run_or_a_policy_of_it_begins_with_the_weights_of_another() {
    let folder = Folder::new("whole");
    let (first, path) = finished(&folder, "first", &config(TAG, "norm_obs = true", ""));
    let trained = first.learner().state();
    let whole =
        begun(TAG, &format!("norm_obs = true\nseed = 9\ninit_from = '{path}'"), "").unwrap();
    let state = trainer(&whole, 1).learner().state();
    assert_eq!(state.weights, trained.weights);
    assert_eq!(state.statistics, trained.statistics);
    // Adam begins anew.
    assert!(state.optimizer_steps.iter().all(|(_, steps)| *steps == 0));
    assert!(state.optimizer.iter().all(|tensor| tensor.data.iter().all(|x| *x == 0.0)));
    let tables = format!("[policy.runner]\ninit_from = '{path}'\n[policy.tagger]");
    let part = begun(TAG, "norm_obs = true\nseed = 9", &tables).unwrap();
    let state = trainer(&part, 1).learner().state();
    let fresh = config(TAG, "norm_obs = true\nseed = 9", "");
    let fresh = trainer(&fresh, 1).learner().state();
    let of = |state: &warp_train::learner::LearnerState, policy| state.of_policy(policy).0;
    assert_eq!(of(&state, "runner"), of(&trained, "runner"));
    assert_eq!(of(&state, "tagger"), of(&fresh, "tagger"));
}

#[test]
fn a_frozen_policy_acts_and_stays_as_it_was() {
    let folder = Folder::new("frozen");
    let keys = "norm_obs = true\nnorm_reward = true";
    let (first, path) = finished(&folder, "first", &config(TAG, keys, ""));
    let tables =
        format!("[policy.runner]\ninit_from = '{path}'\nto_train = false\n[policy.tagger]");
    let config = begun(TAG, keys, &tables).unwrap();
    let mut run = trainer(&config, 1);
    let before = run.learner().state();
    let obs = |statistics: Vec<warp_train::normalise::Statistic>| {
        let obs = statistics.into_iter().filter(|statistic| statistic.name.starts_with("obs"));
        obs.collect::<Vec<_>>()
    };
    iterate(&mut run, 3);
    let after = run.learner().state();
    let trained = first.learner().state();
    assert_eq!(after.of_policy("runner").0, trained.of_policy("runner").0);
    let of_runner =
        |state: &warp_train::learner::LearnerState| obs(state.statistics_of_policy("runner"));
    assert_eq!(of_runner(&after), of_runner(&trained));
    assert_ne!(bits_of(&after, "tagger"), bits_of(&before, "tagger"));
}

/// The only policy of a run may be called otherwise there; a checkpoint may be named itself.
#[test]
fn the_only_policy_needs_no_name() {
    let folder = Folder::new("only");
    let (first, path) = finished(&folder, "first", &config(CARTPOLE, "", ""));
    let tables = "[policy.balancer]\ngroups = [\"pole\"]";
    let steps = first.env_steps();
    for path in [path.clone(), format!("{path}/checkpoints/{steps:012}")] {
        let config = begun(CARTPOLE, &format!("init_from = '{path}'"), tables).unwrap();
        let state = trainer(&config, 1).learner().state();
        let trained = first.learner().state();
        assert_eq!(state.of_policy("balancer").0, trained.of_policy("pole").0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = Folder::new("refused");
    let (_, path) = finished(&folder, "pole", &config(CARTPOLE, "", ""));
    let (_, tag) = finished(&folder, "tag", &config(TAG, "", ""));
    let refused = |base: &str, path: &str, keys: &str, tables: &str, words: &str| {
        let config = begun(base, &format!("init_from = '{path}'\n{keys}"), tables);
        let error = config.and_then(|config| {
            let learner: Box<dyn Learner> = Box::new(NativeLearner::new(&config, 1).unwrap());
            Trainer::new(config, &warp_envs::registry(), learner, 1)
        });
        let error = error.unwrap_err();
        assert!(error.is_users() && error.to_string().contains(words), "{error}");
    };
    let nowhere = folder.path().join("nowhere").display().to_string();
    refused(CARTPOLE, &nowhere, "", "", "there is no folder");
    refused(CARTPOLE, &path, "hidden = [9]", "", "\"pole.actor.0.weight\" is not the same there");
    refused(CARTPOLE, &path, "hidden = [8, 8]", "", "must agree");
    refused(CARTPOLE, &path, "hidden = []", "", "must agree");
    refused(CARTPOLE, &path, "shared_trunk = true", "", "must agree");
    refused(CARTPOLE, &path, "norm_obs = true", "", "norm_obs = false, so this run needs norm_obs");
    refused(
        CARTPOLE,
        &path,
        "activation = 'relu'",
        "",
        "its activation is \"tanh\", but here it is",
    );
    refused(CARTPOLE, &tag, "", "", "it has the policies runner, tagger and none called pole");
    refused(PENDULUM, &path, "", "", "must agree");
    std::fs::write(Path::new(&path).join("checkpoints/000000001120/weights.safetensors"), "x")
        .unwrap();
    refused(CARTPOLE, &path, "", "", "weights.safetensors has the digest");
}
