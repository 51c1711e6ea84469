//! How a run is divided: replicas over ranks, and into the shards that minibatches are sampled from.

use super::{PolicyPlan, TrainConfig};
use crate::error::{Error, Result};
use crate::world::World;
use std::ops::Range;

/// The shards of a run, and which of them this rank has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards {
    /// Number of the first that is here.
    pub first: usize,
    /// How many are here, at least 1.
    pub here: usize,
    /// How many there are on all ranks.
    pub total: usize,
}

impl Shards {
    /// A whole that is not cut up.
    pub const ONE: Self = Self { first: 0, here: 1, total: 1 };

    /// Whether there is only one: sums over shards are then the sums over all.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.total == 1
    }

    /// Which of `n` rows, a multiple of the shards here, are those of shard `index` of them.
    #[must_use]
    pub fn rows(&self, n: usize, index: usize) -> Range<usize> {
        let each = n / self.here;
        index * each..(index + 1) * each
    }
}

/// What a learner needs to know about the ranks that learn with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// The ranks.
    pub world: World,
    /// The shards of all of them.
    pub shards: Shards,
}

impl Default for Sharing {
    /// One rank and one shard.
    fn default() -> Self {
        Self { world: World::default(), shards: Shards::ONE }
    }
}

impl TrainConfig {
    /// The ranks and shards of the run.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        Sharing { world: self.world.clone(), shards: self.shards() }
    }

    /// This run, as seen by a rank of `world`.
    ///
    /// # Errors
    /// Replicas, shards or batches from a replay memory that can't be divided evenly, with the numbers that can.
    pub fn on_rank(mut self, world: World) -> Result<Self> {
        let ranks = world.size();
        let shards = self.run.shards.unwrap_or(ranks);
        if ranks == 1 && shards == 1 {
            // As it was given: a run that never had ranks says nothing of them.
            return Ok(Self { world, ..self });
        }
        let fits = |n: usize| {
            let fits: Vec<String> =
                (1..=n.min(64)).filter(|d| n.is_multiple_of(*d)).map(|d| d.to_string()).collect();
            fits.join(", ")
        };
        if !shards.is_multiple_of(ranks) {
            return Err(Error::Invalid(format!(
                "{ranks} ranks can't share {shards} shards evenly; ranks that can: {}",
                fits(shards)
            )));
        }
        let n = self.run.num_envs;
        if !n.is_multiple_of(shards) {
            return Err(Error::Invalid(format!(
                "num_envs = {n} can't be divided evenly into {shards} shards; shards that fit: {}",
                fits(n)
            )));
        }
        let uneven = |plan: &&PolicyPlan| {
            plan.is_off_policy() && !plan.config.batch_size.is_multiple_of(shards)
        };
        if let Some(PolicyPlan { name, config, .. }) = self.policies.iter().find(uneven) {
            let n = config.batch_size;
            return Err(Error::Invalid(format!(
                "policy \"{name}\": batch_size = {n} can't be divided evenly into {shards} shards; shards that \
                 fit: {}",
                fits(n)
            )));
        }
        (self.world, self.run.shards) = (world, Some(shards));
        Ok(self)
    }

    /// What this rank has, as a run by itself.
    #[must_use]
    pub fn of_this_rank(&self) -> Self {
        let (mut alone, Shards { here, total, .. }) = (self.clone(), self.shards());
        alone.run.num_envs = self.n_envs();
        for plan in alone.policies.iter_mut().filter(|plan| plan.is_off_policy()) {
            let keys = &mut plan.config;
            keys.batch_size = keys.batch_size / total * here;
            keys.buffer_size = keys.buffer_size / total * here;
        }
        (alone.world, alone.run.shards) = (World::default(), None);
        alone
    }

    /// The shards of the run.
    #[must_use]
    pub fn shards(&self) -> Shards {
        let total = self.run.shards.unwrap_or(1).max(1);
        let here = self.world.share(total);
        Shards { first: here.start, here: here.len().max(1), total }
    }

    /// Replicas of this rank.
    #[must_use]
    pub fn n_envs(&self) -> usize {
        self.world.share(self.run.num_envs).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::threads;
    use std::time::Duration;
    use warp_core::toml;

    fn config(text: &str) -> TrainConfig {
        let table = text.parse::<toml::Table>().unwrap();
        TrainConfig::resolve(&table, &warp_envs::registry()).unwrap()
    }

    fn on(config: &TrainConfig, rank: usize, size: usize) -> Result<TrainConfig> {
        let link = threads(size, Duration::from_secs(1)).swap_remove(rank);
        config.clone().on_rank(World::new(rank, size, link))
    }

    #[test]
    fn ranks_have_neighbouring_shares() {
        let config = config("env_id = \"cartpole\"\nnum_envs = 24\nshards = 6");
        let third = on(&config, 2, 3).unwrap();
        assert_eq!((third.n_envs(), third.vec_options().first_replica), (8, 16));
        assert_eq!(third.shards(), Shards { first: 4, here: 2, total: 6 });
        assert_eq!(third.steps_per_iteration(), config.steps_per_iteration());
        let begun = on(
            &TrainConfig {
                run: crate::RunConfig { shards: None, ..config.run.clone() },
                ..config.clone()
            },
            0,
            3,
        );
        assert_eq!(begun.unwrap().run.shards, Some(3));
    }

    #[test]
    fn a_rank_by_itself_has_its_part_of_batches_and_memories() {
        let keys = "num_envs = 24\nalgorithm = \"dqn\"\nbatch_size = 96\nbuffer_size = 1000";
        let config = config(&format!("env_id = \"cartpole\"\n{keys}\nshards = 6"));
        let part = |config: &TrainConfig| {
            let alone = config.of_this_rank();
            let keys = &alone.policies[0].config;
            (alone.n_envs(), keys.batch_size, keys.buffer_size)
        };
        assert_eq!(part(&on(&config, 1, 3).unwrap()), (8, 32, 332));
        assert_eq!(part(&on(&config, 0, 6).unwrap()), (4, 16, 166));
    }

    #[test]
    fn what_does_not_divide_is_named_with_what_fits() {
        for (text, ranks, words) in [
            (
                "num_envs = 24\nshards = 6",
                4,
                "4 ranks can't share 6 shards evenly; ranks that can: 1, 2, 3, 6",
            ),
            (
                "num_envs = 10",
                4,
                "num_envs = 10 can't be divided evenly into 4 shards; shards that fit: 1, 2, 5, 10",
            ),
            (
                "num_envs = 8\nalgorithm = \"dqn\"\nbatch_size = 6",
                4,
                "batch_size = 6 can't be divided evenly into 4 shards; shards that fit: 1, 2, 3, 6",
            ),
        ] {
            let error =
                on(&config(&format!("env_id = \"cartpole\"\n{text}")), 0, ranks).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
