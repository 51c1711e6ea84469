//! Training from Python, on the processor or a GPU, with somebody who follows it.

use super::foreign::{self, Raised};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use warp_examples::commands::{Device, training_learner};
use warp_examples::output::sentence;
use warp_examples::settings;
use warp_func::Registry;
use warp_func::thread_pool::thread_count;
use warp_train::callback::{Callback, EarlyStop, Flow, Stopped};
use warp_train::run::{Evaluator, train as train_on};
use warp_train::{Run, Trainer};

/// Trains policies and gives the run's folder and summary, the latter as JSON.
///
/// `follow` is called after every iteration with its metrics as JSON; False stops the run. So does an
/// exception, which is raised again once the run has been saved. `env` is what `_foreign.py` makes of environments
/// in Python, for the target "python".
#[pyfunction]
#[pyo3(signature = (target, sets, *, out=None, threads=0, device="cpu", follow=None, env=None))]
#[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
pub(super) fn train(
    py: Python<'_>,
    target: &str,
    sets: Vec<String>,
    out: Option<PathBuf>,
    threads: usize,
    device: &str,
    follow: Option<Py<PyAny>>,
    env: Option<Bound<'_, PyAny>>,
) -> PyResult<(PathBuf, String)> {
    let mut follow = Follow { function: follow, raised: None };
    let in_env = Raised::default();
    let registry = foreign::registry(env.as_ref(), &in_env)?;
    let asked = Asked { target, sets: &sets, out, threads, device };
    let done = py.detach(|| run(&registry, asked, &mut follow));
    match (in_env.take().or(follow.raised), done) {
        (Some(raised), _) => Err(raised),
        (None, done) => done.map_err(as_python),
    }
}

/// What is to be trained, and where.
struct Asked<'a> {
    target: &'a str,
    sets: &'a [String],
    out: Option<PathBuf>,
    threads: usize,
    device: &'a str,
}

fn run(
    registry: &Registry,
    asked: Asked<'_>,
    follow: &mut Follow,
) -> anyhow::Result<(PathBuf, String)> {
    let Asked { target, sets, out, threads, device } = asked;
    let config = settings::configure(target, sets, registry)?;
    let threads = thread_count(threads);
    let name = format!("{}-{}-s{}", config.run.env_id, config.algorithm(), config.run.seed);
    let folder = out.unwrap_or_else(|| Run::free_folder(&config.run, &name));
    Run::check_free(&folder)?;
    let text = config.to_toml(registry.get(&config.run.env_id)?.fields);
    let entry = registry.get(&config.run.env_id)?;
    let (device, _) = Device::for_training(device, "auto", entry)?;
    device.precompile("auto", &config, registry);
    let learner = training_learner(&device, "auto", &config, threads)?;
    let mut trainer = Trainer::new(config, &device.registry(registry), learner, threads)?;
    trainer.prepare()?;
    let mut run = Run::create(&folder, &text, &trainer)?;
    let evaluator = Evaluator { registry, threads };
    train_on(&mut trainer, evaluator, &mut [&mut run, follow, &mut EarlyStop])?;
    run.settle()?;
    let summary = run.summarise(&trainer, device.name())?;
    Ok((folder, serde_json::to_string(&summary)?))
}

/// Somebody who follows a run.
struct Follow {
    function: Option<Py<PyAny>>,
    /// What was raised meanwhile.
    raised: Option<PyErr>,
}

impl Callback for Follow {
    fn iteration(
        &mut self,
        _: &Trainer,
        done: &Arc<[warp_train::metrics::IterationMetrics]>,
    ) -> warp_train::Result<Flow> {
        let goes_on = Python::attach(|py| {
            // Ctrl-C.
            py.check_signals()?;
            let Some(function) = &self.function else { return Ok(true) };
            for metrics in done.iter() {
                let json = serde_json::to_string(metrics);
                let json = json.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
                if function.call1(py, (json,))?.extract::<bool>(py).is_ok_and(|goes_on| !goes_on) {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        match goes_on {
            Ok(true) => Ok(Flow::Continue(())),
            Ok(false) => Ok(ControlFlow::Break(Stopped::Asked)),
            Err(raised) => {
                self.raised = Some(raised);
                Ok(ControlFlow::Break(Stopped::Asked))
            }
        }
    }
}

/// What the command line calls an option is an argument here, or something that it alone can do.
const HERE: [(&str, &str); 2] = [
    ("--device ", "device="),
    ("continue it with --resume", "continue it with the command warp train --resume"),
];

/// An error of a run as Python's: the user's, or one of the run itself.
pub(super) fn as_python(error: anyhow::Error) -> PyErr {
    let of_run = error.downcast_ref::<warp_train::Error>();
    let said = sentence(&error);
    let mut sentence = HERE.iter().fold(said, |said, (there, here)| said.replace(there, here));
    if sentence.starts_with(&format!("there is no environment \"{}\"", foreign::NAME)) {
        sentence = "env is None, but this run is in environments of your own: give them, or the \
                    function that creates them"
            .into();
    }
    match of_run.is_none_or(warp_train::Error::is_users) {
        true => PyValueError::new_err(sentence),
        false => PyRuntimeError::new_err(sentence),
    }
}
