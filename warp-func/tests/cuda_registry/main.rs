//! The kernel registry, the device's arrays and environments on a GPU.
//!
//! What needs a GPU is named `cuda_*`, what needs NVRTC alone `nvrtc_*`, and what needs a C++ compiler
//! `host_*`; where there is none, it is reported as ignored, with the reason, which is why this binary has
//! its own harness.

#![expect(clippy::unwrap_used, reason = "clippy knows tests by their attribute, which these lack")]

#[path = "../worlds/board.rs"]
mod board;
mod device;
#[path = "../worlds/drone.rs"]
mod drone;
mod herd;
mod host_pool;
mod nvrtc;
mod replicas;
mod staging;
mod stepped;
#[path = "../worlds/swarm.rs"]
mod swarm;

use libtest_mimic::{Arguments, Trial};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use warp_func::cuda::{Device, Source, nvrtc_version};

/// Set in the process that runs the tests.
const CACHE: &str = "WARP_CACHE";
const MARK: &str = "WARP_TEST_CACHE_IS_OWN";

fn main() -> ExitCode {
    if std::env::var_os(MARK).is_none() {
        return in_own_cache();
    }
    let no_nvrtc = nvrtc_version().err().map(|e| e.to_string());
    let no_gpu = match (Device::open(0), &no_nvrtc) {
        (Err(e), _) => Some(e.to_string()),
        (_, missing) => missing.clone(),
    };
    if let Some(reason) = &no_gpu {
        eprintln!("ignored: {reason}");
    }
    let trial = |(name, test): (&'static str, fn()), missing: &Option<String>| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    };
    let mut trials: Vec<Trial> = nvrtc::TESTS.map(|test| trial(test, &no_nvrtc)).into();
    let no_compiler = host_pool::compiler().is_none().then(|| "no C++ compiler".to_string());
    trials.extend(host_pool::TESTS.map(|test| trial(test, &no_compiler)));
    trials.extend(device::TESTS.map(|test| trial(test, &no_gpu)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs the tests in a process whose compiled kernels have a folder of their own, since a process
/// can't change its variables while threads run.
fn in_own_cache() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("warp-test-kernels-{}", std::process::id()));
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(CACHE, &folder).env(MARK, "1");
    let status = command.status().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folder of compiled kernels of this process.
fn cache() -> PathBuf {
    warp_func::cuda::cache_folder().unwrap()
}

/// A unit that writes `a + value`, `times` times over.
fn add(value: &str) -> Source {
    let text = "extern \"C\" __global__ void add(const float* a, float* out, unsigned int n, int times) {\n\
        unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
        if (i < n) for (int t = 0; t < times; ++t) out[i] = a[i] + VALUE;\n}\n";
    Source::new("add.cu", text).define("VALUE", value)
}
