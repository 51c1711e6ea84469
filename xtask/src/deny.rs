//! `cargo xtask deny`: what `deny.toml` says of dependencies, the database of known vulnerabilities
//! included, which needs a network. The gate checks the rest.

use anyhow::Result;

use crate::workspace::CommandLine;

/// Runs cargo-deny.
///
/// # Errors
/// A dependency that is not allowed or known to be vulnerable; no cargo-deny, or no network.
pub fn run() -> Result<()> {
    CommandLine::new("cargo deny --locked check").run()
}
