//! A run's folder as a callback: it writes lines and checkpoints.

use super::journal::METRICS;
use super::open_line;
use super::run_folder::{Run, Scroll};
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::run::callback::{Callback, End, Flow, unless_enough};
use crate::run::checkpoint;
use crate::run::checkpoint::snapshot::Snapshot;
use crate::run::evaluation::Evaluation;
use crate::run::league::{League, Table};
use crate::run::metrics::IterationMetrics;
use crate::run::trainer::Trainer;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// A line of `metrics.jsonl`.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    metrics: &'a IterationMetrics,
    /// Wall time since the run began, without the time between an end and a resume.
    seconds: f64,
}

impl Callback for Run {
    fn start(&mut self, trainer: &Trainer) -> Result<Flow> {
        let saved = checkpoint::list(&Self::checkpoints(&self.folder))?;
        let is_there = |step| saved.iter().any(|(at, _)| *at == step);
        let keep = trainer.config().run.keep_best_checkpoints;
        self.best = std::mem::take(&mut self.best).narrowed(keep, is_there);
        self.started = Instant::now();
        Ok(self.evaluated.map_or(Flow::Continue(()), |reached| unless_enough(trainer, reached)))
    }

    /// Has the lines written that are due. The iterations were done since the last call, and each is taken to
    /// have lasted as long as the others.
    fn iteration(&mut self, trainer: &Trainer, done: &Arc<[IterationMetrics]>) -> Result<Flow> {
        let (from, now) = (self.logged, self.before + self.seconds());
        let mut ends = Vec::with_capacity(done.len());
        for (n, metrics) in (1..).zip(&done[..]) {
            self.recent.add_iteration(&metrics.episodes);
            self.logged = from + (now - from) * f64::from(n) / done.len() as f64;
            let is_due = is_line_due(trainer.config(), metrics);
            ends.push(Ended { seconds: self.logged, is_due });
        }
        let done = done.clone();
        self.writer.give(move |scroll| scroll.append(&done, &ends))?;
        Ok(Flow::Continue(()))
    }

    fn evaluation(&mut self, trainer: &Trainer, evaluation: &Evaluation) -> Result<Flow> {
        let keep = trainer.config().run.keep_best_checkpoints;
        if self.best.add(trainer.env_steps(), evaluation.mean_episode_return, keep) {
            self.checkpoint(trainer)?;
        }
        Ok(Flow::Continue(()))
    }

    fn checkpoint(&mut self, trainer: &Trainer) -> Result<()> {
        self.save(trainer)?;
        self.prune(trainer.config())
    }

    fn end(&mut self, trainer: &Trainer, _end: End) -> Result<()> {
        let seconds = self.logged;
        self.writer.give(move |scroll| scroll.leave(seconds))?;
        self.save(trainer)?;
        self.settle()?;
        self.ended = Some(self.started.elapsed());
        // Nobody waits for what is only to go.
        self.prune(trainer.config())
    }
}

/// How an iteration that is to be recorded ended.
struct Ended {
    /// Wall time by then.
    seconds: f64,
    /// Whether it ends a line.
    is_due: bool,
}

/// Whether the iteration ends a line: what led to a checkpoint or an evaluation is never missing before it. The end of a
/// run does not count, which may become longer.
fn is_line_due(config: &TrainConfig, metrics: &IterationMetrics) -> bool {
    let (run, step) = (&config.run, metrics.env_steps);
    metrics.iteration.is_multiple_of(run.log_interval)
        || config.is_checkpoint_step(step)
        || config.is_snapshot_step(step)
        || config.is_evaluation_step(step)
}

impl Run {
    /// Has a checkpoint written, unless there is one of this step. A learner that diverged leaves the checkpoints as
    /// they are.
    fn save(&mut self, trainer: &Trainer) -> Result<()> {
        if self.saved != trainer.env_steps() {
            let snapshot = trainer.snapshot()?;
            let league = trainer.learner().league().map(League::table);
            let plays = league.is_some();
            self.writer.give_large(move |scroll| scroll.save(&snapshot, league))?;
            self.saved = trainer.env_steps();
            if plays {
                // Older selves are read from there.
                self.settle()?;
            }
        }
        Ok(())
    }

    /// Has the checkpoints deleted that are not kept, and what a process that was killed on the way left of
    /// them, even where nothing was saved.
    fn prune(&self, config: &TrainConfig) -> Result<()> {
        let (best, snapshots) = (self.best.clone(), config.snapshot_steps_until(self.saved));
        let (regular, keep) = (config.checkpoint_interval(), config.run.keep_checkpoints);
        self.writer.give(move |scroll| {
            let is_regular = |step| regular.is_due(step);
            let stays = |step| best.contains(step) || snapshots.contains(&step);
            checkpoint::prune(&Self::checkpoints(&scroll.folder), keep, is_regular, stays)
        })
    }
}

impl Scroll {
    fn append(&mut self, done: &[IterationMetrics], ends: &[Ended]) -> Result<()> {
        if let Some(start) = self.left.take() {
            // Here it goes on.
            self.journal.set_aside(start)?;
        }
        let mut lines = String::new();
        for (metrics, Ended { seconds, is_due }) in done.iter().zip(ends) {
            if *is_due && self.sum.is_empty() {
                lines += &self.line(metrics, *seconds)?;
                continue;
            }
            self.sum.add(metrics);
            if let Some(sum) = is_due.then(|| self.sum.take()).flatten() {
                lines += &self.line(&sum, *seconds)?;
            }
        }
        self.journal.append(&lines)
    }

    /// Leaves a line behind of the iterations that have none yet, and what goes on with it.
    fn leave(&mut self, seconds: f64) -> Result<()> {
        open_line::write(&self.folder, &self.sum)?;
        match self.sum.so_far() {
            Some(sum) if self.left.is_none() => {
                let (start, line) = (self.journal.length()?, self.line(&sum, seconds)?);
                self.journal.append(&line)?;
                self.left = Some(start);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn line(&self, metrics: &IterationMetrics, seconds: f64) -> Result<String> {
        let line = Line { metrics, seconds: (seconds * 1e6).round() / 1e6 };
        let path = || self.folder.join(METRICS);
        let text = serde_json::to_string(&line)
            .map_err(|e| Error::file("cannot encode a line of", &path(), e))?;
        Ok(text + "\n")
    }

    fn save(&self, snapshot: &Snapshot, league: Option<Table>) -> Result<()> {
        // What led to a checkpoint is never missing beside it.
        self.journal.sync()?;
        let checkpoints = Run::checkpoints(&self.folder);
        // A folder that was moved away is not to come back with a checkpoint alone.
        if !checkpoints.is_dir() {
            return Err(Error::file("cannot write to", &checkpoints, "the folder is gone"));
        }
        checkpoint::save(&checkpoints, snapshot)?;
        league.map_or(Ok(()), |league| league.write(&self.folder))
    }
}
