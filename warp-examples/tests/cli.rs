//! The `warp` command from outside: what it prints, what it leaves in a run's folder.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use serde_json::Value;
use warp_command::{Folder, ITERATION, SMALL};

fn has_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(*key).is_some(), "key {key} is missing in {value}");
    }
}

#[test]
fn a_run_leaves_its_folder_complete() {
    let folder = Folder::new("complete");
    let said = folder.train(&["--steps", "1000", "--seed", "7", "--out", "some/run"]);
    let last = said.stdout.lines().last().unwrap();
    assert!(last.contains("mean return") && last.contains("some/run"), "{last}");
    // Rounded up to whole iterations.
    let steps = 1000_u64.next_multiple_of(ITERATION);
    assert_eq!(folder.checkpoint("some/run"), Some(steps));
    let names: Vec<_> = folder.files("some/run").into_iter().map(|(name, _)| name).collect();
    let step = format!("checkpoints/{steps:012}");
    let expected = [
        &format!("{step}/manifest.json"),
        &format!("{step}/optimizer.safetensors"),
        &format!("{step}/state.safetensors"),
        &format!("{step}/weights.safetensors"),
        "config.toml",
        "curves.png",
        "metrics.jsonl",
        "summary.json",
        "tensorboard/events.out.tfevents.0000.warp",
    ];
    assert_eq!(names, expected.map(std::path::PathBuf::from));

    let summary: Value = serde_json::from_str(&folder.read("some/run/summary.json")).unwrap();
    let keys = [
        "env",
        "algorithm",
        "device",
        "backend",
        "seed",
        "env_steps",
        "agent_steps",
        "seconds",
        "env_steps_per_second",
        "mean_episode_return",
        "version",
    ];
    has_keys(&summary, &keys);
    assert_eq!(summary["env"], "cartpole");
    assert_eq!((&summary["algorithm"], &summary["seed"]), (&"ppo".into(), &7.into()));
    assert_eq!((&summary["device"], &summary["backend"]), (&"cpu".into(), &"native".into()));
    assert_eq!((&summary["env_steps"], &summary["agent_steps"]), (&steps.into(), &steps.into()));
    assert_eq!(summary["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        summary["mean_episode_return"].as_f64().unwrap() >= 8.0,
        "a pole takes 8 steps to fall"
    );

    let lines = folder.metrics("some/run");
    assert_eq!(lines.len() as u64, steps / ITERATION);
    for (i, line) in lines.iter().enumerate() {
        has_keys(line, &["iteration", "env_steps", "episodes", "episode_return", "episode_length"]);
        assert_eq!(line["env_steps"].as_u64().unwrap(), ITERATION * (i as u64 + 1));
        let policy = &line["policy"]["pole"];
        let losses = ["loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"];
        has_keys(policy, &losses);
        has_keys(policy, &["explained_variance", "grad_norm", "learning_rate"]);
        has_keys(&line["steps_per_second"], &["total", "policy", "sample", "step", "learn"]);
    }
    let seconds: Vec<f64> = lines.iter().map(|line| line["seconds"].as_f64().unwrap()).collect();
    assert!(seconds[0] > 0.0 && seconds.is_sorted(), "{seconds:?}");
    assert!(seconds.last().unwrap() <= &summary["seconds"].as_f64().unwrap());
    assert!(lines.iter().any(|line| line["episode_return"]["max"].as_f64().is_some()));
}

#[test]
fn a_folder_that_can_not_be_made_is_refused_with_a_way_out() {
    let folder = Folder::new("no-folder");
    std::fs::write(folder.path("file"), "").unwrap();
    let basedir = "--set=basedir=file/inner";
    for more in [&[][..], &["--seeds=0..2"]] {
        let said = folder.warp(&[&["train"], &SMALL[..], &["--steps=128", basedir], more].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        let words = "(basedir is \"file/inner\"; --out or --set basedir=runs gives another folder)";
        assert!(said.stderr.contains("cannot create \"file/inner"), "{said:?}");
        assert!(said.stderr.contains(words), "{said:?}");
    }
}

#[test]
fn the_written_configuration_is_complete_and_says_the_same_again() {
    let folder = Folder::new("config");
    folder.train(&["--steps", "128", "--out", "a"]);
    folder.done(&["train", "a/config.toml", "--out", "b"]);
    warp_command::same_run(&folder, "a", "b");
}

#[test]
fn a_taken_folder_is_refused_and_left_alone() {
    let folder = Folder::new("taken");
    folder.train(&["--steps", "128", "--out", "run"]);
    let before = folder.files("run");
    let again = [&["train"], &SMALL[..], &["--steps", "256", "--out", "run"]].concat();
    let said = folder.warp(&again);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("\"run\"") && said.stderr.contains("--resume"), "{said:?}");
    assert!(folder.files("run") == before);
    // What is no run is no hindrance.
    std::fs::create_dir(folder.path("notes")).unwrap();
    std::fs::write(folder.path("notes/readme.txt"), "mine").unwrap();
    folder.train(&["--steps", "128", "--out", "notes"]);
    assert_eq!(folder.read("notes/readme.txt"), "mine");
}

#[test]
fn default_folders_are_numbered() {
    let folder = Folder::new("numbered");
    for _ in 0..3 {
        folder.train(&["--steps", "1", "--seed", "4"]);
    }
    folder.train(&["--steps", "1", "--set", "algorithm=a2c"]);
    let runs = std::fs::read_dir(folder.path("runs")).unwrap();
    let mut names: Vec<_> = runs.map(|r| r.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = ["cartpole-a2c-s0", "cartpole-ppo-s4", "cartpole-ppo-s4-2", "cartpole-ppo-s4-3"];
    assert_eq!(names, expected);
}

#[test]
fn no_steps_leave_a_run_that_can_be_used() {
    let folder = Folder::new("nothing");
    folder.train(&["--steps", "0", "--out", "run"]);
    assert_eq!(folder.checkpoint("run"), Some(0));
    assert!(folder.metrics("run").is_empty());
    let summary: Value = serde_json::from_str(&folder.read("run/summary.json")).unwrap();
    assert_eq!((&summary["env_steps"], &summary["mean_episode_return"]), (&0.into(), &Value::Null));
    folder.done(&["eval", "run", "--episodes", "2"]);
    folder.done(&["train", "--resume", "run", "--steps", "128"]);
    folder.train(&["--steps", "128", "--out", "other"]);
    warp_command::same_run(&folder, "run", "other");
}

#[test]
fn evaluation_is_greedy_unless_told_and_repeats_itself() {
    let folder = Folder::new("eval");
    folder.train(&["--steps", "1280", "--out", "run"]);
    let before = folder.files("run");
    let eval = |more: &[&str]| {
        let args = [&["eval", "run", "--episodes", "20", "--json"], more].concat();
        folder.warp(&args).json()
    };
    let greedy = eval(&[]);
    let keys = ["episodes", "mean_episode_return", "std", "min", "max", "mean_episode_length"];
    has_keys(&greedy, &keys);
    assert_eq!(greedy["episodes"], 20);
    // Every step is worth 1, the last one too.
    assert_eq!(greedy["mean_episode_return"], greedy["mean_episode_length"]);
    let of = |key: &str| greedy[key].as_f64().unwrap();
    assert!(of("min") >= 8.0 && of("min") <= of("mean_episode_return"), "{greedy}");
    assert!(
        of("mean_episode_return") <= of("max") && of("std") >= 0.0 && of("confidence") >= 0.0,
        "{greedy}"
    );
    assert_eq!(eval(&["--greedy", "--threads", "1"]), greedy);
    assert_eq!(eval(&["--threads", "3"]), greedy);
    let stochastic = eval(&["--stochastic"]);
    assert_ne!(stochastic, greedy);
    assert_eq!(eval(&["--stochastic", "--threads", "3"]), stochastic);
    assert_ne!(eval(&["--random", "pole"]), greedy);
    assert!(folder.files("run") == before, "evaluation changes nothing");
    let plain = folder.done(&["eval", "run", "--episodes", "3"]).stdout;
    assert!(plain.contains("3 episodes after 1280 steps"), "{plain}");
    assert_eq!(folder.warp(&["eval", "run", "--greedy", "--stochastic"]).code, Some(2));
}

#[test]
fn two_groups_train_and_are_evaluated() {
    let folder = Folder::new("tag");
    let train = [
        "train",
        "tag_continuous",
        "--envs",
        "4",
        "--set",
        "num_steps=8",
        "--set",
        "hidden=[8]",
        "--set",
        "env.num_taggers=2",
        "--set",
        "env.num_other_agents_observed=2",
        "--set",
        "env.num_runners=3",
        "--set",
        "env.episode_length=10",
        "--set",
        "num_minibatches=1",
        "--steps",
        "128",
        "--out",
        "run",
    ];
    folder.done(&train);
    let line = folder.metrics("run").pop().unwrap();
    has_keys(&line["policy"], &["tagger", "runner"]);
    assert_eq!(line["agent_steps"], 5 * 128);
    let json =
        folder.warp(&["eval", "run", "--episodes", "4", "--json", "--random", "runner"]).json();
    has_keys(&json["group_return"], &["tagger", "runner"]);
    assert!(json["mean_episode_length"].as_f64().unwrap() <= 10.0);
}

#[test]
fn a_notice_is_printed_once_before_training() {
    let folder = Folder::new("notice");
    let small = ["--set=num_envs=2", "--set=num_steps=4", "--set=num_minibatches=1", "--steps=24"];
    let said = folder.done(&[&["train", "covid19"], &small[..]].concat());
    assert_eq!(said.stderr.matches("not for decisions about real policy").count(), 1, "{said:?}");
    let said = folder.train(&["--steps", "100"]);
    assert!(!said.stderr.contains("not for decisions"), "{said:?}");
}

#[test]
fn environments_are_listed() {
    let folder = Folder::new("envs");
    let json = folder.warp(&["envs", "--json"]).json();
    let envs = json["envs"].as_array().unwrap();
    let table = folder.done(&["envs"]).stdout;
    for name in ["cartpole", "tag_gridworld", "tag_continuous"] {
        let env = envs.iter().find(|env| env["name"] == name).unwrap();
        has_keys(env, &["n_agents", "groups", "step_limit"]);
        has_keys(&env["groups"][0], &["name", "n_agents", "observation", "action"]);
        assert!(table.contains(name));
        // Each has a default configuration that is complete.
        assert!(folder.done(&["config", name]).stdout.contains("[env]"));
    }
    for (alias, name) in [
        ("CartPole-v1", "cartpole"),
        ("Acrobot-v1", "acrobot"),
        ("MountainCar-v0", "mountain_car"),
        ("MountainCarContinuous-v0", "continuous_mountain_car"),
        ("Pendulum-v1", "pendulum"),
    ] {
        let env = envs.iter().find(|env| env["name"] == name).unwrap();
        assert_eq!(env["aliases"][0], alias);
        assert!(table.contains(&format!("{alias} is {name}")), "{table}");
        let alike = |args: &[&str]| folder.done(&[&["config"], args].concat()).stdout;
        assert_eq!(alike(&[alias]), alike(&[name]));
        assert_eq!(alike(&[name, "--set", &format!("env_id={alias}")]), alike(&[name]));
    }
    std::fs::write(folder.path("alias.toml"), "env_id = \"CartPole-v1\"\n").unwrap();
    assert!(folder.done(&["config", "alias.toml"]).stdout.contains("env_id = \"cartpole\""));
    let cartpole = envs.iter().find(|env| env["name"] == "cartpole").unwrap();
    assert_eq!((&cartpole["n_agents"], &cartpole["step_limit"]), (&1.into(), &500.into()));
}

#[test]
fn a_bench_reports_both_rates() {
    let folder = Folder::new("bench");
    let args =
        ["bench", "cartpole", "--seconds", "0.2", "--envs", "64", "--threads", "2", "--json"];
    let json = folder.warp(&args).json();
    let keys = ["env", "device", "envs", "threads", "observations_written", "env_steps_per_second"];
    has_keys(&json, &keys);
    has_keys(&json["with_policy"], &keys);
    assert_eq!(
        (&json["env"], &json["envs"], &json["threads"]),
        (&"cartpole".into(), &64.into(), &2.into())
    );
    assert_eq!(json["observations_written"], true);
    let rate = |json: &Value| json["env_steps_per_second"].as_f64().unwrap();
    assert!(rate(&json) > rate(&json["with_policy"]) && rate(&json["with_policy"]) > 0.0, "{json}");
}

#[test]
fn the_printed_configuration_has_a_comment_before_each_key() {
    let folder = Folder::new("comments");
    for args in [&["config", "cartpole"][..], &["config", "tag_continuous", "--set=algorithm=a2c"]]
    {
        let text = folder.done(args).stdout;
        let table: toml::Table = text.parse().unwrap();
        for key in ["num_envs", "total_steps", "learning_rate", "num_steps", "gamma", "vf_coef"] {
            assert!(table.contains_key(key), "{key}");
        }
        assert!(table["env"].as_table().unwrap().contains_key("episode_length"));
        let lines: Vec<&str> = text.lines().collect();
        let mut keys = 0;
        for pair in lines.windows(2).filter(|pair| pair[1].contains(" = ")) {
            assert!(pair[0].starts_with("# "), "no comment before {}", pair[1]);
            keys += usize::from(!pair[1].starts_with('#'));
        }
        assert!(keys > 20, "{keys}");
        // What is printed is a configuration.
        std::fs::write(folder.path("again.toml"), &text).unwrap();
        assert_eq!(folder.done(&["config", "again.toml"]).stdout, text);
    }
}

#[test]
fn several_runs_are_evaluated_and_summed_up_by_setting() {
    let folder = Folder::new("eval-several");
    for (seed, rate, out) in [("0", "0.01", "a0"), ("1", "0.01", "a1"), ("0", "0.001", "b")] {
        let rate = format!("learning_rate={rate}");
        folder.train(&["--steps", "128", "--seed", seed, "--set", &rate, "--out", out]);
    }
    let alone = |run: &str| folder.done(&["eval", run, "--episodes", "5", "--json"]).json();
    let args = ["eval", "a0", "a1", "b", "--episodes", "5"];
    let all = folder.done(&[&args[..], &["--json"]].concat()).json();
    for (at, run) in ["a0", "a1", "b"].into_iter().enumerate() {
        let mut wanted = alone(run);
        wanted["folder"] = run.into();
        assert_eq!(all["runs"][at], wanted);
    }
    let setting = |at: usize| &all["settings"][at];
    assert_eq!(setting(0)["setting"], "cartpole, PPO, learning_rate = 0.01");
    let mean = |at: usize| all["runs"][at]["mean_episode_return"].as_f64().unwrap();
    let (sum, apart) = (mean(0) + mean(1), (mean(0) - mean(1)).abs());
    let returns = |at: usize, key: &str| setting(at)["returns"][key].as_f64();
    assert!((returns(0, "mean").unwrap() - sum / 2.0).abs() < 1e-9);
    // Student's t for one degree of freedom: 12.706 std / sqrt(2), and std is the difference / sqrt(2).
    assert!((returns(0, "confidence").unwrap() - 12.706 * apart / 2.0).abs() < 1e-3 * apart + 1e-9);
    // One run has none.
    assert_eq!((returns(1, "n"), returns(1, "confidence")), (Some(1.0), None));
    let said = folder.done(&args).stdout;
    assert!(
        said.contains("(95 %, Student's t, 2 runs)") && said.contains("(1 run, no interval)"),
        "{said}"
    );
    let one = folder.done(&["eval", "b", "--episodes", "1"]).stdout;
    assert!(one.contains("(no interval)  min"), "{one}");
}

#[test]
fn help_and_version_are_no_errors() {
    let folder = Folder::new("help");
    let help = folder.done(&["--help"]).stdout;
    for command in ["train", "eval", "bench", "replay", "envs", "config"] {
        assert!(help.contains(command), "{help}");
        folder.done(&[command, "--help"]);
    }
    assert!(folder.done(&["--version"]).stdout.contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(folder.warp(&[]).code, Some(2));
}

#[test]
fn the_path_of_a_policy_is_compared_with_the_best() {
    let folder = Folder::new("pathway");
    let small = ["--envs=4", "--set=num_steps=8", "--set=hidden=[8]", "--steps=32", "--out=run"];
    folder.done(&[&["train", "catalysis"], &small[..]].concat());
    let path = folder.done(&["eval", "run", "--episodes=1", "--json"]).json()["pathway"].clone();
    has_keys(
        &path,
        &["reached_goal", "steps", "episode_return", "discounted_return", "barrier_ev"],
    );
    assert_eq!(path["best"]["steps"], 27);
    assert!(path["discounted_return"].as_f64() < path["best"]["discounted_return"].as_f64());
    let said = folder.done(&["eval", "run", "--episodes=1"]);
    assert!(said.stdout.contains("lowest barrier 0.957 eV"), "{said:?}");
    folder.train(&["--steps", "128", "--out", "other"]);
    let other = folder.done(&["eval", "other", "--episodes=1", "--json"]).json();
    assert!(other.get("pathway").is_none(), "{other}");
}

#[test]
#[cfg(feature = "cuda")]
fn both_bodies_are_compared_on_the_host() {
    use std::io::Write;
    if warp_func::host::Compiler::find().is_none() {
        // Past the harness, which shows nothing of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: both_bodies_are_compared_on_the_host: no C++ compiler found"
        );
        return;
    }
    let folder = Folder::new("parity");
    let said = folder.done(&["parity", "cartpole", "--host", "--envs", "5", "--steps", "60"]);
    assert!(said.stdout.contains("cartpole: bit-identical (5 replicas, 60 steps"), "{said:?}");
    let both = folder.warp(&["parity", "cartpole", "--host", "--device", "cuda"]);
    assert!(both.code != Some(0) && both.stderr.contains("--host"), "{both:?}");
}
