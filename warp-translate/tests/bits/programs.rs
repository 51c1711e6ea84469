//! Two programs from the same functions, and what they print.

use crate::prelude::PRELUDE;
use crate::random::Random;
use crate::{cases, generate, teams};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the framework's files lie.
const CORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../warp-core/src");

/// What Rust would stop at stops the program, too.
const DEFECTS: [&str; 2] = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"];

/// Tuples of arguments for each function.
const TUPLES: usize = 24;

/// A C++ compiler that works.
pub(crate) fn compiler() -> Option<String> {
    let named = std::env::var("CXX").ok();
    let usual = ["c++", "g++", "clang++"].map(String::from);
    let works = |name: &String| Command::new(name).arg("--version").output().is_ok();
    named.into_iter().chain(usual).find(works)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let log: String = log.lines().take(60).collect::<Vec<_>>().join("\n");
    Err(format!("{command:?} ended with {}:\n{log}", output.status))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The framework's functions as a library of their own.
fn core(folder: &Path) -> Result<PathBuf, String> {
    let source = format!(
        "#[path = \"{CORE}/philox.rs\"]\npub mod philox;\n#[path = \"{CORE}/math.rs\"]\npub mod math;\n\
         #[path = \"{CORE}/team.rs\"]\npub mod team;\n"
    );
    write(&folder.join("core.rs"), &source)?;
    let library = folder.join("libwarp_core.rlib");
    let mut rustc = rustc();
    rustc.args(["--crate-type", "rlib", "--crate-name", "warp_core", "--cap-lints", "allow"]);
    run(rustc.arg(folder.join("core.rs")).arg("-o").arg(&library))?;
    Ok(library)
}

fn rustc() -> Command {
    let mut rustc = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()));
    rustc.args(["--edition", "2024", "-C", "opt-level=1", "-C", "overflow-checks=on"]);
    rustc
}

struct Programs {
    folder: PathBuf,
    rust: PathBuf,
    /// The text that was translated, for messages.
    cpp: String,
}

/// Compiles the Rust program and translates its functions.
fn build(name: &str, text: &str, names: &[String]) -> Result<Programs, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bits").join(name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let library = core(&folder)?;
    let source = folder.join("program.rs");
    write(&source, text)?;
    let rust = folder.join("rust");
    let mut rustc = rustc();
    rustc
        .args(["--cap-lints", "allow", "--extern"])
        .arg(format!("warp_core={}", library.display()));
    run(rustc.arg(&source).arg("-o").arg(&rust))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cpp = warp_translate::translate_functions(&source, &names).map_err(|diagnostics| {
        let lines: Vec<String> = diagnostics.iter().take(20).map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    Ok(Programs { folder, rust, cpp })
}

impl Programs {
    /// Compiles the C++ program for teams of `team` threads.
    fn compile(
        &self,
        compiler: &str,
        main: &str,
        (team, flags): (usize, &[&str]),
    ) -> Result<PathBuf, String> {
        let text = format!(
            "#define WARP_TEAM {team}\n#include \"host_shim.h\"\n#include \"draw.cuh\"\n\
             #include \"translated.cuh\"\n{}\n{main}",
            self.cpp
        );
        let source = self.folder.join(format!("program_{team}.cpp"));
        write(&source, &text)?;
        let program = self.folder.join(format!("cpp_{team}"));
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-O1", "-ffp-contract=off", "-w", "-pthread"]);
        command.args(flags);
        run(command.arg("-I").arg(CORE).arg(&source).arg("-o").arg(&program))?;
        Ok(program)
    }

    fn words(&self, program: &Path, input: &[u32]) -> Result<Vec<u32>, String> {
        let (from, to) = (self.folder.join("input"), self.folder.join("output"));
        let bytes: Vec<u8> = input.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(&from, bytes).map_err(|error| error.to_string())?;
        run(Command::new(program).arg(&from).arg(&to))?;
        let bytes = std::fs::read(&to).map_err(|error| error.to_string())?;
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }
}

/// Reading and writing in both languages.
const RUST_FILES: &str = "
fn words() -> Vec<u32> {
    let bytes = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn write(words: &[u32]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(std::env::args().nth(2).unwrap(), bytes).unwrap();
}
";
const CPP_FILES: &str = "
#include <stdio.h>
#include <vector>
static std::vector<unsigned int> words(const char* path) {
    std::vector<unsigned int> all;
    FILE* file = fopen(path, \"rb\");
    unsigned int word;
    while (file && fread(&word, 4, 1, file) == 1) all.push_back(word);
    if (file) fclose(file);
    return all;
}
static int write_words(const char* path, const std::vector<unsigned int>& all) {
    FILE* file = fopen(path, \"wb\");
    if (!file || fwrite(all.data(), 4, all.size(), file) != all.size()) return 3;
    return fclose(file) == 0 ? 0 : 3;
}
";

/// Arguments that are small, large, special or anything.
fn arguments(random: &mut Random) -> Vec<u32> {
    let floats = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 1e5, -7.25, f32::NAN, f32::INFINITY, 3e9, 1e-40];
    let ints = [0, 1, -1, 7, 100, -100, i32::MAX, i32::MIN];
    let mut all = Vec::new();
    for _ in 0..TUPLES {
        for at in 0..6 {
            let special = random.chance(50);
            all.push(match (at, special) {
                (0 | 1, true) => random.pick(&floats).to_bits(),
                (0 | 1, false) => ((random.below(4_000) as f32 - 2_000.0) / 64.0).to_bits(),
                (_, true) => random.pick(&ints) as u32,
                _ => random.next() as u32 >> random.below(30),
            });
        }
    }
    all
}

/// The text of one function, for a message.
fn text_of<'t>(text: &'t str, head: &str) -> &'t str {
    let Some(start) = text.find(head) else { return "" };
    let end = text[start..].find("\n}\n").map_or(text.len(), |end| start + end + 3);
    &text[start..end]
}

/// Leaves what a GPU needs for the same comparison in the folder that `WARP_BITS_OUT` names: the text
/// of the functions, the arguments and the words from Rust, `[TUPLES, n]`.
fn hand_out(name: &str, cpp: &str, input: &[u32], expected: &[u32]) -> Result<(), String> {
    let Some(folder) = std::env::var_os("WARP_BITS_OUT") else { return Ok(()) };
    let folder = Path::new(&folder).join(name);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    write(&folder.join("bodies.cuh"), cpp)?;
    for (file, words) in [("input.bin", input), ("expected.bin", expected)] {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(folder.join(file), bytes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Functions of scalars: `n` random ones and those by hand.
pub(crate) fn scalars(compiler: &str, n: usize, seed: u64) -> Result<(), String> {
    let random: String = (0..n).map(|k| generate::function(k, seed)).collect();
    let functions = random + &cases::functions(n);
    let n = n + cases::count();
    let names: Vec<String> = (0..n).map(|k| format!("f_{k}")).collect();
    let main = format!(
        "{RUST_FILES}
type Function = fn(f32, f32, i32, i32, u32, u32) -> u32;
const ALL: [Function; {n}] = [{}];

fn main() {{
    let mut out = Vec::new();
    let float = |word: u32| f32::from_bits(word);
    for w in words().chunks_exact(6) {{
        for f in ALL {{
            out.push(f(float(w[0]), float(w[1]), w[2] as i32, w[3] as i32, w[4], w[5]));
        }}
    }}
    write(&out);
}}
",
        names.join(", ")
    );
    let text = format!("{}{functions}{main}", PRELUDE);
    let programs = build("scalars", &text, &names)?;
    let cpp_main = format!(
        "{CPP_FILES}
typedef unsigned int (*Function)(float, float, int, int, unsigned int, unsigned int);
static Function ALL[] = {{{}}};
int main(int, char** argv) {{
    std::vector<unsigned int> in = words(argv[1]), out;
    for (size_t at = 0; at + 6 <= in.size(); at += 6) {{
        const unsigned int* w = in.data() + at;
        for (Function f : ALL)
            out.push_back(f(warp_float(w[0]), warp_float(w[1]), (int)w[2], (int)w[3], w[4], w[5]));
    }}
    return write_words(argv[2], out);
}}
",
        names.join(", ")
    );
    let program = programs.compile(compiler, &cpp_main, (1, &DEFECTS))?;
    let input = arguments(&mut Random(seed ^ 0xa11));
    let rust = programs.words(&programs.rust, &input)?;
    hand_out("scalars", &programs.cpp, &input, &rust)?;
    let cpp = programs.words(&program, &input)?;
    if rust.len() != cpp.len() || rust.len() != n * TUPLES {
        return Err(format!("{} words from Rust, {} from C++", rust.len(), cpp.len()));
    }
    match rust.iter().zip(&cpp).position(|(rust, cpp)| rust != cpp) {
        None => Ok(()),
        Some(at) => {
            let (k, tuple) = (at % n, at / n);
            let differ = (0..n).filter(|k| (0..TUPLES).any(|t| rust[t * n + k] != cpp[t * n + k]));
            Err(format!(
                "{} of {n} functions differ, first f_{k} for {:x?}: {:x} from Rust, {:x} from C++\n{}\n{}",
                differ.count(),
                &input[6 * tuple..6 * tuple + 6],
                rust[at],
                cpp[at],
                text_of(&text, &format!("fn f_{k}(")),
                text_of(&programs.cpp, &format!("unsigned int f_{k}(")),
            ))
        }
    }
}

/// Functions of teams, by one thread and by four.
pub(crate) fn teams(compiler: &str, n: usize, seed: u64) -> Result<(), String> {
    // Their text is long, and is compiled twice.
    let n = n / 2;
    let len = teams::LEN;
    let names: Vec<String> = (0..n).map(|k| format!("t_{k}")).collect();
    let functions: String = (0..n).map(|k| teams::function(k, seed)).collect();
    let main = format!(
        "{RUST_FILES}
type Function = fn(&mut [f32], &mut [f32], &mut [i32], i32);
const ALL: [Function; {n}] = [{}];

fn main() {{
    let mut out = Vec::new();
    for p in words() {{
        for f in ALL {{
            let mut x: [f32; {len}] = std::array::from_fn(|i| i as f32 * 0.25 - 1.0);
            let mut z: [f32; {len}] = std::array::from_fn(|i| 2.0 - i as f32 * 0.5);
            let mut y: [i32; {len}] = std::array::from_fn(|i| i as i32 * 3 - 9);
            f(&mut x, &mut z, &mut y, p as i32);
            out.extend(x.map(bits));
            out.extend(z.map(bits));
            out.extend(y.map(|y| y as u32));
        }}
    }}
    write(&out);
}}
",
        names.join(", ")
    );
    let text = format!("{}{functions}{main}", PRELUDE);
    let programs = build("teams", &text, &names)?;
    let cpp_main = cpp_team_main(&names);
    let input = [3, 4, 0xffff_fff0];
    let rust = programs.words(&programs.rust, &input)?;
    hand_out("teams", &programs.cpp, &input, &rust)?;
    for team in [1, 4] {
        let program = programs.compile(compiler, &cpp_main, (team, &[]))?;
        let cpp = programs.words(&program, &input)?;
        if rust.len() != cpp.len() {
            return Err(format!("{} words from Rust, {} from C++", rust.len(), cpp.len()));
        }
        if let Some(at) = rust.iter().zip(&cpp).position(|(rust, cpp)| rust != cpp) {
            let k = at / (3 * len) % n;
            return Err(format!(
                "a team of {team}: t_{k} differs in word {}: {:x} from Rust, {:x} from C++\n{}\n{}",
                at % (3 * len),
                rust[at],
                cpp[at],
                text_of(&text, &format!("fn t_{k}(")),
                text_of(&programs.cpp, &format!("void t_{k}(")),
            ));
        }
    }
    Ok(())
}

/// Functions of teams under ThreadSanitizer: none has a race, and one that has is found.
pub(crate) fn races(compiler: &str, n: usize, seed: u64) -> Result<(), String> {
    let functions: String = (0..n).map(|k| teams::function(k, seed)).collect();
    let names: Vec<String> = (0..n).map(|k| format!("t_{k}")).collect();
    raced(compiler, "races", &functions, &names)?;
    // Every index writes its neighbour's element, which the neighbour reads.
    let planted = "
fn t_0(x: &mut [f32], z: &mut [f32], y: &mut [i32], p: i32) {
    let n = x.len();
    for i in team::each(n) {
        x[(i + 1) % n] = tame(x[i] + z[i]);
    }
}
";
    match raced(compiler, "planted", planted, &["t_0".to_string()]) {
        Err(report) if report.contains("data race") => Ok(()),
        Err(other) => Err(other),
        Ok(()) => Err("the planted race was not found".into()),
    }
}

fn raced(compiler: &str, name: &str, functions: &str, names: &[String]) -> Result<(), String> {
    let text = format!("{}{functions}\nfn main() {{}}\n", PRELUDE);
    let programs = build(name, &text, names)?;
    let main = cpp_team_main(names);
    let program = programs.compile(compiler, &main, (4, &["-fsanitize=thread", "-g"]))?;
    programs.words(&program, &[3, 4]).map(drop)
}

fn cpp_team_main(names: &[String]) -> String {
    let len = teams::LEN;
    format!(
        "{CPP_FILES}
#if WARP_TEAM > 1
#include <thread>
#endif
typedef void (*Function)(WarpSlice<float>, WarpSlice<float>, WarpSlice<int>, int);
static Function ALL[] = {{{}}};
alignas(16) static float x[{len}], z[{len}];
static int y[{len}];
static std::vector<unsigned int> in, out;
static void start() {{
    for (int i = 0; i < {len}; ++i) {{
        x[i] = i * 0.25f - 1.0f;
        z[i] = 2.0f - i * 0.5f;
        y[i] = i * 3 - 9;
    }}
}}
static unsigned int bits_of(float v) {{ return v != v ? 0x7fc00000u : warp_bits(v); }}
static void keep() {{
    for (float v : x) out.push_back(bits_of(v));
    for (float v : z) out.push_back(bits_of(v));
    for (int v : y) out.push_back((unsigned int)v);
}}
static void work(unsigned int thread) {{
#if WARP_TEAM > 1
    threadIdx.x = thread;
#endif
    for (unsigned int p : in) {{
        for (Function f : ALL) {{
            if (warp_first() == 0) start();
            warp_sync();
            f({{x, {len}u}}, {{z, {len}u}}, {{y, {len}u}}, (int)p);
            warp_sync();
            if (warp_first() == 0) keep();
        }}
    }}
}}
int main(int, char** argv) {{
    in = words(argv[1]);
#if WARP_TEAM > 1
    std::vector<std::thread> others;
    for (unsigned int t = 1; t < WARP_TEAM; ++t) others.emplace_back(work, t);
#endif
    work(0);
#if WARP_TEAM > 1
    for (std::thread& other : others) other.join();
#endif
    return write_words(argv[2], out);
}}
",
        names.join(", ")
    )
}
