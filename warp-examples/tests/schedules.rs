//! Learning rates over shares of a run: at any length, interrupted, lengthened, in fleets; and what is
//! said of it all before training.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
use warp_command::{Folder, SMALL, Said, same_run};

/// The small run with the learning rate of the environment's default configuration.
fn annealed() -> Vec<&'static str> {
    [&["train"], &SMALL[..SMALL.len() - 1]].concat()
}

fn trained(folder: &Folder, more: &[&str]) -> Said {
    folder.done(&[&annealed()[..], more].concat())
}

fn rates(folder: &Folder, run: &str, policy: &str) -> Vec<f64> {
    let rate = |line: Value| line["policy"][policy]["learning_rate"].as_f64().unwrap();
    folder.metrics(run).into_iter().map(rate).collect()
}

/// A line of a configuration.
fn line(text: &str, key: &str) -> String {
    let start = format!("{key} = ");
    text.lines().find(|line| line.starts_with(&start)).unwrap().to_string()
}

#[test]
fn a_default_rate_falls_until_the_end_at_any_length() {
    let folder = Folder::new("lengths");
    for (steps, iterations) in [("512", 4), ("2560", 20)] {
        let said = trained(&folder, &["--steps", steps, "--out", steps]);
        assert!(said.stderr.contains("based on the default configuration of cartpole for ppo\n"));
        assert!(!said.stderr.contains("learns nothing"), "{said:?}");
        // A run's configuration has steps, which stay where they are.
        let config = folder.read(&format!("{steps}/config.toml"));
        let wanted = format!("learning_rate = [[0, 0.0025], [{steps}, 0.0]]");
        assert_eq!(line(&config, "learning_rate"), wanted);
        let rates = rates(&folder, steps, "pole");
        let at = |i: usize| 0.0025 - 0.0025 * (i as f64 / iterations as f64);
        assert_eq!(rates.len(), iterations);
        assert!(
            rates.iter().enumerate().all(|(i, rate)| (rate - at(i)).abs() < 1e-12),
            "{rates:?}"
        );
    }
    // The environment's own has shares, so that it can be copied for a run of any length.
    let text = folder.done(&["config", "cartpole"]).stdout;
    assert_eq!(line(&text, "learning_rate"), r#"learning_rate = [["0%", 0.0025], ["100%", 0.0]]"#);
}

#[test]
fn taggers_learn_in_a_short_run_too() {
    let folder = Folder::new("taggers");
    let tag = "train tag_continuous --envs 4 --steps 400 --out run --set num_steps=10 --set hidden=[8] \
               --set env.num_taggers=2 --set env.num_runners=3 --set env.num_other_agents_observed=2 \
               --set env.episode_length=10 --set num_minibatches=1";
    let said = folder.done(&tag.split_whitespace().collect::<Vec<_>>());
    let learns = |policy: &str| rates(&folder, "run", policy).iter().map(|r| *r > 0.0).collect();
    let (taggers, runners): (Vec<bool>, Vec<bool>) = (learns("tagger"), learns("runner"));
    assert_eq!(taggers, [false, false, false, false, false, false, false, true, true, true]);
    assert_eq!(runners, [true, true, true, true, true, true, true, false, false, false]);
    let words = "policy \"tagger\" learns nothing up to step 240, 60 % of the run";
    assert!(said.stderr.contains(words), "{said:?}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_with_shares_equals_one_that_never_stopped() {
    let folder = Folder::new("interrupted-shares");
    let length = ["--steps", "50000", "--set=checkpoint_steps=512"];
    let args = [&annealed()[..], &length, &["--out", "run"]].concat();
    let child = folder.spawn(&args);
    folder.wait_for(|folder| folder.checkpoint("run").filter(|step| *step >= 1024));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(130), "{said:?}");
    let reached = folder.checkpoint("run").unwrap();
    let said = folder.done(&["train", "--resume", "run"]);
    trained(&folder, &[&length[..], &["--out", "whole"]].concat());
    same_run(&folder, "run", "whole");
    // The steps of this part with its seconds, the total beside it.
    let summary: Value = serde_json::from_str(&folder.read("run/summary.json")).unwrap();
    assert_eq!(summary["env_steps"], 50_048);
    assert_eq!(summary["part_env_steps"], 50_048 - reached);
    let words = format!(", {} steps in ", 50_048 - reached);
    assert!(said.stdout.contains(&words), "{said:?}");
    assert!(said.stdout.contains(", 50048 in total; the run is in run"), "{said:?}");
}

#[test]
fn a_longer_run_says_how_its_rate_goes_on() {
    let folder = Folder::new("extended");
    trained(&folder, &["--steps", "512", "--out", "run"]);
    let before = folder.files("run");
    let longer = ["train", "--resume", "run", "--steps", "1024"];
    let said = folder.warp(&longer);
    assert_eq!(said.code, Some(2), "{said:?}");
    let sentence = "error: a run of 512 steps can't be extended to 1024 without changes: learning_rate \
                    would stay at 0 from step 512 on; set a new value with --set, as in --set \
                    learning_rate=0.0001\n";
    assert_eq!(said.stderr, sentence);
    assert!(folder.files("run") == before);
    // Points over shares of the whole run.
    let rate = "--set=learning_rate=[[0%, 1e-3], [50%, 1e-3], [100%, 0]]";
    let said = folder.done(&[&longer[..], &[rate]].concat());
    assert!(said.stdout.contains(", 512 steps in ") && said.stdout.contains(", 1024 in total"));
    let config = folder.read("run/config.toml");
    let wanted = "learning_rate = [[0, 0.001], [512, 0.001], [1024, 0.0]]";
    assert_eq!(line(&config, "learning_rate"), wanted);
    assert_eq!(line(&config, "total_steps"), "total_steps = 1024");
    assert_eq!(rates(&folder, "run", "pole")[4..], [0.001, 0.00075, 0.0005, 0.00025]);
    // What held before is kept.
    let earlier = folder.read("run/config-000000000512.toml");
    assert_eq!(line(&earlier, "learning_rate"), "learning_rate = [[0, 0.0025], [512, 0.0]]");
    // A rate that was given as 0 is one's own business, but it is said.
    let said = folder.done(&["train", "--resume", "run", "--steps=1280", "--set=learning_rate=0"]);
    assert!(said.stderr.contains("policy \"pole\" learns nothing throughout"), "{said:?}");
}

#[test]
fn fleets_and_sweeps_have_shares_of_their_runs() {
    let folder = Folder::new("fleet-shares");
    let fleet = [&annealed()[1..], &["--steps", "512"]].concat();
    let values =
        "--sweep=learning_rate=[[0%, 1e-3], [100%, 0]],0.001,[[\"0%\", 0.0], [\"50%\", 0.1]]";
    let said =
        folder.done(&[&["train"], &fleet[..], &["--seeds=3..5", values, "--out=fleet"]].concat());
    assert_eq!(said.stderr.matches("based on").count(), 1, "{said:?}");
    let rate = "--set=learning_rate=[[0, 1e-3], [512, 0]]";
    folder.done(&[&["train"], &fleet[..], &["--seed=4", rate, "--out=one"]].concat());
    let last = |run: &str, number: Option<u64>| {
        let lines = folder.metrics(run).into_iter();
        let mut lines = lines.filter(|line| number.is_none_or(|number| line["run"] == number));
        lines.next_back().unwrap()["policy"].clone()
    };
    // Records of fleets have seven digits.
    let of_fleet = last("fleet", Some(1))["pole"].clone();
    for (key, value) in last("one", None)["pole"].as_object().unwrap() {
        let (value, other) = (value.as_f64().unwrap(), of_fleet[key].as_f64().unwrap());
        assert!(
            (value - other).abs() <= 1e-6 * value.abs(),
            "{key}: {value}, in the fleet {other}"
        );
    }
    assert_eq!(last("fleet", Some(5))["pole"]["learning_rate"], 0.1);
    folder.done(&["eval", "fleet", "--episodes", "2"]);
}

#[test]
fn what_a_run_is_based_on_is_said() {
    let folder = Folder::new("basis");
    let file = |name: &str, text: &str| std::fs::write(folder.path(name), text).unwrap();
    let short = ["--envs=2", "--set=num_steps=8", "--steps=16"];
    let said = |target: &str, more: &[&str]| {
        folder.done(&[&["train", target], &short[..], more].concat()).stderr
    };
    file("mine.toml", "env_id = \"acrobot\"\nhidden = [8]\nlearning_rate = 0.001\n");
    let words = "based on \"mine.toml\"; from the default configuration of acrobot for ppo come: ";
    let stderr = said("mine.toml", &["--set=gamma=0.9"]);
    let left = stderr.lines().find_map(|line| line.strip_prefix(words)).unwrap();
    assert!(left.contains("norm_obs = true") && left.contains("gae_lambda = 0.94"), "{left}");
    for key in ["gamma =", "num_envs", "learning_rate", "env_id", "hidden"] {
        assert!(!left.contains(key), "{key}: {left}");
    }
    let whole = folder.done(&["config", "acrobot"]).stdout;
    file("whole.toml", &whole);
    assert!(said("whole.toml", &[]).contains("based on \"whole.toml\" alone\n"));
    // Nor does one need defaults where there are none for its algorithm.
    let whole = folder.done(&["config", "mountain_car", "--set=algorithm=a2c"]).stdout;
    std::fs::write(folder.path("a2c.toml"), &whole).unwrap();
    assert!(said("a2c.toml", &[]).contains("based on \"a2c.toml\" alone\n"));
    std::fs::write(folder.path("a2c.toml"), whole.replace("gamma = ", "# gamma = ")).unwrap();
    assert!(said("a2c.toml", &[]).contains("none for a2c: keys that are not set"));
    let stderr = said("covid19", &["--set=algorithm=a2c"]);
    let words = "warning: covid19 has a default configuration for ppo, but none for a2c: keys \
                 that are not set have general defaults, which may not learn anything here\n";
    assert!(stderr.contains(words), "{stderr}");
}

#[test]
fn one_iteration_that_is_longer_than_the_run_is_said() {
    let folder = Folder::new("rounded");
    let said = trained(&folder, &["--steps", "20", "--out", "run"]);
    let words = "total_steps = 20: the run has one iteration of 128 steps (8 replicas x 16 steps) and \
                 ends after 128\n";
    assert!(said.stderr.contains(words), "{said:?}");
}

#[test]
fn a_run_with_a_replay_memory_reports_its_rates_and_gradients() {
    let folder = Folder::new("replay-figures");
    let run = |algorithm: &str, env: &str, more: &[&str]| {
        let [out, algorithm] =
            [format!("--out={algorithm}"), format!("--set=algorithm={algorithm}")];
        let own = ["train", env, "--envs=8", "--steps=1280", "--set=num_steps=16", &out];
        let keys = ["--set=hidden=[8]", "--set=learning_starts=256", &algorithm];
        folder.done(&[&own[..], &keys, more].concat());
    };
    run("td3", "pendulum", &["--set=critic_learning_rate=[[0, 0.001], [1280, 0]]"]);
    for (n, line) in (0..).zip(folder.metrics("td3")) {
        let (policy, step) = (&line["policy"]["pendulum"], 128.0 * f64::from(n));
        let rate = policy["critic_learning_rate"].as_f64().unwrap();
        assert!((rate - 0.001 * (1.0 - step / 1280.0)).abs() < 1e-9, "{line}");
        for name in ["critic_grad_norm", "actor_grad_norm"] {
            // Nothing is learned before.
            let is_there = policy[name].as_f64().is_some_and(|norm| norm > 0.0);
            assert_eq!(is_there, step >= 256.0, "{name}: {line}");
        }
        // Nobody times the phases.
        let rates = line["steps_per_second"].as_object().unwrap();
        assert_eq!(rates.keys().collect::<Vec<_>>(), ["total"]);
    }
    run("dqn", "cartpole", &[]);
    let last = folder.metrics("dqn").pop().unwrap();
    assert!(last["policy"]["pole"]["grad_norm"].as_f64().unwrap() > 0.0, "{last}");
    assert!(last["policy"]["pole"].get("critic_learning_rate").is_none(), "{last}");
}
