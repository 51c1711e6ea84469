//! A fleet's folder: `config.toml`, `fleet.json` (which runs there are), `metrics.jsonl` (records of all
//! runs), `weights/` (a file per finished run) and `summary.json`.

use super::record::Thinner;
use super::summary::{FleetSummary, RunSummary};
use super::{FleetEvent, FleetRun};
use crate::burn::NamedTensor;
use crate::encoding::{decode, encode};
use crate::error::{Error, Result};
use crate::journal::{Journal, METRICS};
use crate::learner::LearnerState;
use crate::metrics::{IterationMetrics, RecentReturns};
use crate::new_folder;
use crate::normalise::Statistic;
use crate::run::write_whole;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use warp_core::toml::Table;
use warp_data::file;

/// Version of the layout described above.
const FORMAT: u32 = 1;
const LIST: &str = "fleet.json";

/// One run, as `fleet.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its number.
    pub run: usize,
    /// Its seed.
    pub seed: u64,
    /// The swept keys with its values; empty without a sweep.
    pub swept: Table,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    format: u32,
    runs: Vec<Listed>,
}

/// A fleet that is being trained, and its folder.
///
/// Threads that report different runs wait for each other only when a run ends.
#[derive(Debug)]
pub struct Fleet {
    folder: PathBuf,
    listed: Vec<Listed>,
    started: Instant,
    /// By number.
    runs: BTreeMap<usize, Mutex<Open>>,
    ends: Mutex<Ends>,
    env_steps: AtomicU64,
    n_ended: AtomicUsize,
}

/// A run in training.
#[derive(Debug)]
struct Open {
    thinner: Thinner,
    lines: String,
    recent: RecentReturns,
    env_steps: u64,
    ended: bool,
}

/// What has been written of ended runs.
#[derive(Debug)]
struct Ends {
    journal: Journal,
    /// Records of ended runs that wait for a run of a lower number.
    waiting: BTreeMap<usize, String>,
    next: usize,
    ended: BTreeMap<usize, RunSummary>,
    /// The first thing that could not be written.
    failure: Option<Error>,
}

impl Fleet {
    /// Makes the folder of a new fleet; `config_toml` is the configuration of all runs but for their
    /// seeds and swept keys.
    ///
    /// # Errors
    /// A folder that holds a run already, or that another process makes, or that can't be written.
    pub fn create(folder: &Path, config_toml: &str, runs: &[FleetRun]) -> Result<Self> {
        Self::check_free(folder)?;
        let list = |run: &FleetRun| Listed {
            run: run.number,
            seed: run.config.run.seed,
            swept: run.swept.iter().cloned().collect(),
        };
        let listed: Vec<Listed> = runs.iter().map(list).collect();
        let journal = new_folder::create(folder, |staging| {
            let weights = staging.join("weights");
            std::fs::create_dir(&weights).map_err(|e| Error::file("cannot create", &weights, e))?;
            let path = staging.join(LIST);
            let text = serde_json::to_string(&List { format: FORMAT, runs: listed.clone() })
                .map_err(|e| Error::file("cannot encode", &path, e))?;
            write_whole(&path, &(text.replace("{\"run\"", "\n{\"run\"") + "\n"))?;
            write_whole(&staging.join("config.toml"), config_toml)
        })?;
        let iterations = |run: &FleetRun| {
            run.config.run.total_steps.div_ceil(run.config.steps_per_iteration().max(1))
        };
        let open = |run: &FleetRun| Open {
            thinner: Thinner::new(run.number, run.config.run.seed, iterations(run)),
            lines: String::new(),
            recent: RecentReturns::default(),
            env_steps: 0,
            ended: false,
        };
        let ends = Ends {
            journal,
            waiting: BTreeMap::new(),
            next: 0,
            ended: BTreeMap::new(),
            failure: None,
        };
        Ok(Self {
            folder: folder.into(),
            listed,
            started: Instant::now(),
            runs: runs.iter().map(|run| (run.number, Mutex::new(open(run)))).collect(),
            ends: Mutex::new(ends),
            env_steps: AtomicU64::new(0),
            n_ended: AtomicUsize::new(0),
        })
    }

    fn check_free(folder: &Path) -> Result<()> {
        new_folder::settle(folder)?;
        let parts = ["config.toml", LIST, METRICS, "summary.json", "weights", "checkpoints"];
        let Some(part) = parts.iter().find(|part| folder.join(part).exists()) else {
            return Ok(());
        };
        let reason = format!("it holds a run already ({part})");
        Err(Error::file("cannot start a fleet in", folder, reason))
    }

    /// Whether `folder` is that of a fleet.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(LIST).exists()
    }

    /// The runs of the fleet in `folder`, those that have not finished included.
    ///
    /// # Errors
    /// A list that can't be read.
    pub fn list(folder: &Path) -> Result<Vec<Listed>> {
        let path = folder.join(LIST);
        let wrong = |e: &dyn std::fmt::Display| Error::file("cannot read a fleet's", &path, e);
        let text = file::read_text(&path, file::DESCRIPTION).map_err(|e| wrong(&e))?;
        let list: List = serde_json::from_str(&text).map_err(|e| wrong(&e))?;
        if list.format == FORMAT {
            return Ok(list.runs);
        }
        Err(wrong(&format!("it has format {}, this build reads {FORMAT}", list.format)))
    }

    /// The last weights of a run, if it has finished.
    ///
    /// # Errors
    /// A file that is not as it was written.
    pub fn weights(
        folder: &Path,
        run: usize,
    ) -> Result<Option<(Vec<NamedTensor>, Vec<Statistic>)>> {
        let path = weights_path(folder, run);
        match file::read(&path, file::TENSORS) {
            Ok(bytes) => decode(&bytes).map(Some).map_err(|e| Error::file("cannot read", &path, e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::file("cannot read", &path, e)),
        }
    }

    /// Writes down what happened to a run; breaks if that is not possible.
    pub fn take(&self, run: usize, event: FleetEvent<'_>) -> ControlFlow<()> {
        let Some(open) = self.runs.get(&run) else { return ControlFlow::Continue(()) };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.ended {
            return ControlFlow::Continue(());
        }
        let taken = match event {
            FleetEvent::Iteration(metrics) => self.iteration(&mut open, metrics),
            FleetEvent::Finished(learner) => self.finished(&mut open, run, learner),
            FleetEvent::Broken(error) => self.end(&mut open, run, Some(error.to_string())),
        };
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.ends().failure.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn iteration(&self, open: &mut Open, metrics: &IterationMetrics) -> Result<()> {
        self.env_steps.fetch_add(metrics.env_steps - open.env_steps, Ordering::Relaxed);
        open.env_steps = metrics.env_steps;
        open.recent.add_iteration(&metrics.episodes);
        if let Some(record) = open.thinner.add(metrics) {
            let path = || self.folder.join(METRICS);
            open.lines += &serde_json::to_string(&record)
                .map_err(|e| Error::file("cannot encode a line of", &path(), e))?;
            open.lines.push('\n');
        }
        Ok(())
    }

    fn finished(&self, open: &mut Open, run: usize, learner: &LearnerState) -> Result<()> {
        let path = weights_path(&self.folder, run);
        let bytes = encode(&learner.weights, &learner.statistics)?;
        let partial = path.with_extension("partial");
        std::fs::write(&partial, bytes)
            .and_then(|()| std::fs::rename(&partial, &path))
            .map_err(|e| Error::file("cannot write", &path, e))?;
        self.end(open, run, None)
    }

    fn end(&self, open: &mut Open, run: usize, error: Option<String>) -> Result<()> {
        open.ended = true;
        self.n_ended.fetch_add(1, Ordering::Relaxed);
        let listed = self.listed.iter().find(|listed| listed.run == run);
        let summary = RunSummary {
            run,
            seed: listed.map_or(0, |listed| listed.seed),
            swept: listed.map_or_else(Table::new, |listed| listed.swept.clone()),
            env_steps: open.env_steps,
            mean_episode_return: open.recent.mean(),
            mean_group_return: open.recent.groups(),
            error,
        };
        let mut ends = self.ends();
        let ends = &mut *ends;
        ends.ended.insert(run, summary);
        ends.waiting.insert(run, std::mem::take(&mut open.lines));
        // In the order of the runs, whichever ends first.
        while let Some(lines) = ends.waiting.remove(&ends.next) {
            ends.journal.append(&lines)?;
            ends.next += 1;
        }
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Environment steps done so far, all runs together; and how many runs have ended.
    #[must_use]
    pub fn progress(&self) -> (u64, usize) {
        (self.env_steps.load(Ordering::Relaxed), self.n_ended.load(Ordering::Relaxed))
    }

    /// Writes what is left, with `summary.json`. `about` is its beginning: environment, backend and so
    /// on; the rest is filled in.
    ///
    /// # Errors
    /// A file that couldn't be written, now or before.
    pub fn finish(self, about: FleetSummary) -> Result<FleetSummary> {
        let mut ends = self.ends();
        if let Some(failure) = ends.failure.take() {
            return Err(failure);
        }
        for lines in std::mem::take(&mut ends.waiting).into_values() {
            ends.journal.append(&lines)?;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let runs = std::mem::take(&mut ends.ended).into_values().collect();
        let env_steps = self.env_steps.load(Ordering::Relaxed);
        let summary = about.of_runs(runs, self.listed.len(), (env_steps, seconds));
        let path = self.folder.join("summary.json");
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|e| Error::file("cannot encode", &path, e))?;
        write_whole(&path, &(text + "\n"))?;
        Ok(summary)
    }
}

fn weights_path(folder: &Path, run: usize) -> PathBuf {
    folder.join("weights").join(format!("{run:05}.safetensors"))
}
