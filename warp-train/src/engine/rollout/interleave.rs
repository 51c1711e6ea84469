//! Between arrays of one group each and the rows of a policy that acts for agents of several.

use crate::algorithm::{AgentRange, PolicyPlan};
use warp_core::EnvSpec;

/// Where the rows of some agents of a group lie within a replica's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupRows {
    pub(crate) agents: AgentRange,
    /// Agents of the group.
    pub(crate) of_group: usize,
    /// The first one among the policy's agents.
    pub(crate) at: usize,
}

impl GroupRows {
    /// The rows of all agents of `plan`, range after range.
    pub(crate) fn of(plan: &PolicyPlan, spec: &EnvSpec) -> Vec<Self> {
        let mut at = 0;
        let rows = |agents: &AgentRange| {
            let of_group = spec.groups[agents.group].n_agents;
            let rows = Self { agents: *agents, of_group, at };
            at += agents.n_agents;
            rows
        };
        plan.agents.iter().map(rows).collect()
    }

    pub(crate) fn group(self) -> usize {
        self.agents.group
    }

    /// An agent's number in its group, less that in its policy.
    #[cfg(feature = "cuda")]
    pub(crate) fn shift(self) -> isize {
        self.agents.first as isize - self.at as isize
    }
}

/// Between a group's own array, `[n_envs, n_agents, k]`, and a policy's rows, `[n_envs, agents, k]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interleave {
    pub(crate) rows: GroupRows,
    pub(crate) per_replica: usize,
}

impl Interleave {
    pub(crate) fn copy<T: Copy>(self, source: &[T], target: &mut [T], k: usize) {
        let GroupRows { agents, of_group, at } = self.rows;
        let (n, first) = (agents.n_agents * k, agents.first * k);
        if agents.n_agents == self.per_replica && of_group == self.per_replica {
            return target.copy_from_slice(source);
        }
        let pairs =
            source.chunks_exact(of_group * k).zip(target.chunks_exact_mut(self.per_replica * k));
        pairs.for_each(|(from, to)| to[at * k..][..n].copy_from_slice(&from[first..][..n]));
    }

    pub(crate) fn copy_back<T: Copy>(self, source: &[T], target: &mut [T], k: usize) {
        let GroupRows { agents, of_group, at } = self.rows;
        let (n, first) = (agents.n_agents * k, agents.first * k);
        let pairs =
            source.chunks_exact(self.per_replica * k).zip(target.chunks_exact_mut(of_group * k));
        pairs.for_each(|(from, to)| to[first..][..n].copy_from_slice(&from[at * k..][..n]));
    }

    pub(crate) fn zip<S: Copy, T>(self, source: &[S], target: &mut [T], work: impl Fn(&mut T, S)) {
        let GroupRows { agents, of_group, at } = self.rows;
        for (from, to) in
            source.chunks_exact(of_group).zip(target.chunks_exact_mut(self.per_replica))
        {
            let own = from[agents.agents()].iter().zip(&mut to[at..]);
            own.for_each(|(from, to)| work(to, *from));
        }
    }

    pub(crate) fn map<S: Copy, T>(self, source: &[S], target: &mut [T], value: impl Fn(&S) -> T) {
        self.zip(source, target, |to, from| *to = value(&from));
    }

    pub(crate) fn fill<T: Copy>(self, target: &mut [T], value: T) {
        let GroupRows { agents, at, .. } = self.rows;
        target
            .chunks_exact_mut(self.per_replica)
            .for_each(|to| to[at..][..agents.n_agents].fill(value));
    }
}
