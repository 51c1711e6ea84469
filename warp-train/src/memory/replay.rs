//! A replay memory: the last transitions of every acting row, from which batches are sampled.
//!
//! A ring of steps: step after step of all rows, the oldest overwritten. An n-step transition is assembled
//! when it is sampled, and stops at the end of an episode or at the newest step.

use super::priorities::Priorities;
use crate::error::Result;
use std::ops::Range;
use warp_core::{Draw, Purpose};

/// The episode goes on.
pub(crate) const GOES_ON: u8 = 0;
/// The game is over: nothing follows.
pub(crate) const TERMINATED: u8 = 1;
/// A time limit cut the episode: its last observation has a value.
pub(crate) const TRUNCATED: u8 = 2;
/// Draws for a sample until one of an agent that was in the game is found.
const MOST_DRAWS: u32 = 16;

/// How wide transitions are, and how many rows act at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingShape {
    /// Rows that act at a time.
    pub n_rows: usize,
    /// Numbers per observation.
    pub obs: usize,
    /// Numbers per action.
    pub action: usize,
    /// Choices per mask; 0 without masks.
    pub mask: usize,
}

/// One step of all rows, row-major.
#[derive(Debug, Clone, Copy)]
pub struct Transition<'a> {
    /// What was seen, f32 `[n_rows, obs]`.
    pub obs: &'a [f32],
    /// What was done, f32 `[n_rows, action]`.
    pub action: &'a [f32],
    /// f32 `[n_rows]`.
    pub reward: &'a [f32],
    /// What was seen afterwards, the last observation of an episode that ended included.
    pub next_obs: &'a [f32],
    /// 0, or 1 for terminated, or 2 for truncated, u8 `[n_rows]`.
    pub ends: &'a [u8],
    /// 1 for an agent that was in the game, else 0, u8 `[n_rows]`.
    pub alive: &'a [u8],
    /// Allowed actions, u8 `[n_rows, mask]`.
    pub mask: &'a [u8],
    /// Allowed actions afterwards, those of the last observation if the episode was truncated; all where it
    /// terminated.
    pub next_mask: &'a [u8],
}

impl<'a> Transition<'a> {
    /// The transition of some rows alone.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let n_rows = self.reward.len();
        Self {
            obs: part(self.obs, n_rows, &rows),
            action: part(self.action, n_rows, &rows),
            reward: part(self.reward, n_rows, &rows),
            next_obs: part(self.next_obs, n_rows, &rows),
            ends: part(self.ends, n_rows, &rows),
            alive: part(self.alive, n_rows, &rows),
            mask: part(self.mask, n_rows, &rows),
            next_mask: part(self.next_mask, n_rows, &rows),
        }
    }
}

/// How batches are sampled.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// The run's seed.
    pub seed: u64,
    /// Number of the batch.
    pub batch: u32,
    /// Number of the first row among those of the batch of all shards.
    pub first_row: u32,
    /// Number of the policy.
    pub policy: u32,
    /// Steps whose rewards are summed.
    pub n_step: usize,
    /// Discount per step.
    pub gamma: f32,
}

/// Where a batch goes, f32 `[rows, width]` each.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Observations.
    pub obs: &'a mut [f32],
    /// Actions.
    pub action: &'a mut [f32],
    /// Discounted sums of rewards.
    pub reward: &'a mut [f32],
    /// What the value of `next_obs` counts for.
    pub discount: &'a mut [f32],
    /// Observations afterwards.
    pub next_obs: &'a mut [f32],
    /// Masks, or nothing.
    pub mask: &'a mut [f32],
    /// Masks afterwards, or nothing.
    pub next_mask: &'a mut [f32],
    /// Whether each sample counts: 1, or 0 for an agent that had left.
    pub weight: &'a mut [f32],
}

impl Batch<'_> {
    /// Room for some of the samples, by their numbers in the batch.
    pub fn rows(&mut self, rows: Range<usize>) -> Batch<'_> {
        let n_rows = self.reward.len();
        Batch {
            obs: part_mut(self.obs, n_rows, &rows),
            action: part_mut(self.action, n_rows, &rows),
            reward: part_mut(self.reward, n_rows, &rows),
            discount: part_mut(self.discount, n_rows, &rows),
            next_obs: part_mut(self.next_obs, n_rows, &rows),
            mask: part_mut(self.mask, n_rows, &rows),
            next_mask: part_mut(self.next_mask, n_rows, &rows),
            weight: part_mut(self.weight, n_rows, &rows),
        }
    }
}

/// The memory, time-major `[steps, n_rows, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    pub(super) shape: RingShape,
    pub(super) n_steps: usize,
    /// Where the next step is written.
    pub(super) head: usize,
    /// Steps that are there.
    pub(super) size: usize,
    pub(super) obs: Vec<f32>,
    pub(super) next_obs: Vec<f32>,
    pub(super) action: Vec<f32>,
    pub(super) reward: Vec<f32>,
    pub(super) ends: Vec<u8>,
    pub(super) alive: Vec<u8>,
    pub(super) mask: Vec<u8>,
    pub(super) next_mask: Vec<u8>,
    /// By place; none where all are equally likely.
    pub(super) priorities: Option<Priorities>,
    /// Places of the samples of the last batch.
    pub(super) sampled: Vec<usize>,
}

impl Ring {
    /// Steps of all rows that `capacity` transitions are; at least one.
    #[must_use]
    pub fn steps(capacity: usize, n_rows: usize) -> usize {
        (capacity / n_rows.max(1)).max(1)
    }

    /// Bytes that a ring takes.
    #[must_use]
    pub fn bytes(capacity: usize, shape: RingShape) -> u128 {
        let RingShape { n_rows, obs, action, mask } = shape;
        let row = 4 * (2 * obs + action + 1) + 2 + 2 * mask;
        (Self::steps(capacity, n_rows) as u128).saturating_mul(n_rows as u128 * row as u128)
    }

    /// An empty memory of `capacity` transitions, rounded down to whole steps of all rows.
    ///
    /// # Errors
    /// Too little memory, or more transitions than 32 bits can number.
    pub fn new(capacity: usize, shape: RingShape) -> Result<Self> {
        let RingShape { n_rows, obs, action, mask } = shape;
        let n_steps = Self::steps(capacity, n_rows);
        let cells = n_steps.saturating_mul(n_rows);
        if cells > u32::MAX as usize {
            let reason = format!("transitions are numbered with 32 bits, but these are {cells}");
            return Err(warp_core::Error::invalid("buffer_size", capacity, &reason).into());
        }
        let what = format!("a replay memory of {cells} transitions");
        warp_data::memory::check(&what, Self::bytes(capacity, shape), "buffer_size")?;
        Ok(Self {
            shape,
            n_steps,
            head: 0,
            size: 0,
            obs: vec![0.0; cells * obs],
            next_obs: vec![0.0; cells * obs],
            action: vec![0.0; cells * action],
            reward: vec![0.0; cells],
            ends: vec![GOES_ON; cells],
            alive: vec![0; cells],
            mask: vec![0; cells * mask],
            next_mask: vec![0; cells * mask],
            priorities: None,
            sampled: Vec::new(),
        })
    }

    /// This memory, from which samples are drawn by their priorities.
    ///
    /// # Errors
    /// Too little memory.
    pub fn prioritised(self) -> Result<Self> {
        let cells = self.n_steps * self.shape.n_rows;
        let what = format!("priorities of {cells} transitions");
        warp_data::memory::check(&what, Priorities::bytes(cells), "buffer_size")?;
        Ok(Self { priorities: Some(Priorities::new(cells)), ..self })
    }

    /// Transitions that are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.size * self.shape.n_rows
    }

    /// Whether nothing has been stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Stores a step, in the place of the oldest once the memory is full.
    pub fn store(&mut self, step: &Transition<'_>) {
        let at = self.head * self.shape.n_rows;
        put(&mut self.obs, at, self.shape.obs, step.obs);
        put(&mut self.next_obs, at, self.shape.obs, step.next_obs);
        put(&mut self.action, at, self.shape.action, step.action);
        put(&mut self.reward, at, 1, step.reward);
        put(&mut self.ends, at, 1, step.ends);
        put(&mut self.alive, at, 1, step.alive);
        put(&mut self.mask, at, self.shape.mask, step.mask);
        put(&mut self.next_mask, at, self.shape.mask, step.next_mask);
        if let Some(priorities) = &mut self.priorities {
            for (row, alive) in step.alive.iter().enumerate() {
                let priority = if *alive > 0 { priorities.largest() } else { 0.0 };
                priorities.set(at + row, priority);
            }
        }
        self.head = (self.head + 1) % self.n_steps;
        self.size = (self.size + 1).min(self.n_steps);
    }

    /// Draws a batch, each sample from all that is there; nothing if there is nothing.
    pub fn sample(&mut self, sampling: &Sampling, batch: &mut Batch<'_>) {
        if self.is_empty() {
            return;
        }
        let n = batch.reward.len();
        self.sampled.clear();
        for row in 0..n {
            let number = sampling.first_row + row as u32;
            let draw = Draw::new(sampling.seed, number, sampling.batch, Purpose::Replay);
            let draw = draw.agent(sampling.policy);
            let (step, agent) = match &self.priorities {
                Some(priorities) => self.sample_by_priority(priorities, draw, row, n),
                None => self.sample_uniformly(draw),
            };
            let place = self.place(step) * self.shape.n_rows + agent;
            batch.weight[row] = f32::from(self.alive[place]);
            self.sampled.push(place);
            self.gather(step, agent, sampling, row, batch);
        }
    }

    /// Makes new priorities of the last batch's samples from their errors, f32 `[n]`.
    pub fn update_priorities(&mut self, errors: &[f32], alpha: f32) {
        let Some(priorities) = &mut self.priorities else { return };
        for (place, error) in self.sampled.iter().zip(errors) {
            // What has left the game stays out of it.
            if self.alive[*place] > 0 {
                priorities.update(*place, *error, alpha);
            }
        }
    }

    /// A step and a row whose priority holds a place within slice `row` of `n`.
    fn sample_by_priority(
        &self,
        priorities: &Priorities,
        mut draw: Draw,
        row: usize,
        n: usize,
    ) -> (usize, usize) {
        let slice = priorities.total() / n as f32;
        let place = priorities.find((row as f32 + draw.uniform()) * slice);
        let n_rows = self.shape.n_rows;
        // From a place to a step counted from the oldest: the reverse of `place`.
        let oldest = self.head + self.n_steps - self.size;
        let step = (place / n_rows + 2 * self.n_steps - oldest) % self.n_steps;
        (step.min(self.size - 1), place % n_rows)
    }

    /// A step, counted from the oldest, and a row, whose agent was in the game if any try finds one.
    fn sample_uniformly(&self, mut draw: Draw) -> (usize, usize) {
        let n_rows = self.shape.n_rows;
        let (mut step, mut row) = (0, 0);
        for _ in 0..MOST_DRAWS {
            let at = draw.below(self.len() as u32) as usize;
            (step, row) = (at / n_rows, at % n_rows);
            if self.alive[self.place(step) * n_rows + row] != 0 {
                break;
            }
        }
        (step, row)
    }

    /// Where step number `step`, counted from the oldest, lies.
    fn place(&self, step: usize) -> usize {
        (self.head + self.n_steps - self.size + step) % self.n_steps
    }

    /// Puts the transition that begins with `step` of `agent` into row `row` of the batch.
    fn gather(
        &self,
        step: usize,
        agent: usize,
        sampling: &Sampling,
        row: usize,
        batch: &mut Batch<'_>,
    ) {
        let RingShape { n_rows, obs, action, mask } = self.shape;
        let first = self.place(step) * n_rows + agent;
        take(batch.obs, row, &self.obs, first, obs);
        take(batch.action, row, &self.action, first, action);
        take_flags(batch.mask, row, &self.mask, first, mask);
        let (mut sum, mut factor, mut last) = (0.0, 1.0, first);
        for ahead in step..self.size.min(step + sampling.n_step) {
            last = self.place(ahead) * n_rows + agent;
            sum += factor * self.reward[last];
            factor *= sampling.gamma;
            if self.ends[last] != GOES_ON {
                break;
            }
        }
        batch.reward[row] = sum;
        batch.discount[row] = if self.ends[last] == TERMINATED { 0.0 } else { factor };
        take(batch.next_obs, row, &self.next_obs, last, obs);
        take_flags(batch.next_mask, row, &self.next_mask, last, mask);
    }
}

/// Some rows of an array of `n_rows`, however wide they are.
fn part<'a, T>(of: &'a [T], n_rows: usize, rows: &Range<usize>) -> &'a [T] {
    let width = of.len() / n_rows;
    &of[rows.start * width..rows.end * width]
}

fn part_mut<'a, T>(of: &'a mut [T], n_rows: usize, rows: &Range<usize>) -> &'a mut [T] {
    let width = of.len() / n_rows;
    &mut of[rows.start * width..rows.end * width]
}

fn put<T: Copy>(to: &mut [T], row: usize, width: usize, from: &[T]) {
    to[row * width..][..from.len()].copy_from_slice(from);
}

fn take(to: &mut [f32], row: usize, from: &[f32], at: usize, width: usize) {
    to[row * width..][..width].copy_from_slice(&from[at * width..][..width]);
}

fn take_flags(to: &mut [f32], row: usize, from: &[u8], at: usize, width: usize) {
    if to.is_empty() {
        return;
    }
    let pairs = to[row * width..][..width].iter_mut().zip(&from[at * width..]);
    pairs.for_each(|(to, from)| *to = f32::from(*from));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Importance;

    const SHAPE: RingShape = RingShape { n_rows: 2, obs: 1, action: 1, mask: 0 };

    /// Step `t` of both rows: observations t and 100 + t, reward 1 and 10.
    fn store(ring: &mut Ring, t: u8, ends: [u8; 2]) {
        let at = f32::from(t);
        ring.store(&Transition {
            obs: &[at, 100.0 + at],
            action: &[at, -at],
            reward: &[1.0, 10.0],
            next_obs: &[at + 1.0, 101.0 + at],
            ends: &ends,
            alive: &[1, 1],
            mask: &[],
            next_mask: &[],
        });
    }

    /// Observation, reward, discount and next observation of `n` samples.
    fn samples(ring: &mut Ring, n: usize, n_step: usize) -> Vec<[f32; 4]> {
        let mut columns: [Vec<f32>; 6] = std::array::from_fn(|_| vec![0.0; n]);
        let [obs, action, reward, discount, next_obs, weight] = &mut columns;
        let mut batch = Batch {
            obs,
            action,
            reward,
            discount,
            next_obs,
            mask: &mut [],
            next_mask: &mut [],
            weight,
        };
        let sampling = Sampling { seed: 3, batch: 0, first_row: 0, policy: 0, n_step, gamma: 0.5 };
        ring.sample(&sampling, &mut batch);
        (0..n).map(|i| [obs[i], reward[i], discount[i], next_obs[i]]).collect()
    }

    #[test]
    fn all_that_is_there_is_drawn_and_nothing_else() {
        let mut ring = Ring::new(6, SHAPE).unwrap();
        (0..5).for_each(|t| store(&mut ring, t, [0, 0]));
        assert_eq!(ring.len(), 6);
        let mut seen: Vec<i32> = samples(&mut ring, 400, 1).iter().map(|s| s[0] as i32).collect();
        seen.sort_unstable();
        seen.dedup();
        // Three steps are kept, the oldest two are gone.
        assert_eq!(seen, [2, 3, 4, 102, 103, 104]);
    }

    #[test]
    fn n_steps_stop_where_an_episode_ends_and_at_the_newest() {
        let mut ring = Ring::new(20, SHAPE).unwrap();
        for (t, ends) in [[0, 0], [TERMINATED, 0], [0, TRUNCATED], [0, 0]].into_iter().enumerate() {
            store(&mut ring, t as u8, ends);
        }
        for [obs, reward, discount, next] in samples(&mut ring, 400, 3) {
            let wanted = match obs as i32 {
                0 => [1.5, 0.0, 2.0],
                1 => [1.0, 0.0, 2.0],
                2 => [1.5, 0.25, 4.0],
                3 => [1.0, 0.5, 4.0],
                100 => [17.5, 0.125, 103.0],
                101 => [15.0, 0.25, 103.0],
                102 => [10.0, 0.5, 103.0],
                _ => [10.0, 0.5, 104.0],
            };
            assert_eq!([reward, discount, next], wanted, "from {obs}");
        }
    }

    #[test]
    fn agents_that_have_left_are_not_drawn() {
        let mut ring = Ring::new(20, SHAPE).unwrap();
        (0..4).for_each(|t| store(&mut ring, t, [0, 0]));
        ring.alive.iter_mut().step_by(2).for_each(|alive| *alive = 0);
        assert!(samples(&mut ring, 300, 1).iter().all(|sample| sample[0] >= 100.0));
    }

    #[test]
    fn samples_of_larger_error_are_drawn_more_often_and_count_for_less() {
        let mut ring = Ring::new(8, SHAPE).unwrap().prioritised().unwrap();
        (0..5).for_each(|t| store(&mut ring, t, [0, 0]));
        samples(&mut ring, 800, 1);
        let errors: Vec<f32> =
            ring.sampled.iter().map(|p| if *p == 2 { 9.0 } else { 1.0 }).collect();
        ring.update_priorities(&errors, 1.0);
        // Place 2 is the first row of the second step in memory: the oldest but for a lap, step 1.
        let (seen, mut weight) = (samples(&mut ring, 800, 1), vec![1.0; 800]);
        let stats = ring.priority_stats().unwrap();
        ring.importance_weights(&Importance::of(&[stats], stats, 1.0), &mut weight);
        let of_step_1 = seen.iter().filter(|sample| sample[0] == 1.0).count();
        assert!((440..=460).contains(&of_step_1), "{of_step_1}");
        let expected = |sample: &[f32; 4]| if sample[0] == 1.0 { 1.0 / 9.0 } else { 1.0 };
        let pairs = seen.iter().zip(weight);
        pairs.for_each(|(sample, w)| assert!((w - expected(sample)).abs() < 1e-5, "{sample:?}"));
    }

    #[test]
    fn what_a_checkpoint_holds_is_all_of_it() {
        let new = || Ring::new(6, SHAPE).unwrap().prioritised().unwrap();
        let mut ring = new();
        (0..4).for_each(|t| store(&mut ring, t, [0, t % 3]));
        let (numbers, flags) = ring.arrays();
        let mut other = new();
        other.load(&numbers, &flags, ring.head()).unwrap();
        assert_eq!(other, ring);
        let error = Ring::new(4, SHAPE).unwrap().load(&numbers, &flags, 0).unwrap_err();
        assert!(error.contains("has 3 steps"), "{error}");
    }
}
