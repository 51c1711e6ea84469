//! Layer norm between hidden layers and their activations, where layers run one by one. Host side of `layers/norm.cu`.

use crate::error::Result;
use crate::fused::wide::args::{NormArgs, NormInputsArgs, NormWeightsArgs};
use crate::fused::wide::kernels::NormKernels;
use crate::fused::wide::network::{Layer, WideNetwork};
use crate::fused::wide::policy::{Rows, WidePolicy};
use crate::model::LAYER_NORM_EPSILON;
use warp_core::DType::F32;
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{KernelArgs, Launch};

/// Rows that a block takes, a warp each.
const ROWS_OF_BLOCK: usize = 8;
/// Columns of the gradients of gains and shifts that a block takes.
const COLUMNS_OF_BLOCK: usize = 32;

/// The normalisation of one hidden layer.
#[derive(Debug)]
struct Norm {
    /// Where its gains lie among the parameters, and its shifts behind them.
    gain: usize,
    width: usize,
    /// Mean 0 and deviation 1, f32 `[rows, width]`.
    unit: DeviceArray,
    /// One over the deviation, f32 `[rows]`.
    inverse: DeviceArray,
}

/// Which hidden layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct HiddenLayer {
    pub(super) tower: usize,
    pub(super) number: usize,
}

/// The normalisations of all hidden layers, and their kernels.
#[derive(Debug)]
pub(in super::super) struct Norms {
    kernels: NormKernels,
    /// By tower and layer.
    norms: Vec<Vec<Norm>>,
}

impl Norms {
    /// Those of `network`, with room for so many rows at once.
    pub(in super::super) fn new(
        device: &Device,
        kernels: NormKernels,
        network: &WideNetwork,
        rows: usize,
    ) -> Result<Self> {
        let make = |name: &str, n: usize| DeviceArray::zeros(device, name, F32, &[n]);
        let norm = |layer: &Layer, gain: usize| -> Result<Norm> {
            let (width, inverse) = (layer.n_out, make("layers' deviations", rows)?);
            Ok(Norm { gain, width, unit: make("normalised layer", rows * width)?, inverse })
        };
        let towers = network.towers.iter().map(|tower| {
            let layers = tower.hidden.iter().zip(&tower.norms);
            layers.map(|(layer, gain)| norm(layer, *gain)).collect()
        });
        Ok(Self { kernels, norms: towers.collect::<Result<_>>()? })
    }

    fn of(&self, layer: HiddenLayer) -> Option<&Norm> {
        self.norms.get(layer.tower).and_then(|tower| tower.get(layer.number))
    }
}

impl WidePolicy {
    /// Normalises the outputs `y` of a hidden layer and applies the activation, if layers are normalised.
    pub(super) fn normalise_layer(
        &self,
        layer: HiddenLayer,
        y: &DeviceArray,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let Some(norms) = &self.norms else { return Ok(()) };
        let Some(norm) = norms.of(layer) else { return Ok(()) };
        let args = NormArgs {
            parameters: &self.arrays.parameters,
            gain: norm.gain as u32,
            n: norm.width as u32,
            y,
            unit: &norm.unit,
            inverse: &norm.inverse,
            state: &self.arrays.state,
            sampled: i32::from(rows.sampled),
            first: rows.first as u32,
            rows: rows.rows as u32,
            activation: self.activation(),
            epsilon: LAYER_NORM_EPSILON,
        };
        Ok(norms.kernels.norm.launch(&a_warp_each(rows.rows), &[args.arg()])?)
    }

    /// From the gradient `d` of what a layer's normalisation gave to those of gains and shifts, and to that of what was
    /// normalised, in place.
    pub(super) fn norm_backward(
        &self,
        layer: HiddenLayer,
        d: &DeviceArray,
        first: usize,
    ) -> Result<()> {
        let Some(norms) = &self.norms else { return Ok(()) };
        let Some(norm) = norms.of(layer) else { return Ok(()) };
        let (a, copies, rows) = (&self.arrays, self.sizes.copies, self.sizes.chunk);
        let args = NormWeightsArgs {
            d,
            unit: &norm.unit,
            n: norm.width as u32,
            partial: &a.partial,
            n_parameters: self.network.n_parameters as u32,
            gain: norm.gain as u32,
            state: &a.state,
            first: first as u32,
            rows: rows as u32,
            shares: copies as u32,
        };
        let blocks = norm.width.div_ceil(COLUMNS_OF_BLOCK) * copies;
        norms.kernels.norm_weights.launch(&Launch::over(blocks * 256, 256), &[args.arg()])?;
        let args = NormInputsArgs {
            parameters: &a.parameters,
            gain: norm.gain as u32,
            n: norm.width as u32,
            unit: &norm.unit,
            inverse: &norm.inverse,
            d,
            state: &a.state,
            first: first as u32,
            rows: rows as u32,
        };
        Ok(norms.kernels.norm_inputs.launch(&a_warp_each(rows), &[args.arg()])?)
    }
}

fn a_warp_each(rows: usize) -> Launch {
    Launch::over(rows.div_ceil(ROWS_OF_BLOCK) * 256, 256)
}
