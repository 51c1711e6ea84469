//! A run's policies, to act with.

use super::describe;
use super::foreign::{self, Raised};
use super::numbers::{Argument, Shape};
use super::training::as_python;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use warp_core::{GroupSpec, Space};
use warp_examples::settings;
use warp_func::Registry;
use warp_sample::{ActionsMut, Mode, Rows};
use warp_train::algorithm::PolicyPlan;
use warp_train::config::drop_foreign_keys;
use warp_train::learner::{PolicyInput, PolicyOutput};
use warp_train::run::Place;
use warp_train::{Learner, Run, TrainConfig};

/// The policies of a run as a checkpoint holds them.
#[pyclass(frozen, module = "warp_rl._native")]
#[derive(Debug)]
pub(super) struct Policy {
    config: TrainConfig,
    learner: Mutex<Box<dyn Learner>>,
}

#[pymethods]
impl Policy {
    /// The policies of the run in a folder, at its newest checkpoint, or that of `RUN@STEP`. `env` is what
    /// `_foreign.py` makes of environments in Python, for a run in such.
    #[staticmethod]
    #[pyo3(signature = (run, env=None))]
    fn load(run: &str, env: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let registry = foreign::registry(env.as_ref(), &Raised::default())?;
        let (config, learner) = load(run, &registry).map_err(as_python)?;
        Ok(Self { config, learner: Mutex::new(learner) })
    }

    /// What the environment that they were trained in looks like, as `describe` says it.
    fn described<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe::groups(py, &self.config.spec)
    }

    /// Name of the environment that they were trained in.
    #[getter]
    fn env(&self) -> &str {
        &self.config.run.env_id
    }

    /// The complete configuration of that environment.
    #[getter]
    fn env_config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        describe::dict(py, &self.config.env)
    }

    /// What the groups of agents see and do, as `describe` says it.
    #[getter]
    fn groups(&self) -> Vec<String> {
        self.config.spec.groups.iter().map(|group| group.name.clone()).collect()
    }

    /// Width of what an agent of a group sees.
    fn width(&self, group: &str) -> PyResult<usize> {
        Ok(self.config.spec.groups[self.group(group)?].observation_width())
    }

    /// Actions of the policy of `group`, or of one `agent` in it, for observations `[rows, width]`; the likeliest, or drawn from `seed`
    /// and `step`.
    #[pyo3(signature = (group, obs, *, agent=None, mask=None, greedy=true, seed=0, step=0))]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn act<'py>(
        &self,
        py: Python<'py>,
        group: &str,
        obs: &Bound<'py, PyAny>,
        agent: Option<usize>,
        mask: Option<&Bound<'py, PyAny>>,
        greedy: bool,
        seed: u64,
        step: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let number = self.group(group)?;
        let index = self.policy_of(number, agent)?;
        let plan = &self.config.policies[index];
        if !greedy && plan.has_action_values() {
            let name = plan.algorithm.name;
            let reason = format!(
                "greedy=False: {name} has values of actions and no distribution to sample from"
            );
            return Err(PyValueError::new_err(reason));
        }
        let group = &self.config.spec.groups[number];
        let mut seen = Vec::new();
        let item = [group.observation_width()];
        let rows = Argument { name: "obs", value: obs }
            .reals(Shape { rows: None, item: &item }, &mut seen)?;
        let mut allowed = Vec::new();
        if let Some(value) = mask {
            let shape = Shape { rows: Some(rows), item: &[group.mask_width()] };
            Argument { name: "mask", value }.integers(shape, &mut allowed)?;
        }
        let allowed: Vec<u8> = allowed.iter().map(|allowed| u8::from(*allowed != 0)).collect();
        let layout = &plan.layout;
        let width = layout.action_width();
        let input = PolicyInput {
            obs: &seen,
            action_mask: (!allowed.is_empty()).then_some(&allowed[..]),
            layout,
            rows: Rows::new(seed, step),
            mode: if greedy { Mode::Greedy } else { Mode::Sample },
        };
        let (mut heads, mut raw, mut bounded) =
            (vec![0; rows * width], vec![0.0; rows * width], vec![0.0; rows * width]);
        let boxed = matches!(group.action, Space::Box { .. });
        let done = py.detach(|| {
            let actions = match boxed {
                true => ActionsMut::Continuous { raw: &mut raw, bounded: &mut bounded },
                false => ActionsMut::Discrete(&mut heads),
            };
            let mut output = PolicyOutput {
                outputs: &mut vec![0.0; rows * layout.output_width()],
                values: &mut vec![0.0; rows],
                actions,
                log_probs: &mut vec![0.0; rows],
                entropies: &mut vec![0.0; rows],
            };
            let mut learner = self.learner.lock().unwrap_or_else(PoisonError::into_inner);
            learner.act(index, &input, &mut output)
        });
        done.map_err(|error| as_python(error.into()))?;
        if boxed {
            return Ok(PyArray1::from_vec(py, bounded).reshape([rows, width])?.into_any());
        }
        let heads = PyArray1::from_vec(py, heads.into_iter().map(i64::from).collect());
        match group.action {
            Space::Discrete { .. } => Ok(heads.into_any()),
            _ => Ok(heads.reshape([rows, width])?.into_any()),
        }
    }
}

impl Policy {
    /// The policy that acts for the group number `group`, or for one `agent` of it where there are several.
    fn policy_of(&self, group: usize, agent: Option<usize>) -> PyResult<usize> {
        let GroupSpec { name, n_agents, .. } = &self.config.spec.groups[group];
        if let Some(agent) = agent.filter(|agent| agent >= n_agents) {
            return Err(PyValueError::new_err(format!(
                "agent is {agent}, but group '{name}' has {n_agents}, counted from 0"
            )));
        }
        let acts = |plan: &PolicyPlan| {
            let mut own = plan.agents.iter().filter(|range| range.group == group);
            own.any(|range| agent.is_none_or(|agent| range.agents().contains(&agent)))
        };
        let policies = self.config.policies.iter().enumerate();
        let found: Vec<_> = policies.filter(|(_, plan)| acts(plan)).collect();
        match &found[..] {
            [(index, _)] => Ok(*index),
            _ => {
                let names: Vec<&str> = found.iter().map(|(_, plan)| plan.name.as_str()).collect();
                Err(PyValueError::new_err(format!(
                    "agent is None, but several policies act for group '{name}': {}",
                    names.join(", ")
                )))
            }
        }
    }

    fn group(&self, name: &str) -> PyResult<usize> {
        self.config.spec.group_index(name).ok_or_else(|| {
            let known = self.groups().join(", ");
            PyValueError::new_err(format!("there is no group '{name}'; there are {known}"))
        })
    }
}

fn load(run: &str, registry: &Registry) -> anyhow::Result<(TrainConfig, Box<dyn Learner>)> {
    let place = Place::parse(Path::new(run));
    let mut table = settings::parse(&Run::config(&place.folder)?)?;
    drop_foreign_keys(&mut table, registry);
    let config = TrainConfig::resolve(&table, registry)?;
    let checkpoint = place.checkpoint()?;
    let mut learner = warp_train::native::learner(&config, 1)?;
    learner.load_state(&checkpoint.learner)?;
    Ok((config, learner))
}
