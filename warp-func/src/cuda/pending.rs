//! Changes made on the host that have not come to the device yet.

use crate::vec_env::ArrayIds;
use warp_data::ArrayId;

/// Which of the host's arrays the device lacks: all that can be changed, or some groups' actions.
#[derive(Debug)]
pub(super) struct Pending {
    everything: bool,
    /// By group.
    actions: Vec<bool>,
}

impl Pending {
    /// Nothing yet.
    pub(super) fn new(n_groups: usize) -> Self {
        Self { everything: false, actions: vec![false; n_groups] }
    }

    /// Any array may have been changed.
    pub(super) fn everything(&mut self) {
        self.everything = true;
    }

    /// The actions of `group` may have been changed.
    pub(super) fn actions_of(&mut self, group: usize) {
        self.actions[group] = true;
    }

    /// The arrays that the device is to get, each once. Nothing is pending after that.
    pub(super) fn take(&mut self, ids: &ArrayIds) -> Vec<ArrayId> {
        let everything = std::mem::take(&mut self.everything);
        let state = ids.persistent().filter(|_| everything);
        let marked = ids.action.iter().zip(&mut self.actions);
        // Not `||`: the mark is gone in either case.
        let actions =
            marked.filter_map(|(id, mark)| (std::mem::take(mark) | everything).then_some(*id));
        state.chain(actions).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::DType;
    use warp_data::Plan;

    /// Two groups, a state of one field, and what every environment has.
    fn arrays() -> ArrayIds {
        let mut plan = Plan::new();
        let mut array = |name: &str| plan.add(name, DType::F32, &[3]).unwrap();
        ArrayIds {
            state: vec![array("place")],
            obs: vec![array("obs.a"), array("obs.b")],
            final_obs: vec![array("final_obs.a"), array("final_obs.b")],
            action_mask: vec![None; 2],
            final_action_mask: vec![None; 2],
            action: vec![array("action.a"), array("action.b")],
            reward: vec![array("reward.a"), array("reward.b")],
            alive: vec![None, Some(array("alive.b"))],
            agent_terminated: vec![None, Some(array("agent_terminated.b"))],
            episode_return: vec![array("episode_return.a"), array("episode_return.b")],
            terminated: array("terminated"),
            truncated: array("truncated"),
            episode_length: array("episode_length"),
            statistic: None,
            final_statistic: None,
            global_obs: None,
            pool: Vec::new(),
        }
    }

    #[test]
    fn only_the_actions_that_were_lent_are_pushed() {
        let (ids, mut pending) = (arrays(), Pending::new(2));
        assert_eq!(pending.take(&ids), []);
        pending.actions_of(1);
        pending.actions_of(1);
        assert_eq!(pending.take(&ids), [ids.action[1]]);
        pending.actions_of(1);
        pending.actions_of(0);
        assert_eq!(pending.take(&ids), ids.action);
        assert_eq!(pending.take(&ids), []);
    }

    #[test]
    fn who_may_have_changed_anything_has_changed_everything_once() {
        let (ids, mut pending) = (arrays(), Pending::new(2));
        pending.actions_of(0);
        pending.everything();
        let all: Vec<_> = ids.persistent().chain(ids.action.iter().copied()).collect();
        assert_eq!(pending.take(&ids), all);
        assert_eq!(pending.take(&ids), []);
    }
}
