//! Random numbers of one replica at one step, as a function of what they are for.
//!
//! A [`Draw`] names a stream by (seed, replica, agent, step, [`Purpose`]); the n-th number of a stream is word
//! n mod 4 of the Philox block n / 4. There is no state to seed, store or pass on: the five names determine
//! the numbers, on any thread and any device. `draw.cuh` ([`DRAW_CUH`]) is its counterpart in CUDA C++.

use crate::math;
use crate::philox::{self, philox4x32_10, uniform_f32};
use std::f32::consts::TAU;

/// [`Draw`] in CUDA C++: `struct WarpDraw`, `warp_draw`, `warp_draw_uniform` and so on.
pub const DRAW_CUH: &str = include_str!("draw.cuh");

/// The purpose of a random number; the top byte of the fourth counter word, so different purposes never share
/// numbers.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Start states.
    Reset = 1,
    /// Chance inside an environment's step.
    Step = 2,
    /// Actions sampled from a policy.
    Action = 3,
    /// Actions sampled without a policy.
    RandomAction = 4,
    /// The order of samples in an update.
    Shuffle = 5,
    /// Initial parameters.
    Initialise = 6,
    /// Exploration noise that is added to an action.
    Noise = 7,
    /// The choice of samples of a replay memory for a batch.
    Replay = 8,
    /// Random numbers used while learning from a batch.
    Learn = 9,
}

/// Counter-based random numbers of one replica at one step.
///
/// Key = seed (64 bits, low word first); counter = (global replica, agent, step, purpose << 24 | block), where
/// block = index of the number / 4. Nothing is computed before the first number, and then one block per four
/// numbers. A stream has 2^26 numbers; after that it repeats.
///
/// ```
/// use warp_core::{Draw, Purpose};
/// let mut draw = Draw::new(42, 7, 0, Purpose::Reset);
/// let position = draw.uniform_in(-0.05, 0.05);
/// assert!((-0.05..=0.05).contains(&position));
/// assert_eq!(position, Draw::new(42, 7, 0, Purpose::Reset).uniform_in(-0.05, 0.05));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    key: [u32; 2],
    counter: [u32; 4],
    index: u32,
    block: [u32; 4],
    /// The number of the block that is held; `NONE` before the first.
    held: u32,
}

/// No block: a stream has 2^24 of them.
const NONE: u32 = u32::MAX;

impl Draw {
    /// The stream of agent 0 of a replica (numbered over all devices) at a step of the run.
    #[inline(always)]
    pub fn new(seed: u64, replica: u32, step: u32, purpose: Purpose) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        let counter = [replica, 0, step, (purpose as u32) << 24];
        Self { key, counter, index: 0, block: [0; 4], held: NONE }
    }

    /// The stream of one agent, from its first number.
    #[inline(always)]
    pub fn agent(&self, agent: u32) -> Self {
        let mut counter = self.counter;
        counter[1] = agent;
        Self { counter, index: 0, held: NONE, ..*self }
    }

    /// Words 4 `block` to 4 `block` + 3 of the stream, without a change of its position.
    ///
    /// For loops over many streams, which vectorise without the state of [`Draw::next_u32`].
    #[inline(always)]
    pub fn block(&self, block: u32) -> [u32; 4] {
        let [replica, agent, step, purpose] = self.counter;
        philox4x32_10([replica, agent, step, purpose | (block & 0x00ff_ffff)], self.key)
    }

    /// This stream from its first number, given the result of [`Draw::block`] for block 0: for code that
    /// computes the blocks of many streams at once.
    #[inline(always)]
    pub fn with_first_block(&self, block: [u32; 4]) -> Self {
        Self { index: 0, block, held: 0, ..*self }
    }

    /// The next 32 random bits.
    #[inline(always)]
    pub fn next_u32(&mut self) -> u32 {
        let lane = self.index & 3;
        if lane == 0 && self.held != self.index >> 2 {
            self.held = self.index >> 2;
            self.block = self.block(self.held);
        }
        self.index = self.index.wrapping_add(1);
        self.block[lane as usize]
    }

    /// A multiple of 2^-24 in [0, 1).
    #[inline(always)]
    pub fn uniform(&mut self) -> f32 {
        uniform_f32(self.next_u32())
    }

    /// A number in [low, high]; `high` itself only occurs through rounding.
    #[inline(always)]
    pub fn uniform_in(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// An integer in 0..n (0 for n = 0). The probability of a value differs from 1/n by at most 2^-32, that
    /// is, by a fraction n / 2^32.
    #[inline(always)]
    pub fn below(&mut self, n: u32) -> u32 {
        philox::below(self.next_u32(), n)
    }

    /// A standard normal sample, within [-5.77, 5.77]; uses two numbers of the stream.
    ///
    /// Box and Muller's cosine form; its sine would cost a state that the lanes of a GPU do not
    /// share.
    #[inline(always)]
    pub fn normal(&mut self) -> f32 {
        // In (0, 1], so that the logarithm is finite.
        let u = 1.0 - self.uniform();
        let angle = TAU * self.uniform();
        math::sqrt(-2.0 * math::ln(u)) * math::cos(angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(mut draw: Draw, n: usize) -> Vec<u32> {
        (0..n).map(|_| draw.next_u32()).collect()
    }

    /// Sum of (observed - expected)^2 / expected over equally likely cells.
    fn chi_square(counts: &[u32]) -> f64 {
        let expected = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
        counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum()
    }

    /// Chi-square's mean and four standard deviations for `cells` cells.
    fn chi_square_bound(cells: usize) -> f64 {
        let freedom = (cells - 1) as f64;
        freedom + 4.0 * (2.0 * freedom).sqrt()
    }

    #[test]
    fn words_are_the_blocks_of_philox_in_order() {
        let seed = 0x0123_4567_89ab_cdef;
        let drawn = words(Draw::new(seed, 11, 22, Purpose::Action).agent(33), 10);
        let block = |b: u32| philox4x32_10([11, 33, 22, (3 << 24) | b], [0x89ab_cdef, 0x0123_4567]);
        let expected: Vec<u32> = (0..3).flat_map(block).take(10).collect();
        assert_eq!(drawn, expected);
        let stream = Draw::new(seed, 11, 22, Purpose::Action).agent(33);
        assert_eq!(stream.block(1), drawn[4..8]);
        let begun = stream.with_first_block(stream.block(0));
        assert_eq!(words(begun, 10), drawn);
        assert_eq!(words(begun.agent(34), 6), words(stream.agent(34), 6));
    }

    #[test]
    fn agent_starts_from_its_first_draw_whatever_was_drawn() {
        let fresh = Draw::new(1, 2, 3, Purpose::Step);
        let mut used = fresh;
        for n in 0..9 {
            assert_eq!(words(used.agent(5), 6), words(fresh.agent(5), 6), "after {n} draws");
            used.next_u32();
        }
        assert_eq!(words(fresh.agent(0), 6), words(fresh, 6));
    }

    #[test]
    fn streams_that_differ_in_one_name_share_nothing() {
        let new = Draw::new;
        let streams = [
            new(1, 2, 3, Purpose::Step),
            new(2, 2, 3, Purpose::Step),
            new(1 | (1 << 32), 2, 3, Purpose::Step),
            new(1, 3, 3, Purpose::Step),
            new(1, 2, 4, Purpose::Step),
            new(1, 2, 3, Purpose::Reset),
            new(1, 2, 3, Purpose::Step).agent(1),
        ];
        let mut all: Vec<u32> = streams.iter().flat_map(|s| words(*s, 1_000)).collect();
        all.sort_unstable();
        all.dedup();
        // 7,000 random words collide 0.006 times on average.
        assert!(all.len() >= 6_999, "{} different words", all.len());
    }

    /// Neighbouring streams, as replicas and steps are used, must not be correlated.
    #[test]
    fn neighbouring_streams_are_uncorrelated() {
        type Stream = fn(u32) -> Draw;
        let streams: [Stream; 3] = [
            |i| Draw::new(9, i, 0, Purpose::Step),
            |i| Draw::new(9, 0, i, Purpose::Step),
            |i| Draw::new(9, 0, 0, Purpose::Step).agent(i),
        ];
        for stream in streams {
            let x: Vec<f64> = (0..20_001).map(|i| f64::from(stream(i).uniform()) - 0.5).collect();
            let product: f64 = x.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / 20_000.0;
            // Of independent values: mean 0, standard deviation 1 / 12 / sqrt(n).
            assert!(product.abs() < 4.0 / 12.0 / 20_000f64.sqrt(), "{product}");
        }
    }

    #[test]
    fn uniform_fills_its_cells_evenly() {
        let mut cells = [0; 256];
        let mut pairs = [0; 256];
        for replica in 0..1_000 {
            let mut draw = Draw::new(7, replica, 1, Purpose::Reset);
            for _ in 0..128 {
                let (a, b) = (draw.uniform(), draw.uniform());
                assert!((0.0..1.0).contains(&a) && (0.0..1.0).contains(&b));
                cells[(a * 256.0) as usize] += 1;
                pairs[(a * 16.0) as usize * 16 + (b * 16.0) as usize] += 1;
            }
        }
        assert!(chi_square(&cells) < chi_square_bound(256), "{}", chi_square(&cells));
        assert!(chi_square(&pairs) < chi_square_bound(256), "{}", chi_square(&pairs));
    }

    #[test]
    fn uniform_in_keeps_to_its_range() {
        let mut draw = Draw::new(3, 0, 0, Purpose::Step);
        let x: Vec<f32> = (0..10_000).map(|_| draw.uniform_in(-0.05, 0.05)).collect();
        assert!(x.iter().all(|x| (-0.05..=0.05).contains(x)));
        assert!(x.iter().any(|x| *x < -0.0499) && x.iter().any(|x| *x > 0.0499));
    }

    #[test]
    fn below_is_even_for_any_bound() {
        for n in [1, 2, 3, 7, 10, 100] {
            let mut draw = Draw::new(5, n, 0, Purpose::RandomAction);
            let mut counts = vec![0; n as usize];
            (0..50_000).for_each(|_| counts[draw.below(n) as usize] += 1);
            assert!(chi_square(&counts) <= chi_square_bound(n as usize), "{n}: {counts:?}");
        }
        let mut draw = Draw::new(5, 0, 0, Purpose::Step);
        assert_eq!(draw.below(0), 0);
        assert!((0..1_000).any(|_| draw.below(u32::MAX) > 1 << 31));
    }

    #[test]
    fn normal_has_the_moments_of_the_standard_normal() {
        let n = 200_000;
        let mut draw = Draw::new(13, 0, 0, Purpose::Noise);
        let x: Vec<f64> = (0..n).map(|_| f64::from(draw.normal())).collect();
        let moment = |k: i32| x.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        // Each bound is four standard deviations of the moment.
        let bounds =
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0), (6, 15.0, 10_170.0)];
        for (k, expected, variance) in bounds {
            let bound = 4.0 * (f64::sqrt(variance) / f64::from(n).sqrt());
            assert!((moment(k) - expected).abs() < bound, "moment {k}: {}", moment(k));
        }
        let beyond = |z: f64| x.iter().filter(|x| x.abs() > z).count() as f64 / f64::from(n);
        assert!((beyond(1.0) - 0.3173).abs() < 0.005 && (beyond(3.0) - 0.0027).abs() < 0.0005);
        assert!(x.iter().all(|x| x.abs() <= 5.77));
    }
}
