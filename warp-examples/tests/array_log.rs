//! Arrays recorded during training: what the environments hold, without changing what is learned.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::collections::BTreeMap;
use warp_command::Folder;
use warp_envs::numpy::{Recorded, read_npz};
use warp_train::native::learner;
use warp_train::{TrainConfig, Trainer};

/// Every second iteration.
const EVERY: &str = "--set=log_array_steps=256";
const ARRAYS: [&str; 6] =
    ["theta", "obs.pole", "reward.pole", "action.pole", "terminated", "episode_length"];

fn arrays_key() -> String {
    format!("--set=log_arrays={ARRAYS:?}")
}

/// The steps of a run's records.
fn steps(folder: &Folder, run: &str) -> Vec<u64> {
    let files = folder.files(&format!("{run}/arrays"));
    let step = |path: &std::path::PathBuf| {
        let name = path.to_str().unwrap();
        assert_eq!(name.len(), "000000000256.npz".len(), "{name}");
        name.strip_suffix(".npz").unwrap().parse().unwrap()
    };
    files.iter().map(|(path, _)| step(path)).collect()
}

fn read(folder: &Folder, run: &str, step: u64) -> BTreeMap<String, Recorded> {
    let path = folder.path(&format!("{run}/arrays/{step:012}.npz"));
    read_npz(&std::fs::read(path).unwrap()).unwrap()
}

/// The numbers of `replicas` in an array of the trainer's environments.
fn expected(trainer: &Trainer, name: &str, replicas: [usize; 2]) -> Vec<f64> {
    let store = trainer.envs().store();
    let row = store.array(store.id(name).unwrap()).row_len();
    let all: Vec<f64> = match name {
        "terminated" => store.get::<u8>(name).unwrap().iter().map(|x| f64::from(*x)).collect(),
        "action.pole" => store.get::<i32>(name).unwrap().iter().map(|x| f64::from(*x)).collect(),
        "episode_length" => store.get::<u32>(name).unwrap().iter().map(|x| f64::from(*x)).collect(),
        _ => store.get::<f32>(name).unwrap().iter().map(|x| f64::from(*x)).collect(),
    };
    replicas.iter().flat_map(|replica| all[replica * row..][..row].to_vec()).collect()
}

#[test]
fn records_hold_what_the_environments_do() {
    let folder = Folder::new("arrays");
    let key = arrays_key();
    folder.train(&["--steps=1200", "--out=run", EVERY, &key, "--set=log_replicas=[5, 0]"]);
    // The last iteration is recorded, too.
    assert_eq!(steps(&folder, "run"), [256, 512, 768, 1024, 1280]);
    let text = folder.read("run/config.toml");
    let registry = warp_envs::registry();
    let config = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
    let own = learner(&config, 1).unwrap();
    let mut trainer = Trainer::new(config, &registry, own, 1).unwrap();
    for step in steps(&folder, "run") {
        while trainer.env_steps() < step {
            trainer.iterate().unwrap();
        }
        let found = read(&folder, "run", step);
        assert_eq!(found.len(), ARRAYS.len() + 1);
        assert_eq!(found["log_replicas"].data, [5.0, 0.0]);
        assert_eq!(found["obs.pole"].shape, [2, 1, 4]);
        for name in ARRAYS {
            assert_eq!(found[name].data, expected(&trainer, name, [5, 0]), "{name} at {step}");
        }
    }
}

#[test]
fn training_does_not_depend_on_records() {
    let folder = Folder::new("arrays-unchanged");
    for algorithm in ["ppo", "dqn"] {
        let run = |out: &str, more: &[&str]| {
            let (algorithm, out) = (format!("--set=algorithm={algorithm}"), format!("--out={out}"));
            let own = ["train", "cartpole", "--envs=8", "--steps=1280", "--set=hidden=[8]"];
            folder.done(&[&own[..], &["--set=num_steps=16", &algorithm, &out], more].concat());
        };
        let (plain, recorded) = (format!("{algorithm}-plain"), format!("{algorithm}-recorded"));
        run(&plain, &[]);
        run(&recorded, &[EVERY, &arrays_key()]);
        let last = |run: &str| folder.files(&format!("{run}/checkpoints/000000001280"));
        assert!(last(&plain) == last(&recorded), "{algorithm}");
        assert_eq!(folder.timeless_metrics(&plain), folder.timeless_metrics(&recorded));
        assert!(!folder.path(&format!("{plain}/arrays")).exists());
    }
}

#[test]
fn a_resumed_run_records_what_follows_once() {
    let folder = Folder::new("arrays-resumed");
    let key = arrays_key();
    let often = ["--set=checkpoint_steps=512", "--set=keep_checkpoints=9"];
    let run = |out: &str, steps: &str| {
        let out = format!("--out={out}");
        folder.train(&[&often[..], &[&out, steps, EVERY, &key]].concat());
    };
    run("whole", "--steps=1280");
    run("back", "--steps=1280");
    let said = folder.done(&["train", "--resume=back@512"]);
    assert!(said.stderr.contains("3 files after the checkpoint's step 512 moved"), "{said:?}");
    assert!(folder.files("back/arrays") == folder.files("whole/arrays"));
    assert_eq!(folder.files("back/arrays.superseded").len(), 3);
    // The run that was left is one of its own, with its records.
    assert!(folder.files("back/after-000000000512/arrays") == folder.files("whole/arrays"));
    // Once more, with other records: none of the earlier ones is written over.
    let more =
        ["train", "--resume=back@512", "--set=log_array_steps=640", "--set=log_arrays=[\"x\"]"];
    folder.done(&more);
    assert_eq!(steps(&folder, "back"), [256, 512, 640, 1280]);
    assert_eq!(folder.files("back/arrays.superseded").len(), 6);
    assert_eq!(read(&folder, "back", 640).keys().collect::<Vec<_>>(), ["log_replicas", "x"]);
}

#[test]
fn what_can_not_be_recorded_is_refused_before_there_is_a_run() {
    let folder = Folder::new("arrays-refused");
    let cases = [
        ("log_arrays=[\"y\"]", "log_arrays: there is no array \"y\" to record; there are x, x_dot"),
        ("log_arrays=[\"final_obs.pole\"]", "there is no array \"final_obs.pole\" to record"),
        ("log_arrays=[\"x\", \"x\"]", "log_arrays contains x twice"),
        ("log_replicas=[]", "log_replicas = []: at least one replica is needed"),
        ("log_array_steps=0", "log_array_steps = 0: must be at least 1"),
    ];
    for (set, words) in cases {
        let set = format!("--set={set}");
        let said = folder.warp(&["train", "cartpole", "--envs=8", "--out=run", &set]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words) && said.stderr.lines().count() == 1, "{said:?}");
    }
    let own = ["train", "cartpole", "--envs=8", "--out=run", "--set=log_arrays=[\"x\"]"];
    let said = folder.warp(&[&own[..], &["--set=log_replicas=[8]"]].concat());
    assert!(said.stderr.contains("there is no replica 8; there are 0 to 7"), "{said:?}");
    let said = folder.warp(&[&own[..], &["--seeds=0..2"]].concat());
    assert!(said.stderr.contains("the arrays of a fleet's runs are not recorded"), "{said:?}");
    assert!(!folder.path("run").exists());
}

#[test]
fn ranks_record_the_replicas_of_the_first_one() {
    let folder = Folder::new("arrays-ranks");
    let own = ["--gpus=2", "--device=cpu", "--steps=256", EVERY, "--set=log_arrays=[\"x\"]"];
    folder.train(&[&own[..], &["--out=run", "--set=log_replicas=[3]"]].concat());
    assert_eq!(read(&folder, "run", 256)["x"].shape, [1]);
    let own = [&["train", "cartpole", "--envs=8", "--set=log_replicas=[4]"], &own[..]].concat();
    let said = folder.warp(&own);
    assert!(said.stderr.contains("no replica 4 on the first rank; there are 0 to 3"), "{said:?}");
}
