//! The whole `warp` command as a library.
#![doc = include_str!("../README.md")]
// What goes to the terminal goes through `output`, which makes it harmless.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod basis;
mod cli;
pub mod commands;
pub mod dashboard;
pub mod defaults;
pub mod episode;
mod named_file;
pub mod onnx;
pub mod output;
#[doc(hidden)]
pub mod parsers;
pub mod pathway;
pub mod pool_file;
pub mod records;
pub mod render;
pub mod replay;
pub mod report;
mod run_config;
pub mod settings;
pub mod sweep;
#[cfg(unix)]
mod terminal_keys;
mod toml_text;
mod usage;
pub mod yaml;

/// The environments that the `warp` binary brings.
pub use warp_envs;

use std::ffi::OsString;
use std::process::ExitCode;
use warp_func::Registry;
use warp_train::world::Cause;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All went well.
    Done,
    /// A comparison failed.
    Failed,
    /// A signal asked to stop (Ctrl-C, `kill`, the end of the terminal); the work so far is saved.
    Interrupted {
        /// Its number.
        signal: u8,
    },
    /// A process that this one has started did the work and said what came of it.
    Child {
        /// Its exit code.
        code: u8,
    },
}

/// Runs the command line of this process over `registry`: give it your own environments, and they
/// have every command.
///
/// The exit code is 0 when all went well, 1 when a comparison or a run failed, 2 for what the user can put
/// right, 75 when the ranks of a run have lost each other, and 128 and the signal's number (130 after Ctrl-C)
/// for what a signal stopped.
#[must_use]
pub fn run(registry: Registry) -> ExitCode {
    ExitCode::from(run_line(&std::env::args_os().collect::<Vec<_>>(), &registry))
}

/// As [`run`], of a command line that is given, its program first, and the exit code as a number: for programs in another
/// language. The process is to end with it, and does so here where a lost rank's GPU leaves it no other way.
#[must_use]
pub fn run_line(args: &[OsString], registry: &Registry) -> u8 {
    let code = execute(args, registry);
    #[cfg(feature = "cuda")]
    warp_data::cuda::exit_if_aborted(code);
    code
}

fn execute(args: &[OsString], registry: &Registry) -> u8 {
    let cli = match usage::parse(args, registry) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match cli.command.execute(registry) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Failed) => 1,
        Ok(Outcome::Interrupted { signal }) => 128_u8.saturating_add(signal),
        Ok(Outcome::Child { code }) => code,
        Err(error) => {
            // One line, whatever the names in it hold.
            output::tell(&format!("error: {}", output::one_line(&output::sentence(&error))));
            code_of(&error)
        }
    }
}

/// 75 where ranks have lost each other, which another start may mend; 1 for a run that broke by itself; 2 for
/// what the user can put right.
fn code_of(error: &anyhow::Error) -> u8 {
    match commands::ranks::cause_of(error) {
        Cause::Lost => commands::train::restarts::LOST,
        Cause::Broken => 1,
        Cause::Users => 2,
    }
}
