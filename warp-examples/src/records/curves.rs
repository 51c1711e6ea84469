//! `curves.png`: how one run went.

use super::charts::{Chart, Line, Panel};
use super::history::{Axis, History, Keys, Series};
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
    let plans = [
        returns(config),
        Plan::of_episodes("Episode length", vec!["episode_length", "mean"]),
        policies("Policy entropy (nats)", "entropy", config),
        policies("Explained variance", "explained_variance", config),
        policies("Policy loss", "policy_loss", config),
        policies("Value loss", "value_loss", config),
    ];
    let figures: Vec<Keys<'_>> =
        plans.iter().flat_map(|plan| &plan.curves).map(|curve| curve.keys.clone()).collect();
    let history = History::read(folder, Axis::Steps, &figures)?;
    let mut series = history.series.iter();
    let panels = plans.iter().map(|plan| Panel {
        title: plan.title.into(),
        lines: plan
            .curves
            .iter()
            .zip(&mut series)
            .flat_map(|(curve, s)| plan.lines(curve, s))
            .collect(),
        until: history.end,
        ..Panel::default()
    });
    let panels = panels.collect();
    let algorithm = config.algorithm().to_uppercase();
    let run = &config.run;
    let title = format!("{}, {algorithm}, seed {}", run.env_id, run.seed);
    let path = folder.join("curves.png");
    Chart { title, panels }.save(&path)?;
    Ok(path)
}

/// What a panel shows.
struct Plan<'a> {
    title: &'a str,
    /// Whether each iteration's mean lies behind the mean over the last episodes.
    of_episodes: bool,
    curves: Vec<Curve<'a>>,
}

struct Curve<'a> {
    label: String,
    colour: usize,
    keys: Keys<'a>,
}

impl<'a> Plan<'a> {
    fn of_episodes(title: &'a str, keys: Keys<'a>) -> Self {
        let curves = vec![Curve { label: String::new(), colour: 0, keys }];
        Self { title, of_episodes: true, curves }
    }

    fn lines(&self, curve: &Curve<'_>, series: &Series) -> Vec<Line> {
        let &Curve { ref label, colour, .. } = curve;
        let line = |points| Line { label: label.clone(), colour, points, ..Line::default() };
        if !self.of_episodes {
            return vec![line(series.points())];
        }
        let each = Line { colour, faint: true, points: series.points(), ..Line::default() };
        vec![each, line(series.smoothed(WINDOW))]
    }
}

/// The return. The sum over groups that play against each other says little: each one's own instead.
fn returns(config: &TrainConfig) -> Plan<'_> {
    let title = "Episode return";
    let groups = &config.spec.groups;
    if groups.len() < 2 {
        return Plan::of_episodes(title, vec!["episode_return", "mean"]);
    }
    let mut curves = Vec::new();
    for (colour, group) in groups.iter().enumerate() {
        let keys = vec!["group_return", group.name.as_str(), "mean"];
        curves.push(Curve { label: group.name.clone(), colour, keys });
    }
    Plan { title, of_episodes: true, curves }
}

/// A figure of each policy's update; a policy has the colour of its first group.
fn policies<'a>(title: &'a str, key: &'a str, config: &'a TrainConfig) -> Plan<'a> {
    let mut plans: Vec<_> = config.policies.iter().collect();
    plans.sort_by_key(|plan| plan.agents.first());
    let several = plans.len() > 1;
    let mut curves = Vec::new();
    for plan in plans {
        curves.push(Curve {
            label: if several { plan.name.clone() } else { String::new() },
            colour: plan.groups().next().unwrap_or(0),
            keys: vec!["policy", &plan.name, key],
        });
    }
    Plan { title, of_episodes: false, curves }
}
