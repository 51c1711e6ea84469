//! `warp plot`: the curves of several runs, those that differ in the seed alone as one with a band;
//! runs in folders, or those that `warp bench --train --curve-steps` reported.

use super::say;
use super::train::read_config;
use crate::Outcome;
use crate::records::bands::{Band, together};
use crate::records::charts::{Chart, Format, Line, Panel};
use crate::records::curves::WINDOW;
use crate::records::fleet;
use crate::records::history::{History, Points, figures};
use crate::records::learning::Report;
use anyhow::{Result, bail};
use clap::Args;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use warp_func::Registry;
use warp_train::fleet::Fleet;

/// The figure that every run and report has.
const RETURN: &str = "episode_return.mean";

/// Draw the curves of runs.
#[derive(Debug, Clone, Args)]
pub struct PlotArgs {
    /// The runs' or fleets' folders. Runs of the same environment and algorithm are drawn as one curve;
    /// in fleets, those with the same swept values. Or reports of warp bench --train --curve-steps.
    #[arg(value_name = "RUN | REPORT.json", required = true)]
    pub runs: Vec<PathBuf>,
    /// The picture, PNG or SVG.
    #[arg(short, long, value_name = "FILE.png | FILE.svg")]
    pub out: PathBuf,
    /// The figure, as its keys in metrics.jsonl joined by dots.
    #[arg(long, value_name = "KEY", default_value = RETURN)]
    pub metric: String,
    /// What the band around the mean of several runs shows.
    #[arg(long, value_name = "KIND", default_value = "range")]
    pub band: Band,
}

/// Runs that are drawn as one curve.
struct Group {
    /// The panel that the curve is in.
    panel: String,
    name: String,
    curves: Vec<Points>,
}

/// Runs the command.
///
/// # Errors
/// A run that can't be read, a figure that none of them has, or a file that can't be written.
pub fn execute(args: &PlotArgs, registry: &Registry) -> Result<Outcome> {
    Format::of(&args.out)?;
    let groups = read(args, registry)?;
    let mut panels: Vec<Panel> = Vec::new();
    for group in &groups {
        let at = panels.iter().position(|panel| panel.title == group.panel).unwrap_or_else(|| {
            panels.push(Panel { title: group.panel.clone(), ..Panel::default() });
            panels.len() - 1
        });
        let colour = panels[at].lines.len();
        panels[at].lines.push(group.line(colour, args.band));
    }
    let title = match args.metric.as_str() {
        RETURN => "Episode return",
        "episode_length.mean" => "Episode length",
        other => other,
    };
    Chart { title: title.into(), panels }.save(&args.out)?;
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
        if folder.extension().is_some_and(|ending| ending == "json") {
            groups.extend(read_report(folder, &args.metric)?);
            known.push(RETURN.into());
            continue;
        }
        let config = read_config(folder, registry)?;
        let (env, algorithm) = (config.run.env_id.clone(), config.algorithm());
        let mut add = |swept: String, curves: Vec<Points>| {
            let mut name = algorithm.to_uppercase();
            if !swept.is_empty() {
                name += &format!(", {swept}");
            }
            match groups.iter_mut().find(|group| (&group.panel, &group.name) == (&env, &name)) {
                Some(group) => group.curves.extend(curves),
                None => groups.push(Group { panel: env.clone(), name, curves }),
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

/// The curves of a report: a group per number of replicas and group of agents.
fn read_report(path: &Path, metric: &str) -> Result<Vec<Group>> {
    let report = Report::read(path)?;
    if metric != RETURN {
        bail!("--metric {metric}: the report \"{}\" has {RETURN} alone", path.display());
    }
    let mut groups = Vec::new();
    for (trained, curves) in report.curves() {
        for group in &curves.groups {
            let algorithm = report.algorithm.to_uppercase();
            let mut panel = format!("{}, {algorithm}, {} replicas", report.env, trained.replicas);
            if curves.groups.len() > 1 {
                panel += &format!(", {}", group.group);
            }
            let name = format!("{} on {}", report.precision, report.device);
            let curves = group.seeds.iter().map(|seed| curves.points(seed)).collect();
            groups.push(Group { panel, name, curves });
        }
    }
    Ok(groups)
}

impl Group {
    /// The mean over the runs as far as all of them go, with a band.
    fn line(&self, colour: usize, band: Band) -> Line {
        let n = self.curves.len();
        let name = &self.name;
        let [curve] = &self.curves[..] else {
            let (points, band) = together(&self.curves, band);
            let label = format!("{name}, mean of {n} runs");
            return Line { label, colour, points, band, ..Line::default() };
        };
        Line { label: name.clone(), colour, points: curve.clone(), ..Line::default() }
    }
}
