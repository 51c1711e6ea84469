//! Which agents a policy acts for.

use std::ops::Range;
use warp_core::EnvSpec;

/// Consecutive agents of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentRange {
    /// Number of the group.
    pub group: usize,
    /// The first one, counted within the group.
    pub first: usize,
    /// How many.
    pub n_agents: usize,
}

impl AgentRange {
    /// All agents of the group number `group`.
    #[must_use]
    pub fn whole(spec: &EnvSpec, group: usize) -> Self {
        Self { group, first: 0, n_agents: spec.groups[group].n_agents }
    }

    /// Their numbers within the group.
    #[must_use]
    pub fn agents(&self) -> Range<usize> {
        self.first..self.first + self.n_agents
    }

    /// The ranges that `agents` make, numbers within `group` in rising order.
    pub(crate) fn of(group: usize, agents: impl Iterator<Item = usize>) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for agent in agents {
            match ranges.last_mut() {
                Some(range) if range.agents().end == agent => range.n_agents += 1,
                _ => ranges.push(Self { group, first: agent, n_agents: 1 }),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_that_follow_each_other_are_one_range() {
        let of = |agents: &[usize]| AgentRange::of(3, agents.iter().copied());
        let range = |first, n_agents| AgentRange { group: 3, first, n_agents };
        assert_eq!(of(&[0, 1, 2, 5, 7, 8]), [range(0, 3), range(5, 1), range(7, 2)]);
        assert!(of(&[]).is_empty());
    }
}
