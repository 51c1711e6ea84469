//! `cargo xtask faults`: all the faults of which `cargo test` takes a sample.
//!
//! `warp-examples/tests/faults.rs` lets one call that changes a run's folder fail, or kills the run there; here
//! it does so for every such call.

use anyhow::Result;

use crate::workspace::CommandLine;

/// Runs the test for all calls.
///
/// # Errors
/// When something that was complete is lost, or a run does not go on as it should.
pub fn run() -> Result<()> {
    let test = "cargo test --locked -p warp-examples --test faults -- --nocapture";
    CommandLine::new(test).with("WARP_FAULTS", "all").run()
}
