//! A simulator that is no `Env` has the commands of all others: the example's corridor is listed,
//! configured, trained in, resumed, evaluated and measured, and what needs a body says that it has none.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program, whose `main` is not called here"
)]
#[path = "../examples/05_your_own_simulator.rs"]
mod simulator;

mod in_process;

use in_process::{args, done};
use simulator::Corridors;
use warp_examples::commands::{bench, config, envs, eval, parity, train};
use warp_examples::settings;
use warp_func::Registry;
use warp_sample::Mode;
use warp_train::evaluate::{EvalOptions, evaluate};
use warp_train::native::NativeLearner;
use warp_train::{Learner, Trainer};

fn registry() -> Registry {
    Registry::new().with_maker("corridor", Corridors)
}

#[test]
fn it_is_learned() {
    let registry = registry();
    let config = settings::configure("corridor", &[], &registry).unwrap();
    assert_eq!((config.run.num_envs, config.algorithm()), (32, "ppo".into()));
    let learner = NativeLearner::new(&config, 1).unwrap();
    let mut trainer = Trainer::new(config, &registry, Box::new(learner), 1).unwrap();
    while trainer.env_steps() < 20_000 {
        trainer.iterate().unwrap();
    }
    let config = trainer.config().clone();
    let mut learner = NativeLearner::new(&config, 1).unwrap();
    learner.load_state(&trainer.learner().state()).unwrap();
    let options = EvalOptions { episodes: 50, mode: Mode::Greedy, random: Vec::new(), threads: 1 };
    let found = evaluate(&mut learner, &config, &registry, &options).unwrap();
    // Eight steps from the far end; a walk at random takes several times as many, and may be late.
    assert_eq!(found.min, 1.0);
    assert!(found.mean_episode_length < 6.0, "{} steps", found.mean_episode_length);
}

#[test]
fn it_has_the_commands() {
    let (registry, folder) = (registry(), tempfile::tempdir().unwrap());
    let run = folder.path().join("run").to_string_lossy().into_owned();
    done(envs::execute(&args(&[]), &registry));
    done(config::execute(&args(&["corridor", "--set", "env.cells=5"]), &registry));
    let short = ["--steps", "4096", "--device", "cpu", "--out", &run];
    done(train::execute(&args(&[&["corridor"], &short[..]].concat()), &registry));
    let whole = folder.path().join("whole").to_string_lossy().into_owned();
    let at_once = ["corridor", "--steps", "8192", "--device", "cpu", "--out", &whole];
    done(train::execute(&args(&at_once), &registry));
    let longer = ["--resume", &run, "--steps", "8192", "--device", "cpu"];
    done(train::execute(&args(&longer), &registry));
    let weights =
        |run: &str| std::fs::read(format!("{run}/checkpoints/000000008192/weights.safetensors"));
    assert!(
        weights(&run).unwrap() == weights(&whole).unwrap(),
        "it goes on as if it had not stopped"
    );
    done(eval::execute(&args(&[&run, "--episodes", "5"]), &registry));
    done(bench::execute(&args(&["corridor", "--envs", "4", "--seconds", "0.1"]), &registry));
}

/// A page that is not there, in a package of this crate, says nothing wrong.
#[test]
fn the_documentation_shows_the_example() {
    let read =
        |path: &str| std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")));
    let Ok(page) = read("../docs/your_own_environment.md") else { return };
    let flat = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let example = flat(&read("examples/05_your_own_simulator.rs").unwrap());
    let (_, section) = page.split_once("## A simulator of your own\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let shown: Vec<&str> = section.split("```rust\n").skip(1).collect();
    assert_eq!(shown.len(), 3);
    for block in shown {
        let (block, _) = block.split_once("```").unwrap();
        for part in flat(block).split("\n\n") {
            assert!(example.contains(part.trim()), "the example has no such lines:\n{part}");
        }
    }
}

#[test]
fn what_needs_a_body_says_that_it_has_none() {
    let registry = registry();
    for words in [&["corridor"][..], &["corridor", "--host"]] {
        let refused = parity::execute(&args(words), &registry).unwrap_err().to_string();
        assert!(refused.contains("\"corridor\" is a simulator of its own"), "{refused}");
    }
    let refused = settings::configure("corridor", &["env.cells=1".into()], &registry);
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("env.cells = 1: a corridor has two ends"), "{refused}");
}
