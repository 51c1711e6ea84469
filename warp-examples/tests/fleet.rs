//! Fleets through the command: a run of a fleet is the run by itself, and what a fleet leaves can be
//! evaluated and drawn.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
#[cfg(unix)]
use warp_command::Said;
use warp_command::{Folder, SMALL};

/// Steps of a run, four iterations.
const STEPS: [&str; 2] = ["--steps", "500"];

fn train(folder: &Folder, more: &[&str]) -> String {
    folder.train(&[&STEPS[..], more].concat()).stdout
}

fn json(folder: &Folder, file: &str) -> Value {
    serde_json::from_str(&folder.read(file)).unwrap()
}

/// Records of a run of a fleet, without its number there.
fn records(folder: &Folder, fleet: &str, run: u64) -> Vec<Value> {
    let mut lines = folder.metrics(fleet);
    lines.retain(|line| line["run"] == run);
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("run").unwrap();
    }
    lines
}

#[test]
fn a_run_of_a_fleet_is_the_run_by_itself() {
    let folder = Folder::new("fleet-alone");
    let said = train(&folder, &["--seeds", "3..6", "--out", "many", "--threads", "2"]);
    assert!(said.contains("3 of 3 runs finished") && said.contains("95 %"), "{said}");
    train(&folder, &["--seeds", "3..6", "--out", "again", "--threads", "1"]);
    train(&folder, &["--seeds", "4..5", "--out", "one"]);
    train(&folder, &["--seed", "4", "--out", "plain"]);
    // Whatever the threads, the same bytes.
    for part in ["weights", "metrics.jsonl", "config.toml", "fleet.json"] {
        let all = |run: &str| match part {
            "weights" => folder.files(&format!("{run}/weights")),
            file => vec![(part.into(), folder.read(&format!("{run}/{file}")).into_bytes())],
        };
        assert!(all("many") == all("again"), "{part}");
    }
    let file = |path: &str| std::fs::read(folder.path(path)).unwrap();
    let weights = file("many/weights/00001.safetensors");
    assert!(weights == file("one/weights/00000.safetensors"));
    assert!(weights == file("plain/checkpoints/000000000512/weights.safetensors"));
    assert!(weights != file("many/weights/00000.safetensors"));
    assert_eq!(records(&folder, "many", 1), records(&folder, "one", 0));
    assert_eq!(records(&folder, "many", 1).len(), 4);
    let (fleet, plain) = (json(&folder, "many/summary.json"), json(&folder, "plain/summary.json"));
    assert_eq!(fleet["runs"][1]["mean_episode_return"], plain["mean_episode_return"]);
    assert_eq!((&fleet["launches"], &fleet["env_steps"]), (&1.into(), &1536.into()));
    // Greedy episodes of the run are those of the run by itself.
    let eval = |run: &str| folder.done(&["eval", run, "--episodes", "5", "--json"]).json();
    let found = eval("many")["runs"][1]["evaluation"].clone();
    assert_eq!(found, eval("plain"));
    assert!(folder.path("many/curves.png").exists());
}

#[test]
fn sweeps_are_split_by_shape_and_summed_up_by_value() {
    let folder = Folder::new("fleet-sweep");
    let sweep = ["--sweep", "learning_rate=0.001,0.01", "--sweep", "hidden=[8],[4, 4]"];
    let said = train(&folder, &[&sweep[..], &["--seeds", "0..2", "--out", "sweep"]].concat());
    assert!(said.contains("hidden = [4, 4], learning_rate = 0.01: "), "{said}");
    let summary = json(&folder, "sweep/summary.json");
    assert_eq!((&summary["launches"], &summary["n_finished"]), (&2.into(), &8.into()));
    assert_eq!(summary["swept"].as_array().unwrap().len(), 4);
    // Ranked by their means; the first one's configuration is a file.
    let mean = |one: &Value| one["returns"]["mean"].as_f64().unwrap();
    let mut ranked = summary["swept"].as_array().unwrap().clone();
    ranked.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let places: Vec<usize> = (ranked.iter().zip(1..))
        .map(|(one, place)| {
            let Value::Object(swept) = &one["swept"] else { panic!("{one}") };
            let rate = swept["learning_rate"].as_f64().unwrap();
            let start = format!("{place}. hidden = ");
            let line = said.lines().find(|line| line.starts_with(&start)).unwrap();
            assert!(line.contains(&format!("learning_rate = {rate}: ")), "{line}");
            place
        })
        .collect();
    assert_eq!(places, [1, 2, 3, 4]);
    let winner: toml::Table = folder.read("sweep/winner.toml").parse().unwrap();
    assert_eq!(winner["learning_rate"].as_float(), ranked[0]["swept"]["learning_rate"].as_f64());
    folder.done(&["config", "sweep/winner.toml"]);
    assert_eq!(summary["runs"][7]["swept"]["hidden"], serde_json::json!([4, 4]));
    // Numbers count through the values, last key and seed first.
    let run = |number: usize| &summary["runs"][number];
    assert_eq!((&run(1)["seed"], &run(1)["swept"]["learning_rate"]), (&1.into(), &0.001.into()));
    assert_eq!(run(2)["swept"]["hidden"], serde_json::json!([4, 4]));
    let found = folder.done(&["eval", "sweep", "--episodes", "2", "--json"]).json();
    assert_eq!(found["swept"].as_array().unwrap().len(), 4);
    assert_eq!(found["returns"]["n"], 8);
    let plot = |metric: &str| {
        let band = ["--band", "confidence", "--metric", metric];
        folder.warp(&[&["plot", "sweep", "-o", "curves.svg"], &band[..]].concat())
    };
    let said = plot("policy.pole.entropy");
    assert_eq!(said.stdout, "8 runs are drawn in curves.svg\n", "{said:?}");
    assert!(folder.read("curves.svg").contains("hidden = [4, 4], learning_rate = 0.01"));
    let said = plot("policy.pole.entrop");
    assert!(said.code == Some(2) && said.stderr.contains("policy.pole.entropy"), "{said:?}");
}

#[test]
fn a_fleet_of_two_algorithms_is_called_by_both() {
    let folder = Folder::new("fleet-algorithms");
    let sweep = ["train", "cartpole", "--sweep", "algorithm=ppo,a2c"];
    let said = folder.done(&[&sweep[..], &["--steps=128", "--envs=8", "--out=both"]].concat());
    assert!(said.stdout.starts_with("cartpole with ppo+a2c: 2 of 2 runs finished"), "{said:?}");
    assert_eq!(json(&folder, "both/summary.json")["algorithm"], "ppo+a2c");
}

#[test]
fn what_is_no_fleet_is_refused_in_one_sentence() {
    let folder = Folder::new("fleet-refused");
    for (args, words) in [
        (&["--seeds", "5..5"][..], "expected A..B"),
        (&["--seeds", "0..2000000"], "at most 100000 runs"),
        (&["--sweep", "total_steps=1,2"], "total_steps can't be swept: all runs"),
        (&["--sweep", "seed=1,2"], "use --seeds"),
        (&["--sweep", "gama=1,2"], "nearest known key is \"gamma\""),
        (&["--sweep", "gamma=0.9,many"], "gamma = \"many\""),
        (&["--sweep", "gamma=0.9", "--sweep", "gamma=0.8"], "gamma is swept already"),
        (&["--seeds", "0..2", "--backend", "abacus"], "--backend abacus"),
    ] {
        let said = folder.warp(&[&["train"], &SMALL[..], &["--out", "none"], args].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words) && said.stderr.lines().count() == 1, "{said:?}");
        assert!(!folder.path("none").exists());
    }
    train(&folder, &["--seeds", "0..1", "--out", "taken"]);
    let again = ["--seeds", "0..1", "--out", "taken"];
    let said = folder.warp(&[&["train"], &SMALL[..], &again].concat());
    assert!(said.code == Some(2) && said.stderr.contains("already contains a run"), "{said:?}");
    std::fs::write(folder.path("taken/weights/00000.safetensors"), "cut").unwrap();
    let said = folder.warp(&["eval", "taken"]);
    assert!(said.code == Some(2) && said.stderr.contains("00000.safetensors"), "{said:?}");
}

#[test]
fn a_fleet_with_replay_memories_is_its_runs_by_themselves() {
    let folder = Folder::new("fleet-replay");
    let run = ["train", "pendulum", "--device", "cpu", "--steps", "300", "--set", "algorithm=sac"];
    let small = ["--set", "hidden=[8]", "--set", "batch_size=16"];
    let train = |more: &[&str]| folder.done(&[&run[..], &small, more].concat());
    train(&["--seeds", "0..2", "--out", "many"]);
    train(&["--seed", "1", "--out", "plain"]);
    let eval = |run: &str| folder.done(&["eval", run, "--episodes", "3", "--json"]).json();
    assert_eq!(eval("many")["runs"][1]["evaluation"], eval("plain"));
}

#[test]
fn halving_stops_the_worse_settings_and_leaves_the_others_as_they_are() {
    let folder = Folder::new("fleet-halving");
    // The first of them learns nothing.
    let sweep =
        ["--sweep", "learning_rate=1e-9,0.002,0.005,0.01", "--seeds", "0..2", "--halving=2"];
    let steps = ["--steps", "10240", "--out", "halved"];
    let said = folder.train(&[&sweep[..], &steps].concat()).stdout;
    assert!(said.contains("2 of 8 runs finished, 6 were stopped by halving"), "{said}");
    let summary = json(&folder, "halved/summary.json");
    let of_run = |key: &str| -> Vec<Value> {
        let runs = summary["runs"].as_array().unwrap().iter();
        runs.map(|run| run.get(key).cloned().unwrap_or_default()).collect()
    };
    let (rounds, steps) = (of_run("stopped_in_round"), of_run("env_steps"));
    let count = |round: Value, length: u64| {
        let found = rounds.iter().zip(&steps).filter(|(own, _)| **own == round);
        assert!(found.clone().all(|(_, steps)| *steps == length), "{rounds:?} {steps:?}");
        found.count()
    };
    assert_eq!(
        (count(1.into(), 2560), count(2.into(), 5120), count(Value::Null, 10240)),
        (4, 2, 2)
    );
    assert_eq!(rounds[0], 1, "{said}");
    // What was stopped when stands behind what went on, in the order of its rounds.
    let line = |place: &str| said.lines().find(|line| line.starts_with(place)).unwrap().to_string();
    assert!(!line("1. ").contains("stopped"), "{said}");
    assert!(line("2. ").contains(" (stopped after round 2, 5120 steps): mean return"), "{said}");
    assert!(line("4. ").contains(" (stopped after round 1, 2560 steps): mean return"), "{said}");
    // A run that went on is the run by itself, one that was stopped its beginning.
    for (run, (rate, seed)) in [1e-9, 0.002, 0.005, 0.01]
        .iter()
        .flat_map(|rate| [(rate, 0), (rate, 1)])
        .enumerate()
        .filter(|(run, _)| *run == 1 || rounds[*run].is_null())
    {
        let out = format!("plain{run}");
        let (set, seed) = (format!("learning_rate={rate}"), seed.to_string());
        let length = steps[run].to_string();
        folder.train(&["--set", &set, "--seed", &seed, "--steps", &length, "--out", &out]);
        let file = |path: String| std::fs::read(folder.path(&path)).unwrap();
        let length = steps[run].as_u64().unwrap();
        let plain = file(format!("{out}/checkpoints/{length:012}/weights.safetensors"));
        assert!(file(format!("halved/weights/{run:05}.safetensors")) == plain, "run {run}");
    }
    let report = folder.done(&["report", "halved"]).stdout;
    assert!(report.contains("Excluded: 6 runs stopped by successive halving."), "{report}");
    // The mean is one over those that went to their ends.
    let eval = folder.done(&["eval", "halved", "--episodes=2"]).stdout;
    let start = "2 of 8 runs have finished, 6 were stopped by halving; 2 episodes of each\n";
    assert!(eval.starts_with(start), "{eval}");
    assert!(eval.lines().last().unwrap().starts_with("all runs: mean return "), "{eval}");
    assert!(eval.lines().last().unwrap().contains("2 runs"), "{eval}");
    assert!(eval.contains("learning_rate = 0.000000001 (stopped after round 1): "), "{eval}");
    let one = folder.done(&["eval", "halved", "--episodes=2", "--run=0"]).stdout;
    assert!(one.starts_with("2 episodes\n") && one.lines().count() == 2, "{one}");
    let winner: toml::Table = folder.read("halved/winner.toml").parse().unwrap();
    assert!(
        line("1. ").contains(&format!("learning_rate = {}:", winner["learning_rate"])),
        "{said}"
    );
}

#[test]
fn what_can_not_be_drawn_or_halved_is_refused() {
    let folder = Folder::new("fleet-halving-refused");
    let range = "gamma=uniform(0.9,1)";
    for (args, words) in [
        (&["cartpole", "--sweep", range][..], "set the number of sampled values with --samples N"),
        (&["cartpole", "--sweep", "gamma=0.9,0.8", "--samples=2"], "no range is swept"),
        (
            &["tag_continuous", "--sweep", range, "--samples=2", "--halving=2"],
            "trains several groups",
        ),
    ] {
        let said = folder.warp(&[&["train"], args, &["--device=cpu", "--out", "none"]].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words) && said.stderr.lines().count() == 1, "{said:?}");
        assert!(!folder.path("none").exists());
    }
}

#[test]
fn weights_that_are_lost_or_changed_are_noticed_and_trained_again() {
    let folder = Folder::new("fleet-lost");
    train(&folder, &["--seeds", "0..4", "--out", "many"]);
    let before = folder.files("many/weights");
    let path = |run: &str| folder.path(&format!("many/weights/{run}.safetensors"));
    let mut bytes = std::fs::read(path("00001")).unwrap();
    // A weight, and so a number as good as any other.
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    std::fs::write(path("00001"), bytes).unwrap();
    let said = folder.warp(&["eval", "many", "--episodes=2"]);
    assert!(said.code == Some(2) && said.stderr.contains("its digest does not match"), "{said:?}");
    assert!(said.stderr.contains("--resume many trains it again"), "{said:?}");
    std::fs::remove_file(path("00001")).unwrap();
    let said = folder.warp(&["eval", "many", "--episodes=2", "--run=1"]);
    assert!(said.code == Some(2) && said.stderr.contains("00001.safetensors"), "{said:?}");
    std::fs::remove_file(path("00003")).unwrap();
    let kept = ["metrics.jsonl", "runs.jsonl"].map(|file| folder.read(&format!("many/{file}")));
    let said = folder.done(&["train", "--resume", "many"]);
    assert!(said.stderr.contains("trained again: 2 runs, from run 1 on"), "{said:?}");
    assert!(folder.files("many/weights") == before);
    assert_eq!(
        kept,
        ["metrics.jsonl", "runs.jsonl"].map(|file| folder.read(&format!("many/{file}")))
    );
    let said = folder.done(&["train", "--resume", "many"]);
    assert!(said.stdout.contains("all runs of the fleet in many have finished"), "{said:?}");
    // A fleet of an older build has no digests.
    std::fs::remove_file(folder.path("many/runs.jsonl")).unwrap();
    let said = folder.done(&["eval", "many", "--episodes=2"]).stdout;
    assert!(said.starts_with("4 of 4 runs have finished"), "{said}");
    folder.done(&["report", "many"]);
}

/// Runs that differ in name only would be taken for a comparison.
#[test]
fn a_key_that_reaches_no_policy_is_not_swept_and_said_where_it_is_set() {
    let folder = Folder::new("fleet-shadowed");
    let own = "--set=policy.pole.learning_rate=0.003";
    let run = [&["train"], &SMALL[..], &["--steps=128", own, "--out=run"]].concat();
    let said = folder.warp(&[&run[..], &["--sweep=learning_rate=0.1,0.2"]].concat());
    let words = "has no effect: policy.pole.learning_rate is set, and comes first";
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains(&format!("--sweep learning_rate {words}")), "{said:?}");
    let said = folder.done(&[&run[..], &["--set=learning_rate=0.1"]].concat());
    assert!(said.stderr.contains(&format!("--set learning_rate=0.1 {words}")), "{said:?}");
    // Nor does a factor do anything that is larger than the number of settings.
    let few = ["--sweep=gamma=0.9,0.99", "--halving=3"];
    let run = [&["train"], &SMALL[..], &["--steps=128", "--out=few"], &few].concat();
    let said = folder.done(&run);
    assert!(said.stderr.contains("--halving 3 has no effect on 2 settings"), "{said:?}");
}

/// As a process leaves it that is killed between the last run's end and its own.
#[test]
fn what_a_finished_fleet_lacks_is_made_when_it_is_resumed() {
    let folder = Folder::new("fleet-lacks");
    let sweep = ["--sweep", "learning_rate=0.001,0.01,0.02,0.03", "--halving=2"];
    train(&folder, &[&sweep[..], &["--seeds", "0..2", "--out", "many"]].concat());
    let [curves, winner] = ["many/curves.png", "many/winner.toml"].map(|file| folder.path(file));
    let before = [&curves, &winner].map(|file| std::fs::read(file).unwrap());
    let n_events = folder.files("many/tensorboard").len();
    std::fs::write(&curves, "").unwrap();
    std::fs::remove_file(&winner).unwrap();
    std::fs::remove_dir_all(folder.path("many/tensorboard")).unwrap();
    let said = folder.done(&["train", "--resume", "many"]).stdout;
    assert!(said.ends_with("made: curves.png, tensorboard, winner.toml\n"), "{said}");
    assert!(before == [&curves, &winner].map(|file| std::fs::read(file).unwrap()));
    assert_eq!(folder.files("many/tensorboard").len(), n_events);
    let said = folder.done(&["train", "--resume", "many"]).stdout;
    assert_eq!(said, "all runs of the fleet in many have finished\n");
}

/// As a process leaves it that is killed between the last run's end and its own, after one that was stopped.
#[cfg(unix)]
#[test]
fn curves_of_fewer_runs_are_not_taken_for_those_of_all() {
    let folder = Folder::new("fleet-outdated");
    train(&folder, &["--seeds", "0..2", "--out", "many"]);
    let curves = folder.path("many/curves.png");
    let all = std::fs::read(&curves).unwrap();
    std::fs::write(&curves, "of fewer runs").unwrap();
    std::fs::remove_file(folder.path("many/weights/00001.safetensors")).unwrap();
    // No file may become as large as the curves.
    let limited = ["-c", "ulimit -f 80 && exec \"$0\" train --resume many --device cpu"];
    let mut shell = std::process::Command::new("sh");
    shell.args(limited).arg(env!("CARGO_BIN_EXE_warp")).current_dir(folder.path(""));
    let said: Said = shell.output().unwrap().into();
    let words = "cannot write \"many/curves.png\"";
    assert!(said.code == Some(2) && said.stderr.contains(words), "{said:?}");
    let said = folder.done(&["train", "--resume", "many"]).stdout;
    assert!(said.ends_with("made: curves.png\n"), "{said}");
    assert!(std::fs::read(&curves).unwrap() == all);
}
