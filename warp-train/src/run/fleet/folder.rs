//! A fleet's folder: `config.toml`, `fleet.json` (which runs there are), `metrics.jsonl` (records of all
//! runs), `weights/` (a file per finished run) and `summary.json`; `ended.jsonl` until all have ended,
//! then `runs.jsonl`.

use super::ended_run::{EndedRun, Weights};
use super::ends::EndsFile;
use super::fleet_json::{self, LIST, Listed};
use super::record::{FleetRecord, Thinner};
use super::records::Records;
use super::standing::Standing;
use super::summary::{FleetSummary, RunSummary, Work};
use super::{FleetEvent, FleetRun, Halving, weight_files};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::checkpoint::encoding::encode;
use crate::run::durable;
use crate::run::durable::write_whole;
use crate::run::folder::journal::{Journal, METRICS};
use crate::run::folder::new_folder;
use crate::run::metrics::{IterationMetrics, RecentReturns};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;
use warp_core::toml::Table;

/// A fleet that is being trained, and its folder.
///
/// Threads that report different runs hardly wait for each other: what runs leave at their ends is written by whoever
/// finds nobody else at it.
#[derive(Debug)]
pub struct Fleet {
    /// Nothing in a process whose results another one writes.
    folder: Option<PathBuf>,
    pub(super) listed: Vec<Listed>,
    started: Instant,
    /// By number.
    pub(super) runs: BTreeMap<usize, Mutex<Open>>,
    ends: Mutex<Ends>,
    /// Nothing in a process that does not write.
    files: Option<Mutex<Files>>,
    /// The runs that other processes train, as they were when they were compared last, by number.
    pub(super) others: Mutex<BTreeMap<usize, Standing>>,
    pub(super) env_steps: AtomicU64,
    /// Environment steps that were done before this process.
    first_steps: u64,
    n_ended: AtomicUsize,
    /// Whether something could not be written: no run goes on then, on any device.
    has_failed: AtomicBool,
    note: Option<String>,
}

/// A run in training.
#[derive(Debug)]
pub(super) struct Open {
    thinner: Thinner,
    lines: String,
    n_lines: usize,
    pub(super) recent: RecentReturns,
    env_steps: u64,
    /// Its weights where it pauses.
    paused: Option<Weights>,
    ended: bool,
}

/// How a run ended.
enum End {
    Finished(Weights),
    /// After this round.
    Stopped(usize, Weights),
    Broken(String),
}

/// What is known of ended runs.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// What is not written yet; or not sent, in a process that does not write.
    pub(super) outbox: VecDeque<EndedRun>,
    pub(super) ended: BTreeMap<usize, RunSummary>,
    /// The first thing that could not be written.
    pub(super) failure: Option<Error>,
}

/// The files that have something of every ended run.
#[derive(Debug)]
struct Files {
    records: Records,
    ends_file: EndsFile,
}

impl Files {
    fn add(&mut self, run: &EndedRun) -> Result<()> {
        let EndedRun { summary, lines, n_lines, .. } = run;
        self.records.append(summary.run, lines, *n_lines)?;
        self.ends_file.add(summary, *n_lines, run.digest())
    }
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
            listed = fleet_json::write(staging, runs, halving)?;
            write_whole(&staging.join("config.toml"), config_toml)
        })?;
        Self::open(folder, listed, runs, Records::new(journal), BTreeMap::new())
    }

    /// Whether `folder` can be that of a new fleet.
    ///
    /// # Errors
    /// A run in it, or a folder that can't be looked into.
    pub fn check_free(folder: &Path) -> Result<()> {
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
        let listed = fleet_json::read_exactly(folder)?;
        EndsFile::restore(folder)?;
        let ended = EndsFile::read(folder, &listed)?;
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
        let files = Some(Mutex::new(Files { records, ends_file }));
        let ends = Ends { ended, ..Ends::default() };
        Ok(Self { folder: Some(folder.into()), files, ..Self::of(listed, runs, ends) })
    }

    pub(super) fn of(listed: Vec<Listed>, runs: &[FleetRun], ends: Ends) -> Self {
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
            ended: ends.ended.contains_key(&run.number),
        };
        let runs = runs.iter().map(|run| (run.number, Mutex::new(open(run)))).collect();
        let ended = &ends.ended;
        let (n_ended, first_steps) = (ended.len(), ended.values().map(|run| run.env_steps).sum());
        Self {
            folder: None,
            listed,
            started: Instant::now(),
            runs,
            ends: Mutex::new(ends),
            files: None,
            others: Mutex::default(),
            env_steps: AtomicU64::new(first_steps),
            first_steps,
            n_ended: AtomicUsize::new(n_ended),
            has_failed: AtomicBool::new(false),
            note: None,
        }
    }

    /// What became of damaged records when the fleet was reopened, as one sentence; usually none.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Whether a run has ended.
    #[must_use]
    pub fn has_ended(&self, run: usize) -> bool {
        let others = self.others();
        let other = others.get(&run).map(|standing| standing.has_ended);
        other.unwrap_or_else(|| self.ends().ended.contains_key(&run))
    }

    /// Writes down what happened to a run; breaks if that is not possible.
    pub fn take(&self, run: usize, event: FleetEvent<'_>) -> ControlFlow<()> {
        self.change(run, |open| match event {
            FleetEvent::Iterations(done) => self.iterations(open, done),
            FleetEvent::Finished(learner) => self.finished(open, run, learner),
            FleetEvent::Broken(error) => self.end(open, run, End::Broken(error.to_string())),
        })
    }

    /// As [`Fleet::take`], in a round after which runs pause: one that would have finished is kept as it is, to go on or to be
    /// stopped ([`Fleet::stop`]).
    pub fn take_pausing(&self, run: usize, event: FleetEvent<'_>) -> ControlFlow<()> {
        let FleetEvent::Finished(learner) = event else { return self.take(run, event) };
        self.change(run, |open| {
            if let Err(reason) = learner.check_finite() {
                return self.diverged(open, run, reason);
            }
            let weights = Weights::Encoded(encode(&learner.weights, &learner.statistics)?);
            open.paused = Some(self.written(run, weights)?);
            Ok(())
        })
    }

    /// Ends a run that paused after round `round` of successive halving, whoever trains it.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn stop(&self, run: usize, round: usize) -> Result<()> {
        if let Some(standing) = self.others().get_mut(&run) {
            (standing.has_ended, standing.is_out) = (true, true);
            return Ok(());
        }
        let Some(open) = self.runs.get(&run) else { return Ok(()) };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(weights) = open.paused.take().filter(|_| !open.ended) else { return Ok(()) };
        if let Some(record) = open.thinner.rest() {
            self.record(&mut open, &record)?;
        }
        self.end(&mut open, run, End::Stopped(round, weights))
    }

    /// Mean return over the last episodes of a run so far; `None` if none has finished, or if the run failed.
    #[must_use]
    pub fn mean_return(&self, run: usize) -> Option<f64> {
        self.standing(run).mean()
    }

    /// Whether a run has ended early: it failed, or was stopped.
    #[must_use]
    pub fn is_out(&self, run: usize) -> bool {
        self.standing(run).is_out
    }

    /// Lets `change` write something down of a run that has not ended; breaks if that is not possible.
    pub(super) fn change(
        &self,
        run: usize,
        change: impl FnOnce(&mut Open) -> Result<()>,
    ) -> ControlFlow<()> {
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

    pub(super) fn ends(&self) -> MutexGuard<'_, Ends> {
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
        open.lines += &serde_json::to_string(record)
            .map_err(|e| Error::file("cannot encode a line of", Path::new(METRICS), e))?;
        open.lines.push('\n');
        open.n_lines += 1;
        Ok(())
    }

    fn finished(&self, open: &mut Open, run: usize, learner: &LearnerState) -> Result<()> {
        match learner.check_finite() {
            Ok(()) => {
                let weights = encode(&learner.weights, &learner.statistics)?;
                self.end(open, run, End::Finished(Weights::Encoded(weights)))
            }
            Err(reason) => self.diverged(open, run, reason),
        }
    }

    fn diverged(&self, open: &mut Open, run: usize, reason: String) -> Result<()> {
        let error = Error::diverged(open.env_steps, reason).to_string();
        self.end(open, run, End::Broken(error))
    }

    /// Notes the end of a run.
    fn end(&self, open: &mut Open, run: usize, end: End) -> Result<()> {
        let listed = self.listed.get(run);
        let (weights, error, stopped_in_round) = match end {
            End::Finished(weights) => (Some(weights), None, None),
            End::Stopped(round, weights) => (Some(weights), None, Some(round)),
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
        let (lines, n_lines) = (std::mem::take(&mut open.lines), open.n_lines);
        self.keep(open, EndedRun { summary, lines, n_lines, weights })
    }

    /// Keeps what a run leaves that has ended: in the folder, or until it is sent to the process that writes.
    pub(super) fn keep(&self, open: &mut Open, mut run: EndedRun) -> Result<()> {
        open.ended = true;
        self.n_ended.fetch_add(1, Ordering::Relaxed);
        let number = run.summary.run;
        // Beside other threads that write weights.
        run.weights = run.weights.map(|weights| self.written(number, weights)).transpose()?;
        {
            let mut ends = self.ends();
            ends.ended.insert(number, run.summary.clone());
            ends.outbox.push_back(run);
        }
        self.write_ended()
    }

    /// Writes what ended runs have left, if this process writes and no other thread is at it, which would go on with what
    /// is added meanwhile.
    fn write_ended(&self) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        while !self.ends().outbox.is_empty() {
            let mut files = match files.try_lock() {
                Ok(files) => files,
                Err(TryLockError::Poisoned(files)) => files.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(()),
            };
            let left = std::mem::take(&mut self.ends().outbox);
            left.iter().try_for_each(|run| files.add(run))?;
        }
        Ok(())
    }

    /// Whether this process writes.
    pub(super) fn writes(&self) -> bool {
        self.files.is_some()
    }

    /// Weights of a run in their file, if this process writes it and has not yet.
    fn written(&self, run: usize, weights: Weights) -> Result<Weights> {
        Ok(match (&self.folder, weights) {
            (Some(folder), Weights::Encoded(bytes)) => {
                Weights::Written(weight_files::write(folder, run, &bytes)?)
            }
            (_, weights) => weights,
        })
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
        self.write_ended()?;
        let Ends { ended, failure, .. } =
            self.ends.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let (Some(folder), Some(files)) = (self.folder, self.files) else {
            return Err(Error::Invalid("another process writes this fleet".into()));
        };
        let Files { mut records, ends_file } =
            files.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_complete = ended.len() == self.listed.len();
        // In any order: a line of an ended run counts only if its weights and records are there.
        weight_files::sync_beside(&folder, &ended, || {
            ends_file.sync()?;
            records.finish(is_complete)
        })?;
        let env_steps = self.env_steps.into_inner();
        let work = Work { env_steps, own_steps: env_steps - self.first_steps, seconds };
        let summary = about.of_runs(ended.into_values().collect(), self.listed.len(), &work);
        let path = folder.join("summary.json");
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|e| Error::file("cannot encode", &path, e))?;
        write_whole(&path, &(text + "\n"))?;
        if is_complete {
            ends_file.complete(&folder)?;
        }
        Ok(summary)
    }
}
