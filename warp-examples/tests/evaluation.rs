//! Evaluations on the way: they change nothing of what is learned, keep the best checkpoint and stop a run.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
use warp_command::{Folder, ITERATION};

/// Every second iteration.
const EVERY: [&str; 2] = ["--set=eval_steps=256", "--set=eval_episodes=5"];

/// Step and mean return of each evaluation that a run logged.
fn evaluations(folder: &Folder, run: &str) -> Vec<(u64, f64)> {
    let of = |line: &Value| {
        let mean = line["evaluation"]["mean_episode_return"].as_f64()?;
        Some((line["env_steps"].as_u64().unwrap(), mean))
    };
    folder.metrics(run).iter().filter_map(of).collect()
}

/// The first step with the highest mean return.
fn best(evaluations: &[(u64, f64)]) -> (u64, f64) {
    let better = |best: (u64, f64), one: (u64, f64)| if one.1 > best.1 { one } else { best };
    evaluations.iter().copied().reduce(better).unwrap()
}

#[test]
fn training_does_not_depend_on_evaluations() {
    let folder = Folder::new("evaluated");
    for algorithm in ["ppo", "dqn"] {
        let run = |out: &str, more: &[&str]| {
            let (algorithm, out) = (format!("--set=algorithm={algorithm}"), format!("--out={out}"));
            let own = ["train", "cartpole", "--envs=8", "--steps=2560", "--set=hidden=[8]"];
            folder.done(&[&own[..], &["--set=num_steps=16", &algorithm, &out], more].concat());
        };
        let (plain, evaluated) = (format!("{algorithm}-plain"), format!("{algorithm}-evaluated"));
        run(&plain, &["--set=keep_checkpoints=1"]);
        run(&evaluated, &EVERY);
        let last = |run: &str| folder.files(&format!("{run}/checkpoints/000000002560"));
        assert!(last(&plain) == last(&evaluated), "{algorithm}");
        let lines = |run: &str| {
            let mut lines = folder.metrics(run);
            for line in &mut lines {
                let line = line.as_object_mut().unwrap();
                line.retain(|key, _| {
                    !["evaluation", "seconds", "steps_per_second"].contains(&&key[..])
                });
            }
            lines
        };
        assert_eq!(lines(&plain), lines(&evaluated));
        let steps: Vec<u64> = evaluations(&folder, &evaluated).iter().map(|one| one.0).collect();
        assert_eq!(steps, (1..=10).map(|n| n * 256).collect::<Vec<_>>());
    }
}

#[test]
fn the_best_checkpoint_is_kept_and_can_be_named() {
    let folder = Folder::new("best");
    folder
        .train(&[&EVERY[..], &["--steps=2560", "--out=run", "--set=keep_checkpoints=2"]].concat());
    let (step, mean) = best(&evaluations(&folder, "run"));
    let eval = |place: &str| folder.done(&["eval", place, "--episodes=5", "--json"]).json();
    assert_eq!(eval("run@best")["mean_episode_return"], mean);
    assert_eq!(eval("run@best"), eval(&format!("run@{step}")));
    folder.train(&["--steps=128", "--out=next", "--set=init_from=run@best"]);
    // One that was stopped goes on with the same ones kept.
    folder
        .train(&[&EVERY[..], &["--steps=1280", "--out=cut", "--set=keep_checkpoints=2"]].concat());
    folder.done(&["train", "--resume=cut", "--steps=2560"]);
    assert!(folder.files("run/checkpoints") == folder.files("cut/checkpoints"));
    assert_eq!(evaluations(&folder, "run"), evaluations(&folder, "cut"));
    // None was evaluated.
    let said = folder.warp(&["eval", "next@best"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("no checkpoint has been evaluated"), "{said:?}");
}

#[test]
fn a_run_stops_at_the_return_that_is_enough() {
    let folder = Folder::new("enough");
    let more = ["--steps=1000000", "--out=run", "--set=stop_at_return=9"];
    let said = folder.train(&[&EVERY[..], &more].concat());
    let [.., (step, mean)] = evaluations(&folder, "run")[..] else { panic!("no evaluation") };
    assert!(mean >= 9.0 && step < 1_000_000, "{step} {mean}");
    assert_eq!(folder.checkpoint("run"), Some(step));
    let words = format!("stopped after an evaluation with a mean return of {mean:.1}");
    assert!(said.stdout.contains(&words), "{said:?}");
    // Resumed, it is where it was; it goes on if it is to be longer, also when that is interrupted.
    let (records, checkpoints) = (folder.metrics("run"), folder.files("run/checkpoints"));
    let said = folder.done(&["train", "--resume=run"]);
    assert!(said.stdout.contains(&words) && said.stdout.contains("more --steps"), "{said:?}");
    assert!(folder.files("run/checkpoints") == checkpoints && folder.metrics("run") == records);
    let higher = ["train", "--resume=run", "--set=stop_at_return=9999", "--steps=1280"];
    folder.done(&higher);
    assert_eq!(folder.checkpoint("run"), Some(step.max(1280)));
    for (set, words) in [
        ("stop_at_return=9", "stop_at_return = 9: it refers to the mean return of evaluations"),
        ("eval_episodes=0", "eval_episodes = 0: must be at least 1"),
        ("log_interval=0", "log_interval = 0: must be at least 1"),
        ("tag=..", "tag = \"..\": must be the name of a folder"),
    ] {
        let said = folder.warp(&["train", "cartpole", "--set", set]);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    }
    // The sum over groups that play against each other is no goal.
    let opposing = ["train", "tag_gridworld", "--set=eval_steps=6400", "--out=none"];
    let said = folder.warp(&[&opposing[..], &["--set=stop_at_return=0"]].concat());
    let words = "stop_at_return = 0: tag_gridworld trains several groups (tagger, runner)";
    assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    assert!(!folder.path("none").exists());
    let said = folder.warp(&["train", "cartpole", "--seeds=0..2", "--set=eval_steps=100"]);
    assert!(said.code == Some(2) && said.stderr.contains("eval_steps = 100: "), "{said:?}");
}

#[test]
fn evaluations_of_episodes_that_do_not_end_say_so() {
    let folder = Folder::new("endless");
    let args = ["train", "cliff_walking", "--device=cpu", "--envs=4", "--set=num_steps=16"];
    let more = ["--steps=512", "--set=eval_steps=128", "--set=eval_episodes=3", "--out=run"];
    // As long as if it never ended.
    let endless = ["--set=env.episode_length=2000000000", "--set=eval_max_steps=40"];
    let said = folder.done(&[&args[..], &more, &endless, &["--set=learning_rate=0"]].concat());
    let words =
        "3 of 3 episodes had not ended after 40 steps and count as they were then (eval_max_steps)";
    assert_eq!(said.stderr.matches(words).count(), 1, "{said:?}");
    assert!(said.stderr.contains("evaluation at step 128: 3 of 3"), "{said:?}");
    let lines = folder.metrics("run");
    let unfinished: Vec<_> =
        lines.iter().filter_map(|line| line["evaluation"]["unfinished"].as_u64()).collect();
    assert_eq!(unfinished, [3; 4]);
    let said = folder.done(&["eval", "run", "--episodes=5"]);
    assert!(said.stdout.contains(&words.replace('3', "5")), "{said:?}");
    let said = folder.done(&["episode", "run", "-o=episode.npz"]);
    assert!(said.stderr.contains("the episode had not ended after 40 steps"), "{said:?}");
    let said = folder.warp(&["train", "cliff_walking", "--set=eval_max_steps=0"]);
    assert!(said.stderr.contains("eval_max_steps = 0: must be at least 1"), "{said:?}");
}

#[test]
fn a_line_sums_up_the_iterations_since_the_last() {
    let folder = Folder::new("lines");
    let run = |out: &str, more: &[&str]| {
        folder.train(&[&["--steps=1280", "--out", out][..], more].concat());
        folder.metrics(out)
    };
    let all = run("all", &[]);
    let some = run("some", &["--set=log_interval=4", "--set=checkpoint_steps=640"]);
    let steps = |lines: &[Value]| -> Vec<u64> {
        lines.iter().map(|line| line["env_steps"].as_u64().unwrap() / ITERATION).collect()
    };
    // Whole intervals, the checkpoint after the fifth iteration, and the end.
    assert_eq!(steps(&some), [4, 5, 8, 10]);
    let sum = |lines: &[Value], figure: fn(&Value) -> f64| lines.iter().map(figure).sum::<f64>();
    let episodes = |line: &Value| line["episodes"].as_f64().unwrap();
    assert_eq!(sum(&all, episodes), sum(&some, episodes));
    let total = |line: &Value| {
        let mean = line["episode_return"]["mean"].as_f64().unwrap_or(0.0);
        mean * line["episodes"].as_f64().unwrap()
    };
    assert!((sum(&all, total) - sum(&some, total)).abs() < 1e-6);
    let loss = |line: &Value| line["policy"]["pole"]["loss"].as_f64().unwrap();
    assert!((sum(&all[..4], loss) / 4.0 - loss(&some[0])).abs() < 1e-9);
    // Wherever it is interrupted, a line goes on.
    let cut = ["--set=log_interval=4", "--set=checkpoint_steps=640", "--steps=384", "--out=cut"];
    folder.train(&cut);
    assert_eq!(steps(&folder.metrics("cut")), [3]);
    folder.done(&["train", "--resume=cut"]);
    assert_eq!(steps(&folder.metrics("cut")), [3]);
    for n in ["768", "896", "1280"] {
        folder.done(&["train", "--resume=cut", "--steps", n]);
    }
    assert_eq!(folder.timeless_metrics("cut"), folder.timeless_metrics("some"));
    assert!(["cut", "some"].iter().all(|run| !folder.path(run).join("open_line.json").exists()));
    let aside = folder.read("cut/metrics.superseded.jsonl");
    assert_eq!(aside.lines().count(), 3, "those of the iterations 3, 6 and 7: {aside}");
    assert!(
        folder.files("all/checkpoints/000000001280")
            == folder.files("some/checkpoints/000000001280")
    );
}

#[test]
fn a_run_without_a_name_lies_where_the_keys_say() {
    let folder = Folder::new("basedir");
    folder.train(&["--steps=128", "--set=basedir=here", "--set=tag=first try", "--seed=3"]);
    assert_eq!(folder.checkpoint("here/first try/cartpole-ppo-s3"), Some(128));
    folder.train(&["--steps=128", "--seeds=0..2", "--set=tag=many"]);
    assert!(folder.path("runs/many/cartpole-ppo-fleet/summary.json").exists());
}
