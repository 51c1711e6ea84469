//! Random draws of one replica at one step, as a function of what they are for.
//!
//! A [`Draw`] names a stream by (seed, replica, agent, step, [`Purpose`]); the n-th number of a stream is
//! word n mod 4 of the Philox block n / 4. There is no state to seed, store or hand on: whoever knows the
//! five names, on whichever thread or device, draws the same numbers. `draw.cuh` ([`DRAW_CUH`]) is the twin in CUDA C++.

use crate::math;
use crate::philox::{philox4x32_10, uniform_f32};
use std::f32::consts::TAU;

/// The same in CUDA C++: `struct WarpDraw`, `warp_draw`, `warp_draw_uniform` and so on.
pub const DRAW_CUH: &str = include_str!("draw.cuh");

/// What a draw is for; the top byte of the fourth counter word, so different purposes never share numbers.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Start states.
    Reset = 1,
    /// Chance inside an environment's step.
    Step = 2,
    /// Actions drawn from a policy.
    Action = 3,
    /// Actions drawn without a policy.
    RandomAction = 4,
    /// The order of samples in an update.
    Shuffle = 5,
    /// Initial parameters.
    Initialise = 6,
    /// Exploration noise that is added to an action.
    Noise = 7,
}

/// Counter-based draws of one replica at one step.
///
/// Key = seed (64 bits, low word first); counter = (global replica, agent, step, purpose << 24 | block), where
/// block = index of the draw / 4. Nothing is computed before the first draw, and then one block per four draws.
/// A stream has 2^26 draws; after that it starts over.
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
}

impl Draw {
    /// The stream of agent 0 of a replica (numbered over all devices) at a step of the run.
    #[inline(always)]
    pub fn new(seed: u64, replica: u32, step: u32, purpose: Purpose) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        let counter = [replica, 0, step, (purpose as u32) << 24];
        Self { key, counter, index: 0, block: [0; 4] }
    }

    /// The stream of one agent, from its first draw.
    #[inline(always)]
    pub fn agent(&self, agent: u32) -> Self {
        let mut counter = self.counter;
        counter[1] = agent;
        Self { counter, index: 0, ..*self }
    }

    /// The next 32 random bits.
    #[inline(always)]
    pub fn next_u32(&mut self) -> u32 {
        let lane = self.index & 3;
        if lane == 0 {
            let block = (self.index >> 2) & 0x00ff_ffff;
            let [replica, agent, step, purpose] = self.counter;
            self.block = philox4x32_10([replica, agent, step, purpose | block], self.key);
        }
        self.index = self.index.wrapping_add(1);
        self.block[lane as usize]
    }

    /// A multiple of 2^-24 in [0, 1).
    #[inline(always)]
    pub fn uniform(&mut self) -> f32 {
        uniform_f32(self.next_u32())
    }

    /// A number in [low, high]; `high` itself comes up only where rounding yields it.
    #[inline(always)]
    pub fn uniform_in(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// An integer in 0..n (0 for n = 0). No value is more or less likely than 1/n by more than 2^-32, that is,
    /// by a fraction n / 2^32.
    #[inline(always)]
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// A standard normal number, inside [-5.77, 5.77]; takes two draws of the stream.
    ///
    /// Box and Muller's cosine form; its sine would cost a state that the lanes of a GPU do not share.
    #[inline(always)]
    pub fn normal(&mut self) -> f32 {
        // In (0, 1], so that the logarithm is finite.
        let u = 1.0 - self.uniform();
        let angle = TAU * self.uniform();
        math::sqrt(-2.0 * math::ln(u)) * math::cos(angle)
    }
}

#[cfg(test)]
mod tests;
