//! What a run depends on, and what it does not: threads, interruptions, `total_steps`; policies that
//! learn, that do not, and that are shared.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{AnyLearner, CARTPOLE, Folder, PENDULUM, TAG, bits, bits_of, config, iterate, trainer};
use std::ops::ControlFlow;
use warp_sample::Mode;
use warp_train::episode::{EpisodeEnd, EpisodeOptions, play_episode};
use warp_train::evaluate::{EvalOptions, Evaluation, evaluate};
use warp_train::metrics::IterationMetrics;
use warp_train::{Checkpoint, Error, Schedule, TrainConfig, Trainer, checkpoint};

/// A line of metrics without the time that it took.
fn timeless(metrics: &IterationMetrics) -> String {
    let mut value = serde_json::to_value(metrics).unwrap();
    value.as_object_mut().unwrap().remove("steps_per_second").unwrap();
    value.to_string()
}

fn lines(trainer: &mut Trainer, n: usize) -> Vec<String> {
    (0..n).map(|_| timeless(&trainer.iterate().unwrap())).collect()
}

fn threads_change_nothing(config: &TrainConfig) {
    let mut one = trainer(config, 1);
    let untrained = bits(&one.learner().state());
    let metrics = lines(&mut one, 4);
    let trained = bits(&one.learner().state());
    assert_ne!(untrained, trained);
    for threads in [2, 3] {
        let mut more = trainer(config, threads);
        assert_eq!(lines(&mut more, 4), metrics, "{threads} threads");
        assert_eq!(bits(&more.learner().state()), trained, "{threads} threads");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    threads_change_nothing(&config(CARTPOLE, "", ""));
    threads_change_nothing(&config(CARTPOLE, "algorithm = \"a2c\"", ""));
    threads_change_nothing(&config(CARTPOLE, "layer_norm = true", ""));
    threads_change_nothing(&config(TAG, "", ""));
    threads_change_nothing(&config(TAG, "algorithm = \"a2c\"", ""));
    let mixed = "[policy.tagger]\nalgorithm = \"a2c\"\n[policy.runner]\nhidden = [5, 4]";
    threads_change_nothing(&config(TAG, "shared_trunk = true", mixed));
}

/// The ways to draw a continuous action, with normalisation and without.
const CONTINUOUS: [&str; 4] = [
    "",
    "action_distribution = \"squashed\"\nnorm_obs = true\nnorm_reward = true",
    "log_std = \"state_dependent\"\nnorm_reward = true\nshared_trunk = true",
    "algorithm = \"a2c\"\nlog_std = \"state_dependent\"\naction_distribution = \"squashed\"\n\
     norm_obs = true\ninit = \"kaiming\"\nlog_std_init = -0.5",
];

#[test]
fn the_number_of_threads_changes_no_bit_of_continuous_actions_and_normalisers() {
    for keys in CONTINUOUS {
        threads_change_nothing(&config(PENDULUM, &format!("num_envs = 300\n{keys}"), ""));
    }
    threads_change_nothing(&config(TAG, "norm_obs = true\nnorm_reward = true", ""));
}

#[test]
fn the_seed_changes_everything() {
    let trained = |seed: u32| {
        let mut trainer = trainer(&config(CARTPOLE, &format!("seed = {seed}"), ""), 1);
        iterate(&mut trainer, 2);
        bits(&trainer.learner().state())
    };
    assert_eq!(trained(3), trained(3));
    let (a, b) = (trained(3), trained(4));
    // All but Adam's number of steps.
    let different = a.iter().zip(&b).filter(|(a, b)| a.1 != b.1).count();
    assert_eq!(different, a.len() - 1);
}

#[test]
fn a_policy_that_is_not_to_train_keeps_every_bit() {
    let tables = "[policy.tagger]\n[policy.runner]\nto_train = false";
    for algorithm in ["algorithm = \"ppo\"", "algorithm = \"a2c\""] {
        let mut trainer = trainer(&config(TAG, algorithm, tables), 2);
        let before = trainer.learner().state();
        iterate(&mut trainer, 3);
        let after = trainer.learner().state();
        assert_eq!(bits_of(&before, "runner"), bits_of(&after, "runner"));
        assert_ne!(bits_of(&before, "tagger"), bits_of(&after, "tagger"));
        assert_eq!(trainer.trained_groups(), [true, false]);
    }
}

#[test]
fn groups_that_share_a_policy_train_one_set_of_weights() {
    let tables = "[policy.everyone]\ngroups = [\"runner\", \"tagger\"]";
    let shared = config(TAG, "", tables);
    threads_change_nothing(&shared);
    let mut shared = trainer(&shared, 1);
    iterate(&mut shared, 2);
    let state = shared.learner().state();
    assert!(state.weights.iter().all(|tensor| tensor.name.starts_with("everyone.")));
    assert_eq!(state.optimizer_steps.len(), 1);
    let mut apart = trainer(&config(TAG, "", ""), 1);
    iterate(&mut apart, 2);
    let apart = apart.learner().state();
    assert_eq!(apart.weights.len(), 2 * state.weights.len());
    // Two policies of one run begin with different weights.
    let fresh = trainer(&config(TAG, "", ""), 1).learner().state();
    let first = |policy: &str| fresh.of_policy(policy).0[0].data.clone();
    assert_ne!(first("tagger"), first("runner"));
}

#[test]
fn schedules_follow_the_step_and_only_their_shares_follow_total_steps() {
    let keys = |total: u32| {
        format!(
            "learning_rate = [[0, 1e-2], [2000, 1e-3]]\nent_coef = [[0, 0.1], [1500, 0.0]]\n\
             vf_coef = [[0, 1.0], [1000, 0.5]]\ntotal_steps = {total}"
        )
    };
    let (short, long) = (config(CARTPOLE, &keys(1000), ""), config(CARTPOLE, &keys(900_000), ""));
    let mut one = trainer(&short, 1);
    let schedule = Schedule::points(vec![(0, 1e-2), (2000, 1e-3)]).unwrap();
    for _ in 0..5 {
        let step = one.env_steps();
        let metrics = one.iterate().unwrap();
        let rate = metrics.policy["pole"].get("learning_rate");
        assert_eq!(rate, Some(schedule.at(step)));
        assert_eq!(metrics.env_steps, step + 560);
    }
    let mut other = trainer(&long, 1);
    iterate(&mut other, 5);
    assert_eq!(bits(&one.learner().state()), bits(&other.learner().state()));
    // Shares come to the same steps, if the run is as long as they are shares of.
    let shares = "learning_rate = [[\"0%\", 1e-2], [\"100%\", 1e-3]]\nent_coef = [[0, 0.1], [\"75%\", 0.0]]\n\
                  vf_coef = [[\"0%\", 1.0], [\"50 %\", 0.5]]\ntotal_steps = ";
    let of_length = |total: u32| {
        let mut run = trainer(&config(CARTPOLE, &format!("{shares}{total}"), ""), 1);
        iterate(&mut run, 5);
        bits(&run.learner().state())
    };
    assert_eq!(of_length(2000), bits(&one.learner().state()));
    assert_ne!(of_length(4000), bits(&one.learner().state()));
    // A schedule that ends elsewhere, or another coefficient, does make a difference.
    for changed in ["ent_coef = [[0, 0.1], [3000, 0.0]]", "vf_coef = [[0, 1.0], [1000, 0.4]]"] {
        let key = changed.split(' ').next().unwrap();
        let keep =
            keys(1000).lines().filter(|l| !l.starts_with(key)).collect::<Vec<_>>().join("\n");
        let mut third = trainer(&config(CARTPOLE, &format!("{keep}\n{changed}"), ""), 1);
        iterate(&mut third, 5);
        assert_ne!(bits(&one.learner().state()), bits(&third.learner().state()), "{changed}");
    }
}

/// A run of four iterations, and one that is saved after two and goes on in another trainer.
fn goes_on(config: &TrainConfig, name: &str) {
    let folder = Folder::new(name);
    let mut whole = trainer(config, 1);
    let metrics = lines(&mut whole, 4);
    let mut first = trainer(config, 2);
    assert_eq!(lines(&mut first, 2), metrics[..2]);
    let path = checkpoint::save(folder.path(), &first.snapshot().unwrap()).unwrap();
    drop(first);
    let mut second = trainer(config, 3);
    iterate(&mut second, 1);
    second.restore(&Checkpoint::open(&path).unwrap()).unwrap();
    // Episodes of the iteration before the restoration are none of the run's.
    assert_eq!(second.env_steps(), whole.env_steps() / 2);
    assert_eq!(lines(&mut second, 2), metrics[2..]);
    let save = |trainer: &mut Trainer, part: &str| {
        let folder = folder.path().join(part);
        let path = checkpoint::save(&folder, &trainer.snapshot().unwrap()).unwrap();
        let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files
            .map(|f| (f.file_name().unwrap().to_owned(), std::fs::read(&f).unwrap()))
            .collect();
        files.sort();
        files
    };
    assert_eq!(save(&mut whole, "whole").len(), 4);
    assert_eq!(save(&mut whole, "whole"), save(&mut second, "second"));
}

#[test]
fn a_restored_run_equals_one_that_was_never_stopped() {
    goes_on(&config(CARTPOLE, "", ""), "cartpole-ppo");
    goes_on(&config(CARTPOLE, "algorithm = \"a2c\"", ""), "cartpole-a2c");
    goes_on(&config(CARTPOLE, "start = \"fixed\"", "[env]\nepisode_length = 7"), "cartpole-cut");
    goes_on(&config(TAG, "", ""), "tag-ppo");
    goes_on(&config(TAG, "algorithm = \"a2c\"", ""), "tag-a2c");
    for (i, keys) in CONTINUOUS.into_iter().enumerate() {
        // Cut in the middle of a rollout, so that truncated episodes and returns under way are saved.
        goes_on(&config(PENDULUM, keys, "[env]\nepisode_length = 7"), &format!("pendulum-{i}"));
    }
    goes_on(&config(TAG, "norm_obs = true\nnorm_reward = true", ""), "tag-normalised");
}

/// Without a time limit.
const CLIFF: &str =
    "env_id = \"cliff_walking\"\nnum_envs = 4\nnum_steps = 4\nnum_minibatches = 1\nhidden = [4]";

#[test]
fn episodes_that_never_end_end_an_evaluation_after_a_number_of_steps() {
    let registry = warp_envs::registry();
    let evaluation = |config: &TrainConfig, mode| -> Evaluation {
        let options = EvalOptions { episodes: 6, mode, random: Vec::new(), threads: 1 };
        evaluate(&mut AnyLearner::new(config, 1).unwrap(), config, &registry, &options).unwrap()
    };
    // Greedy and untrained, a walker stays where it is or goes to and fro.
    let bounded = config(CLIFF, "eval_max_steps = 50", "");
    let found = evaluation(&bounded, Mode::Greedy);
    assert_eq!((found.unfinished, found.mean_episode_length), (6, 50.0), "{found:?}");
    assert!(found.max <= -50.0, "{found:?}");
    let words =
        "6 of 6 episodes had not ended after 50 steps and count as they were then (eval_max_steps)";
    assert_eq!(found.unfinished_words(&bounded).as_deref(), Some(words));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["unfinished"], 6);
    // What does not say how many has as many as ever, and those that end say nothing of it.
    let free = config(CLIFF, "", "");
    let found = evaluation(&free, Mode::Greedy);
    assert_eq!((found.unfinished, found.mean_episode_length), (6, 100_000.0), "{found:?}");
    let ending = config(CARTPOLE, "", "");
    let found = evaluation(&ending, Mode::Greedy);
    assert_eq!((found.unfinished, found.unfinished_words(&ending)), (0, None));
    assert!(serde_json::to_value(&found).unwrap().get("unfinished").is_none());
    // An environment's own time limit counts, however long it is.
    let long = config(CLIFF, "", "[env]\nepisode_length = 100001");
    let found = evaluation(&long, Mode::Greedy);
    assert_eq!((found.unfinished, found.mean_episode_length), (0, 100_001.0), "{found:?}");
    let (mut seen, options) =
        (0, EpisodeOptions { seed: None, mode: Mode::Greedy, random: Vec::new(), replica: 0 });
    let end = play_episode(
        &mut AnyLearner::new(&bounded, 1).unwrap(),
        &bounded,
        &registry,
        &options,
        &mut |_, _| {
            seen += 1;
            Ok::<_, Error>(ControlFlow::Continue(()))
        },
    );
    assert_eq!((end.unwrap(), seen), (EpisodeEnd::Unfinished { steps: 50 }, 51));
}
