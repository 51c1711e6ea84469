//! The `warp` command with the environments of `warp-envs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    warp_examples::run(warp_envs::registry())
}
