//! Algorithms that learn from a replay memory: what runs of them depend on, what checkpoints hold, and which
//! keys are refused.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{Folder, bits, bits_of, config, iterate};
use warp_core::toml::Table;
use warp_train::learner::Progress;
use warp_train::run::Snapshot;
use warp_train::{Checkpoint, Run, TrainConfig, Trainer, begin, checkpoint, native};

/// What all runs have: batches of several tiles of rows, a memory that overflows.
const COMMON: &str = r#"
num_envs = 6
num_steps = 8
hidden = [12, 8]
batch_size = 300
buffer_size = 130
learning_starts = 48
learning_rate = 1e-3
"#;

/// A run of one algorithm or several.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    keys: &'static str,
    tables: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "sac",
        keys: "env_id = \"pendulum\"\nalgorithm = \"sac\"",
        // Episodes that are cut in the middle of an iteration.
        tables: "[env]\nepisode_length = 7",
    },
    Case {
        name: "sac-given-alpha",
        keys: "env_id = \"pendulum\"\nalgorithm = \"sac\"\nalpha = 0.2\nn_step = 3\ntrain_freq = 4",
        tables: "",
    },
    Case {
        name: "sac-with-noise",
        keys: "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnoise = \"ou\"\nprioritised = true",
        tables: "[env]\nepisode_length = 7",
    },
    Case {
        name: "td3",
        keys: "env_id = \"pendulum\"\nalgorithm = \"td3\"\ngradient_steps = 3\ntrain_freq = 2\n\
               layer_norm = true",
        tables: "",
    },
    Case {
        name: "ddpg-ou",
        keys: "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nnoise = \"ou\"",
        tables: "[env]\nepisode_length = 7",
    },
    Case {
        name: "ddpg-without-noise",
        keys: "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nnoise = \"none\"",
        tables: "",
    },
    Case {
        name: "dqn",
        keys: "env_id = \"cartpole\"\nalgorithm = \"dqn\"\ntrain_freq = 1\ntarget_interval = 5\n\
               epsilon = [[0, 1.0], [150, 0.1]]\ngamma = [[0, 0.9], [150, 0.99]]",
        tables: "",
    },
    Case {
        name: "dqn-duels",
        keys: "env_id = \"cartpole\"\nalgorithm = \"dqn\"\ntrain_freq = 2\ndueling = true\n\
               double = false\nprioritised = true",
        tables: "",
    },
    Case {
        name: "sac-choices",
        keys: "env_id = \"cartpole\"\nalgorithm = \"sac\"",
        tables: "[env]\nepisode_length = 7",
    },
    Case {
        name: "masks",
        keys: "env_id = \"covid19\"\nalgorithm = \"sac\"\nnum_envs = 2\nbatch_size = 70",
        tables: "[policy.governor]\n[policy.planner]\nalgorithm = \"dqn\"\nhidden = [9]",
    },
    Case {
        name: "teams",
        keys: "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\ntrain_freq = 1",
        tables: "[policy.everyone]\ngroups = [\"tagger\", \"runner\"]",
    },
    Case {
        name: "mixed",
        keys: "env_id = \"tag_gridworld\"",
        tables: "[policy.tagger]\nalgorithm = \"ppo\"\n[policy.runner]\nalgorithm = \"dqn\"\n\
                 train_freq = 2\ntarget_interval = 3",
    },
];

impl Case {
    fn config(&self) -> TrainConfig {
        config(COMMON, self.keys, self.tables)
    }
}

fn trainer(config: &TrainConfig, threads: usize) -> Trainer {
    let learner = native::learner(config, threads).unwrap();
    Trainer::new(config.clone(), &warp_envs::registry(), learner, threads).unwrap()
}

fn saved(folder: &Folder, trainer: &Trainer) -> Checkpoint {
    let state = trainer.learner().state();
    let path = checkpoint::save(
        folder.path(),
        &Snapshot::of(&trainer.counters(), state.clone(), trainer.envs()),
    );
    Checkpoint::open(&path.unwrap()).unwrap()
}

/// All that a checkpoint of `trainer` holds, file by file.
fn files(trainer: &Trainer, name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Folder::new(name);
    let path = saved(&folder, trainer).path;
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let read = |file: std::fs::DirEntry| {
        (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())
    };
    let mut files: Vec<_> = files.map(read).collect();
    files.sort();
    files
}

/// Expects that two runs are in the same state, bit by bit.
fn expect_same(name: &str, one: &Trainer, other: &Trainer) {
    let (one, other) = (bits(&one.learner().state()), bits(&other.learner().state()));
    let names = |bits: &[(String, Vec<u32>)]| -> Vec<String> {
        bits.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&one), names(&other), "{name}");
    let different: Vec<_> =
        one.iter().zip(&other).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
    assert!(different.is_empty(), "{name}: {different:?}");
}

#[test]
fn the_discount_follows_its_schedule() {
    let trained = |gamma: &str| {
        let keys = format!("env_id = \"cartpole\"\nalgorithm = \"dqn\"\ngamma = {gamma}");
        let mut run = trainer(&config(COMMON, &keys, ""), 1);
        iterate(&mut run, 4);
        bits(&run.learner().state())
    };
    let plain = trained("0.9");
    assert!(trained("[[0, 0.9], [10000, 0.9]]") == plain);
    assert!(trained("[[0, 0.9], [96, 0.1]]") != plain);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for case in CASES {
        let config = case.config();
        let mut one = trainer(&config, 1);
        let begun = bits(&one.learner().state());
        iterate(&mut one, 3);
        assert_ne!(begun, bits(&one.learner().state()), "{}", case.name);
        let mut three = trainer(&config, 3);
        iterate(&mut three, 3);
        expect_same(case.name, &one, &three);
    }
}

#[test]
fn a_restored_run_equals_one_that_was_never_stopped() {
    for case in CASES {
        let (name, config) = (case.name, case.config());
        let folder = Folder::new(&format!("{name}-restored"));
        let mut whole = trainer(&config, 1);
        iterate(&mut whole, 4);
        let mut first = trainer(&config, 2);
        iterate(&mut first, 2);
        let middle = saved(&folder, &first);
        let mut second = trainer(&config, 3);
        second.restore(&middle).unwrap();
        expect_same(name, &second, &first);
        iterate(&mut second, 2);
        expect_same(name, &second, &whole);
        let (second, whole) = (files(&second, "second"), files(&whole, "whole"));
        assert_eq!(whole.len(), 5, "{name}");
        assert!(second == whole, "{name}");
    }
}

/// A checkpoint from before the first update takes back what was learned since.
#[test]
fn a_restored_learner_remembers_nothing_else() {
    for case in CASES {
        let config = case.config();
        let folder = Folder::new(&format!("{}-early", case.name));
        let mut whole = trainer(&config, 1);
        iterate(&mut whole, 1);
        let early = saved(&folder, &whole);
        iterate(&mut whole, 2);
        let mut used = trainer(&config, 1);
        iterate(&mut used, 3);
        used.restore(&early).unwrap();
        iterate(&mut used, 2);
        expect_same(case.name, &used, &whole);
    }
}

/// Weights are another run's; memory, moments and counters begin anew.
#[test]
fn a_run_begins_with_the_weights_of_another() {
    for case in CASES.iter().filter(|case| ["sac", "td3", "dqn-duels"].contains(&case.name)) {
        let folder = Folder::new(&format!("{}-begins", case.name));
        let config = case.config();
        let mut first = trainer(&config, 1);
        iterate(&mut first, 3);
        let fields = warp_envs::registry().get(&config.run.env_id).unwrap().fields;
        let path = folder.path().join("first");
        Run::create(&path, &config.to_toml(fields), &first).unwrap();
        let keys = format!("{}\nseed = 9\ninit_from = '{}'", case.keys, path.display());
        let mut config = runs::config(COMMON, &keys, case.tables);
        begin::read(&mut config).unwrap();
        let mut next = trainer(&config, 1);
        let (state, learned) = (next.learner().state(), first.learner().state());
        assert_eq!(state.weights, learned.weights, "{}", case.name);
        assert!(state.optimizer_steps.iter().all(|(_, steps)| *steps == 0));
        assert!(state.statistics.iter().all(|counter| counter.data == [0.0]));
        iterate(&mut next, 2);
        assert_ne!(next.learner().state().weights, learned.weights, "{}", case.name);
    }
}

#[test]
fn a_policy_that_is_not_to_train_keeps_every_bit() {
    let tables = "[policy.tagger]\nalgorithm = \"ppo\"\n[policy.runner]\nalgorithm = \"dqn\"\n\
                  to_train = false";
    let mut trainer = trainer(&config(COMMON, "env_id = \"tag_gridworld\"", tables), 1);
    let before = trainer.learner().state();
    iterate(&mut trainer, 3);
    let after = trainer.learner().state();
    assert_ne!(bits_of(&before, "tagger"), bits_of(&after, "tagger"));
    let weights = |state: &warp_train::learner::LearnerState| state.of_policy("runner").0;
    assert_eq!(weights(&before), weights(&after));
}

/// Steps of a policy that does not learn are not kept: those after it learns again do not follow what is in the memory.
#[test]
fn a_policy_that_learns_again_does_not_join_what_was_apart() {
    let with = |to_train: bool| {
        let keys = "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nn_step = 3";
        config(COMMON, &format!("{keys}\nto_train = {to_train}"), "")
    };
    let folder = Folder::new("learns-again");
    let resumed = |config: &TrainConfig, from: &Checkpoint, n: usize| {
        let mut next = trainer(config, 1);
        next.restore(from).unwrap();
        iterate(&mut next, n);
        next
    };
    let mut first = trainer(&with(true), 1);
    // Fewer steps than the memory holds, and more.
    for n in [2, 1] {
        iterate(&mut first, n);
        let before = saved(&folder, &first);
        let pausing = resumed(&with(false), &before, 2);
        let paused = saved(&folder, &pausing);
        let again = resumed(&with(true), &paused, 0);
        let [whole, cut] = [&first, &again].map(|run| {
            let state = run.learner().state();
            let ends = state.flags.iter().find(|array| array.name.ends_with("replay.ends"));
            (ends.unwrap().data.clone(), state.statistics.last().unwrap().data[0] as usize)
        });
        assert_eq!(whole.1, cut.1, "nothing was stored");
        let n_steps = whole.0.len() / 6;
        let newest = (whole.1 + n_steps - 1) % n_steps;
        for (step, (whole, cut)) in whole.0.chunks(6).zip(cut.0.chunks(6)).enumerate() {
            if step == newest {
                assert!(whole.contains(&0) && !cut.contains(&0), "{whole:?} {cut:?}");
                // An end that was there stays what it was.
                assert!(whole.iter().zip(cut).all(|(whole, cut)| *whole == 0 || whole == cut));
            } else {
                assert_eq!(whole, cut);
            }
        }
        // Without the pause nothing is cut.
        expect_same("without a pause", &resumed(&with(true), &before, 0), &first);
    }
}

/// What is possible after the last step of an episode that is cut is what its last observation says.
#[test]
fn masks_of_last_observations_are_kept() {
    let keys = "env_id = \"taxi\"\nalgorithm = \"dqn\"\nnum_envs = 64\nbuffer_size = 6400\nnum_steps = 100";
    let mut trainer = trainer(&config(COMMON, keys, "[env]\nepisode_length = 7"), 1);
    iterate(&mut trainer, 1);
    let state = trainer.learner().state();
    let flags = |name: &str| {
        let found = state.flags.iter().find(|array| array.name.ends_with(name));
        found.unwrap().data.clone()
    };
    let seen = |name: &str| {
        let found = state.numbers.iter().find(|array| array.name.ends_with(name)).unwrap();
        let width = *found.shape.last().unwrap();
        let number = |row: &[f32]| row.iter().position(|x| *x == 1.0).unwrap();
        found.data.chunks(width).map(number).collect::<Vec<_>>()
    };
    let [mask, next_mask] = ["replay.mask", "replay.next_mask"].map(flags);
    let allowed: std::collections::HashMap<_, _> =
        seen("replay.obs").into_iter().zip(mask.chunks(6)).collect();
    let after = seen("replay.next_obs").into_iter().zip(next_mask.chunks(6));
    let cut = after.zip(flags("replay.ends")).filter(|(_, ends)| *ends == 2);
    let known = cut.filter_map(|((seen, mask), _)| Some((*allowed.get(&seen)?, mask)));
    let known: Vec<_> = known.collect();
    assert!(known.len() > 500, "{}", known.len());
    assert!(known.iter().all(|(allowed, mask)| allowed == mask));
    assert!(known.iter().any(|(_, mask)| mask.contains(&0)));
}

#[test]
fn a_mask_that_forbids_everything_is_refused() {
    for algorithm in ["dqn", "sac"] {
        let keys = format!("env_id = \"taxi\"\nalgorithm = \"{algorithm}\"\ntrain_freq = 1");
        let config = config(COMMON, &keys, "");
        let registry = warp_envs::registry();
        let taxi = registry.get("taxi").unwrap();
        let mut envs = taxi.make(&config.env, &config.vec_options()).unwrap();
        let mask = envs.ids().action_mask[0].unwrap();
        envs.store_mut().slice_mut::<u8>(mask)[12..18].fill(0);
        let mut learner = native::learner(&config, 1).unwrap();
        let progress = Progress { iteration: 0, env_steps: 0, seed: config.run.seed };
        let error = learner.iterate(&mut *envs, progress, 1).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("row 2 ") && error.contains("allows no choice"), "{error}");
    }
}

/// The sentence with which a configuration is refused, by itself or by its learner.
fn refused(keys: &str) -> String {
    let table: Table = keys.parse().unwrap();
    let made = TrainConfig::resolve(&table, &warp_envs::registry())
        .and_then(|config| native::learner(&config, 1).map(|_| ()));
    let error = made.expect_err(keys);
    assert!(error.is_users(), "{error:?}");
    error.to_string()
}

fn refuses(keys: &str, words: &str) {
    let error = refused(keys);
    assert!(error.contains(words) && !error.contains('\n'), "{keys}: {error}");
}

#[test]
fn keys_of_other_algorithms_are_refused() {
    let sac = "env_id = \"pendulum\"\nalgorithm = \"sac\"\n";
    refuses(&format!("{sac}clip_coef = 0.3"), "clip_coef = 0.3: sac has no such key");
    refuses(&format!("{sac}log_std_init = 0.5"), "sac has no such key; did you mean log_std_min?");
    refuses(&format!("{sac}policy_delay = 3"), "policy_delay = 3: sac has no such key");
    refuses(&format!("{sac}epsilon = 0.5"), "epsilon = 0.5: sac has no such key");
    let td3 = "env_id = \"pendulum\"\nalgorithm = \"td3\"\n";
    refuses(&format!("{td3}alpha = 0.5"), "alpha = 0.5: td3 has no such key");
    refuses(&format!("{td3}norm_obs = true"), "norm_obs = true: td3 has no such key");
    refuses("env_id = \"pendulum\"\nalgorithm = \"ddpg\"\npolicy_delay = 3", "ddpg has no such");
    refuses("env_id = \"cartpole\"\nalgorithm = \"dqn\"\ngae_lambda = 0.5", "dqn has no such key");
    refuses("env_id = \"cartpole\"\nbatch_size = 7", "batch_size = 7: ppo has no such key");
    let own = "env_id = \"tag_gridworld\"\n[policy.tagger]\n[policy.runner]\nalgorithm = \"dqn\"\n";
    refuses(&format!("{own}clip_coef = 0.3"), "policy.runner.clip_coef = 0.3: dqn has no such key");
    // What one of the policies reads may be said for all.
    let shared = format!("clip_coef = 0.3\nbatch_size = 7\n{own}");
    TrainConfig::resolve(&shared.parse().unwrap(), &warp_envs::registry()).unwrap();
}

#[test]
fn bad_values_are_refused() {
    let sac = "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_steps = 8\n";
    for (keys, words) in [
        ("train_freq = 3", "train_freq = 3: num_steps = 8 must be a multiple of it"),
        ("train_freq = 0", "train_freq = 0: must be at least 1"),
        ("gradient_steps = 4294967296", "gradient_steps = 4294967296: must be at most 1000000"),
        ("batch_size = 0", "batch_size = 0: must be at least 1"),
        ("buffer_size = 0", "buffer_size = 0: must be at least 1"),
        ("gradient_steps = 0", "gradient_steps = 0: must be at least 1"),
        ("n_step = 0", "n_step = 0: must be at least 1"),
        ("tau = 2", "tau = 2: must lie between 0 and 1"),
        ("tau = -0.1", "tau = -0.1: must lie between 0 and 1"),
        ("alpha = 0.0", "alpha = 0: must be larger than 0"),
        ("alpha_start = -1.0", "alpha_start = -1: must be larger than 0"),
        ("priority_beta = 1.5", "priority_beta = 1.5: must lie between 0 and 1"),
        ("priority_beta = -0.5", "priority_beta = -0.5: must lie between 0 and 1"),
        ("priority_beta = [[0, -1.0], [9, 1.0]]", "priority_beta = -1: must lie between 0 and 1"),
        ("log_std_min = 3.0", "log_std_max"),
        ("algorithm = \"sacc\"", "\"sac\""),
    ] {
        let keys = match keys.strip_prefix("algorithm") {
            Some(_) => sac.replace("algorithm = \"sac\"", keys),
            None => format!("{sac}{keys}"),
        };
        refuses(&keys, words);
    }
    let td3 = "env_id = \"pendulum\"\nalgorithm = \"td3\"\n";
    refuses(&format!("{td3}policy_delay = 0"), "policy_delay = 0: must be at least 1");
    refuses(&format!("{td3}noise_std = -1.0"), "noise_std = -1: must not be negative");
    refuses(&format!("{td3}noise = \"pink\""), "\"none\", \"gaussian\", \"ou\"");
    for (keys, words) in [
        ("atoms = 0", "atoms = 0: must be at least 1"),
        ("atoms = 1000000000000", "atoms = 1000000000000: must be at most 65536"),
        ("value_min = 250.0", "value_min = 250: must be less than value_max = 250"),
        ("value_max = 1e300", "value_max = 1e300: does not fit in an f32"),
    ] {
        refuses(&format!("{td3}{keys}"), words);
    }
    let dqn = "env_id = \"cartpole\"\nalgorithm = \"dqn\"\n";
    refuses(&format!("{dqn}epsilon = 1.5"), "epsilon = 1.5: must lie between 0 and 1");
    refuses(&format!("{dqn}target_interval = 0"), "target_interval = 0: must be at least 1");
}

#[test]
fn actions_that_an_algorithm_does_not_take_are_refused() {
    refuses(
        "env_id = \"pendulum\"\nalgorithm = \"dqn\"",
        "dqn needs a Discrete action, but the actions of group",
    );
    for algorithm in ["td3", "ddpg"] {
        refuses(
            &format!("env_id = \"cartpole\"\nalgorithm = \"{algorithm}\""),
            &format!("{algorithm} needs actions in a Box, but the actions of group"),
        );
    }
    for algorithm in ["sac", "dqn", "td3", "ddpg"] {
        refuses(
            &format!("env_id = \"tag_continuous\"\nalgorithm = \"{algorithm}\""),
            &format!(
                "{algorithm} supports a Discrete action or a Box, but the actions of group \
                 \"runner\" are"
            ),
        );
    }
}
