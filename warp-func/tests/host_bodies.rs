//! CUDA bodies whose states have arrays, compiled by the host's C++ compiler, give the bits of their Rust
//! bodies.
//!
//! Without a C++ compiler the tests are reported as ignored, with the reason; that is why this binary has
//! its own harness. Both bodies run free over many episodes of random actions, restarts included.
#![expect(clippy::unwrap_used, reason = "clippy knows tests by their attribute, which these lack")]

mod worlds;

use libtest_mimic::{Arguments, Trial};
use std::path::Path;
use std::process::ExitCode;
use warp_core::toml::Table;
use warp_func::host::{Compiler, HostBuild, compare};
use warp_func::{Registry, VecOptions};
use worlds::{board::Board, drone::Drone, swarm::Swarm};

fn main() -> ExitCode {
    let found = Compiler::find();
    if found.is_none() {
        println!("ignored: no C++ compiler found ($CXX, c++, g++, clang++)");
    }
    let trial = |(name, team): (&'static str, usize)| {
        let found = found.clone();
        let run = move || {
            if let Some(compiler) = &found {
                bits_are_equal(name, team, compiler);
            }
            Ok(())
        };
        Trial::test(format!("{name}_keeps_its_bits::team_of_{team}"), run)
    };
    let trials = [("drone", 1), ("board", 1), ("swarm", 1), ("swarm", 3)].map(trial).into_iter();
    let trials = trials.map(|trial| trial.with_ignored_flag(found.is_none())).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn bits_are_equal(name: &str, team: usize, compiler: &Compiler) {
    let registry = Registry::new().with::<Drone>().with::<Board>().with::<Swarm>();
    let folder = format!("{name}_{team}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host_bodies").join(folder);
    // Threads of a team meet at barriers, which takes its time on a few cores.
    let (n_envs, steps) = if team == 1 { (65, 300) } else { (5, 100) };
    let options = VecOptions { n_envs, seed: 9, first_replica: 5, ..VecOptions::default() };
    let build = HostBuild { compiler, team, folder: &folder };
    let entry = registry.get(name).unwrap();
    let parity = compare(entry, &Table::new(), &options, &build, steps).unwrap();
    assert!(parity.first.is_none(), "{}", parity.first.unwrap());
    assert!(parity.episodes > 4 * n_envs as u64, "{} episodes", parity.episodes);
    // By value, every element is compared under its own name; beside rows an array is one, too.
    let compared = |name: &str| parity.arrays.iter().any(|array| array.name == name);
    assert!(compared(match name {
        "drone" => "velocity[2]",
        "board" => "board[8]",
        _ => "goal",
    }));
}
