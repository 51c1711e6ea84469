//! The `warp` command with the environments of `warp-envs`.
#![expect(
    unsafe_code,
    reason = "sets an environment variable before there are threads, and how they share memory"
)]

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
    keep_memory();
    #[cfg(unix)]
    hear_of_file_limits();
    warp_examples::run(warp_envs::registry())
}

/// Makes a write beyond `ulimit -f` an error, which can be said, instead of the end of the process.
#[cfg(unix)]
fn hear_of_file_limits() {
    let limit = signal_hook::consts::signal::SIGXFSZ;
    // Without the handler it is as if this function were not there.
    let _ = signal_hook::flag::register(limit, std::sync::Arc::default());
}

/// Lets threads keep the memory that they have got from the system. glibc would ask for a few pages at a time, give them
/// back, and change the process's map for that each time, for which all threads wait: a fleet on several GPUs has over
/// a hundred, which initialise weights in less than half of the time like this.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_memory() {
    use std::ffi::c_int;
    // Whoever has said how it is to be is heard.
    let is_said = |(name, _): (std::ffi::OsString, _)| {
        name == "GLIBC_TUNABLES" || name.as_encoded_bytes().starts_with(b"MALLOC_")
    };
    if std::env::vars_os().any(is_said) {
        return;
    }
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_TOP_PAD: c_int = -2;
    const M_MMAP_THRESHOLD: c_int = -3;
    // SAFETY: declared as in malloc.h.
    unsafe extern "C" {
        fn mallopt(param: c_int, value: c_int) -> c_int;
    }
    for (param, value) in
        [(M_TRIM_THRESHOLD, 256 << 20), (M_TOP_PAD, 16 << 20), (M_MMAP_THRESHOLD, 32 << 20)]
    {
        // SAFETY: there is no other thread yet; what the allocator does not take, it leaves as it was.
        unsafe { mallopt(param, value) };
    }
}

/// Other allocators do so by themselves, or have their own ways.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep_memory() {}
