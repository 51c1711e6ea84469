//! A layer of a model on the device: where its numbers lie, and how tiles of its weights are taken.

/// Rows and columns of a tile of weights; widths of layers are padded to it.
pub(super) const TILE: usize = 32;

/// A linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Inputs and outputs, padded.
    pub(super) k: usize,
    pub(super) n: usize,
    /// Weights f32 `[n, k]`, tile by tile where products are in half precision, and biases `[n]` among all parameters.
    pub(super) weight: usize,
    pub(super) bias: usize,
    /// Number of the first tile of weights among all.
    pub(super) tile: usize,
    /// Weights packed for the forward and for the backward pass, among all packed ones.
    pub(super) packed: usize,
    pub(super) packed_back: usize,
}

/// Tiles of a layer's weights that a block takes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TileGroup {
    /// Tiles of outputs and of inputs, side by side.
    pub(super) high: usize,
    pub(super) wide: usize,
    /// How many times that is across, and in all.
    pub(super) across: usize,
    pub(super) n: usize,
    /// Halves of a tile that each of its eight warps has: both of eight tiles, or one of four.
    pub(super) halves: usize,
}

impl Layer {
    pub(super) fn n_tiles(&self) -> usize {
        self.n / TILE * (self.k / TILE)
    }

    /// Where a weight lies among all parameters. Twin of `weight_place` in half_sums.cu and single.cu.
    pub(super) fn place(&self, half: bool, output: usize, input: usize) -> usize {
        if !half {
            return self.weight + output * self.k + input;
        }
        let tile = output / TILE * (self.k / TILE) + input / TILE;
        let (output, input) = (output % TILE, input % TILE);
        let lane = output % 8 * 4 + input % 8 / 2;
        let four = (output / 16 * 4 + input / 8) * 32 + lane;
        self.weight + tile * TILE * TILE + four * 4 + output / 8 % 2 * 2 + input % 2
    }

    /// Eight tiles: one below the other where derivatives are not `kept`, so that inputs are read once; else four by two, so
    /// that few rows are read for each, or four where the layer has no more side by side.
    pub(super) fn group(&self, kept: bool) -> TileGroup {
        let (outputs, inputs) = (self.n / TILE, self.k / TILE);
        if !kept && outputs >= 8 {
            let n = inputs * outputs.div_ceil(8);
            return TileGroup { high: 8, wide: 1, across: inputs, n, halves: 2 };
        }
        let high = outputs.next_power_of_two().min(4);
        let wide = inputs.next_power_of_two().clamp(4 / high, (8 / high).min(4));
        let across = inputs.div_ceil(wide);
        let halves = high * wide / 4;
        TileGroup { high, wide, across, n: across * outputs.div_ceil(high), halves }
    }
}

/// The normalisation of a hidden layer. Gains and shifts are the biases of layers without inputs, so that steps,
/// norms of gradients and targets need not tell them from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Norm {
    pub(super) gain: Layer,
    pub(super) shift: Layer,
}
