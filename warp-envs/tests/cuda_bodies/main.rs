//! Every CUDA body, compiled by the host's C++ compiler, gives the bits of its Rust body.
//!
//! This needs a C++ compiler (`$CXX`, or `c++`, `g++`, `clang++` on the path), no GPU and no
//! toolkit. Without one the tests are reported as ignored, with the reason; that is why this binary
//! has its own harness. A case is an environment with a configuration: both bodies run free over
//! two full episodes of random actions, restarts included, and after every step all arrays are
//! compared. Bodies for teams are run by one thread, and again by a team of four.

mod cases;
mod program;
mod run;

use libtest_mimic::{Arguments, Trial};
use program::compiler;
use std::process::ExitCode;
use warp_core::Layout;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let found = compiler();
    if found.is_none() {
        println!("ignored: no C++ compiler found ($CXX, c++, g++, clang++)");
    }
    let registry = warp_envs::registry();
    let mut trials = Vec::new();
    for entry in registry.entries() {
        let Some(kernel) = entry.kernel else { continue };
        let teams: &[usize] = match kernel.layout {
            Layout::ThreadPerReplica => &[1],
            Layout::TeamPerReplica => &[1, 4],
        };
        for case in cases::of(entry.name) {
            for team in teams {
                let (entry, compiler, case) = (entry.clone(), found.clone(), case.clone());
                let (team, compiler) = (*team, compiler.unwrap_or_default());
                let name = format!("{}::{}::team_of_{team}", entry.name, case.name);
                let test = move || Ok(run::compare(&entry, &case, team, &compiler)?);
                trials.push(Trial::test(name, test).with_ignored_flag(found.is_none()));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
