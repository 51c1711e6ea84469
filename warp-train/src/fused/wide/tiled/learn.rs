//! Learning by layers on tensor cores one by one: what samples' losses give to weights. Host side of `tiled/losses.cu`,
//! `tiled/back.cu` and `tiled/weights.cu`.

use super::shape::{BLOCK_COLUMNS, BLOCK_ROWS, NARROW, WIDE, columns_of};
use super::{Ring, TiledNetwork};
use crate::error::Result;
use crate::fused::wide::args::{LossesArgs, TiledLayerArgs, TiledLossesArgs, TiledWeightsArgs};
use crate::fused::wide::lanes;
use crate::fused::wide::policy::{Rows, WidePolicy};
use warp_func::cuda::{KernelArgs, Launch};

/// Shared memory through which eight warps write gradients of weights; twin of `U_LINES`.
const LINES_BYTES: usize = 8 * 4 * 16 * 32;

impl WidePolicy {
    /// Gradients of weights for the samples from `first` on; returns how many blocks left sums of `losses`.
    pub(in super::super) fn tiled_gradients(
        &self,
        tiled: &TiledNetwork,
        first: usize,
        losses: LossesArgs<'_>,
    ) -> Result<usize> {
        let n = self.sizes.chunk;
        let rows = Rows { x: &self.arrays.obs, at: 0, sampled: true, first, rows: n };
        self.tiled_gather(tiled, &rows, losses.order)?;
        let towers = tiled.towers();
        let tiles = self.tiled_hidden(tiled, &rows, towers)?;
        let launch = match &tiled.kernels.at_once {
            Some(at_once) => at_once.heads.launch(n, self.enough_blocks()),
            None => {
                self.tiled_outputs(tiled, &rows, tiles, towers)?;
                Launch::over(n * lanes::lanes(&self.plan), 256)
            }
        };
        let args = TiledLossesArgs { losses, outputs: self.output_layer(tiled, &rows) };
        tiled.kernels.losses.tiled_losses.launch(&launch, &[args.arg()])?;
        self.tiled_backward(tiled, first)?;
        Ok(launch.blocks as usize)
    }

    /// From gradients of the outputs to those of weights, for the samples from `first` on.
    fn tiled_backward(&self, tiled: &TiledNetwork, first: usize) -> Result<()> {
        let (a, chunk) = (&self.arrays, self.sizes.chunk);
        let depth = tiled.hidden.len();
        let rows = Rows { x: &a.obs, at: 0, sampled: true, first, rows: chunk };
        let kernels = &tiled.kernels.back;
        for l in (0..=depth).rev() {
            self.tiled_weights(tiled, l, first)?;
            let Some(below) = l.checked_sub(1) else { break };
            let layer = &tiled.shape.layers[l];
            let by_width = [&kernels.tiled_back, &kernels.tiled_back_narrow];
            let (columns, launch) =
                tiled.by_width(chunk, layer.inputs, tiled.towers(), self.enough_blocks());
            let to = tiled.gradients_of(below);
            let args =
                self.tiled_layer(tiled, &rows, tiled.gradients_of(l), layer.turned, layer, to);
            let args = TiledLayerArgs { of_outputs: i32::from(l == depth), ..args };
            by_width[usize::from(columns == NARROW)].launch(&launch, &[args.arg()])?;
            if let Some(norms) = &tiled.norms {
                self.tiled_norm_back(tiled, norms, below, first)?;
            }
        }
        tiled.norms.as_ref().map_or(Ok(()), |norms| self.tiled_norm_sum(tiled, norms, first))
    }

    fn tiled_weights(&self, tiled: &TiledNetwork, l: usize, first: usize) -> Result<()> {
        let (s, kernels) = (&self.sizes, &tiled.kernels.weights);
        let (x, dy) = (tiled.inputs_of(l), tiled.gradients_of(l));
        let ends = |kernel| (kernel, Ring { stages: 8, columns: BLOCK_COLUMNS });
        // Output layers have few columns, which are then those of the tile.
        let swapped = l == tiled.hidden.len();
        let (left, right) = if swapped { (x, dy) } else { (dy, x) };
        let (kernel, ring) = match columns_of(right.columns) {
            _ if swapped => ends(&kernels.tiled_weights_outputs),
            WIDE => (&kernels.tiled_weights, Ring { stages: 4, columns: WIDE }),
            NARROW => (&kernels.tiled_weights_narrow, Ring { stages: 6, columns: NARROW }),
            _ => ends(&kernels.tiled_weights_inputs),
        };
        let args = TiledWeightsArgs {
            state: &self.arrays.state,
            first: first as u32,
            rows: s.chunk as u32,
            layer: l as u32,
            copies: s.copies as u32,
            left: left.of,
            left_tower: left.tower as u64,
            left_blocks: (left.columns / BLOCK_COLUMNS) as u32,
            right: right.of,
            right_tower: right.tower as u64,
            right_blocks: (right.columns / BLOCK_COLUMNS) as u32,
            partial: &self.arrays.partial,
            n_parameters: self.network.n_parameters as u32,
        };
        let tiles = left.columns / BLOCK_ROWS * (right.columns / ring.columns);
        let jobs = tiles * tiled.shape.towers.len() * s.copies;
        Ok(kernel.launch(&ring.launch_with(jobs, LINES_BYTES), &[args.arg()])?)
    }
}
