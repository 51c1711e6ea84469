//! What holds of every run that the small learner takes.

use super::{Result, config, registry};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;
use warp_func::cuda::{Build, env_kernels};
use warp_train::config::TrainConfig;
use warp_train::fleet::{FleetEvent, FleetLearner, FleetRun, ThreadFleet, Watch};
use warp_train::learner::Learner;
use warp_train::native::NativeLearner;
use warp_train::native::cuda::{CudaLearner, small_sources};

/// All texts of a run become machine code; there are `n_texts` of them at least.
pub(crate) fn compiles(keys: &str, n_texts: usize) -> Result<()> {
    compiles_on(&config(keys)?, n_texts)
}

/// The same for a configuration.
pub(crate) fn compiles_on(config: &TrainConfig, n_texts: usize) -> Result<()> {
    let registry = registry();
    let env = env_kernels(&registry.get(&config.run.env_id)?.blueprint(&config.env)?)?;
    let sources = small_sources(config, &env);
    if sources.len() < n_texts {
        return Err("the small path does not take it".into());
    }
    for source in sources {
        super::texts::check(&source, Build::Release)?;
    }
    Ok(())
}

/// One iteration has the figures and the gradients that it has on the CPU, but for half precision and
/// the few actions that it changes.
pub(crate) fn near(keys: &str) -> Result<()> {
    near_within(keys, super::NEAR)
}

/// The same of several minibatches, whose figures are near.
pub(crate) fn near_in_minibatches(keys: &str) -> Result<()> {
    near_within(keys, super::NEAR_IN_MINIBATCHES)
}

fn near_within(keys: &str, bounds: (f64, f64)) -> Result<()> {
    let config = config(keys)?;
    let [found, expected] = super::both(&config)?;
    super::statistics(&found.state, &expected.state)?;
    let distance = super::near(&found, &expected, bounds)?;
    println!("{distance:.2e}: {}", keys.lines().next().unwrap_or_default());
    Ok(())
}

pub(crate) fn resumes(keys: &str) -> Result<()> {
    super::resumes(&config(keys)?, CudaLearner::new)
}

/// Runs of a fleet that diverge are told of, as on the CPU, and those that share their launch end well: where gradients are no
/// numbers any more, and where the last weights are none.
pub(crate) fn diverging_runs_are_told(
    launch_on_gpu: impl Fn(&[FleetRun], &Watch<'_>) -> Result<()>,
) -> Result<()> {
    let often = "total_steps = 640";
    let once = "total_steps = 128\nnum_minibatches = 1\nupdate_epochs = 1";
    [often, once].into_iter().try_for_each(|updates| tells_of_diverging(updates, &launch_on_gpu))
}

fn tells_of_diverging(
    updates: &str,
    launch_on_gpu: impl Fn(&[FleetRun], &Watch<'_>) -> Result<()>,
) -> Result<()> {
    let run = |number: usize| -> Result<FleetRun> {
        let rate = ["1e-3", "1e38"][number % 2];
        let keys = format!("env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 32\n{updates}");
        let config = config(&format!("{keys}\nlearning_rate = {rate}"))?;
        Ok(FleetRun { number, swept: Vec::new(), pauses: false, config })
    };
    let runs = (0..4).map(run).collect::<Result<Vec<_>>>()?;
    let registry = registry();
    let native = |config: &TrainConfig| -> warp_train::Result<Box<dyn Learner>> {
        Ok(Box::new(NativeLearner::new(config, 1)?))
    };
    let on_cpu = |runs: &[FleetRun], watch: &Watch<'_>| -> Result<()> {
        Ok(ThreadFleet::new(&registry, "native", 1, native).launch(runs, watch)?)
    };
    for (device, found) in
        [("CPU", diverged(&runs, on_cpu)?), ("GPU", diverged(&runs, launch_on_gpu)?)]
    {
        if found != BTreeSet::from([(0, false), (1, true), (2, false), (3, true)]) {
            return Err(
                format!("on the {device}, runs ended so (diverged: true): {found:?}").into()
            );
        }
    }
    Ok(())
}

/// The runs that ended, each with whether it diverged: by itself, or by what it ends with.
fn diverged(
    runs: &[FleetRun],
    launch: impl Fn(&[FleetRun], &Watch<'_>) -> Result<()>,
) -> Result<BTreeSet<(usize, bool)>> {
    let ends = Mutex::new(BTreeSet::new());
    launch(runs, &|number, event| {
        let diverged = match event {
            FleetEvent::Iterations(_) => return ControlFlow::Continue(()),
            FleetEvent::Finished(state) => state.check_finite().is_err(),
            FleetEvent::Broken(_) => true,
        };
        if let Ok(mut ends) = ends.lock() {
            ends.insert((number, diverged));
        }
        ControlFlow::Continue(())
    })?;
    Ok(ends.into_inner().map_err(|e| e.to_string())?)
}
