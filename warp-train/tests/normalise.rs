//! Normalisers against two passes in f64, and what of them reaches policies, metrics and checkpoints.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod runs;

use proptest::prelude::*;
use runs::{AnyLearner, CARTPOLE, Folder, PENDULUM, TAG, config, iterate, trainer};
use warp_func::{VecEnv, VecOptions};
use warp_train::evaluate::{EvalOptions, evaluate};
use warp_train::learner::Progress;
use warp_train::normalise::{EPSILON, RunningMoments, Statistic};
use warp_train::rollout::Rollout;
use warp_train::run::Snapshot;
use warp_train::{Checkpoint, Learner, TrainConfig, checkpoint};

const PROGRESS: Progress = Progress { iteration: 0, env_steps: 0, seed: 0 };

fn environments(config: &TrainConfig) -> Box<dyn VecEnv> {
    let options =
        VecOptions { n_envs: config.run.num_envs, seed: config.run.seed, ..VecOptions::default() };
    let registry = warp_envs::registry();
    registry.get(&config.run.env_id).unwrap().make(&config.env, &options).unwrap()
}

fn two_passes(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    (mean, samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
}

fn find<'a>(statistics: &'a [Statistic], name: &str) -> &'a [f64] {
    &statistics.iter().find(|s| s.name == name).expect(name).data
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

proptest! {
    /// Cut into batches of any sizes, some rows left out, the moments are those of all samples.
    #[test]
    fn batches_combine_to_the_moments_of_all(
        rows in prop::collection::vec((-5.0f32..5.0, 1e3f32..1.001e3, 0u8..3), 1..200),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(rows.len() + 1)).collect();
        cuts.extend([0, rows.len()]);
        cuts.sort_unstable();
        let mut moments = RunningMoments::new(2);
        for pair in cuts.windows(2) {
            let batch = &rows[pair[0]..pair[1]];
            let samples: Vec<f32> = batch.iter().flat_map(|row| [row.0, row.1]).collect();
            let weights: Vec<f32> = batch.iter().map(|row| f32::from(row.2.min(1))).collect();
            moments.add(&samples, &weights);
        }
        let counted = || rows.iter().filter(|row| row.2 > 0);
        prop_assert_eq!(moments.count, counted().count() as f64);
        if moments.count > 0.0 {
            for (i, column) in [(0, counted().map(|r| f64::from(r.0)).collect::<Vec<_>>()),
                                (1, counted().map(|r| f64::from(r.1)).collect())] {
                let (mean, var) = two_passes(&column);
                prop_assert!(close(mean, moments.mean[i]), "{mean} {}", moments.mean[i]);
                prop_assert!((var - moments.var[i]).abs() < 1e-7, "{var} {}", moments.var[i]);
            }
        }
    }
}

/// The second rollout is seen through the moments of the first one's observations; the dead do not
/// count.
#[test]
fn observations_are_seen_through_what_earlier_rollouts_held() {
    for base in [PENDULUM, TAG] {
        let plain = config(base, "", "");
        let normed = config(base, "norm_obs = true", "");
        let mut learner = AnyLearner::new(&normed, 1).unwrap();
        let (mut envs, mut rollout) = (environments(&normed), Rollout::new(&normed));
        learner.collect(&mut *envs, &mut rollout).unwrap();
        // Nothing is known before: as the environment wrote them.
        let mut bare = AnyLearner::new(&plain, 1).unwrap();
        let (mut other_envs, mut other) = (environments(&plain), Rollout::new(&plain));
        bare.collect(&mut *other_envs, &mut other).unwrap();
        assert_eq!(rollout.policies[0].obs, other.policies[0].obs);
        learner.update(&mut rollout, PROGRESS).unwrap();
        let state = learner.state();
        let mut expected = Vec::new();
        for (index, part) in other.policies.iter().enumerate() {
            let statistics = state.statistics_of_policy(&normed.policies[index].name);
            let cells = part.rewards.len();
            let counted = |cell: &usize| part.weights.get(*cell) != Some(&0.0);
            for i in 0..part.width {
                let column =
                    (0..cells).filter(counted).map(|c| part.obs[c * part.width + i].into());
                let (mean, var) = two_passes(&column.collect::<Vec<_>>());
                assert!(close(mean, find(&statistics, "obs_mean")[i]));
                assert!(close(var, find(&statistics, "obs_var")[i]));
                expected.push((mean, (var + EPSILON).sqrt()));
            }
            let counted = (0..cells).filter(counted).count() as f64;
            assert_eq!(find(&statistics, "obs_count"), [counted]);
        }
        let group = normed.policies[0].agents[0].group;
        let raw: Vec<f32> = envs.store().slice(envs.ids().obs[group]).to_vec();
        learner.collect(&mut *envs, &mut rollout).unwrap();
        let width = rollout.policies[0].width;
        for (at, (raw, found)) in raw.iter().zip(rollout.policies[0].obs_at(0)).enumerate() {
            let (mean, deviation) = expected[at % width];
            let truth = ((f64::from(*raw) - mean) / deviation).clamp(-10.0, 10.0);
            // A constant has no deviation, and its own rounding is divided by nothing much.
            assert!((f64::from(*found) - truth).abs() < 2e-3, "{found} {truth}");
        }
    }
}

/// The rewards of two rollouts, by the definition: divided by the deviation of all discounted returns.
#[test]
fn rewards_are_divided_by_the_deviation_of_the_discounted_return() {
    let keys = "norm_reward = true\ngamma = 0.8";
    let config = config(PENDULUM, keys, "[env]\nepisode_length = 7");
    let mut learner = AnyLearner::new(&config, 1).unwrap();
    let (mut envs, mut rollout) = (environments(&config), Rollout::new(&config));
    let n = config.run.num_envs;
    let (mut returns, mut all) = (vec![0.0; n], Vec::new());
    for _ in 0..2 {
        learner.collect(&mut *envs, &mut rollout).unwrap();
        let raw = rollout.policies[0].rewards.clone();
        assert!(raw.iter().any(|r| *r < -5.0));
        for (cell, (reward, ended)) in raw.iter().zip(&rollout.policies[0].ended).enumerate() {
            let sum: &mut f64 = &mut returns[cell % n];
            *sum = *sum * 0.8 + f64::from(*reward);
            all.push(*sum);
            *sum = if *ended != 0 { 0.0 } else { *sum };
        }
        learner.update(&mut rollout, PROGRESS).unwrap();
        let deviation = (two_passes(&all).1 + EPSILON).sqrt();
        for (raw, found) in raw.iter().zip(&rollout.policies[0].rewards) {
            let truth = (f64::from(*raw) / deviation).clamp(-10.0, 10.0);
            assert!((f64::from(*found) - truth).abs() < 1e-5, "{found} {truth}");
        }
    }
}

#[test]
fn figures_of_episodes_stay_as_they_are() {
    let keys = "norm_obs = true\nnorm_reward = true\nnum_steps = 50";
    let mut trainer = trainer(&config(CARTPOLE, keys, ""), 1);
    for _ in 0..3 {
        let episodes = trainer.iterate().unwrap().episodes;
        // Each step of cartpole pays 1.
        assert_eq!(episodes.episode_return, episodes.episode_length);
        assert!(episodes.episodes > 0);
    }
}

#[test]
fn a_policy_that_is_not_to_train_learns_no_moments() {
    let tables = "[policy.tagger]\n[policy.runner]\nto_train = false";
    let mut trainer = trainer(&config(TAG, "norm_obs = true\nnorm_reward = true", tables), 1);
    iterate(&mut trainer, 2);
    let state = trainer.learner().state();
    assert_eq!(find(&state.statistics_of_policy("runner"), "obs_count"), [0.0]);
    assert!(find(&state.statistics_of_policy("tagger"), "obs_count")[0] > 0.0);
}

#[test]
fn evaluation_uses_the_moments_and_leaves_them() {
    let config = config(PENDULUM, "norm_obs = true\nnorm_reward = true", "");
    let mut run = trainer(&config, 1);
    iterate(&mut run, 2);
    let state = run.learner().state();
    let score = |change: &dyn Fn(&mut Statistic)| {
        let mut state = state.clone();
        state.statistics.iter_mut().for_each(change);
        let mut learner = AnyLearner::new(&config, 1).unwrap();
        learner.load_state(&state).unwrap();
        let options = EvalOptions {
            episodes: 3,
            mode: warp_sample::Mode::Greedy,
            random: vec![],
            threads: 1,
        };
        let score = evaluate(&mut learner, &config, &warp_envs::registry(), &options).unwrap();
        assert_eq!(learner.state(), state);
        score.mean_episode_return
    };
    let shift = |s: &mut Statistic| {
        let by = f64::from(u8::from(s.name.ends_with("obs_mean")));
        s.data.iter_mut().for_each(|x| *x += by);
    };
    assert_eq!(score(&|_| ()), score(&|_| ()));
    assert_ne!(score(&|_| ()), score(&shift));
}

#[test]
fn statistics_that_do_not_fit_are_refused() {
    let folder = Folder::new("statistics");
    let normed = config(PENDULUM, "norm_obs = true\nnorm_reward = true", "");
    let mut run = trainer(&normed, 1);
    iterate(&mut run, 1);
    let refused = |config: &TrainConfig, change: &dyn Fn(&mut Vec<Statistic>), words: &str| {
        let mut state = run.learner().state();
        change(&mut state.statistics);
        let path = checkpoint::save(
            folder.path(),
            &Snapshot::of(&run.counters(), state.clone(), run.envs()),
        )
        .unwrap();
        let checkpoint = Checkpoint::open(&path).unwrap();
        let mut learner = AnyLearner::new(config, 1).unwrap();
        let error = learner.load_state(&checkpoint.learner).unwrap_err();
        assert!(error.is_users() && error.to_string().contains(words), "{error}");
    };
    refused(&normed, &|s| drop(s.remove(0)), "\"obs_count\" is missing");
    let shorter = |s: &mut Vec<Statistic>| {
        s[6].data.pop();
        s[6].shape = vec![39];
    };
    refused(&normed, &shorter, "discounted_return\" has 39 numbers, expected 40");
    refused(&normed, &|s| s[0].name = "ghost.obs_count".into(), "\"ghost.obs_count\"");
    refused(
        &config(PENDULUM, "norm_obs = true", ""),
        &|_| (),
        "statistic \"discounted_return\" is given",
    );
    refused(&config(PENDULUM, "", ""), &|_| (), "is given, but the configuration");
    // Neither written nor read.
    let mut state = run.learner().state();
    state.statistics[1].data[0] = f64::NAN;
    let error =
        checkpoint::save(folder.path(), &Snapshot::of(&run.counters(), state.clone(), run.envs()))
            .unwrap_err();
    assert!(error.to_string().contains("obs_mean\" holds NaN"), "{error}");
    let mut learner = AnyLearner::new(&normed, 1).unwrap();
    let error = learner.load_state(&state).unwrap_err();
    assert!(error.to_string().contains("expected 3 finite ones"), "{error}");
}
