//! An algorithm from outside the workspace has the commands of all others: the example's PPO with a penalty
//! is configured, learns, is resumed bit by bit, evaluated and measured, and its mistakes are sentences.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program, whose `main` is not called here"
)]
#[path = "../examples/06_your_own_algorithm.rs"]
mod algorithm;
mod in_process;

use algorithm::{PPO_KL, PenaltyKeys};
use in_process::{args, done, newest_checkpoint};
use warp_core::{Draw, Purpose};
use warp_examples::commands::{bench, config, eval, train};
use warp_examples::settings;
use warp_func::Registry;
use warp_train::TrainConfig;
use warp_train::Trainer;
use warp_train::algorithm::WithAlgorithm;
use warp_train::loss::row::{Read, Rows, Write, no_draws};
use warp_train::native::NativeLearner;

fn registry() -> Registry {
    warp_envs::registry().with_algorithm(PPO_KL)
}

fn configured(sets: &[&str]) -> anyhow::Result<TrainConfig> {
    let sets: Vec<String> =
        ["algorithm=ppo_kl"].iter().chain(sets).map(ToString::to_string).collect();
    settings::configure("cartpole", &sets, &registry())
}

/// Loss and derivative of one row.
fn loss(kl_coef: f32, log_prob: f32, old_log_prob: f32, advantage: f32) -> [f32; 2] {
    let (mut loss, mut d_log_prob, mut approx_kl) = ([0.0], [0.0], [0.0]);
    let mut writes =
        [&mut loss[..], &mut d_log_prob, &mut approx_kl].map(|numbers| Write { numbers, width: 1 });
    let reads = [[log_prob], [old_log_prob], [advantage]];
    let reads = reads.each_ref().map(|numbers| Read::rows(numbers, 1));
    let (n, cells, draws) = (1, &[kl_coef][..], &no_draws);
    (algorithm::POLICY_LOSS.run)(Rows { n, cells, reads: &reads, writes: &mut writes, draws });
    [loss[0], d_log_prob[0]]
}

#[test]
fn its_derivative_is_that_of_its_loss() {
    let mut draw = Draw::new(3, 0, 0, Purpose::Learn);
    for _ in 0..200 {
        let [kl_coef, old, advantage] = [draw.uniform(), -draw.uniform(), draw.normal()];
        let log_prob = old + 0.3 * draw.normal();
        let step = 1e-2;
        let at = |log_prob| loss(kl_coef, log_prob, old, advantage)[0];
        let slope = (at(log_prob + step) - at(log_prob - step)) / (2.0 * step);
        let [_, derivative] = loss(kl_coef, log_prob, old, advantage);
        assert!((slope - derivative).abs() < 2e-3, "{slope} and {derivative}");
    }
}

#[test]
fn it_learns() {
    let config = configured(&["kl_coef=0.5"]).unwrap();
    assert_eq!(config.algorithm(), "ppo_kl");
    let keys: PenaltyKeys = config.policies[0].own_keys().unwrap();
    assert_eq!((keys.kl_coef, keys.n_epochs), (0.5, 4));
    let learner = NativeLearner::new(&config, 2).unwrap();
    let mut trainer = Trainer::new(config, &registry(), Box::new(learner), 2).unwrap();
    let mut kl = 0.0;
    while trainer.env_steps() < 150_000 {
        let metrics = trainer.iterate().unwrap();
        let (_, figures) = metrics.policy.iter().next().unwrap();
        kl = figures.iter().find(|(name, _)| *name == "approx_kl").unwrap().1;
    }
    assert!(kl > 0.0 && kl < 0.1, "{kl}");
    let mut envs = trainer.iterate().unwrap();
    for _ in 0..5 {
        envs = trainer.iterate().unwrap();
    }
    let length = envs.episodes.episode_return.unwrap().mean;
    assert!(length > 150.0, "{length} steps");
}

#[test]
fn it_has_the_commands() {
    let (registry, folder) = (registry(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (run, whole) = (path("run"), path("whole"));
    let sets = ["algorithm=ppo_kl", "num_envs=8", "learning_rate=1e-3", "ent_coef=0.01"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let sets = [&["cartpole"], &sets[..]].concat();
    done(config::execute(&args(&sets), &registry));
    let train_args = |rest: &[&str]| args(&[&sets[..], &["--device", "cpu"], rest].concat());
    done(train::execute(&train_args(&["--steps", "4096", "--out", &run]), &registry));
    done(train::execute(&train_args(&["--steps", "8192", "--out", &whole]), &registry));
    let text = std::fs::read_to_string(format!("{run}/config.toml")).unwrap();
    assert!(text.contains("# Weight of the divergence from the old policy.\nkl_coef = 0.2"));
    assert!(!text.contains("clip_coef"), "a key of PPO's");
    let longer = ["--resume", &run, "--steps", "8192", "--device", "cpu"];
    done(train::execute(&args(&longer), &registry));
    assert!(
        newest_checkpoint(&run) == newest_checkpoint(&whole),
        "it goes on as if it had not stopped"
    );
    done(eval::execute(&args(&[&run, "--episodes", "5"]), &registry));
    let measured = ["cartpole", "--train", "--set", "algorithm=ppo_kl", "--seconds", "0.1"];
    done(bench::execute(&args(&[&measured[..], &["--device", "cpu"]].concat()), &registry));
}

#[test]
fn mistakes_are_sentences() {
    let said = |sets: &[&str]| format!("{:#}", configured(sets).unwrap_err());
    assert!(said(&["kl_coff=1"]).contains("kl_coef"), "{}", said(&["kl_coff=1"]));
    assert!(said(&["clip_coef=0.1"]).contains("ppo_kl has no such key"));
    assert!(said(&["n_epochs=0"]).contains("n_epochs = 0"), "{}", said(&["n_epochs=0"]));
    assert!(said(&["kl_coef=1e60"]).contains("not finite"), "{}", said(&["kl_coef=1e60"]));
    let unknown =
        settings::configure("cartpole", &["algorithm=ppo_kl".into()], &warp_envs::registry());
    let unknown = format!("{:#}", unknown.unwrap_err());
    assert!(unknown.contains("one of \"ppo\", \"a2c\""), "{unknown}");
}
