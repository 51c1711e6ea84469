//! How a policy's network runs on a GPU.

use super::machine::Machine;
use super::network::WideNetwork;
use super::tensor::shape::TensorShape;
use super::tiled::shape::TiledShape;
use super::whole_fp32::shape::FusedShape;
use crate::algorithm::PolicyPlan;

/// How layers are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// In fp32.
    Single,
    /// On tensor cores, with half-precision operands and fp32 sums.
    Half,
}

/// How a policy's network runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NetworkPath {
    /// Layer by layer.
    Layers(Product),
    /// Whole networks in fp32.
    Fused(FusedShape),
    /// Whole towers on tensor cores.
    Tensor(Vec<TensorShape>),
    /// Layer by layer on tensor cores.
    Tiled(TiledShape),
    /// By a tensor library, which has kernels of its own.
    Foreign,
}

impl NetworkPath {
    /// For `plan`'s network, whose `rows` act at a time; with `tensor_cores` operands of products may be halves.
    pub(super) fn new(
        network: &WideNetwork,
        plan: &PolicyPlan,
        rows: usize,
        machine: Machine,
        tensor_cores: bool,
    ) -> Self {
        let half = tensor_cores && machine.generation >= 8;
        if !half {
            // These are not normalised.
            let plain = Some(network).filter(|network| !network.has_norms());
            let fused = plain.and_then(|plain| FusedShape::new(plain, rows, machine.shared));
            return fused.map_or(Self::Layers(Product::Single), Self::Fused);
        }
        // Products that run by themselves are those of this generation alone.
        let newest = Some(network).filter(|_| machine.generation == 9);
        let towers = newest
            .and_then(|network| TensorShape::of_towers(&network.towers, machine.shared.per_block));
        towers
            .map(Self::Tensor)
            .or_else(|| {
                newest.and_then(|network| TiledShape::of_policy(network, plan)).map(Self::Tiled)
            })
            .unwrap_or(Self::Layers(Product::Half))
    }

    /// Whether kernels that act also take what agents see into its moments: if it is normalised and there is room.
    pub(super) fn sums_obs(&self, plan: &PolicyPlan) -> bool {
        let shapes = self.shapes();
        let has_room = match self {
            Self::Tiled(shape) => shape.rollout.is_some(),
            _ => !shapes.is_empty() && shapes.iter().all(TensorShape::has_room_for_obs_sums),
        };
        has_room && plan.config.norm_obs
    }

    /// The towers on tensor cores.
    pub(super) fn shapes(&self) -> &[TensorShape] {
        match self {
            Self::Tensor(shapes) => shapes,
            _ => &[],
        }
    }
}
