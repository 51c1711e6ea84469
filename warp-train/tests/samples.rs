//! Which samples count and what they are worth: the dead weigh nothing, a cut episode is worth what
//! its last observation promises, an ended one nothing more.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{AnyLearner, CARTPOLE, TAG, bits, config};
use warp_func::{VecEnv, VecOptions};
use warp_train::batch::{Samples, StepSizes, TrainablePolicy};
use warp_train::engine::RolloutEngine;
use warp_train::learner::Progress;
use warp_train::loss::{Loss, LossMetrics, Minibatch};
use warp_train::rollout::{PolicyRollout, Rollout};
use warp_train::{Actions, Learner, Result, TrainConfig};

fn environments(config: &TrainConfig) -> Box<dyn VecEnv> {
    let options =
        VecOptions { n_envs: config.run.num_envs, seed: config.run.seed, ..VecOptions::default() };
    let registry = warp_envs::registry();
    registry.get(&config.run.env_id).unwrap().make(&config.env, &options).unwrap()
}

const PROGRESS: Progress = Progress { iteration: 0, env_steps: 0, seed: 0 };
/// Policies stand in the order of their names.
const RUNNER: usize = 0;
const TAGGER: usize = 1;

/// Collects, lets `change` at the runners' part, learns; returns the learner's bits.
fn learned_after(
    config: &TrainConfig,
    change: impl FnOnce(&mut PolicyRollout),
) -> Vec<(String, Vec<u32>)> {
    let mut learner = AnyLearner::new(config, 1).unwrap();
    let (mut envs, mut rollout) = (environments(config), Rollout::new(config));
    learner.collect(&mut *envs, &mut rollout).unwrap();
    change(&mut rollout.policies[RUNNER]);
    learner.update(&mut rollout, PROGRESS).unwrap();
    bits(&learner.state())
}

/// Overwrites everything about one cell of a rollout.
fn spoil(rollout: &mut PolicyRollout, cell: usize) {
    let (width, heads) = (rollout.width, rollout.layout.action_width());
    rollout.obs[cell * width..][..width].fill(1e3);
    match &mut rollout.actions {
        Actions::Discrete(actions) => actions[cell * heads..][..heads].fill(77),
        Actions::Continuous(raw) => raw[cell * heads..][..heads].fill(77.0),
    }
    rollout.log_probs[cell] = -50.0;
    rollout.values[cell] = 1e6;
    rollout.rewards[cell] = -1e6;
    rollout.truncated_values[cell] = 1e6;
}

#[test]
fn what_is_recorded_of_the_dead_changes_nothing() {
    for algorithm in ["algorithm = \"ppo\"", "algorithm = \"a2c\"", "norm_adv = false"] {
        let config = config(TAG, algorithm, "");
        let as_collected = learned_after(&config, |_| ());
        let spoilt = learned_after(&config, |rollout| {
            let dead: Vec<_> =
                (0..rollout.weights.len()).filter(|cell| rollout.weights[*cell] == 0.0).collect();
            let all = rollout.weights.len();
            assert!(dead.len() > 100 && dead.len() < all, "{} of {all} are dead", dead.len());
            dead.iter().for_each(|cell| spoil(rollout, *cell));
        });
        assert!(as_collected == spoilt, "{algorithm}: the dead had a say");
        // The living do: one reward of one of them is felt.
        let altered = learned_after(&config, |rollout| {
            let cell = rollout.weights.iter().rposition(|weight| *weight > 0.0).unwrap();
            rollout.rewards[cell] += 5.0;
        });
        assert!(as_collected != altered, "{algorithm}");
    }
}

#[test]
fn a_death_ends_the_agents_recursion_and_the_others_go_on() {
    let config = config(TAG, "", "");
    let mut learner = AnyLearner::new(&config, 1).unwrap();
    let (mut envs, mut rollout) = (environments(&config), Rollout::new(&config));
    learner.collect(&mut *envs, &mut rollout).unwrap();
    assert!(rollout.policies[TAGGER].weights.is_empty(), "taggers can't leave");
    let runners = &rollout.policies[RUNNER];
    let (n, steps) = (runners.n_rows, rollout.n_steps);
    let mut deaths = 0;
    for cell in 0..n * (steps - 1) {
        let (here, next) = (runners.weights[cell], runners.weights[cell + n]);
        if here == 1.0 && next == 0.0 {
            assert_eq!(runners.ended[cell], 1, "who is gone next was terminated now");
            deaths += 1;
        }
        if here == 0.0 && next == 1.0 {
            // Only a new episode brings anyone back, and it ended for the taggers, too.
            let (step, replica) = (cell / n, cell % n / runners.n_agents);
            let taggers = &rollout.policies[TAGGER];
            assert_eq!(taggers.ended[step * taggers.n_rows + replica * taggers.n_agents], 1);
        }
    }
    assert!(deaths > 10, "{deaths}");
}

/// A policy that values an observation at the sum of its elements and keeps what it is shown.
#[derive(Default)]
struct Witness {
    /// Observation's first element, return, advantage.
    shown: Vec<(f32, f32, f32)>,
}

impl TrainablePolicy for Witness {
    fn values(&mut self, obs: &[f32], values: &mut [f32]) -> Result<()> {
        let rows = obs.chunks(obs.len() / values.len());
        values.iter_mut().zip(rows).for_each(|(value, row)| *value = row.iter().sum());
        Ok(())
    }
    fn gradients(&mut self, minibatch: &Minibatch<'_>, _: &Loss) -> Result<LossMetrics> {
        let first = minibatch.observations.iter().step_by(4);
        let rows = first.zip(minibatch.returns).zip(minibatch.advantages);
        self.shown.extend(rows.map(|((obs, ret), advantage)| (*obs, *ret, *advantage)));
        Ok(LossMetrics::default())
    }
    fn step(&mut self, _: &StepSizes) -> Result<f64> {
        Ok(0.0)
    }
}

/// Three steps of one replica; an episode ends in the second, cut if `truncated`.
fn three_steps(truncated: bool) -> PolicyRollout {
    let config = config(CARTPOLE, "num_envs = 1\nnum_steps = 3", "");
    let mut rollout = Rollout::new(&config).policies.remove(0);
    (0..4).for_each(|t| rollout.obs[4 * t] = t as f32);
    rollout.rewards.copy_from_slice(&[1.0, 2.0, 4.0]);
    rollout.values.copy_from_slice(&[0.5, 0.25, 0.125, 8.0]);
    rollout.ended.copy_from_slice(&[0, 1, 0]);
    if truncated {
        rollout.truncated.at.push(1);
        rollout.truncated.obs.extend([1.0, 2.0, 3.0, 4.0]);
    }
    rollout
}

/// What a policy that learns by `algorithm`, with these `keys`, is shown of a rollout.
fn shown(mut rollout: PolicyRollout, algorithm: &str, keys: &str) -> Witness {
    let keys = format!("algorithm = \"{algorithm}\"\ngamma = 0.5\ngae_lambda = 1.0\n{keys}");
    let mut config = config(
        CARTPOLE,
        "num_envs = 1\nnum_steps = 3\nnorm_adv = false\nnum_minibatches = 2\nupdate_epochs = 1",
        &keys,
    );
    let plan = config.policies.remove(0);
    let mut witness = Witness::default();
    let engine = RolloutEngine {
        policy: &mut witness,
        rollout: &mut rollout,
        samples: &mut Samples::default(),
        plan: &plan,
        progress: PROGRESS,
        sharing: &config.sharing(),
    };
    engine.learn(&*plan.on_policy(&config.spec).unwrap()).unwrap();
    witness
}

#[test]
fn truncation_bootstraps_with_the_last_observation_and_termination_does_not() {
    for truncated in [false, true] {
        let second = if truncated { 2.0 + 0.5 * 10.0 } else { 2.0 };
        let returns = [1.0 + 0.5 * second, second, 4.0 + 0.5 * 8.0];
        let values = [0.5, 0.25, 0.125];
        for algorithm in ["ppo", "a2c"] {
            let mut witness = shown(three_steps(truncated), algorithm, "");
            witness.shown.sort_by(|a, b| a.0.total_cmp(&b.0));
            let expected: Vec<_> =
                (0..3).map(|t| (t as f32, returns[t], returns[t] - values[t])).collect();
            assert_eq!(witness.shown, expected, "{algorithm}, truncated: {truncated}");
        }
    }
}

#[test]
fn the_originals_last_step_is_behind_its_option() {
    let witness = shown(three_steps(true), "a2c", "compat_last_step = true");
    let returns: Vec<f32> = witness.shown.iter().map(|row| row.1).collect();
    assert_eq!(returns, [2.0, 2.0, 0.125]);
}

#[test]
fn collecting_keeps_the_last_observation_of_cut_episodes_only() {
    let gymnasium = config(CARTPOLE, "", "[env]\nepisode_length = 5");
    let mut learner = AnyLearner::new(&gymnasium, 2).unwrap();
    let (mut envs, mut rollout) = (environments(&gymnasium), Rollout::new(&gymnasium));
    learner.collect(&mut *envs, &mut rollout).unwrap();
    let part = &rollout.policies[0];
    // The pole can't fall within five steps of its start.
    let expected: Vec<_> = (4 * part.n_rows..5 * part.n_rows).collect();
    assert_eq!(part.truncated.at, expected);
    let last: Vec<f32> = part.truncated.obs.clone();
    assert!(last.iter().any(|x| x.abs() > 0.3), "five steps from the start");
    assert!(part.obs_at(5).iter().all(|x| x.abs() <= 0.05), "a new start");
    // The update values them with the weights that collected.
    let (n, width) = (part.n_rows, part.layout.output_width());
    let (mut logits, mut values) = (vec![0.0; n * width], vec![0.0; n]);
    learner.forward(0, &last, n, &mut logits, &mut values).unwrap();
    learner.update(&mut rollout, PROGRESS).unwrap();
    let part = &rollout.policies[0];
    assert_eq!(part.truncated_values[4 * n..5 * n], values);
    assert!(part.truncated_values[..4 * n].iter().all(|value| *value == 0.0));

    let warpdrive = config(CARTPOLE, "", "[env]\nepisode_length = 5\npreset = \"warpdrive\"");
    let (mut envs, mut rollout) = (environments(&warpdrive), Rollout::new(&warpdrive));
    learner.collect(&mut *envs, &mut rollout).unwrap();
    let part = &rollout.policies[0];
    assert!(part.truncated.at.is_empty());
    assert!(part.ended[4 * n..5 * n].iter().all(|ended| *ended == 1));
}
