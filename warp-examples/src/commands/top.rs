//! `warp top`: the progress of runs that other processes train.

use super::folders::with_runs;
use super::{say, tell, were};
use crate::Outcome;
use crate::dashboard::follow::Followed;
#[cfg(feature = "dashboard")]
use crate::dashboard::gpus::Gpus;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use warp_func::Registry;
use warp_train::fleet::{Fleet, GroupedReturns};

/// Show the progress of runs.
#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    /// Folders of runs or fleets. If standard output is not a terminal, and for fleets, one line is printed for each.
    #[arg(value_name = "RUN | FLEET", required = true)]
    pub runs: Vec<PathBuf>,
}

/// So many runs, at most, have room on a screen; of more there is a line each.
#[cfg(feature = "dashboard")]
const MOST_LIVE: usize = 16;

/// Runs the command.
///
/// # Errors
/// A folder without a run, or one whose metrics can't be read.
pub fn execute(args: &TopArgs, registry: &Registry) -> Result<Outcome> {
    let (fleets, folders): (Vec<&Path>, Vec<&Path>) =
        with_runs(&args.runs, &[])?.into_iter().partition(|folder| Fleet::is_in(folder));
    let (mut runs, mut missing) = (Vec::new(), None);
    for folder in folders {
        // The others are shown all the same.
        match followed(folder, args.runs.len() == 1, registry) {
            Ok(run) => runs.push(run),
            Err(error) => missing = missing.or(Some(error)),
        }
    }
    for folder in fleets {
        say(&fleet_line(folder)?)?;
    }
    #[cfg(feature = "dashboard")]
    if (1..=MOST_LIVE).contains(&runs.len()) && std::io::IsTerminal::is_terminal(&std::io::stdout())
    {
        return missing.map_or_else(|| live(runs), Err);
    }
    runs.iter().try_for_each(|run| say(&run.shown.summary()))?;
    #[cfg(feature = "dashboard")]
    Gpus::find().now().iter().try_for_each(|gpu| say(&gpu.line()))?;
    missing.map_or(Ok(Outcome::Done), Err)
}

/// The run in `folder` as it is now; of several, one whose metrics can't be read says so where it is shown.
fn followed(folder: &Path, is_alone: bool, registry: &Registry) -> Result<Followed> {
    let mut run = Followed::open(folder, registry)?;
    match run.update() {
        Err(error) if is_alone => return Err(error),
        updated => run.shown.fault = updated.err().map(|error| format!("{error:#}")),
    }
    run.damage().iter().for_each(|said| tell(said));
    Ok(run)
}

/// How far a fleet is, whose records are written when its runs end.
fn fleet_line(folder: &Path) -> Result<String> {
    let (n_runs, ended) = (Fleet::list(folder)?.len(), Fleet::ended_runs(folder)?);
    let finished = ended.iter().filter(|run| run.is_finished());
    let returns = finished.clone().map(|run| (run.mean_episode_return, &run.mean_group_return));
    let GroupedReturns { together, groups } = GroupedReturns::of(returns);
    let means = match groups.len() {
        0 | 1 => together.map(|found| format!("mean return {:.1}", found.mean)),
        _ => Some(groups.iter().map(|(name, found)| format!("{name} {:.1}", found.mean)))
            .map(|means| means.collect::<Vec<_>>().join(", ")),
    };
    let n_stopped = ended.iter().filter(|run| run.stopped_in_round.is_some()).count();
    let stopped = if n_stopped > 0 {
        format!(", {n_stopped} {} stopped by halving", were(n_stopped))
    } else {
        String::new()
    };
    let means = means.map_or(String::new(), |means| format!(", {means}"));
    let (shown, n) = (folder.display(), finished.count());
    Ok(format!("{shown}: a fleet, {n} of {n_runs} runs have finished{stopped}{means}"))
}

/// Follows the runs until somebody leaves.
#[cfg(feature = "dashboard")]
fn live(mut runs: Vec<Followed>) -> Result<Outcome> {
    use super::stop::Stop;
    use crate::dashboard::screen::Screen;
    use std::time::{Duration, Instant};
    /// How often runs are read again.
    const EVERY: Duration = Duration::from_secs(1);
    /// How often keys are checked.
    const LISTEN_EVERY: Duration = Duration::from_millis(50);

    let stop = Stop::listen()?;
    let mut screen = Screen::open()?;
    let mut next = Instant::now();
    while !stop.is_asked() && !screen.quit() {
        if Instant::now() >= next {
            next = Instant::now() + EVERY;
            for run in &mut runs {
                // A run may be deleted while it is shown.
                run.shown.fault = run.update().err().map(|error| format!("{error:#}"));
            }
            let shown: Vec<_> = runs.iter().map(|run| &run.shown).collect();
            screen.show(&shown, "q leaves")?;
        }
        std::thread::sleep(LISTEN_EVERY);
    }
    drop(screen);
    Ok(stop.asked_by().map_or(Outcome::Done, |signal| Outcome::Interrupted { signal }))
}
