//! Run configurations of the original that are refused: in a sentence with the line, whatever they
//! hold, and never with a panic.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod run_configs;

use proptest::prelude::*;
use run_configs::{changed, path, read, refused, text};
use warp_examples::settings;

#[test]
fn what_is_not_built_is_refused_in_one_sentence() {
    let whole = |name: &str| {
        let error = settings::configure(&path(name), &[], &warp_envs::registry()).unwrap_err();
        let start = format!("configuration \"{}\": ", path(name));
        format!("{error:#}").strip_prefix(&start).unwrap().to_string()
    };
    assert!(whole("default_configs").contains("saving.name = \"default\": there is no such"));
    let error = read("trainer: {}").unwrap_err();
    assert!(error.contains("the file has no key name"), "{error}");

    let backend = "env_backend: \"numba\"";
    let error = refused("single_cartpole", backend, "num_gpus: 2");
    assert!(error.starts_with("line 18: trainer.num_gpus = 2: "), "{error}");
    assert!(error.contains("for several GPUs use --gpus N"), "{error}");
    let with = |from: &str, to: &str| refused("single_cartpole", from, to);
    let weights = |path: &str| format!("model_ckpt_filepath: \"{path}\"");
    let error = with("model_ckpt_filepath: \"\"", &weights("/tmp/shared_1000.state_dict"));
    assert!(error.contains("state_dict\": weights of the original can't be read here"), "{error}");
    assert!(
        with("\"fully_connected\"", "\"transformer\"").contains("model.type = \"transformer\"")
    );
    assert!(with("A2C", "SAC").contains("expected \"A2C\", \"PPO\" or \"DDPG\""));
    let error = with(backend, "n_step: 5");
    assert!(
        error.ends_with("trainer.n_step = 5: n-step returns are only available with DDPG"),
        "{error}"
    );
}

#[test]
fn an_evaluator_evaluates_whenever_metrics_are_logged() {
    let file = path("single_continuous_mountain_car");
    let run = settings::configure(&file, &[], &warp_envs::registry()).unwrap().run;
    assert_eq!((run.eval_steps, run.eval_episodes, run.log_interval), (50_000_000, 10_000, 1000));
    assert_eq!((run.basedir.as_str(), run.tag.as_deref()), ("/tmp", Some("experiments")));
    let without = path("single_cartpole");
    let run = settings::configure(&without, &[], &warp_envs::registry()).unwrap().run;
    assert_eq!((run.eval_steps, run.log_interval), (0, 100));
    let error = refused("single_cartpole", "metrics_log_freq: 100", "metrics_log_freq: 0");
    assert!(error.ends_with("saving.metrics_log_freq = 0: must be at least 1"), "{error}");
    let error = refused("single_cartpole", "tag: \"experiments\"", "tag: a/b");
    assert!(error.contains("tag = \"a/b\": must be the name of a folder"), "{error}");
}

#[test]
fn weights_come_from_a_run_of_ours() {
    let pendulum = text("single_pendulum");
    let text = text("single_cartpole")
        .replace("model_ckpt_filepath: \"\"", "model_ckpt_filepath: \"runs/mine@best\"");
    let init_from = read(&text).unwrap().policies[0].config.init_from.clone();
    assert_eq!(init_from.as_deref(), Some("runs/mine@best"));
    // Actor and critic of DDPG lie in one run.
    let ddpg = |actor: &str, critic: &str| {
        let pendulum = pendulum.replace("actor: \"\"", &format!("actor: \"{actor}\""));
        read(&pendulum.replace("critic: \"\"", &format!("critic: \"{critic}\"")))
    };
    let run = ddpg("runs/mine", "runs/mine").unwrap();
    assert_eq!(run.policies[0].config.init_from.as_deref(), Some("runs/mine"));
    let error = ddpg("runs/mine", "runs/other").unwrap_err();
    assert!(error.contains("critic = \"runs/other\": actor and critic begin with one"), "{error}");
    let error = ddpg("a.state_dict", "b.state_dict").unwrap_err();
    assert!(error.contains("weights of the original can't be read here"), "{error}");
}

#[test]
fn all_eight_of_the_original_are_read_as_they_are() {
    for name in [
        "single_acrobot",
        "single_cartpole",
        "single_continuous_mountain_car",
        "single_mountain_car",
        "single_pendulum",
        "tag_continuous",
        "tag_gridworld",
        "tag_gridworld_with_reset_pool",
    ] {
        settings::configure(&path(name), &[], &warp_envs::registry()).unwrap();
    }
}

#[test]
fn replicas_with_a_goal_are_learned_from_more_often() {
    let keys = |name: &str| {
        let config = settings::configure(&path(name), &[], &warp_envs::registry()).unwrap();
        config.policies[0].config.clone()
    };
    assert_eq!(keys("single_mountain_car").neg_pos_env_ratio, Some(10.0));
    assert_eq!(keys("single_cartpole").neg_pos_env_ratio, None);
    let text = text("single_cartpole").replace("normalize_return: False", "normalize_return: True");
    assert!(read(&text).unwrap().policies[0].config.norm_return);
}

#[test]
fn ddpg_is_read_with_its_noise_and_rates() {
    let file = path("single_pendulum");
    let config = settings::configure(&file, &[], &warp_envs::registry()).unwrap();
    let keys = &config.policies[0].config;
    assert_eq!((config.run.num_envs, config.run.num_steps), (10_000, 5));
    assert_eq!((config.algorithm().as_str(), keys.train_freq, keys.n_step), ("ddpg", 5, 5));
    assert_eq!((keys.batch_size, keys.tau, keys.max_grad_norm.at(0)), (50_000, 0.05, 3.0));
    // The original's 0.2 is a torque, of which a half-range here is 2.
    assert_eq!((keys.noise_damping, keys.noise_std.at(0)), (0.15, 0.1));
    let critic = keys.critic_learning_rate.as_ref().unwrap();
    let after = 4_000_000_000;
    assert_eq!((keys.learning_rate.at(0), critic.at(0)), (1e-3, 1e-4));
    assert_eq!((keys.learning_rate.at(after), critic.at(after)), (5e-4, 5e-5));
}

#[test]
fn noise_of_the_original_is_in_units_of_actions() {
    let std = |name: &str, from: &str, to: &str| {
        let config = read(&changed(name, &[(from, to)])).unwrap();
        let std = &config.policies[0].config.noise_std;
        [std.at(0), std.at(1_000_000_000)]
    };
    // Torques within -2 to 2, pushes within -1 to 1.
    let scale = ("scale: 1.0", "scale: 3.0");
    assert_eq!(std("single_pendulum", scale.0, scale.1), [0.2 * 3.0 / 2.0; 2]);
    assert_eq!(std("single_continuous_mountain_car", scale.0, scale.1), [1.5; 2]);
    // A schedule is divided at all of its points, and so is the original's default, 0.2.
    let schedule = "stddev: [[0, 0.5], [1000000000, 0.25]]";
    assert_eq!(std("single_pendulum", "stddev: 0.2", schedule), [0.25, 0.125]);
    assert_eq!(std("single_pendulum", "stddev: 0.2", "stddev: ~"), [0.1; 2]);
}

#[test]
fn unknown_keys_are_refused_with_their_line_and_the_nearest_known() {
    let with = |from: &str, to: &str| refused("single_cartpole", from, to);
    let error = with("train_batch_size:", "train_batchsize:");
    let near = "the nearest known key is \"trainer.train_batch_size\"";
    assert!(error.contains("line 17: unknown key \"trainer.train_batchsize\"; "), "{error}");
    assert!(error.contains(near), "{error}");
    assert!(with("entropy_coeff:", "entropy_coef:").contains("\"policy.shared.entropy_coeff\""));
    assert!(with("fc_dims:", "fc_dim:").contains("\"policy.shared.model.fc_dims\""));
    assert!(with("episode_length:", "episode_len:").contains("\"env.episode_length\""));
    assert!(with("basedir:", "base_dir:").contains("\"saving.basedir\""));
    assert!(with("saving:", "savings:").contains("nearest known key is \"saving\""));
    let error = with("name: \"single_cartpole\"\n# Env", "name: \"single_cartpol\"\n# Env");
    assert!(error.contains("did you mean \"single_cartpole\"?"), "{error}");
    let error = with("    shared:", "    pilot:");
    assert!(error.contains("cartpole has no agents \"pilot\"; policies are \"shared\" or pole"));
    // The tag environments have no pool of their own size.
    let error = refused("tag_gridworld", "num_taggers: 4", "reset_pool_size: 4");
    assert!(error.contains("unknown key \"env.reset_pool_size\""), "{error}");
}

#[test]
fn wrong_values_are_refused_with_their_line() {
    let with = |from: &str, to: &str| refused("single_cartpole", from, to);
    let error = with("num_envs: 100", "num_envs: many");
    assert!(error.starts_with("line 15: trainer.num_envs = \"many\": expected a whole number"));
    assert!(with("num_envs: 100", "num_envs: 0").contains("num_envs = 0: must be at least 1"));
    assert!(with("num_envs: 100", "num_envs: 010").contains("expected a whole number"));
    assert!(with("num_envs: 100", "num_envs: -1").contains("expected a whole number"));
    let error = with("num_envs: 100", "num_envs: 60000");
    assert!(error.contains("train_batch_size = 50000: it must be at least the number"), "{error}");
    let error = with("num_episodes: 200000", "num_episodes: 99");
    assert!(error.contains("num_episodes = 99: episodes of 500 steps give less"), "{error}");
    assert!(with("lr: 0.001", "lr: [[5, 0.1], [3, 0.2]]").contains("increasing steps"));
    assert!(with("lr: 0.001", "lr: {actor: 0.1}").contains("lr = a mapping of keys: expected"));
    assert!(with("fc_dims: [32, 32]", "fc_dims: [32, x]").contains("fc_dims = [32, \"x\"]"));
    assert!(with("to_train: True", "to_train: 1").contains("expected true or false"));
    assert!(with("episode_length: 500", "episode_length: 0").contains("episode_length = 0"));
    assert!(with("max_grad_norm: 3", "max_grad_norm: 0").contains("must be above 0"));
    assert!(with("gamma: 0.99", "gamma: 2").contains("policy.shared.gamma = 2"));
    assert!(with("policy: # list", "policy: 3 # list").starts_with("line "));
    assert!(with("reset_pool_size: 1000", "reset_pool_size: [1]").contains("reset_pool_size"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Bytes exchanged, lines dropped, doubled or moved, the end cut off: a configuration or a
    /// sentence.
    #[test]
    fn damaged_samples_never_panic(
        which in 0_usize..8,
        flips in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(
            b"\0\t\n\r #:-[]{},&*!|>'\"%@`~.09eaT\x7f".to_vec())), 0..6),
        dropped in prop::option::of(any::<prop::sample::Index>()),
        doubled in prop::option::of(any::<prop::sample::Index>()),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let names = ["single_acrobot", "single_cartpole", "single_continuous_mountain_car",
            "single_mountain_car", "single_pendulum", "tag_continuous", "tag_gridworld",
            "default_configs"];
        let mut bytes = text(names[which]).into_bytes();
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let damaged = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<&str> = damaged.lines().collect();
        if let (Some(at), true) = (dropped, lines.len() > 1) {
            lines.remove(at.index(lines.len()));
        }
        if let Some(at) = doubled {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        let _ = read(&lines.join("\n"));
    }

    /// Any text at all.
    #[test]
    fn random_text_never_panics(text in "[\\[\\]{}\":,a-z0-9#|>&*!%\\- \n\t]{0,80}", any in ".*") {
        let _ = (read(&text), read(&any));
        let _ = read(&format!("name: single_cartpole\npolicy: {{shared: {{{any}}}}}"));
    }

    /// Any value in any place.
    #[test]
    fn any_value_for_any_key_never_panics(
        line in any::<prop::sample::Index>(),
        value in prop::sample::select(vec!["0", "-1", "1e300", "99999999999", "-0.0", ".inf", ".nan",
            "[]", "[[]]", "[[0, 1], [1]]", "{}", "{a: 1}", "true", "''", "~", "0.5", "[1, 2]"]),
        which in prop::sample::select(vec!["single_cartpole", "tag_continuous", "tag_gridworld"]),
    ) {
        let text = text(which);
        let keys: Vec<usize> = (0..text.lines().count())
            .filter(|i| text.lines().nth(*i).is_some_and(|l| l.contains(": "))).collect();
        let at = keys[line.index(keys.len())];
        let lines = text.lines().enumerate().map(|(i, line)| match line.split_once(": ") {
            Some((key, _)) if i == at => format!("{key}: {value}\n"),
            _ => format!("{line}\n"),
        });
        let _ = read(&lines.collect::<String>());
    }
}
