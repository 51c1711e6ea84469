//! A fleet run by run: every thread takes the next run and trains it to its end by itself.
//!
//! This is what the processor does, and any device whose learner knows one run at a time.

use super::{FleetEvent, FleetLearner, FleetRun, Watch};
use crate::config::TrainConfig;
use crate::error::Result;
use crate::run::learner::Learner;
use crate::run::trainer::Trainer;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use warp_func::Registry;

/// What makes a run's learner, which works on one thread.
pub(super) type MakeLearner = dyn Fn(&TrainConfig) -> Result<Box<dyn Learner>> + Send + Sync;

/// Bytes of memory that are free, at least, where a run that pauses is kept.
const LEAST_FREE: u64 = 2 << 30;

/// Runs side by side on some threads.
pub struct ThreadFleet<'a> {
    registry: &'a Registry,
    backend: String,
    make: Box<MakeLearner>,
    threads: usize,
    /// Runs that may go on, by their numbers.
    paused: Mutex<BTreeMap<usize, Trainer>>,
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
        let (make, threads) = (Box::new(make), threads.max(1));
        Self { registry, backend: backend.into(), make, threads, paused: Mutex::default() }
    }

    fn trainer(&self, config: &TrainConfig, registry: &Registry) -> Result<Trainer> {
        Trainer::new(config.clone(), registry, (self.make)(config)?, 1)
    }

    /// The run where it paused, or at its beginning.
    fn trainer_of(&self, run: &FleetRun, registry: &Registry) -> Result<Trainer> {
        let paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.number);
        paused.map_or_else(|| self.trainer(&run.config, registry), Ok)
    }

    /// Keeps a run that may go on, if there is room for it; else it begins anew.
    fn keep(&self, run: &FleetRun, trainer: Trainer) {
        // To ask takes a dozen files of the system.
        let has_room = || warp_data::memory::available().is_none_or(|free| free > LEAST_FREE);
        if run.pauses && has_room() {
            let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
            paused.insert(run.number, trainer);
        }
    }

    /// Trains one run to its end, or until somebody breaks.
    fn train(
        &self,
        run: &FleetRun,
        registry: &Registry,
        watch: &Watch<'_>,
        stop: &AtomicBool,
    ) -> ControlFlow<()> {
        let broken = |error| watch(run.number, FleetEvent::Broken(error));
        let mut trainer = match self.trainer_of(run, registry) {
            Ok(trainer) => trainer,
            Err(error) => return broken(error),
        };
        while trainer.env_steps() < run.config.run.total_steps {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            match trainer.advance(run.config.run.total_steps) {
                Ok(done) => watch(run.number, FleetEvent::Iterations(&done))?,
                Err(error) => return broken(error),
            }
        }
        watch(run.number, FleetEvent::Finished(&trainer.learner().state()))?;
        self.keep(run, trainer);
        ControlFlow::Continue(())
    }
}

impl ThreadFleet<'_> {
    /// As [`FleetLearner::launch`], with a further thread for each of `others`, which creates its
    /// environments from that registry.
    pub(super) fn launch_beside(
        &mut self,
        runs: &[FleetRun],
        others: &[Registry],
        watch: &Watch<'_>,
    ) -> Result<()> {
        // Those that do not go on are stopped.
        let mut paused =
            std::mem::take(&mut *self.paused.lock().unwrap_or_else(PoisonError::into_inner));
        paused.retain(|number, _| runs.iter().any(|run| run.number == *number));
        self.paused = Mutex::new(paused);
        // Built once before any thread begins: a key that does not fit is an error of the launch.
        if let Some(run) = runs.first() {
            self.trainer(&run.config, self.registry)?;
        }
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let this = &*self;
        let work = |registry: &Registry| {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if this.train(run, registry, watch, &stop).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let shared = std::iter::repeat_n(this.registry, this.threads - 1);
        let more = shared.chain(others).take(runs.len().saturating_sub(1));
        std::thread::scope(|scope| {
            for registry in more {
                scope.spawn(|| work(registry));
            }
            work(this.registry);
        });
        Ok(())
    }
}

impl FleetLearner for ThreadFleet<'_> {
    fn backend(&self) -> String {
        self.backend.clone()
    }

    fn launch(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<()> {
        self.launch_beside(runs, &[], watch)
    }
}
