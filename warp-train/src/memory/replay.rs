//! A replay memory: the last transitions of every acting row, from which batches are drawn.
//!
//! A ring of steps: step after step of all rows, the oldest overwritten. An n-step transition is put
//! together when it is drawn, and stops at the end of an episode or at the newest step.

use crate::error::Result;
use crate::model::{NamedBytes, NamedTensor};
use warp_core::Draw;

/// The episode goes on.
const GOES_ON: u8 = 0;
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
    /// Allowed actions afterwards, all where the episode ended.
    pub next_mask: &'a [u8],
}

/// How batches are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// The batch's draws, of row 0.
    pub seed: u64,
    /// Number of the batch.
    pub batch: u32,
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
    /// What each sample counts for.
    pub weight: &'a mut [f32],
}

/// The memory, time-major `[steps, n_rows, width]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    shape: RingShape,
    n_steps: usize,
    /// Where the next step is written.
    head: usize,
    /// Steps that are there.
    size: usize,
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    action: Vec<f32>,
    reward: Vec<f32>,
    ends: Vec<u8>,
    alive: Vec<u8>,
    mask: Vec<u8>,
    next_mask: Vec<u8>,
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
        })
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
        self.head = (self.head + 1) % self.n_steps;
        self.size = (self.size + 1).min(self.n_steps);
    }

    /// Draws a batch, each sample from all that is there; nothing if there is nothing.
    pub fn sample(&self, sampling: &Sampling, batch: &mut Batch<'_>) {
        if self.is_empty() {
            return;
        }
        for row in 0..batch.reward.len() {
            let Sampling { seed, batch: number, policy, .. } = *sampling;
            let draw = Draw::new(seed, row as u32, number, warp_core::Purpose::Replay);
            let (step, agent, found) = self.pick(draw.agent(policy));
            batch.weight[row] = f32::from(u8::from(found));
            self.gather(step, agent, sampling, row, batch);
        }
    }

    /// A step, counted from the oldest, and a row; and whether that row's agent was in the game.
    fn pick(&self, mut draw: Draw) -> (usize, usize, bool) {
        let n_rows = self.shape.n_rows;
        let mut found = (0, 0, false);
        for _ in 0..MOST_DRAWS {
            let at = draw.below(self.len() as u32) as usize;
            let (step, row) = (at / n_rows, at % n_rows);
            found = (step, row, self.alive[self.place(step) * n_rows + row] != 0);
            if found.2 {
                break;
            }
        }
        found
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

    /// What is there, for a checkpoint.
    #[must_use]
    pub fn arrays(&self) -> (Vec<NamedTensor>, Vec<NamedBytes>) {
        let RingShape { n_rows, obs, action, mask } = self.shape;
        let cells = self.len();
        let shape = |width: usize| vec![self.size, n_rows, width];
        let numbers = [
            ("obs", obs, &self.obs),
            ("next_obs", obs, &self.next_obs),
            ("action", action, &self.action),
            ("reward", 1, &self.reward),
        ];
        let flags = [
            ("ends", 1, &self.ends),
            ("alive", 1, &self.alive),
            ("mask", mask, &self.mask),
            ("next_mask", mask, &self.next_mask),
        ];
        let tensor = |(name, width, data): (&str, usize, &Vec<f32>)| NamedTensor {
            name: format!("replay.{name}"),
            shape: shape(width),
            data: data[..cells * width].to_vec(),
        };
        let bytes = |(name, width, data): (&str, usize, &Vec<u8>)| NamedBytes {
            name: format!("replay.{name}"),
            shape: shape(width),
            data: data[..cells * width].to_vec(),
        };
        (
            numbers.into_iter().map(tensor).collect(),
            flags.into_iter().filter(|(_, width, _)| *width > 0).map(bytes).collect(),
        )
    }

    /// The next step's place.
    #[must_use]
    pub fn head(&self) -> usize {
        self.head
    }

    /// Takes over what [`Ring::arrays`] gave, and [`Ring::head`].
    ///
    /// # Errors
    /// An array that is missing or of another shape, in words.
    pub fn load(
        &mut self,
        numbers: &[NamedTensor],
        flags: &[NamedBytes],
        head: usize,
    ) -> std::result::Result<(), String> {
        let RingShape { n_rows, obs, action, mask } = self.shape;
        let reward = numbers.iter().find(|array| array.name == "replay.reward");
        let size = reward.map_or(0, |array| array.shape.first().copied().unwrap_or(0));
        if size > self.n_steps || head >= self.n_steps || (size < self.n_steps && head != size) {
            return Err(format!(
                "the replay memory has {size} steps and goes on at {head}, but holds {}",
                self.n_steps
            ));
        }
        let wanted = |width: usize| vec![size, n_rows, width];
        for (name, width, to) in [
            ("replay.obs", obs, &mut self.obs),
            ("replay.next_obs", obs, &mut self.next_obs),
            ("replay.action", action, &mut self.action),
            ("replay.reward", 1, &mut self.reward),
        ] {
            let found = numbers.iter().find(|array| array.name == name);
            let found = found.filter(|array| array.shape == wanted(width));
            let data = &found.ok_or_else(|| missing(name, &wanted(width)))?.data;
            to[..data.len()].copy_from_slice(data);
        }
        for (name, width, to) in [
            ("replay.ends", 1, &mut self.ends),
            ("replay.alive", 1, &mut self.alive),
            ("replay.mask", mask, &mut self.mask),
            ("replay.next_mask", mask, &mut self.next_mask),
        ] {
            if width == 0 {
                continue;
            }
            let found = flags.iter().find(|array| array.name == name);
            let found = found.filter(|array| array.shape == wanted(width));
            let data = &found.ok_or_else(|| missing(name, &wanted(width)))?.data;
            to[..data.len()].copy_from_slice(data);
        }
        (self.size, self.head) = (size, head);
        Ok(())
    }
}

fn missing(name: &str, shape: &[usize]) -> String {
    format!("the replay memory needs an array \"{name}\" {shape:?}")
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
    fn samples(ring: &Ring, n: usize, n_step: usize) -> Vec<[f32; 4]> {
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
        let sampling = Sampling { seed: 3, batch: 0, policy: 0, n_step, gamma: 0.5 };
        ring.sample(&sampling, &mut batch);
        (0..n).map(|i| [obs[i], reward[i], discount[i], next_obs[i]]).collect()
    }

    #[test]
    fn all_that_is_there_is_drawn_and_nothing_else() {
        let mut ring = Ring::new(6, SHAPE).unwrap();
        (0..5).for_each(|t| store(&mut ring, t, [0, 0]));
        assert_eq!(ring.len(), 6);
        let mut seen: Vec<i32> = samples(&ring, 400, 1).iter().map(|s| s[0] as i32).collect();
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
        for [obs, reward, discount, next] in samples(&ring, 400, 3) {
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
        assert!(samples(&ring, 300, 1).iter().all(|sample| sample[0] >= 100.0));
    }

    #[test]
    fn what_a_checkpoint_holds_is_all_of_it() {
        let mut ring = Ring::new(6, SHAPE).unwrap();
        (0..4).for_each(|t| store(&mut ring, t, [0, t % 3]));
        let (numbers, flags) = ring.arrays();
        let mut other = Ring::new(6, SHAPE).unwrap();
        other.load(&numbers, &flags, ring.head()).unwrap();
        assert_eq!(other, ring);
        let error = Ring::new(4, SHAPE).unwrap().load(&numbers, &flags, 0).unwrap_err();
        assert!(error.contains("has 3 steps"), "{error}");
    }
}
