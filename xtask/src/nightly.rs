//! `cargo xtask nightly [FUNCTIONS]`: what takes too long for every change.
//!
//! Thousands of random bodies give the same bits in Rust and in C++; where available, NVRTC compiles
//! them and a GPU runs them, with the same bits. Bodies with teams, like the environments with teams,
//! run under ThreadSanitizer.

use anyhow::{Context, Result, bail};

use crate::bench;
use crate::workspace::CommandLine;

/// Random bodies of each kind when the command line names no number.
const FUNCTIONS: &str = "2000";

/// Runs the commands; stops at the first that fails.
///
/// # Errors
/// A number that is none, or the command that failed.
pub fn run(arguments: &[String]) -> Result<()> {
    let functions = match arguments {
        [] => FUNCTIONS,
        [functions] => functions.as_str(),
        _ => bail!("nightly takes one argument, the number of random bodies"),
    };
    functions.parse::<u32>().with_context(|| format!("`{functions}` is no number of bodies"))?;
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    println!("xtask nightly: WARP_FUZZ_SEED={seed}");
    let bodies = bench::target().join("nightly-bits").display().to_string();
    CommandLine::new("cargo test --locked -p warp-translate --test bits")
        .with("WARP_FUZZ", functions)
        .with("WARP_FUZZ_SEED", seed.to_string())
        .with("WARP_BITS_OUT", bodies.as_str())
        .run()?;
    CommandLine::new("cargo test --locked -p warp-func --features cuda --test cuda_bits")
        .with("WARP_BITS", bodies)
        .run()?;
    CommandLine::new("cargo test --locked -p warp-translate --test bits races")
        .with("WARP_FUZZ", "200")
        .with("WARP_FUZZ_SEED", seed.to_string())
        .with("WARP_RACES", "1")
        .run()?;
    CommandLine::new("cargo test --locked -p warp-envs --test cuda_bodies team_of_4")
        .with("WARP_HOST_FLAGS", "-fsanitize=thread")
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_refused() {
        for wrong in [&["x"][..], &["1", "2"]] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(run(&arguments).is_err());
        }
    }
}
