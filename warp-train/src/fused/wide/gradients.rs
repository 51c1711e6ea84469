//! The gradient that the wide kernels give for a minibatch that comes from the host.

use super::super::gradients::Given;
use super::super::halves;
use super::policy::WidePolicy;
use super::shared::WideState;
use crate::algorithm::PolicyMetrics;
use crate::engine::Progress;
use crate::error::Result;
use crate::loss::actions::ActionsRef;
use crate::model::{NamedTensor, PolicyTensors};
use warp_data::Element;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceStruct, Graph};

impl WidePolicy {
    /// The figures and the gradient of the loss over `given` at `weights`, in the parameters' order.
    /// The policy has room for as many samples, one minibatch, and advantages as they are given.
    ///
    /// # Errors
    /// Tensors that do not fit, or a gradient that is not finite.
    pub(in super::super) fn gradient_of(
        &mut self,
        weights: &[NamedTensor],
        given: &Given<'_>,
    ) -> Result<(PolicyMetrics, Vec<NamedTensor>)> {
        let (weights, optimizer) = (weights.to_vec(), Vec::new());
        self.load(&PolicyTensors { weights, optimizer, n_steps: 0 })?;
        self.put(given)?;
        let progress = Progress { iteration: 0, env_steps: 0, seed: 0 };
        self.push_settings(progress)?;
        self.learn_once()?;
        let metrics = self.metrics(&self.state()?, progress)?;
        Ok((metrics, self.network.named(&self.arrays.gradient.pull::<f32>()?, "")))
    }

    /// Takes the minibatch, which other ranks may share.
    fn learn_once(&self) -> Result<()> {
        let (n, order) = (&self.arrays.n, &self.arrays.order);
        let Some(ranks) = &self.ranks else { return self.only_minibatch(order) };
        // Recorded as in a run: while a kernel waits for another rank, nobody is to load or allocate anything.
        let mut graph = Graph::capture(&self.device, || {
            self.of_all_ranks(n, |ranks| &ranks.ns)?;
            self.only_minibatch(order)
        })?;
        ranks.world().barrier("a minibatch")?;
        graph.launch()?;
        self.wait_for_ranks()
    }

    /// A step on the first minibatch of an epoch.
    fn only_minibatch(&self, order: &DeviceArray) -> Result<()> {
        self.begin_epoch(order, None)?;
        self.minibatch(order)?;
        self.pack()
    }

    /// Rows of observations as halves, padded by zeros.
    fn halves(&self, observations: &[f32], padded: usize) -> Vec<u8> {
        let (width, precision) = (self.network.observation_width(), self.plan.config.precision);
        let row = |row: &[f32]| {
            let halves = row.iter().map(|x| halves::bits(precision, *x));
            let padding = std::iter::repeat_n(0, padded - width);
            halves.chain(padding).flat_map(u16::to_le_bytes).collect::<Vec<u8>>()
        };
        observations.chunks(width).flat_map(row).collect()
    }

    /// Puts the samples where a rollout would have.
    fn put(&self, given: &Given<'_>) -> Result<()> {
        let (a, from) = (&self.arrays, given.minibatch);
        match (self.tensor.first(), self.sizes.tiled_width) {
            (None, 0) => put(&a.obs, from.observations, 0.0)?,
            (None, padded) => put(&a.obs.as_bytes(), &self.halves(from.observations, padded), 0)?,
            (Some(tower), _) => {
                let padded = tower.shape.observation_width();
                put(&a.obs, &self.halves(from.observations, padded), 0)?;
            }
        }
        match from.actions {
            ActionsRef::Discrete(actions) => put(&a.actions, actions, 0)?,
            ActionsRef::Continuous(raws) => put(&a.raws, raws, 0.0)?,
        }
        let masks = from.action_mask.unwrap_or(&[]);
        match self.tensor.is_empty() {
            true => put(&a.masks, masks, 1)?,
            false => put(&a.masks, &bits_of(masks, self.network.n_outputs), u8::MAX)?,
        }
        put(&a.log_probs, from.log_probs, 0.0)?;
        put(&a.values, from.values, 0.0)?;
        put(&a.advantages, from.advantages, 0.0)?;
        put(&a.returns, from.returns, 0.0)?;
        let known = (0..from.returns.len()).flat_map(|sample| {
            [from.advantages, from.log_probs, from.returns, from.values].map(|of| of[sample])
        });
        put(&a.known, &known.collect::<Vec<f32>>(), 0.0)?;
        put(&a.order, &given.order, 0)?;
        put(&a.n, &[given.order.len() as u32], 0)?;
        let state = WideState { n: given.order.len() as u32, ..WideState::default() };
        Ok(a.state.push(&state.words())?)
    }
}

/// Rows of `width` choices as bits, each in words of 32.
fn bits_of(masks: &[u8], width: usize) -> Vec<u8> {
    let byte = |choices: &[u8]| {
        choices.iter().rev().fold(0, |bits, allowed| bits << 1 | u8::from(*allowed != 0))
    };
    let rows = masks.chunks(width.max(1)).flat_map(|row| {
        let bytes = 4 * row.len().div_ceil(32);
        row.chunks(8).map(byte).chain(std::iter::repeat(0)).take(bytes)
    });
    rows.collect()
}

/// Fills an array's beginning, and the rest with `rest`.
fn put<T: Element>(array: &DeviceArray, data: &[T], rest: T) -> Result<()> {
    let mut all = data.to_vec();
    all.resize(array.len(), rest);
    Ok(array.push(&all)?)
}

#[cfg(test)]
mod tests {
    use super::bits_of;

    #[test]
    fn masks_are_words_of_bits() {
        assert_eq!(bits_of(&[1, 0, 0, 1, 1], 5), [0b1_1001, 0, 0, 0]);
        let mut two_words = [0; 33];
        (two_words[8], two_words[32]) = (1, 1);
        assert_eq!(bits_of(&two_words, 33), [0, 1, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bits_of(&[0, 1, 1, 0], 2), [2, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bits_of(&[], 3), [0; 0]);
    }
}
