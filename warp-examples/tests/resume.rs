//! A run that was stopped, interrupted or killed goes on as if nothing had been.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use std::process::Child;
use warp_command::{Folder, ITERATION, SMALL, Said, same_run};

#[test]
fn a_resumed_run_equals_a_longer_one() {
    let folder = Folder::new("longer");
    let schedule = "--set=learning_rate=[[0, 3e-3], [3000, 1e-4]]";
    for (algorithm, n, threads) in [("ppo", 1500, "1"), ("a2c", 1280, "3")] {
        let set = format!("--set=algorithm={algorithm}");
        let (part, whole) = (format!("{algorithm}-part"), format!("{algorithm}-whole"));
        let run = |steps: u64, out: &str, threads: &str| {
            let steps = steps.to_string();
            let more = [schedule, &set, "--steps", &steps, "--out", out, "--threads", threads];
            folder.train(&more)
        };
        run(n, &part, "2");
        let steps = (2 * n).to_string();
        folder.done(&["train", "--resume", &part, "--steps", &steps, "--threads", threads]);
        run(2 * n, &whole, "1");
        same_run(&folder, &part, &whole);
    }
}

#[test]
fn every_stop_on_the_way_changes_nothing() {
    let folder = Folder::new("stops");
    let tag = |steps: &str, out: &str| {
        let args = [
            "train",
            "tag_continuous",
            "--envs",
            "5",
            "--set",
            "num_steps=7",
            "--set",
            "hidden=[8]",
            "--set",
            "env.num_taggers=2",
            "--set",
            "env.num_other_agents_observed=2",
            "--set",
            "env.num_runners=4",
            "--set",
            "env.episode_length=12",
            "--set",
            "env.tagging_distance=0.2",
            "--set",
            "num_minibatches=1",
            "--set",
            "checkpoint_steps=100",
            "--set",
            "policy.tagger.learning_rate=0.003",
            "--set",
            "policy.runner.learning_rate=[[0, 3e-3], [500, 1e-3]]",
            "--steps",
            steps,
            "--out",
            out,
        ];
        folder.done(&args);
    };
    tag("35", "stopped");
    for steps in ["36", "175", "400"] {
        folder.done(&["train", "--resume", "stopped", "--steps", steps]);
    }
    tag("400", "whole");
    same_run(&folder, "stopped", "whole");
}

#[test]
fn a_finished_run_is_resumed_to_itself() {
    let folder = Folder::new("finished");
    folder.train(&["--steps", "512", "--out", "run"]);
    folder.train(&["--steps", "512", "--out", "other"]);
    let summary = folder.read("run/summary.json");
    folder.done(&["train", "--resume", "run"]);
    same_run(&folder, "run", "other");
    assert_eq!(folder.read("run/summary.json"), summary);
}

/// A run that would take hours, once it has logged and saved something.
fn long_run(folder: &Folder) -> Child {
    let more = ["--set=checkpoint_steps=512", "--steps", "1000000000", "--out", "run"];
    let child = folder.spawn(&[&["train"], &SMALL[..], &more].concat());
    folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step >= 1024));
    child
}

/// Resumes the run to some iterations beyond `reached` and compares it with one in one piece.
fn goes_on(folder: &Folder, reached: u64) {
    let steps = (reached + 10 * ITERATION).to_string();
    folder.done(&["train", "--resume", "run", "--steps", &steps]);
    let more = ["--set=checkpoint_steps=512", "--steps", &steps, "--out", "whole"];
    folder.train(&more);
    same_run(folder, "run", "whole");
}

#[cfg(unix)]
#[test]
fn ctrl_c_finishes_the_iteration_and_saves() {
    let folder = Folder::new("interrupted");
    let child = long_run(&folder);
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(said.stdout.contains("stopped early"), "{said:?}");
    assert!(said.stdout.contains("; the run is in run, and --resume run continues it"), "{said:?}");
    let reached = folder.checkpoint("run").unwrap();
    let lines = folder.metrics("run");
    assert_eq!(lines.last().unwrap()["env_steps"], reached);
    assert_eq!(lines.len() as u64 * ITERATION, reached);
    let summary: serde_json::Value =
        serde_json::from_str(&folder.read("run/summary.json")).unwrap();
    assert_eq!(summary["env_steps"], reached);
    goes_on(&folder, reached);
}

#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint() {
    let folder = Folder::new("killed");
    let mut child = long_run(&folder);
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = folder.checkpoint("run").unwrap();
    // What a power cut leaves at worst: half a line, half a checkpoint.
    let metrics = folder.path("run/metrics.jsonl");
    let text = std::fs::read_to_string(&metrics).unwrap() + "{\"iteration\":99999,\"env_st";
    std::fs::write(&metrics, text).unwrap();
    let partial = folder.path("run/checkpoints/.000009999999.partial");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join("manifest.json"), "{").unwrap();
    goes_on(&folder, reached);
    assert!(!partial.exists());
}

#[test]
fn what_comes_from_the_run_is_not_accepted_again() {
    let folder = Folder::new("conflicts");
    folder.train(&["--steps", "128", "--out", "run"]);
    let before = folder.files("run");
    for (more, words) in [
        (&["cartpole"][..], "cannot be used with"),
        (&["--seed", "1"], "cannot be used with"),
        (&["--envs", "4"], "cannot be used with"),
        (&["--set", "num_envs=4"], "--set num_envs=4: num_envs can't change when a run is resumed"),
        (&["--set", "hidden=[9]"], "hidden can't change"),
        (&["--set", "env.episode_length=9"], "env.episode_length can't change"),
        (&["--set", "policy.pole.groups=[]"], "policy.pole.groups can't change"),
        (&["--set", "gama=0.5"], "the nearest known key is \"gamma\""),
        (&["--set", "gamma=2"], "gamma = 2"),
        (&["--set", "gamma"], "expected key=value"),
        (&["--set", "total_steps=100"], "--steps 100: the run in \"run\" has already done 128"),
    ] {
        let said = folder.warp(&[&["train", "--resume", "run"], more].concat());
        assert_eq!(said.code, Some(2), "{more:?}: {said:?}");
        assert!(said.stderr.contains(words), "{more:?}: {said:?}");
    }
    assert!(folder.files("run") == before);
}

#[test]
fn killed_at_any_moment_a_run_loses_only_the_work_since_its_last_checkpoint() {
    let folder = Folder::new("killed-often");
    let fresh = ["--set=checkpoint_steps=256", "--steps", "1000000000", "--out", "run"];
    let mut child = folder.spawn(&[&["train"], &SMALL[..], &fresh].concat());
    // From then on the folder says what the run is.
    folder.wait_for(|folder| folder.checkpoint("run"));
    let mut reached = 0;
    for round in 0..20u64 {
        // Another moment each time: while starting, iterating, or writing.
        std::thread::sleep(std::time::Duration::from_micros(round * round * 400 % 37_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let saved = folder.checkpoint("run").unwrap();
        assert!(saved >= reached, "round {round}: step {saved} after step {reached}");
        reached = saved;
        child = folder.spawn(&["train", "--resume", "run", "--steps", "1000000000"]);
        // Every second time it gets somewhere before it is killed again.
        if round % 2 == 0 {
            folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step > reached));
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = folder.checkpoint("run").unwrap();
    let steps = (reached + 10 * ITERATION).to_string();
    folder.done(&["train", "--resume", "run", "--steps", &steps]);
    let whole = ["--set=checkpoint_steps=256", "--steps", &steps, "--out", "whole"];
    folder.train(&whole);
    same_run(&folder, "run", "whole");
}

/// Trains to 6,400 steps, 50 lines, with checkpoints at 5,120 and at the end.
fn fifty_lines(folder: &Folder) -> Vec<u8> {
    let keep = ["--set=checkpoint_steps=5120", "--set=keep_checkpoints=9"];
    folder.train(&[&keep[..], &["--steps", "6400", "--out", "run"]].concat());
    std::fs::read(folder.path("run/metrics.jsonl")).unwrap()
}

#[test]
fn damaged_metrics_are_kept_and_said() {
    let folder = Folder::new("damaged-metrics");
    let mut metrics = fifty_lines(&folder);
    let event_file = folder.path("run/tensorboard/events.out.tfevents.0000.warp");
    let mut events = std::fs::read(&event_file).unwrap();
    let early = events.len() / 20;
    events[early] = 0xff;
    let ends = metrics.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let in_line_3 = ends.map(|(at, _)| at + 10).nth(1).unwrap();
    metrics[in_line_3] = 0xff;
    std::fs::write(folder.path("run/metrics.jsonl"), &metrics).unwrap();
    std::fs::write(&event_file, &events).unwrap();
    let said = folder.done(&["train", "--resume", "run", "--steps", "6528"]);
    assert!(said.stderr.contains("1 line can't be read, the first at line 3"), "{said:?}");
    assert!(std::fs::read(&event_file).unwrap() == events);
    let after = std::fs::read(folder.path("run/metrics.jsonl")).unwrap();
    assert!(after.starts_with(&metrics));
    assert_eq!(after.iter().filter(|byte| **byte == b'\n').count(), 51);
}

#[test]
fn what_a_run_does_anew_is_set_aside() {
    let folder = Folder::new("anew");
    let before = fifty_lines(&folder);
    std::fs::remove_dir_all(folder.path("run/checkpoints/000000006400")).unwrap();
    let said = folder.done(&["train", "--resume", "run"]);
    let words = "10 lines after the checkpoint's step 5120 moved to metrics.superseded.jsonl";
    assert!(said.stderr.contains(words), "{said:?}");
    let aside = std::fs::read(folder.path("run/metrics.superseded.jsonl")).unwrap();
    assert!(before.ends_with(&aside) && aside.iter().filter(|b| **b == b'\n').count() == 10);
    folder.train(&[
        "--set=checkpoint_steps=5120",
        "--set=keep_checkpoints=9",
        "--steps",
        "6400",
        "--out",
        "whole",
    ]);
    assert_eq!(folder.timeless_metrics("run"), folder.timeless_metrics("whole"));
}
