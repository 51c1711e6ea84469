//! Environments that are written in Python, as ones that policies are trained in.
//!
//! Python's half (`_foreign.py`) turns whatever they hand over into NumPy's arrays; here these are copied into the
//! arrays that trainers read.

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, PoisonError};
use warp_core::{EnvSpec, Space, TimeLimit};
use warp_data::{ArrayId, Store, StoreMut};
use warp_func::{
    ArrayIds, EpisodeTotals, Error, Maker, Registry, Result, VecEnv, VecOptions, check_actions,
};

/// The name of an environment that is written in Python.
pub(super) const NAME: &str = "python";

warp_core::config! {
    /// Environments that are written in Python are configured there.
    pub(super) struct ForeignConfig {
        /// What made them, for whoever reads the run.
        pub(super) made_by: String = String::new(),
    }
}

/// What was raised in Python while nobody could return it.
#[derive(Debug, Clone, Default)]
pub(super) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// What was raised, once.
    pub(super) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An error that stands for what was raised.
    pub(super) fn keep(&self, error: PyErr) -> Error {
        let reason = error.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        Error::NonConforming { env: NAME.into(), reason }
    }
}

/// Makes environments by a function of Python's.
struct Foreign {
    /// Called with the number of environments and a seed.
    make: Py<PyAny>,
    spec: EnvSpec,
    raised: Raised,
}

/// All environments, and those that `adapter` makes.
pub(super) fn registry(adapter: Option<&Bound<'_, PyAny>>, raised: &Raised) -> PyResult<Registry> {
    let registry = warp_envs::registry();
    let Some(adapter) = adapter else { return Ok(registry) };
    let space = |name: &str| -> PyResult<Space> {
        read_space(&adapter.getattr(name)?.cast_into::<PyDict>()?)
    };
    let (seen, done) = (space("observation")?, space("action")?);
    let spec = EnvSpec::one_agent(NAME, "agent", seen, done, TimeLimit::UNLIMITED);
    let make = adapter.getattr("make")?.unbind();
    Ok(registry.with_maker(NAME, Foreign { make, spec, raised: raised.clone() }))
}

/// A space that Python describes as `describe` does.
fn read_space(said: &Bound<'_, PyDict>) -> PyResult<Space> {
    let get = |key: &str| {
        let missing = || PyValueError::new_err(format!("a space lacks \"{key}\""));
        said.get_item(key)?.ok_or_else(missing)
    };
    let kind: String = get("kind")?.extract()?;
    Ok(match kind.as_str() {
        "discrete" => Space::Discrete { n: get("n")?.extract()? },
        "multi_discrete" => Space::MultiDiscrete { sizes: get("sizes")?.extract()? },
        _ => Space::Box {
            low: get("low")?.extract()?,
            high: get("high")?.extract()?,
            shape: get("shape")?.extract()?,
        },
    })
}

impl Maker for Foreign {
    type Config = ForeignConfig;

    fn spec(&self, _: &ForeignConfig) -> Result<EnvSpec> {
        Ok(self.spec.clone())
    }

    fn make(&self, _: &ForeignConfig, options: &VecOptions) -> Result<Box<dyn VecEnv>> {
        let envs = self.made(options, false)?;
        let (plan, ids) = ArrayIds::declare(&self.spec, options.n_envs, &[])?;
        let mut made = PythonEnvs {
            envs,
            spec: self.spec.clone(),
            options: options.clone(),
            store: plan.allocate()?,
            ids,
            run_step: 0,
            totals: EpisodeTotals::new(1, 0),
            raised: self.raised.clone(),
        };
        made.reset()?;
        Ok(Box::new(made))
    }

    #[cfg(feature = "cuda")]
    fn make_cuda(
        &self,
        _: &ForeignConfig,
        options: &VecOptions,
        kernels: &warp_func::cuda::Kernels,
    ) -> Result<Option<Box<dyn VecEnv>>> {
        let stepper = super::cuda::PythonStepper {
            envs: self.made(options, true)?,
            device: kernels.device().clone(),
            spec: self.spec.clone(),
            raised: self.raised.clone(),
        };
        let (spec, options) = (self.spec.clone(), options.clone());
        Ok(Some(Box::new(warp_func::cuda::SteppedEnvs::new(stepper, spec, options, kernels)?)))
    }
}

impl Foreign {
    /// So many environments as Python's half of them.
    fn made(&self, options: &VecOptions, on_gpu: bool) -> Result<Py<PyAny>> {
        if !options.auto_reset {
            let reason = "environments in Python begin their next episode by themselves".into();
            return Err(Error::NonConforming { env: NAME.into(), reason });
        }
        let made = Python::attach(|py| self.make.call1(py, (options.n_envs, on_gpu)));
        made.map_err(|error| self.raised.keep(error))
    }
}

/// The shape of the agent's actions in `n_envs` environments.
pub(super) fn action_shape(spec: &EnvSpec, n_envs: usize) -> Vec<usize> {
    match &spec.groups[0].action {
        Space::Box { shape, .. } => [&[n_envs], &shape[..]].concat(),
        Space::MultiDiscrete { sizes } => vec![n_envs, sizes.len()],
        _ => vec![n_envs],
    }
}

/// Environments that Python steps.
#[derive(Debug)]
struct PythonEnvs {
    envs: Py<PyAny>,
    spec: EnvSpec,
    options: VecOptions,
    store: Store,
    ids: ArrayIds,
    run_step: u32,
    totals: EpisodeTotals,
    raised: Raised,
}

impl PythonEnvs {
    /// The agent's actions, for each environment those of its heads or elements.
    fn actions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (id, group) = (self.ids.action[0], &self.spec.groups[0]);
        let shape = action_shape(&self.spec, self.options.n_envs);
        let flat = match group.action {
            Space::Box { .. } => self.store.slice::<f32>(id).to_pyarray(py).into_any(),
            _ => {
                let heads = self.store.slice::<i32>(id).iter().map(|head| i64::from(*head));
                heads.collect::<Vec<i64>>().to_pyarray(py).into_any()
            }
        };
        flat.call_method1("reshape", (shape,))
    }

    /// Copies an array of Python's into one that trainers read.
    fn read(&mut self, id: ArrayId, from: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = from.cast::<PyArrayDyn<f32>>()?.readonly();
        let to = self.store.edit().into_slice_mut::<f32>(id);
        as_many(array.len(), to.len())?;
        to.copy_from_slice(array.as_slice()?);
        Ok(())
    }

    fn read_flags(&mut self, id: ArrayId, from: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = from.cast::<PyArrayDyn<bool>>()?.readonly();
        let to = self.store.edit().into_slice_mut::<u8>(id);
        as_many(array.len(), to.len())?;
        to.iter_mut().zip(array.as_slice()?).for_each(|(to, flag)| *to = u8::from(*flag));
        Ok(())
    }

    fn advance(&mut self, py: Python<'_>) -> PyResult<()> {
        // Ctrl-C.
        py.check_signals()?;
        let shown = self.envs.call_method1(py, "step", (self.actions(py)?,))?;
        let [obs, reward, terminated, truncated, last]: [Bound<'_, PyAny>; 5] =
            shown.bind(py).extract()?;
        let (obs_id, reward_id) = (self.ids.obs[0], self.ids.reward[0]);
        self.read(obs_id, &obs)?;
        self.read(reward_id, &reward)?;
        self.read_flags(self.ids.terminated, &terminated)?;
        self.read_flags(self.ids.truncated, &truncated)?;
        if !last.is_none() {
            self.read(self.ids.final_obs[0], &last)?;
        }
        self.count();
        Ok(())
    }

    /// Counts a step of each environment, and the episodes that ended in it.
    fn count(&mut self) {
        let (ids, mut store) = (&self.ids, self.store.edit());
        for env in 0..self.options.n_envs {
            let reward = store.slice::<f32>(ids.reward[0])[env];
            let ended =
                store.slice::<u8>(ids.terminated)[env] + store.slice::<u8>(ids.truncated)[env];
            let length = &mut store.slice_mut::<u32>(ids.episode_length)[env];
            *length += 1;
            let steps = *length;
            if ended > 0 {
                *length = 0;
            }
            let total = &mut store.slice_mut::<f32>(ids.episode_return[0])[env];
            *total += reward;
            if ended > 0 {
                self.totals.count += 1;
                self.totals.length.add(steps.into());
                self.totals.returns[0].add((*total).into());
                *total = 0.0;
            }
        }
    }

    fn begin(&mut self, py: Python<'_>) -> PyResult<()> {
        let seed = self.options.seed.wrapping_add(u64::from(self.options.first_replica));
        // What most of Python's libraries take.
        let obs = self.envs.call_method1(py, "reset", (seed & 0x7FFF_FFFF,))?;
        self.read(self.ids.obs[0], obs.bind(py))
    }
}

/// Refuses other numbers of elements than are needed.
fn as_many(given: usize, wanted: usize) -> PyResult<()> {
    match given == wanted {
        true => Ok(()),
        false => {
            let reason = format!("got {given} numbers, but {wanted} are needed");
            Err(PyValueError::new_err(reason))
        }
    }
}

impl VecEnv for PythonEnvs {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }
    fn options(&self) -> &VecOptions {
        &self.options
    }
    fn store(&self) -> &Store {
        &self.store
    }
    fn store_mut(&mut self) -> StoreMut<'_> {
        self.store.edit()
    }
    fn ids(&self) -> &ArrayIds {
        &self.ids
    }

    fn reset(&mut self) -> Result<()> {
        let begun = Python::attach(|py| self.begin(py));
        begun.map_err(|error| self.raised.keep(error))?;
        let (ids, mut store) = (&self.ids, self.store.edit());
        store.slice_mut::<u8>(ids.terminated).fill(0);
        store.slice_mut::<u8>(ids.truncated).fill(0);
        store.slice_mut::<u32>(ids.episode_length).fill(0);
        store.slice_mut::<f32>(ids.episode_return[0]).fill(0.0);
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        check_actions(&self.spec, &self.store, &self.ids)?;
        self.run_step = self.run_step.wrapping_add(1);
        let moved = Python::attach(|py| self.advance(py));
        moved.map_err(|error| self.raised.keep(error))
    }

    /// What they see is written by every step; nobody here changes their state.
    fn observe(&mut self) -> Result<()> {
        Ok(())
    }

    fn run_step(&self) -> u32 {
        self.run_step
    }

    fn set_run_step(&mut self, step: u32) {
        self.run_step = step;
    }

    fn take_episodes(&mut self) -> EpisodeTotals {
        std::mem::replace(&mut self.totals, EpisodeTotals::new(1, 0))
    }
}
