//! What `cargo xtask` can do: a library, so that `cargo test` runs `tidy` too.
//!
//! One file per command; [`workspace`] holds what the commands share.

pub mod bench;
pub mod bundle;
pub mod ci;
pub mod curves;
pub mod deny;
pub mod faults;
pub mod fuzz;
pub mod models;
pub mod nightly;
pub mod tidy;
pub mod workspace;
