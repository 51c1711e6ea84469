//! Self-play from the command line: a league that learns, its table, and what is refused.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
use warp_command::Folder;

/// Two taggers and a runner on a small grid; four snapshots beside the beginning, each after eight iterations.
const LEAGUE: &str = r#"
env_id = "tag_gridworld"
num_envs = 64
num_steps = 16
total_steps = 32768
hidden = [32]
learning_rate = 1e-2
num_minibatches = 2
[env]
num_taggers = 2
grid_length = 4
episode_length = 20
[league]
opponents = "prioritised"
snapshot_steps = 8192
episodes = 64
[policy.tagger]
[policy.runner]
"#;

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::write(folder.path("league.toml"), LEAGUE).unwrap();
    folder
}

/// Share of the points of the taggers of step `tagger` against the runners of step `runner`.
fn taggers(table: &Value, tagger: u64, runner: u64) -> f64 {
    assert_eq!(table["policies"], serde_json::json!(["runner", "tagger"]));
    let games = table["games"].as_array().unwrap();
    let game = games.iter().find(|game| game["steps"] == serde_json::json!([runner, tagger]));
    let game = game.unwrap();
    let won = game["wins"][1].as_f64().unwrap() + game["draws"].as_f64().unwrap() / 2.0;
    won / table["episodes"].as_f64().unwrap()
}

#[test]
fn the_newest_taggers_beat_the_first_runners_as_no_others_do() {
    let folder = folder("league");
    folder.done(&["train", "league.toml", "--out=run", "--device=cpu"]);
    let table = folder.done(&["league", "run", "--json"]).json();
    assert_eq!(table["snapshots"], serde_json::json!([0, 8192, 16384, 24576, 32768]));
    assert_eq!(table["games"].as_array().unwrap().len(), 25);
    let (first, last) = (taggers(&table, 0, 0), taggers(&table, 32_768, 0));
    assert!(last > first + 0.2, "{first} {last}");
    let said = folder.done(&["league", "run"]).stdout;
    assert!(said.contains("The newest tagger") && said.contains("tagger Elo"), "{said}");
    // Ratings on the way stand in the metrics.
    let lines = folder.metrics("run");
    let rated: Vec<&Value> = lines.iter().filter(|line| line.get("league").is_some()).collect();
    assert_eq!(rated.len(), 4);
    let elo = rated[3]["league"]["tagger"]["elo"].as_f64().unwrap();
    assert!((elo - table["elo"][1][4].as_f64().unwrap()).abs() < 0.01);
    // The run evaluates, goes on, and lends its checkpoints as any other.
    folder.done(&["eval", "run@8192", "--episodes=2"]);
    folder.done(&["train", "--resume=run@16384", "--device=cpu"]);
    assert_eq!(folder.done(&["league", "run", "--json"]).json(), table);
    let again = folder.done(&["league", "run", "--episodes=64", "--json"]).json();
    assert_eq!((&again["games"], &again["elo"]), (&table["games"], &table["elo"]));
}

#[test]
fn any_run_of_two_policies_can_hold_a_tournament() {
    let folder = folder("tournament");
    let plain = LEAGUE.split("[league]").next().unwrap();
    std::fs::write(folder.path("plain.toml"), plain).unwrap();
    let sets = ["--set=checkpoint_steps=4096", "--set=keep_checkpoints=9", "--steps=8192"];
    folder.done(&[&["train", "plain.toml", "--out=run", "--device=cpu"], &sets[..]].concat());
    let said = folder.warp(&["league", "run"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("has no games yet; --episodes N plays some"), "{said:?}");
    let played = ["league", "run", "--episodes=3", "--json"];
    let table = folder.done(&played).json();
    assert_eq!(table["snapshots"], serde_json::json!([4096, 8192]));
    let bad = folder.warp(&[&played[..], &["--set=league.win_policy=tagger"]].concat());
    assert!(bad.code == Some(2) && bad.stderr.contains("it needs win_statistic"), "{bad:?}");
    let bad = folder.warp(&[&played[..], &["--set=seed=3"]].concat());
    assert!(bad.code == Some(2) && bad.stderr.contains("expected a key of the league"), "{bad:?}");
}

#[test]
fn a_league_is_one_run_of_one_process() {
    let folder = folder("refused");
    let refused = |args: &[&str], words: &str| {
        let said = folder.warp(&[&["train", "league.toml", "--out=none"], args].concat());
        assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
        assert!(!folder.path("none").exists());
    };
    refused(&["--seeds=0..2"], "the runs of a fleet cannot form leagues");
    refused(&["--set=league.episodes=0"], "league.episodes = 0: must be at least 1");
    refused(&["--set=policy.runner.to_train=false"], "two policies that learn");
    let bench = folder.warp(&["bench", "league.toml", "--train", "--device=cpu", "--seconds=0.1"]);
    assert!(bench.code == Some(2), "{bench:?}");
}
