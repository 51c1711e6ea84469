//! `exchange.cuh` on the host: its text, built by a C++ compiler, with a thread for each block of each rank.
//!
//! Without a C++ compiler (`$CXX`, or `c++`, `g++`, `clang++` on the path) these tests say so and hold nothing.

use crate::engine::collectives::{EXCHANGE, LinkArgs};
use crate::engine::cuda::test_compiler;
use std::path::Path;
use std::process::Command;
use warp_core::device_struct::declare;
use warp_core::kernel_text::HOST_SHIM;
use warp_func::cuda::KernelArgs;

/// Rounds until their numbers begin again, as in the text.
const ROUNDS: u64 = 0xffff_fffe;
/// Milliseconds that nobody waits for in vain.
const LONG: u32 = 60_000;

/// So many ranks with so many blocks each.
#[derive(Debug, Clone, Copy)]
struct Ranks {
    ranks: usize,
    blocks: usize,
}

/// What happens to them.
#[derive(Debug, Clone, Copy)]
struct Trial {
    rounds: u64,
    /// Number of the first round.
    first: u64,
    /// Milliseconds that a block waits at most.
    timeout_ms: u32,
    /// `all`, `dead` or `stop`, as the program says.
    fate: &'static str,
}

/// What became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    wrong: u64,
    faults: u64,
    milliseconds: u64,
}

impl Ranks {
    /// Runs the trials, one after the other.
    fn play(self, trials: &[Trial]) -> Vec<Seen> {
        let Self { ranks, blocks } = self;
        let Some(compiler) = test_compiler::find() else { return Vec::new() };
        let folder = format!("warp-exchange-{}-{ranks}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let text = format!(
            "#define RANKS {ranks}\n#define BLOCKS {blocks}u\n#include \"exchange_host.cpp\"\n"
        );
        let texts = [
            ("host_shim.h", HOST_SHIM),
            ("exchange.cuh", EXCHANGE),
            ("exchange_host.cpp", include_str!("exchange_host.cpp")),
            ("link_args.h", &declare(&[LinkArgs::ARGS])),
            ("program.cpp", &text),
        ];
        let program = compiler.program("exchange.cuh", &texts, &folder).unwrap();
        let seen = trials.iter().map(|trial| trial.play(&program)).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        seen
    }
}

impl Trial {
    fn play(&self, program: &Path) -> Seen {
        let Self { rounds, first, timeout_ms, fate } = self;
        let numbers = [*rounds, *first, u64::from(*timeout_ms)].map(|n| n.to_string());
        let output = Command::new(program).args(numbers).arg(fate).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<u64> = said.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let [wrong, faults, milliseconds] = numbers[..] else { panic!("{said}") };
        Seen { wrong, faults, milliseconds }
    }
}

/// So many rounds in which all ranks stay; their numbers begin again in the middle.
fn rounds(ranks: usize, blocks: usize, rounds: u64) {
    let trial = Trial { rounds, first: ROUNDS - rounds / 2, timeout_ms: LONG, fate: "all" };
    for Seen { wrong, faults, .. } in (Ranks { ranks, blocks }).play(&[trial]) {
        assert_eq!((wrong, faults), (0, 0), "{ranks} ranks");
    }
}

#[test]
fn sums_of_two_and_three_ranks_are_right_in_every_round() {
    rounds(2, 3, 100_000);
    rounds(3, 2, 100_000);
}

#[test]
fn sums_of_eight_ranks_are_right_in_every_round() {
    rounds(8, 1, 100_000);
}

#[test]
fn inboxes_are_made_for_any_number_of_ranks() {
    rounds(4, 2, 4_000);
    rounds(16, 1, 4_000);
}

#[test]
fn nobody_waits_for_a_dead_rank_longer_than_told() {
    let dead = Trial { rounds: 40, first: 5, timeout_ms: 500, fate: "dead" };
    let stopped = Trial { timeout_ms: LONG, fate: "stop", ..dead };
    let ranks = Ranks { ranks: 5, blocks: 2 };
    if let [dead, stopped] = ranks.play(&[dead, stopped])[..] {
        // Every rank but the dead one has waited in vain, and for as long as it was told once.
        assert_eq!(dead.faults, 4, "{dead:?}");
        assert!(dead.wrong > 0 && (500..20_000).contains(&dead.milliseconds), "{dead:?}");
        // The host's word ends waits at once, and is no fault of a rank.
        assert_eq!(stopped.faults, 0, "{stopped:?}");
        assert!(stopped.wrong > 0 && stopped.milliseconds < 20_000, "{stopped:?}");
    }
}
