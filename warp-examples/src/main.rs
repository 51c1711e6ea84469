//! The `warp` command with the environments of `warp-envs`.
#![expect(unsafe_code, reason = "sets an environment variable before there are threads")]

use std::process::ExitCode;

/// Whether NCCL may sum in the switch between GPUs.
const NCCL_NVLS_ENABLE: &str = "NCCL_NVLS_ENABLE";

fn main() -> ExitCode {
    // Sums are formed in the order of ranks, by kernels of ours; NCCL only carries them. Left to itself it takes
    // the switch's multicast, which it does not need for that, and which not every machine lends.
    if std::env::var_os(NCCL_NVLS_ENABLE).is_none() {
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var(NCCL_NVLS_ENABLE, "0") };
    }
    warp_examples::run(warp_envs::registry())
}
