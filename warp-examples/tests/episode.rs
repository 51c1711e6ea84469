//! `warp episode` writes what `warp eval` plays, and `warp render` draws it again, pixel by pixel.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::collections::BTreeMap;
use warp_command::Folder;
use warp_examples::replay::npz::{Numeric, Recorded, read_npz};

fn arrays(folder: &Folder, file: &str) -> BTreeMap<String, Recorded> {
    read_npz(&std::fs::read(folder.path(file)).unwrap()).unwrap()
}

#[test]
fn a_recording_has_what_evaluation_played() {
    let folder = Folder::new("episode");
    folder.train(&["--steps=2560", "--out=run"]);
    folder.done(&["episode", "run", "-o", "all.npz", "--episodes=0..3"]);
    let found = arrays(&folder, "all.npz");
    let longest = found["steps"].data.iter().copied().fold(0.0, f64::max) as usize;
    assert_eq!(found["x"].shape, [3, longest + 1]);
    assert_eq!(
        (found["obs.pole"].shape.as_slice(), found["obs.pole"].dtype),
        (&[3, longest + 1, 1, 4][..], Numeric::F32)
    );
    assert_eq!(found["reward.pole"].shape, [3, longest, 1]);
    assert_eq!(found["probability.pole"].shape, [3, longest, 1, 2]);
    assert_eq!(found["value.pole"].shape, [3, longest, 1]);
    let eval = folder.done(&["eval", "run", "--episodes=3", "--json"]).json();
    let total: f64 = found["reward.pole"].data.iter().sum();
    assert!((total / 3.0 - eval["mean_episode_return"].as_f64().unwrap()).abs() < 1e-9);
    for (episode, steps) in found["steps"].data.iter().enumerate() {
        let ended = |step: usize| found["terminated"].data[episode * longest + step] != 0.0;
        assert!((0..longest).all(|step| ended(step) == (step + 1 == *steps as usize)));
        for step in 0..*steps as usize {
            let at = episode * longest + step;
            let [left, right] = found["probability.pole"].data[2 * at..2 * at + 2] else {
                panic!()
            };
            assert!((left + right - 1.0).abs() < 1e-6);
            // Greedy; and what is observed is the state.
            assert_eq!(found["action.pole"].data[at], f64::from(u8::from(right > left)));
            let moment = episode * (longest + 1) + step;
            assert_eq!(found["obs.pole"].data[4 * moment], found["x"].data[moment]);
        }
    }
    folder.done(&["episode", "run", "-o", "some.npz", "--arrays=x,reward.pole", "--stochastic"]);
    let names: Vec<String> = arrays(&folder, "some.npz").into_keys().collect();
    assert_eq!(names, ["config", "reward.pole", "steps", "x"]);
}

/// Values are no probabilities: nothing can be sampled from them.
#[test]
fn values_of_actions_are_recorded_as_such_and_not_sampled_from() {
    let folder = Folder::new("episode-values");
    let small = ["--set=hidden=[8]", "--set=train_freq=1", "--steps=640", "--out=run"];
    folder.done(&[&["train", "cartpole", "--set=algorithm=dqn"], &small[..]].concat());
    folder.done(&["episode", "run", "-o", "e.npz"]);
    let found = arrays(&folder, "e.npz");
    let values = found["action_value.pole"].data.chunks(2);
    for (values, action) in values.zip(&found["action.pole"].data) {
        assert_eq!(*action, f64::from(u8::from(values[1] > values[0])));
    }
    assert!(!found.contains_key("probability.pole"));
    for command in ["eval", "episode", "render"] {
        let out: &[&str] = match command {
            "eval" => &[],
            "render" => &["-o", "e.gif"],
            _ => &["-o", "e.npz"],
        };
        let said = folder.warp(&[&[command, "run", "--stochastic"], out].concat());
        let words = "policy \"pole\": dqn has values of actions and no distribution to sample from";
        assert!(said.code == Some(2) && said.stderr.contains(words), "{command}: {said:?}");
    }
}

#[test]
fn a_recording_is_drawn_as_the_run_itself() {
    let folder = Folder::new("episode-drawn");
    folder.train(&["--steps=2560", "--out=cartpole"]);
    let small = ["--envs=4", "--steps=80", "--set=num_steps=20", "--set=num_minibatches=1"];
    for env in ["tag_gridworld", "pendulum"] {
        folder.done(&[&["train", env, "--out", env, "--set=hidden=[8]"], &small[..]].concat());
    }
    for run in ["cartpole", "tag_gridworld", "pendulum"] {
        folder.done(&["episode", run, "-o", "e.npz", "--episodes=1..3"]);
        for (recorded, played) in [("0", "1"), ("1", "2")] {
            let draw = |what: &str, episode: &str, file: &str| {
                folder.done(&["render", what, "--episode", episode, "--steps=30", "-o", file]);
                std::fs::read(folder.path(file)).unwrap()
            };
            assert!(draw("e.npz", recorded, "a.gif") == draw(run, played, "b.gif"), "{run}");
        }
    }
}

#[test]
fn a_run_of_a_fleet_is_drawn_and_recorded_as_the_run_by_itself() {
    let folder = Folder::new("episode-fleet");
    folder.train(&["--steps=1280", "--seeds=3..5", "--out=fleet"]);
    folder.train(&["--steps=1280", "--seed=4", "--out=alone"]);
    folder.done(&["episode", "fleet", "--run=1", "-o", "a.npz"]);
    folder.done(&["episode", "alone", "-o", "b.npz"]);
    let (a, b) = (arrays(&folder, "a.npz"), arrays(&folder, "b.npz"));
    assert!(a["obs.pole"] == b["obs.pole"] && a["probability.pole"] == b["probability.pole"]);
    folder.done(&["render", "fleet", "--run=1", "-o", "a.png"]);
    folder.done(&["render", "alone", "-o", "b.png"]);
    assert!(
        std::fs::read(folder.path("a.png")).unwrap()
            == std::fs::read(folder.path("b.png")).unwrap()
    );
    for (args, words) in [
        (&["render", "fleet", "-o", "a.png"][..], "is a fleet of 2 runs; choose one with --run N"),
        (
            &["render", "fleet", "--run=2", "-o", "a.png"],
            "--run 2: the fleet in \"fleet\" has 2 runs",
        ),
        (&["render", "alone", "--run=0", "-o", "a.png"], "--run 0: \"alone\" is not a fleet"),
    ] {
        let said = folder.warp(args);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?}: {said:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = Folder::new("episode-bad");
    folder.train(&["--steps=128", "--out=run"]);
    folder.done(&["episode", "run", "-o", "e.npz"]);
    folder.done(&["episode", "run", "-o", "x.npz", "--arrays=x"]);
    std::fs::write(folder.path("no.npz"), "nothing").unwrap();
    for (args, words) in [
        (&["episode", "run", "-o", "e.npy"][..], "expected a name that ends in .npz"),
        (
            &["episode", "run", "-o", "e.npz", "--episodes=3..3"],
            "--episodes 3..3: expected a number",
        ),
        (&["episode", "run", "-o", "e.npz", "--arrays=y"], "no array \"y\"; there are x, "),
        (&["render", "e.npz", "--seed=1", "-o", "a.png"], "--seed: \"e.npz\" is a recording"),
        (&["render", "e.npz", "--episode=1", "-o", "a.png"], "the recording has 1, from 0 on"),
        (&["render", "x.npz", "-o", "a.png"], "it lacks the array \"x_dot\" of the state"),
        (&["render", "no.npz", "-o", "a.png"], "too few for a ZIP archive"),
        (&["render", "none.npz", "-o", "a.png"], "it cannot be read"),
    ] {
        let said = folder.warp(args);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?}: {said:?}");
    }
}
