//! `warp translate`: the CUDA code of an environment from its Rust code.

use super::say;
use crate::{Outcome, output::tell};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use warp_translate::{Diagnostic, translate};

/// Generate the CUDA code of environments from their Rust code.
#[derive(Debug, Clone, Args)]
pub struct TranslateArgs {
    /// Files with `impl Env for ...`; modules that they use are read from the files next to them.
    #[arg(required = true, value_name = "FILE.rs")]
    files: Vec<PathBuf>,
    /// The file to write, `-` for standard output; by default the file that `include_str!` names.
    #[arg(short, long, value_name = "FILE.cu")]
    output: Option<PathBuf>,
    /// Write nothing; check whether the existing file is up to date.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
///
/// # Errors
/// Everything that a body cannot use, by file and line; a file that cannot be read or written.
pub fn execute(args: &TranslateArgs) -> Result<Outcome> {
    if args.output.is_some() && args.files.len() > 1 {
        bail!("-o names one file, but {} are to be translated", args.files.len());
    }
    let mut all_fresh = true;
    for file in &args.files {
        let made = translate(file).map_err(|diagnostics| anyhow!(report(&diagnostics)))?;
        let Some(to) = args.output.clone().or(made.included) else {
            bail!(
                "{}: no `include_str!(\"....cu\")` names the file to write; name it with -o",
                file.display()
            );
        };
        if args.check {
            all_fresh &= check(file, &to, &made.text)?;
        } else {
            write(&to, &made.text)?;
        }
    }
    Ok(if all_fresh { Outcome::Done } else { Outcome::Failed })
}

/// Reports whether `to` contains the text generated from `file`.
fn check(file: &Path, to: &Path, text: &str) -> Result<bool> {
    let is_fresh = std::fs::read_to_string(to).is_ok_and(|there| there == text);
    let (file, to) = (file.display(), to.display());
    if is_fresh {
        say(&format!("{to}: fresh"))?;
    } else {
        say(&format!("{to}: out of date; `warp translate {file}` updates it"))?;
    }
    Ok(is_fresh)
}

fn write(to: &Path, text: &str) -> Result<()> {
    if to.as_os_str() == "-" {
        return say(text.trim_end());
    }
    std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))?;
    say(&format!("{}: {} lines", to.display(), text.lines().count()))
}

/// All errors: the last one is returned, the others are printed before it.
fn report(diagnostics: &[Diagnostic]) -> String {
    let Some((last, others)) = diagnostics.split_last() else {
        return "nothing was generated".into();
    };
    for other in others {
        tell(&other.to_string());
    }
    last.to_string()
}
