//! The summary that is printed of a run at its end.

use crate::commands::progress::by_group;
use crate::output::{say, short};
use anyhow::Result;
use std::path::Path;
use warp_train::callback::{End, Stopped};
use warp_train::run::Summary;

/// Says what a run reached, how fast, where it lies, and how one that was stopped goes on.
pub(super) fn report(summary: &Summary, folder: &Path, end: End) -> Result<()> {
    let returns = summary.mean_episode_return.map(|mean| {
        let means = by_group(mean, &summary.mean_group_return);
        format!("a mean return of {means} over the last episodes")
    });
    // Of a single iteration, which is not counted, there is no rate.
    let rate = match summary.env_steps_per_second {
        rate if rate > 0.0 => format!(" ({}steps/s)", short(rate)),
        _ => String::new(),
    };
    let how = match end {
        End::Complete => "",
        End::Stopped(Stopped::ReturnReached(mean)) => {
            &format!("stopped after an evaluation with a mean return of {mean:.1}; ")
        }
        End::Stopped(_) => "stopped early; ",
    };
    let reached = match (returns, end) {
        (Some(returns), End::Stopped(Stopped::Asked)) => format!("reached so far: {returns}"),
        (Some(returns), _) => format!("reached {returns}"),
        (None, _) => "no episode finished".into(),
    };
    let in_all = match summary.env_steps {
        steps if steps > summary.part_env_steps => format!(", {steps} in total"),
        _ => String::new(),
    };
    let folder = folder.display();
    let on = match end {
        End::Stopped(Stopped::Asked) => format!(", and --resume {folder} continues it"),
        End::Stopped(Stopped::ReturnReached(_)) if summary.part_env_steps == 0 => {
            ", and a higher stop_at_return or more --steps continue it".into()
        }
        _ => String::new(),
    };
    say(&format!(
        "{} with {}: {how}{reached}, {} steps in {:.1} s{rate}{in_all}; the run is in {folder}{on}",
        summary.env, summary.algorithm, summary.part_env_steps, summary.seconds,
    ))
}
