//! The arrays of one group of agents, as a shard accesses them.

use super::columns::Column;
use crate::vec_env::ArrayIds;
use warp_core::{EnvSpec, Space};
use warp_data::Store;

/// The arrays of one group.
#[derive(Debug)]
pub(super) struct GroupColumns {
    pub(super) obs: Column<f32>,
    pub(super) final_obs: Column<f32>,
    pub(super) action_mask: Option<Column<u8>>,
    pub(super) final_action_mask: Option<Column<u8>>,
    pub(super) discrete: Option<Column<i32>>,
    pub(super) continuous: Option<Column<f32>>,
    pub(super) reward: Column<f32>,
    pub(super) alive: Option<Column<u8>>,
    pub(super) agent_terminated: Option<Column<u8>>,
    pub(super) episode_return: Column<f32>,
}

impl GroupColumns {
    /// Those of every group.
    pub(super) fn of_all(store: &Store, ids: &ArrayIds, spec: &EnvSpec) -> Vec<Self> {
        (0..spec.groups.len()).map(|g| Self::new(store, ids, spec, g)).collect()
    }

    fn new(store: &Store, ids: &ArrayIds, spec: &EnvSpec, g: usize) -> Self {
        let boxed = matches!(spec.groups[g].action, Space::Box { .. });
        Self {
            obs: Column::new(store, ids.obs[g]),
            final_obs: Column::new(store, ids.final_obs[g]),
            action_mask: ids.action_mask[g].map(|id| Column::new(store, id)),
            final_action_mask: ids.final_action_mask[g].map(|id| Column::new(store, id)),
            discrete: (!boxed).then(|| Column::new(store, ids.action[g])),
            continuous: boxed.then(|| Column::new(store, ids.action[g])),
            reward: Column::new(store, ids.reward[g]),
            alive: ids.alive[g].map(|id| Column::new(store, id)),
            agent_terminated: ids.agent_terminated[g].map(|id| Column::new(store, id)),
            episode_return: Column::new(store, ids.episode_return[g]),
        }
    }
}
