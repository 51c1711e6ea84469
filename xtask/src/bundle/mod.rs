//! `cargo xtask bundle`: everything that a machine with a GPU and no Rust needs, in one folder.
//!
//! Holds the release program, a second one with LibTorch where `LIBTORCH` says that there is one, the
//! test binaries with tests for a GPU, recorded cases, random bodies with what Rust made of them, the
//! Python package with its tests, examples and notebooks where there is maturin, all packed, and a script. [`artifacts`]
//! finds what cargo built. Only what the last bundle put into the folder is replaced.

pub mod artifacts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::bench;
use crate::workspace::{self, CommandLine};
use artifacts::Artifact;

/// The scripts and their names: the one that is run, the parts of it that need several GPUs, and their peer.
const SCRIPTS: [(&str, &str); 3] = [
    (SCRIPT_NAME, include_str!("run.sh")),
    ("ranks.sh", include_str!("ranks.sh")),
    ("with_jax.py", include_str!("../../../docs/peers/with_jax.py")),
];

/// What the folder may hold in bytes: it travels.
const LARGEST: u64 = 56 * 1000 * 1000;

/// What is packed.
const PARTS: [&str; 7] = ["bin", "tests", "bits", "golden", "data", "run_configs", "python"];
/// What a bundle consists of: the archive of [`PARTS`] and [`SCRIPTS`], the first of which unpacks it.
const ARCHIVE: &str = "parts.tar.gz";
const SCRIPT_NAME: &str = "run.sh";

/// Recorded cases of the workspace.
const GOLDEN: &str = "warp-envs/tests/golden";
const RUN_CONFIGS: &str = "warp-examples/tests/data/warpdrive_run_configs";
const NOTEBOOKS: &str = "warp-py/notebooks";
const PACKAGE_TESTS: &str = "warp-py/tests";
const PACKAGE_EXAMPLES: &str = "warp-py/examples";
/// What the package and its tests need beside NumPy, which torch and JAX bring along.
const NEEDED: &str = "gymnasium cloudpickle farama-notifications typing-extensions pytest pluggy iniconfig \
     packaging pygments";
/// Endings of files that are no recordings, descriptions or data.
const NO_DATA: [&str; 2] = ["py", "md"];
/// Endings of what Python itself has made of a script.
const COMPILED: [&str; 1] = ["pyc"];

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    /// The folder to write.
    out: PathBuf,
    /// More recorded cases.
    golden: Option<PathBuf>,
    /// The published data that some were recorded with.
    data: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { out: workspace::root().join("bundle"), golden: None, data: None };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let mut folder = || match rest.next() {
                // Relative to where cargo was called, as a person would expect.
                Some(value) => Ok(std::path::absolute(value)?),
                None => bail!("{name} needs a folder"),
            };
            match name.as_str() {
                "--out" => options.out = folder()?,
                "--golden" => options.golden = Some(folder()?),
                "--data" => options.data = Some(folder()?),
                _ => bail!("`{name}`: expected --out DIR, --golden DIR or --data DIR"),
            }
        }
        for (name, folder) in [("--golden", &options.golden), ("--data", &options.data)] {
            let Some(folder) = folder else { continue };
            ensure!(folder.is_dir(), "{name} {}: that is no folder", folder.display());
        }
        Ok(options)
    }
}

/// Builds and writes the bundle.
///
/// # Errors
/// A build that fails, a folder that can't be written, or a bundle that is too large.
pub fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    ensure!(
        !flags.contains("target-cpu"),
        "RUSTFLAGS is \"{flags}\": the bundle is for any x86-64 processor, without target-cpu"
    );
    // All that may fail for long comes first, so that the last bundle outlives a broken build.
    let mut built = programs()?;
    built.extend(tests()?);
    built.push(bits()?);
    let wheel = wheel()?;
    clear(&options.out)?;
    for (from, to) in &built {
        let to = options.out.join(to);
        if from.is_dir() { copy_folder(from, &to, &NO_DATA)? } else { take(from, &to)? }
    }
    let root = workspace::root();
    copy_folder(&root.join(GOLDEN), &options.out.join("golden"), &NO_DATA)?;
    copy_folder(&root.join(RUN_CONFIGS), &options.out.join("run_configs"), &NO_DATA)?;
    if let Some(wheel) = wheel {
        let python = options.out.join("python");
        copy_folder(&wheel, &python, &NO_DATA)?;
        copy_folder(&root.join(NOTEBOOKS), &python, &NO_DATA)?;
        copy_folder(&root.join(PACKAGE_TESTS), &python.join("tests"), &COMPILED)?;
        copy_folder(&root.join(PACKAGE_EXAMPLES), &python.join("examples"), &COMPILED)?;
    }
    if let Some(golden) = &options.golden {
        copy_folder(golden, &options.out.join("golden"), &NO_DATA)?;
    }
    if let Some(data) = &options.data {
        copy_folder(data, &options.out.join("data"), &NO_DATA)?;
    }
    pack(&options.out)?;
    SCRIPTS.iter().try_for_each(|(name, text)| write_script(&options.out.join(name), text))?;
    weigh(&options.out)
}

/// Removes the last bundle, and nothing else that lies in the folder.
fn clear(out: &Path) -> Result<()> {
    let scripts = SCRIPTS.map(|(name, _)| name);
    for part in PARTS.iter().chain(&[ARCHIVE]).chain(&scripts) {
        let path = out.join(part);
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A binary or a folder that was built, and its path in the bundle.
type Built = (PathBuf, String);

/// `bin/warp`, and `bin/warp-tch` where there is LibTorch.
fn programs() -> Result<Vec<Built>> {
    let build = "cargo build --release --locked -p warp-examples --bin warp";
    let mut built = vec![(program(build)?, "bin/warp".to_owned())];
    let manifest = workspace::read_toml(&workspace::root().join("warp-examples/Cargo.toml"))?;
    let has_tch = manifest.get("features").is_some_and(|features| features.get("tch").is_some());
    if std::env::var_os("LIBTORCH").is_none() || !has_tch {
        println!("bin/warp-tch is left out: LIBTORCH, the folder of LibTorch, is not set");
        return Ok(built);
    }
    // In a folder of its own, since the features of both would alternate in one.
    let build = format!("{build} --features tch --target-dir target/tch");
    built.push((program(&build)?, "bin/warp-tch".to_owned()));
    Ok(built)
}

fn program(build: &str) -> Result<PathBuf> {
    let command = CommandLine::new(&format!("{build} {}", artifacts::FORMAT));
    println!("$ {command}");
    let built = artifacts::executables(&command.output()?);
    let program = built.into_iter().find(|artifact| artifact.name == "warp");
    Ok(program.with_context(|| format!("`{command}` built no program called warp"))?.path)
}

/// The test binaries for a GPU: those whose manifest asks for the feature `cuda`; with LibTorch also
/// those that ask for `tch`.
fn tests() -> Result<Vec<Built>> {
    let mut features = Vec::new();
    let (mut cuda, mut tch) = (Vec::new(), Vec::new());
    for name in workspace::LIBRARIES {
        let manifest = workspace::read_toml(&workspace::root().join(name).join("Cargo.toml"))?;
        if manifest.get("features").is_some_and(|of| of.get("cuda").is_some()) {
            features.push(format!("{name}/cuda"));
        }
        cuda.extend(artifacts::tests_with(&manifest, "cuda").map(|test| format!("--test {test}")));
        let with_tch = artifacts::tests_with(&manifest, "tch");
        tch.extend(with_tch.map(|test| format!("-p {name} --features {name}/tch --test {test}")));
    }
    let (features, cuda) = (features.join(","), cuda.join(" "));
    let all = format!("--workspace --exclude xtask --features {features} {cuda}");
    let mut built = Vec::new();
    for test in built_tests(&all)? {
        let n = artifacts::gpu_tests(&test)?;
        if n > 0 {
            println!("{n} tests of {}", test.name);
            built.push(placed(test));
        }
    }
    if std::env::var_os("LIBTORCH").is_some() {
        for test in tch {
            // Not asked for its tests: LibTorch need not load on the machine that builds.
            let which = format!("--release --target-dir target/tch {test}");
            built.extend(built_tests(&which)?.into_iter().map(placed));
        }
    }
    Ok(built)
}

/// Random bodies, translated, with the words that Rust made of them: the folder `bits`.
fn bits() -> Result<Built> {
    let out = bench::target().join("bits");
    // What another run has left must not pass for this one's.
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    CommandLine::new("cargo test --locked -p warp-translate --test bits")
        .with("WARP_BITS_OUT", out.display().to_string())
        .run()?;
    ensure!(out.is_dir(), "the test `bits` wrote no bodies: it needs a C++ compiler");
    Ok((out, "bits".to_owned()))
}

/// The folder of the Python package's wheel, for this machine's glibc, and of those it needs; none without maturin.
fn wheel() -> Result<Option<PathBuf>> {
    let there = Command::new("maturin").arg("--version").output();
    if !there.is_ok_and(|said| said.status.success()) {
        println!("python is left out: maturin is not installed");
        return Ok(None);
    }
    let out = bench::target().join("bundle-wheel");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let build = "maturin build --release --locked --manifest-path warp-py/Cargo.toml";
    CommandLine::new(&format!("{build} --out {}", out.display())).run()?;
    let fetch = "python3 -m pip download --quiet --no-deps --only-binary :all:";
    let needed = CommandLine::new(&format!("{fetch} --dest {} {NEEDED}", out.display())).run();
    if let Err(error) = needed {
        println!("Gymnasium and pytest are left out, the other machine has to have them: {error}");
    }
    Ok(Some(out))
}

fn placed(test: Artifact) -> Built {
    let place = format!("tests/{}-{}", test.package, test.name);
    (test.path, place)
}

/// Builds tests and finds their binaries.
fn built_tests(which: &str) -> Result<Vec<Artifact>> {
    let command = format!("cargo test --no-run --locked {which} {}", artifacts::FORMAT);
    let command = CommandLine::new(&command);
    println!("$ {command}");
    let built = artifacts::executables(&command.output()?);
    Ok(built.into_iter().filter(|artifact| artifact.is_test).collect())
}

/// Copies a binary without its debug information.
fn take(from: &Path, to: &Path) -> Result<()> {
    make_folder_of(to)?;
    let stripped = Command::new("strip").arg("-o").arg(to).arg(from).status();
    let stripped = stripped.context("cannot start `strip`, which comes with the C linker")?;
    ensure!(stripped.success(), "`strip` of {} ended with {stripped}", from.display());
    Ok(())
}

/// Copies the files of a folder; those with such endings, and those with none, stay behind.
fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<()> {
    let context = || format!("cannot copy {}", from.display());
    for entry in fs::read_dir(from).with_context(context)? {
        let entry = entry.with_context(context)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_folder(&source, &target, without)?;
        } else if source.extension().is_some_and(|e| without.iter().all(|out| e != *out)) {
            make_folder_of(&target)?;
            fs::copy(&source, &target).with_context(context)?;
        }
    }
    Ok(())
}

fn make_folder_of(file: &Path) -> Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let context = || format!("cannot write {}", path.display());
    fs::write(path, text).with_context(context)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(context)
}

/// Packs the parts into one archive, which takes a third of the room, and removes them.
fn pack(out: &Path) -> Result<()> {
    let parts = PARTS.iter().filter(|part| out.join(part).exists());
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "-czf", ARCHIVE]).args(parts.clone()).current_dir(out);
    let packed = tar.status().context("cannot start `tar`")?;
    ensure!(packed.success(), "`tar` ended with {packed}");
    for part in parts {
        println!("{:>6.1} MB  {part}", size(&out.join(part))? as f64 / 1e6);
        fs::remove_dir_all(out.join(part)).with_context(|| format!("cannot remove {part}"))?;
    }
    Ok(())
}

/// Says how large the bundle is, and refuses one that is too large.
fn weigh(out: &Path) -> Result<()> {
    let scripts: u64 =
        SCRIPTS.map(|(name, _)| size(&out.join(name))).into_iter().sum::<Result<_>>()?;
    let total = size(&out.join(ARCHIVE))? + scripts;
    let (mb, largest) = (total as f64 / 1e6, LARGEST / 1_000_000);
    println!("{mb:>6.1} MB  packed, in {}", out.display());
    ensure!(
        total <= LARGEST,
        "the bundle has {mb:.1} MB, but {largest} MB are the most it may have"
    );
    println!("on the other machine: ./{SCRIPT_NAME} [PART]...");
    Ok(())
}

/// Bytes of a file, or of all files of a folder; 0 for what is not there.
fn size(path: &Path) -> Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path).map_or(0, |file| file.len()));
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    entries.map(|entry| size(&entry?.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options> {
        Options::parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_or_refused_by_name() {
        let options = parse(&["--golden", "/", "--out", "/nowhere/b"]).unwrap();
        assert_eq!(options.golden.as_deref(), Some(Path::new("/")));
        assert_eq!(options.out, Path::new("/nowhere/b"));
        let refused = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert_eq!(refused(&["--golden", "/none"]), "--golden /none: that is no folder");
        assert_eq!(refused(&["--data", "/none"]), "--data /none: that is no folder");
        assert_eq!(refused(&["--data"]), "--data needs a folder");
        assert!(refused(&["--gold", "x"]).starts_with("`--gold`: expected"));
    }

    #[test]
    fn only_the_last_bundle_is_replaced() {
        let out = std::env::temp_dir().join(format!("bundle-{}", std::process::id()));
        fs::create_dir_all(out.join("tests")).unwrap();
        fs::write(out.join("tests/old"), "12").unwrap();
        fs::write(out.join("mine"), "345").unwrap();
        clear(&out).unwrap();
        copy_folder(&workspace::root().join(RUN_CONFIGS), &out.join("run_configs"), &NO_DATA)
            .unwrap();
        assert!(!out.join("tests").exists() && out.join("mine").exists());
        assert!(size(&out.join("run_configs")).unwrap() > 1000);
        assert_eq!(size(&out.join("bin")).unwrap(), 0);
        pack(&out).unwrap();
        assert!(!out.join("run_configs").exists() && size(&out.join(ARCHIVE)).unwrap() > 1000);
        clear(&out).unwrap();
        assert!(!out.join(ARCHIVE).exists() && out.join("mine").exists());
        fs::remove_dir_all(&out).unwrap();
    }

    /// The script's own list of parts, and a refusal of any other.
    #[test]
    fn the_script_names_its_parts() {
        let script = workspace::root().join("xtask/src/bundle/run.sh");
        let run =
            |argument: &str| Command::new("bash").arg(&script).arg(argument).output().unwrap();
        let (help, wrong) = (run("--help"), run("nonsense"));
        assert!(help.status.success());
        let help = String::from_utf8(help.stdout).unwrap();
        let parts = "parity gradients replay sanitize samplers bench train map \
                     scaling ranks libtorch package notebooks profile";
        for part in parts.split(' ') {
            assert!(help.contains(part), "{help}");
        }
        assert_eq!(wrong.status.code(), Some(2));
        assert!(String::from_utf8(wrong.stderr).unwrap().contains("nonsense"));
    }
}
