//! The commands, one file each, and what they share: choosing device, backend and threads.

pub mod bench;
pub mod config;
pub mod envs;
pub mod eval;
pub mod play;
pub mod plot;
mod progress;
pub mod render;
pub mod train;
pub mod watch;

use anyhow::{Result, bail};
use std::io::Write;
use warp_train::burn::BurnLearner;
use warp_train::native::NativeLearner;
use warp_train::{Learner, TrainConfig};

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// This machine's processor.
    Cpu,
}

impl Device {
    /// The device that `--device` names.
    ///
    /// # Errors
    /// A name that is unknown, or a device that this build can't use.
    pub fn choose(name: &str) -> Result<Self> {
        let cuda = name.strip_prefix("cuda").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
        match (name, cuda) {
            ("auto" | "cpu", _) => Ok(Device::Cpu),
            (_, Some(n)) if n.bytes().all(|b| b.is_ascii_digit()) => {
                bail!("--device {name}: this build can't use a GPU yet; use --device cpu")
            }
            _ => bail!("--device {name}: expected auto, cpu or cuda[:N]"),
        }
    }

    /// Its name in summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        "cpu"
    }
}

/// The learner that `--backend` names.
///
/// # Errors
/// A name that is unknown, or a network that can't be built.
pub fn learner(backend: &str, config: &TrainConfig, threads: usize) -> Result<Box<dyn Learner>> {
    match backend {
        // Every network that a configuration can describe is one that the native learner has.
        "auto" | "native" => Ok(Box::new(NativeLearner::new(config, threads)?)),
        "burn" => Ok(Box::new(BurnLearner::new(config, threads)?)),
        _ => bail!("--backend {backend}: expected auto, burn or native"),
    }
}

/// The number of threads that `--threads` means: 0 is one per core.
#[must_use]
pub fn thread_count(threads: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    if threads == 0 { cores() } else { threads.min(1024) }
}

/// Prints one JSON object.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    say(&serde_json::to_string_pretty(value)?)
}

/// Prints a line, or several. A reader that has left (`| head`) is no error.
fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            bail!("cannot write to standard output: {e}")
        }
        _ => Ok(()),
    }
}
