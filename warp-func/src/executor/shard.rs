//! One shard: steps its replicas, restarts those that ended, keeps count of episodes.

use super::columns::{Column, FieldColumn, field_columns, put, view};
use super::group::GroupColumns;
use super::lanes;
use super::starts::{Starts, copy_row};
use crate::episodes::EpisodeTotals;
use crate::vec_env::{ArrayIds, VecOptions};
use std::ops::Range;
use std::sync::Arc;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Groups, LimitEnds, MAX_GROUPS, Observation, Purpose, StepOut,
    TimeLimit,
};
use warp_data::{Element, Store};

/// A range of replicas and everything that belongs to it.
#[derive(Debug)]
pub(super) struct ShardRunner<E: Env> {
    pub(super) env: Arc<E>,
    pub(super) replicas: Range<usize>,
    /// Steps since the run began.
    pub(super) run_step: u32,
    pub(super) seed: u64,
    pub(super) first_replica: u32,
    pub(super) episodes: EpisodeTotals,
    pub(super) fields: Vec<FieldColumn>,
    pub(super) groups: Vec<GroupColumns>,
    pub(super) terminated: Column<u8>,
    pub(super) truncated: Column<u8>,
    pub(super) episode_length: Column<u32>,
    statistic: Option<Column<f32>>,
    final_statistic: Option<Column<f32>>,
    global_obs: Option<Column<f32>>,
    time_limit: TimeLimit,
    auto_reset: bool,
    starts: Starts,
    fast: Option<lanes::FastPath>,
}

impl<E: Env> ShardRunner<E> {
    pub(super) fn new(
        env: &Arc<E>,
        spec: &EnvSpec,
        options: &VecOptions,
        store: &Store,
        ids: &ArrayIds,
        replicas: Range<usize>,
    ) -> Self {
        Self {
            env: Arc::clone(env),
            replicas,
            run_step: 0,
            seed: options.seed,
            first_replica: options.first_replica,
            episodes: EpisodeTotals::new(spec.groups.len(), spec.statistics.len()),
            fields: field_columns::<E::State>(store, &ids.state),
            groups: GroupColumns::of_all(store, ids, spec),
            terminated: Column::new(store, ids.terminated),
            truncated: Column::new(store, ids.truncated),
            episode_length: Column::new(store, ids.episode_length),
            statistic: ids.statistic.map(|id| Column::new(store, id)),
            final_statistic: ids.final_statistic.map(|id| Column::new(store, id)),
            global_obs: ids.global_obs.map(|id| Column::new(store, id)),
            time_limit: spec.time_limit,
            auto_reset: options.auto_reset,
            starts: Starts::new::<E::State>(options, store, ids),
            fast: lanes::FastPath::of::<E>(spec),
        }
    }

    pub(super) fn reset(&mut self) {
        for replica in self.replicas.clone() {
            self.reset_replica(replica);
            self.terminated.row_mut(replica)[0] = 0;
            self.truncated.row_mut(replica)[0] = 0;
        }
    }

    /// Moves the replicas by one step. Discrete actions must be within their spaces.
    pub(super) fn step(&mut self) {
        self.run_step = self.run_step.wrapping_add(1);
        lanes::step(self, self.fast);
        self.finish_step();
    }

    pub(super) fn observe(&mut self) {
        for replica in self.replicas.clone() {
            self.observe_replica(replica);
        }
    }

    /// The draws of one replica in this step.
    #[inline(always)]
    pub(super) fn draw(&self, replica: usize, purpose: Purpose) -> Draw {
        // Lanes behind the last replica have numbers, too, which may pass the end.
        let number = self.first_replica.wrapping_add(replica as u32);
        Draw::new(self.seed, number, self.run_step, purpose)
    }

    fn begin_state(&self, replica: usize) {
        let mut draw = self.draw(replica, Purpose::Reset);
        match &self.starts {
            Starts::Fresh => {}
            Starts::Fixed(seed) => draw = Draw::new(*seed, 0, 0, Purpose::Reset),
            Starts::Pool { fields, rows } => {
                return copy_row(fields, draw.below(*rows), &self.fields, replica);
            }
        }
        let mut state = view::<E::State>(&self.fields, replica);
        self.env.reset(&mut state, &mut draw);
        put::<E::State>(&self.fields, replica, state);
    }

    fn reset_replica(&self, replica: usize) {
        self.begin_state(replica);
        self.episode_length.row_mut(replica)[0] = 0;
        for group in &self.groups {
            group.episode_return.row_mut(replica)[0] = 0.0;
            if let Some(alive) = &group.alive {
                alive.row_mut(replica).fill(1);
            }
        }
        if let Some(statistic) = &self.statistic {
            statistic.row_mut(replica).fill(0.0);
        }
        self.observe_replica(replica);
    }

    /// Always inlined, so that the step path compiles it for its vector width.
    #[inline(always)]
    fn observe_replica(&self, replica: usize) {
        let mut out = Observation {
            obs: self.each_group(|group| group.obs.row_mut(replica)),
            action_mask: self.each_group(|group| optional_row(&group.action_mask, replica)),
            global: optional_row(&self.global_obs, replica),
        };
        self.env.observe(&view::<E::State>(&self.fields, replica), &mut out);
    }

    #[inline(always)]
    fn each_group<'a, T: Element>(
        &'a self,
        row: impl Fn(&'a GroupColumns) -> &'a mut [T],
    ) -> Groups<&'a mut [T]> {
        let mut groups = self.groups.iter();
        let mut next = || groups.next().map_or(&mut [][..], &row);
        // `[(); MAX_GROUPS].map` is compiled to a call, four times per replica and step.
        let groups: [_; MAX_GROUPS] =
            [next(), next(), next(), next(), next(), next(), next(), next()];
        groups
    }

    /// One replica's step, observation included, by the general path.
    #[inline(always)]
    fn step_replica(&self, replica: usize) {
        let mut actions = Actions::default();
        for (g, group) in self.groups.iter().enumerate() {
            if let Some(discrete) = &group.discrete {
                actions.discrete[g] = discrete.rows(replica..replica + 1);
            }
            if let Some(continuous) = &group.continuous {
                actions.continuous[g] = continuous.rows(replica..replica + 1);
            }
            group.reward.row_mut(replica).fill(0.0);
            // Until the body has run, who was alive before; then who left.
            if let (Some(left), Some(alive)) = (&group.agent_terminated, &group.alive) {
                left.row_mut(replica).copy_from_slice(alive.rows(replica..replica + 1));
            }
        }
        let mut out = StepOut {
            reward: self.each_group(|group| group.reward.row_mut(replica)),
            alive: self.each_group(|group| optional_row(&group.alive, replica)),
            terminated: false,
            statistics: optional_row(&self.statistic, replica),
        };
        let mut draw = self.draw(replica, Purpose::Step);
        let mut state = view::<E::State>(&self.fields, replica);
        self.env.step(&mut state, &actions, &mut draw, &mut out);
        put::<E::State>(&self.fields, replica, state);
        let terminated = out.terminated;
        self.terminated.row_mut(replica)[0] = u8::from(terminated);
        self.episode_length.row_mut(replica)[0] += 1;
        for group in &self.groups {
            let total: f32 = group.reward.rows(replica..replica + 1).iter().sum();
            group.episode_return.row_mut(replica)[0] += total;
        }
        self.observe_replica(replica);
    }

    #[inline(always)]
    pub(super) fn step_all_rows(&mut self) {
        for replica in self.replicas.clone() {
            self.step_replica(replica);
        }
    }

    /// After the bodies have run: time limits, episode totals, restarts.
    fn finish_step(&mut self) {
        let TimeLimit { steps, ends } = self.time_limit;
        let lengths = self.episode_length.rows(self.replicas.clone());
        let terminated = self.terminated.rows_mut(self.replicas.clone());
        let truncated = self.truncated.rows_mut(self.replicas.clone());
        let mut any = 0;
        for ((length, terminated), truncated) in lengths.iter().zip(terminated).zip(truncated) {
            let over = u8::from(*length >= steps);
            match ends {
                LimitEnds::Terminated => *terminated |= over,
                LimitEnds::Truncated => *truncated = over & (1 - *terminated),
            }
            any |= *terminated | *truncated;
        }
        for group in &self.groups {
            self.mark_leavers(group);
        }
        if any != 0 {
            self.end_episodes();
        }
    }

    /// Turns "was alive before" into "left in this step".
    fn mark_leavers(&self, group: &GroupColumns) {
        let (Some(left), Some(alive)) = (&group.agent_terminated, &group.alive) else { return };
        for replica in self.replicas.clone() {
            let over = self.terminated.row_mut(replica)[0];
            let alive = alive.rows(replica..replica + 1);
            for (left, alive) in left.row_mut(replica).iter_mut().zip(alive) {
                // As in CUDA, whatever a body has written.
                *left &= over | 1u8.wrapping_sub(*alive);
            }
        }
    }

    #[inline(never)]
    fn end_episodes(&mut self) {
        for replica in self.replicas.clone() {
            if self.terminated.row_mut(replica)[0] | self.truncated.row_mut(replica)[0] == 0 {
                continue;
            }
            self.count_episode(replica);
            for group in &self.groups {
                let last = group.obs.rows(replica..replica + 1);
                group.final_obs.row_mut(replica).copy_from_slice(last);
                if let (Some(now), Some(last)) = (&group.action_mask, &group.final_action_mask) {
                    last.row_mut(replica).copy_from_slice(now.rows(replica..replica + 1));
                }
            }
            if let (Some(now), Some(last)) = (&self.statistic, &self.final_statistic) {
                last.row_mut(replica).copy_from_slice(now.rows(replica..replica + 1));
            }
            if self.auto_reset {
                self.reset_replica(replica);
            }
        }
    }

    fn count_episode(&mut self, replica: usize) {
        let Self { episodes, groups, statistic, .. } = self;
        episodes.count += 1;
        episodes.length.add(f64::from(self.episode_length.row_mut(replica)[0]));
        for (total, group) in episodes.returns.iter_mut().zip(groups) {
            total.add(f64::from(group.episode_return.row_mut(replica)[0]));
        }
        let values = optional_row(statistic, replica);
        episodes.statistics.iter_mut().zip(values).for_each(|(sum, v)| *sum += f64::from(*v));
    }
}

fn optional_row<T: Element>(column: &Option<Column<T>>, replica: usize) -> &mut [T] {
    column.as_ref().map_or(&mut [], |column| column.row_mut(replica))
}
