//! `curves.png`: how one run went.

use super::charts::{Chart, Line, Panel};
use super::history::History;
use anyhow::Result;
use std::path::{Path, PathBuf};
use warp_train::TrainConfig;
use warp_train::config::PolicyPlan;

/// Episodes over which a bold curve's mean is taken, at least.
pub const WINDOW: f64 = 100.0;

/// Draws the curves of the run in `folder` into its `curves.png`, and returns where that is.
///
/// # Errors
/// A run without metrics, or a file that can't be written.
pub fn draw(folder: &Path, config: &TrainConfig) -> Result<PathBuf> {
    let history = History::read(folder)?;
    let algorithm = config.algorithm().to_uppercase();
    let run = &config.run;
    let title = format!("{}, {algorithm}, seed {}", run.env_id, run.seed);
    let panels = vec![
        episodes(&history, "Episode return", "episode_return", config),
        episodes(&history, "Episode length", "episode_length", config),
        policies(&history, "Policy entropy (nats)", "entropy", config),
        policies(&history, "Explained variance", "explained_variance", config),
        policies(&history, "Policy loss", "policy_loss", config),
        policies(&history, "Value loss", "value_loss", config),
    ];
    let path = folder.join("curves.png");
    Chart { title, panels }.save(&path)?;
    Ok(path)
}

/// A figure of episodes: each iteration's mean, and the mean over the last 100.
fn episodes(history: &History, title: &str, key: &str, config: &TrainConfig) -> Panel {
    let mut lines = vec![
        Line { faint: true, points: history.series(&[key, "mean"]), ..Line::default() },
        Line { points: history.smoothed(&[key, "mean"], WINDOW), ..Line::default() },
    ];
    let groups = &config.spec.groups;
    if key == "episode_return" && groups.len() > 1 {
        // The sum over groups that play against each other says little: each one's own instead.
        lines = groups
            .iter()
            .enumerate()
            .flat_map(|(colour, group)| {
                let keys = ["group_return", group.name.as_str(), "mean"];
                let smooth = Line {
                    label: group.name.clone(),
                    colour,
                    points: history.smoothed(&keys, WINDOW),
                    ..Line::default()
                };
                [
                    Line { colour, faint: true, points: history.series(&keys), ..Line::default() },
                    smooth,
                ]
            })
            .collect();
    }
    Panel { title: title.into(), lines, until: until(history) }
}

/// A figure of each policy's update; a policy has the colour of its first group.
fn policies(history: &History, title: &str, key: &str, config: &TrainConfig) -> Panel {
    let mut plans: Vec<_> = config.policies.iter().collect();
    plans.sort_by_key(|plan| plan.groups.first());
    let several = plans.len() > 1;
    let line = |plan: &&PolicyPlan| Line {
        label: if several { plan.name.clone() } else { String::new() },
        colour: plan.groups.first().copied().unwrap_or(0),
        points: history.series(&["policy", &plan.name, key]),
        ..Line::default()
    };
    Panel { title: title.into(), lines: plans.iter().map(line).collect(), until: until(history) }
}

/// Where the run stands, environment steps.
fn until(history: &History) -> f64 {
    history.series(&["env_steps"]).last().map_or(0.0, |point| point.0)
}
