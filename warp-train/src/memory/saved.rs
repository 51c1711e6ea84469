//! A replay memory in a checkpoint.

use super::Ring;
use super::replay::RingShape;
use crate::model::{NamedBytes, NamedTensor};

/// The array in a checkpoint that says how steps ended.
pub(crate) const ENDS: &str = "replay.ends";
/// The array of priorities there.
pub(crate) const PRIORITY: &str = "replay.priority";
/// The largest priority there.
pub(crate) const LARGEST: &str = "replay.largest_priority";

impl Ring {
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
        let mut numbers: Vec<NamedTensor> = numbers.into_iter().map(tensor).collect();
        if let Some(priorities) = &self.priorities {
            let data = (0..cells).map(|i| priorities.of(i)).collect();
            numbers.push(NamedTensor { name: PRIORITY.into(), shape: shape(1), data });
            let largest = vec![priorities.largest()];
            numbers.push(NamedTensor { name: LARGEST.into(), shape: vec![1], data: largest });
        }
        (numbers, flags.into_iter().filter(|(_, width, _)| *width > 0).map(bytes).collect())
    }

    /// The next step's place.
    #[must_use]
    pub fn head(&self) -> usize {
        self.head
    }

    /// Takes over what [`Ring::arrays`] gave, and [`Ring::head`].
    ///
    /// # Errors
    /// An array that is missing or of another shape, as a message.
    pub fn load(
        &mut self,
        numbers: &[NamedTensor],
        flags: &[NamedBytes],
        head: usize,
    ) -> Result<(), String> {
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
            (ENDS, 1, &mut self.ends),
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
        if let Some(priorities) = &mut self.priorities {
            let find = |name: &str| numbers.iter().find(|array| array.name == name);
            let found = find(PRIORITY).filter(|array| array.shape == wanted(1));
            let leaves = found.ok_or_else(|| missing(PRIORITY, &wanted(1)))?;
            let largest = find(LARGEST).and_then(|array| array.data.first());
            priorities.load(*largest.ok_or_else(|| missing(LARGEST, &[1]))?, &leaves.data);
        }
        (self.size, self.head) = (size, head);
        Ok(())
    }
}

fn missing(name: &str, shape: &[usize]) -> String {
    format!("the replay memory needs an array \"{name}\" {shape:?}")
}
