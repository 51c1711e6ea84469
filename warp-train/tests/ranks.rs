//! Runs of several ranks on the host: with as many shards, the bits do not depend on how many ranks there are,
//! nor on what carries their words.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{CARTPOLE, Folder, PENDULUM, TAG, bits, config};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use warp_train::learner::LearnerState;
use warp_train::metrics::IterationMetrics;
use warp_train::run::Snapshot;
use warp_train::world::{Hello, Link, Listener, World, join, threads};
use warp_train::{Checkpoint, TrainConfig, Trainer, checkpoint};

const LONG: Duration = Duration::from_secs(60);

/// Four shards, which one, two or four ranks can have.
const SHARDS: &str = "shards = 4";

/// The links of `size` ranks over loopback.
fn loopback(size: usize) -> Vec<Box<dyn Link>> {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let hello = |rank| Hello {
        rank,
        size,
        token: String::new(),
        config: String::new(),
        gpu: String::new(),
    };
    let spokes: Vec<_> = (1..size)
        .map(|rank| {
            let (place, own) = (place.clone(), hello(rank));
            std::thread::spawn(move || join(&place, &own, LONG, LONG).unwrap())
        })
        .collect();
    let hub = listener.welcome(&hello(0), LONG, LONG).unwrap();
    std::iter::once(hub).chain(spokes.into_iter().map(|spoke| spoke.join().unwrap())).collect()
}

/// What a run's first rank has at its end: a line for each iteration without its times, and the whole state.
type Seen = (Vec<String>, Arc<Snapshot>);

fn line(metrics: &IterationMetrics) -> String {
    let mut line = serde_json::to_value(metrics).unwrap();
    line.as_object_mut().unwrap().remove("steps_per_second").unwrap();
    line.to_string()
}

/// Iterates `n` times on the ranks of `links`, from a checkpoint if there is one.
fn run(config: &TrainConfig, links: Vec<Box<dyn Link>>, n: u64, from: Option<&Path>) -> Seen {
    let size = links.len();
    let work = |rank: usize, link| {
        let config = config.clone().on_rank(World::new(rank, size, link)).unwrap();
        let learner = warp_train::native::learner(&config, 1).unwrap();
        let mut trainer = Trainer::new(config, &warp_envs::registry(), learner, 1).unwrap();
        if let Some(path) = from {
            trainer.restore(&Checkpoint::open(path).unwrap()).unwrap();
        }
        let lines = trainer.iterate_times(n).unwrap().iter().map(line).collect();
        trainer.sync().unwrap();
        (rank == 0).then(|| (lines, trainer.snapshot().unwrap()))
    };
    std::thread::scope(|scope| {
        let ranks = links.into_iter().enumerate();
        let ranks: Vec<_> =
            ranks.map(|(rank, link)| scope.spawn(move || work(rank, link))).collect();
        let mut seen = ranks.into_iter().filter_map(|rank| rank.join().unwrap());
        let first = seen.next().unwrap();
        assert!(seen.next().is_none(), "the first rank alone has the whole");
        first
    })
}

/// The files of a checkpoint of `seen`, and its lines.
fn files(seen: &Seen, folder: &Path) -> (Vec<String>, Vec<(String, Vec<u8>)>) {
    let path = checkpoint::save(folder, &seen.1).unwrap();
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let read = |file: std::path::PathBuf| {
        (file.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&file).unwrap())
    };
    let mut files: Vec<_> = files.map(read).collect();
    files.sort();
    (seen.0.clone(), files)
}

/// Learning from replay memories that overflow; a shard has 20 samples of a batch.
const REPLAY: &str = r#"
num_envs = 8
num_steps = 8
hidden = [12, 8]
batch_size = 80
buffer_size = 130
learning_starts = 48
learning_rate = 1e-3
"#;

/// Each kind of run: what shards of one are merged of.
fn kinds() -> Vec<(&'static str, TrainConfig)> {
    [on_policy(), off_policy()].concat()
}

fn of(base: &str, keys: &str, tables: &str) -> TrainConfig {
    config(base, &format!("{SHARDS}\n{keys}"), tables)
}

/// Runs that learn from replay memories.
fn off_policy() -> Vec<(&'static str, TrainConfig)> {
    let cut = "[env]\nepisode_length = 7";
    let cartpole = |keys: &str| of(REPLAY, &format!("env_id = \"cartpole\"\n{keys}"), cut);
    let pendulum = |keys: &str| of(REPLAY, &format!("env_id = \"pendulum\"\n{keys}"), cut);
    vec![
        ("dqn", cartpole("algorithm = \"dqn\"\ntarget_interval = 5\ntrain_freq = 1")),
        (
            "dqn-prioritised",
            cartpole("algorithm = \"dqn\"\ndueling = true\nprioritised = true\ntrain_freq = 2"),
        ),
        ("ddpg", pendulum("algorithm = \"ddpg\"\nnoise = \"ou\"")),
        // Two tiles of samples a shard.
        (
            "td3",
            pendulum("algorithm = \"td3\"\nbatch_size = 300\ntrain_freq = 2\nlayer_norm = true"),
        ),
        ("sac", pendulum("algorithm = \"sac\"\nn_step = 3\nprioritised = true")),
        ("sac-choices", cartpole("algorithm = \"sac\"\ngradient_steps = 2\ntrain_freq = 4")),
        (
            "masks",
            of(
                REPLAY,
                "env_id = \"covid19\"\nalgorithm = \"sac\"\nnum_envs = 4\ntrain_freq = 4",
                "[policy.governor]\n[policy.planner]\nalgorithm = \"dqn\"\nprioritised = true",
            ),
        ),
        (
            "beside-ppo",
            of(
                REPLAY,
                "env_id = \"tag_gridworld\"",
                "[policy.tagger]\nalgorithm = \"ppo\"\n[policy.runner]\nalgorithm = \"dqn\"",
            ),
        ),
    ]
}

/// Runs that learn from rollouts.
fn on_policy() -> Vec<(&'static str, TrainConfig)> {
    let cut = "[env]\nepisode_length = 7";
    vec![
        ("ppo", of(CARTPOLE, "num_envs = 72", cut)),
        ("ppo-shared", of(CARTPOLE, "num_envs = 72\nshared_trunk = true\nnorm_adv = false", "")),
        ("a2c", of(CARTPOLE, "num_envs = 72\nalgorithm = \"a2c\"", "")),
        ("mortal", of(TAG, "", "")),
        ("mortal-a2c", of(TAG, "algorithm = \"a2c\"\nnorm_obs = true\nnorm_reward = true", "")),
        ("continuous", of(PENDULUM, "norm_obs = true\nnorm_reward = true", cut)),
    ]
}

#[test]
fn as_many_shards_give_the_same_run_on_any_number_of_ranks() {
    let folder = Folder::new("ranks");
    for (name, config) in kinds() {
        let one = run(&config, threads(1, LONG), 3, None);
        let one = files(&one, &folder.path().join(format!("{name}-1")));
        for size in [2, 4] {
            for (link, links) in [("threads", threads(size, LONG)), ("tcp", loopback(size))] {
                let seen = run(&config, links, 3, None);
                let seen = files(&seen, &folder.path().join(format!("{name}-{size}-{link}")));
                assert_eq!(seen.0, one.0, "{name}: lines of {size} ranks over {link}");
                let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
                    files.iter().map(|(name, _)| name.clone()).collect()
                };
                assert_eq!(names(&seen.1), names(&one.1));
                assert!(seen.1 == one.1, "{name}: {size} ranks over {link} have other bits");
            }
        }
    }
}

/// The learner's state in a checkpoint of `seen`, in the order of names.
fn learner(seen: &Seen, folder: &Path) -> LearnerState {
    let path = checkpoint::save(folder, &seen.1).unwrap();
    let mut state = Checkpoint::open(&path).unwrap().learner;
    state.weights.sort_by(|a, b| a.name.cmp(&b.name));
    state.optimizer.sort_by(|a, b| a.name.cmp(&b.name));
    state.statistics.sort_by(|a, b| a.name.cmp(&b.name));
    state.numbers.sort_by(|a, b| a.name.cmp(&b.name));
    state.flags.sort_by(|a, b| a.name.cmp(&b.name));
    state
}

#[test]
fn a_run_of_four_ranks_goes_on_with_two_and_then_one() {
    let folder = Folder::new("fewer-ranks");
    for (name, config) in kinds() {
        let whole = run(&config, threads(2, LONG), 6, None);
        let place = |part: &str| folder.path().join(format!("{name}-{part}"));
        let (mut lines, mut from, mut last) = (Vec::new(), None, LearnerState::default());
        for size in [4, 2, 1] {
            let seen = run(&config, threads(size, LONG), 2, from.as_deref());
            lines.extend(seen.0.clone());
            from = Some(checkpoint::save(&place(&size.to_string()), &seen.1).unwrap());
            last = learner(&seen, &place("last"));
        }
        assert_eq!(lines, whole.0, "{name}");
        assert_eq!(bits(&last), bits(&learner(&whole, &place("whole"))), "{name}");
    }
}

#[test]
fn shards_change_batches_and_hardly_the_gradient() {
    // One minibatch of all samples, once: what differs is the order of sums.
    let base = "num_envs = 72\nnum_minibatches = 1\nupdate_epochs = 1";
    let one = run(&config(CARTPOLE, base, ""), threads(1, LONG), 1, None);
    let four = config(CARTPOLE, &format!("{base}\n{SHARDS}"), "");
    let four = run(&four, threads(4, LONG), 1, None);
    let folder = Folder::new("shards-gradient");
    let open = |seen: &Seen, part: &str| learner(seen, &folder.path().join(part));
    let (one, four) = (open(&one, "one"), open(&four, "four"));
    for (a, b) in one.optimizer.iter().zip(&four.optimizer) {
        let largest = a.data.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for (x, y) in a.data.iter().zip(&b.data) {
            assert!((x - y).abs() <= 2e-6 * largest, "{}: {x} {y}", a.name);
        }
    }
    assert_ne!(bits(&one), bits(&four));
}
