//! The outputs of some replicas after a step, a row each: arrays that every step overwrites.
#![expect(unsafe_code, reason = "copies rows of arrays of any type")]

use super::options::AutoReset;
use crate::error::Result;
use crate::executor::columns::Column;
use std::ops::Range;
use std::sync::Arc;
use warp_core::{DType, EnvSpec};
use warp_data::{Array, Plan, Store};

/// What of a batch depends on more than the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Whether observations are numbers.
    pub(super) numbered: bool,
    /// Whether a step says which of several chances it was.
    pub(super) by_chance: bool,
    /// What follows the end of an episode: with [`AutoReset::SameStep`] its last observation has arrays.
    pub(super) auto_reset: AutoReset,
}

/// Room for what some replicas show.
///
/// Its arrays, by name, with a row per replica that was moved:
///
/// - `env_id`: i32 `[rows]`, the replica's number.
/// - `obs.<group>`: f32 `[rows, n_agents, width]`, or i32 `[rows, 1]` where observations are numbers.
/// - `reward.<group>`: f32 `[rows, n_agents]`.
/// - `terminated`, `truncated`: u8 `[rows]`, never both.
/// - `elapsed_step`: i32 `[rows]`, steps since the episode began; 0 where this step began it.
/// - `action_mask.<group>`: u8 `[rows, n_agents, width]`, of groups with a mask.
/// - `alive.<group>`: who acts in the next step, and `agent_terminated.<group>`: whose episode ended in this
///   one, u8 `[rows, n_agents]`, of mortal groups.
/// - `global_obs`: f32 `[rows, width]`, if the environment has one.
/// - `statistic`: f32 `[rows, n]`, statistics of the episode so far, if there are any.
/// - `chance`: u8 `[rows]`, which of several chances the step was.
/// - The same called `final.*`, of observations, masks, `elapsed_step`, `chance` and `statistic`, for what
///   ended in this step where the next episode began in it.
#[derive(Debug)]
pub struct Batch {
    store: Store,
    columns: Columns,
    /// Whose rows they are: a batch of one environment is not written by another.
    of: Arc<EnvSpec>,
    rows: usize,
}

/// The arrays as they are written.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) env_id: Column<i32>,
    pub(super) reward: Vec<Column<f32>>,
    pub(super) alive: Vec<Option<Column<u8>>>,
    pub(super) agent_terminated: Vec<Option<Column<u8>>>,
    pub(super) terminated: Column<u8>,
    pub(super) truncated: Column<u8>,
    pub(super) now: Shown,
    /// What ended in this step, where the next episode has begun.
    pub(super) last: Option<Shown>,
}

/// What is seen of replicas at one time.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) obs: Seen,
    pub(super) action_mask: Vec<Option<Column<u8>>>,
    pub(super) global_obs: Option<Column<f32>>,
    pub(super) statistic: Option<Column<f32>>,
    pub(super) elapsed_step: Column<i32>,
    pub(super) chance: Option<Column<u8>>,
}

/// Observations.
#[derive(Debug)]
pub(super) enum Seen {
    /// Of each group.
    Values(Vec<Column<f32>>),
    /// Of the only agent, which sees a number.
    Number(Column<i32>),
}

impl Batch {
    pub(super) fn new(spec: &Arc<EnvSpec>, layout: Layout, rows: usize) -> Result<Self> {
        let mut plan = Plan::new();
        plan.add("env_id", DType::I32, &[rows])?;
        plan.add("terminated", DType::U8, &[rows])?;
        plan.add("truncated", DType::U8, &[rows])?;
        for group in &spec.groups {
            let agents = [rows, group.n_agents];
            plan.add(&format!("reward.{}", group.name), DType::F32, &agents)?;
            if group.mortal {
                plan.add(&format!("alive.{}", group.name), DType::U8, &agents)?;
                plan.add(&format!("agent_terminated.{}", group.name), DType::U8, &agents)?;
            }
        }
        declare_shown(&mut plan, spec, layout, rows, "")?;
        if layout.auto_reset == AutoReset::SameStep {
            declare_shown(&mut plan, spec, layout, rows, "final.")?;
        }
        let store = plan.allocate()?;
        let columns = Columns::new(&store, spec, layout)?;
        Ok(Self { store, columns, of: Arc::clone(spec), rows })
    }

    /// Rows that there is room for.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All arrays.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.store.arrays()
    }

    /// The arrays, to be read by name.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The replicas of all rows.
    pub(super) fn env_ids(&self) -> &[i32] {
        self.columns.env_id.rows(0..self.rows)
    }

    /// Copies rows `rows` of `from`, a batch of the same replicas, into those from `to` on.
    ///
    /// # Panics
    /// If either batch has not as many rows.
    pub(super) fn copy_rows(&mut self, to: usize, from: &Batch, rows: Range<usize>) {
        assert!(
            Arc::ptr_eq(&self.of, &from.of),
            "batches of the same replicas have the same arrays"
        );
        assert!(rows.end <= from.rows && to + rows.len() <= self.rows, "rows that there are");
        for (to_array, from_array) in self.store.arrays().zip(from.store.arrays()) {
            let row = from_array.row_len() * from_array.dtype().size();
            // SAFETY: both arrays have the same type and rows of the same length, and the rows exist; one
            // batch is borrowed mutably, so they are not the same memory.
            unsafe {
                let source = from_array.as_ptr().add(rows.start * row);
                let target = to_array.as_ptr().add(to * row);
                std::ptr::copy_nonoverlapping(source, target, rows.len() * row);
            }
        }
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Whether it was made for the replicas that have this `spec`, and no equal one.
    pub(super) fn is_of(&self, spec: &Arc<EnvSpec>) -> bool {
        Arc::ptr_eq(&self.of, spec)
    }
}

fn declare_shown(
    plan: &mut Plan,
    spec: &EnvSpec,
    layout: Layout,
    rows: usize,
    prefix: &str,
) -> Result<()> {
    let mut add =
        |name: &str, dtype, shape: &[usize]| plan.add(&format!("{prefix}{name}"), dtype, shape);
    for group in &spec.groups {
        let (name, agents) = (&group.name, group.n_agents);
        if layout.numbered {
            add(&format!("obs.{name}"), DType::I32, &[rows, 1])?;
        } else {
            add(&format!("obs.{name}"), DType::F32, &[rows, agents, group.observation_width()])?;
        }
        if group.mask_width() > 0 {
            let shape = [rows, agents, group.mask_width()];
            add(&format!("action_mask.{name}"), DType::U8, &shape)?;
        }
    }
    if let Some(space) = &spec.global_observation {
        add("global_obs", DType::F32, &[rows, space.flatten().width])?;
    }
    if !spec.statistics.is_empty() {
        add("statistic", DType::F32, &[rows, spec.statistics.len()])?;
    }
    add("elapsed_step", DType::I32, &[rows])?;
    if layout.by_chance {
        add("chance", DType::U8, &[rows])?;
    }
    Ok(())
}

impl Columns {
    fn new(store: &Store, spec: &EnvSpec, layout: Layout) -> Result<Self> {
        let groups = || spec.groups.iter();
        let last = layout.auto_reset == AutoReset::SameStep;
        Ok(Self {
            env_id: Column::new(store, store.id("env_id")?),
            reward: groups()
                .map(|group| Ok(Column::new(store, store.id(&format!("reward.{}", group.name))?)))
                .collect::<Result<_>>()?,
            alive: groups().map(|group| found(store, &format!("alive.{}", group.name))).collect(),
            agent_terminated: groups()
                .map(|group| found(store, &format!("agent_terminated.{}", group.name)))
                .collect(),
            terminated: Column::new(store, store.id("terminated")?),
            truncated: Column::new(store, store.id("truncated")?),
            now: Shown::new(store, spec, layout, "")?,
            last: last.then(|| Shown::new(store, spec, layout, "final.")).transpose()?,
        })
    }
}

impl Shown {
    fn new(store: &Store, spec: &EnvSpec, layout: Layout, prefix: &str) -> Result<Self> {
        let id = |name: &str| store.id(&format!("{prefix}{name}"));
        let of_group = |group: &warp_core::GroupSpec| {
            Ok(Column::new(store, id(&format!("obs.{}", group.name))?))
        };
        let obs = if layout.numbered {
            Seen::Number(Column::new(store, id(&format!("obs.{}", spec.groups[0].name))?))
        } else {
            Seen::Values(spec.groups.iter().map(of_group).collect::<Result<_>>()?)
        };
        let mask = |group: &warp_core::GroupSpec| {
            found(store, &format!("{prefix}action_mask.{}", group.name))
        };
        Ok(Self {
            obs,
            action_mask: spec.groups.iter().map(mask).collect(),
            global_obs: found(store, &format!("{prefix}global_obs")),
            statistic: found(store, &format!("{prefix}statistic")),
            elapsed_step: Column::new(store, id("elapsed_step")?),
            chance: found(store, &format!("{prefix}chance")),
        })
    }
}

/// The column of an array that need not be there.
fn found<T: warp_data::Element>(store: &Store, name: &str) -> Option<Column<T>> {
    store.id(name).ok().map(|id| Column::new(store, id))
}
