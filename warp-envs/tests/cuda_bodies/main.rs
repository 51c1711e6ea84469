//! Every CUDA body, compiled by the host's C++ compiler, gives the bits of its Rust body.
//!
//! This needs a C++ compiler (`$CXX`, or `c++`, `g++`, `clang++` on the path), no GPU and no
//! toolkit. Without one the tests are reported as ignored, with the reason; that is why this binary
//! has its own harness. A case is an environment with a configuration: both bodies run free over
//! two full episodes of random actions, restarts included, and after every step all arrays are
//! compared. Bodies for teams are run by one thread, and again by a team of four.

mod cases;

use cases::Case;
use libtest_mimic::{Arguments, Trial};
use std::path::Path;
use std::process::ExitCode;
use warp_core::{Layout, TimeLimit};
use warp_envs::VecOptions;
use warp_func::Entry;
use warp_func::host::{Compiler, HostBuild, compare};

/// Not a multiple of any vector width.
const REPLICAS: usize = 65;
/// Threads of a team meet at barriers, which takes its time on a few cores.
const REPLICAS_OF_TEAMS: usize = 3;
/// Agents of all replicas at most, as each may look at all others.
const AGENTS: usize = 5_000;
/// Steps where episodes have no limit; enough for many.
const STEPS: usize = 1_000;
/// Numbers in all arrays that are compared in a case, at most: cuts replicas, then steps.
const NUMBERS: usize = 60_000_000;
const SEED: u64 = 0x1234_5678_9abc_def1;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // `WARP_HOST_FLAGS` asks for more of the compiler, a sanitizer say (`cargo xtask nightly`).
    let flags = std::env::var("WARP_HOST_FLAGS").unwrap_or_default();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let found = Compiler::find().map(|compiler| compiler.with_flags(&flags));
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
                let (entry, compiler, case, team) =
                    (entry.clone(), found.clone(), case.clone(), *team);
                let name = format!("{}::{}::team_of_{team}", entry.name, case.name);
                let test = move || match &compiler {
                    Some(compiler) => Ok(hold(&entry, &case, team, compiler)?),
                    None => Ok(()),
                };
                trials.push(Trial::test(name, test).with_ignored_flag(found.is_none()));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Compares the bodies of one case.
fn hold(entry: &Entry, case: &Case, team: usize, compiler: &Compiler) -> Result<(), String> {
    let config = case.config.parse().map_err(|error| format!("{error}"))?;
    let (_, spec) = entry.describe(&config).map_err(|error| error.to_string())?;
    let per_replica =
        entry.bytes_per_replica(&config).map_err(|error| error.to_string())? as usize / 4;
    let steps = match spec.time_limit {
        TimeLimit::UNLIMITED => STEPS,
        limit => 2 * limit.steps as usize + 1,
    };
    let wanted = if team == 1 { REPLICAS } else { REPLICAS_OF_TEAMS };
    let wanted = wanted.min(AGENTS / spec.n_agents());
    let n_envs = wanted.min(NUMBERS / per_replica / steps).max(2);
    let steps = steps.min(NUMBERS / per_replica / n_envs);

    let folder = format!("{}_{}_{team}", entry.name, case.name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_bodies").join(folder);
    let options = VecOptions { n_envs, seed: SEED, first_replica: 5, ..VecOptions::default() };
    let build = HostBuild { compiler, team, folder: &folder };
    let parity = compare(entry, &config, &options, &build, steps as u32);
    match parity.map_err(|error| error.to_string())?.first {
        Some(first) => Err(first.to_string()),
        None => Ok(()),
    }
}
