//! One number of each run, by task and setting.

use crate::commands::{read_config, resolve_listed};
use crate::records::curves::WINDOW;
use crate::records::fleet;
use crate::records::history::{Axis, History, figures as names_of, is_of_episodes};
use crate::records::setting::Setting;
use crate::settings;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use warp_core::toml::Table;
use warp_data::file;
use warp_func::Registry;
use warp_train::fleet::Fleet;
use warp_train::{Run, TrainConfig};

/// The score of one run in one task.
#[derive(Debug, Clone)]
pub struct Score {
    /// Environment, and group of agents where there are several.
    pub task: String,
    /// Number of its setting: the run's configuration without its seed.
    pub setting: usize,
    /// Environment steps that the run had done.
    pub env_steps: u64,
    /// The score.
    pub value: f64,
}

/// The scores of all runs that were read.
#[derive(Debug, Clone, Default)]
pub struct Scores {
    /// In the order of reading.
    pub list: Vec<Score>,
    /// What the runs are seeds of, each once.
    pub settings: Vec<Setting>,
    /// Runs of fleets that failed.
    pub n_broken: usize,
    /// Runs of fleets that successive halving stopped.
    pub n_stopped: usize,
    /// Runs without a score: none of their lines has the figure.
    pub n_without: usize,
    /// The figures that runs have, joined by dots.
    pub known: BTreeSet<String>,
}

/// What a score is in a task.
struct Figure {
    task: String,
    /// Its keys in `metrics.jsonl`.
    keys: Vec<String>,
    /// Where it stands in a fleet's `summary.json`, for the return.
    summary: Option<Vec<String>>,
}

impl Scores {
    /// Adds the run or the fleet's runs in `folder`. The score is the mean return over the last 100 or more
    /// episodes, of each group of agents where there are several; with `metric`, the last value of that
    /// figure.
    ///
    /// # Errors
    /// A run that can't be read, or a fleet that has not ended.
    pub fn read(&mut self, folder: &Path, metric: Option<&str>, registry: &Registry) -> Result<()> {
        let config = read_config(folder, registry)?;
        let figures = figures(&config, metric);
        if Fleet::is_in(folder) {
            return self.read_fleet(folder, &figures, registry);
        }
        let keys: Vec<Vec<&str>> = figures.iter().map(Figure::keys).collect();
        let history = History::read(folder, Axis::Steps, &keys)?;
        self.known.extend(history.names);
        let setting = self.number(Setting::new(&config, registry)?);
        for ((figure, keys), series) in figures.iter().zip(&keys).zip(&history.series) {
            let window = if is_of_episodes(keys) { WINDOW } else { 0.0 };
            let last = series.smoothed(window).last().map(|(_, value)| *value);
            self.add(figure, setting, history.end as u64, last);
        }
        Ok(())
    }

    fn read_fleet(&mut self, folder: &Path, figures: &[Figure], registry: &Registry) -> Result<()> {
        let path = folder.join("summary.json");
        let text = file::read_text(&path, file::DESCRIPTION)
            .with_context(|| format!("cannot read \"{}\"", path.display()))?;
        let summary: Value = serde_json::from_str(&text)
            .with_context(|| format!("cannot read \"{}\"", path.display()))?;
        let no_runs = || format!("\"{}\" has no runs", path.display());
        let ended = summary.get("runs").and_then(Value::as_array).with_context(no_runs)?;
        let shared = settings::parse(&Run::config(folder)?)?;
        let keys: Vec<Vec<&str>> = figures.iter().map(Figure::keys).collect();
        let (curves, last) = fleet::read(folder, Axis::Steps, &keys)?;
        self.known.extend(names_of([&last]));
        let mut settings: Vec<(Table, usize)> = Vec::new();
        for listed in Fleet::list(folder)? {
            let is_own =
                |run: &&Value| run.get("run").and_then(Value::as_u64) == Some(listed.run as u64);
            let Some(run) = ended.iter().find(is_own) else {
                bail!(
                    "run {} of the fleet in \"{}\" has not finished",
                    listed.run,
                    folder.display()
                );
            };
            if !run.get("error").is_none_or(Value::is_null) {
                self.n_broken += 1;
                continue;
            }
            if !run.get("stopped_in_round").is_none_or(Value::is_null) {
                self.n_stopped += 1;
                continue;
            }
            let setting = match settings.iter().find(|(swept, _)| *swept == listed.swept) {
                Some((_, setting)) => *setting,
                None => {
                    let config = resolve_listed(&shared, &listed, registry)?;
                    let setting = self.number(Setting::new(&config, registry)?);
                    settings.push((listed.swept.clone(), setting));
                    setting
                }
            };
            let steps = run.get("env_steps").and_then(Value::as_u64).unwrap_or(0);
            for (place, figure) in figures.iter().enumerate() {
                let curve = || Some(curves.get(&listed.run)?.get(place)?.last()?.1);
                let value = match &figure.summary {
                    Some(keys) => {
                        keys.iter().try_fold(run, |at, key| at.get(key)).and_then(Value::as_f64)
                    }
                    None => curve(),
                };
                self.add(figure, setting, steps, value);
            }
        }
        Ok(())
    }

    /// The number of a setting, new or known.
    fn number(&mut self, setting: Setting) -> usize {
        let known = self.settings.iter().position(|known| known.is_same(&setting));
        known.unwrap_or_else(|| {
            self.settings.push(setting);
            self.settings.len() - 1
        })
    }

    fn add(&mut self, figure: &Figure, setting: usize, env_steps: u64, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            self.n_without += 1;
            return;
        };
        self.list.push(Score { task: figure.task.clone(), setting, env_steps, value });
    }
}

impl Figure {
    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(String::as_str).collect()
    }
}

/// The tasks of a run, each with its figure.
fn figures(config: &TrainConfig, metric: Option<&str>) -> Vec<Figure> {
    let (env, groups) = (&config.run.env_id, &config.spec.groups);
    let texts = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    match metric {
        Some(metric) => {
            let keys = metric.split('.').map(Into::into).collect();
            vec![Figure { task: env.clone(), keys, summary: None }]
        }
        None if groups.len() > 1 => {
            let one = |name: &String| Figure {
                task: format!("{env}, {name}"),
                keys: texts(&["group_return", name, "mean"]),
                summary: Some(texts(&["mean_group_return", name])),
            };
            groups.iter().map(|group| one(&group.name)).collect()
        }
        None => vec![Figure {
            task: env.clone(),
            keys: texts(&["episode_return", "mean"]),
            summary: Some(texts(&["mean_episode_return"])),
        }],
    }
}
