//! The actions of one group of agents, lent to be written before a step.
//!
//! Writing actions through the whole store does not say what was changed, so an executor on a
//! device has to copy everything. Here it knows that only these actions were changed.

use warp_core::DType;
use warp_data::{ArrayId, StoreMut};

/// The actions of one group, row-major, to be written. They arrive as they were in the last step.
#[derive(Debug, PartialEq)]
pub enum GroupActionsMut<'a> {
    /// Chosen index per head, i32 `[n_envs, n_agents, n_heads]`.
    Discrete(&'a mut [i32]),
    /// The elements of a Box, f32 `[n_envs, n_agents, dim]`.
    Continuous(&'a mut [f32]),
}

impl<'a> GroupActionsMut<'a> {
    /// The array `id` of `store`, which contains a group's actions.
    ///
    /// # Panics
    /// If its elements are neither i32 nor f32.
    #[must_use]
    pub fn of(store: StoreMut<'a>, id: ArrayId) -> Self {
        match store.array(id).dtype() {
            DType::I32 => Self::Discrete(store.into_slice_mut(id)),
            _ => Self::Continuous(store.into_slice_mut(id)),
        }
    }

    /// Chosen index per head, i32 `[n_envs, n_agents, n_heads]`.
    ///
    /// # Panics
    /// If the group's actions are a Box: callers know the group's space.
    #[must_use]
    pub fn discrete(self) -> &'a mut [i32] {
        match self {
            Self::Discrete(actions) => actions,
            Self::Continuous(_) => panic!("the group's actions are real numbers, not choices"),
        }
    }

    /// The elements of a Box, f32 `[n_envs, n_agents, dim]`.
    ///
    /// # Panics
    /// If the group's actions are discrete: callers know the group's space.
    #[must_use]
    pub fn continuous(self) -> &'a mut [f32] {
        match self {
            Self::Continuous(actions) => actions,
            Self::Discrete(_) => panic!("the group's actions are choices, not real numbers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_data::Plan;

    #[test]
    fn actions_are_written_where_they_lie() {
        let mut plan = Plan::new();
        let heads = plan.add("action.a", DType::I32, &[2, 1, 2]).unwrap();
        let push = plan.add("action.b", DType::F32, &[2, 1, 1]).unwrap();
        let mut store = plan.allocate().unwrap();
        GroupActionsMut::of(store.edit(), heads).discrete()[3] = 7;
        GroupActionsMut::of(store.edit(), push).continuous().fill(0.5);
        assert_eq!(store.slice::<i32>(heads), [0, 0, 0, 7]);
        assert_eq!(store.slice::<f32>(push), [0.5; 2]);
    }

    #[test]
    #[should_panic(expected = "the group's actions are real numbers, not choices")]
    fn a_box_has_no_choices() {
        let _ = GroupActionsMut::Continuous(&mut []).discrete();
    }
}
