//! Moves some replicas, whatever their environment: the one place that knows the type of the body.
//!
//! Callers keep concurrent threads apart: no two of them have the same replica or the same row of a batch
//! ([`Mover::advance`]).
#![expect(unsafe_code, reason = "threads move disjoint replicas of shared arrays")]

use super::actions::{self, Orders};
use super::batch::{Columns, Layout, Seen, Shown};
use super::options::ReplicaOptions;
use super::plan::{Phase, ReplicaIds};
use super::tile;
use crate::error::Result;
use crate::executor::columns::{Column, FieldColumn, field_columns, put, view};
use crate::executor::lanes::{FEW, state_fits_tile};
use crate::vectors::{Work, widest};
use std::ops::Range;
use std::sync::Arc;
use warp_core::single::GroupAction;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Fault, Groups, LimitEnds, Observation, Purpose, StepOut, TimeLimit,
};
use warp_data::{Element, Store};

/// Some of the orders, and where their rows go.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) orders: &'a Orders,
    /// Which of the orders.
    pub(super) rows: Range<usize>,
    pub(super) out: &'a Columns,
    /// The row of the first of them.
    pub(super) to: usize,
}

/// Replicas that can be moved.
pub(super) trait Mover: Send + Sync + std::fmt::Debug {
    fn spec(&self) -> &Arc<EnvSpec>;
    fn layout(&self) -> Layout;
    fn chances(&self) -> &[f64];

    /// Checks the actions of `orders`. One that lies outside its space, of a replica that begins an episode
    /// instead, is replaced.
    ///
    /// # Safety
    /// As [`Mover::advance`].
    unsafe fn check_actions(&self, orders: &mut Orders) -> Result<()>;

    /// Moves replicas.
    ///
    /// # Safety
    /// The replicas exist and `out` has the rows, of this environment. Until it returns, no other thread is
    /// at one of these replicas or at one of these rows, and nobody borrows them.
    unsafe fn advance(&self, part: &Part<'_>);

    /// Says whether an episode is on in replica `id`.
    ///
    /// # Safety
    /// As [`Mover::advance`].
    unsafe fn set_phase(&self, id: usize, phase: Phase);

    /// Whether the episode of replica `id` has ended and no other has begun.
    ///
    /// # Safety
    /// As [`Mover::advance`].
    unsafe fn has_ended(&self, id: usize) -> bool;

    /// What replica `id` observes, if that is a number.
    ///
    /// # Safety
    /// As [`Mover::advance`], but that others may read it, too.
    unsafe fn number(&self, id: usize) -> Option<i32>;

    /// What is wrong with the state of replica `id`.
    ///
    /// # Safety
    /// As [`Mover::number`].
    unsafe fn fault(&self, id: usize) -> Option<Fault>;

    /// Shows replica `id` in row `row` of `out` as it is.
    ///
    /// # Safety
    /// As [`Mover::advance`].
    unsafe fn show(&self, id: usize, out: &Columns, row: usize);
}

/// The replicas of `E`.
pub(super) struct Runner<E: Env> {
    pub(super) env: E,
    spec: Arc<EnvSpec>,
    layout: Layout,
    chances: Vec<f64>,
    head_sizes: Vec<Vec<usize>>,
    pub(super) fields: Vec<FieldColumn>,
    pub(super) seed_low: Column<u32>,
    pub(super) seed_high: Column<u32>,
    pub(super) event: Column<u32>,
    pub(super) elapsed_step: Column<u32>,
    pub(super) phase: Column<u8>,
    alive: Vec<Option<Column<u8>>>,
    statistic: Option<Column<f32>>,
    fast: Option<tile::Fast>,
}

impl<E: Env> std::fmt::Debug for Runner<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("env", &E::NAME).finish_non_exhaustive()
    }
}

impl<E: Env> Runner<E> {
    pub(super) fn new(
        env: E,
        spec: EnvSpec,
        options: &ReplicaOptions,
        store: &Store,
        ids: &ReplicaIds,
    ) -> Self {
        let fields = field_columns::<E::State>(store, &ids.state);
        let lone = spec.groups.len() == 1 && spec.groups[0].n_agents == 1;
        let numbered = lone && is_numbered(&env, &fields);
        let chances = env.chances();
        let by_chance = chances.len() > 1;
        let layout = Layout { numbered, by_chance, auto_reset: options.auto_reset };
        let fast = tile::Fast::of::<E>(&spec, layout);
        let column = |id| Column::new(store, id);
        let alive = |id: &Option<_>| id.map(|id| Column::new(store, id));
        Self {
            head_sizes: spec.groups.iter().map(|group| group.action.head_sizes()).collect(),
            env,
            spec: Arc::new(spec),
            layout,
            chances,
            fields,
            seed_low: column(ids.seed_low),
            seed_high: column(ids.seed_high),
            event: column(ids.event),
            elapsed_step: column(ids.elapsed_step),
            phase: Column::new(store, ids.phase),
            alive: ids.alive.iter().map(alive).collect(),
            statistic: ids.statistic.map(|id| Column::new(store, id)),
            fast,
        }
    }

    pub(super) fn time_limit(&self) -> TimeLimit {
        self.spec.time_limit
    }

    /// The draws of what a replica does next.
    #[inline(always)]
    fn draw(&self, id: usize, purpose: Purpose) -> Draw {
        let (low, high) = (self.seed_low.row_mut(id)[0], self.seed_high.row_mut(id)[0]);
        let seed = u64::from(low) | u64::from(high) << 32;
        Draw::new(seed, 0, self.event.row_mut(id)[0], purpose)
    }

    /// Begins an episode.
    #[inline(never)]
    fn begin(&self, id: usize) {
        let mut draw = self.draw(id, Purpose::Reset);
        let mut state = view::<E::State>(&self.fields, id);
        self.env.reset(&mut state, &mut draw);
        put::<E::State>(&self.fields, id, state);
        let event = &mut self.event.row_mut(id)[0];
        *event = event.wrapping_add(1);
        self.elapsed_step.row_mut(id)[0] = 0;
        self.phase.row_mut(id)[0] = Phase::Running as u8;
        self.alive.iter().flatten().for_each(|alive| alive.row_mut(id).fill(1));
        if let Some(statistic) = &self.statistic {
            statistic.row_mut(id).fill(0.0);
        }
    }

    /// Begins an episode and shows it: no reward, no flag.
    pub(super) fn begin_shown(&self, id: usize, out: &Columns, row: usize) {
        self.begin(id);
        out.reward.iter().for_each(|reward| reward.row_mut(row).fill(0.0));
        out.agent_terminated.iter().flatten().for_each(|left| left.row_mut(row).fill(0));
        out.terminated.row_mut(row)[0] = 0;
        out.truncated.row_mut(row)[0] = 0;
        self.show_alive(id, out, row);
        self.observe(id, &out.now, row, self.certain());
    }

    /// What ended is shown as the last of its episode, and the next one begins.
    pub(super) fn follow(&self, id: usize, out: &Columns, row: usize, chance: u8) {
        if let Some(last) = &out.last {
            self.observe(id, last, row, chance);
            self.begin(id);
            self.show_alive(id, out, row);
            self.observe(id, &out.now, row, self.certain());
        }
    }

    /// The chance of what is no step: a number that no chance has.
    fn certain(&self) -> u8 {
        u8::MAX
    }

    fn show_alive(&self, id: usize, out: &Columns, row: usize) {
        for (shown, alive) in out.alive.iter().zip(&self.alive) {
            if let (Some(shown), Some(alive)) = (shown, alive) {
                shown.row_mut(row).copy_from_slice(alive.row_mut(id));
            }
        }
    }

    #[inline(always)]
    pub(super) fn show_mask(&self, id: usize, mask: &mut [u8]) {
        self.env.number_mask(&view::<E::State>(&self.fields, id), mask);
    }

    /// What agents of replica `id` see that is no number.
    #[inline(always)]
    pub(super) fn show_values(&self, id: usize, shown: &Shown, row: usize) {
        let Seen::Values(obs) = &shown.obs else { return };
        let mut out = Observation {
            obs: each_group(obs, |obs| obs.row_mut(row)),
            action_mask: each_group(&shown.action_mask, |mask| optional(mask, row)),
            global: optional(&shown.global_obs, row),
        };
        self.env.observe(&view::<E::State>(&self.fields, id), &mut out);
    }

    #[inline(always)]
    fn observe(&self, id: usize, shown: &Shown, row: usize, chance: u8) {
        match &shown.obs {
            Seen::Number(numbers) => {
                let state = view::<E::State>(&self.fields, id);
                numbers.row_mut(row)[0] = self.env.number(&state).unwrap_or(0);
                if let Some(mask) = &shown.action_mask[0] {
                    self.env.number_mask(&state, mask.row_mut(row));
                }
            }
            Seen::Values(_) => self.show_values(id, shown, row),
        }
        if let (Some(shown), Some(statistic)) = (&shown.statistic, &self.statistic) {
            shown.row_mut(row).copy_from_slice(statistic.row_mut(id));
        }
        shown.elapsed_step.row_mut(row)[0] = self.elapsed_step.row_mut(id)[0] as i32;
        if let Some(shown) = &shown.chance {
            shown.row_mut(row)[0] = chance;
        }
    }

    /// One replica's step, or the start of its episode, by the general path.
    #[inline(always)]
    pub(super) fn step(&self, part: &Part<'_>, at: usize) {
        let (id, row) = (part.orders.ids[at] as usize, part.to + at - part.rows.start);
        part.out.env_id.row_mut(row)[0] = id as i32;
        if self.phase.row_mut(id)[0] != Phase::Running as u8 {
            return self.begin_shown(id, part.out, row);
        }
        let given = self.actions_of(part.orders, at);
        let mut draw = self.draw(id, Purpose::Step);
        let chance = match self.layout.by_chance {
            true => self.env.chance(&given, &mut draw.clone()) as u8,
            false => 0,
        };
        let out = part.out;
        out.reward.iter().for_each(|reward| reward.row_mut(row).fill(0.0));
        // Until the body has run, who was alive before; then who left.
        for (left, alive) in out.agent_terminated.iter().zip(&self.alive) {
            if let (Some(left), Some(alive)) = (left, alive) {
                left.row_mut(row).copy_from_slice(alive.row_mut(id));
            }
        }
        let mut step = StepOut {
            reward: each_group(&out.reward, |reward| reward.row_mut(row)),
            alive: each_group(&self.alive, |alive| optional(alive, id)),
            terminated: false,
            statistics: optional(&self.statistic, id),
        };
        let mut state = view::<E::State>(&self.fields, id);
        self.env.step(&mut state, &given, &mut draw, &mut step);
        put::<E::State>(&self.fields, id, state);
        let ended = step.terminated;
        self.finish(id, part.out, row, ended);
        self.show_alive(id, out, row);
        self.observe(id, &out.now, row, chance);
        if self.phase.row_mut(id)[0] == Phase::Ended as u8 {
            self.follow(id, out, row, chance);
        }
    }

    /// After the body: the time limit, flags, counts.
    fn finish(&self, id: usize, out: &Columns, row: usize, mut terminated: bool) {
        let event = &mut self.event.row_mut(id)[0];
        *event = event.wrapping_add(1);
        let elapsed = &mut self.elapsed_step.row_mut(id)[0];
        *elapsed += 1;
        let TimeLimit { steps, ends } = self.spec.time_limit;
        let over = *elapsed >= steps;
        terminated |= over && ends == LimitEnds::Terminated;
        let truncated = over && !terminated;
        out.terminated.row_mut(row)[0] = u8::from(terminated);
        out.truncated.row_mut(row)[0] = u8::from(truncated);
        let phase = if terminated || truncated { Phase::Ended } else { Phase::Running };
        self.phase.row_mut(id)[0] = phase as u8;
        for (left, alive) in out.agent_terminated.iter().zip(&self.alive) {
            if let (Some(left), Some(alive)) = (left, alive) {
                let pairs = left.row_mut(row).iter_mut().zip(alive.row_mut(id));
                let over = u8::from(terminated);
                // As in CUDA, whatever a body has written.
                pairs.for_each(|(left, alive)| *left &= over | 1u8.wrapping_sub(*alive));
            }
        }
    }

    #[inline(always)]
    fn actions_of<'a>(&self, orders: &'a Orders, at: usize) -> Actions<'a> {
        let mut given = Actions::default();
        for (g, actions) in orders.actions.iter().enumerate() {
            let group = &self.spec.groups[g];
            let width = group.n_agents * group.action.action_width();
            match actions {
                GroupAction::Discrete(heads) => given.discrete[g] = &heads[at * width..][..width],
                GroupAction::Continuous(values) => {
                    given.continuous[g] = &values[at * width..][..width];
                }
            }
        }
        given
    }
}

impl<E: Env> Mover for Runner<E> {
    fn spec(&self) -> &Arc<EnvSpec> {
        &self.spec
    }
    fn layout(&self) -> Layout {
        self.layout
    }
    fn chances(&self) -> &[f64] {
        &self.chances
    }

    unsafe fn check_actions(&self, orders: &mut Orders) -> Result<()> {
        let Orders { ids, actions } = orders;
        let running = |at: usize| self.phase.row_mut(ids[at] as usize)[0] == Phase::Running as u8;
        actions::check_rows(&self.spec, &self.head_sizes, actions, ids, &running)
    }

    unsafe fn advance(&self, part: &Part<'_>) {
        widest(Advance { runner: self, part });
    }

    unsafe fn set_phase(&self, id: usize, phase: Phase) {
        self.phase.row_mut(id)[0] = phase as u8;
    }

    unsafe fn has_ended(&self, id: usize) -> bool {
        self.phase.row_mut(id)[0] == Phase::Ended as u8
    }

    unsafe fn number(&self, id: usize) -> Option<i32> {
        self.env.number(&view::<E::State>(&self.fields, id))
    }

    unsafe fn fault(&self, id: usize) -> Option<Fault> {
        self.env.fault(&view::<E::State>(&self.fields, id))
    }

    unsafe fn show(&self, id: usize, out: &Columns, row: usize) {
        out.env_id.row_mut(row)[0] = id as i32;
        out.reward.iter().for_each(|reward| reward.row_mut(row).fill(0.0));
        out.agent_terminated.iter().flatten().for_each(|left| left.row_mut(row).fill(0));
        out.terminated.row_mut(row)[0] = 0;
        out.truncated.row_mut(row)[0] = 0;
        self.show_alive(id, out, row);
        self.observe(id, &out.now, row, self.certain());
    }
}

/// Whether what the agent sees is a number, asked of a state that reset has made; it is cleared again.
fn is_numbered<E: Env>(env: &E, fields: &[FieldColumn]) -> bool {
    let numbered = {
        let mut state = view::<E::State>(fields, 0);
        env.reset(&mut state, &mut Draw::new(0, 0, 0, Purpose::Reset));
        env.number(&state).is_some()
    };
    fields.iter().for_each(|field| field.bits_mut(0..1).fill(0));
    numbered
}

/// All of a part, compiled for each width of vectors.
struct Advance<'a, E: Env> {
    runner: &'a Runner<E>,
    part: &'a Part<'a>,
}

impl<E: Env> Work for Advance<'_, E> {
    #[inline(always)]
    fn run(self) {
        // A constant, so that the bodies of larger environments are not compiled for tiles.
        if const { state_fits_tile::<E>() }
            && self.part.rows.len() >= FEW
            && let Some(fast) = self.runner.fast
        {
            return tile::step(self.runner, self.part, fast);
        }
        self.part.rows.clone().for_each(|at| self.runner.step(self.part, at));
    }
}

/// One slice per group, empty beyond the last.
#[inline(always)]
fn each_group<'a, C, T>(
    columns: &'a [C],
    row: impl Fn(&'a C) -> &'a mut [T],
) -> Groups<&'a mut [T]> {
    let mut columns = columns.iter();
    let mut next = || columns.next().map_or(&mut [][..], &row);
    [next(), next(), next(), next(), next(), next(), next(), next()]
}

fn optional<T: Element>(column: &Option<Column<T>>, row: usize) -> &mut [T] {
    column.as_ref().map_or(&mut [], |column| column.row_mut(row))
}
