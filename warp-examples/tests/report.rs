//! `warp report`: figures of several runs with intervals, in tables and a picture.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
use warp_command::Folder;

/// Three seeds of PPO as runs, three as a fleet with two learning rates, and one run of A2C.
fn trained() -> Folder {
    let folder = Folder::new("report");
    for seed in ["1", "2", "3"] {
        folder.train(&["--steps=1280", "--seed", seed, "--out", &format!("runs/ppo-{seed}")]);
    }
    let sweep = "--sweep=learning_rate=0.002,0.02";
    folder.train(&["--steps=1280", "--seeds=4..7", sweep, "--out=fleet"]);
    folder.train(&["--steps=1280", "--set=algorithm=a2c", "--out=a2c"]);
    folder
}

fn rows(section: &Value) -> Vec<(String, u64)> {
    let row = |row: &Value| (row["label"].as_str().unwrap().into(), row["n"].as_u64().unwrap());
    section["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn runs_and_fleets_are_compared() {
    let folder = trained();
    let ppo = ["runs/ppo-1", "runs/ppo-2", "runs/ppo-3"];
    let all = [&["report", "--json", "fleet", "a2c", "a2c"], &ppo[..]].concat();
    let json = folder.done(&all).json();
    let [section] = &json["sections"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!(section["title"], "cartpole");
    let mut found = rows(section);
    found.sort();
    let ppo_rows = [("PPO, learning_rate = 0.002", 6), ("PPO, learning_rate = 0.02", 3)];
    let expected =
        [("A2C", 1)].into_iter().chain(ppo_rows).map(|(label, n)| (label.to_string(), n));
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(section["improvements"].as_array().unwrap().len(), 3);
    // The mean over runs is that of their summaries.
    let summary = |run: &str| -> Value {
        serde_json::from_str(&folder.read(&format!("{run}/summary.json"))).unwrap()
    };
    let a2c = summary("a2c")["mean_episode_return"].as_f64().unwrap();
    let row = section["rows"].as_array().unwrap().iter().find(|row| row["label"] == "A2C").unwrap();
    assert!((row["mean"]["value"].as_f64().unwrap() - a2c).abs() < 1e-9);
    assert_eq!(row["mean"]["interval"], Value::Null);
    assert!(json["notes"][0].as_str().unwrap().contains("a single run has no interval"), "{json}");

    let said = folder.done(&[&["report", "-o", "tables"], &ppo[..]].concat());
    assert!(said.stdout.contains("## cartpole") && !said.stdout.contains("[-]"), "{said:?}");
    assert!(folder.read("tables/report.md").trim_end() == said.stdout.trim_end());
    assert!(folder.read("tables/report.tex").contains("\\multicolumn{7}{l}{\\textit{cartpole}}"));
    assert!(std::fs::read(folder.path("tables/profiles.png")).unwrap().starts_with(b"\x89PNG"));
    // The same bits each time.
    assert_eq!(folder.done(&all).stdout, folder.done(&all).stdout);
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = Folder::new("report-bad");
    folder.train(&["--steps=1280", "--out=run"]);
    for (args, words) in [
        (&["report"][..], "<RUN | FLEET>"),
        (&["report", "none"], "none/config.toml"),
        (&["report", "run", "--metric=loss"], "no run has loss; there are "),
        (&["report", "run", "--metric=episode_return"], "did you mean episode_return.mean?"),
        (&["report", "run", "--normalise=cartpole"], "expected TASK=LOW,HIGH"),
        (&["report", "run", "--normalise=cartpole=1,1"], "two different numbers"),
        (
            &["report", "run", "--normalise=pong=0,1"],
            "there is no task \"pong\"; there are cartpole",
        ),
        (
            &["report", "run", "--resamples=1"],
            "--resamples 1: a whole number from 100 to 1000000 is needed",
        ),
    ] {
        let said = folder.warp(args);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?}: {said:?}");
    }
    let said = folder.done(&["report", "run", "--metric=policy.pole.entropy"]);
    assert!(said.stdout.starts_with("Score: the last policy.pole.entropy."), "{said:?}");
}

#[test]
fn a_seed_counts_once_however_often_its_run_is_there() {
    let folder = Folder::new("report-seeds");
    folder.train(&["--steps=1280", "--out=a"]);
    // The same training with another key of its records, as a fleet's run, and longer.
    folder.train(&["--steps=1280", "--set=eval_steps=640", "--set=eval_episodes=2", "--out=b"]);
    folder.train(&["--steps=1280", "--seeds=0..2", "--out=fleet"]);
    folder.train(&["--steps=2560", "--out=long"]);
    let said = folder.done(&["report", "--json", "a", "b", "fleet", "long"]).json();
    assert_eq!(rows(&said["sections"][0]), [("PPO".to_string(), 2)]);
    let excluded = "Excluded: 3 runs with a seed that its setting has already; the longest counts.";
    assert!(said["notes"].as_array().unwrap().iter().any(|note| note == excluded), "{said}");
    let long: Value = serde_json::from_str(&folder.read("long/summary.json")).unwrap();
    let of_long = long["mean_episode_return"].as_f64().unwrap();
    let row = &said["sections"][0]["rows"][0];
    let is_there = |key: &str| (row[key].as_f64().unwrap() - of_long).abs() < 1e-9;
    assert!(is_there("min") || is_there("max"), "{row} {of_long}");
    let said = folder.done(&["plot", "a", "b", "fleet", "long", "-o", "plot.svg"]);
    assert_eq!(said.stdout, "2 runs are drawn in plot.svg\n", "{said:?}");
    assert!(said.stderr.contains("Excluded: 3 runs with a seed"), "{said:?}");
    // A checkpoint that is evaluated twice is one run.
    let said = folder.done(&["eval", "a", "b@best", "./a", "--episodes=3"]).stdout;
    let last: Vec<&str> = said.lines().rev().take(2).collect();
    assert!(last[0].starts_with("Excluded: 2 runs with a seed"), "{said}");
    assert!(last[1].contains("(1 run, no interval)"), "{said}");
}

#[test]
fn a_run_that_went_on_with_other_keys_is_a_setting_of_its_own() {
    let folder = Folder::new("report-changed");
    folder.train(&["--steps=1280", "--out=changed"]);
    let more = ["--set=learning_rate=0.02", "--steps=2560"];
    folder.done(&[&["train", "--resume=changed"], &more[..]].concat());
    folder.train(&["--steps=2560", "--set=learning_rate=0.02", "--seed=1", "--out=whole"]);
    // Another length is no other setting.
    folder.train(&["--steps=1280", "--set=learning_rate=0.02", "--seed=2", "--out=longer"]);
    folder.done(&["train", "--resume=longer", "--steps=2560", "--set=eval_steps=0"]);
    let runs = ["changed", "whole", "longer"];
    let said = folder.done(&[&["report", "--json"], &runs[..]].concat()).json();
    let mut found = rows(&said["sections"][0]);
    found.sort();
    let wanted = [("PPO", 2), ("PPO, changed at step 1280", 1)];
    assert_eq!(found, wanted.map(|(label, n)| (label.to_string(), n)));
    folder.done(&[&["plot", "-o", "plot.svg"], &runs[..]].concat());
    let svg = folder.read("plot.svg");
    assert!(svg.contains("PPO, changed at step 1280") && svg.contains("PPO, mean of 2 runs"));
    // A change that was taken back by going back further is none of the run any more.
    let keep = ["--set=keep_checkpoints=9", "--set=checkpoint_steps=640"];
    folder.train(
        &[&["--steps=1280", "--set=learning_rate=0.02", "--seed=4", "--out=back"], &keep[..]]
            .concat(),
    );
    let other = ["--set=learning_rate=0.1", "--steps=1920"];
    folder.done(&[&["train", "--resume=back"], &other[..]].concat());
    folder.done(&["train", "--resume=back@640", "--set=learning_rate=0.02", "--steps=2560"]);
    let said =
        folder.done(&["report", "--json", "whole", "back", "back/after-000000000640"]).json();
    let mut found = rows(&said["sections"][0]);
    found.sort();
    let labels = ["PPO, learning_rate = 0.02", "PPO, learning_rate = 0.1, changed at step 1280"];
    assert_eq!(found, [(labels[0].to_string(), 2), (labels[1].to_string(), 1)]);
    // Up to the change it is a run of its first setting.
    folder.train(&["--steps=1280", "--seed=3", "--out=other"]);
    let eval = |runs: &[&str]| {
        folder
            .done(&[&["eval", "--episodes=2"], runs].concat())
            .stdout
            .lines()
            .last()
            .unwrap()
            .to_string()
    };
    folder.train(&[&["--steps=1280", "--out=early"], &keep[..]].concat());
    folder.done(&[&["train", "--resume=early"], &more[..]].concat());
    assert!(eval(&["early@1280", "other"]).contains("2 runs)"));
    assert!(eval(&["early", "other"]).contains("(1 run, no interval)"));
}

#[test]
fn unfinished_runs_and_folders_without_one_are_left_out() {
    let folder = Folder::new("report-unfinished");
    folder.train(&["--steps=1280", "--out=runs/a"]);
    folder.train(&["--steps=128", "--seeds=0..3", "--out=runs/fleet"]);
    std::fs::create_dir(folder.path("runs/empty")).unwrap();
    // As a fleet that was killed leaves it: two runs have ended, and there is no summary.
    let ended = folder.read("runs/fleet/runs.jsonl");
    let two: Vec<&str> = ended.lines().take(2).collect();
    std::fs::write(folder.path("runs/fleet/ended.jsonl"), two.join("\n") + "\n").unwrap();
    for file in ["runs.jsonl", "summary.json"] {
        std::fs::remove_file(folder.path(&format!("runs/fleet/{file}"))).unwrap();
    }
    let all = ["runs/a", "runs/fleet", "runs/empty"];
    let said = folder.done(&[&["report"], &all[..]].concat());
    assert!(said.stdout.contains("Excluded: 1 run that has not finished."), "{said:?}");
    assert!(said.stderr.contains("\"runs/empty\" has no run and is left out"), "{said:?}");
    let said = folder.done(&[&["top"], &all[..]].concat());
    let lines: Vec<&str> = said.stdout.lines().collect();
    let start = "runs/fleet: a fleet, 2 of 3 runs have finished, mean return ";
    assert!(lines[0].starts_with(start), "{said:?}");
    assert!(lines[1].starts_with("runs/a: 1280 of 1280 steps"), "{said:?}");
    let said = folder.warp(&["report", "runs/empty"]);
    assert!(said.code == Some(2) && said.stderr.contains("runs/empty/config.toml"), "{said:?}");
}

#[test]
fn lines_that_can_not_be_read_are_said() {
    let folder = Folder::new("report-damaged");
    folder.train(&["--steps=1280", "--out=run"]);
    let text = folder.read("run/metrics.jsonl");
    let cut = |(n, line): (usize, &str)| match n {
        2..5 => format!("{}\n", &line[..line.len() / 2]),
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().enumerate().map(cut).collect();
    std::fs::write(folder.path("run/metrics.jsonl"), text).unwrap();
    for args in [&["report", "run"][..], &["top", "run"], &["plot", "run", "--out=curves.svg"]] {
        let said = folder.done(args).stderr;
        let words = "\"run/metrics.jsonl\": skipped 3 lines that can't be read";
        assert!(said.lines().filter(|line| line.contains(words)).count() == 1, "{args:?}: {said}");
    }
}
