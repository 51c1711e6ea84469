//! Runs that learn from replay memories, side by side on a GPU: those that differ only in their seeds share
//! every launch, each with a few blocks of its own.

use super::cuda_report::metrics;
use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use crate::config::trained_groups;
use crate::engine::cuda::{Machine, OffPolicyLearner};
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::run::begin;
use crate::run::fleet::{FleetEvent, FleetRun, Watch};
use std::ops::ControlFlow;
use warp_func::cuda::CudaVecEnv;
use warp_func::{Registry, VecEnv};

/// Iterations between two looks at the device.
const AT_ONCE: u64 = 64;

/// Whether such runs can share a launch.
pub(super) fn takes(config: &TrainConfig) -> bool {
    config.policies.iter().all(PolicyPlan::is_off_policy)
}

/// What runs of one launch have in common, if [`takes`] says that there is such a launch: all but the seed.
pub(super) fn common(config: &TrainConfig) -> TrainConfig {
    let mut common = config.clone();
    common.run.seed = 0;
    common
}

/// Trains runs to their ends, as many at a time as have a place.
///
/// # Errors
/// What the device says, or environments that are not on it.
pub(super) fn train(
    registry: &Registry,
    runs: &[FleetRun],
    watch: &Watch<'_>,
) -> Result<ControlFlow<()>> {
    let Some(first) = runs.first() else { return Ok(ControlFlow::Continue(())) };
    let mut envs = environments(registry, &first.config)?;
    let most = Machine::of(on_device(&mut envs)?.gpu().info()).most_runs();
    drop(envs);
    // Waves of one size.
    let share = runs.len().div_ceil(runs.len().div_ceil(most));
    for wave in runs.chunks(share) {
        if train_wave(registry, wave, watch)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn environments(registry: &Registry, config: &TrainConfig) -> Result<Box<dyn VecEnv>> {
    let entry = registry.get(&config.run.env_id)?;
    Ok(entry.make(&config.env, &config.vec_options())?)
}

fn on_device(envs: &mut Box<dyn VecEnv>) -> Result<&mut CudaVecEnv> {
    let none = || Error::Invalid("the fleet is on a GPU, the environments are not".into());
    envs.as_cuda().ok_or_else(none)
}

fn train_wave(
    registry: &Registry,
    runs: &[FleetRun],
    watch: &Watch<'_>,
) -> Result<ControlFlow<()>> {
    let configs: Vec<TrainConfig> = runs.iter().map(|run| run.config.clone()).collect();
    let states = configs.iter().map(|config| begin::state(config, registry));
    let mut states = states.collect::<Result<Vec<_>>>()?;
    let envs = configs.iter().map(|config| environments(registry, config));
    let mut envs = envs.collect::<Result<Vec<_>>>()?;
    let mut envs = envs.iter_mut().map(on_device).collect::<Result<Vec<_>>>()?;
    let mut learner = OffPolicyLearner::new(&configs, &envs, &states)?;
    let run = &configs[0].run;
    let n_iterations = run.total_steps.div_ceil(configs[0].steps_per_iteration().max(1));
    let mut broken = vec![false; runs.len()];
    for from in (0..n_iterations).step_by(AT_ONCE as usize) {
        let n = (n_iterations - from).min(AT_ONCE);
        let env_steps = from * configs[0].steps_per_iteration();
        let progress = Progress { iteration: from, env_steps, seed: run.seed };
        let done = learner.run(&mut envs, progress, n)?;
        for ((run, done), broken) in runs.iter().zip(done).zip(&mut broken) {
            if !*broken && report(run, from, done, broken, watch).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    for (i, run) in runs.iter().enumerate().filter(|(i, _)| !broken[*i]) {
        learner.store_all(i, &mut states[i])?;
        if watch(run.number, FleetEvent::Finished(&states[i])).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Tells of a run's iterations from number `from` on.
fn report(
    run: &FleetRun,
    from: u64,
    done: Result<Vec<Iterated>>,
    broken: &mut bool,
    watch: &Watch<'_>,
) -> ControlFlow<()> {
    let (config, trained) = (&run.config, trained_groups(&run.config));
    match done {
        Ok(done) => {
            let done = done.into_iter().zip(from + 1..);
            let done = done.map(|(done, iteration)| metrics(config, &trained, iteration, done));
            watch(run.number, FleetEvent::Iterations(&done.collect::<Vec<_>>()))
        }
        Err(error) => {
            *broken = true;
            let step = from * config.steps_per_iteration();
            let error = Error::Broken { step, reason: error.to_string() };
            watch(run.number, FleetEvent::Broken(error))
        }
    }
}
