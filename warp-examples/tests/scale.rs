//! `warp scale`: what is fastest on this machine, as a configuration that trains.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use warp_command::Folder;

#[test]
fn the_fastest_values_are_measured_and_written() {
    let folder = Folder::new("scale");
    let small = ["--seconds=0.01", "--most=32", "--device=cpu", "--set=hidden=[4]"];
    let start = ["--set=num_envs=4", "--set=num_steps=8", "--set=num_minibatches=2"];
    let args = [&["scale", "cartpole", "-o", "fast.toml", "--json"], &small[..], &start].concat();
    let json = folder.done(&args).json();
    let trials = json["trials"].as_array().unwrap();
    let rate = |trial: &serde_json::Value| trial["steps_per_second"].as_f64().unwrap();
    assert_eq!(trials[0]["values"]["num_envs"], 4);
    // Of rates that differ by less than noise the earlier one is the best.
    let most = 1.02 * rate(&json["best"]);
    assert!(trials.len() >= 6 && trials.iter().all(|trial| rate(trial) <= most));
    let written: toml::Table = folder.read("fast.toml").parse().unwrap();
    for key in ["num_envs", "num_steps", "num_minibatches"] {
        let value = json["best"]["values"][key].as_i64().unwrap();
        assert!(written[key].as_integer() == Some(value) && value <= 32, "{key}");
    }
    assert_eq!(written["hidden"].as_array().unwrap().len(), 1);
    folder.done(&["train", "fast.toml", "--steps=1", "--out=run"]);
    let said = folder.done(&[&["scale", "pendulum", "--set=algorithm=ddpg"], &small[..]].concat());
    assert!(said.stdout.contains("fastest: num_envs=") && said.stdout.contains("batch_size="));
}

#[test]
fn a_limit_of_time_leaves_the_best_so_far() {
    let folder = Folder::new("scale-limit");
    let args = [
        "scale",
        "cartpole",
        "--device=cpu",
        "--seconds=0.2",
        "--limit=0.3",
        "--json",
        "-o",
        "fast.toml",
    ];
    let json = folder.done(&args).json();
    let trials = json["trials"].as_array().unwrap();
    assert!(json["is_cut"] == true && (1..=2).contains(&trials.len()), "{json}");
    folder.read("fast.toml").parse::<toml::Table>().unwrap();
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = Folder::new("scale-bad");
    for (args, words) in [
        (&["scale", "cartpol"][..], "did you mean \"cartpole\""),
        (&["scale", "cartpole", "--seconds=0"], "more than 0"),
        (&["scale", "cartpole", "-o", "nowhere/x.toml"], "there is no folder \"nowhere\""),
        (&["scale", "cartpole", "--limit=0"], "more than 0"),
        (&["scale", "cartpole", "--most=0"], "a whole number from 1"),
    ] {
        let said = folder.warp(args);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?}: {said:?}");
    }
}
