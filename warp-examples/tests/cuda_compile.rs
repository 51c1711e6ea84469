//! NVRTC compiles every CUDA body, with the executor's kernels around it, for the H200's machine
//! code; this needs no GPU.
//!
//! Without NVRTC the tests are reported as ignored, with the reason; that is why this binary has its
//! own harness.

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use warp_core::toml::Table;
use warp_func::cuda::{Build, compile, env_kernels, nvrtc_version};

const ARCHITECTURE: &str = "sm_90a";

fn main() -> ExitCode {
    let missing = nvrtc_version().err();
    if let Some(reason) = &missing {
        eprintln!("ignored: {reason}");
    }
    let registry = warp_envs::registry();
    let bodies = registry.entries().filter(|entry| entry.kernel.is_some());
    let trial = |entry: &warp_func::Entry, build: Build| {
        let (name, entry) = (format!("{} {build:?}", entry.name).to_lowercase(), entry.clone());
        Trial::test(name, move || compiles(&entry, build)).with_ignored_flag(missing.is_some())
    };
    let trials =
        bodies.flat_map(|entry| [trial(entry, Build::Parity), trial(entry, Build::Release)]);
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn compiles(entry: &warp_func::Entry, build: Build) -> Result<(), Failed> {
    let kernels = env_kernels(&entry.blueprint(&Table::new())?)?;
    let code = compile(&kernels.executor(), build, ARCHITECTURE)?;
    if code.starts_with(b"\x7fELF") { Ok(()) } else { Err("no machine code came out".into()) }
}
