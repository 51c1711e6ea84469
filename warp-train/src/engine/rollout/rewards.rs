//! Mean, largest and smallest reward of a rollout, of agents that were in the game.

use crate::engine::rollout::PolicyRollout;
use std::ops::Range;

/// Rewards as they are learned from, of some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rewards {
    n: f64,
    sum: f64,
    max: f64,
    min: f64,
}

impl Rewards {
    /// Of none.
    const NONE: Self = Self { n: 0.0, sum: 0.0, max: f64::NEG_INFINITY, min: f64::INFINITY };

    /// Of the `rows` of every step.
    pub(super) fn of(rollout: &PolicyRollout, rows: Range<usize>) -> Self {
        let mut all = Self::NONE;
        for (t, step) in rollout.rewards.chunks_exact(rollout.n_rows).enumerate() {
            let weights = rollout.weights.get(rollout.rows(t)).unwrap_or(&[]);
            for row in rows.clone() {
                if weights.get(row).is_none_or(|weight| *weight > 0.0) {
                    all = all.with(Self::one(step[row].into()));
                }
            }
        }
        all
    }

    fn one(reward: f64) -> Self {
        Self { n: 1.0, sum: reward, max: reward, min: reward }
    }

    fn with(self, other: Self) -> Self {
        Self {
            n: self.n + other.n,
            sum: self.sum + other.sum,
            max: self.max.max(other.max),
            min: self.min.min(other.min),
        }
    }

    /// As numbers, to be gathered.
    pub(super) fn numbers(self) -> [f64; 4] {
        [self.n, self.sum, self.max, self.min]
    }

    /// Of several, given by their numbers.
    pub(super) fn together(all: &[[f64; 4]]) -> Self {
        let one = |[n, sum, max, min]: &[f64; 4]| Self { n: *n, sum: *sum, max: *max, min: *min };
        all.iter().map(one).fold(Self::NONE, Self::with)
    }

    /// The figures by their names; none if nobody was in the game.
    pub(super) fn figures(self) -> Vec<(&'static str, f64)> {
        if self.n == 0.0 {
            return Vec::new();
        }
        vec![("mean_reward", self.sum / self.n), ("max_reward", self.max), ("min_reward", self.min)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_to_the_whole() {
        let parts = [1.0, -3.0, 4.0].map(|x| Rewards::one(x).numbers());
        let whole = Rewards::together(&parts);
        let figures = [("mean_reward", 2.0 / 3.0), ("max_reward", 4.0), ("min_reward", -3.0)];
        assert_eq!(whole.figures(), figures);
        assert_eq!(Rewards::together(&[whole.numbers(), Rewards::NONE.numbers()]), whole);
        assert!(Rewards::NONE.figures().is_empty());
    }
}
