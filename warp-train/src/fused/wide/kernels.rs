//! The loaded kernels of the wide path, as fields under their names.

use crate::error::Result;
use warp_func::cuda::{Function, Module};

macro_rules! kernels {
    ($($(#[doc = $about:expr])* $name:ident { $($kernel:ident),* $(,)? })*) => {$(
        $(#[doc = $about])*
        #[derive(Debug)]
        pub(super) struct $name { $(pub(super) $kernel: Function,)* }
        impl $name {
            pub(super) fn of(module: &Module) -> Result<Self> {
                $(let $kernel = module.function(concat!("wide_", stringify!($kernel)))?;)*
                Ok(Self { $($kernel),* })
            }
        }
    )*};
}

kernels! {
    /// What every network needs.
    GeneralKernels {
        inputs, act, outcome, take_values, scatter_cut, gae, count, places_of_blocks, compact,
        variances, explain, normalise_returns, begin_goals, note_goals, select, next_iteration,
    }
    /// Minibatches and steps of the optimiser.
    UpdateKernels {
        shuffle, advantages, shuffled_advantages, begin_minibatch, gather, reduce, sum_copies,
        factors, descend, check_kl,
    }
    /// Losses of outputs in memory, where whole networks do not compute theirs.
    LossKernels { losses }
    /// How far actions differ, in a unit of its own.
    SpreadKernels { spread, spread_means }
    /// For running moments of observations and rewards.
    NormaliserKernels {
        sum_obs, obs_moments, merge_moments, discount, return_moments, learn_returns, scale_rewards,
    }
    /// Layer by layer.
    LayerKernels { layer, layer_inputs, layer_weights }
    /// Layers that are normalised.
    NormKernels { norm, norm_inputs, norm_weights }
    /// All layers of few rows that act.
    FewKernels { act_few }
    /// Whole networks in fp32 act ..
    FusedActKernels { fused_act }
    /// .. and learn.
    FusedLearnKernels { fused_learn }
    /// Weights for tensor cores, and whole towers that act on them; a unit by itself, as the next four.
    TensorActKernels { pack, tensor_act }
    /// Whole rollouts.
    TensorRolloutKernels { tensor_rollout }
    /// Learning on them in one pass ..
    TensorGradientKernels { tensor_gradient }
    /// .. or the first of two.
    TensorLearnKernels { tensor_learn }
    /// The second.
    TensorWeightsKernels { tensor_weights }
    /// What goes into layers on tensor cores and comes out of them.
    TiledRowKernels { tiled_pack, tiled_store_obs, tiled_gather, tiled_sum }
    /// Tiled layers forward ..
    TiledForwardKernels { tiled_forward, tiled_forward_narrow }
    /// .. the last hidden one of them with few outputs ..
    TiledLastKernels { tiled_last, tiled_last_narrow }
    /// .. or the output layer ..
    TiledOutputsKernels { tiled_outputs }
    /// .. what their outputs are worth ..
    TiledLossKernels { tiled_losses }
    /// .. what is done by outputs that stay in shared memory ..
    TiledDecideKernels { tiled_decide }
    /// .. whole rollouts ..
    TiledRolloutKernels { tiled_rollout }
    /// .. and back ..
    TiledBackKernels { tiled_back, tiled_back_narrow }
    /// .. between what is normalised ..
    TiledNormKernels { tiled_norm, tiled_norm_back, tiled_norm_sum }
}

/// .. and the gradients of their weights, each a unit by itself.
#[derive(Debug)]
pub(super) struct TiledWeightsKernels {
    pub(super) tiled_weights: Function,
    pub(super) tiled_weights_narrow: Function,
    pub(super) tiled_weights_inputs: Function,
    pub(super) tiled_weights_outputs: Function,
}

impl TiledWeightsKernels {
    pub(super) fn of([wide, narrow, inputs, outputs]: &[Module; 4]) -> Result<Self> {
        Ok(Self {
            tiled_weights: wide.function("wide_tiled_weights")?,
            tiled_weights_narrow: narrow.function("wide_tiled_weights_narrow")?,
            tiled_weights_inputs: inputs.function("wide_tiled_weights_inputs")?,
            tiled_weights_outputs: outputs.function("wide_tiled_weights_outputs")?,
        })
    }
}

/// How a network runs layer by layer.
#[derive(Debug)]
pub(super) struct ByLayer {
    pub(super) product: super::network_path::Product,
    pub(super) kernels: LayerKernels,
}

/// Whole networks in fp32.
#[derive(Debug)]
pub(super) struct FusedTowers {
    pub(super) shape: super::whole_fp32::shape::FusedShape,
    pub(super) acts: FusedActKernels,
    pub(super) learns: FusedLearnKernels,
}
