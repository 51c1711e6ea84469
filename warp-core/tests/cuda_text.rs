//! The CUDA code of maths, Philox and draws, compiled by the host's C++ compiler, gives the bits of
//! the Rust functions.
//!
//! This needs a C++ compiler (`$CXX`, or `c++`, `g++`, `clang++` on the path), no GPU and no
//! toolkit. Without one the tests are reported as ignored, with the reason; that is why this binary
//! has its own harness. Both sides get the same random words and write [`COLUMNS`] words for each;
//! a column is one test.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use warp_core::draw::{DRAW_CUH, Draw, Purpose};
use warp_core::kernel_text::HOST_SHIM;
use warp_core::math::{self, MATH_CUH};
use warp_core::philox::{PHILOX_CUH, philox4x32_10};

const N: usize = 200_000;
/// What a record holds, in order; `main.cpp` writes the same.
const COLUMNS: [&str; 21] = [
    "sin",
    "cos",
    "exp",
    "ln",
    "tanh",
    "wrap_angle",
    "modulo",
    "sqrt",
    "philox_0",
    "philox_1",
    "philox_2",
    "philox_3",
    "draw_u32",
    "draw_uniform",
    "draw_uniform_in",
    "draw_below",
    "draw_normal",
    "draw_sixth_block",
    "draw_agent",
    "draw_agent_normal",
    "draw_purpose",
];
const MAIN: &str = include_str!("cuda_text/main.cpp");
const FLAGS: [&str; 4] = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-fast-math"];
const PURPOSES: [Purpose; 7] = [
    Purpose::Reset,
    Purpose::Step,
    Purpose::Action,
    Purpose::RandomAction,
    Purpose::Shuffle,
    Purpose::Initialise,
    Purpose::Noise,
];

type Record = [u32; COLUMNS.len()];

/// The argument of the functions in row `i`: special values, any bit pattern, and the ranges in
/// use.
fn argument(i: usize) -> f32 {
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, -1e-45];
    if let Some(x) = special.get(i) {
        return *x;
    }
    let word = philox4x32_10([i as u32, 0, 0, 0], [1, 2])[0];
    let signed = word as i32 as f32 / 2_147_483_648.0;
    match i % 5 {
        0 => f32::from_bits(word),
        1 => signed,
        2 => signed * 10.0,
        3 => signed * 110.0,
        _ => signed * 13_000.0,
    }
}

fn modulus(i: usize) -> f32 {
    [std::f32::consts::TAU, 1.0, 7.0, 0.3][i % 4]
}

/// Names of the stream of row `i`: replica, agent, step.
fn names(i: usize) -> [u32; 3] {
    let n = i as u32;
    [n, n.wrapping_mul(2_654_435_761), n ^ 0xffff]
}

fn rust_record(i: usize) -> Record {
    let x = argument(i);
    let [replica, agent, step] = names(i);
    let words = philox4x32_10([replica, agent, step, x.to_bits()], [agent, replica]);
    let seed = (u64::from(agent) << 32) | u64::from(step);
    let mut draw = Draw::new(seed, replica, step, PURPOSES[i % 7]);
    let mut record = vec![
        math::sin(x).to_bits(),
        math::cos(x).to_bits(),
        math::exp(x).to_bits(),
        math::ln(x).to_bits(),
        math::tanh(x).to_bits(),
        math::wrap_angle(x).to_bits(),
        math::modulo(x, modulus(i)).to_bits(),
        math::sqrt(x).to_bits(),
    ];
    record.extend(words);
    record.push(draw.next_u32());
    record.push(draw.uniform().to_bits());
    record.push(draw.uniform_in(-0.7, 1.9).to_bits());
    record.push(draw.below(agent));
    record.push(draw.normal().to_bits());
    (0..14).for_each(|_| _ = draw.next_u32());
    record.push(draw.next_u32());
    let mut of_agent = draw.agent(agent);
    record.push(of_agent.next_u32());
    record.push(of_agent.normal().to_bits());
    record.push(PURPOSES[i % 7] as u32);
    record.try_into().expect("one word per column")
}

/// Columns that hold floats, of which two NaNs are equal whatever their payload.
fn is_float(column: usize) -> bool {
    column < 8 || [13, 14, 16, 19].contains(&column)
}

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

fn compile(compiler: &str, folder: &Path) -> Result<PathBuf, String> {
    let files = [
        ("math.cuh", MATH_CUH),
        ("philox.cuh", PHILOX_CUH),
        ("draw.cuh", DRAW_CUH),
        ("host_shim.h", HOST_SHIM),
        ("main.cpp", MAIN),
    ];
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for (name, text) in files {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    let program = folder.join(if cfg!(windows) { "cuda_text.exe" } else { "cuda_text" });
    run(Command::new(compiler).args(FLAGS).arg(folder.join("main.cpp")).arg("-o").arg(&program))?;
    Ok(program)
}

/// All records of the C++ program, column by column within each.
fn cuda_words(compiler: &str) -> Result<Vec<u32>, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_text");
    let program = compile(compiler, &folder)?;
    let (input, output) = (folder.join("input.bin"), folder.join("output.bin"));
    let row = |i| [argument(i).to_bits(), modulus(i).to_bits()].into_iter().chain(names(i));
    let bytes: Vec<u8> = (0..N).flat_map(row).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&input, bytes).map_err(|error| error.to_string())?;
    run(Command::new(program).arg(&input).arg(&output))?;
    let bytes = std::fs::read(&output).map_err(|error| error.to_string())?;
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    if words.len() == N * COLUMNS.len() { Ok(words) } else { Err(format!("{} words", words.len())) }
}

fn compare(column: usize, cuda: &[u32]) -> Result<(), Failed> {
    static RUST: OnceLock<Vec<Record>> = OnceLock::new();
    let rust = RUST.get_or_init(|| (0..N).map(rust_record).collect());
    for (i, (cuda, rust)) in cuda.chunks_exact(COLUMNS.len()).zip(rust).enumerate() {
        let (cuda, rust) = (cuda[column], rust[column]);
        let both_nan =
            is_float(column) && f32::from_bits(cuda).is_nan() && f32::from_bits(rust).is_nan();
        if cuda != rust && !both_nan {
            let [a, b] = [rust, cuda].map(f32::from_bits);
            let (name, x) = (COLUMNS[column], argument(i));
            return Err(format!(
                "{name}, row {i}, x = {x:e}: rust {rust:#x} ({a:e}) .. cuda {cuda:#x} ({b:e})"
            )
            .into());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    static CUDA: OnceLock<Result<Vec<u32>, String>> = OnceLock::new();
    let arguments = Arguments::from_args();
    let found = compiler();
    if found.is_none() {
        println!("ignored: no C++ compiler found ($CXX, c++, g++, clang++)");
    }
    let trial = |(column, name): (usize, &&str)| {
        let compiler = found.clone().unwrap_or_default();
        let test = move || compare(column, CUDA.get_or_init(|| cuda_words(&compiler)).as_ref()?);
        Trial::test(*name, test).with_ignored_flag(found.is_none())
    };
    let trials = COLUMNS.iter().enumerate().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
