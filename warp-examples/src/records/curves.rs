//! `curves.png`: how one run went.

use super::charts::{Chart, Line, Panel};
use super::history::{History, Points};
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
        policies(&history, "Entropy of the policy, nats", &[("entropy", "")]),
        policies(&history, "Losses", &[("policy_loss", "policy"), ("value_loss", "value")]),
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

/// Figures of all policies, each with a name of its own unless that is empty.
fn policies(history: &History, title: &str, figures: &[(&str, &str)]) -> Panel {
    let policies = history.policies();
    let mut lines = Vec::new();
    for policy in &policies {
        for (key, name) in figures {
            let parts = [if policies.len() > 1 { policy.as_str() } else { "" }, name];
            let label = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
            let points: Points = history.series(&["policy", policy, key]);
            let colour = lines.len();
            lines.push(Line { label: label.join(": "), colour, points, ..Line::default() });
        }
    }
    Panel { title: title.into(), lines }
}
