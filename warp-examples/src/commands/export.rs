//! `warp export`: a policy as an ONNX file, for any ONNX runtime.

use super::{play, say};
use crate::{Outcome, named_file, onnx};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::path::PathBuf;
use warp_func::Registry;

/// Write a policy of a run as an ONNX file.
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Folder of a run: its newest checkpoint, that of a step, or the one that did best in evaluations; or of a
    /// fleet.
    #[arg(value_name = "RUN[@STEP | @best] | FLEET")]
    pub run: PathBuf,
    /// Index of a run in a fleet, counted from 0.
    #[arg(long = "run", value_name = "N")]
    pub run_number: Option<usize>,
    /// Name of the policy, if there are several.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// The file to write.
    #[arg(short, long, value_name = "FILE.onnx")]
    pub out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A run or policy that can't be opened or exported, or a file that can't be written.
pub fn execute(args: &ExportArgs, registry: &Registry) -> Result<Outcome> {
    ensure!(
        args.out.extension().is_some_and(|ending| ending == "onnx"),
        "\"{}\": expected a name that ends in .onnx",
        args.out.display()
    );
    let (config, mut learner) = play::policies(&args.run, args.run_number, "native", registry)?;
    let names: Vec<&str> = config.policies.iter().map(|plan| plan.name.as_str()).collect();
    let policy = match (&args.policy, &names[..]) {
        (None, [_]) => 0,
        (None, _) => {
            bail!("the run has several policies; choose one with --policy: {}", names.join(", "))
        }
        (Some(name), _) => names
            .iter()
            .position(|known| known == name)
            .with_context(|| format!("--policy {name}: the run has {}", names.join(", ")))?,
    };
    let exported = onnx::export(&config, &mut *learner, policy)?;
    named_file::write(&args.out, &exported.bytes)?;
    say(&format!("policy \"{}\" is in {}: {}", names[policy], args.out.display(), exported.about))?;
    Ok(Outcome::Done)
}
