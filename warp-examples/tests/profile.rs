//! What is seen of a run from outside while it goes: `--profile`, `warp top`, `--dashboard`.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
use warp_command::Folder;

#[test]
fn a_trace_has_every_iteration_its_phases_evaluations_and_checkpoints() {
    let folder = Folder::new("profile");
    let keys = ["--set=eval_steps=512", "--set=eval_episodes=3", "--set=checkpoint_steps=640"];
    let steps = ["--steps=1280", "--out=run", "--profile=trace.json"];
    let said = folder.train(&[&keys[..], &steps].concat());
    assert!(said.stderr.contains("the trace is in trace.json"), "{said:?}");
    let events: Vec<Value> = serde_json::from_str(&folder.read("trace.json")).unwrap();
    let slices = |name: &str| -> Vec<(f64, f64)> {
        let own = events.iter().filter(|event| event["ph"] == "X" && event["name"] == name);
        own.map(|event| (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap())).collect()
    };
    let iterations = slices("iteration");
    assert_eq!(iterations.len(), 10);
    for phase in ["policy", "sample", "step", "learn"] {
        let own = slices(phase);
        assert_eq!(own.len(), 10, "{phase}");
        // Within its iteration, to the last nanosecond or so.
        for ((begin, length), (of, whole)) in own.iter().zip(&iterations) {
            assert!(*begin >= of - 1.0 && begin + length <= of + whole + 1.0, "{phase}");
        }
    }
    assert_eq!((slices("evaluation").len(), slices("checkpoint").len()), (2, 2));
    // Nothing of the run is longer than the run, and its iterations follow each other.
    assert!(iterations.is_sorted_by(|a, b| a.0 + a.1 <= b.0 + 1.0));
    let counters = events.iter().filter(|event| event["ph"] == "C").count();
    assert!((1..=10).contains(&counters), "{counters}");
    // The run is the run without.
    folder.train(&[&keys[..], &["--steps=1280", "--out=plain"]].concat());
    assert!(folder.files("run/checkpoints") == folder.files("plain/checkpoints"));
}

/// Before there is a run, or anything of one is changed.
#[test]
fn a_trace_is_refused_where_it_can_not_be() {
    let folder = Folder::new("profile-refused");
    folder.train(&["--steps=128", "--out=run"]);
    std::fs::write(folder.path("mine.json"), "{}").unwrap();
    let before = folder.files("");
    for (path, words) in [
        ("no/such/trace.json", "cannot write \"no/such/trace.json\""),
        ("none/trace.txt", "expected a name that ends in .json"),
        ("run/metrics.jsonl", "expected a name that ends in .json"),
        ("run/summary.json", "\"run/summary.json\" is for something else than a trace"),
        ("none/summary.json", "is for something else than a trace"),
        ("mine.json", "is for something else than a trace"),
    ] {
        let profile = format!("--profile={path}");
        let new = [&["train"], &warp_command::SMALL[..], &["--steps=128", "--out=none", &profile]];
        for args in [&new.concat()[..], &["train", "--resume=run", "--steps=256", &profile]] {
            let said = folder.warp(args);
            assert!(said.code == Some(2) && said.stderr.contains(words), "{args:?}: {said:?}");
        }
    }
    assert!(folder.files("") == before);
    // In the place of an older one, and in the run's own folder.
    for run in ["one", "two"] {
        folder.train(&["--steps=128", "--out", run, "--profile=trace.json"]);
    }
    folder.train(&["--steps=128", "--out=three", "--profile=three/trace.json"]);
    assert!(folder.read("three/trace.json").starts_with("[\n"));
}

#[test]
fn phases_that_nobody_times_are_not_in_a_trace() {
    let folder = Folder::new("profile-replay");
    let own = ["train", "cartpole", "--set=algorithm=dqn", "--envs=8", "--set=num_steps=16"];
    let more = ["--set=hidden=[8]", "--steps=1280", "--out=run", "--profile=trace.json"];
    let said = folder.done(&[&own[..], &more].concat());
    assert!(
        said.stderr.contains("time: iterations ") && !said.stderr.contains("learn"),
        "{said:?}"
    );
    let events: Vec<Value> = serde_json::from_str(&folder.read("trace.json")).unwrap();
    let n = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!((n("iteration"), n("learn")), (10, 0));
}

#[test]
fn a_verbose_run_says_once_where_the_time_of_its_start_goes() {
    let folder = Folder::new("start");
    let said = folder.train(&["--steps=1280", "--out=run", "--verbose"]).stderr;
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("start: ")).collect();
    let [line] = lines[..] else { panic!("{said}") };
    let (total, parts) = line["start: ".len()..].split_once(" s: ").unwrap();
    let part = |text: &str| -> (String, f64) {
        let (name, seconds) = text.rsplit_once(' ').unwrap();
        (name.into(), seconds.parse().unwrap())
    };
    let parts: Vec<(String, f64)> = parts.split(", ").map(part).collect();
    let names: Vec<&str> = parts.iter().map(|(name, _)| &**name).collect();
    let wanted = "configuration, device, kernels begun, weights, environments, learner, memory plan, folder, records, \
                  first iteration";
    assert_eq!(names.join(", "), wanted);
    // Nothing between them is lost; each is rounded to a millisecond.
    let sum: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    let rounding = 0.0005 * (parts.len() + 1) as f64;
    assert!((sum - total.parse::<f64>().unwrap()).abs() <= rounding + 1e-9, "{line}");
    folder.train(&["--steps=1280", "--out=resumed", "--verbose"]);
    let resumed = folder.done(&["train", "--resume=resumed", "--steps=2560", "--verbose"]).stderr;
    assert!(resumed.contains(", environments ") && resumed.contains(", checkpoint "), "{resumed}");
    let quiet = folder.train(&["--steps=1280", "--out=quiet"]).stderr;
    assert!(!quiet.contains("start: "), "{quiet}");
}

#[test]
fn top_says_a_line_of_each_run_where_there_is_no_terminal() {
    let folder = Folder::new("top");
    folder.train(&["--steps=1280", "--out=a"]);
    folder.train(&["--steps=2560", "--out=b", "--seed=3"]);
    let said = folder.done(&["top", "a", "b"]).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("a: 1280 of 1280 steps, return "), "{said}");
    assert!(lines[1].starts_with("b: 2560 of 2560 steps, return "), "{said}");
    folder.train(&["--steps=128", "--seeds=0..2", "--out=fleet"]);
    let said = folder.done(&["top", "fleet", "a"]).stdout;
    assert!(said.starts_with("fleet: a fleet, 2 of 2 runs have finished"), "{said}");
    let said = folder.warp(&["top", "nothing"]);
    assert!(said.code == Some(2) && said.stderr.contains("nothing"), "{said:?}");
    // What is there is shown beside what is not.
    let said = folder.warp(&["top", "nothing", "a"]);
    assert!(said.stdout.starts_with("a: 1280 of 1280 steps"), "{said:?}");
    assert!(said.code == Some(2) && said.stderr.contains("nothing"), "{said:?}");
}

#[test]
fn top_says_of_a_run_that_it_has_stopped_or_that_nothing_comes_of_it() {
    let folder = Folder::new("top-stopped");
    folder.train(&["--steps=2560", "--out=a", "--set=eval_steps=128", "--set=stop_at_return=1"]);
    let said = folder.done(&["top", "a"]).stdout;
    assert!(said.trim_end().ends_with(", stopped"), "{said}");
    // As if it had been killed an hour ago.
    std::fs::remove_file(folder.path("a/summary.json")).unwrap();
    let metrics = std::fs::File::options().append(true).open(folder.path("a/metrics.jsonl"));
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3605);
    metrics.unwrap().set_modified(hour_ago).unwrap();
    let said = folder.done(&["top", "a"]).stdout;
    assert!(said.trim_end().ends_with(", no news for 1 h 0 min"), "{said}");
}

#[test]
fn a_dashboard_without_a_terminal_is_the_usual_text() {
    let folder = Folder::new("dashboard");
    let args = ["--steps=128", "--out=run", "--dashboard"];
    let said = folder.warp(&[&["train"], &warp_command::SMALL[..], &args].concat());
    if cfg!(feature = "dashboard") {
        assert!(said.code == Some(0) && said.stdout.contains("the run is in run"), "{said:?}");
        assert!(!said.stdout.contains('\u{1b}'), "{said:?}");
    } else {
        assert!(said.code == Some(2), "{said:?}");
        assert!(said.stderr.contains("--dashboard needs the feature dashboard"), "{said:?}");
        assert!(!folder.path("run").exists(), "a folder of a run that did not begin");
    }
}
