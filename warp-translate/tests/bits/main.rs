//! Random bodies in the subset give the same bits from `rustc` and, translated, from the host's C++
//! compiler.
//!
//! All functions of a run are one Rust program and one C++ program. `WARP_FUZZ=N` asks for N functions
//! of each kind instead of the usual number, `WARP_FUZZ_SEED` for others, `WARP_RACES=1` for
//! ThreadSanitizer over those of teams (`cargo xtask nightly` sets all three). `WARP_BITS_OUT=FOLDER` keeps
//! what a GPU needs for the same comparison (`warp-func/tests/cuda_bits`). Without a C++ compiler the tests
//! are reported as ignored.

mod cases;
mod corners;
mod expressions;
mod generate;
mod prelude;
mod programs;
mod random;
mod teams;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

/// Functions of each kind in a run of the gate.
const FUNCTIONS: usize = 240;
const SEED: u64 = 0x5eed;

fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let n = number("WARP_FUZZ").map_or(FUNCTIONS, |n| n as usize);
    let seed = number("WARP_FUZZ_SEED").unwrap_or(SEED);
    let compiler = programs::compiler();
    let missing = compiler.is_none();
    if missing {
        println!("ignored: no C++ compiler found ($CXX, c++, g++, clang++)");
    }
    let compiler = compiler.unwrap_or_default();
    let trial = |name: &str, test: fn(&str, usize, u64) -> Result<(), String>| {
        let compiler = compiler.clone();
        let run = move || test(&compiler, n, seed).map_err(Failed::from);
        Trial::test(name, run).with_ignored_flag(missing)
    };
    let mut trials = vec![
        trial("bodies_of_scalars_keep_their_bits", programs::scalars),
        trial("bodies_of_teams_keep_their_bits", programs::teams),
    ];
    // ThreadSanitizer is slow, and not everywhere.
    if number("WARP_RACES").is_some() {
        trials.push(trial("bodies_of_teams_have_no_races", programs::races));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
