//! Many runs of few replicas in one launch on a GPU.
//!
//! Runs that differ in their seeds and their schedules share a launch; whatever else they differ in is
//! compiled into the kernels, so each such difference is a launch of its own. While the device works on
//! the next iterations the host reports the last ones.

use super::small::{MOST_SOLO, SoloLearner, compiled_in, is_solo, unsupported};
use crate::config::{Precision, TrainConfig};
use crate::error::{Error, Result};
use crate::fleet::{FleetEvent, FleetLearner, FleetRun, ThreadFleet, Watch};
use crate::learner::{Iterated, Learner, LearnerState};
use crate::metrics::{EpisodeMetrics, IterationMetrics, StepRates};
use crate::native::NativeLearner;
use crate::trainer::trained_groups;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use warp_func::{Registry, VecEnv, VecOptions};

/// Fleets on a GPU; runs that are not of few replicas go one after the other.
#[derive(Debug)]
pub struct CudaFleet<'a> {
    registry: &'a Registry,
    others: ThreadFleet<'a>,
    threads: usize,
}

impl<'a> CudaFleet<'a> {
    /// Fleets of environments of `registry`, which makes them on the GPU; `threads` of the host report,
    /// and `others` trains what does not share a launch.
    #[must_use]
    pub fn new(registry: &'a Registry, others: ThreadFleet<'a>, threads: usize) -> Self {
        Self { registry, others, threads: threads.max(1) }
    }
}

/// Whether runs like this one can share a launch.
fn shares(config: &TrainConfig, envs_team: u32) -> bool {
    let exact = config.policies.iter().any(|plan| plan.config.precision == Precision::Single);
    envs_team == 1 && !exact && unsupported(config).is_none() && is_solo(config)
}

impl FleetLearner for CudaFleet<'_> {
    fn backend(&self) -> String {
        "native".into()
    }

    fn launch(&mut self, runs: &[FleetRun], watch: &Watch<'_>) -> Result<()> {
        let mut groups: Vec<(String, Vec<FleetRun>)> = Vec::new();
        for run in runs {
            let key = compiled_in(&run.config);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(run.clone()),
                None => groups.push((key, vec![run.clone()])),
            }
        }
        for (_, group) in groups {
            let Some(first) = group.first() else { continue };
            let options = VecOptions {
                n_envs: group.len() * first.config.run.num_envs,
                ..first.config.vec_options()
            };
            let entry = self.registry.get(&first.config.run.env_id)?;
            let mut envs = entry.make(&first.config.env, &options)?;
            let team = envs.as_cuda().map_or(0, |envs| envs.text().team);
            if !shares(&first.config, team) {
                drop(envs);
                self.others.launch(&group, watch)?;
                continue;
            }
            if self.together(&group, &mut *envs, watch)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl CudaFleet<'_> {
    /// Trains `runs` to their ends in shared launches.
    fn together(
        &self,
        runs: &[FleetRun],
        envs: &mut dyn VecEnv,
        watch: &Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let Some(envs) = envs.as_cuda() else {
            return Err(Error::Invalid("the fleet is on a GPU, the environments are not".into()));
        };
        let configs: Vec<TrainConfig> = runs.iter().map(|run| run.config.clone()).collect();
        let mut states = self.states(&configs)?;
        let mut learner = SoloLearner::new(configs, envs, &states)?;
        let report = Reporter::new(runs, watch, self.threads);
        let n_iterations = report.n_iterations();
        let mut last: Option<(Vec<f64>, u64, u64)> = None;
        let mut done = 0;
        while done < n_iterations {
            let n = (n_iterations - done).min(MOST_SOLO);
            learner.start(envs, done, n, done == 0)?;
            // The device works; the host says what came before.
            if let Some((figures, from, n)) = last.take()
                && report.iterations(&learner, &figures, from, n).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            last = Some((learner.figures()?, done, n));
            done += n;
        }
        if let Some((figures, from, n)) = last
            && report.iterations(&learner, &figures, from, n).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        learner.store(&mut states)?;
        Ok(report.ends(&states))
    }

    /// Where the runs begin: each initialised from its own seed.
    fn states(&self, configs: &[TrainConfig]) -> Result<Vec<LearnerState>> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut made = Vec::new();
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                let Some(config) = configs.get(run) else { return made };
                made.push((run, NativeLearner::new(config, 1).map(|learner| learner.state())));
            }
        };
        let mut made = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            let mut made = work();
            for other in others {
                made.extend(other.join().unwrap_or_default());
            }
            made
        });
        made.sort_by_key(|(run, _)| *run);
        made.into_iter().map(|(_, state)| state).collect()
    }
}

/// Tells a watcher of all runs, from several threads, each run by one of them.
struct Reporter<'a, 'w> {
    runs: &'a [FleetRun],
    watch: &'a Watch<'w>,
    threads: usize,
    broken: Vec<AtomicBool>,
}

impl<'a, 'w> Reporter<'a, 'w> {
    fn new(runs: &'a [FleetRun], watch: &'a Watch<'w>, threads: usize) -> Self {
        let broken = runs.iter().map(|_| AtomicBool::new(false)).collect();
        Self { runs, watch, threads, broken }
    }

    fn n_iterations(&self) -> u64 {
        let config = &self.runs[0].config;
        config.run.total_steps.div_ceil(config.steps_per_iteration().max(1))
    }

    /// Calls `tell` once for each run that goes on, until one breaks.
    fn each(&self, tell: impl Fn(usize) -> ControlFlow<()> + Sync) -> ControlFlow<()> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let run = next.fetch_add(1, Ordering::Relaxed);
                let Some(broken) = self.broken.get(run) else { return };
                if !broken.load(Ordering::Relaxed) && tell(run).is_break() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(self.runs.len()) {
                scope.spawn(work);
            }
            work();
        });
        if stop.into_inner() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn iterations(
        &self,
        learner: &SoloLearner,
        figures: &[f64],
        from: u64,
        n: u64,
    ) -> ControlFlow<()> {
        self.each(|run| {
            let FleetRun { number, config, .. } = &self.runs[run];
            let trained = trained_groups(config);
            for i in 0..n {
                let before = (from + i) * config.steps_per_iteration();
                match learner.iterated(figures, (run, i as usize), before) {
                    Ok(done) => {
                        let metrics = metrics(config, &trained, from + i + 1, done);
                        (self.watch)(*number, FleetEvent::Iteration(&metrics))?;
                    }
                    Err(error) => {
                        self.broken[run].store(true, Ordering::Relaxed);
                        let error = Error::Broken { step: before, reason: error.to_string() };
                        return (self.watch)(*number, FleetEvent::Broken(error));
                    }
                }
            }
            ControlFlow::Continue(())
        })
    }

    fn ends(&self, states: &[LearnerState]) -> ControlFlow<()> {
        self.each(|run| (self.watch)(self.runs[run].number, FleetEvent::Finished(&states[run])))
    }
}

/// What there is to say of a run's iteration; nothing of time, which all runs share.
fn metrics(
    config: &TrainConfig,
    trained: &[bool],
    iteration: u64,
    done: Iterated,
) -> IterationMetrics {
    let env_steps = iteration * config.steps_per_iteration();
    let names = config.policies.iter().map(|plan| plan.name.clone());
    IterationMetrics {
        iteration,
        env_steps,
        agent_steps: env_steps * config.spec.n_agents() as u64,
        episodes: EpisodeMetrics::new(&done.episodes, &config.spec, trained),
        policy: names.zip(done.policies).collect(),
        steps_per_second: StepRates::default(),
    }
}
