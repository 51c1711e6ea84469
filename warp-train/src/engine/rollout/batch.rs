//! From a rollout to minibatches: which samples count, in what order, gathered into one piece.
//!
//! Samples are chosen shard by shard: a minibatch is as many parts as there are shards, each of which is one
//! piece of its shard's order.

use crate::algorithm::PolicyMetrics;
use crate::config::Shards;
use crate::engine::rollout::PolicyRollout;
use crate::error::Result;
use crate::loss::actions::pick_rows;
use crate::loss::gae::Trajectory;
use crate::loss::{Gathered, LossMetrics, Minibatch, Picked};
pub use crate::network::{StepSizes, TrainablePolicy};
use crate::vectors::{Work, run};
use std::ops::Range;
use warp_core::{Draw, philox};

/// The samples of a rollout that count, and room for a minibatch of them.
#[derive(Debug, Default)]
pub struct Samples {
    advantages: Vec<f32>,
    returns: Vec<f32>,
    /// `step * n_rows + row` of each sample, in the order of use; shard by shard.
    orders: Vec<Vec<u32>>,
    /// Advantages of the samples that moments are taken of: read from all over memory once, then in one piece.
    picked_advantages: Vec<f32>,
    gathered: Gathered,
}

/// Places that are drawn before the first of them is needed.
const DRAWN: usize = 64;

/// Blocks of a stream from number `first` on, as vectors.
struct Words<'a> {
    draw: Draw,
    first: u32,
    words: &'a mut [[u32; 4]; DRAWN / 4],
}

impl Work for Words<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (block, words) in (self.first..).zip(self.words) {
            *words = self.draw.block(block);
        }
    }
}

/// Count and moments of some numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// How many there are.
    pub n: f64,
    /// Their mean.
    pub mean: f64,
    /// Sum of the squares of their deviations from it.
    pub squares: f64,
}

impl Moments {
    /// Count and moments of what `numbers` gives, which is asked several times.
    pub fn of<I: Iterator<Item = f64>>(numbers: impl Fn() -> I) -> Self {
        let n = numbers().count() as f64;
        let mean = numbers().sum::<f64>() / n.max(1.0);
        let squares = numbers().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        Self { n, mean, squares }
    }

    /// Count and moments of these numbers and those that `other` is of (Chan, Golub & LeVeque, 1979).
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        if self.n == 0.0 || other.n == 0.0 {
            return if self.n == 0.0 { other } else { self };
        }
        let (n, delta) = (self.n + other.n, other.mean - self.mean);
        Self {
            n,
            mean: self.mean + delta * (other.n / n),
            squares: self.squares + other.squares + delta * delta * (self.n * other.n / n),
        }
    }

    /// What to subtract from numbers, and then to multiply them with, to bring them to mean 0 and (unbiased, as in
    /// CleanRL) deviation 1; nothing for a lone one.
    fn normalising(self) -> Option<[f64; 2]> {
        let Self { n, mean, squares } = self;
        (n >= 2.0).then(|| [mean, 1.0 / ((squares / (n - 1.0)).sqrt() + 1e-8)])
    }

    /// Mean square of the deviations.
    #[must_use]
    pub fn variance(self) -> f64 {
        self.squares / self.n.max(1.0)
    }
}

impl Samples {
    /// Computes advantages and returns with `estimate(trajectory, advantages, returns)` and selects
    /// the samples whose agent was in the game.
    ///
    /// # Errors
    /// As [`TrainablePolicy::values`].
    pub fn fill(
        &mut self,
        policy: &mut dyn TrainablePolicy,
        rollout: &mut PolicyRollout,
        shards: Shards,
        estimate: impl FnOnce(Trajectory<'_>, &mut [f32], &mut [f32]),
    ) -> Result<()> {
        let mut cut = vec![0.0; rollout.truncated.at.len()];
        if !cut.is_empty() {
            policy.values(&rollout.truncated.obs, &mut cut)?;
        }
        for (at, value) in rollout.truncated.at.iter().zip(cut) {
            rollout.truncated_values[*at] = value;
        }
        let cells = rollout.rewards.len();
        self.advantages.resize(cells, 0.0);
        self.returns.resize(cells, 0.0);
        let trajectory = Trajectory {
            n_rows: rollout.n_rows,
            rewards: &rollout.rewards,
            values: &rollout.values[..cells],
            ended: &rollout.ended,
            truncated_values: &rollout.truncated_values,
            last_values: &rollout.values[cells..],
        };
        estimate(trajectory, &mut self.advantages, &mut self.returns);
        let in_game = |cell: &u32| rollout.weights.get(*cell as usize).is_none_or(|w| *w > 0.0);
        self.orders.resize_with(shards.here, Vec::new);
        for (index, order) in self.orders.iter_mut().enumerate() {
            let rows = shards.rows(rollout.n_rows, index);
            let of_step = |step: usize| {
                let first = (step * rollout.n_rows) as u32;
                first + rows.start as u32..first + rows.end as u32
            };
            order.clear();
            order.extend((0..cells / rollout.n_rows).flat_map(of_step).filter(in_game));
        }
        Ok(())
    }

    /// Leaves out the samples of a shard's replicas that are not `selected`; each has `n_agents` rows, and the
    /// shard's begin at `first_row`.
    pub(super) fn select(
        &mut self,
        shard: usize,
        rollout: &PolicyRollout,
        first_row: usize,
        selected: &[bool],
    ) {
        let replica = |cell: u32| (cell as usize % rollout.n_rows - first_row) / rollout.n_agents;
        self.orders[shard].retain(|cell| selected[replica(*cell)]);
    }

    /// Brings the returns of each step to mean 0 and standard deviation 1 over a shard's samples, and takes the
    /// advantages from them anew; a step with a lone sample is left as it is.
    pub(super) fn normalise_returns(&mut self, shard: usize, rollout: &PolicyRollout) {
        let step = |cell: u32| cell as usize / rollout.n_rows;
        for cells in self.orders[shard].chunk_by(|a, b| step(*a) == step(*b)) {
            if cells.len() < 2 {
                continue;
            }
            let moments =
                Moments::of(|| cells.iter().map(|cell| f64::from(self.returns[*cell as usize])));
            for cell in cells.iter().map(|cell| *cell as usize) {
                normalise(&mut self.returns[cell..=cell], moments);
                self.advantages[cell] = self.returns[cell] - rollout.values[cell];
            }
        }
    }

    /// Number of samples of each shard here.
    pub fn counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.orders.iter().map(Vec::len)
    }

    /// Moments of a shard's returns, and of what the values miss of them.
    #[must_use]
    pub fn explained(&self, values: &[f32], shard: usize) -> [Moments; 2] {
        let order = &self.orders[shard];
        let returns = || order.iter().map(|at| f64::from(self.returns[*at as usize]));
        let missed =
            || order.iter().map(|at| f64::from(self.returns[*at as usize] - values[*at as usize]));
        [Moments::of(returns), Moments::of(missed)]
    }

    /// Puts a shard's samples in a random order (Fisher and Yates), by the words of `draw` from its first on,
    /// whatever has been drawn from it before.
    pub fn shuffle(&mut self, shard: usize, draw: Draw) {
        let order = &mut self.orders[shard];
        let (mut words, mut places) = ([[0; 4]; DRAWN / 4], [0; DRAWN]);
        let (mut left, mut drawn) = (order.len(), 0);
        while left > 1 {
            run(Words { draw, first: drawn, words: &mut words });
            drawn += DRAWN as u32 / 4;
            let places = &mut places[..DRAWN.min(left - 1)];
            let bounds = (2..=left as u32).rev();
            for ((place, word), bound) in places.iter_mut().zip(words.as_flattened()).zip(bounds) {
                *place = philox::below(*word, bound) as usize;
            }
            // They lie far apart: a look at all of them brings them to the cache at the same time, not one after the other.
            std::hint::black_box(places.iter().fold(0, |all, place| all ^ order[*place]));
            for place in places {
                left -= 1;
                order.swap(left, *place);
            }
        }
    }

    /// Moments of the advantages of the samples `range` of a shard's current order.
    #[must_use]
    pub fn moments(&mut self, shard: usize, range: Range<usize>) -> Moments {
        let Self { advantages, orders, picked_advantages, .. } = self;
        pick_rows(picked_advantages, advantages, &orders[shard][range], 1);
        Moments::of(|| picked_advantages.iter().map(|x| f64::from(*x)))
    }

    /// The samples `range` of a shard's current order as a piece of a minibatch, whose advantages are brought to
    /// mean 0 and standard deviation 1 by `moments` of all of them; and room for whoever gathers it.
    pub fn picked<'a>(
        &'a mut self,
        rollout: &'a PolicyRollout,
        shard: usize,
        range: Range<usize>,
        moments: Option<Moments>,
    ) -> (Picked<'a>, &'a mut Gathered) {
        let (cells, layout) = (self.returns.len(), &rollout.layout);
        let masked = !rollout.action_mask.is_empty();
        let all = Minibatch {
            observations: &rollout.obs[..cells * rollout.width],
            actions: rollout.actions.view(),
            log_probs: &rollout.log_probs,
            advantages: &self.advantages,
            returns: &self.returns,
            values: &rollout.values[..cells],
            weights: None,
            whole: None,
            action_mask: masked.then(|| &rollout.action_mask[..cells * layout.mask_width()]),
        };
        let rows = Some(&self.orders[shard][range]);
        let normalised = moments.and_then(Moments::normalising);
        let picked = Picked { all, rows, normalised, width: rollout.width, layout };
        (picked, &mut self.gathered)
    }
}

/// Mean 0 and deviation 1 by `moments`; a lone sample is left as it is.
fn normalise(numbers: &mut [f32], moments: Moments) {
    if let Some([mean, scale]) = moments.normalising() {
        numbers.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) * scale) as f32);
    }
}

impl PolicyMetrics {
    /// Adds a minibatch's figures.
    pub(crate) fn add(&mut self, seen: &LossMetrics) {
        self.loss += seen.loss;
        self.policy_loss += seen.policy_loss;
        self.value_loss += seen.value_loss;
        self.entropy += seen.entropy;
        self.approx_kl += seen.approx_kl;
        self.clip_fraction += seen.clip_fraction;
    }

    /// Turns sums over `n` minibatches into means.
    pub(crate) fn divide(&mut self, n: usize) {
        let n = n.max(1) as f64;
        for figure in [
            &mut self.loss,
            &mut self.policy_loss,
            &mut self.value_loss,
            &mut self.entropy,
            &mut self.approx_kl,
            &mut self.clip_fraction,
            &mut self.grad_norm,
        ] {
            *figure /= n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::Purpose;

    #[test]
    fn shuffling_permutes() {
        let mut samples = Samples { orders: vec![(0..1000).collect()], ..Samples::default() };
        samples.shuffle(0, Draw::new(1, 0, 0, Purpose::Shuffle));
        let order = &mut samples.orders[0];
        assert_ne!(*order, (0..1000).collect::<Vec<_>>());
        let moved = order.iter().enumerate().filter(|(i, at)| *i as u32 != **at).count();
        assert!(moved > 950, "{moved}");
        order.sort_unstable();
        assert_eq!(*order, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn shuffling_swaps_with_one_place_after_the_other() {
        for n in [0, 1, 2, 63, 64, 65, 66, 1000] {
            let draw = Draw::new(n.into(), 3, 0, Purpose::Shuffle);
            let mut samples = Samples { orders: vec![(0..n).collect()], ..Samples::default() };
            samples.shuffle(0, draw);
            let (mut one_by_one, mut draw) = ((0..n).collect::<Vec<_>>(), draw);
            for i in (1..n).rev() {
                one_by_one.swap(i as usize, draw.below(i + 1) as usize);
            }
            assert_eq!(samples.orders[0], one_by_one);
        }
    }

    /// Four replicas, three steps; what is left out stays as it is.
    #[test]
    fn returns_are_normalised_step_by_step_over_what_is_selected() {
        let text = "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 3";
        let config = crate::TrainConfig::resolve(&text.parse().unwrap(), &warp_envs::registry());
        let config = config.unwrap();
        let mut rollout = PolicyRollout::new(&config.policies[0], &config, 0);
        rollout.values.fill(0.5);
        let returns: Vec<f32> = (0..12).map(|cell| (cell * cell) as f32).collect();
        let orders = vec![(0..12).collect()];
        let mut samples =
            Samples { advantages: vec![9.0; 12], returns, orders, ..Samples::default() };
        samples.select(0, &rollout, 0, &[true, false, true, true]);
        assert_eq!(samples.orders[0], [0, 2, 3, 4, 6, 7, 8, 10, 11]);
        samples.normalise_returns(0, &rollout);
        for step in [[0, 2, 3], [4, 6, 7], [8, 10, 11]] {
            let squares = step.map(|cell| (cell * cell) as f64);
            let mean = squares.iter().sum::<f64>() / 3.0;
            let deviation = squares.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2.0;
            for (cell, x) in step.into_iter().zip(squares) {
                let expected = (x - mean) / deviation.sqrt();
                assert!((f64::from(samples.returns[cell]) - expected).abs() < 1e-6);
                assert_eq!(samples.advantages[cell], samples.returns[cell] - 0.5);
            }
        }
        assert_eq!((samples.returns[5], samples.advantages[5]), (25.0, 9.0));
    }

    #[test]
    fn normalised_numbers_have_mean_0_and_deviation_1() {
        let of = |numbers: &[f32]| Moments::of(|| numbers.iter().map(|x| f64::from(*x)));
        let mut numbers = [1.0, 2.0, 3.0, 6.0];
        let moments = of(&numbers);
        normalise(&mut numbers, moments);
        assert!(numbers.iter().sum::<f32>().abs() < 1e-6);
        assert!((numbers.iter().map(|x| x * x).sum::<f32>() / 3.0 - 1.0).abs() < 1e-6);
        let mut lone = [5.0];
        let moments = of(&lone);
        normalise(&mut lone, moments);
        assert_eq!(lone, [5.0]);
    }

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let numbers: Vec<f64> = (0..997).map(|i| (f64::from(i) * 0.7).sin() * 3.0 + 1e3).collect();
        let whole = Moments::of(|| numbers.iter().copied());
        let parts = numbers.chunks(251).map(|part| Moments::of(|| part.iter().copied()));
        let merged = parts.fold(Moments::default(), Moments::with);
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * a.abs(), "{a} {b}");
        assert_eq!(whole.n, merged.n);
        close(whole.mean, merged.mean);
        close(whole.squares, merged.squares);
        assert_eq!(Moments::default().with(whole), whole);
        assert_eq!(whole.with(Moments::default()), whole);
    }
}
