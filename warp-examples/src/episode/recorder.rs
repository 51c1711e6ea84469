//! Writes down episodes, moment by moment.

use super::{CONFIG, STEPS, is_of_reset, is_of_step};
use anyhow::{Result, bail, ensure};
use warp_data::{Array, DType, Element, Store};
use warp_envs::numpy::{Numeric, Written, write_npz};
use warp_func::VecEnv;
use warp_sample::{ActionLayout, CategoricalLayout};
use warp_train::TrainConfig;
use warp_train::algorithm::PolicyPlan;
use warp_train::episode::Chosen;
use warp_train::rollout::PolicyRollout;

/// Bytes that a recording has at most: those that an archive without compression holds.
const MOST_BYTES: usize = 4_000_000_000;

/// Episodes that are being written down.
#[derive(Debug)]
pub struct Recorder<'a> {
    config: &'a TrainConfig,
    /// Arrays that are wanted; all if there are none.
    wanted: &'a [String],
    columns: Vec<Column>,
    /// Steps of each episode.
    steps: Vec<u32>,
    bytes: usize,
}

/// One array of the recording.
#[derive(Debug)]
struct Column {
    name: String,
    dtype: Numeric,
    /// Of a moment or a step.
    shape: Vec<usize>,
    is_of_step: bool,
    /// Bytes of each episode.
    episodes: Vec<Vec<u8>>,
}

/// One moment or step of an array.
struct Part {
    name: String,
    dtype: Numeric,
    shape: Vec<usize>,
    is_of_step: bool,
    bytes: Vec<u8>,
}

impl<'a> Recorder<'a> {
    /// For episodes of a run with this configuration; `wanted` names the arrays, none of them all.
    #[must_use]
    pub fn new(config: &'a TrainConfig, wanted: &'a [String]) -> Self {
        Self { config, wanted, columns: Vec::new(), steps: Vec::new(), bytes: 0 }
    }

    /// Takes in a moment of one replica, and what led there; nothing led to the first one of an episode.
    ///
    /// # Errors
    /// An unknown array, or more data than a file can contain.
    pub fn look(&mut self, envs: &dyn VecEnv, chosen: Option<Chosen<'_>>) -> Result<()> {
        match chosen {
            None => self.steps.push(0),
            Some(_) => *self.steps.last_mut().unwrap_or(&mut 0) += 1,
        }
        let mut parts: Vec<Part> =
            envs.store().arrays().filter_map(|array| part_of(array, envs.store())).collect();
        let policies = chosen.iter().flat_map(|chosen| {
            let plans = self.config.policies.iter().zip(&chosen.rollout.policies);
            plans.zip(chosen.outputs).map(|((plan, part), said)| (plan, part, said))
        });
        for (plan, rollout, said) in policies {
            parts.extend(of_policy(plan, rollout, said));
        }
        if let Some(unknown) = chosen.and_then(|_| self.unknown(&parts)) {
            let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
            bail!("there is no array \"{unknown}\"; there are {}", names.join(", "));
        }
        let at_start = chosen.is_none();
        let is_wanted = |name: &String| self.wanted.is_empty() || self.wanted.contains(name);
        let due = |part: &Part| is_wanted(&part.name) && !(part.is_of_step && at_start);
        parts.retain(due);
        parts.into_iter().try_for_each(|part| self.add(part))
    }

    /// The first wanted array that is none of `parts`.
    fn unknown(&self, parts: &[Part]) -> Option<&'a String> {
        self.wanted.iter().find(|name| parts.iter().all(|part| part.name != **name))
    }

    fn add(&mut self, part: Part) -> Result<()> {
        self.bytes += part.bytes.len();
        ensure!(self.bytes <= MOST_BYTES, "the recording is larger than 4 GB; name fewer --arrays");
        let n = self.steps.len();
        let at = self.columns.iter().position(|column| column.name == part.name);
        let at = at.unwrap_or_else(|| {
            let Part { name, dtype, shape, is_of_step, .. } = part;
            self.columns.push(Column { name, dtype, shape, is_of_step, episodes: Vec::new() });
            self.columns.len() - 1
        });
        let episodes = &mut self.columns[at].episodes;
        episodes.resize(n, Vec::new());
        episodes[n - 1].extend(part.bytes);
        Ok(())
    }

    /// The bytes of the `.npz` file; `config_toml` is the run's complete configuration.
    ///
    /// # Errors
    /// More than a file holds.
    pub fn finish(self, config_toml: &str) -> Result<Vec<u8>> {
        let n = self.steps.len();
        let longest = self.steps.iter().copied().max().unwrap_or(0) as usize;
        let mut arrays: Vec<Written> = Vec::new();
        for Column { name, dtype, shape, is_of_step, mut episodes } in self.columns {
            let length = longest + usize::from(!is_of_step);
            let each = shape.iter().product::<usize>() * dtype.size();
            episodes.resize(n, Vec::new());
            episodes.iter_mut().for_each(|bytes| bytes.resize(length * each, 0));
            let shape = [&[n, length], &shape[..]].concat();
            arrays.push(Written { name, dtype, shape, bytes: episodes.concat() });
        }
        let steps = self.steps.iter().flat_map(|steps| steps.to_le_bytes()).collect();
        arrays.push(Written {
            name: STEPS.into(),
            dtype: Numeric::U32,
            shape: vec![n],
            bytes: steps,
        });
        let (text, shape) = (config_toml.as_bytes().to_vec(), vec![config_toml.len()]);
        arrays.push(Written { name: CONFIG.into(), dtype: Numeric::U8, shape, bytes: text });
        Ok(write_npz(&arrays)?)
    }
}

/// A replica's part of an environment's array; none of what belongs to resets.
fn part_of(array: &Array, store: &Store) -> Option<Part> {
    let name = array.name();
    if is_of_reset(name) {
        return None;
    }
    fn bytes<T: Element>(store: &Store, name: &str, of: impl Fn(&T) -> [u8; 4]) -> Option<Vec<u8>> {
        Some(store.get::<T>(name).ok()?.iter().flat_map(of).collect())
    }
    let (dtype, bytes) = match array.dtype() {
        DType::F32 => (Numeric::F32, bytes(store, name, |x: &f32| x.to_le_bytes())?),
        DType::I32 => (Numeric::I32, bytes(store, name, |x: &i32| x.to_le_bytes())?),
        DType::U32 => (Numeric::U32, bytes(store, name, |x: &u32| x.to_le_bytes())?),
        DType::U8 => (Numeric::U8, store.get::<u8>(name).ok()?.to_vec()),
    };
    let shape = array.shape()[1..].to_vec();
    Some(Part { name: name.into(), dtype, shape, is_of_step: is_of_step(name), bytes })
}

/// A policy's outputs in a step: probabilities or values of its choices, or means and deviations; and values of
/// states, where it has any. Nothing of one that acted at random.
fn of_policy(plan: &PolicyPlan, rollout: &PolicyRollout, said: &[f32]) -> Vec<Part> {
    if said.is_empty() {
        return Vec::new();
    }
    let n_agents = rollout.n_agents;
    let part = |what: &str, numbers: Vec<f32>| {
        let width = numbers.len() / n_agents;
        let shape = if what == "value" { vec![n_agents] } else { vec![n_agents, width] };
        let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        Part {
            name: format!("{what}.{}", plan.name),
            dtype: Numeric::F32,
            shape,
            is_of_step: true,
            bytes,
        }
    };
    let mut parts = match &rollout.layout {
        ActionLayout::Discrete(_) if plan.has_action_values() => {
            vec![part("action_value", said.to_vec())]
        }
        ActionLayout::Discrete(layout) => {
            vec![part("probability", probabilities(layout, said, rollout.mask_at(0)))]
        }
        ActionLayout::Continuous(layout) => {
            let (dim, (low, high)) = (layout.dim(), layout.log_std_range());
            let half = |first: usize| {
                said.chunks_exact(2 * dim).flat_map(move |row| &row[first..first + dim]).copied()
            };
            let deviations = half(dim).map(|log_std| log_std.clamp(low, high).exp());
            vec![part("mean", half(0).collect()), part("std", deviations.collect())]
        }
    };
    if !plan.is_off_policy() {
        parts.push(part("value", rollout.values[..n_agents].to_vec()));
    }
    parts
}

/// The probability of every choice of every head, 0 where it was not allowed.
fn probabilities(layout: &CategoricalLayout, logits: &[f32], mask: Option<&[u8]>) -> Vec<f32> {
    let allowed = |at: usize| mask.is_none_or(|mask| mask[at] != 0);
    let (mut probabilities, mut first) = (vec![0.0; logits.len()], 0);
    while first < logits.len() {
        for size in layout.sizes() {
            let head = first..first + size;
            let open = || head.clone().filter(|at| allowed(*at));
            let largest = open().map(|at| logits[at]).fold(f32::NEG_INFINITY, f32::max);
            let total: f32 = open().map(|at| (logits[at] - largest).exp()).sum();
            open().for_each(|at| probabilities[at] = (logits[at] - largest).exp() / total);
            first = head.end;
        }
    }
    probabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_what_is_allowed() {
        let layout = CategoricalLayout::new(&[2, 3]).unwrap();
        let logits = [0.0, 3_f32.ln(), 5.0, 5.0, 5.0, 1.0, 1.0, 0.0, 99.0, 0.0];
        let mask = [1, 1, 1, 1, 0, 1, 1, 1, 0, 1];
        let found = probabilities(&layout, &logits, Some(&mask));
        let expected = [0.25, 0.75, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.0, 0.5];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }
}
