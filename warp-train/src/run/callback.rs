//! Callbacks around a run's iterations: lines and checkpoints, a bar, an early stop.
//!
//! [`train`](crate::run::train) calls every callback at every event, in their order. An implementation
//! defines only the events that it needs; the others cost nothing.

use crate::error::Result;
use crate::run::evaluation::Evaluation;
use crate::run::metrics::IterationMetrics;
use crate::run::trainer::Trainer;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Whether a run continues.
pub type Flow = ControlFlow<Stopped>;

/// Something that follows a run and may stop it. It sees the run and can't change it: with other callbacks
/// it is the same run, bit by bit.
pub trait Callback {
    /// Before the first iteration of this process.
    ///
    /// # Errors
    /// Whatever the callback can't do, here and below: it ends the run.
    fn start(&mut self, _trainer: &Trainer) -> Result<Flow> {
        Ok(Flow::Continue(()))
    }

    /// After some iterations, at least one; as many as the learner did at once. Whoever hands them to another thread
    /// shares them.
    ///
    /// # Errors
    /// As [`Callback::start`].
    fn iteration(&mut self, _trainer: &Trainer, _done: &Arc<[IterationMetrics]>) -> Result<Flow> {
        Ok(Flow::Continue(()))
    }

    /// A record of the environments' arrays is due, which are on the host. The first rank's alone.
    ///
    /// # Errors
    /// As [`Callback::start`].
    fn arrays(&mut self, _trainer: &Trainer) -> Result<()> {
        Ok(())
    }

    /// Whether it reads the environments' arrays at the next checkpoint or evaluation, so that a GPU has to wait until
    /// all of them are on the host.
    fn reads_envs(&self) -> bool {
        false
    }

    /// After an evaluation, which the last iteration's metrics hold, too. [`Trainer::snapshot`] has what a checkpoint
    /// would hold.
    ///
    /// # Errors
    /// As [`Callback::start`].
    fn evaluation(&mut self, _trainer: &Trainer, _evaluation: &Evaluation) -> Result<Flow> {
        Ok(Flow::Continue(()))
    }

    /// A checkpoint is due; [`Trainer::snapshot`] has what it holds.
    ///
    /// # Errors
    /// As [`Callback::start`].
    fn checkpoint(&mut self, _trainer: &Trainer) -> Result<()> {
        Ok(())
    }

    /// After the last iteration of this process, unless it failed. The environments' arrays are on the host.
    ///
    /// # Errors
    /// As [`Callback::start`].
    fn end(&mut self, _trainer: &Trainer, _end: End) -> Result<()> {
        Ok(())
    }
}

/// Why a callback stopped a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Stopped {
    /// Somebody asked for it.
    Asked,
    /// An evaluation had this mean return, which is enough.
    ReturnReached(f64),
}

/// How a run's process came to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// All its steps are done.
    Complete,
    /// A callback stopped it before.
    Stopped(Stopped),
}

/// Stops a run at an evaluation whose mean return is `stop_at_return` or more.
#[derive(Debug, Clone, Copy, Default)]
pub struct EarlyStop;

impl Callback for EarlyStop {
    fn evaluation(&mut self, trainer: &Trainer, evaluation: &Evaluation) -> Result<Flow> {
        Ok(unless_enough(trainer, evaluation.mean_episode_return))
    }
}

/// Whether a run continues in which an evaluation had this mean return.
pub(crate) fn unless_enough(trainer: &Trainer, reached: f64) -> Flow {
    match trainer.config().run.stop_at_return {
        Some(enough) if reached >= enough => Flow::Break(Stopped::ReturnReached(reached)),
        _ => Flow::Continue(()),
    }
}
