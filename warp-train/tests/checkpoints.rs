//! A checkpoint is whole and of this run, or it is refused with an error message.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use runs::{AnyLearner, CARTPOLE, Folder, TAG, bits, config, iterate, trainer};
use std::path::{Path, PathBuf};
use warp_train::learner::LearnerState;
use warp_train::model::NamedTensor;
use warp_train::run::Snapshot;
use warp_train::{Checkpoint, Error, Learner, TrainConfig, Trainer, checkpoint};

const FILES: [&str; 4] =
    ["weights.safetensors", "optimizer.safetensors", "state.safetensors", "manifest.json"];

fn saved(folder: &Path, trainer: &Trainer, state: &LearnerState) -> PathBuf {
    checkpoint::save(folder, &Snapshot::of(&trainer.counters(), state.clone(), trainer.envs()))
        .unwrap()
}

fn a_run(folder: &Path, config: &TrainConfig) -> (Trainer, PathBuf) {
    let mut trainer = trainer(config, 1);
    iterate(&mut trainer, 2);
    let path = saved(folder, &trainer, &trainer.learner().state());
    (trainer, path)
}

/// The sentence with which a checkpoint is refused.
fn refused(path: &Path) -> String {
    let error = Checkpoint::open(path).expect_err("a damaged checkpoint was opened");
    assert!(matches!(error, Error::Damaged { .. }) && error.is_users(), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(path.to_str().unwrap()), "{text}");
    text
}

/// Lets `damage` at every file in turn and expects a refusal; puts the file back.
fn with_damage(path: &Path, file: usize, damage: impl FnOnce(&mut Vec<u8>)) {
    let name = path.join(FILES[file]);
    let whole = std::fs::read(&name).unwrap();
    let mut damaged = whole.clone();
    damage(&mut damaged);
    if damaged != whole {
        std::fs::write(&name, &damaged).unwrap();
        refused(path);
        std::fs::write(&name, &whole).unwrap();
    }
}

#[test]
fn cut_or_changed_at_any_byte_it_is_refused() {
    let folder = Folder::new("any-byte");
    let (_, path) = a_run(folder.path(), &config(CARTPOLE, "num_envs = 4\nhidden = [2]", ""));
    let place = (0..4_usize, any::<prop::sample::Index>());
    let mut runner = TestRunner::new(ProptestConfig { cases: 600, ..ProptestConfig::default() });
    runner
        .run(&(place.clone(), 1..=255_u8), |((file, at), flip)| {
            with_damage(&path, file, |bytes| {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            });
            Ok(())
        })
        .unwrap();
    runner
        .run(&place, |(file, at)| {
            with_damage(&path, file, |bytes| bytes.truncate(at.index(bytes.len())));
            Ok(())
        })
        .unwrap();
    runner
        .run(&(place, prop::collection::vec(any::<u8>(), 1..9)), |((file, at), extra)| {
            with_damage(&path, file, |bytes| {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, extra);
            });
            Ok(())
        })
        .unwrap();
    Checkpoint::open(&path).unwrap();
}

#[test]
fn a_line_break_in_a_damaged_name_stays_out_of_the_sentence() {
    let folder = Folder::new("line-break");
    let (_, path) = a_run(folder.path(), &config(CARTPOLE, "num_envs = 4\nhidden = [2]", ""));
    let manifest = path.join(FILES[3]);
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replacen("\"iteration\"", "\"iterati\\n\\u001b\"", 1)).unwrap();
    let sentence = refused(&path);
    assert!(sentence.contains("iterati\\n\\u{1b}"), "{sentence}");
}

#[test]
fn every_byte_of_the_manifest_counts() {
    let folder = Folder::new("manifest");
    let (_, path) = a_run(folder.path(), &config(CARTPOLE, "num_envs = 4\nhidden = [2]", ""));
    let length = std::fs::read(path.join(FILES[3])).unwrap().len();
    for at in 0..length {
        if at % 3 == 0 || at + 3 > length {
            with_damage(&path, 3, |bytes| bytes.truncate(at));
        }
        // One bit: digits become other digits, letters other letters, blanks other blanks.
        with_damage(&path, 3, |bytes| bytes[at] ^= [0x01, 0x02, 0x20][at % 3]);
    }
}

#[test]
fn missing_and_exchanged_files_are_refused() {
    let folder = Folder::new("missing");
    let (_, path) = a_run(folder.path(), &config(CARTPOLE, "num_envs = 4\nhidden = [2]", ""));
    for file in FILES {
        let (here, away) = (path.join(file), folder.path().join("away"));
        std::fs::rename(&here, &away).unwrap();
        assert!(refused(&path).contains(file));
        std::fs::create_dir(&here).unwrap();
        assert!(refused(&path).contains(file));
        std::fs::remove_dir(&here).unwrap();
        std::fs::rename(&away, &here).unwrap();
    }
    let other = folder.path().join("000000000001");
    std::fs::rename(&path, &other).unwrap();
    assert!(refused(&other).contains("step"));
    let empty = folder.path().join("none");
    let error = Checkpoint::newest(&empty).unwrap_err();
    assert!(error.is_users() && error.to_string().contains("there is none"), "{error}");
}

/// A run in training keeps its newest checkpoint alone, and removes the one that is being read.
#[test]
fn the_newest_is_read_while_newer_ones_replace_it() {
    let folder = Folder::new("replaced");
    let (mut trainer, _) = a_run(folder.path(), &config(CARTPOLE, "num_envs = 4", ""));
    std::thread::scope(|scope| {
        let training = scope.spawn(|| {
            for _ in 0..100 {
                iterate(&mut trainer, 1);
                saved(folder.path(), &trainer, &trainer.learner().state());
                checkpoint::prune(folder.path(), 1, |_| true, |_| false).unwrap();
            }
        });
        let mut before = 0;
        while !training.is_finished() {
            let steps = Checkpoint::newest(folder.path()).unwrap().manifest.env_steps;
            assert!(steps >= before, "{steps} after {before}");
            before = steps;
        }
    });
}

#[test]
fn a_half_written_checkpoint_is_neither_used_nor_kept() {
    let folder = Folder::new("half");
    let (mut trainer, first) = a_run(folder.path(), &config(CARTPOLE, "num_envs = 4", ""));
    let partial = folder.path().join(".000000009999.partial");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join(FILES[0]), "half").unwrap();
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().path, first);
    iterate(&mut trainer, 1);
    let second = saved(folder.path(), &trainer, &trainer.learner().state());
    checkpoint::prune(folder.path(), 1, |_| true, |_| false).unwrap();
    assert!(!partial.exists() && !first.exists() && second.exists());
}

#[test]
fn a_learner_that_diverged_is_not_saved_and_the_last_good_checkpoint_stays() {
    let folder = Folder::new("diverged");
    let config = config(CARTPOLE, "num_envs = 4\nnorm_obs = true", "");
    for learner in [0, 1] {
        let learner: Box<dyn Learner> = match learner {
            0 => Box::new(AnyLearner::new(&config, 1).unwrap()),
            _ => Box::new(warp_train::native::NativeLearner::new(&config, 1).unwrap()),
        };
        let registry = warp_envs::registry();
        let mut run = Trainer::new(config.clone(), &registry, learner, 1).unwrap();
        iterate(&mut run, 1);
        let good = saved(folder.path(), &run, &run.learner().state());
        iterate(&mut run, 1);
        let state = run.learner().state();
        for part in 0..3 {
            let mut bad = state.clone();
            match part {
                0 => bad.weights[1].data[0] = f32::NAN,
                1 => bad.optimizer[0].data[2] = f32::INFINITY,
                _ => bad.statistics[1].data[1] = f64::NAN,
            }
            let refused =
                checkpoint::save(folder.path(), &Snapshot::of(&run.counters(), bad, run.envs()));
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Broken { .. }), "{error:?}");
            assert!(error.to_string().contains("the policy diverged: tensor "), "{error}");
            assert_eq!(Checkpoint::newest(folder.path()).unwrap().path, good);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}

/// Saves a run's state after `change`, opens it (its digests fit) and expects a learner to refuse it.
fn learner_refuses(change: impl FnOnce(&mut LearnerState), words: &str) {
    let folder = Folder::new(&words.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let config = config(TAG, "num_envs = 2\nnum_steps = 4", "");
    let mut run = trainer(&config, 1);
    let mut state = run.learner().state();
    change(&mut state);
    let path = saved(folder.path(), &run, &state);
    let checkpoint = Checkpoint::open(&path).unwrap();
    let mut learner = AnyLearner::new(&config, 1).unwrap();
    let error = learner.load_state(&checkpoint.learner).unwrap_err();
    assert!(error.is_users() && error.to_string().contains(words), "{error}");
    assert!(run.restore(&checkpoint).unwrap_err().to_string().contains(words));
}

#[test]
fn tensors_that_do_not_fit_the_network_are_refused() {
    let tensor = |name: &str| NamedTensor { name: name.into(), shape: vec![1], data: vec![0.5] };
    learner_refuses(|s| s.weights.push(tensor("tagger.extra")), "tensor \"extra\" is given");
    learner_refuses(|s| s.weights.push(tensor("ghost.actor.0.bias")), "\"ghost.actor.0.bias\"");
    learner_refuses(|s| s.optimizer.push(tensor("runners.x")), "\"runners.x\"");
    learner_refuses(|s| drop(s.weights.remove(2)), "is missing");
    learner_refuses(|s| drop(s.optimizer.pop()), "is missing");
    learner_refuses(
        |s| {
            s.weights[0].shape.reverse();
        },
        "has shape",
    );
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let folder = Folder::new("another");
    let (run, path) = a_run(folder.path(), &config(CARTPOLE, "", ""));
    let checkpoint = Checkpoint::open(&path).unwrap();
    let refused = |base: &str, keys: &str, words: &str| {
        let mut other = trainer(&config(base, keys, ""), 1);
        let error = other.restore(&checkpoint).unwrap_err();
        assert!(error.is_users() && error.to_string().contains(words), "{error}");
    };
    refused(CARTPOLE, "seed = 1", "cartpole with seed 0");
    refused(TAG, "", "tag_continuous");
    refused(CARTPOLE, "hidden = [9]", "shape");
    refused(CARTPOLE, "hidden = [8, 8]", "actor.1");
    refused(CARTPOLE, "shared_trunk = true", ".0.");
    refused(CARTPOLE, "num_envs = 71", "\"x\"");
    let mut same = trainer(&config(CARTPOLE, "", ""), 2);
    same.restore(&checkpoint).unwrap();
    assert_eq!(bits(&same.learner().state()), bits(&run.learner().state()));
}

#[test]
fn random_files_never_panic() {
    let folder = Folder::new("random");
    let path = folder.path().join("000000000000");
    std::fs::create_dir(&path).unwrap();
    let text = "[\\[\\]{}\":,a-z0-9\\\\ ]{0,60}";
    proptest!(ProptestConfig::with_cases(200), |(manifest in text)| {
        FILES.iter().for_each(|file| std::fs::write(path.join(file), &manifest).unwrap());
        refused(&path);
    });
}
