//! Images of an environment in a given state, drawn as by the command.

use super::config::table;
use super::raised;
use numpy::{Element, PyArrayDyn, PyArrayMethods, ToPyArray};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};
use toml::Table;
use warp_core::DType;
use warp_data::{ArrayId, Element as Held};
use warp_examples::render::{Heading, Moment, Past};
use warp_func::drawing::{Drawing, View};
use warp_func::{VecEnv, VecOptions};

/// Draws environments of one configuration.
#[pyclass(frozen, module = "warp_rl._native")]
pub(super) struct Picture {
    /// One replica, which takes the state that is to be seen.
    envs: Mutex<Box<dyn VecEnv>>,
    config: Table,
    drawing: Option<Drawing>,
}

#[pymethods]
impl Picture {
    #[new]
    fn new(name: &str, config: &Bound<'_, PyDict>) -> PyResult<Self> {
        let registry = warp_envs::registry();
        let entry = registry.get(name).map_err(raised)?;
        let given = table(config)?;
        let (config, _) = entry.describe(&given).map_err(raised)?;
        let envs = entry.make(&given, &VecOptions::default()).map_err(raised)?;
        Ok(Self { envs: Mutex::new(envs), config, drawing: entry.drawing })
    }

    /// Row `row` of a state, as `get_state` gives it, after `action`: pixels, uint8 `[height, width, 3]`.
    #[pyo3(signature = (state, row, action=None, *, width=600))]
    fn draw<'py>(
        &self,
        py: Python<'py>,
        state: &Bound<'py, PyDict>,
        row: usize,
        action: Option<Vec<f64>>,
        width: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut envs = self.envs.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = envs.ids().clone();
        for id in &ids.state {
            let array = envs.store().array(*id);
            let (name, dtype) = (array.name().to_string(), array.dtype());
            let missing = || PyKeyError::new_err(format!("the state lacks \"{name}\""));
            let from = state.get_item(&name)?.ok_or_else(missing)?;
            match dtype {
                DType::F32 => copy_row::<f32>(&mut **envs, *id, &from, row)?,
                DType::I32 => copy_row::<i32>(&mut **envs, *id, &from, row)?,
                DType::U32 => copy_row::<u32>(&mut **envs, *id, &from, row)?,
                DType::U8 => copy_row::<u8>(&mut **envs, *id, &from, row)?,
            }
        }
        if let Some(steps) = state.get_item("replica.elapsed_step")? {
            copy_row::<u32>(&mut **envs, ids.episode_length, &steps, row)?;
        }
        act(&mut **envs, action);
        envs.observe().map_err(raised)?;
        let view = View::new(&**envs, &self.config);
        let mut past = Past::default();
        past.record(&view);
        let moment = Moment::of(&view, &past, self.drawing);
        // Returns are not part of a state.
        let heading = Heading { status: format!("step {}", view.step()), ..moment.heading };
        let moment = Moment { heading, ..moment };
        let frame = moment.picture(width).map_err(|e| PyValueError::new_err(format!("{e:#}")))?;
        let shape = (frame.height as usize, frame.width as usize, 3);
        frame.pixels.to_pyarray(py).call_method1("reshape", (shape,))
    }
}

/// The last action; one that is not known is in no space.
fn act(envs: &mut dyn VecEnv, action: Option<Vec<f64>>) {
    let id = envs.ids().action[0];
    let action = action.unwrap_or_default();
    let mut store = envs.store_mut();
    match store.array(id).dtype() {
        DType::F32 => {
            let values =
                action.iter().map(|value| *value as f32).chain(std::iter::repeat(f32::NAN));
            store.slice_mut::<f32>(id).iter_mut().zip(values).for_each(|(to, value)| *to = value);
        }
        _ => {
            let heads = action.iter().map(|value| *value as i32).chain(std::iter::repeat(-1));
            store.slice_mut::<i32>(id).iter_mut().zip(heads).for_each(|(to, head)| *to = head);
        }
    }
}

/// Copies a row of an array of NumPy's into the only row of another.
fn copy_row<T: Held + Element + Copy>(
    envs: &mut dyn VecEnv,
    id: ArrayId,
    from: &Bound<'_, PyAny>,
    row: usize,
) -> PyResult<()> {
    let from = from.cast::<PyArrayDyn<T>>()?.readonly();
    let mut store = envs.store_mut();
    let to = store.slice_mut::<T>(id);
    let (all, n) = (from.as_slice()?, to.len());
    let given = all.get(row * n..(row + 1) * n);
    to.copy_from_slice(
        given.ok_or_else(|| PyValueError::new_err(format!("there is no row {row}")))?,
    );
    Ok(())
}
