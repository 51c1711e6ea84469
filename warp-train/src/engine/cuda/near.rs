//! Which of a pass's weights stand near, in shared memory: those that fit beside a tile's numbers where two blocks share
//! a multiprocessor. They are on their way while the pass's inputs are put together, so that few blocks, which have
//! nothing else to do meanwhile, wait for the cache once instead of at every layer.

use super::layout::{Layout, Machine, ModelShape, RowTiles, TILE};

/// What a block may have of shared memory, what its text declares not included.
const MOST_SHARED: usize = 108 << 10;
/// Bytes of weights of a layer that is near as a whole.
const SMALL: usize = 16 << 10;
/// Bytes of a round: 16 terms of a chunk of 32 columns.
const ROUND: usize = 16 * TILE * 2;

/// A layer's product, forward or back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    /// Where its packed weights lie among all.
    pub(super) packed: usize,
    pub(super) terms: usize,
    pub(super) columns: usize,
    /// Whether all warps share the terms of each sum, as where only a few columns are needed.
    pub(super) few: bool,
}

impl Product {
    pub(super) fn rounds(self) -> usize {
        self.terms / 16
    }

    pub(super) fn chunks(self) -> usize {
        self.columns / TILE
    }

    fn is_small(self) -> bool {
        self.rounds() * self.chunks() * ROUND <= SMALL
    }
}

/// The products of a model's layers in the order of a forward pass.
pub(super) fn forward(model: &ModelShape) -> Vec<Product> {
    let last = model.layers.len() - 1;
    let layers = model.layers.iter().enumerate();
    let product = layers.map(|(l, layer)| Product {
        packed: layer.packed,
        terms: layer.k,
        columns: layer.n,
        few: l == last,
    });
    product.collect()
}

/// The same of a backward pass, which may lead to the first layer's inputs.
pub(super) fn back(model: &ModelShape, to_inputs: bool) -> Vec<Product> {
    let layers = model.layers.iter().enumerate().skip(usize::from(!to_inputs)).rev();
    let product = layers.map(|(l, layer)| Product {
        packed: layer.packed_back,
        terms: layer.n,
        columns: layer.k,
        few: l == 0,
    });
    product.collect()
}

/// How weights are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Near {
    /// Bytes of each large layer; none where no weights are near.
    share: Option<usize>,
}

impl Near {
    /// Where a block has `base` bytes of other things in shared memory.
    pub(super) fn new(layout: &Layout, machine: Machine, tiles: RowTiles, base: usize) -> Self {
        let waits = layout.half && machine.waits_for_weights() && tiles.high == 1;
        let share = |model: &ModelShape| {
            let (small, large): (Vec<_>, Vec<_>) =
                forward(model).into_iter().partition(|product| product.is_small());
            let room = MOST_SHARED.checked_sub(base + small.len() * SMALL)?;
            Some(room / large.len().max(1))
        };
        let share = || layout.models.iter().map(share).min().flatten();
        Self { share: waits.then(share).flatten() }
    }

    /// Rounds of each chunk that are near.
    pub(super) fn rounds(self, product: Product) -> usize {
        match self.share {
            Some(_) if product.is_small() => product.rounds(),
            Some(share) if !product.few => product.rounds().min(share / (product.chunks() * ROUND)),
            _ => 0,
        }
    }

    /// Bytes of a product's weights that are near.
    pub(super) fn bytes(self, product: Product) -> usize {
        self.rounds(product) * product.chunks() * ROUND
    }

    /// Shared memory of all that is near at a time, at most.
    pub(super) fn most_bytes(self, layout: &Layout) -> usize {
        let passes = layout.models.iter().flat_map(|model| [forward(model), back(model, true)]);
        let bytes = passes.map(|pass| pass.into_iter().map(|product| self.bytes(product)).sum());
        bytes.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::half_bytes;
    use super::*;
    use crate::algorithm::{Planned, Precision};
    use crate::config::TrainConfig;
    use crate::engine::off_policy::planned;

    fn layout(hidden: &str) -> Layout {
        let keys = format!("env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = {hidden}");
        let config = TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap();
        let Planned { plan, .. } = planned(&config, &config.policies[0]).unwrap();
        Layout::new(&plan, 1, Machine::H200, Precision::Half)
    }

    fn near(layout: &Layout, machine: Machine) -> Near {
        Near::new(layout, machine, layout.batch, half_bytes(layout.batch.high, layout.widest))
    }

    #[test]
    fn small_layers_are_near_as_a_whole_and_large_ones_in_part() {
        let layout = layout("[256, 256]");
        let near = near(&layout, Machine::H200);
        let critic = forward(&layout.models[1]);
        let rounds: Vec<_> = critic.iter().map(|product| near.rounds(*product)).collect();
        assert_eq!(rounds, [2, 5, 16]);
        assert_eq!(critic.iter().map(|product| product.rounds()).collect::<Vec<_>>(), [2, 16, 16]);
    }

    #[test]
    fn what_is_near_fits_beside_the_rest() {
        for hidden in ["[]", "[64]", "[40, 65, 24]", "[256, 256, 256]", "[512, 512]", "[1024]"] {
            let layout = layout(hidden);
            let base = half_bytes(layout.batch.high, layout.widest);
            assert!(
                base + near(&layout, Machine::H200).most_bytes(&layout) <= MOST_SHARED.max(base)
            );
        }
    }

    #[test]
    fn many_runs_have_no_room() {
        let (layout, crowded) = (layout("[256, 256]"), Machine::H200.shared_by(64));
        assert_eq!(near(&layout, crowded).most_bytes(&layout), 0);
    }
}
