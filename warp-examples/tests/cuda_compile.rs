//! NVRTC compiles every CUDA body, with the executor's kernels around it, for the H200's machine
//! code; this needs no GPU.
//!
//! Without NVRTC the tests are reported as ignored, with the reason; that is why this binary has its
//! own harness.

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use warp_core::toml::Table;
use warp_func::cuda::{
    Build, Check, ExecutorPart, Source, check_source, env_kernels, nvrtc_version, replica_source,
};

const ARCHITECTURE: &str = "sm_90a";

/// Sizes for which a body is another text than for the default one: environment, what is special,
/// configuration.
const SIZES: [(&str, &str, &str); 4] = [
    (
        "tag_continuous",
        "nearest",
        "num_taggers = 5\nnum_runners = 100\nuse_full_observation = false\n\
         num_other_agents_observed = 10",
    ),
    (
        "tag_continuous",
        "nearest_of_5000",
        "num_taggers = 50\nnum_runners = 4950\nuse_full_observation = false\n\
         num_other_agents_observed = 20",
    ),
    ("tag_gridworld", "partial", "num_taggers = 4\nuse_full_observation = false"),
    ("tag_gridworld", "partial_of_1000", "num_taggers = 999\nuse_full_observation = false"),
];

fn main() -> ExitCode {
    let missing = nvrtc_version().err();
    if let Some(reason) = &missing {
        eprintln!("ignored: {reason}");
    }
    let registry = warp_envs::registry();
    let bodies = registry.entries().filter(|entry| entry.kernel.is_some());
    let trial = |entry: &warp_func::Entry, size: &str, config: &str, build: Build| {
        let name = format!("{} {size} {build:?}", entry.name).to_lowercase();
        let (entry, config) = (entry.clone(), config.to_string());
        let test = move || compiles(&entry, &config.parse()?, build);
        Trial::test(name, test).with_ignored_flag(missing.is_some())
    };
    let mut trials = Vec::new();
    for entry in bodies {
        let sizes = SIZES.iter().filter(|(env, ..)| *env == entry.name);
        for (_, size, config) in [(entry.name, "default", "")].iter().chain(sizes) {
            trials.push(trial(entry, size, config, Build::Parity));
            trials.push(trial(entry, size, config, Build::Release));
        }
    }
    let refuses = Trial::test("refuses_what_is_no_code", refuses_what_is_no_code);
    trials.push(refuses.with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn compiles(entry: &warp_func::Entry, config: &Table, build: Build) -> Result<(), Failed> {
    let kernels = env_kernels(&entry.blueprint(config)?)?;
    let mut units: Vec<_> = ExecutorPart::ALL.map(|part| kernels.executor(part)).into();
    // Replicas that go their own way have the host's bits.
    if build == Build::Parity {
        units.push(replica_source(&entry.blueprint(config)?, None)?);
    }
    for unit in units {
        check_source(&unit, build, ARCHITECTURE, Check::Assembled)?;
    }
    Ok(())
}

/// Neither the compiler nor its assembler takes just any text; what is written in `asm` only the latter reads.
fn refuses_what_is_no_code() -> Result<(), Failed> {
    let check = |statement: &str, check: Check| {
        let text = format!("extern \"C\" __global__ void f(int* out) {{ {statement} }}");
        check_source(&Source::new("f.cu", text), Build::Release, ARCHITECTURE, check)
    };
    let (name, instruction) = ("*out = one;", r#"asm volatile("halve.b32;");"#);
    check(r#"asm volatile("fence.proxy.async;"); *out = 1;"#, Check::Assembled)?;
    check(instruction, Check::Compiled)?;
    for (statement, how, word) in [
        (name, Check::Compiled, "one"),
        (name, Check::Assembled, "one"),
        (instruction, Check::Assembled, "halve"),
    ] {
        match check(statement, how) {
            Err(error) if error.to_string().contains(word) => {}
            other => return Err(format!("{statement} {how:?}: {other:?}").into()),
        }
    }
    Ok(())
}
