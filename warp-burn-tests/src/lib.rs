//! Nothing: a member of the workspace that asks for the feature `burn`, so that `cargo test --workspace`
//! builds and tests what the default `warp` leaves out.
//!
//! `tests/` holds burn's learner against the native one. The tests of `warp-train` and `warp-examples` have
//! burn as well wherever this crate is built beside them.
