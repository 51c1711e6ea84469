//! A fault at any write, fsync, rename or unlink loses nothing that was complete.
//!
//! A small run is repeated with a preloaded library (`faults/shim.c`) that lets its n-th such call fail, kills
//! the process there, or tears the write. After each, completed checkpoints and records must be there, and
//! the run must go on to the same end as one without a fault. By itself the test takes a sample of all n;
//! `cargo xtask faults` takes all.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

#[path = "faults/case.rs"]
mod case;
#[path = "faults/scenario.rs"]
mod scenario;
mod warp_command;

use case::{Fault, Mode, check};
use scenario::scenarios;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use warp_command::Folder;

/// Cases of a scenario and mode where not all are asked for.
const SAMPLE: usize = 6;

#[test]
fn a_fault_at_any_call_loses_nothing_that_was_complete() {
    // In memory, where there is such a folder: what reaches a disk is not the question here.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let folder = Folder::within(base, "faults");
    let Some(shim) = build_shim(&folder) else {
        let test = std::thread::current().name().unwrap_or_default().to_string();
        // Past the harness, which shows nothing of tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: this machine has no C compiler (cc)");
        return;
    };
    let all = std::env::var("WARP_FAULTS").is_ok_and(|which| which == "all");
    let scenarios = scenarios(&folder, &shim);
    let mut cases = Vec::new();
    for scenario in &scenarios {
        let n = scenario.trace.len();
        assert!(n > 40, "{}: only {n} calls", scenario.name);
        for (at_first, mode) in [Mode::Fail, Mode::Kill, Mode::Torn].into_iter().enumerate() {
            let fits = |at: &usize| mode != Mode::Torn || scenario.trace[at - 1].kind == "write";
            let every: Vec<usize> = (1..=n).filter(fits).collect();
            let stride = if all { 1 } else { every.len().div_ceil(SAMPLE) };
            // The modes take different calls.
            let taken =
                every.into_iter().skip(if all { 0 } else { at_first % stride }).step_by(stride);
            cases.extend(taken.map(|at| (scenario, Fault { at, mode })));
        }
    }
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((scenario, fault)) = cases.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Err(error) = check(scenario, *fault, &folder, &shim) {
                        wrong.lock().unwrap().push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    eprintln!("{} faults in {} scenarios", cases.len(), scenarios.len());
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

/// The library, built with the machine's C compiler; `None` if there is none.
fn build_shim(folder: &Folder) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
    let shim = folder.path("shim.so");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&shim).arg(source).arg("-ldl");
    let said = cc.output().ok()?;
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Some(shim)
}
