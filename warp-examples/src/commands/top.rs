//! `warp top`: the progress of runs that other processes train.

use super::say;
use crate::Outcome;
use crate::dashboard::follow::Followed;
#[cfg(feature = "dashboard")]
use crate::dashboard::gpus::Gpus;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warp_func::Registry;

/// Show the progress of runs.
#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    /// Folders of runs. If standard output is not a terminal, one line is printed for each.
    #[arg(value_name = "RUN", required = true, num_args = 1..=16)]
    pub runs: Vec<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// A folder without a run, or one whose metrics can't be read.
pub fn execute(args: &TopArgs, registry: &Registry) -> Result<Outcome> {
    let open = |folder: &PathBuf| Followed::open(folder, registry);
    let mut runs = args.runs.iter().map(open).collect::<Result<Vec<Followed>>>()?;
    for run in &mut runs {
        run.update()?;
    }
    #[cfg(feature = "dashboard")]
    if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return live(runs);
    }
    runs.iter().try_for_each(|run| say(&run.shown.summary()))?;
    #[cfg(feature = "dashboard")]
    Gpus::find().now().iter().try_for_each(|gpu| say(&gpu.line()))?;
    Ok(Outcome::Done)
}

/// Follows the runs until the user leaves.
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
