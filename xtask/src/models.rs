//! `cargo xtask miri` and `cargo xtask loom`: unsafe code run by machines that know the rules.
//!
//! Miri is an interpreter that stops at undefined behaviour; loom runs the thread pool once for
//! every order that its steps can take.

use std::process::Command;

use anyhow::Result;

use crate::workspace::CommandLine;

/// Runs, under Miri, what needs no GPU and reaches unsafe code: the store, the executor, the thread pool,
/// and what code without `unsafe` may try against them.
///
/// # Errors
/// A test that fails or does what Rust leaves undefined. Where nightly's Miri is not installed,
/// nothing is run, and that is said.
pub fn miri() -> Result<()> {
    let version =
        Command::new("rustup").args(["run", "nightly", "cargo", "miri", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!(
            "xtask miri: skipped, nightly's Miri is not installed \
             (rustup toolchain install nightly --component miri,rust-src)"
        );
        return Ok(());
    }
    let line = "rustup run nightly cargo miri test --locked -p warp-data -p warp-func --lib \
                --features warp-func/replicas --test safe_code";
    // The store asks the system how much memory is free; a panic that can't be dropped is leaked.
    CommandLine::new(line)
        .with("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks")
        .with("CARGO_TARGET_DIR", "target/miri")
        .run()
}

/// Has loom try the hand-over of jobs between threads, of the thread pool and of queues of replicas.
///
/// # Errors
/// An order of steps in which two threads are at one place, a task is lost, or nobody goes on.
pub fn loom() -> Result<()> {
    CommandLine::new("cargo test --locked -p warp-func --features replicas --lib model::")
        .with("RUSTFLAGS", "--cfg loom")
        .with("CARGO_TARGET_DIR", "target/loom")
        .run()
}
