//! Run configurations of the original come to the values that they had there, and train.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod run_configs;
mod warp_command;

use run_configs::{changed, read, sample, text};
use warp_command::Folder;
use warp_core::LimitEnds;
use warp_examples::yaml;
use warp_func::Start;
use warp_train::config::{Init, PolicyConfig};
use warp_train::{Schedule, TrainConfig};

/// T, iterations, replicas and the places where episodes start.
fn extent(config: &TrainConfig) -> (usize, u64, usize, Start, Option<usize>) {
    let iterations = config.run.total_steps / config.steps_per_iteration();
    assert_eq!(config.run.total_steps % config.steps_per_iteration(), 0);
    let run = &config.run;
    (run.num_steps, iterations, run.num_envs, run.start, run.pool_size)
}

fn only_policy(config: &TrainConfig, tag: &str) -> PolicyConfig {
    assert_eq!((config.policies.len(), config.policies[0].name.as_str()), (1, tag));
    // It acts for everyone.
    assert_eq!(config.policies[0].groups().count(), config.spec.groups.len());
    config.policies[0].config.clone()
}

/// What all samples have in common.
fn is_the_originals(policy: &PolicyConfig) {
    assert!(policy.to_train && policy.shared_trunk && !policy.norm_adv);
    assert_eq!((policy.algorithm.as_str(), policy.init), ("a2c", Init::Kaiming));
    assert_eq!((policy.gae_lambda.at(0), policy.adam_eps), (1.0, 1e-8));
    assert!(!policy.compat_last_step, "the reward of the last step counts");
}

fn coefficients(policy: &PolicyConfig) -> [f64; 5] {
    let constant = |schedule: &Schedule| {
        assert_eq!(schedule.lowest(), schedule.largest());
        schedule.at(0)
    };
    let (vf, ent) = (constant(&policy.vf_coef), constant(&policy.ent_coef));
    let (norm, gamma) = (constant(&policy.max_grad_norm), constant(&policy.gamma));
    [vf, ent, norm, gamma, constant(&policy.learning_rate)]
}

#[test]
fn tag_gridworld_is_as_it_was() {
    for (name, start, rows) in [
        ("tag_gridworld", Start::Fixed, None),
        ("tag_gridworld_with_reset_pool", Start::Pool, Some(5)),
    ] {
        let config = sample(name);
        assert_eq!(config.run.env_id, "tag_gridworld");
        assert_eq!(extent(&config), (100, 10, 2000, start, rows));
        assert_eq!((config.run.seed, config.run.checkpoint_steps), (20, Some(5000 * 200_000)));
        let policy = only_policy(&config, "shared");
        is_the_originals(&policy);
        assert_eq!(coefficients(&policy), [1.0, 0.05, 3.0, 0.98, 0.001]);
        assert_eq!(policy.hidden, [32, 32]);
        assert_eq!((config.spec.groups[0].n_agents, config.spec.time_limit.steps), (4, 100));
        // 4 agents and a runner, fully observed.
        assert_eq!(config.spec.groups[0].observation_width(), 21);
        assert_eq!(config.env["grid_length"].as_integer(), Some(100));
        assert_eq!(config.env["tag_penalty_for_runner"].as_float(), Some(5.0));
        let placed = if rows.is_none() { "original" } else { "original_pool" };
        assert_eq!(config.env["placement"].as_str(), Some(placed));
    }
}

#[test]
fn tag_continuous_is_as_it_was() {
    let config = sample("tag_continuous");
    assert_eq!(extent(&config), (250, 10, 100, Start::Fixed, None));
    assert_eq!((config.run.env_id.as_str(), config.run.seed), ("tag_continuous", 274_880));
    let (spec, env) = (&config.spec, &config.env);
    let sizes: Vec<_> = spec.groups.iter().map(|g| (g.name.as_str(), g.n_agents)).collect();
    assert_eq!(sizes, [("tagger", 10), ("runner", 100)]);
    assert_eq!(spec.groups[0].observation_width(), 71);
    assert_eq!(spec.groups[0].action.head_sizes(), [21, 21]);
    assert_eq!(spec.time_limit.steps, 500);
    let reals =
        [("max_turn", 2.356), ("tagging_distance", 0.02), ("tag_penalty_for_runner", -10.0)];
    for (key, value) in reals {
        assert_eq!(env[key].as_float(), Some(value), "{key}");
    }
    assert_eq!(config.policies.len(), 2);
    for plan in &config.policies {
        is_the_originals(&plan.config);
        let learning_rate = if plan.name == "runner" { 0.005 } else { 0.001 };
        assert_eq!(coefficients(&plan.config), [1.0, 0.05, 0.5, 0.98, learning_rate]);
        assert_eq!(plan.config.hidden, [256, 256]);
        assert_eq!(plan.config.groups.join("+"), plan.name);
    }
}

#[test]
fn classic_control_is_as_it_was() {
    for (name, env_id, coefficient) in [
        ("single_cartpole", "cartpole", [1.0, 0.05, 3.0, 0.99, 0.001]),
        ("single_acrobot", "acrobot", [0.1, 0.1, 3.0, 0.99, 0.001]),
    ] {
        let config = sample(name);
        assert_eq!(config.run.env_id, env_id);
        assert_eq!(extent(&config), (500, 2000, 100, Start::Pool, Some(1000)));
        let policy = only_policy(&config, "shared");
        is_the_originals(&policy);
        assert_eq!(coefficients(&policy), coefficient);
        assert_eq!(policy.hidden, [32, 32]);
        // The original does not tell the time limit from the game's end.
        let limit = config.spec.time_limit;
        assert_eq!((limit.steps, limit.ends), (500, LimitEnds::Terminated));
    }
    let text =
        changed("single_mountain_car", &[("neg_pos_env_ratio: 10", "neg_pos_env_ratio: -1")]);
    let config = read(&text).unwrap();
    assert_eq!(extent(&config), (500, 2000, 1000, Start::Pool, Some(10_000)));
    assert_eq!(config.run.env_id, "mountain_car");
}

const SHORT: &str = "
name: single_cartpole
trainer: {num_episodes: 10000}
policy:
    shared:
";

#[test]
fn what_is_left_out_has_the_originals_defaults() {
    let config = read(SHORT).unwrap();
    // 10 replicas, batches of 10,000 and 10,000 episodes of 500 steps; one start for all.
    assert_eq!(extent(&config), (1000, 500, 10, Start::Fixed, None));
    assert_eq!((config.run.seed, config.run.checkpoint_steps), (0, Some(1000 * 10_000)));
    let policy = only_policy(&config, "shared");
    assert!(!policy.to_train, "as default_configs.yaml has it");
    assert_eq!(coefficients(&policy), [0.01, 0.05, 0.5, 0.98, 1e-4]);
    assert_eq!(policy.hidden, [64, 64]);
    // The same with the file of defaults written out.
    let default = text("default_configs").replace("policy:\n", "policy:\n  shared:\n");
    let indented: String = default
        .lines()
        .map(|line| {
            let in_policy = line.starts_with("    ") && !line.contains("num_");
            let keys =
                ["train_batch_size", "env_backend", "metrics", "_freq", "basedir", "name:", "tag:"];
            let moved = in_policy && !keys.iter().any(|key| line.contains(key));
            if moved { format!("    {line}\n") } else { format!("{line}\n") }
        })
        .collect();
    let written = read(&format!("name: single_cartpole\n{indented}")).unwrap();
    assert_eq!(written, config);
}

#[test]
fn schedules_pools_seeds_and_other_names_are_carried_over() {
    let schedule = "[[0, 0.5], [2000000, 0.05]]";
    let text = changed(
        "tag_continuous",
        &[("entropy_coeff: 0.05 ", &format!("entropy_coeff: {schedule} "))],
    );
    let config = read(&text).unwrap();
    let runner = config.policies.iter().find(|plan| plan.name == "runner").unwrap();
    assert_eq!((runner.config.ent_coef.at(0), runner.config.ent_coef.at(1_000_000)), (0.5, 0.275));

    let cartpole = |from: &str, to: &str| read(&changed("single_cartpole", &[(from, to)])).unwrap();
    let pool = |rows: &str| {
        let config = cartpole("reset_pool_size: 1000", &format!("reset_pool_size: {rows}"));
        (config.run.start, config.run.pool_size)
    };
    assert_eq!(pool("2"), (Start::Pool, Some(2)));
    assert_eq!(
        (pool("1"), pool("0"), pool("~")),
        ((Start::Fixed, None), (Start::Fixed, None), (Start::Fixed, None))
    );
    assert_eq!(cartpole("num_envs: 100", "seed: 77\n    num_envs: 100").run.seed, 77);
    let both = [
        ("num_envs: 100", "seed: 7\n    num_envs: 100"),
        ("    reset_pool", "    seed: 9\n    reset_pool"),
    ];
    let both = changed("single_cartpole", &both);
    assert_eq!(read(&both).unwrap().run.seed, 7);
    let notes = yaml::translate(&both, &warp_envs::registry()).unwrap().without_effect;
    assert!(notes.contains(&"env.seed".into()), "{notes:?}");
    assert_eq!(
        cartpole("clip_grad_norm: True", "clip_grad_norm: False").policies[0]
            .config
            .max_grad_norm
            .at(0),
        0.0
    );
    let policy = cartpole("fc_dims: [32, 32]", "fc_dims: [5]\n            init_method: xavier");
    assert_eq!(
        (&policy.policies[0].config.hidden[..], policy.policies[0].config.init),
        (&[5][..], Init::Xavier)
    );
    // One policy for two groups, and an environment of one's own by its own name.
    let both = changed("tag_continuous", &[("    runner:\n", "    shared:\n")]);
    let both = both.split("    tagger:\n").next().unwrap().to_string();
    assert_eq!(read(&both).unwrap().policies[0].groups().collect::<Vec<_>>(), [0, 1]);
    let own = read(&SHORT.replace("single_cartpole", "cartpole")).unwrap();
    assert_eq!(own.spec.time_limit.ends, LimitEnds::Truncated);
    // Without a name at the top, the one for saving tells.
    let saved = SHORT.replace("name: single_cartpole", "saving: {name: single_cartpole}");
    assert_eq!(read(&saved).unwrap(), read(SHORT).unwrap());
}

#[test]
fn ppo_of_the_original_is_one_step_on_the_whole_rollout() {
    let config = read(&changed(
        "single_cartpole",
        &[("\"A2C\"", "\"PPO\""), ("lr: 0.001", "clip_param: 0.1")],
    ))
    .unwrap();
    let policy = only_policy(&config, "shared");
    assert_eq!(
        (policy.algorithm.as_str(), policy.update_epochs, policy.num_minibatches),
        ("ppo", 1, 1)
    );
    assert_eq!((policy.clip_coef.at(0), policy.clip_vloss, policy.norm_adv), (0.1, false, false));
    // Half the squared error here, the whole there.
    assert_eq!((policy.vf_coef.at(0), policy.learning_rate.at(0)), (2.0, 1e-4));
    let schedule = changed(
        "single_cartpole",
        &[("\"A2C\"", "PPO"), ("vf_loss_coeff: 1 ", "vf_loss_coeff: [[0, 1], [10, 3]] ")],
    );
    assert_eq!(read(&schedule).unwrap().policies[0].config.vf_coef.at(5), 4.0);
}

#[test]
fn the_binary_trains_resumes_and_evaluates_a_sample() {
    let folder = Folder::new("yaml");
    let small = [
        ("num_envs: 100", "num_envs: 8"),
        ("num_episodes: 200000", "num_episodes: 2"),
        ("train_batch_size: 50000", "train_batch_size: 128"),
        ("reset_pool_size: 1000", "reset_pool_size: 6"),
    ];
    std::fs::write(folder.path("small.yaml"), changed("single_cartpole", &small)).unwrap();
    let ranks = ["train", "small.yaml", "--device=cpu", "--gpus=2", "--steps=128", "--out=ranks"];
    for args in [&["train", "small.yaml", "--seed", "3", "--out", "run"][..], &ranks] {
        let said = folder.done(args);
        let is_note = |line: &&str| line.starts_with("accepted without effect: ");
        let expected = "accepted without effect: saving.name, trainer.env_backend";
        assert_eq!(said.stderr.lines().filter(is_note).collect::<Vec<_>>(), [expected]);
    }
    // 1000 steps are 7 batches of 128, of which the last has a line.
    assert_eq!(folder.checkpoint("run"), Some(896));
    assert_eq!(folder.metrics("run").len(), 1);
    let written = folder.read("run/config.toml");
    for line in ["start = \"pool\"", "pool_size = 6", "seed = 3", "[policy.shared]"] {
        assert!(written.lines().any(|l| l == line), "{line}: {written}");
    }
    // A run stopped on its way goes on with the same bits: the pool is drawn from the seed again.
    folder.done(&["train", "small.yaml", "--seed", "3", "--steps", "300", "--out", "stopped"]);
    folder.done(&["train", "--resume", "stopped", "--steps", "896"]);
    let state = |run: &str| folder.files(&format!("{run}/checkpoints/000000000896"));
    assert!(state("run") == state("stopped"));
    let set = ["config", "small.yaml", "--set=gamma=0.5", "--set=compat_last_step=true"];
    let said = folder.done(&set).stdout;
    assert!(said.contains("\ngamma = 0.5\n") && said.contains("\ncompat_last_step = true\n"));
    let json = folder.warp(&["eval", "run", "--episodes", "5", "--json"]).json();
    assert_eq!(json["episodes"], 5);
    // The same with .yml, and what it comes to in this program's words.
    std::fs::rename(folder.path("small.yaml"), folder.path("small.yml")).unwrap();
    let said = folder.done(&["config", "small.yml", "--set", "seed=3"]);
    std::fs::write(folder.path("small.toml"), &said.stdout).unwrap();
    folder.done(&["train", "small.toml", "--out", "toml"]);
    assert!(state("run") == state("toml"));
    let said = folder.warp(&["train", "missing.yaml"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("missing.yaml") && said.stderr.lines().count() == 1, "{said:?}");
}
