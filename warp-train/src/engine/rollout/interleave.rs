//! Between arrays of one group each and the rows of a policy that acts for several.

/// Where the rows of one group lie within a replica's rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupRows {
    pub(crate) group: usize,
    pub(crate) first: usize,
    pub(crate) n_agents: usize,
}

/// Between a group's own array, `[n_envs, n_agents, k]`, and a policy's rows, `[n_envs, agents, k]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interleave {
    pub(crate) rows: GroupRows,
    pub(crate) per_replica: usize,
}

impl Interleave {
    pub(crate) fn copy<T: Copy>(self, source: &[T], target: &mut [T], k: usize) {
        let GroupRows { first, n_agents, .. } = self.rows;
        if n_agents == self.per_replica {
            return target.copy_from_slice(source);
        }
        let pairs =
            source.chunks_exact(n_agents * k).zip(target.chunks_exact_mut(self.per_replica * k));
        pairs.for_each(|(from, to)| to[first * k..][..n_agents * k].copy_from_slice(from));
    }

    pub(crate) fn copy_back<T: Copy>(self, source: &[T], target: &mut [T], k: usize) {
        let GroupRows { first, n_agents, .. } = self.rows;
        let pairs =
            source.chunks_exact(self.per_replica * k).zip(target.chunks_exact_mut(n_agents * k));
        pairs.for_each(|(from, to)| to.copy_from_slice(&from[first * k..][..n_agents * k]));
    }

    pub(crate) fn zip<S: Copy, T>(self, source: &[S], target: &mut [T], work: impl Fn(&mut T, S)) {
        let GroupRows { first, n_agents, .. } = self.rows;
        for (from, to) in
            source.chunks_exact(n_agents).zip(target.chunks_exact_mut(self.per_replica))
        {
            from.iter().zip(&mut to[first..][..n_agents]).for_each(|(from, to)| work(to, *from));
        }
    }

    pub(crate) fn map<S: Copy, T>(self, source: &[S], target: &mut [T], value: impl Fn(&S) -> T) {
        self.zip(source, target, |to, from| *to = value(&from));
    }

    pub(crate) fn fill<T: Copy>(self, target: &mut [T], value: T) {
        let GroupRows { first, n_agents, .. } = self.rows;
        target
            .chunks_exact_mut(self.per_replica)
            .for_each(|to| to[first..][..n_agents].fill(value));
    }
}
