//! The memory that a step shows itself in, and what Python sees of it.
//!
//! A pool has a few slots. One whose frame no array of Python's shows any more is written again, so that
//! what was handed out never changes and memory stays flat.

use super::array::{Cells, Dtype, Frame, Memory, over};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::sync::Arc;
use warp_core::{DType, EnvSpec, Space};
use warp_data::{Array, ArrayId};
use warp_func::{Batch, Replicas};

/// What is shown, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Arrays by group of agents, and not those of the only agent.
    pub(super) by_group: bool,
    /// The type of observations that are whole numbers.
    pub(super) integers: Dtype,
    /// Whether observations are whole numbers, though the environment writes them as real ones.
    pub(super) whole: bool,
    /// Whether there is anything in `info` beside numbers of environments and steps.
    pub(super) of_task: bool,
}

/// What an output is of a step's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// What agents see.
    Obs,
    /// What they are given.
    Reward,
    /// The game is over.
    Terminated,
    /// The time limit has cut it.
    Truncated,
    /// Anything else that is known after a step.
    Info,
    /// What agents saw last, where the next episode has begun.
    FinalObs,
    /// What else was known then.
    FinalInfo,
}

/// One array of a step's answer.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) role: Role,
    name: String,
    pub(super) key: Py<PyString>,
    /// The key of its mask.
    pub(super) mask: Py<PyString>,
    /// The group that it is of, where arrays are by group.
    pub(super) group: Option<Py<PyString>>,
    memory: Memory,
    form: Form,
}

impl Output {
    /// Whether it is of what was just done, and not of an episode that ended before.
    fn is_now(&self) -> bool {
        !matches!(self.role, Role::FinalObs | Role::FinalInfo)
    }
}

/// What an array's rows are.
#[derive(Debug)]
struct Form {
    dtype: Dtype,
    /// The shape of a row.
    item: Vec<usize>,
}

/// Cells that are made of an array after each step.
#[derive(Debug, Clone, Copy)]
enum Fill {
    /// The same whole numbers.
    Numbers { from: ArrayId, to: usize },
    /// Real numbers that are whole.
    Whole { from: ArrayId, to: usize },
    /// How likely the step was.
    Probability { chance: Option<ArrayId>, steps: ArrayId, to: usize },
}

/// What all slots of a pool have in common.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) outputs: Vec<Output>,
    fills: Vec<Fill>,
    /// Type and elements of each row of the cells.
    cells: Vec<(Dtype, usize)>,
    chances: Vec<f64>,
}

impl Plan {
    /// What is shown of `batch`.
    pub(super) fn new(py: Python<'_>, replicas: &Replicas, batch: &Batch, style: Style) -> Self {
        let chances = replicas.chances().to_vec();
        let mut plan = Self { outputs: Vec::new(), fills: Vec::new(), cells: Vec::new(), chances };
        for (index, array) in batch.arrays().enumerate() {
            plan.add(py, replicas.spec(), style, index, array, batch);
        }
        if style.of_task && !plan.chances.is_empty() {
            for prefix in ["", "final."] {
                if let Ok(steps) = batch.store().id(&format!("{prefix}elapsed_step")) {
                    let chance = batch.store().id(&format!("{prefix}chance")).ok();
                    let to = plan.cells.len();
                    plan.cells.push((Dtype::F64, 1));
                    plan.fills.push(Fill::Probability { chance, steps, to });
                    let role = if prefix.is_empty() { Role::Info } else { Role::FinalInfo };
                    plan.put(
                        py,
                        role,
                        "prob",
                        None,
                        Memory::Cells(to),
                        Form { dtype: Dtype::F64, item: vec![] },
                    );
                }
            }
        }
        plan
    }

    fn add(
        &mut self,
        py: Python<'_>,
        spec: &EnvSpec,
        style: Style,
        index: usize,
        array: &Array,
        batch: &Batch,
    ) {
        let said = Said::of(array.name());
        let (name, group, role) = (said.key, said.group, said.role());
        if name == "chance" {
            return;
        }
        let basic = matches!(name, "env_id" | "elapsed_step");
        if matches!(role, Role::Info | Role::FinalInfo) && !basic && !style.of_task {
            return;
        }
        let mut dtype = match (array.dtype(), name) {
            (DType::F32, _) => Dtype::F32,
            (DType::I32, _) => Dtype::I32,
            (DType::U32, _) => Dtype::U32,
            (DType::U8, "action_mask") => Dtype::I8,
            (DType::U8, _) => Dtype::Bool,
        };
        let mut item = array.shape()[1..].to_vec();
        if !style.by_group && group.is_some() {
            // Of the only agent.
            item.remove(0);
        }
        if name == "obs" && !style.by_group {
            item = shape_of(&spec.groups[0].observation, array.dtype());
        }
        let mut memory = Memory::Array(index);
        let id = batch.store().ids().nth(index);
        let whole = name == "obs" && style.whole && dtype == Dtype::F32;
        let widened = name == "obs" && dtype == Dtype::I32 && style.integers != Dtype::I32;
        if let (Some(from), true) = (id, whole || widened) {
            let to = self.cells.len();
            dtype = style.integers;
            self.cells.push((dtype, array.row_len()));
            self.fills.push(if whole {
                Fill::Whole { from, to }
            } else {
                Fill::Numbers { from, to }
            });
            memory = Memory::Cells(to);
        }
        let group = group.filter(|_| style.by_group);
        self.put(py, role, name, group, memory, Form { dtype, item });
    }

    fn put(
        &mut self,
        py: Python<'_>,
        role: Role,
        name: &str,
        group: Option<&str>,
        memory: Memory,
        form: Form,
    ) {
        let string = |text: &str| PyString::intern(py, text).unbind();
        self.outputs.push(Output {
            role,
            name: name.into(),
            key: string(name),
            mask: string(&format!("_{name}")),
            group: group.map(string),
            memory,
            form,
        });
    }
}

/// What the name of an array says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    /// Whether it is of what ended, where the next episode has begun.
    pub(super) last: bool,
    /// What it is.
    pub(super) key: &'a str,
    /// The group that it is of.
    pub(super) group: Option<&'a str>,
}

impl<'a> Said<'a> {
    /// What `name` says: `obs.pole`, `final.elapsed_step`.
    pub(super) fn of(name: &'a str) -> Self {
        let (last, name) = match name.strip_prefix("final.") {
            Some(name) => (true, name),
            None => (false, name),
        };
        match name.split_once('.') {
            Some((key, group)) => Self { last, key, group: Some(group) },
            None => Self { last, key: name, group: None },
        }
    }

    /// What it is of a step's answer.
    pub(super) fn role(self) -> Role {
        match (self.key, self.last) {
            ("obs", false) => Role::Obs,
            ("obs", true) => Role::FinalObs,
            ("reward", _) => Role::Reward,
            ("terminated", _) => Role::Terminated,
            ("truncated", _) => Role::Truncated,
            (_, false) => Role::Info,
            (_, true) => Role::FinalInfo,
        }
    }
}

/// The shape of what one agent sees.
pub(super) fn shape_of(space: &Space, dtype: DType) -> Vec<usize> {
    match (space, dtype) {
        (_, DType::I32) => Vec::new(),
        (Space::Box { shape, .. }, _) => shape.clone(),
        (other, _) => vec![other.flatten().width],
    }
}

/// Memory for one answer.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) batch: Batch,
    frame: Py<Frame>,
    plan: Arc<Plan>,
}

impl Slot {
    pub(super) fn new(py: Python<'_>, batch: Batch, plan: &Arc<Plan>) -> PyResult<Self> {
        let arrays = batch.arrays().cloned().collect();
        let rows = batch.rows();
        let cells = plan.cells.iter().map(|(dtype, item)| Cells::zeros(*dtype, rows * item));
        let frame = Py::new(py, Frame::new(arrays, cells.collect()))?;
        Ok(Self { batch, frame, plan: Arc::clone(plan) })
    }

    /// Whether nobody but the slot has its memory.
    pub(super) fn is_free(&self) -> bool {
        Frame::is_lone(&self.frame)
    }

    /// Makes what is not shown as it was written.
    pub(super) fn fill(&self, rows: usize) {
        let (store, frame) = (self.batch.store(), self.frame.get());
        for fill in &self.plan.fills {
            match *fill {
                Fill::Numbers { from, to } => {
                    let values = store.slice::<i32>(from).iter().map(|value| i64::from(*value));
                    frame.cells(to).write_integers(values.take(rows * self.plan.cells[to].1));
                }
                Fill::Whole { from, to } => {
                    let values = store.slice::<f32>(from).iter().map(|value| *value as i64);
                    frame.cells(to).write_integers(values.take(rows * self.plan.cells[to].1));
                }
                Fill::Probability { chance, steps, to } => {
                    let steps = &store.slice::<i32>(steps)[..rows];
                    let chances = &self.plan.chances;
                    let cells = frame.cells(to);
                    let one = |steps: i32, of: usize| if steps == 0 { 1.0 } else { chances[of] };
                    match chance.map(|id| store.slice::<u8>(id)) {
                        // What is no step has a chance that there is not.
                        Some(which) => {
                            cells.write_reals(steps.iter().zip(which).map(|(steps, of)| {
                                one(*steps, usize::from(*of).min(chances.len() - 1))
                            }))
                        }
                        None => cells.write_reals(steps.iter().map(|steps| one(*steps, 0))),
                    }
                }
            }
        }
    }

    /// An output as an array of `rows` rows.
    pub(super) fn array<'py>(
        &self,
        py: Python<'py>,
        output: &Output,
        rows: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut shape = [rows; 8];
        shape[1..=output.form.item.len()].copy_from_slice(&output.form.item);
        over(
            self.frame.bind(py),
            output.memory,
            output.form.dtype,
            &shape[..=output.form.item.len()],
        )
    }

    /// All outputs of a role: the array, or a dictionary of arrays by group.
    pub(super) fn by_role<'py>(
        &self,
        py: Python<'py>,
        role: Role,
        rows: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut groups = None;
        for output in self.plan.outputs.iter().filter(|output| output.role == role) {
            let array = self.array(py, output, rows)?;
            let Some(group) = &output.group else { return Ok(array) };
            groups.get_or_insert_with(|| PyDict::new(py)).set_item(group, array)?;
        }
        Ok(groups.map_or_else(|| py.None().into_bound(py), Bound::into_any))
    }

    /// What programs of JAX receive: name, type as NumPy has it, and the shape of a row.
    pub(super) fn xla_shown(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let said = |output: &Output| {
            (output.name.clone(), output.form.dtype.name(), output.form.item.clone())
        };
        self.plan.outputs.iter().filter(|output| output.is_now()).map(said).collect()
    }

    /// The first rows of each of them.
    pub(super) fn xla_rows<'a>(&'a self, py: Python<'a>, rows: usize) -> Vec<&'a [u8]> {
        let of_rows = |output: &Output| {
            let size = output.form.dtype.size() * output.form.item.iter().product::<usize>();
            &self.frame.bind(py).get().bytes(py, output.memory)[..rows * size]
        };
        self.plan.outputs.iter().filter(|output| output.is_now()).map(of_rows).collect()
    }

    /// All outputs of a role by key, each with a mask if there is one.
    pub(super) fn info<'py>(
        &self,
        py: Python<'py>,
        role: Role,
        rows: usize,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        for output in self.plan.outputs.iter().filter(|output| output.role == role) {
            let array = self.array(py, output, rows)?;
            match &output.group {
                None => info.set_item(&output.key, array)?,
                Some(group) => {
                    let inner = match info.get_item(&output.key)? {
                        Some(inner) => inner.cast_into::<PyDict>()?,
                        None => PyDict::new(py),
                    };
                    inner.set_item(group, array)?;
                    info.set_item(&output.key, inner)?;
                }
            }
            if let Some(mask) = mask {
                info.set_item(&output.mask, mask)?;
            }
        }
        Ok(info)
    }
}

/// A slot that may be written: one that nobody looks at, or a new one. `at`, that of the last answer, stays
/// the same slot's number where others move.
pub(super) fn free(
    py: Python<'_>,
    slots: &mut Vec<Slot>,
    at: &mut usize,
    copy: bool,
    new_batch: &dyn Fn(usize) -> PyResult<Batch>,
) -> PyResult<usize> {
    if !copy {
        return Ok(0);
    }
    if let Some(at) = slots.iter().position(|slot| slot.is_free()) {
        return Ok(at);
    }
    let batch = new_batch(slots[0].batch.rows())?;
    let slot = Slot::new(py, batch, &Arc::clone(&slots[0].plan))?;
    if slots.len() < MOST_SLOTS {
        slots.push(slot);
        return Ok(slots.len() - 1);
    }
    // Those who keep everything get new memory each time; the oldest is theirs alone from now on.
    let oldest = usize::from(*at == 0);
    slots[oldest..].rotate_left(1);
    slots[MOST_SLOTS - 1] = slot;
    *at = at.saturating_sub(1);
    Ok(MOST_SLOTS - 1)
}

/// Slots that a pool has at most.
const MOST_SLOTS: usize = 8;
