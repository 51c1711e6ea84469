//! Layer norm between hidden layers on tensor cores and their activations. Host side of `tiled/norm.cu`.

use super::TiledNetwork;
use super::shape::{BLOCK_ROWS, NormBlocks, TiledShape};
use crate::error::Result;
use crate::fused::wide::args::{TiledNormArgs, TiledNormBackArgs, TiledNormSumArgs};
use crate::fused::wide::kernels::TiledNormKernels;
use crate::fused::wide::policy::{Rows, WidePolicy};
use warp_core::DType::{F32, U8};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{KernelArgs, Launch, Module};

/// Rows that a block takes at a time on the way back, a warp each; on the way forward twice as many.
const ROWS_OF_BLOCK: usize = 8;

/// What normalises hidden layers.
#[derive(Debug)]
pub(in super::super) struct TiledNorms {
    kernels: TiledNormKernels,
    /// What each hidden layer gives before it is normalised, per tower.
    pub(super) sums: Vec<DeviceArray>,
    /// Sums of the gradients of gains and shifts, of each block.
    parts: DeviceArray,
    /// Blocks of a tower on either way; those on the way back leave such sums.
    blocks: NormBlocks,
}

impl TiledNorms {
    /// With room for `rows`, which are full blocks; kernels are those of `unit`.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(
        device: &Device,
        shape: &TiledShape,
        rows: usize,
        unit: &Module,
    ) -> Result<Self> {
        let towers = shape.towers.len();
        let multiprocessors = device.info().n_multiprocessors as usize;
        let of_tower = |blocks: usize, rows: usize| {
            (blocks * multiprocessors / towers).clamp(1, rows / ROWS_OF_BLOCK)
        };
        let NormBlocks { forward, back } = shape.norm_blocks();
        let blocks =
            NormBlocks { forward: of_tower(forward, rows / 2), back: of_tower(back, rows) };
        let sums = shape.hidden().iter().map(|layer| {
            let bytes = 2 * towers * rows * layer.outputs;
            Ok(DeviceArray::zeros(device, "sums of layers", U8, &[bytes])?)
        });
        let parts = blocks.back * towers * shape.end.biases;
        Ok(Self {
            kernels: TiledNormKernels::of(unit)?,
            sums: sums.collect::<Result<_>>()?,
            parts: DeviceArray::zeros(device, "gradients of gains", F32, &[parts])?,
            blocks,
        })
    }
}

impl WidePolicy {
    /// Activations of hidden layer `l` from its sums, of some rows.
    pub(super) fn tiled_norm(
        &self,
        tiled: &TiledNetwork,
        norms: &TiledNorms,
        l: usize,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let y = tiled.gradients_of(l);
        let args = TiledNormArgs {
            state: &self.arrays.state,
            sampled: i32::from(rows.sampled),
            first: rows.first as u32,
            rows: rows.rows as u32,
            layer: l as u32,
            biases: &tiled.biases,
            biases_tower: tiled.shape.end.biases as u32,
            sums: &norms.sums[l],
            y: y.of,
            tower: y.tower as u64,
        };
        let blocks = rows.rows.next_multiple_of(BLOCK_ROWS) / (2 * ROWS_OF_BLOCK);
        let blocks = blocks.min(norms.blocks.forward);
        let launch = Launch::over(blocks * tiled.shape.towers.len() * 256, 256);
        Ok(norms.kernels.tiled_norm.launch(&launch, &[args.arg()])?)
    }

    /// From gradients of the activations of hidden layer `l` to those of its sums, in place, for the samples from `first` on.
    pub(super) fn tiled_norm_back(
        &self,
        tiled: &TiledNetwork,
        norms: &TiledNorms,
        l: usize,
        first: usize,
    ) -> Result<()> {
        let d = tiled.gradients_of(l);
        let args = TiledNormBackArgs {
            state: &self.arrays.state,
            first: first as u32,
            rows: self.sizes.chunk as u32,
            layer: l as u32,
            biases: &tiled.biases,
            biases_tower: tiled.shape.end.biases as u32,
            sums: &norms.sums[l],
            d: d.of,
            tower: d.tower as u64,
            parts: &norms.parts,
        };
        let launch = Launch::over(norms.blocks.back * tiled.shape.towers.len() * 256, 256);
        Ok(norms.kernels.tiled_norm_back.launch(&launch, &[args.arg()])?)
    }

    /// Gradients of all gains and shifts, for the samples from `first` on.
    pub(super) fn tiled_norm_sum(
        &self,
        tiled: &TiledNetwork,
        norms: &TiledNorms,
        first: usize,
    ) -> Result<()> {
        let (copies, vectors) = (self.sizes.copies, tiled.shape.end.biases);
        let args = TiledNormSumArgs {
            biases_tower: vectors as u32,
            blocks: norms.blocks.back as u32,
            copies: copies as u32,
            first: first as u32,
            parts: &norms.parts,
            partial: &self.arrays.partial,
            n_parameters: self.network.n_parameters as u32,
        };
        let launch = Launch::over(copies * tiled.shape.towers.len() * vectors, 256);
        Ok(norms.kernels.tiled_norm_sum.launch(&launch, &[args.arg()])?)
    }
}
