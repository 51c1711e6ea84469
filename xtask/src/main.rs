//! `cargo xtask COMMAND`: picks the command, prints its error, sets the exit code.
use std::process::ExitCode;

use xtask::{bench, bundle, ci, curves, deny, faults, fuzz, models, nightly, tidy};

const USAGE: &str = "usage: cargo xtask COMMAND

  tidy           check the rules that the compiler does not know; lists every violation
  ci [CRATE]...  build, test and document each library crate alone, per feature, and package them
  miri           run the tests of unsafe code under nightly's Miri, if it is installed
  loom           try every order in which threads can hand over a job
  fuzz [SECONDS] [TARGET]...
                 look for bytes that break a parser, with nightly's cargo-fuzz
  deny           licences, sources and known vulnerabilities of what is depended on
  faults         let every write, fsync, rename and unlink of small runs fail or kill them; nightly
  bench [N]      measure the table of docs/benchmarks.md in N rounds (5) with the release binary
  curves DIR...  training tables and learning curves of docs from a bundle's report/curves
  nightly [N]    N random bodies (2000) in Rust, C++ and CUDA, teams under ThreadSanitizer
  bundle [--out DIR] [--golden DIR] [--data DIR]
                 everything that a machine with a GPU and no Rust needs, in one folder (bundle/)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", [].as_slice()),
    };
    let outcome = match command {
        "tidy" => tidy::run(),
        "ci" => ci::run(rest),
        "miri" => models::miri(),
        "loom" => models::loom(),
        "fuzz" => fuzz::run(rest),
        "deny" => deny::run(),
        "faults" => faults::run(),
        "bench" => bench::run(rest),
        "curves" => curves::run(rest),
        "bundle" => bundle::run(rest),
        "nightly" => nightly::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
