//! A burn network from outside the workspace has the commands of all others: the example's residual layers
//! learn, begin with the same bits for the same seed, are resumed bit by bit and evaluated.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

#[path = "../../warp-examples/tests/in_process/mod.rs"]
mod in_process;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program, whose `main` is not called here"
)]
#[path = "../../warp-examples/examples/07_your_own_network.rs"]
mod network;

use in_process::{args, done, newest_checkpoint};
use network::residual;
use warp_examples::commands::{eval, learner, train};
use warp_examples::settings;
use warp_train::learner::LearnerState;
use warp_train::own_network::WithNetwork;
use warp_train::warp_func::Registry;
use warp_train::{TrainConfig, Trainer};

fn registry() -> Registry {
    warp_envs::registry().with_network(residual())
}

fn configured(env: &str, sets: &[&str], registry: &Registry) -> anyhow::Result<TrainConfig> {
    let sets: Vec<String> =
        ["network=residual"].iter().chain(sets).map(ToString::to_string).collect();
    settings::configure(env, &sets, registry)
}

fn begun(env: &str, seed: &str) -> LearnerState {
    let config = configured(env, &[&format!("seed={seed}")], &registry()).unwrap();
    learner("auto", &config, 1).unwrap().state()
}

#[test]
fn first_weights_are_the_seeds() {
    for env in ["cartpole", "pendulum"] {
        // Whatever else draws at the same time.
        let threads: Vec<_> = ["3", "4", "3", "4"]
            .into_iter()
            .map(|seed| std::thread::spawn(move || begun(env, seed)))
            .collect();
        let states: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(states[0] == states[2] && states[1] == states[3] && states[0] != states[1]);
        assert!(states[0].weights.iter().any(|tensor| tensor.name.ends_with("layers.1.weight")));
    }
}

#[test]
fn it_learns() {
    let sets = ["hidden=[32,32]", "learning_rate=2e-3", "num_envs=16", "num_steps=64"];
    let config = configured("cartpole", &sets, &registry()).unwrap();
    let made = learner("auto", &config, 2).unwrap();
    assert_eq!(made.backend(), "burn");
    let mut trainer = Trainer::new(config, &registry(), made, 2).unwrap();
    let mut returns = Vec::new();
    while trainer.env_steps() < 60_000 {
        returns.extend(trainer.iterate().unwrap().episodes.episode_return.map(|r| r.mean));
    }
    let (first, last) = (returns[0], returns[returns.len() - 1]);
    assert!(last > 3.0 * first, "from {first} to {last}");
}

#[test]
fn it_has_the_commands() {
    let (registry, folder) = (registry(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (run, whole) = (path("run"), path("whole"));
    let sets =
        ["network=residual", "num_envs=8", "num_steps=32", "hidden=[16]", "learning_rate=1e-3"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let train_args =
        |rest: &[&str]| args(&[&["pendulum", "--device", "cpu"], &sets[..], rest].concat());
    done(train::execute(&train_args(&["--steps", "512", "--out", &run]), &registry));
    done(train::execute(&train_args(&["--steps", "1024", "--out", &whole]), &registry));
    let longer = ["--resume", &run, "--steps", "1024", "--device", "cpu"];
    done(train::execute(&args(&longer), &registry));
    assert!(
        newest_checkpoint(&run) == newest_checkpoint(&whole),
        "it goes on as if it had not stopped"
    );
    done(eval::execute(&args(&[&run, "--episodes", "2", "--device", "cpu"]), &registry));
}

#[test]
fn mistakes_are_sentences() {
    let unknown = configured("cartpole", &["network=resdual"], &registry()).unwrap_err();
    assert!(format!("{unknown:#}").contains("this program has residual"), "{unknown:#}");
    let none = configured("cartpole", &[], &warp_envs::registry()).unwrap_err();
    assert!(format!("{none:#}").contains("this program has none of its own"), "{none:#}");
    let config = configured("cartpole", &[], &registry()).unwrap();
    let refused = learner("burn", &config, 1).unwrap_err().to_string();
    assert!(refused.contains("network = \"residual\" was added by the program"), "{refused}");
}
