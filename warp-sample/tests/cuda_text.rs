//! The CUDA code of the samplers, compiled by the host's C++ compiler, draws the bits of the Rust ones.
//!
//! This needs a C++ compiler (`$CXX`, or `c++`, `g++`, `clang++` on the path), no GPU and no toolkit.
//! Without one the tests are reported as ignored, with the reason; that is why this binary has its
//! own harness. A case is a layout; both sides get the same rows.

#[path = "cases/mod.rs"]
mod cases;

use cases::{Case, Drawn, cases};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::{Command, ExitCode};
use warp_core::kernel_text::{HEADERS, HOST_SHIM};
use warp_sample::kernel_text::{SAMPLE_CUH, layout_text};
use warp_sample::{ActionLayout, Mode, OrnsteinUhlenbeck};

const MAIN: &str = include_str!("cuda_text/main.cpp");
const FLAGS: [&str; 4] = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-fast-math"];
const SEED: u64 = 0x0123_4567_89ab_cdef;
const STEP: u32 = 77;

fn compiler() -> Option<String> {
    let named = std::env::var("CXX").ok();
    let usual = ["c++", "g++", "clang++"].map(String::from);
    let works = |name: &String| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    named.into_iter().chain(usual).find(works)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?} failed:\n{log}")) }
}

/// What the C++ program makes of the case's rows.
fn cuda_words(case: &Case, compiler: &str) -> Result<Vec<u32>, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample_text").join(case.name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).map_err(|error| error.to_string())
    };
    for (name, text) in HEADERS {
        write(name, text.as_bytes())?;
    }
    write("host_shim.h", HOST_SHIM.as_bytes())?;
    write("sample.cuh", SAMPLE_CUH.as_bytes())?;
    let policy = layout_text("Policy", &case.layout, case.mask.is_some());
    write("policy.cuh", policy.as_bytes())?;
    write("main.cpp", MAIN.as_bytes())?;
    let (width, n_agents) = (case.layout.output_width(), case.n_agents as usize);
    let mut words = Vec::new();
    for row in 0..case.n_rows {
        words.extend([(row % n_agents) as u32 + case.first_agent, (row / n_agents) as u32, STEP]);
        words.extend(case.outputs[row * width..][..width].iter().map(|x| x.to_bits()));
        let mask = case.mask.as_ref().map(|mask| &mask[row * width..][..width]);
        words.extend((0..width).map(|i| mask.map_or(1, |mask| u32::from(mask[i]))));
    }
    write("input.bin", &words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>())?;
    let at = |name: &str| folder.join(name);
    run(Command::new(compiler).args(FLAGS).arg(at("main.cpp")).arg("-o").arg(at("program")))?;
    run(Command::new(at("program")).arg(at("input.bin")).arg(at("output.bin")))?;
    let bytes = std::fs::read(at("output.bin")).map_err(|error| error.to_string())?;
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// The same words from the Rust samplers.
fn rust_words(case: &Case) -> Vec<u32> {
    let rows = case.rows(SEED, STEP);
    let drawn = [Mode::Sample, Mode::Sample, Mode::Greedy].map(|mode| case.sample(&rows, mode));
    let random = case.random(&rows);
    let width = case.layout.action_width();
    let mut words = Vec::new();
    for row in 0..case.n_rows {
        let part = row * width..(row + 1) * width;
        for Drawn { discrete, raw, bounded, log_probs, entropies } in &drawn {
            words.extend(discrete.get(part.clone()).unwrap_or(&[]).iter().map(|a| *a as u32));
            for floats in [raw, bounded] {
                words.extend(floats.get(part.clone()).unwrap_or(&[]).iter().map(|x| x.to_bits()));
            }
            words.extend([log_probs[row].to_bits(), entropies[row].to_bits(), 1]);
        }
        words.extend(random.discrete.get(part.clone()).unwrap_or(&[]).iter().map(|a| *a as u32));
        words.extend(random.bounded.get(part.clone()).unwrap_or(&[]).iter().map(|x| x.to_bits()));
        if let ActionLayout::Continuous(elements) = &case.layout {
            let own = &case.outputs[2 * row * width..][..2 * width];
            let (mut noise, mut actions) = (own[width..].to_vec(), vec![0.0; width]);
            let by = OrnsteinUhlenbeck::new(0.15, 0.2, 0.7).expect("coefficients within range");
            let one = cases::one_row(&rows, row);
            by.apply(elements, &own[..width], &one, &mut noise, &mut actions).expect("it fits");
            words.extend(noise.iter().chain(&actions).map(|x| x.to_bits()));
        }
    }
    words
}

fn compare(case: &Case, compiler: &str) -> Result<(), Failed> {
    let (cuda, rust) = (cuda_words(case, compiler)?, rust_words(case));
    if cuda.len() != rust.len() {
        return Err(format!("{} words .. {}", rust.len(), cuda.len()).into());
    }
    let per_row = rust.len() / case.n_rows;
    match rust.iter().zip(&cuda).position(|(a, b)| a != b) {
        Some(at) => {
            let [a, b] = [rust[at], cuda[at]].map(f32::from_bits);
            let (row, word) = (at / per_row, at % per_row);
            Err(format!(
                "row {row}, word {word}: rust {:#x} ({a:e}) .. cuda {:#x} ({b:e})",
                rust[at], cuda[at]
            )
            .into())
        }
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let found = compiler();
    if found.is_none() {
        println!("ignored: no C++ compiler found ($CXX, c++, g++, clang++)");
    }
    let trial = |case: Case| {
        let compiler = found.clone().unwrap_or_default();
        Trial::test(case.name, move || compare(&case, &compiler)).with_ignored_flag(found.is_none())
    };
    libtest_mimic::run(&arguments, cases().into_iter().map(trial).collect()).exit_code()
}
