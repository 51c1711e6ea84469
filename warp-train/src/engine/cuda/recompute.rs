//! What passes need not keep for gradients: what they sum themselves, and what is recomputed where gradients are summed.

use super::layer::Layer;
use super::row_tiles::RowTiles;
use crate::algorithm::{ModelId, Pass, Plan, RowsOf};
use crate::model::Activation;

/// Where derivatives are recomputed: outputs of which they are, outputs of the layer before, rows at most and rows of a tile.
/// Twins of recompute.cu.
const RECOMPUTED_OF: usize = 8;
const RECOMPUTED_OUTPUTS: usize = 256;
const RECOMPUTED_ROWS: usize = 256;
const RECOMPUTED_HIGH: usize = 4;
/// Inputs at most of a first layer whose gradients passes sum, and rows at most: twice 16 for each warp. Twins of first.cu.
const FIRST_INPUTS: usize = 8;
const FIRST_ROWS: usize = 256;

/// What is not kept of a model's passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Omitted {
    n_layers: usize,
    /// Whether the first layer's gradients are summed in the order of passes that sum them, as those of crowded runs do.
    summed: bool,
    crowded: bool,
    recomputed: bool,
}

/// Where a pass keeps substitutes for what it omits, in numbers of the scratch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Substitute {
    /// What each tile of rows adds to the first layer's gradients, f32 `[tiles, 9, n]`, where passes sum them for a step.
    pub(super) first: Option<usize>,
    /// The last layer's weights before the step, where derivatives by the layer before are recomputed.
    pub(super) weights: Option<usize>,
    /// What inputs of that layer are made of, if they are, too.
    pub(super) inputs: Option<InputsShape>,
}

/// The operands of each row that a first layer reads, `[padded rows, 8]`, and its weights and biases, f32, before the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InputsShape {
    pub(super) operands: usize,
    pub(super) weights: usize,
    pub(super) biases: usize,
}

impl Omitted {
    /// Of a model with these layers in half precision, where `crowded` runs share a GPU or not.
    pub(super) fn new(
        plan: &Plan,
        id: ModelId,
        layers: &[Layer],
        batch: RowTiles,
        crowded: bool,
    ) -> Self {
        let n_layers = layers.len();
        let [.., hidden, last] = layers else { return Self::default() };
        if !learns_once(plan, id) {
            return Self::default();
        }
        // The order of a run's sums does not depend on other runs.
        let summed = batch.rows <= FIRST_ROWS && (1..=FIRST_INPUTS).contains(&layers[0].inputs);
        let network = &plan.models[id.0].network;
        let relu = network.activation == Activation::Relu;
        let fits = batch.high == RECOMPUTED_HIGH && batch.padded() <= RECOMPUTED_ROWS;
        let few = hidden.n == RECOMPUTED_OUTPUTS && last.outputs <= RECOMPUTED_OF;
        let normed = !network.norms().is_empty();
        let recomputed = crowded && relu && fits && few && (n_layers > 2 || !summed) && !normed;
        Self { n_layers, summed, recomputed, crowded }
    }

    /// Whether the gradients of layer number `l` are summed in the order of passes.
    pub(super) fn is_summed(self, l: usize) -> bool {
        self.summed && l == 0
    }

    /// Whether derivatives by the sums of layer number `l` are recomputed where gradients are summed for a step.
    pub(super) fn is_recomputed(self, l: usize) -> bool {
        self.recomputed && l + 2 == self.n_layers
    }

    /// Whether its inputs are, too: they are outputs of a first layer that has few itself.
    pub(super) fn recomputes_inputs(self) -> bool {
        self.recomputed && self.summed && self.n_layers == 3
    }
}

impl Substitute {
    /// Of a pass that learns, through these layers of a model, with `take` for room.
    pub(super) fn new(
        omitted: Omitted,
        layers: &[Layer],
        batch: RowTiles,
        mut take: impl FnMut(usize) -> usize,
    ) -> Self {
        let Omitted { summed, recomputed, crowded, .. } = omitted;
        let n = layers[0].n;
        Self {
            first: (summed && crowded).then(|| take(2 * batch.n * (FIRST_INPUTS + 1) * n)),
            weights: recomputed.then(|| take(RECOMPUTED_OF * RECOMPUTED_OUTPUTS)),
            inputs: omitted.recomputes_inputs().then(|| InputsShape {
                operands: take(FIRST_INPUTS * batch.padded()),
                weights: take(FIRST_INPUTS * n),
                biases: take(2 * n),
            }),
        }
    }
}

/// Whether a model learns from one pass over a batch.
fn learns_once(plan: &Plan, id: ModelId) -> bool {
    let mut passes = plan.passes.iter().filter(|pass| pass.model == id && pass.learns());
    let of_batch = |pass: &Pass| plan.columns[pass.output.0].rows == RowsOf::Batch;
    passes.next().is_some_and(of_batch) && passes.next().is_none()
}
