//! One number of each run, by task and setting.

use crate::records::curves::WINDOW;
use crate::records::fleet::{self, FleetHistory};
use crate::records::history::{Axis, History, Series, figures as names_of, is_of_episodes};
use crate::records::seeds::{Identity, independent};
use crate::records::setting::Setting;
use crate::run_config::{read_config, resolve_listed};
use crate::settings;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;
use warp_core::toml::Table;
use warp_func::Registry;
use warp_train::fleet::{Fleet, RunSummary};
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
    /// In the order of reading; filled by [`Scores::settle`].
    pub list: Vec<Score>,
    pub(super) runs: Vec<Scored>,
    /// What the runs are seeds of, each once.
    pub settings: Vec<Setting>,
    /// Runs of fleets that failed.
    pub n_broken: usize,
    /// Runs of fleets that successive halving stopped.
    pub n_stopped: usize,
    /// Runs of fleets that have not ended.
    pub n_unfinished: usize,
    /// Runs with a seed that their setting has already.
    pub n_copies: usize,
    /// Runs without a score: none of their lines has the figure.
    pub n_without: usize,
    /// The figures that runs have, joined by dots.
    pub known: BTreeSet<String>,
    /// What there is to say of records that can't be read, a sentence each.
    pub damage: Vec<String>,
}

/// One run that was read.
#[derive(Debug, Clone)]
pub(super) struct Scored {
    identity: Identity,
    env_steps: u64,
    /// What there is of its scores, by task.
    values: Vec<(String, Option<f64>)>,
}

/// What a score is in a task.
struct Figure {
    task: String,
    /// Its keys in `metrics.jsonl`.
    keys: Vec<String>,
    /// Whose return it is.
    of: Returns,
}

/// What a summary has of a figure.
enum Returns {
    /// Nothing: the figure is no return.
    None,
    /// The return of all groups.
    All,
    /// That of one group.
    Group(String),
}

impl Scores {
    /// Adds the run or the fleet's runs in `folder`. The score is the mean return over the last 100 or more
    /// episodes, of each group of agents where there are several; with `metric`, the last value of that
    /// figure.
    ///
    /// # Errors
    /// A run that can't be read.
    pub fn read(&mut self, folder: &Path, metric: Option<&str>, registry: &Registry) -> Result<()> {
        let config = read_config(folder, registry)?;
        let figures = figures(&config, metric);
        if Fleet::is_in(folder) {
            return self.read_fleet(folder, &figures, registry);
        }
        let keys: Vec<Vec<&str>> = figures.iter().map(Figure::keys).collect();
        let history = History::read(folder, Axis::Steps, &keys)?;
        self.known.extend(history.names);
        self.damage.extend(history.damage);
        let value = |((figure, keys), series): ((&Figure, &Vec<&str>), &Series)| {
            let window = if is_of_episodes(keys) { WINDOW } else { 0.0 };
            (figure.task.clone(), series.smoothed(window).last().map(|(_, value)| *value))
        };
        let values = figures.iter().zip(&keys).zip(&history.series).map(value).collect();
        let setting = Setting::of_run(folder, &config, u64::MAX, registry)?;
        let identity = Identity { setting, seed: config.run.seed, length: history.end };
        self.runs.push(Scored { identity, env_steps: history.end as u64, values });
        Ok(())
    }

    fn read_fleet(&mut self, folder: &Path, figures: &[Figure], registry: &Registry) -> Result<()> {
        let ended = Fleet::ended_runs(folder)?;
        let shared = settings::parse(&Run::config(folder)?)?;
        let keys: Vec<Vec<&str>> = figures.iter().map(Figure::keys).collect();
        let FleetHistory { runs: curves, last, damage } = fleet::read(folder, Axis::Steps, &keys)?;
        self.known.extend(names_of([&last]));
        self.damage.extend(damage);
        let mut settings: Vec<(Table, Setting)> = Vec::new();
        for listed in Fleet::list(folder)? {
            let Some(run) = ended.iter().find(|run| run.run == listed.run) else {
                self.n_unfinished += 1;
                continue;
            };
            self.n_broken += usize::from(run.error.is_some());
            self.n_stopped += usize::from(run.stopped_in_round.is_some());
            if !run.is_finished() {
                continue;
            }
            let setting = match settings.iter().find(|(swept, _)| *swept == listed.swept) {
                Some((_, setting)) => setting.clone(),
                None => {
                    let config = resolve_listed(&shared, &listed, registry)?;
                    let setting = Setting::new(&config, registry)?;
                    settings.push((listed.swept.clone(), setting.clone()));
                    setting
                }
            };
            let value = |(place, figure): (usize, &Figure)| {
                let curve = || Some(curves.get(&listed.run)?.get(place)?.last()?.1);
                (figure.task.clone(), figure.of_summary(run).unwrap_or_else(curve))
            };
            let values = figures.iter().enumerate().map(value).collect();
            let length = run.env_steps as f64;
            let identity = Identity { setting, seed: listed.seed, length };
            self.runs.push(Scored { identity, env_steps: run.env_steps, values });
        }
        Ok(())
    }

    /// Makes scores of all that has been read: each seed of a setting counts once.
    pub fn settle(&mut self) {
        let (runs, n_copies) = independent(std::mem::take(&mut self.runs), |run| &run.identity);
        self.n_copies += n_copies;
        for Scored { identity, env_steps, values } in runs {
            let setting = self.number(identity.setting);
            for (task, value) in values {
                match value.filter(|value| value.is_finite()) {
                    Some(value) => self.list.push(Score { task, setting, env_steps, value }),
                    None => self.n_without += 1,
                }
            }
        }
    }

    /// The number of a setting, new or known.
    fn number(&mut self, setting: Setting) -> usize {
        let known = self.settings.iter().position(|known| known.is_same(&setting));
        known.unwrap_or_else(|| {
            self.settings.push(setting);
            self.settings.len() - 1
        })
    }
}

impl Figure {
    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(String::as_str).collect()
    }

    /// What a run's summary has of it; the outer nothing: its curve has it.
    fn of_summary(&self, run: &RunSummary) -> Option<Option<f64>> {
        match &self.of {
            Returns::None => None,
            Returns::All => Some(run.mean_episode_return),
            Returns::Group(name) => Some(run.mean_group_return.get(name).copied()),
        }
    }
}

/// The tasks of a run, each with its figure.
fn figures(config: &TrainConfig, metric: Option<&str>) -> Vec<Figure> {
    let (env, groups) = (&config.run.env_id, &config.spec.groups);
    let texts = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    match metric {
        Some(metric) => {
            let keys = metric.split('.').map(Into::into).collect();
            vec![Figure { task: env.clone(), keys, of: Returns::None }]
        }
        None if groups.len() > 1 => {
            let one = |name: &String| Figure {
                task: format!("{env}, {name}"),
                keys: texts(&["group_return", name, "mean"]),
                of: Returns::Group(name.clone()),
            };
            groups.iter().map(|group| one(&group.name)).collect()
        }
        None => vec![Figure {
            task: env.clone(),
            keys: texts(&["episode_return", "mean"]),
            of: Returns::All,
        }],
    }
}
