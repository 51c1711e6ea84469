//! Runs cargo for the workspace.
fn main() {}
