//! Random bodies that were translated give the bits on a GPU that Rust gave them.
//!
//! `warp-translate/tests/bits` makes the bodies and lets Rust run them. With `WARP_BITS_OUT=FOLDER` it
//! leaves their CUDA code, what they were given and what came out in a folder, and `WARP_BITS=FOLDER` is
//! where it is found here. What needs a GPU is named `cuda_*`, what needs NVRTC alone `nvrtc_*`; without
//! them, or without the folder, the tests are reported as ignored, with the reason, which is why this
//! binary has its own harness.

mod files;
mod one_by_one;
mod scalars;
mod teams;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use warp_func::cuda::{Build, Check, Device, Kernels, Source, check_source, nvrtc_version};

/// What `nvrtc_*` compile for.
const ARCH: &str = "sm_90a";

fn main() -> ExitCode {
    let no_files = files::missing();
    let no_nvrtc = no_files.or_else(|| nvrtc_version().err().map(|error| error.to_string()));
    let no_gpu = no_nvrtc.clone().or_else(|| Device::open(0).err().map(|error| error.to_string()));
    if let Some(reason) = &no_gpu {
        println!("ignored: {reason}");
    }
    let trial = |name: &str, test: fn() -> Result<(), Failed>, missing: &Option<String>| {
        Trial::test(name, test).with_ignored_flag(missing.is_some())
    };
    let trials = vec![
        trial("nvrtc_bodies_of_scalars_compile", || compiled(&scalars::units()?), &no_nvrtc),
        trial("nvrtc_bodies_of_teams_compile", || compiled(&teams::units()?), &no_nvrtc),
        trial("cuda_bodies_of_scalars_keep_their_bits", || scalars::compare(&gpu()?), &no_gpu),
        trial("cuda_bodies_of_teams_keep_their_bits", || teams::compare(&gpu()?), &no_gpu),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A device of the test's own, as a trap in one body ends all work on it.
fn gpu() -> Result<Kernels, Failed> {
    Ok(Kernels::new(&Device::open(0)?))
}

/// Compiles the parity build of every unit, a few at a time.
fn compiled(units: &[Source]) -> Result<(), Failed> {
    for some in units.chunks(one_by_one::at_once()) {
        std::thread::scope(|scope| {
            let begin = |unit| {
                scope.spawn(move || check_source(unit, Build::Parity, ARCH, Check::Assembled))
            };
            let compiling: Vec<_> = some.iter().map(begin).collect();
            compiling.into_iter().try_for_each(|one| match one.join() {
                Ok(compiled) => compiled.map_err(Failed::from),
                Err(_) => Err("compiling panicked".into()),
            })
        })?;
    }
    Ok(())
}
