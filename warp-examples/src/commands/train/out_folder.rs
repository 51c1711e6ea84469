//! Where a new run or fleet lies: in --out, or in the folder that the keys basedir and tag name.

use super::args::TrainArgs;
use std::path::PathBuf;
use warp_train::Run;
use warp_train::config::RunConfig;

/// The folder of a new run called `name`.
pub(in crate::commands) fn of(args: &TrainArgs, run: &RunConfig, name: &str) -> PathBuf {
    args.out.clone().unwrap_or_else(|| Run::free_folder(run, name))
}

/// Adds to an error of a folder that can't be written how to have another one; the keys may be those of a file that
/// somebody else has written.
pub(in crate::commands) fn with_way_out(
    error: warp_train::Error,
    args: &TrainArgs,
    run: &RunConfig,
) -> warp_train::Error {
    match error {
        warp_train::Error::File { what, path, reason } if args.out.is_none() => {
            let base = &run.basedir;
            let reason = format!(
                "{reason} (basedir is \"{base}\"; --out or --set basedir=runs gives another folder)"
            );
            warp_train::Error::File { what, path, reason }
        }
        other => other,
    }
}
