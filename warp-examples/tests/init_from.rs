//! Runs that start from others, and seeds on which a default once failed.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use warp_command::Folder;

/// A run that goes on from another's weights without learning plays as that one does.
#[test]
fn a_frozen_copy_of_a_run_plays_as_it_does() {
    let folder = Folder::new("init-from");
    folder.train(&["--steps", "2560", "--out", "first"]);
    let copy = ["--steps=256", "--set=init_from=first", "--set=to_train=false", "--out=copy"];
    folder.train(&copy);
    let eval = |run: &str| folder.done(&["eval", run, "--episodes=20", "--json"]).json();
    assert_eq!(eval("first")["mean_episode_return"], eval("copy")["mean_episode_return"]);
    // What goes on takes its own checkpoint, even where the other run is gone.
    folder.train(&["--steps=256", "--set=init_from=first", "--out=own"]);
    std::fs::remove_dir_all(folder.path("first")).unwrap();
    folder.done(&["train", "--resume", "own", "--steps", "512"]);
    let said = folder.warp(&["train", "cartpole", "--set=init_from=first", "--out=none"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is no folder \"first\""), "{said:?}");
    folder.train(&["--steps=128", "--seeds=0..1", "--out=fleet"]);
    folder.train(&["--steps=128", "--set=norm_obs=true", "--out=other"]);
    for (target, place, words) in [
        ("cartpole", "fleet", "it is a fleet, whose runs have no checkpoints"),
        (
            "acrobot",
            "other",
            "it comes from cartpole with ppo, but this is acrobot with ppo; it was",
        ),
    ] {
        let set = format!("--set=init_from={place}");
        let said = folder.warp(&["train", target, &set, "--set=norm_obs=false", "--out=none"]);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    }
    assert!(!folder.path("none").exists());
}

/// Adam's epsilon was too small: the policy collapsed and stayed at 175.
#[test]
fn a2c_keeps_what_it_has_learned() {
    let folder = Folder::new("a2c-111");
    let schedule = "--set=learning_rate=[[0, 3e-3], [500000, 0.0]]";
    let run = ["train", "cartpole", "--set=algorithm=a2c", "--seed=111", "--out=run"];
    folder.done(&[&run[..], &[schedule, "--steps=200000"]].concat());
    let score = folder.done(&["eval", "run", "--episodes=20", "--json"]).json();
    assert!(score["mean_episode_return"].as_f64().is_some_and(|r| r >= 475.0), "{score}");
}
