//! A fleet run by run: every thread takes the next run and trains it to its end by itself.
//!
//! This is what the processor does, and any device whose learner knows one run at a time.

use super::{FleetEvent, FleetLearner, FleetRun, Watch};
use crate::config::TrainConfig;
use crate::error::Result;
use crate::run::learner::Learner;
use crate::run::trainer::Trainer;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use warp_func::Registry;

/// What makes a run's learner, which works on one thread.
pub(super) type MakeLearner = dyn Fn(&TrainConfig) -> Result<Box<dyn Learner>> + Send + Sync;

/// Runs side by side on some threads.
pub struct ThreadFleet<'a> {
    registry: &'a Registry,
    backend: String,
    make: Box<MakeLearner>,
    threads: usize,
}

impl std::fmt::Debug for ThreadFleet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut s = f.debug_struct("ThreadFleet");
        s.field("backend", &self.backend).field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl<'a> ThreadFleet<'a> {
    /// A fleet of `threads` runs at a time, with learners of `backend` that `make` makes.
    pub fn new(
        registry: &'a Registry,
        backend: &str,
        threads: usize,
        make: impl Fn(&TrainConfig) -> Result<Box<dyn Learner>> + Send + Sync + 'static,
    ) -> Self {
        Self { registry, backend: backend.into(), make: Box::new(make), threads: threads.max(1) }
    }

    fn trainer(&self, config: &TrainConfig) -> Result<Trainer> {
        Trainer::new(config.clone(), self.registry, (self.make)(config)?, 1)
    }

    /// Trains one run to its end, or until somebody breaks.
    fn train(&self, run: &FleetRun, watch: &Watch<'_>, stop: &AtomicBool) -> ControlFlow<()> {
        let broken = |error| watch(run.number, FleetEvent::Broken(error));
        let mut trainer = match self.trainer(&run.config) {
            Ok(trainer) => trainer,
            Err(error) => return broken(error),
        };
        while trainer.env_steps() < run.config.run.total_steps {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            match trainer.advance(run.config.run.total_steps) {
                Ok(done) => done
                    .iter()
                    .try_for_each(|metrics| watch(run.number, FleetEvent::Iteration(metrics)))?,
                Err(error) => return broken(error),
            }
        }
        watch(run.number, FleetEvent::Finished(&trainer.learner().state()))
    }
}

impl FleetLearner for ThreadFleet<'_> {
    fn backend(&self) -> String {
        self.backend.clone()
    }

    fn launch(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<()> {
        // Built once before any thread begins: a key that does not fit is an error of the launch.
        if let Some(run) = runs.first() {
            self.trainer(&run.config)?;
        }
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let this = &*self;
        let work = || {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if this.train(run, watch, &stop).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..this.threads.min(runs.len()) {
                scope.spawn(work);
            }
            work();
        });
        Ok(())
    }
}
