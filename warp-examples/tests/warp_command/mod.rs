//! Running the real binary in folders of its own, and reading what it leaves there.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use serde_json::Value;
use signal_hook::consts::signal::SIGINT;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// A run of 128 environment steps per iteration and a very small network, which may be as long as one
/// likes: nothing is a share of its length.
pub(crate) const SMALL: [&str; 9] = [
    "cartpole",
    "--envs",
    "8",
    "--set",
    "num_steps=16",
    "--set",
    "hidden=[8]",
    "--set=num_minibatches=2",
    "--set=learning_rate=0.002",
];
/// Environment steps in one of its iterations.
pub(crate) const ITERATION: u64 = 128;

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Said {
    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        let value: Value = serde_json::from_str(&self.stdout).unwrap();
        assert!(value.is_object());
        value
    }
}

/// A folder in which commands are run; removed at the end of the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }

    pub(crate) fn within(path: &Path, name: &str) -> Self {
        let path = path.join(format!("warp-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        self.0.join(inner)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        hear_interrupts();
        let mut command = Command::new(env!("CARGO_BIN_EXE_warp"));
        // The same tests on every machine: `--device auto` must not find a GPU.
        command.env("CUDA_VISIBLE_DEVICES", "");
        command.args(args).current_dir(&self.0).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
        command
    }

    pub(crate) fn warp(&self, args: &[&str]) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// Runs a command that must succeed.
    pub(crate) fn done(&self, args: &[&str]) -> Said {
        let said = self.warp(args);
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said
    }

    /// Trains the small run; `more` are further arguments.
    pub(crate) fn train(&self, more: &[&str]) -> Said {
        let is_a2c = more.iter().any(|arg| arg.ends_with("algorithm=a2c"));
        // Which has no minibatches.
        let small = SMALL.iter().filter(|arg| !is_a2c || !arg.contains("num_minibatches"));
        let small: Vec<&str> = small.copied().collect();
        self.done(&[&["train"], &small[..], more].concat())
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn read(&self, inner: &str) -> String {
        std::fs::read_to_string(self.path(inner)).unwrap()
    }

    /// All files below `inner`, by their path in it.
    pub(crate) fn files(&self, inner: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let root = self.path(inner);
        let (mut folders, mut files) = (vec![root.clone()], vec![]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap().to_path_buf();
                    files.push((name, std::fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }

    /// The lines of a run's metrics.
    pub(crate) fn metrics(&self, run: &str) -> Vec<Value> {
        let text = self.read(&format!("{run}/metrics.jsonl"));
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The same without what the clock says.
    pub(crate) fn timeless_metrics(&self, run: &str) -> Vec<Value> {
        let mut lines = self.metrics(run);
        for line in &mut lines {
            for key in ["steps_per_second", "seconds"] {
                line.as_object_mut().unwrap().remove(key).unwrap();
            }
        }
        lines
    }

    /// Waits until `found` yields something.
    pub(crate) fn wait_for<T>(&self, mut found: impl FnMut(&Folder) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(value) = found(self) {
                return value;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "waited for too long");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Steps of the newest checkpoint of a run, if there is one.
    pub(crate) fn checkpoint(&self, run: &str) -> Option<u64> {
        let entries = std::fs::read_dir(self.path(run).join("checkpoints")).ok()?;
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.ok()?.file_name().into_string().ok()?.parse().ok()
        };
        entries.filter_map(name).max()
    }
}

/// A shell's background jobs ignore SIGINT, and so would what they start; but who begins as a program of a process that handles
/// a signal has it as usual. This one handles it as if it did not.
fn hear_interrupts() {
    static HEARD: Once = Once::new();
    HEARD.call_once(|| {
        let ends = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_default(SIGINT, ends).unwrap();
    });
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Both runs left the same: configuration, checkpoints, metrics and the mean return.
pub(crate) fn same_run(folder: &Folder, a: &str, b: &str) {
    let file = |run: &str, name: &str| format!("{run}/{name}");
    let config = |run| folder.read(&file(run, "config.toml"));
    assert_eq!(config(a), config(b));
    let checkpoints = |run| folder.files(&file(run, "checkpoints"));
    let is_memory = |(path, _): &(PathBuf, Vec<u8>)| path.ends_with("memory.safetensors");
    let n_memories = checkpoints(a).into_iter().filter(is_memory).count();
    assert_eq!(checkpoints(a).len() - n_memories, 4);
    assert!(checkpoints(a) == checkpoints(b), "checkpoints of {a} and {b} differ");
    assert_eq!(folder.timeless_metrics(a), folder.timeless_metrics(b));
    let summary = |run| -> Value {
        let text = folder.read(&file(run, "summary.json"));
        serde_json::from_str(&text).unwrap()
    };
    let (a, b) = (summary(a), summary(b));
    for key in ["env", "algorithm", "device", "backend", "seed", "env_steps", "agent_steps"] {
        assert_eq!(a[key], b[key]);
    }
    let mean = |summary: &Value| summary["mean_episode_return"].as_f64().unwrap();
    assert!((mean(&a) - mean(&b)).abs() < 1e-9, "{a} {b}");
}

/// A port that nobody listens at.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The runs of a fleet that have ended.
pub(crate) fn n_weights(folder: &Folder, fleet: &str) -> Option<usize> {
    let entries = std::fs::read_dir(folder.path(&format!("{fleet}/weights"))).ok()?;
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    Some(names.filter(|name| !name.starts_with('.')).count())
}

/// A fleet of 40 runs with two values of a key.
pub(crate) fn fleet_args(out: &str) -> Vec<&str> {
    let sweep = ["--seeds", "0..20", "--sweep", "learning_rate=0.001,0.0123456789"];
    [&["train"], &SMALL[..], &["--steps", "2000", "--threads", "2", "--out", out], &sweep].concat()
}

/// A fleet of eight settings, of which fewer go on round by round.
pub(crate) fn halved_args(out: &str) -> Vec<&str> {
    let sweep = ["--sweep", "learning_rate=log_uniform(1e-4,1e-1)", "--samples=8", "--halving=2"];
    let size = ["--steps", "8000", "--threads", "2", "--seeds", "0..3", "--out", out];
    [&["train"], &SMALL[..], &size, &sweep].concat()
}

/// The runs of a fleet that have ended and are written down, as long as not all have.
pub(crate) fn n_ended(folder: &Folder, fleet: &str) -> Option<usize> {
    let text = std::fs::read_to_string(folder.path(&format!("{fleet}/ended.jsonl"))).ok()?;
    Some(text.lines().filter(|line| !line.is_empty()).count())
}

/// Everything that a fleet left but what the clock says.
pub(crate) fn same_fleet(folder: &Folder, a: &str, b: &str) {
    let parts = |fleet: &str| {
        let mut files = folder.files(fleet);
        // Events know the clock, too; a kill between a run's records and the line of its end has the records set aside.
        files.retain(|(name, _)| {
            let name = name.to_str().unwrap();
            !["summary.json", "curves.png", "metrics.superseded.jsonl"].contains(&name)
                && !name.starts_with("tensorboard")
        });
        files
    };
    let (x, y) = (parts(a), parts(b));
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<_> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&x), names(&y));
    for ((name, x), (_, y)) in x.iter().zip(&y) {
        assert!(x == y, "{} differs", name.display());
    }
    let summary = |fleet: &str| -> Value {
        let text = folder.read(&format!("{fleet}/summary.json"));
        let mut summary: Value = serde_json::from_str(&text).unwrap();
        for key in ["seconds", "env_steps_per_second", "launches"] {
            summary.as_object_mut().unwrap().remove(key).unwrap();
        }
        summary
    };
    assert_eq!(summary(a), summary(b));
}
