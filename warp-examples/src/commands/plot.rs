//! `warp plot`: the curves of several runs, those that differ in the seed alone as one with a band.

use super::say;
use super::train::read_config;
use crate::Outcome;
use crate::records::bands::{Band, together};
use crate::records::charts::{Chart, Format, Line, Panel};
use crate::records::curves::WINDOW;
use crate::records::fleet;
use crate::records::history::{History, Points, figures};
use anyhow::{Result, bail};
use clap::Args;
use std::collections::HashSet;
use std::path::PathBuf;
use warp_func::Registry;
use warp_train::fleet::Fleet;

/// Draw the curves of runs.
#[derive(Debug, Clone, Args)]
pub struct PlotArgs {
    /// The runs' or fleets' folders. Runs of the same environment and algorithm are drawn as one curve;
    /// in fleets, those with the same swept values.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The picture, PNG or SVG.
    #[arg(short, long, value_name = "FILE.png | FILE.svg")]
    pub out: PathBuf,
    /// The figure, as its keys in metrics.jsonl joined by dots.
    #[arg(long, value_name = "KEY", default_value = "episode_return.mean")]
    pub metric: String,
    /// What the band around the mean of several runs shows.
    #[arg(long, value_name = "KIND", default_value = "range")]
    pub band: Band,
}

/// Runs of one environment with one algorithm and, in fleets, the same swept values.
struct Group {
    env: String,
    algorithm: String,
    swept: String,
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
        let (env, algorithm) = (config.run.env_id.clone(), config.algorithm());
        let mut add = |swept: String, curves: Vec<Points>| {
            let same =
                |g: &&mut Group| (&g.env, &g.algorithm, &g.swept) == (&env, &algorithm, &swept);
            match groups.iter_mut().find(same) {
                Some(group) => group.curves.extend(curves),
                None => groups.push(Group {
                    env: env.clone(),
                    algorithm: algorithm.clone(),
                    swept,
                    curves,
                }),
            }
        };
        if Fleet::is_in(folder) {
            let (runs, last) = fleet::read(folder, std::slice::from_ref(&keys))?;
            for (swept, members) in fleet::combinations(&Fleet::list(folder)?) {
                let curve = |run: &usize| runs.get(run).map(|series| series[0].clone());
                add(fleet::label(swept), members.iter().filter_map(curve).collect());
            }
            known.extend(figures([&last]));
            continue;
        }
        let history = History::read(folder)?;
        // Means over episodes are smoothed; a figure of the iteration is shown as it is.
        let of_episodes = !matches!(keys[0], "policy" | "steps_per_second");
        let points =
            if of_episodes { history.smoothed(&keys, WINDOW) } else { history.series(&keys) };
        known.extend(history.figures());
        add(String::new(), vec![points]);
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
        let mut name = self.algorithm.to_uppercase();
        if !self.swept.is_empty() {
            name += &format!(", {}", self.swept);
        }
        let [curve] = &self.curves[..] else {
            let (points, band) = together(&self.curves, band);
            let label = format!("{name}, mean of {n} runs");
            return Line { label, colour, points, band, ..Line::default() };
        };
        Line { label: name, colour, points: curve.clone(), ..Line::default() }
    }
}
