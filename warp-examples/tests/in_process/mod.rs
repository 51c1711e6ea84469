//! Commands that are executed in this process, for registries of a test's own.

use clap::{Args, Command};
use std::path::Path;
use warp_examples::Outcome;

/// What a command gets of the words after its name.
pub(crate) fn args<A: Args>(words: &[&str]) -> A {
    let command = A::augment_args(Command::new("warp").no_binary_name(true));
    A::from_arg_matches(&command.get_matches_from(words)).unwrap()
}

/// Expects that a command did what it was to do.
pub(crate) fn done(outcome: anyhow::Result<Outcome>) {
    assert_eq!(outcome.unwrap(), Outcome::Done);
}

/// Weights, optimiser and environments in the newest checkpoint of the run in `folder`.
#[allow(dead_code, reason = "not every test compares checkpoints")]
pub(crate) fn newest_checkpoint(folder: &str) -> [Vec<u8>; 3] {
    let folders = std::fs::read_dir(Path::new(folder).join("checkpoints")).unwrap();
    let newest = folders.map(|entry| entry.unwrap().path()).max().unwrap();
    ["weights", "optimizer", "state"]
        .map(|file| std::fs::read(newest.join(format!("{file}.safetensors"))).unwrap())
}
