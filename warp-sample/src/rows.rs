//! The random stream of each row of a batch.
//!
//! A row is one agent of one replica at one step. Its random numbers depend only on these names and not
//! on its place in the batch, so a batch may be divided into shards, threads or devices without changing
//! any action.

use crate::error::{Error, Result};
use crate::head::{LANES, Lanes, filled};
use std::f32::consts::TAU;
use warp_core::philox::uniform_f32;
use warp_core::{Draw, Purpose, math};

/// Whether actions are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Drawn from the distribution.
    Sample,
    /// The first choice whose logit is largest among those allowed, or the mean of a Gaussian;
    /// nothing is drawn.
    Greedy,
}

/// Names of the rows of a batch, which is stored as `[n_replicas, n_agents]` and belongs to one
/// step.
///
/// ```
/// use warp_sample::Rows;
/// // The second of two shards of 64 replicas, with three agents each.
/// let rows = Rows { first_replica: 64, n_agents: 3, ..Rows::new(42, 0) };
/// assert_eq!((rows.replica(5), rows.agent(5)), (65, 2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Seed of the run.
    pub seed: u64,
    /// Step of the run, counted over episodes.
    pub step: u32,
    /// Global index of the first row's replica.
    pub first_replica: u32,
    /// Number of the first row's agent within its replica.
    pub first_agent: u32,
    /// Agents per replica in this batch, at least 1.
    pub n_agents: u32,
}

impl Rows {
    /// Rows of single-agent replicas, numbered from 0.
    pub fn new(seed: u64, step: u32) -> Self {
        Self { seed, step, first_replica: 0, first_agent: 0, n_agents: 1 }
    }

    /// Global index of a row's replica.
    ///
    /// # Panics
    ///
    /// If `n_agents` is 0.
    #[inline]
    pub fn replica(&self, row: usize) -> u32 {
        self.first_replica.wrapping_add(row as u32 / self.n_agents)
    }

    /// Number of a row's agent within its replica.
    ///
    /// # Panics
    ///
    /// If `n_agents` is 0.
    #[inline]
    pub fn agent(&self, row: usize) -> u32 {
        self.first_agent.wrapping_add(row as u32 % self.n_agents)
    }

    /// The stream of an agent, from its first number.
    #[inline(always)]
    pub(crate) fn stream(&self, replica: u32, agent: u32, purpose: Purpose) -> Draw {
        Draw::new(self.seed, replica, self.step, purpose).agent(agent)
    }
    /// Uniform numbers 4 `block` to 4 `block` + 3 of `n` rows' streams for [`Purpose::Action`].
    pub(crate) fn uniform_lanes(&self, first_row: usize, n: usize, block: usize) -> [Lanes; 4] {
        let (mut replicas, mut agents) = ([0; LANES], [0; LANES]);
        for row in 0..n {
            (replicas[row], agents[row]) =
                (self.replica(first_row + row), self.agent(first_row + row));
        }
        let mut uniforms = [[0.0; LANES]; 4];
        for i in 0..filled(n) {
            let stream = self.stream(replicas[i], agents[i], Purpose::Action);
            for (word, uniform) in stream.block(block as u32).into_iter().zip(&mut uniforms) {
                uniform[i] = uniform_f32(word);
            }
        }
        uniforms
    }

    /// Normal numbers 2 `pair` and 2 `pair` + 1 of `n` rows' streams: the bits of [`warp_core::Draw`]'s.
    pub(crate) fn normal_lanes(&self, first_row: usize, n: usize, pair: usize) -> [Lanes; 2] {
        let uniforms = self.uniform_lanes(first_row, n, pair);
        let mut normals = [[0.0; LANES]; 2];
        for (half, normals) in normals.iter_mut().enumerate() {
            let (radius, angle) = (&uniforms[2 * half], &uniforms[2 * half + 1]);
            for i in 0..filled(n) {
                let distance = math::sqrt(-2.0 * math::ln(1.0 - radius[i]));
                normals[i] = distance * math::cos(TAU * angle[i]);
            }
        }
        normals
    }
}

/// Whether an array has `per_row` elements for each of so many rows.
pub(crate) fn check_length(
    array: &'static str,
    found: usize,
    per_row: usize,
    rows: usize,
) -> Result<()> {
    let expected = per_row.saturating_mul(rows);
    if found == expected { Ok(()) } else { Err(Error::Length { array, found, expected, rows }) }
}
