//! `warp plot`: the curves of several runs, those that differ in the seed alone as one with a band.

use super::say;
use super::train::read_config;
use crate::Outcome;
use crate::records::charts::{Chart, Format, Line, Panel};
use crate::records::curves::WINDOW;
use crate::records::history::{History, Points, interpolate};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::collections::HashSet;
use std::path::PathBuf;
use warp_func::Registry;

/// Points of a curve that is made from several.
const POINTS: usize = 200;

/// Draw the curves of runs.
#[derive(Debug, Clone, Args)]
pub struct PlotArgs {
    /// The runs' folders. Runs of the same environment and algorithm are drawn as one curve.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The picture, PNG or SVG.
    #[arg(short, long, value_name = "FILE.png | FILE.svg")]
    pub out: PathBuf,
    /// The figure, as its keys in metrics.jsonl joined by dots.
    #[arg(long, value_name = "KEY", default_value = "episode_return.mean")]
    pub metric: String,
    /// What the band around the mean of several seeds shows.
    #[arg(long, value_name = "KIND", default_value = "range")]
    pub band: Band,
}

/// What the band around the mean of several seeds shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Band {
    /// From the lowest to the highest seed.
    Range,
    /// One standard deviation over seeds, either way.
    Std,
}

/// Runs of one environment with one algorithm.
struct Group {
    env: String,
    algorithm: String,
    curves: Vec<Points>,
}

/// Runs the command.
///
/// # Errors
/// A run that can't be read, a figure that none of them has, or a file that can't be written.
pub fn execute(args: &PlotArgs, registry: &Registry) -> Result<Outcome> {
    Format::of(&args.out)?;
    let groups = read(args, registry)?;
    let mut envs: Vec<&str> = groups.iter().map(|group| group.env.as_str()).collect();
    envs.sort_unstable();
    envs.dedup();
    let panel = |env: &&str| {
        let own = groups.iter().filter(|group| group.env == *env).enumerate();
        let lines = own.map(|(i, group)| group.line(i, args.band)).collect();
        Panel { title: (*env).into(), lines, ..Panel::default() }
    };
    let title = match args.metric.as_str() {
        "episode_return.mean" => "Episode return",
        "episode_length.mean" => "Episode length",
        other => other,
    };
    Chart { title: title.into(), panels: envs.iter().map(panel).collect() }.save(&args.out)?;
    let n: usize = groups.iter().map(|group| group.curves.len()).sum();
    let runs = if n == 1 { "run is" } else { "runs are" };
    say(&format!("{n} {runs} drawn in {}", args.out.display()))?;
    Ok(Outcome::Done)
}

fn read(args: &PlotArgs, registry: &Registry) -> Result<Vec<Group>> {
    let keys: Vec<&str> = args.metric.split('.').collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut known = Vec::new();
    let mut seen = HashSet::new();
    for folder in &args.runs {
        // `runs/*` and one of them again: still one run.
        if !seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
            continue;
        }
        let config = read_config(folder, registry)?;
        let history = History::read(folder)?;
        // Means over episodes are smoothed; a figure of the iteration is shown as it is.
        let of_episodes = !matches!(keys[0], "policy" | "steps_per_second");
        let points =
            if of_episodes { history.smoothed(&keys, WINDOW) } else { history.series(&keys) };
        known.extend(history.figures());
        let (env, algorithm) = (config.run.env_id.clone(), config.algorithm());
        match groups.iter_mut().find(|g| g.env == env && g.algorithm == algorithm) {
            Some(group) => group.curves.push(points),
            None => groups.push(Group { env, algorithm, curves: vec![points] }),
        }
    }
    if groups.iter().flat_map(|group| &group.curves).all(Vec::is_empty) {
        known.sort();
        known.dedup();
        bail!("--metric {}: no run has it; there are {}", args.metric, known.join(", "));
    }
    Ok(groups)
}

impl Group {
    /// The mean over the runs as far as all of them go, with a band.
    fn line(&self, colour: usize, band: Band) -> Line {
        let n = self.curves.len();
        let name = self.algorithm.to_uppercase();
        let [curve] = &self.curves[..] else {
            let (points, band) = together(&self.curves, band);
            let label = format!("{name}, mean of {n} runs");
            return Line { label, colour, points, band, ..Line::default() };
        };
        Line { label: name, colour, points: curve.clone(), ..Line::default() }
    }
}

/// Environment steps, lower and upper bound.
type Bounds = Vec<(f64, f64, f64)>;

/// Mean and band of several curves, from where all of them have begun to where the first ends.
fn together(curves: &[Points], band: Band) -> (Points, Bounds) {
    let starts = curves.iter().filter_map(|curve| Some(curve.first()?.0));
    let ends = curves.iter().filter_map(|curve| Some(curve.last()?.0));
    let (start, end) = (starts.fold(0.0, f64::max), ends.fold(f64::INFINITY, f64::min));
    let step = (end - start) / (POINTS - 1) as f64;
    let last = |i: usize| if i == POINTS - 1 { end } else { start + i as f64 * step };
    let xs: Vec<f64> = (0..POINTS).map(last).collect();
    let found: Vec<_> = curves.iter().map(|curve| interpolate(curve, &xs)).collect();
    let (mut points, mut bounds) = (Vec::new(), Vec::new());
    for (i, x) in xs.into_iter().enumerate() {
        let ys: Vec<f64> = found.iter().filter_map(|curve| curve[i]).collect();
        if ys.is_empty() {
            continue;
        }
        let n = ys.len() as f64;
        let mean = ys.iter().sum::<f64>() / n;
        let (low, high) = match band {
            Band::Range => (
                ys.iter().copied().fold(f64::INFINITY, f64::min),
                ys.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
            Band::Std => {
                let variance = ys.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / n;
                (mean - variance.sqrt(), mean + variance.sqrt())
            }
        };
        points.push((x, mean));
        bounds.push((x, low, high));
    }
    (points, bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_become_a_mean_with_a_band() {
        let line = |slope: f64, end: f64| vec![(0.0, 0.0), (end, slope * end)];
        let curves = [line(1.0, 10.0), line(3.0, 12.0)];
        let (points, bounds) = together(&curves, Band::Range);
        assert_eq!((points[0], points[POINTS - 1]), ((0.0, 0.0), (10.0, 20.0)));
        assert_eq!(bounds[POINTS - 1], (10.0, 10.0, 30.0));
        let (_, bounds) = together(&curves, Band::Std);
        assert_eq!(bounds[POINTS - 1], (10.0, 10.0, 30.0));
        // A run in which no episode has ended yet is not counted.
        assert_eq!(together(&[line(1.0, 10.0), vec![]], Band::Range).0[POINTS - 1], (10.0, 10.0));
    }
}
