//! Replicas as a Python object: actions in, arrays out, Python's lock let go of in between.

mod programs;

use super::array::Dtype;
use super::config::table;
use super::engine::{Engine, advance};
use super::held::Held;
use super::slot::{Plan, Role, Slot, Style, free};
use super::sole::Sole;
use super::{actions, options, raised, state};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use warp_func::thread_pool::cores;
use warp_func::{Orders, ReplicaOptions};

/// Environments that are stepped together, or some of them at a time.
#[pyclass(weakref, module = "warp_rl._native")]
#[derive(Debug)]
pub(super) struct Pool {
    engine: Held<Engine>,
    /// Rows that are received at a time.
    batch_size: usize,
    orders: Orders,
    forms: Vec<actions::Form>,
    style: Style,
    slots: Vec<Slot>,
    /// The slot of the last answer.
    at: usize,
    /// The environments of the last answer, by row.
    answered: Vec<u32>,
    copy: bool,
    all: Vec<u32>,
    /// An array of `True` for every environment.
    every: Py<PyAny>,
    with_masks: bool,
    /// Whether the environments of the last answer go on if no others are named.
    received: bool,
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (
        name, config, seeds, *, num_threads=0, first_core=None, autoreset_mode="next_step",
        max_episode_steps=None, batch_size=None, copy=true, by_group=false, integers="int64", whole=false, of_task=true,
        with_masks=true
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names where they are called")]
    fn new(
        py: Python<'_>,
        name: &str,
        config: &Bound<'_, PyDict>,
        seeds: Vec<u64>,
        num_threads: usize,
        first_core: Option<usize>,
        autoreset_mode: &str,
        max_episode_steps: Option<u32>,
        batch_size: Option<usize>,
        copy: bool,
        by_group: bool,
        integers: &str,
        whole: bool,
        of_task: bool,
        with_masks: bool,
    ) -> PyResult<Self> {
        let auto_reset = options::auto_reset(autoreset_mode)?;
        let integers = if integers == "int32" { Dtype::I32 } else { Dtype::I64 };
        let all: Vec<u32> = (0..seeds.len() as u32).collect();
        let batch_size = batch_size.unwrap_or(all.len());
        if batch_size == 0 || batch_size > all.len() {
            let n = all.len();
            let reason = format!("batch_size is {batch_size}, but must be from 1 to num_envs, {n}");
            return Err(PyValueError::new_err(reason));
        }
        // More threads than rows that are waited for help nobody.
        let threads = if num_threads == 0 { cores().min(batch_size) } else { num_threads };
        let options = ReplicaOptions { seeds, threads, first_core, auto_reset, max_episode_steps };
        let registry = warp_envs::registry();
        let entry = registry.get(name).map_err(raised)?;
        let replicas = entry.make_replicas(&table(config)?, &options).map_err(raised)?;
        let style = Style { by_group, integers, whole, of_task };
        let batch = replicas.new_batch(all.len()).map_err(raised)?;
        let plan = Arc::new(Plan::new(py, &replicas, &batch, style));
        let slots = vec![Slot::new(py, batch, &plan)?];
        let every = py.import("numpy")?.call_method1("ones", (all.len(), "bool"))?;
        every.getattr("flags")?.setattr("writeable", false)?;
        Ok(Self {
            orders: Orders::default(),
            forms: actions::forms(replicas.spec(), by_group),
            engine: Held::new(Engine::new(replicas, batch_size < all.len())?),
            batch_size,
            style,
            slots,
            at: 0,
            answered: all.clone(),
            copy,
            all,
            every: every.unbind(),
            with_masks,
            received: false,
        })
    }

    /// Moves all environments, or those of `env_id`, and answers with observations, rewards, two flags and
    /// a dictionary.
    #[pyo3(signature = (actions, env_id=None))]
    fn step<'py>(
        mut slf: Sole<'_, Self>,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
        env_id: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        slf.engine.check()?;
        if slf.engine.open()?.is_queue() {
            return Self::exchange(slf, py, actions, env_id);
        }
        slf.read_ids(env_id)?;
        slf.read_actions(actions)?;
        slf.advance(py)?;
        slf.answer(py)
    }

    /// `send`, then `recv`; nothing is sent if too few would be under way.
    #[pyo3(signature = (actions, env_id=None))]
    fn exchange<'py>(
        mut slf: Sole<'_, Self>,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
        env_id: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        slf.read_orders(actions, env_id)?;
        slf.check_enough()?;
        slf.send_orders()?;
        Self::recv(slf, py)
    }

    /// Sends all environments, those of the last answer if they are received some at a time, or those of
    /// `env_id` off with their actions.
    #[pyo3(signature = (actions, env_id=None))]
    fn send(
        mut slf: Sole<'_, Self>,
        actions: &Bound<'_, PyAny>,
        env_id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        slf.read_orders(actions, env_id)?;
        slf.send_orders()
    }

    /// Answers for the environments that are finished first, or for all that were sent where that is one
    /// call's work.
    fn recv<'py>(mut slf: Sole<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        slf.recv_batch(py)?;
        slf.answer(py)
    }

    /// What programs of JAX receive, one after another: name, type and the shape of a row.
    fn xla_shown(slf: Sole<'_, Self>) -> Vec<(String, &'static str, Vec<usize>)> {
        slf.slots[slf.at].xla_shown()
    }

    /// Sends all environments, or those of `env_id`, off to begin an episode.
    #[pyo3(signature = (env_id=None))]
    fn async_reset(mut slf: Sole<'_, Self>, env_id: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        slf.engine.check()?;
        slf.read_ids(env_id)?;
        slf.send_new()
    }

    /// `async_reset` of those of `env_id`, then `recv`; nothing is sent if too few would be under way.
    #[pyo3(signature = (env_id=None))]
    fn renew<'py>(
        mut slf: Sole<'_, Self>,
        py: Python<'py>,
        env_id: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        slf.engine.check()?;
        slf.read_ids(env_id)?;
        slf.check_enough()?;
        slf.send_new()?;
        Self::recv(slf, py)
    }

    /// How many environments were sent and not received.
    #[getter]
    fn under_way(slf: Sole<'_, Self>) -> PyResult<usize> {
        Ok(slf.engine.open()?.under_way())
    }

    /// Begins an episode in all environments, or in those of `env_id`, and shows them.
    #[pyo3(signature = (env_id=None))]
    fn reset<'py>(
        mut slf: Sole<'_, Self>,
        py: Python<'py>,
        env_id: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        slf.engine.check()?;
        slf.read_ids(env_id)?;
        slf.drain(py)?;
        slf.begin(py)?;
        slf.seen(py, None)
    }

    /// Begins an episode where `mask` is true, and shows all environments.
    fn reset_where<'py>(
        mut slf: Sole<'_, Self>,
        py: Python<'py>,
        mask: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let slf = &mut *slf;
        slf.engine.check()?;
        let chosen: Vec<bool> = mask.call_method0("tolist")?.extract()?;
        slf.orders.ids.clear();
        slf.orders.ids.extend(slf.all.iter().filter(|id| chosen[**id as usize]));
        slf.drain(py)?;
        slf.begin(py)?;
        slf.orders.ids.clone_from(&slf.all);
        let (slot, orders) = (&mut slf.slots[slf.at], &slf.orders);
        let replicas = slf.engine.open_mut()?.replicas()?;
        py.detach(|| replicas.show(&orders.ids, &mut slot.batch)).map_err(raised)?;
        slf.written(slf.at);
        slf.seen(py, Some(mask))
    }

    /// Gives every environment a seed; each begins with its first draws.
    fn seed(mut slf: Sole<'_, Self>, py: Python<'_>, seeds: Vec<u64>) -> PyResult<()> {
        slf.engine.check()?;
        slf.drain(py)?;
        let replicas = slf.engine.open_mut()?.replicas()?;
        for (id, seed) in (0..).zip(seeds) {
            replicas.seed(id, seed).map_err(raised)?;
        }
        Ok(())
    }

    /// Gives those of `env_id` a seed each.
    fn seed_some(
        mut slf: Sole<'_, Self>,
        env_id: &Bound<'_, PyAny>,
        seeds: Vec<u64>,
    ) -> PyResult<()> {
        let slf = &mut *slf;
        slf.engine.check()?;
        slf.drain(env_id.py())?;
        slf.read_ids(Some(env_id))?;
        let replicas = slf.engine.open_mut()?.replicas()?;
        for (id, seed) in slf.orders.ids.iter().zip(seeds) {
            replicas.seed(*id, seed).map_err(raised)?;
        }
        Ok(())
    }

    /// Lets all environments, or those of `env_id`, begin an episode when they are stepped next.
    #[pyo3(signature = (env_id=None))]
    fn mark_new(mut slf: Sole<'_, Self>, env_id: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let slf = &mut *slf;
        slf.engine.check()?;
        slf.read_ids(env_id)?;
        slf.engine.open_mut()?.mark_new(&slf.orders.ids)
    }

    /// What agents saw last where the last step ended an episode and began another: observations, and a
    /// dictionary.
    fn last<'py>(slf: Sole<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (slot, rows) = (&slf.slots[slf.at], slf.answered.len());
        let info = slot.info(py, Role::FinalInfo, rows, None)?;
        PyTuple::new(py, [slot.by_role(py, Role::FinalObs, rows)?, info.into_any()])
    }

    /// The arrays of all environments that every answer lies in where `copy` is false, by name.
    fn buffers<'py>(slf: Sole<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        slf.arrays_of(py, &slf.slots[0])
    }

    /// The arrays of the last answer and what lies behind them, by name.
    fn latest<'py>(slf: Sole<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        slf.arrays_of(py, &slf.slots[slf.at])
    }

    /// The environments of the last answer, by row.
    #[getter]
    fn answered(slf: Sole<'_, Self>) -> Vec<u32> {
        slf.answered.clone()
    }

    /// The environments that actions without `env_id` are of: those of the last answer, or none for all.
    #[getter]
    fn get_going_on(slf: Sole<'_, Self>) -> Option<Vec<u32>> {
        slf.received.then(|| slf.answered.clone())
    }

    #[setter]
    fn set_going_on(mut slf: Sole<'_, Self>, env_id: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let slf = &mut *slf;
        slf.read_ids(env_id)?;
        slf.received = env_id.is_some();
        slf.answered.clone_from(&slf.orders.ids);
        Ok(())
    }

    /// Copies of everything that the futures of the environments depend on, by name.
    fn get_state<'py>(mut slf: Sole<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        slf.engine.check()?;
        state::take(py, slf.engine.open_mut()?.replicas()?)
    }

    /// Puts back what `get_state` gave, or some of it, into all environments or those of `env_id`.
    #[pyo3(signature = (state, env_id=None))]
    fn set_state(
        mut slf: Sole<'_, Self>,
        state: &Bound<'_, PyDict>,
        env_id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        slf.engine.check()?;
        slf.read_ids(env_id)?;
        let Self { engine, orders, .. } = &mut *slf;
        state::put(engine.open_mut()?.replicas()?, state, &orders.ids)
    }

    /// Lets go of everything.
    fn close(mut slf: Sole<'_, Self>) {
        slf.engine.close();
    }

    /// The seed of every environment.
    #[getter]
    fn seeds(mut slf: Sole<'_, Self>) -> PyResult<Vec<u64>> {
        Ok(slf.engine.open_mut()?.replicas()?.options().seeds.clone())
    }
}

impl Pool {
    /// All arrays of a slot with a row for every environment, by name.
    fn arrays_of<'py>(&self, py: Python<'py>, slot: &Slot) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.all.len();
        let buffers = slot.info(py, Role::Info, rows, None)?;
        for (name, role) in [
            ("obs", Role::Obs),
            ("reward", Role::Reward),
            ("terminated", Role::Terminated),
            ("truncated", Role::Truncated),
        ] {
            buffers.set_item(name, slot.by_role(py, role, rows)?)?;
        }
        Ok(buffers)
    }

    /// Reads actions and the environments they are of.
    fn read_orders(
        &mut self,
        actions: &Bound<'_, PyAny>,
        env_id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.engine.check()?;
        if env_id.is_none() && self.received {
            self.orders.ids.clone_from(&self.answered);
        } else {
            self.read_ids(env_id)?;
        }
        self.read_actions(actions)
    }

    /// Says whether a batch can be received once the replicas of `orders` are sent.
    fn check_enough(&self) -> PyResult<()> {
        self.engine.open()?.check_enough(self.batch_size, self.orders.ids.len())
    }

    fn send_orders(&mut self) -> PyResult<()> {
        let orders = self.orders.clone();
        self.engine.open_mut()?.send(orders)
    }

    /// Sends the replicas of `orders` off to begin an episode.
    fn send_new(&mut self) -> PyResult<()> {
        self.idle_actions();
        self.engine.open_mut()?.mark_new(&self.orders.ids)?;
        self.send_orders()
    }

    fn read_ids(&mut self, env_id: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(value) = env_id else {
            self.orders.ids.clone_from(&self.all);
            return Ok(());
        };
        options::env_ids(value, self.all.len(), &mut self.orders.ids)
    }

    fn read_actions(&mut self, actions: &Bound<'_, PyAny>) -> PyResult<()> {
        let Self { orders, forms, style, .. } = self;
        let Orders { ids, actions: to } = orders;
        actions::read(forms, style.by_group, actions, ids.len(), to)
    }

    /// Finds memory for the next answer.
    fn choose_slot(&mut self, py: Python<'_>) -> PyResult<usize> {
        let Self { engine, slots, at, copy, .. } = self;
        let engine = engine.open()?;
        free(py, slots, at, *copy, &|rows| engine.new_batch(rows))
    }

    /// Slot `at` now has the last answer: what the replicas of `orders` show.
    fn written(&mut self, at: usize) {
        self.at = at;
        self.answered.clone_from(&self.orders.ids);
        self.slots[at].fill(self.answered.len());
    }

    /// Moves the replicas of `orders` and shows them in a free slot.
    fn advance(&mut self, py: Python<'_>) -> PyResult<()> {
        let at = self.choose_slot(py)?;
        let Self { engine, slots, orders, .. } = self;
        let (replicas, slot) = (engine.open_mut()?.replicas()?, &mut slots[at]);
        advance(py, replicas, orders, &mut slot.batch)?;
        self.written(at);
        Ok(())
    }

    /// Lets what is under way finish, and forgets it.
    fn drain(&mut self, py: Python<'_>) -> PyResult<()> {
        self.received = false;
        if self.engine.open()?.under_way() == 0 {
            return Ok(());
        }
        let at = self.choose_slot(py)?;
        let Self { engine, slots, .. } = self;
        engine.open_mut()?.drain(py, &mut slots[at].batch)
    }

    /// Begins an episode in the replicas of `orders`.
    fn begin(&mut self, py: Python<'_>) -> PyResult<()> {
        self.engine.open_mut()?.mark_new(&self.orders.ids)?;
        self.idle_actions();
        self.advance(py)
    }

    /// Actions that nobody takes, for replicas that begin an episode.
    fn idle_actions(&mut self) {
        let Orders { ids, actions } = &mut self.orders;
        actions::idle(&self.forms, ids.len(), actions);
    }

    fn mask<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.with_masks {
            return Ok(None);
        }
        if rows == self.all.len() {
            return Ok(Some(self.every.bind(py).clone()));
        }
        py.import("numpy")?.call_method1("ones", (rows, "bool")).map(Some)
    }

    fn answer<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (slot, rows) = (&self.slots[self.at], self.orders.ids.len());
        let flags = ["terminated", "truncated"].map(|name| slot.batch.store().get::<u8>(name));
        let ended = flags.into_iter().flatten().any(|flags| flags[..rows].contains(&1));
        let info = slot.info(py, Role::Info, rows, self.mask(py, rows)?.as_ref())?;
        // In the answer itself: who asks for it later may get what another thread has stepped to.
        let last = slot.by_role(py, Role::FinalObs, rows)?;
        if ended && !last.is_none() {
            info.set_item("final_obs", last)?;
            info.set_item("final_info", slot.info(py, Role::FinalInfo, rows, None)?)?;
        }
        PyTuple::new(
            py,
            [
                slot.by_role(py, Role::Obs, rows)?,
                slot.by_role(py, Role::Reward, rows)?,
                slot.by_role(py, Role::Terminated, rows)?,
                slot.by_role(py, Role::Truncated, rows)?,
                info.into_any(),
            ],
        )
    }

    /// Observations and a dictionary; `mask` says whose it is of, or all.
    fn seen<'py>(
        &mut self,
        py: Python<'py>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (slot, rows) = (&self.slots[self.at], self.orders.ids.len());
        let every = self.mask(py, rows)?;
        let mask = if self.with_masks { mask.or(every.as_ref()) } else { None };
        let info = slot.info(py, Role::Info, rows, mask)?;
        PyTuple::new(py, [slot.by_role(py, Role::Obs, rows)?, info.into_any()])
    }
}
