//! What comes of a GPU's launches of a fleet: how its runs go on, and how they end.

use super::wave::{Wave, ended};
use crate::config::TrainConfig;
use crate::config::trained_groups;
use crate::engine::{Iterated, StepRates};
use crate::error::{Error, Result};
use crate::fused::small::{
    FewReplicasFigures, FewReplicasLearner, FewReplicasSpan, MOST_ITERATIONS_AT_ONCE, Trained,
};
use crate::run::fleet::{FleetEvent, FleetRun, Watch};
use crate::run::metrics::{EpisodeMetrics, IterationMetrics, by_policy};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use warp_func::cuda::CudaVecEnv;

/// Threads that report iterations, at most: four were as fast as sixteen for the 256 runs of a launch, and each is started
/// and ended some hundred times a second.
const REPORTERS: usize = 4;
/// Launches that the device has been given and that are not reported, at most, while the host prepares the next one.
const MOST_BEGUN: usize = 1;
/// Threads that tell of the ends of a wave's runs, at most.
const ENDERS: usize = 8;

/// Tells a watcher of all runs, from several threads, each run by one of them.
pub(super) struct Reporter<'r, 's, 'e> {
    watch: &'r Watch<'r>,
    threads: usize,
    scope: &'s Scope<'s, 'e>,
    /// Until the first launch is begun.
    beginning: Option<MutexGuard<'r, ()>>,
    /// Launches that the device has been given and the host has yet to report, the oldest first.
    parts: VecDeque<Part<'r>>,
    /// Of the runs of one wave.
    broken: Vec<AtomicBool>,
    /// Who tells of the runs of the wave before that they have ended.
    ending: Option<ScopedJoinHandle<'s, Result<ControlFlow<()>>>>,
}

/// A wave that is done, and what came of it.
struct Done<'r> {
    wave: Wave<'r>,
    trained: Trained,
}

/// Iterations of a wave: how many were done before, and how many these are.
struct Part<'r> {
    runs: &'r [FleetRun],
    from: u64,
    n: u64,
    figures: FewReplicasFigures,
    /// The wave, if it is done with them.
    done: Option<Done<'r>>,
}

/// Calls `tell` once for each run that is not broken, on several threads, until one breaks.
fn each_whole(
    broken: &[AtomicBool],
    threads: usize,
    tell: impl Fn(usize) -> ControlFlow<()> + Sync,
) -> ControlFlow<()> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let run = next.fetch_add(1, Ordering::Relaxed);
            let Some(broken) = broken.get(run) else { return };
            if !broken.load(Ordering::Relaxed) && tell(run).is_break() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(broken.len()) {
            scope.spawn(work);
        }
        work();
    });
    if stop.into_inner() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

impl<'r: 's, 's, 'e> Reporter<'r, 's, 'e> {
    pub(super) fn new(
        watch: &'r Watch<'r>,
        threads: usize,
        scope: &'s Scope<'s, 'e>,
        beginning: MutexGuard<'r, ()>,
    ) -> Self {
        let (parts, broken) = (VecDeque::new(), Vec::new());
        Self { watch, threads, scope, beginning: Some(beginning), parts, broken, ending: None }
    }

    /// Has `learner` train a wave that it has taken on, and meanwhile reports what came before.
    pub(super) fn train(
        &mut self,
        learner: &mut FewReplicasLearner,
        envs: &CudaVecEnv,
        wave: Wave<'r>,
    ) -> Result<ControlFlow<()>> {
        let config = &wave.runs[0].config;
        let n_iterations = config.run.total_steps.div_ceil(config.steps_per_iteration().max(1));
        // Runs of no iteration end, too.
        for from in (0..n_iterations.max(1)).step_by(MOST_ITERATIONS_AT_ONCE as usize) {
            let n = (n_iterations - from).min(MOST_ITERATIONS_AT_ONCE);
            if n > 0 {
                let span = FewReplicasSpan { done: from, n, uncounted: from, begins: from == 0 };
                learner.start(envs, span)?;
            }
            self.beginning = None;
            let figures = learner.figures()?;
            self.parts.push_back(Part { runs: wave.runs, from, n, figures, done: None });
            // The device goes on with the launch that it was just given.
            if self.report(MOST_BEGUN)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let trained = learner.trained()?;
        if let Some(last) = self.parts.back_mut() {
            last.done = Some(Done { wave, trained });
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reports launches until no more than `most` are left that are not reported.
    pub(super) fn report(&mut self, most: usize) -> Result<ControlFlow<()>> {
        while self.parts.len() > most {
            let Some(part) = self.parts.pop_front() else { break };
            if part.from == 0 {
                self.broken = part.runs.iter().map(|_| AtomicBool::new(false)).collect();
            }
            // Nobody else needs them at the end.
            let threads =
                |most_often| if most == 0 { self.threads } else { self.threads.min(most_often) };
            let (reporters, enders) = (threads(REPORTERS), threads(ENDERS));
            if part.n > 0 && self.iterations(&part, reporters)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let Some(done) = part.done else { continue };
            if self.end()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.begin_to_end(done, enders);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Has the ends of a wave told beside what follows.
    fn begin_to_end(&mut self, Done { mut wave, trained }: Done<'r>, threads: usize) {
        let watch = self.watch;
        let broken = std::mem::take(&mut self.broken);
        self.ending = Some(self.scope.spawn(move || {
            trained.store(&wave.runs[0].config.policies[0].name, &mut wave.states)?;
            Ok(each_whole(&broken, threads, |run| {
                watch(wave.runs[run].number, FleetEvent::Finished(&wave.states[run]))
            }))
        }));
    }

    /// Waits for all ends to be told.
    pub(super) fn end(&mut self) -> Result<ControlFlow<()>> {
        let ending = self.ending.take().map(|ending| ending.join().unwrap_or_else(ended));
        ending.unwrap_or(Ok(ControlFlow::Continue(())))
    }

    /// Waits for a launch and reports it.
    fn iterations(&self, part: &Part<'_>, threads: usize) -> Result<ControlFlow<()>> {
        let &Part { runs, from, n, ref figures, .. } = part;
        let rows = figures.wait()?;
        Ok(each_whole(&self.broken, threads, |run| {
            let FleetRun { number, config, .. } = &runs[run];
            let trained = trained_groups(config);
            let mut whole = Vec::with_capacity(n as usize);
            let broken = (0..n).find_map(|i| {
                let before = (from + i) * config.steps_per_iteration();
                match rows.iterated(config, run, i as usize, before) {
                    Ok(done) => whole.push(metrics(config, &trained, from + i + 1, done)),
                    Err(error) => {
                        return Some(Error::Broken { step: before, reason: error.to_string() });
                    }
                }
                None
            });
            (self.watch)(*number, FleetEvent::Iterations(&whole))?;
            let Some(error) = broken else { return ControlFlow::Continue(()) };
            self.broken[run].store(true, Ordering::Relaxed);
            (self.watch)(*number, FleetEvent::Broken(error))
        }))
    }
}

/// What there is to say of a run's iteration; nothing of time, which all runs share.
pub(super) fn metrics(
    config: &TrainConfig,
    trained: &[bool],
    iteration: u64,
    done: Iterated,
) -> IterationMetrics {
    let env_steps = iteration * config.steps_per_iteration();
    let before = env_steps - config.steps_per_iteration();
    IterationMetrics {
        iteration,
        env_steps,
        agent_steps: env_steps * config.spec.n_agents() as u64,
        episodes: EpisodeMetrics::new(&done.episodes, &config.spec, trained),
        policy: by_policy(config, &done.policies, before),
        steps_per_second: StepRates::default(),
        evaluation: None,
        league: None,
    }
}
