//! The engine on a GPU as the check looks into it: piece by piece, on batches of the host.

use super::super::{BF16_BOUND, BFLOAT_BOUND, BOUND};
use super::Probe;
use crate::algorithm::{ColumnId, Planned, Precision, Variant};
use crate::config::TrainConfig;
use crate::engine::EngineState;
use crate::engine::cuda::{CudaEngine, Setting};
use crate::engine::off_policy::planned;
use crate::error::{Error, Result};
use crate::model::NamedTensor;
use warp_func::Registry;
use warp_func::cuda::{Build, Kernels};

/// Engines of policy number `index`: in f32 and, unless layers are too wide for it, in half precision.
///
/// # Errors
/// An environment that can't be made on the GPU, or what the device says.
pub(super) fn probes(
    config: &TrainConfig,
    registry: &Registry,
    index: usize,
    kernels: &Kernels,
) -> Result<Vec<Box<dyn Probe>>> {
    let mut probes: Vec<Box<dyn Probe>> = Vec::new();
    let halves = match config.policies[index].config.precision {
        Precision::BFloat => Precision::BFloat,
        Precision::Half | Precision::Single => Precision::Half,
    };
    for precision in [Precision::Single, halves] {
        let mut config = config.clone();
        config.policies[index].config.precision = precision;
        let engine = engine(&config, registry, index, kernels)?;
        if precision == Precision::Single || engine.is_half() {
            probes.push(Box::new(engine));
        }
    }
    Ok(probes)
}

/// An engine whose pieces of a whole update are compiled.
fn engine(
    config: &TrainConfig,
    registry: &Registry,
    index: usize,
    kernels: &Kernels,
) -> Result<CudaEngine> {
    let entry = registry.get(&config.run.env_id)?;
    let options = config.vec_options();
    let mut envs = entry.make_cuda(&config.env, &options, kernels, Build::Parity)?;
    let envs = envs
        .as_cuda()
        .ok_or_else(|| Error::Invalid(format!("\"{}\" cannot run on a GPU", config.run.env_id)))?;
    let Planned { plan, algorithm } = planned(config, &config.policies[index])?;
    let setting = Setting::new(config, (index, 0));
    let mut engine = CudaEngine::new(plan, setting, (&[config.run.seed], &[envs]))?;
    engine.prepare_pieces(&*algorithm, Variant(algorithm.n_variants() - 1))?;
    Ok(engine)
}

impl Probe for CudaEngine {
    fn backend(&self) -> &'static str {
        match (self.is_half(), self.is_bf16()) {
            (false, _) => "cuda fp32",
            (true, false) => "cuda fp16",
            (true, true) => "cuda bf16",
        }
    }

    fn bound(&self) -> f64 {
        match (self.is_half(), self.is_bf16()) {
            (false, _) => BOUND,
            (true, false) => BFLOAT_BOUND,
            (true, true) => BF16_BOUND,
        }
    }

    fn begin(&mut self, weights: &[NamedTensor]) -> Result<()> {
        let state = EngineState { weights: weights.to_vec(), ..EngineState::default() };
        self.load(&[state])?;
        self.clear_figures()
    }

    fn set_column(&mut self, id: ColumnId, numbers: &[f32]) -> Result<()> {
        Self::set_column(self, id, numbers)
    }

    fn column(&self, id: ColumnId) -> Result<Vec<f32>> {
        Self::column(self, id)
    }

    fn state(&self) -> Result<EngineState> {
        self.weights(0)
    }
}
