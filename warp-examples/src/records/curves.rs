//! `curves.png`: how one run went.

use super::charts::{Chart, Line, Panel};
use super::history::History;
use anyhow::Result;
use std::path::{Path, PathBuf};
use warp_train::TrainConfig;

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
        episodes(&history, "Return of an episode", "episode_return", config),
        episodes(&history, "Length of an episode", "episode_length", config),
        policies(&history, "Entropy of the policy, nats", "entropy"),
        policies(&history, "Variance of returns explained by the value", "explained_variance"),
        policies(&history, "Loss of the policy", "policy_loss"),
        policies(&history, "Loss of the value", "value_loss"),
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
    Panel { title: title.into(), lines }
}

/// A figure of each policy's update.
fn policies(history: &History, title: &str, key: &str) -> Panel {
    let policies = history.policies();
    let line = |(colour, policy): (usize, &String)| Line {
        label: if policies.len() > 1 { policy.clone() } else { String::new() },
        colour,
        points: history.series(&["policy", policy, key]),
        ..Line::default()
    };
    Panel { title: title.into(), lines: policies.iter().enumerate().map(line).collect() }
}
