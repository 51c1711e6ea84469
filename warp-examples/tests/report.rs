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
