//! Replicas on a GPU as a Python object.

use super::super::array::Dtype;
use super::super::config::table;
use super::super::held::Held;
use super::super::slot::{Role, Said, shape_of};
use super::super::sole::Sole;
use super::super::{actions, options, raised, state};
use super::buffer::CudaBuffer;
use super::{given, kernels, streams};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warp_core::DType;
use warp_func::cuda::{CudaReplicas, Numbers, Shown};
use warp_func::{Error, Orders, ReplicaOptions};

/// Environments on a GPU that are stepped together, or some of them at a time.
#[pyclass(weakref, module = "warp_rl._native")]
#[derive(Debug)]
pub(in super::super) struct CudaPool {
    replicas: Held<CudaReplicas>,
    forms: Vec<actions::Form>,
    by_group: bool,
    all: Vec<u32>,
    orders: Orders,
    /// Whether something was sent and not received, by Python or by a program.
    in_flight: bool,
}

#[pymethods]
impl CudaPool {
    #[new]
    #[pyo3(signature = (
        name, config, seeds, *, gpu=0, autoreset_mode="next_step", max_episode_steps=None, by_group=false,
        whole=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn new(
        py: Python<'_>,
        name: &str,
        config: &Bound<'_, PyDict>,
        seeds: Vec<u64>,
        gpu: usize,
        autoreset_mode: &str,
        max_episode_steps: Option<u32>,
        by_group: bool,
        whole: bool,
    ) -> PyResult<Self> {
        let auto_reset = options::auto_reset(autoreset_mode)?;
        let all: Vec<u32> = (0..seeds.len() as u32).collect();
        let options =
            ReplicaOptions { auto_reset, max_episode_steps, ..ReplicaOptions::new(seeds) };
        let (registry, config) = (warp_envs::registry(), table(config)?);
        let entry = registry.get(name).map_err(raised)?;
        let numbers = if whole { Numbers::Whole } else { Numbers::AsWritten };
        let replicas = py.detach(|| {
            let kernels = kernels(gpu)?;
            entry.make_cuda_replicas(&config, &options, numbers, &kernels).map_err(raised)
        })?;
        let forms = actions::forms(replicas.spec(), by_group);
        let (replicas, orders) = (Held::new(replicas), Orders::default());
        Ok(Self { replicas, forms, by_group, all, orders, in_flight: false })
    }

    /// Starts a step of all environments, or of those of `env_id`. Actions on the GPU are taken by the stream, and
    /// what is wrong with them is said by the next call, or by `finish`.
    #[pyo3(signature = (actions, env_id=None))]
    fn step(
        mut slf: Sole<'_, Self>,
        actions: &Bound<'_, PyAny>,
        env_id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        slf.check_refused()?;
        let ids = slf.ids(env_id)?;
        let given = actions::of_groups(&slf.forms, slf.by_group, actions)?;
        let mut on_gpu = true;
        for given in &given {
            on_gpu &= given::is_on_gpu(&given.value)?;
        }
        let rows = ids.as_ref().map_or(slf.all.len(), Vec::len);
        if !on_gpu {
            return slf.step_from_host(actions, ids);
        }
        let Self { replicas, forms, .. } = &mut *slf;
        let replicas = replicas.open_mut()?;
        let device = replicas.gpu().clone();
        let taken = forms.iter().zip(&given);
        let taken = taken.map(|(form, given)| given::take(&device, form, given, rows));
        let taken = taken.collect::<PyResult<Vec<_>>>()?;
        replicas.step(taken, ids.as_deref()).map_err(raised)
    }

    /// Starts an episode in all environments, or in those of `env_id`.
    #[pyo3(signature = (env_id=None))]
    fn reset(mut slf: Sole<'_, Self>, env_id: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        slf.check_refused()?;
        let ids = slf.ids(env_id)?;
        slf.replicas.open_mut()?.begin(ids.as_deref()).map_err(raised)
    }

    /// What is shown: "obs", "reward", "terminated", "truncated", what else is known in "info", and where the next
    /// episode begins in the same step "final_obs" and "final_info". Of all environments, in memory that never
    /// moves, or of those of `env_id`, in memory that the next such call writes.
    #[pyo3(signature = (env_id=None))]
    fn shown<'py>(
        mut slf: Sole<'_, Self>,
        py: Python<'py>,
        env_id: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let ids = slf.ids(env_id)?;
        let replicas = slf.replicas.open_mut()?;
        let shown = match &ids {
            None => replicas.shown().to_vec(),
            Some(ids) => replicas.pick(ids).map_err(raised)?,
        };
        let all = PyDict::new(py);
        for key in ["info", "final_info"] {
            all.set_item(key, PyDict::new(py))?;
        }
        for shown in &shown {
            slf.add(py, &all, shown)?;
        }
        Ok(all)
    }

    /// Waits for the work that was started, and reports what was refused.
    fn finish(mut slf: Sole<'_, Self>, py: Python<'_>) -> PyResult<()> {
        slf.replicas.check()?;
        let replicas = slf.replicas.open_mut()?;
        py.detach(|| replicas.finish()).map_err(raised)
    }

    /// Says what was refused of earlier calls, as far as it is known.
    fn check(mut slf: Sole<'_, Self>) -> PyResult<()> {
        slf.check_refused()
    }

    /// Whether something was sent and not received, by Python or by a program.
    #[getter]
    fn get_in_flight(slf: Sole<'_, Self>) -> bool {
        slf.in_flight
    }

    #[setter]
    fn set_in_flight(mut slf: Sole<'_, Self>, value: bool) {
        slf.in_flight = value;
    }

    /// Gives every environment, or those of `env_id`, a seed; each begins with its first draws.
    #[pyo3(signature = (seeds, env_id=None))]
    fn seed(
        mut slf: Sole<'_, Self>,
        py: Python<'_>,
        seeds: Vec<u64>,
        env_id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let ids = slf.ids(env_id)?.unwrap_or_else(|| slf.all.clone());
        let replicas = slf.replicas.open_mut()?;
        py.detach(|| {
            let host = replicas.pulled()?;
            ids.iter().zip(&seeds).try_for_each(|(id, seed)| host.seed(*id, *seed))?;
            replicas.push()
        })
        .map_err(raised)
    }

    /// Copies of everything that the futures of the environments depend on, by name.
    fn get_state<'py>(mut slf: Sole<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        slf.replicas.check()?;
        let replicas = slf.replicas.open_mut()?;
        let host = py.detach(|| replicas.pulled()).map_err(raised)?;
        state::take(py, host)
    }

    /// Puts back what `get_state` gave, or some of it, into all environments or those of `env_id`.
    #[pyo3(signature = (state, env_id=None))]
    fn set_state(
        mut slf: Sole<'_, Self>,
        state: &Bound<'_, PyDict>,
        env_id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let ids = slf.ids(env_id)?.unwrap_or_else(|| slf.all.clone());
        let replicas = slf.replicas.open_mut()?;
        state::put(replicas.pulled().map_err(raised)?, state, &ids)?;
        replicas.push().map_err(raised)
    }

    /// The handle of the stream that everything here is ordered on.
    #[getter]
    fn stream(mut slf: Sole<'_, Self>) -> PyResult<u64> {
        Ok(slf.replicas.open_mut()?.gpu().stream().cu_stream() as u64)
    }

    /// Lets what is put on `stream` from now on wait for what was started here.
    fn lead(mut slf: Sole<'_, Self>, stream: u64) -> PyResult<()> {
        streams::make_stream_wait(slf.replicas.open_mut()?.gpu(), stream)
    }

    /// Lets what is started here from now on wait for what is on `stream`.
    fn follow(mut slf: Sole<'_, Self>, stream: u64) -> PyResult<()> {
        streams::wait_for_stream(slf.replicas.open_mut()?.gpu(), stream)
    }

    /// What programs of JAX receive, one after another: name, type and the shape of all rows.
    fn xla_shown(slf: Sole<'_, Self>) -> PyResult<Vec<(String, &'static str, Vec<usize>)>> {
        let shown = slf.replicas.open()?.shown().iter().filter(|shown| is_now(shown));
        let each = shown.map(|shown| {
            let form = slf.form(shown)?;
            Ok((Said::of(&shown.name).key.to_owned(), form.dtype.name(), form.shape))
        });
        each.collect()
    }

    /// Lets go of everything.
    fn close(mut slf: Sole<'_, Self>) {
        slf.replicas.close();
    }

    /// The seed of every environment.
    #[getter]
    fn seeds(mut slf: Sole<'_, Self>) -> PyResult<Vec<u64>> {
        Ok(slf.replicas.open_mut()?.seeds().to_vec())
    }
}

impl CudaPool {
    /// Says what was refused of earlier calls, as far as it is known.
    fn check_refused(&mut self) -> PyResult<()> {
        self.replicas.check()?;
        self.replicas.open_mut()?.check().map_err(|error| {
            let known = matches!(error, Error::InvalidAction { .. } | Error::Ended { .. });
            let error = raised(error);
            if !known {
                return error;
            }
            let said = Python::attach(|py| error.value(py).to_string());
            pyo3::exceptions::PyValueError::new_err(format!(
                "{said}: that step was not executed, nor any requested since"
            ))
        })
    }

    fn ids(&self, env_id: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<u32>>> {
        self.replicas.check()?;
        let Some(value) = env_id else { return Ok(None) };
        let mut ids = Vec::new();
        options::env_ids(value, self.all.len(), &mut ids)?;
        Ok(Some(ids))
    }

    fn step_from_host(
        &mut self,
        actions: &Bound<'_, PyAny>,
        ids: Option<Vec<u32>>,
    ) -> PyResult<()> {
        let Self { replicas, forms, by_group, all, orders, .. } = self;
        let is_all = ids.is_none();
        orders.ids = ids.unwrap_or_else(|| all.clone());
        actions::read(forms, *by_group, actions, orders.ids.len(), &mut orders.actions)?;
        replicas.open_mut()?.step_from_host(orders, is_all).map_err(raised)
    }

    /// What an array that is shown looks like to others.
    fn form(&self, shown: &Shown) -> PyResult<Seen> {
        let said = Said::of(&shown.name);
        let array = &shown.array;
        let mut shape = array.shape().to_vec();
        let mut dtype = match (array.dtype(), said.key) {
            (DType::F32, _) => Dtype::F32,
            (DType::U8, "action_mask") => Dtype::I8,
            (DType::U8, _) => Dtype::Bool,
            // Counts of steps, which 31 bits hold.
            (DType::I32 | DType::U32, _) => Dtype::I32,
        };
        shape[0] = shown.rows;
        if !self.by_group && said.group.is_some() {
            // Of the only agent.
            match (said.key, &self.spec()?.groups[0].observation) {
                ("obs", _) if shown.wide && array.shape()[1] == 2 => shape.truncate(1),
                ("obs", seen) => {
                    shape.truncate(1);
                    shape.extend(shape_of(seen, DType::F32));
                }
                _ => drop(shape.remove(1)),
            }
        }
        if shown.wide {
            dtype = Dtype::I64;
        }
        Ok(Seen { dtype, shape })
    }

    /// Adds what is shown under one name.
    fn add(&self, py: Python<'_>, to: &Bound<'_, PyDict>, shown: &Shown) -> PyResult<()> {
        let said = Said::of(&shown.name);
        let (key, role) = (said.key, said.role());
        let Seen { dtype, shape } = self.form(shown)?;
        let array = &shown.array;
        let buffer = Bound::new(py, CudaBuffer::new(array.clone(), dtype, shape))?.into_any();
        let (place, key) = match role {
            Role::Info => (inner(to, "info")?, key),
            Role::FinalInfo => (inner(to, "final_info")?, key),
            Role::FinalObs => (to.clone(), "final_obs"),
            _ => (to.clone(), key),
        };
        match said.group.filter(|_| self.by_group) {
            None => place.set_item(key, buffer),
            Some(group) => inner(&place, key)?.set_item(group, buffer),
        }
    }

    fn spec(&self) -> PyResult<&warp_core::EnvSpec> {
        Ok(self.replicas.open()?.spec())
    }
}

/// What custom calls of XLA's need (`xla/`).
impl CudaPool {
    /// The replicas, whose stream everything is ordered on, and the actions that they take; what was refused before
    /// is said.
    pub(in super::super) fn for_xla(&mut self) -> PyResult<(&mut CudaReplicas, &[actions::Form])> {
        self.check_refused()?;
        let Self { replicas, forms, .. } = self;
        Ok((replicas.open_mut()?, forms))
    }

    /// Notes that all were sent, which none may be at the time.
    pub(in super::super) fn sent(&mut self) -> PyResult<()> {
        if self.in_flight {
            let reason = "environments were sent and have not been received";
            return Err(pyo3::exceptions::PyRuntimeError::new_err(reason));
        }
        self.in_flight = true;
        Ok(())
    }

    /// Notes that they were received, which they must have been sent for.
    pub(in super::super) fn received(&mut self) -> PyResult<()> {
        if !self.in_flight {
            let reason = "no environment is in flight: send some first";
            return Err(pyo3::exceptions::PyRuntimeError::new_err(reason));
        }
        self.in_flight = false;
        Ok(())
    }
}

/// Whether it is of the step that was made last, and not of what ended with it.
pub(in super::super) fn is_now(shown: &Shown) -> bool {
    !Said::of(&shown.name).last
}

/// An array as others see it.
struct Seen {
    dtype: Dtype,
    shape: Vec<usize>,
}

/// The dictionary under a key of another, which is made if there is none.
fn inner<'py>(of: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyDict>> {
    if let Some(found) = of.get_item(key)? {
        return Ok(found.cast_into::<PyDict>()?);
    }
    let made = PyDict::new(of.py());
    of.set_item(key, &made)?;
    Ok(made)
}
