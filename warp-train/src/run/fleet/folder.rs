//! A fleet's folder: `config.toml`, `fleet.json` (which runs there are), `metrics.jsonl` (records of all
//! runs), `weights/` (a file per finished run) and `summary.json`; `ended.jsonl` until all have ended,
//! then `runs.jsonl`.

use super::ends::EndsFile;
use super::list::{self, LIST, Listed};
use super::record::{FleetRecord, Thinner};
use super::records::Records;
use super::side_by_side::each;
use super::summary::{FleetSummary, RunSummary, Work};
use super::{FleetEvent, FleetRun, Halving};
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::durable;
use crate::run::durable::write_whole;
use crate::run::encoding::encode;
use crate::run::journal::{Journal, METRICS};
use crate::run::metrics::{IterationMetrics, RecentReturns};
use crate::run::new_folder;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use warp_core::toml::Table;

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
    /// Those that were done before this process.
    first_steps: u64,
    n_ended: AtomicUsize,
    /// Whether something could not be written: no run goes on then, on any device.
    has_failed: AtomicBool,
    note: Option<String>,
}

/// Threads that wait for the disk at a time, at most, since it takes many files to itself at once; and files for which
/// there is one more of them. A few files go to the disk in their order.
const SYNCS: usize = 32;

/// A run in training.
#[derive(Debug)]
struct Open {
    thinner: Thinner,
    lines: String,
    n_lines: usize,
    recent: RecentReturns,
    env_steps: u64,
    /// The digest of its weights where it pauses.
    paused: Option<String>,
    ended: bool,
}

/// How a run ended; its weights by their digest.
enum End {
    Finished { weights: String },
    Stopped { round: usize, weights: String },
    Broken(String),
}

/// What has been written of ended runs.
#[derive(Debug)]
struct Ends {
    records: Records,
    ends_file: EndsFile,
    ended: BTreeMap<usize, RunSummary>,
    /// The first thing that could not be written.
    failure: Option<Error>,
}

impl Fleet {
    /// Makes the folder of a new fleet; `config_toml` is the configuration of all runs but for their
    /// seeds and swept keys, `halving` how settings are stopped, if they are.
    ///
    /// # Errors
    /// A folder that holds a run already, or that another process makes, or that can't be written.
    pub fn create(
        folder: &Path,
        config_toml: &str,
        runs: &[FleetRun],
        halving: Option<Halving>,
    ) -> Result<Self> {
        Self::check_free(folder)?;
        let mut listed = Vec::new();
        let journal = new_folder::create(folder, |staging| {
            let weights = staging.join("weights");
            std::fs::create_dir(&weights).map_err(|e| Error::file("cannot create", &weights, e))?;
            EndsFile::create(staging)?;
            listed = list::write(staging, runs, halving)?;
            write_whole(&staging.join("config.toml"), config_toml)
        })?;
        Self::open(folder, listed, runs, Records::new(journal), BTreeMap::new())
    }

    fn check_free(folder: &Path) -> Result<()> {
        new_folder::settle(folder)?;
        let parts = ["config.toml", LIST, METRICS, "summary.json", "weights", "checkpoints"];
        let Some(part) = parts.iter().find(|part| folder.join(part).exists()) else {
            return Ok(());
        };
        let reason = format!("it already contains a run ({part})");
        Err(Error::file("cannot start a fleet in", folder, reason))
    }

    /// Opens the folder of a fleet that is to be completed: `runs` are all of its runs, in the order of their
    /// numbers. Unfinished runs restart.
    ///
    /// # Errors
    /// Another process that is at work there, or a folder that can't be read or written.
    pub fn reopen(folder: &Path, runs: &[FleetRun]) -> Result<Self> {
        let journal = Journal::open(folder)?;
        durable::sweep(folder)?;
        durable::sweep(&folder.join("weights"))?;
        let listed = list::read_exactly(folder)?;
        EndsFile::restore(folder)?;
        let ended = EndsFile::read(folder, runs)?;
        let (records, note) = Records::reopen(journal, |run| ended.contains_key(&run))?;
        Ok(Self { note, ..Self::open(folder, listed, runs, records, ended)? })
    }

    fn open(
        folder: &Path,
        listed: Vec<Listed>,
        runs: &[FleetRun],
        records: Records,
        ended: BTreeMap<usize, RunSummary>,
    ) -> Result<Self> {
        let ends_file = EndsFile::open(folder)?;
        let iterations = |run: &FleetRun| {
            run.config.run.total_steps.div_ceil(run.config.steps_per_iteration().max(1))
        };
        let open = |run: &FleetRun| Open {
            thinner: Thinner::new(run.number, run.config.run.seed, iterations(run)),
            lines: String::new(),
            n_lines: 0,
            recent: RecentReturns::default(),
            env_steps: 0,
            paused: None,
            ended: ended.contains_key(&run.number),
        };
        let runs = runs.iter().map(|run| (run.number, Mutex::new(open(run)))).collect();
        let (n_ended, first_steps) = (ended.len(), ended.values().map(|run| run.env_steps).sum());
        Ok(Self {
            folder: folder.into(),
            listed,
            started: Instant::now(),
            runs,
            ends: Mutex::new(Ends { records, ends_file, ended, failure: None }),
            env_steps: AtomicU64::new(first_steps),
            first_steps,
            n_ended: AtomicUsize::new(n_ended),
            has_failed: AtomicBool::new(false),
            note: None,
        })
    }

    /// What became of damaged records when the fleet was reopened, as one sentence; usually none.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Whether a run has ended.
    #[must_use]
    pub fn has_ended(&self, run: usize) -> bool {
        self.ends().ended.contains_key(&run)
    }

    /// Whether `folder` is that of a fleet.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(LIST).exists()
    }

    /// Whether all runs of the fleet in `folder` have ended.
    #[must_use]
    pub fn is_complete(folder: &Path) -> bool {
        Self::is_in(folder) && !EndsFile::is_in(folder)
    }

    /// The runs of the fleet in `folder`, those that have not finished included.
    ///
    /// # Errors
    /// A list that can't be read.
    pub fn list(folder: &Path) -> Result<Vec<Listed>> {
        list::read(folder)
    }

    /// How the fleet in `folder` stops settings, if it does.
    ///
    /// # Errors
    /// A list that can't be read.
    pub fn halving(folder: &Path) -> Result<Option<Halving>> {
        list::halving(folder)
    }

    /// Writes down what happened to a run; breaks if that is not possible.
    pub fn take(&self, run: usize, event: FleetEvent<'_>) -> ControlFlow<()> {
        self.change(run, |open| match event {
            FleetEvent::Iterations(done) => self.iterations(open, done),
            FleetEvent::Finished(learner) => self.finished(open, run, learner),
            FleetEvent::Broken(error) => self.end(open, run, End::Broken(error.to_string())),
        })
    }

    /// The same in a round after which runs pause: one that would have finished is kept as it is, to go on or to be
    /// stopped ([`Fleet::stop`]).
    pub fn take_pausing(&self, run: usize, event: FleetEvent<'_>) -> ControlFlow<()> {
        let FleetEvent::Finished(learner) = event else { return self.take(run, event) };
        self.change(run, |open| {
            if let Err(reason) = learner.check_finite() {
                return self.diverged(open, run, reason);
            }
            open.paused = Some(self.write_weights(run, learner)?);
            Ok(())
        })
    }

    /// Ends a run that paused after round `round` of successive halving.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn stop(&self, run: usize, round: usize) -> Result<()> {
        let Some(open) = self.runs.get(&run) else { return Ok(()) };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(weights) = open.paused.take().filter(|_| !open.ended) else { return Ok(()) };
        if let Some(record) = open.thinner.rest() {
            self.record(&mut open, &record)?;
        }
        self.end(&mut open, run, End::Stopped { round, weights })
    }

    /// Mean return over the last episodes of a run so far; `None` if none has finished, or if the run failed.
    #[must_use]
    pub fn mean_return(&self, run: usize) -> Option<f64> {
        if let Some(ended) = self.ends().ended.get(&run) {
            return ended.mean_episode_return.filter(|_| ended.error.is_none());
        }
        self.runs.get(&run)?.lock().unwrap_or_else(PoisonError::into_inner).recent.mean()
    }

    /// Whether a run has ended early: it failed, or was stopped.
    #[must_use]
    pub fn is_out(&self, run: usize) -> bool {
        let ends = self.ends();
        ends.ended
            .get(&run)
            .is_some_and(|run| run.error.is_some() || run.stopped_in_round.is_some())
    }

    /// Lets `change` write something down of a run that has not ended; breaks if that is not possible.
    fn change(&self, run: usize, change: impl FnOnce(&mut Open) -> Result<()>) -> ControlFlow<()> {
        if self.has_failed.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let Some(open) = self.runs.get(&run) else { return ControlFlow::Continue(()) };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.ended {
            return ControlFlow::Continue(());
        }
        match change(&mut open) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.has_failed.store(true, Ordering::Relaxed);
                self.ends().failure.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn iterations(&self, open: &mut Open, done: &[IterationMetrics]) -> Result<()> {
        let before = open.env_steps;
        // Others are of a run that paused and began anew.
        for metrics in done.iter().filter(|metrics| metrics.env_steps > before) {
            open.env_steps = metrics.env_steps;
            open.recent.add_iteration(&metrics.episodes);
            if let Some(record) = open.thinner.add(metrics) {
                self.record(open, &record)?;
            }
        }
        // All threads count here: once for many iterations, lest they wait for each other.
        self.env_steps.fetch_add(open.env_steps - before, Ordering::Relaxed);
        Ok(())
    }

    fn record(&self, open: &mut Open, record: &FleetRecord) -> Result<()> {
        let path = || self.folder.join(METRICS);
        open.lines += &serde_json::to_string(record)
            .map_err(|e| Error::file("cannot encode a line of", &path(), e))?;
        open.lines.push('\n');
        open.n_lines += 1;
        Ok(())
    }

    fn finished(&self, open: &mut Open, run: usize, learner: &LearnerState) -> Result<()> {
        match learner.check_finite() {
            Ok(()) => {
                self.end(open, run, End::Finished { weights: self.write_weights(run, learner)? })
            }
            Err(reason) => self.diverged(open, run, reason),
        }
    }

    fn diverged(&self, open: &mut Open, run: usize, reason: String) -> Result<()> {
        let error = Error::diverged(open.env_steps, reason).to_string();
        self.end(open, run, End::Broken(error))
    }

    /// Writes the weights of a run; their digest.
    fn write_weights(&self, run: usize, learner: &LearnerState) -> Result<String> {
        let path = weights_path(&self.folder, run);
        let bytes = encode(&learner.weights, &learner.statistics)?;
        let partial = durable::partial(&path);
        // The disk is waited for once, when the fleet is at its end.
        std::fs::write(&partial, &bytes)
            .and_then(|()| std::fs::rename(&partial, &path))
            .map_err(|e| Error::file("cannot write", &path, e))?;
        Ok(digest(&bytes))
    }

    /// Notes the end of a run.
    fn end(&self, open: &mut Open, run: usize, end: End) -> Result<()> {
        open.ended = true;
        self.n_ended.fetch_add(1, Ordering::Relaxed);
        let listed = self.listed.get(run);
        let (weights, error, stopped_in_round) = match end {
            End::Finished { weights } => (Some(weights), None, None),
            End::Stopped { round, weights } => (Some(weights), None, Some(round)),
            End::Broken(error) => (None, Some(error), None),
        };
        let summary = RunSummary {
            run,
            seed: listed.map_or(0, |listed| listed.seed),
            swept: listed.map_or_else(Table::new, |listed| listed.swept.clone()),
            env_steps: open.env_steps,
            mean_episode_return: open.recent.mean(),
            mean_group_return: open.recent.groups(),
            error,
            stopped_in_round,
        };
        let lines = std::mem::take(&mut open.lines);
        let mut ends = self.ends();
        ends.records.append(run, &lines, open.n_lines)?;
        ends.ends_file.add(&summary, open.n_lines, weights)?;
        ends.ended.insert(run, summary);
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

    /// Brings everything to the disk and writes `summary.json`. `about` is its beginning: environment,
    /// backend and so on; the rest is filled in. If all runs have ended, their records are sorted.
    ///
    /// # Errors
    /// A file that couldn't be written, now or before.
    pub fn finish(self, about: FleetSummary) -> Result<FleetSummary> {
        let seconds = self.started.elapsed().as_secs_f64();
        let Ends { mut records, ends_file, ended, failure } =
            self.ends.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = failure {
            return Err(failure);
        }
        sync_weights(&self.folder, &ended)?;
        // Before the records: a line counts only if its run's are there.
        ends_file.sync()?;
        let is_complete = ended.len() == self.listed.len();
        records.finish(is_complete)?;
        let env_steps = self.env_steps.into_inner();
        let work = Work { env_steps, own_steps: env_steps - self.first_steps, seconds };
        let summary = about.of_runs(ended.into_values().collect(), self.listed.len(), &work);
        let path = self.folder.join("summary.json");
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|e| Error::file("cannot encode", &path, e))?;
        write_whole(&path, &(text + "\n"))?;
        if is_complete {
            ends_file.complete(&self.folder)?;
        }
        Ok(summary)
    }
}

/// Makes sure that the weights of all finished runs are on the disk.
fn sync_weights(folder: &Path, ended: &BTreeMap<usize, RunSummary>) -> Result<()> {
    let finished: Vec<_> = ended.values().filter(|run| run.error.is_none()).collect();
    let sync = |i: usize| {
        let path = weights_path(folder, finished[i].run);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|e| Error::file("cannot write", &path, e))
    };
    let threads = finished.len().div_ceil(SYNCS).clamp(1, SYNCS);
    each(threads, finished.len(), sync).into_iter().collect::<Result<()>>()?;
    durable::sync_folder(&folder.join("weights"))
}

pub(super) fn weights_path(folder: &Path, run: usize) -> PathBuf {
    folder.join("weights").join(format!("{run:05}.safetensors"))
}
