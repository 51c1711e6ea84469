//! `cargo xtask fuzz`: runs every target of `fuzz/` for a while, from the corpora that the gate replays.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, CommandLine};

/// Seconds for each target, if nothing is said.
const SECONDS: u32 = 60;

/// Runs `cargo xtask fuzz [SECONDS] [TARGET]...`.
///
/// # Errors
/// An input that makes a target panic, hang or take too much memory, which cargo-fuzz keeps in
/// `fuzz/artifacts`; an unknown target, or no cargo-fuzz.
pub fn run(arguments: &[String]) -> Result<()> {
    let version =
        Command::new("rustup").args(["run", "nightly", "cargo", "fuzz", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        bail!(
            "nightly's cargo-fuzz is not installed: rustup toolchain install nightly; cargo install \
             cargo-fuzz"
        );
    }
    let (seconds, named) = match arguments.split_first() {
        Some((first, rest)) if first.parse::<u32>().is_ok() => (first.parse()?, rest),
        _ => (SECONDS, arguments),
    };
    let known = targets(&workspace::root())?;
    if let Some(unknown) = named.iter().find(|name| !known.contains(name)) {
        bail!("there is no target `{unknown}`: there are {}", known.join(", "));
    }
    // The versions that everything else is tested with.
    let root = workspace::root();
    std::fs::copy(root.join("Cargo.lock"), root.join("fuzz/Cargo.lock"))
        .context("cannot copy Cargo.lock into fuzz/")?;
    for target in known.iter().filter(|name| named.is_empty() || named.contains(name)) {
        std::fs::create_dir_all(root.join("fuzz/corpus").join(target))
            .context("cannot make the folder of a corpus")?;
        command(target, seconds).run()?;
    }
    Ok(())
}

/// The names of all targets, in alphabetical order.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).context("cannot read fuzz/fuzz_targets")?;
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| name(&entry.path())).collect();
    names.sort();
    Ok(names)
}

/// New inputs go to `fuzz/corpus`, which is not kept; the committed ones are beginnings only. There is no
/// sanitizer, since nothing here is unsafe.
fn command(target: &str, seconds: u32) -> CommandLine {
    CommandLine::new(&format!(
        "rustup run nightly cargo fuzz run --sanitizer none {target} fuzz/corpus/{target} \
         warp-examples/tests/corpora/{target} -- -max_total_time={seconds} -timeout=10 \
         -rss_limit_mb=2048 -max_len=65536"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let root = workspace::root();
        let manifest = workspace::read_toml(&root.join("fuzz/Cargo.toml")).unwrap();
        let programs = manifest["bin"].as_array().unwrap().iter();
        let mut programs: Vec<&str> = programs.map(|bin| bin["name"].as_str().unwrap()).collect();
        programs.sort_unstable();
        let targets = targets(&root).unwrap();
        assert_eq!(programs, targets);
        for target in targets {
            let corpus = root.join("warp-examples/tests/corpora").join(&target);
            assert!(corpus.is_dir(), "{target}");
        }
    }

    #[test]
    fn a_target_that_is_not_there_is_refused() {
        let said = run(&["7".into(), "elf".into()]).unwrap_err().to_string();
        assert!(said.contains("`elf`") || said.contains("not installed"), "{said}");
    }
}
