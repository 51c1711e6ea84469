//! A run's folder: `config.toml`, `metrics.jsonl`, `summary.json`, `checkpoints/`.
//!
//! One process at a time trains in it: it holds the lock of `metrics.jsonl`.

use super::array_files::{ARRAYS, supersede};
use super::background_writer::BackgroundWriter;
use super::best::BestSteps;
use super::configurations;
use super::journal::{Journal, Logged, METRICS, each_line};
use super::new_folder;
use super::open_line;
use super::set_aside::set_aside;
use crate::config::RunConfig;
use crate::engine::StepRates;
use crate::error::{Error, Result};
use crate::run::checkpoint;
use crate::run::checkpoint::Checkpoint;
use crate::run::durable;
use crate::run::durable::write_whole;
use crate::run::iteration_sum::IterationSum;
use crate::run::metrics::RecentReturns;
use crate::run::trainer::Trainer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warp_core::toml::Table;

/// An open run folder.
#[derive(Debug)]
pub struct Run {
    pub(super) folder: PathBuf,
    /// Writes everything that training leaves behind.
    pub(super) writer: BackgroundWriter<Scroll>,
    /// When its first iteration began.
    pub(super) started: Instant,
    /// How long after that its last checkpoint was written.
    pub(super) ended: Option<Duration>,
    /// Environment steps done before this process.
    first_step: u64,
    /// Seconds of the run before it was continued.
    pub(super) before: f64,
    /// Seconds of the run at its last iteration.
    pub(super) logged: f64,
    pub(super) recent: RecentReturns,
    /// Step of the newest checkpoint.
    pub(super) saved: u64,
    pub(super) best: BestSteps,
    /// Mean return of the evaluation where the run goes on; nothing if there was none, or if the run has become longer
    /// there, since then it is to go on whatever it has reached.
    pub(super) evaluated: Option<f64>,
    notes: Vec<String>,
}

/// What the thread that writes has.
#[derive(Debug)]
pub(super) struct Scroll {
    pub(super) folder: PathBuf,
    pub(super) journal: Journal,
    /// Iterations since the last line.
    pub(super) sum: IterationSum,
    /// Where a line begins that the last process left of some of them, and that is behind all others.
    pub(super) left: Option<u64>,
}

/// A run's folder that no other process trains in as long as this lives.
#[derive(Debug)]
pub struct Locked {
    folder: PathBuf,
    journal: Journal,
}

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The environment's name.
    pub env: String,
    /// The algorithm.
    pub algorithm: String,
    /// The device.
    pub device: String,
    /// The learner.
    pub backend: String,
    /// The run's seed.
    pub seed: u64,
    /// Environment steps done, summed over replicas.
    pub env_steps: u64,
    /// Agent steps done.
    pub agent_steps: u64,
    /// Environment steps that the process that ended the run did itself; fewer than `env_steps` if it
    /// continued one.
    pub part_env_steps: u64,
    /// Wall time of that process, from its first iteration on until its last checkpoint was written: what
    /// `part_env_steps` took.
    pub seconds: f64,
    /// Environment steps per second in the process that ended the run, its first iteration excluded.
    pub env_steps_per_second: f64,
    /// Environment steps per second of each phase, in that process.
    pub steps_per_second: StepRates,
    /// Mean return of the last 100 or more episodes; `None` if none has ended.
    pub mean_episode_return: Option<f64>,
    /// Mean return of the last 100 or more episodes, by group of agents.
    pub mean_group_return: BTreeMap<String, f64>,
    /// Version of the crate.
    pub version: String,
}

impl Locked {
    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Run {
    /// The default folder of a run called `name`: `<basedir>[/<tag>]/<name>`, with a number added if it is
    /// taken.
    #[must_use]
    pub fn free_folder(config: &RunConfig, name: &str) -> PathBuf {
        let tag = config.tag.as_deref().unwrap_or_default();
        let base = Path::new(&config.basedir).join(tag).join(name);
        let numbered = |n: u32| PathBuf::from(format!("{}-{n}", base.display()));
        let mut all = std::iter::once(base.clone()).chain((2..).map(numbered));
        all.find(|folder| !folder.exists()).unwrap_or(base)
    }

    /// Makes the folder of a new run, with a first checkpoint: from the first moment on there is
    /// something to resume.
    ///
    /// # Errors
    /// A folder that holds a run already or can't be written.
    pub fn create(folder: &Path, config_toml: &str, trainer: &Trainer) -> Result<Self> {
        Self::check_free(folder)?;
        let journal = new_folder::create(folder, |staging| {
            save(&Self::checkpoints(staging), trainer)?;
            write_whole(&staging.join("config.toml"), config_toml)
        })?;
        Self::open(Locked { folder: folder.into(), journal }, IterationSum::default(), None)
    }

    /// Checks that no run is in `folder`.
    ///
    /// # Errors
    /// What of a run lies there.
    pub fn check_free(folder: &Path) -> Result<()> {
        new_folder::settle(folder)?;
        let parts = ["config.toml", METRICS, "summary.json", "checkpoints", "tensorboard", ARRAYS];
        let Some(part) = parts.iter().find(|part| folder.join(part).exists()) else {
            return Ok(());
        };
        let reason = format!("it already contains a run ({part}); continue it with --resume");
        Err(Error::file("cannot start a run in", folder, reason))
    }

    /// Keeps other processes from training in `folder`; to be called before anything of the run is
    /// read.
    ///
    /// # Errors
    /// No such run, or another process that is at work there.
    pub fn lock(folder: &Path) -> Result<Locked> {
        new_folder::settle(folder)?;
        Self::config(folder)?;
        Ok(Locked { folder: folder.into(), journal: Journal::open(folder)? })
    }

    /// Goes on with a run from `checkpoint`. Later checkpoints are set aside with a copy of all records, and
    /// what was logged after it too ([`Self::notes`]).
    ///
    /// # Errors
    /// Metrics of which it is not clear which are later, or a folder that can't be written.
    pub fn reopen(mut locked: Locked, config_toml: &str, checkpoint: &Checkpoint) -> Result<Self> {
        let step = checkpoint.manifest.env_steps;
        durable::sweep(&locked.folder)?;
        let aside = set_aside(&locked.folder, step)?.map(|aside| {
            let aside = aside.display();
            format!("what the run did after step {step} is kept as a separate run in {aside}")
        });
        // Mean returns and seconds go on where the run was interrupted.
        let (mut recent, mut before) = (RecentReturns::default(), 0.0);
        let (mut best, mut evaluated) = (BestSteps::default(), None);
        let sum = open_line::read(&locked.folder, step);
        let gone = locked.journal.go_on_after(step, sum.is_some(), |line| {
            let groups = line.group_return.iter().map(|(group, spread)| (group, spread.mean));
            recent.add(line.episodes, line.episode_return.as_ref().map(|s| s.mean), groups);
            before = line.seconds.unwrap_or(before);
            line.add_score_to(&mut best);
            evaluated = line.evaluated().filter(|_| line.env_steps == step);
        })?;
        if Self::is_longer(&locked.folder, step, config_toml)? {
            evaluated = None;
        }
        let arrays = supersede(&locked.folder, step)?;
        write_whole(&locked.folder.join("config.toml"), config_toml)?;
        let notes = aside.into_iter().chain(gone.said).chain(arrays).collect();
        let saved = step;
        if let (Some(sum), None) = (&sum, gone.last) {
            // A process that went on with its line was killed.
            sum.open.iter().for_each(|open| recent.add_iteration(&open.episodes));
        }
        if sum.is_none() {
            // Of a step that the run may come to again.
            open_line::write(&locked.folder, &IterationSum::default())?;
        }
        let left = gone.last.filter(|_| sum.is_some());
        let opened = Self::open(locked, sum.unwrap_or_default(), left)?;
        let (first_step, logged) = (step, before);
        Ok(Self { first_step, before, logged, recent, saved, best, evaluated, notes, ..opened })
    }

    /// Whether a run with this configuration is longer than the one in `folder` was until `step`.
    fn is_longer(folder: &Path, step: u64, config_toml: &str) -> Result<bool> {
        let total_steps = |text: &str| text.parse::<Table>().ok()?.get("total_steps")?.as_integer();
        let kept = Self::earlier_configs(folder)?.into_iter().find(|(until, _)| *until == step);
        let before = kept.map_or_else(|| Self::config(folder), |(_, text)| Ok(text))?;
        Ok(total_steps(config_toml) > total_steps(&before))
    }

    /// Opens a folder; `sum` has no line yet, but for that of an earlier process, which begins at `left`.
    fn open(locked: Locked, sum: IterationSum, left: Option<u64>) -> Result<Self> {
        let Locked { folder, journal } = locked;
        let scroll = Scroll { folder: folder.clone(), journal, sum, left };
        Ok(Self {
            folder,
            writer: BackgroundWriter::new("warp records", scroll)?,
            started: Instant::now(),
            ended: None,
            first_step: 0,
            before: 0.0,
            logged: 0.0,
            recent: RecentReturns::default(),
            saved: 0,
            best: BestSteps::default(),
            evaluated: None,
            notes: Vec::new(),
        })
    }

    /// What writes something else of this run, in one order with its lines and checkpoints.
    pub fn writer_for<T: Send + 'static>(&self, on: T) -> BackgroundWriter<T> {
        self.writer.beside(on)
    }

    /// Waits until everything that training left behind is written.
    ///
    /// # Errors
    /// What could not be written.
    pub fn settle(&self) -> Result<()> {
        self.writer.wait()
    }

    /// What became of checkpoints and metrics when the run was reopened, a sentence each; mostly none.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The configuration of the run in `folder`.
    ///
    /// # Errors
    /// No such folder, or one without a run.
    pub fn config(folder: &Path) -> Result<String> {
        configurations::config(folder)
    }

    /// Keeps the configuration of the run in `folder` as `config-<12-digit step>.toml`: what held until
    /// then, before another takes its place; one with changes, or one that came later than that step.
    ///
    /// # Errors
    /// A folder that can't be read or written.
    pub fn keep_config(folder: &Path, env_steps: u64, has_changes: bool) -> Result<()> {
        configurations::keep_config(folder, env_steps, has_changes)
    }

    /// What [`Run::keep_config`] has kept: until which step, and the text; in the order of the steps.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn earlier_configs(folder: &Path) -> Result<Vec<(u64, String)>> {
        configurations::earlier_configs(folder)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a run's checkpoints.
    #[must_use]
    pub fn checkpoints(folder: &Path) -> PathBuf {
        folder.join("checkpoints")
    }

    /// Step of the checkpoint in `folder` whose evaluation had the highest mean return.
    ///
    /// # Errors
    /// No evaluated checkpoint, or records that can't be read.
    pub fn best_step(folder: &Path) -> Result<u64> {
        let saved = checkpoint::list(&Self::checkpoints(folder))?;
        let (path, mut best) = (folder.join(METRICS), BestSteps::default());
        each_line(&path, |line| {
            if let Ok(logged) = serde_json::from_slice::<Logged>(line.bytes) {
                logged.add_score_to(&mut best);
            }
        })
        .map_err(|e| Error::file("cannot read", &path, e))?;
        let best = best.narrowed(usize::MAX, |step| saved.iter().any(|(at, _)| *at == step));
        let reason = "no checkpoint has been evaluated; train with eval_steps above 0";
        best.first()
            .ok_or_else(|| Error::file("cannot open the best checkpoint of", folder, reason))
    }

    /// Mean returns of the last 100 or more episodes.
    #[must_use]
    pub fn recent_returns(&self) -> &RecentReturns {
        &self.recent
    }

    /// Seconds since the first iteration of this process began, until its last checkpoint was written.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.ended.unwrap_or_else(|| self.started.elapsed()).as_secs_f64()
    }

    /// Writes `summary.json`, unless this process has done nothing that is not in it.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn summarise(&self, trainer: &Trainer, device: &str) -> Result<Summary> {
        let (phases, steps) = trainer.phases();
        let rates = phases.rates(steps);
        let summary = Summary {
            env: trainer.config().run.env_id.clone(),
            algorithm: trainer.config().algorithm(),
            device: device.into(),
            backend: trainer.learner().backend().into(),
            seed: trainer.config().run.seed,
            env_steps: trainer.env_steps(),
            agent_steps: trainer.agent_steps(),
            part_env_steps: trainer.env_steps() - self.first_step,
            seconds: self.seconds(),
            env_steps_per_second: rates.total,
            steps_per_second: rates,
            mean_episode_return: self.recent.mean(),
            mean_group_return: self.recent.groups(),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let path = self.folder.join("summary.json");
        if summary.part_env_steps == 0 && summarises(&path, summary.env_steps) {
            return Ok(summary);
        }
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|e| Error::file("cannot encode", &path, e))?;
        write_whole(&path, &(text + "\n"))?;
        Ok(summary)
    }
}

/// Whether the file at `path` is the summary of a run that ended after `env_steps`.
fn summarises(path: &Path, env_steps: u64) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    let known: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    known.is_some_and(|summary| summary["env_steps"].as_u64() == Some(env_steps))
}

/// Writes the checkpoint of where `trainer` is into `folder`.
fn save(folder: &Path, trainer: &Trainer) -> Result<PathBuf> {
    checkpoint::save(folder, &*trainer.snapshot()?)
}
