//! `warp episode`: episodes of a run as arrays in a file.

use super::play::{policies, tell_unfinished};
use super::say;
use crate::episode::recorder::Recorder;
use crate::{Outcome, named_file};
use anyhow::{Result, bail, ensure};
use clap::Args;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use warp_func::Registry;
use warp_sample::Mode;
use warp_train::episode::{EpisodeOptions, play_episode};

/// Write episodes of a run to a file, as arrays.
#[derive(Debug, Clone, Args)]
pub struct EpisodeArgs {
    /// Folder of a run: its newest checkpoint, that of a step, or the one that did best in evaluations.
    #[arg(value_name = "RUN[@STEP | @best] | FLEET")]
    pub run: PathBuf,
    /// Index of a run in a fleet, counted from 0.
    #[arg(long = "run", value_name = "N")]
    pub run_number: Option<usize>,
    /// The file to write, which numpy.load reads and warp render draws.
    #[arg(short, long, value_name = "FILE.npz")]
    pub out: PathBuf,
    /// Episodes among those that warp eval plays: a number from 0, or A..B for A to B - 1.
    #[arg(long, value_name = "N | A..B", default_value = "0")]
    pub episodes: String,
    /// Names of the arrays to write, separated by commas; by default all. warp render needs the arrays of the state.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub arrays: Vec<String>,
    /// Sample actions from the policy, instead of taking the most likely ones.
    #[arg(long)]
    pub stochastic: bool,
    /// Seed of the episodes; by default the run's, which gives the episodes of warp eval.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Policies to replace by random actions.
    #[arg(long, value_name = "POLICY")]
    pub random: Vec<String>,
    /// Learner: auto, native, or burn (in a build with that feature).
    #[arg(long, default_value = "auto")]
    pub backend: String,
}

/// Runs the command.
///
/// # Errors
/// A run or checkpoint that can't be opened, an unknown array, or a file that can't be written.
pub fn execute(args: &EpisodeArgs, registry: &Registry) -> Result<Outcome> {
    ensure!(
        args.out.extension().is_some_and(|ending| ending == "npz"),
        "\"{}\": expected a name that ends in .npz",
        args.out.display()
    );
    let episodes = episodes(&args.episodes)?;
    let (config, mut learner) = policies(&args.run, args.run_number, &args.backend, registry)?;
    let mut recorder = Recorder::new(&config, &args.arrays);
    for replica in episodes.clone() {
        let options = EpisodeOptions {
            seed: args.seed,
            mode: if args.stochastic { Mode::Sample } else { Mode::Greedy },
            random: args.random.clone(),
            replica,
        };
        let end = play_episode(&mut *learner, &config, registry, &options, &mut |envs, chosen| {
            recorder.look(envs, chosen)?;
            Ok::<_, anyhow::Error>(ControlFlow::Continue(()))
        })?;
        tell_unfinished(end);
    }
    let bytes = recorder.finish(&config.to_toml(registry.get(&config.run.env_id)?.fields))?;
    named_file::write(&args.out, bytes)?;
    let n = episodes.len();
    let episodes = if n == 1 { "1 episode is".to_string() } else { format!("{n} episodes are") };
    say(&format!("{episodes} written to {}", args.out.display()))?;
    Ok(Outcome::Done)
}

/// One number, or a range without its end.
fn episodes(text: &str) -> Result<Range<u32>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..to),
        None => number(text).and_then(|n| Some(n..n.checked_add(1)?)),
    };
    let Some(range) = range.filter(|range| !range.is_empty()) else {
        bail!("--episodes {text}: expected a number or A..B with A < B");
    };
    let [start, end] = [range.start, range.end].map(u32::try_from);
    match (start, end) {
        (Ok(start), Ok(end)) => Ok(start..end),
        _ => bail!("--episodes {text}: episodes have numbers below {}", u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_are_a_number_or_a_range() {
        assert_eq!((episodes("3").unwrap(), episodes("0..2").unwrap()), (3..4, 0..2));
        for text in ["x", "2..2", "3..1", "-1", "..", "0..x"] {
            let said = episodes(text).unwrap_err().to_string();
            assert!(said.ends_with("expected a number or A..B with A < B"), "{said}");
        }
        for text in ["0..99999999999", "4294967295", "99999999999"] {
            let said = format!("{:#}", episodes(text).unwrap_err());
            assert_eq!(said, format!("--episodes {text}: episodes have numbers below 4294967295"));
        }
    }
}
