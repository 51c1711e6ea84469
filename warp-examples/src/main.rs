//! The `warp` command.
fn main() {}
