//! `warp plot`: the curves of several runs, seeds of one configuration as one curve with a band; runs in
//! folders, or those that `warp bench --train --curve-steps` reported.

use super::eval::no_fleet;
use super::eval_fleet::chosen;
use super::folders::with_runs;
use super::metric::no_such_metric;
use super::{say, tell};
use crate::records::bands::{Band, together};
use crate::records::charts::{Chart, Format, Horizontal, Line, Panel};
use crate::records::curves::WINDOW;
use crate::records::fleet::{self, FleetHistory};
use crate::records::history::{Axis, History, Points, Series, figures, is_of_episodes};
use crate::records::learning::Report;
use crate::records::seeds::{Identity, excluded, independent};
use crate::records::setting::Setting;
use crate::run_config::{read_config, resolve_listed};
use crate::{Outcome, settings};
use anyhow::{Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use warp_func::Registry;
use warp_train::fleet::{Fleet, Listed};
use warp_train::{Run, TrainConfig};

/// Plot the learning curves of runs.
#[derive(Debug, Clone, Args)]
pub struct PlotArgs {
    /// Folders of runs or fleets, or reports of warp bench --train --curve-steps. Runs that differ only in seed and
    /// length are drawn as one curve; curves are named by the keys in which they differ.
    #[arg(value_name = "RUN | REPORT.json", required = true)]
    pub runs: Vec<PathBuf>,
    /// Index of a run in a fleet, counted from 0; by default all that have finished.
    #[arg(long = "run", value_name = "N")]
    pub run: Option<usize>,
    /// The file to write, a PNG or SVG.
    #[arg(short, long, value_name = "FILE.png | FILE.svg")]
    pub out: PathBuf,
    /// The metric, as its keys in metrics.jsonl joined by dots; by default the return or, if there are
    /// several groups of agents, the return of each.
    #[arg(long, value_name = "KEY")]
    pub metric: Option<String>,
    /// Quantity on the horizontal axis.
    #[arg(long, value_name = "AXIS", default_value = "steps")]
    pub x: Axis,
    /// What the band around the mean of several runs shows.
    #[arg(long, value_name = "KIND", default_value = "range")]
    pub band: Band,
}

/// One run's curves, by their panels.
struct Member {
    identity: Identity,
    curves: Vec<(String, Points)>,
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
/// A run that can't be read, a metric that none of them has, or a file that can't be written.
pub fn execute(args: &PlotArgs, registry: &Registry) -> Result<Outcome> {
    Format::of(&args.out)?;
    let mut reader = Reader {
        args,
        registry,
        members: Vec::new(),
        groups: Vec::new(),
        known: Vec::new(),
        n_reported: 0,
    };
    for path in with_runs(&args.runs, &["json"])? {
        reader.read(path)?;
    }
    let (members, n_copies) = independent(std::mem::take(&mut reader.members), |run| &run.identity);
    let n = members.len() + reader.n_reported;
    reader.members = members;
    let groups = reader.groups()?;
    excluded(n_copies).iter().for_each(|note| tell(note));
    let mut panels: Vec<Panel> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for group in &groups {
        let at = panels.iter().position(|panel| panel.title == group.panel).unwrap_or_else(|| {
            let (title, axis) = (group.panel.clone(), Horizontal::Progress(args.x));
            panels.push(Panel { title, axis, ..Panel::default() });
            panels.len() - 1
        });
        // The same in all panels.
        let colour = names.iter().position(|name| *name == group.name).unwrap_or_else(|| {
            names.push(&group.name);
            names.len() - 1
        });
        panels[at].lines.push(group.line(colour, args.band));
    }
    let mut title = match args.metric.as_deref() {
        None | Some("episode_return.mean") => "Episode return".to_string(),
        Some("episode_length.mean") => "Episode length".to_string(),
        Some(other) => other.to_string(),
    };
    if groups.iter().any(|group| group.curves.len() > 1) {
        title += &format!(": mean, {}", args.band.title());
    }
    Chart { title, panels }.save(&args.out)?;
    let runs = if n == 1 { "run is" } else { "runs are" };
    say(&format!("{n} {runs} drawn in {}", args.out.display()))?;
    Ok(Outcome::Done)
}

/// What has been read so far.
struct Reader<'a> {
    args: &'a PlotArgs,
    registry: &'a Registry,
    members: Vec<Member>,
    /// Curves of reports.
    groups: Vec<Group>,
    /// All metrics of a run.
    known: Vec<String>,
    /// Runs in reports.
    n_reported: usize,
}

impl Reader<'_> {
    fn read(&mut self, path: &Path) -> Result<()> {
        if path.extension().is_some_and(|ending| ending == "json") {
            return self.read_report(path);
        }
        let config = read_config(path, self.registry)?;
        no_fleet(path, self.args.run)?;
        if Fleet::is_in(path) {
            return self.read_fleet(path, &config);
        }
        let figures = self.figures(&config);
        let keys: Vec<Vec<&str>> = figures.iter().map(Figure::keys).collect();
        let history = History::read(path, self.args.x, &keys)?;
        history.damage.iter().for_each(|said| tell(said));
        let setting = Setting::of_run(path, &config, u64::MAX, self.registry)?;
        let curve = |((figure, keys), series): ((&Figure, &Vec<&str>), &Series)| {
            // Means over episodes are smoothed; a figure of the iteration is shown as it is.
            let window = if is_of_episodes(keys) { WINDOW } else { 0.0 };
            (figure.panel.clone(), series.smoothed(window))
        };
        let curves = figures.iter().zip(&keys).zip(&history.series).map(curve).collect();
        let identity = Identity { setting, seed: config.run.seed, length: history.end };
        self.members.push(Member { identity, curves });
        self.known.extend(history.names);
        Ok(())
    }

    fn read_fleet(&mut self, path: &Path, config: &TrainConfig) -> Result<()> {
        let wanted = self.figures(config);
        let keys: Vec<Vec<&str>> = wanted.iter().map(Figure::keys).collect();
        let FleetHistory { runs, last, damage } = fleet::read(path, self.args.x, &keys)?;
        damage.iter().for_each(|said| tell(said));
        let shared = settings::parse(&Run::config(path)?)?;
        let chosen = chosen(path, self.args.run)?;
        for (swept, members) in fleet::combinations(&chosen) {
            let one = Listed { run: 0, seed: config.run.seed, swept: swept.clone() };
            let setting =
                Setting::new(&resolve_listed(&shared, &one, self.registry)?, self.registry)?;
            for listed in chosen.iter().filter(|listed| members.contains(&listed.run)) {
                let Some(series) = runs.get(&listed.run) else { continue };
                let curve =
                    |(figure, curve): (&Figure, &Points)| (figure.panel.clone(), curve.clone());
                let ends = series.iter().filter_map(|curve| Some(curve.last()?.0));
                let length = ends.fold(0.0, f64::max);
                let (setting, seed) = (setting.clone(), listed.seed);
                self.members.push(Member {
                    identity: Identity { setting, seed, length },
                    curves: wanted.iter().zip(series).map(curve).collect(),
                });
            }
        }
        self.known.extend(figures([&last]));
        Ok(())
    }

    /// The curves of a report: a group per number of replicas and group of agents.
    fn read_report(&mut self, path: &Path) -> Result<()> {
        let (report, shown) = (Report::read(path)?, path.display());
        if let Some(metric) = self.args.metric.as_ref().filter(|key| *key != RETURN) {
            bail!("--metric {metric}: the report \"{shown}\" has only {RETURN}");
        }
        if self.args.x != Axis::Steps {
            bail!("--x: the report \"{shown}\" has only curves over steps");
        }
        self.known.push(RETURN.into());
        for (trained, curves) in report.curves() {
            for group in &curves.groups {
                let algorithm = report.algorithm.to_uppercase();
                let mut panel =
                    format!("{}, {algorithm}, {} replicas", report.env, trained.replicas);
                if curves.groups.len() > 1 {
                    panel += &format!(", {}", group.group);
                }
                let name = format!("{} on {}", report.precision, report.device);
                let curves: Vec<_> = group.seeds.iter().map(|seed| curves.points(seed)).collect();
                self.n_reported += curves.len();
                self.groups.push(Group { panel, name, curves });
            }
        }
        Ok(())
    }

    /// What is drawn of a run.
    fn figures(&self, config: &TrainConfig) -> Vec<Figure> {
        let (env, groups) = (&config.run.env_id, &config.spec.groups);
        match &self.args.metric {
            None if groups.len() > 1 => {
                let one = |name: &String| Figure {
                    panel: format!("{env}, {name}"),
                    keys: vec!["group_return".into(), name.clone(), "mean".into()],
                };
                groups.iter().map(|group| one(&group.name)).collect()
            }
            metric => {
                let keys = metric.as_deref().unwrap_or(RETURN).split('.');
                vec![Figure { panel: env.clone(), keys: keys.map(Into::into).collect() }]
            }
        }
    }

    /// The curves of what has been read, seeds of one configuration together.
    fn groups(mut self) -> Result<Vec<Group>> {
        let reported = self.groups.iter().flat_map(|group| &group.curves);
        let own = self.members.iter().flat_map(|member| &member.curves);
        if reported.chain(own.map(|(_, curve)| curve)).all(Vec::is_empty) {
            self.known.sort();
            self.known.dedup();
            bail!(no_such_metric(self.args.metric.as_deref(), &self.known));
        }
        let mut settings: Vec<Setting> = Vec::new();
        for Identity { setting, .. } in self.members.iter().map(|member| &member.identity) {
            if !settings.iter().any(|one| one.is_same(setting)) {
                settings.push(setting.clone());
            }
        }
        let labels: Vec<String> = settings.iter().map(|one| one.label(&settings)).collect();
        // Labels may leave keys out, so they do not say what belongs together.
        let mut found: Vec<(usize, Group)> = Vec::new();
        for Member { identity, curves } in self.members {
            let at = settings.iter().position(|one| one.is_same(&identity.setting)).unwrap_or(0);
            for (panel, curve) in curves {
                match found.iter_mut().find(|(own, group)| (*own, &group.panel) == (at, &panel)) {
                    Some((_, group)) => group.curves.push(curve),
                    None => {
                        let name = labels[at].clone();
                        found.push((at, Group { panel, name, curves: vec![curve] }));
                    }
                }
            }
        }
        let found = found.into_iter().map(|(_, group)| group);
        Ok(self.groups.into_iter().chain(found).collect())
    }
}

/// The metric that every run and report has.
const RETURN: &str = "episode_return.mean";

/// What is drawn of a run, and where.
struct Figure {
    panel: String,
    keys: Vec<String>,
}

impl Figure {
    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(String::as_str).collect()
    }
}

impl Group {
    /// The mean over the runs as far as any of them goes, with a band.
    fn line(&self, colour: usize, band: Band) -> Line {
        let n = self.curves.len();
        let mut label = self.name.clone();
        let [curve] = &self.curves[..] else {
            let (points, band) = together(&self.curves, band);
            label += &format!(", mean of {n} runs");
            let ends = self.curves.iter().map(|curve| curve.last().map_or(0.0, |last| last.0));
            let end = ends.clone().fold(0.0, f64::max);
            let n_there = ends.filter(|x| *x >= 0.99 * end).count();
            if n_there < n {
                label += &format!(" ({n_there} at the end)");
            }
            return Line { label, colour, points, band, ..Line::default() };
        };
        Line { label, colour, points: curve.clone(), ..Line::default() }
    }
}
