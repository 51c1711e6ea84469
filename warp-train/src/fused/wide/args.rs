//! What the kernels of the wide path take: a struct each, named after its kernel.

use super::arrays::SUM_BLOCKS;
use super::shared::{
    FAULT_GRADIENT, FAULT_OUTPUT, OF_ADVANTAGES, SUMS, WideColumns, WideDistances, WideMoments,
    WideSettings, WideState,
};
use std::fmt::Write;
use warp_func::cuda::{CStruct, DeviceStruct, KernelArgs, declare};
use warp_func::kernel_args;

/// Where the environment's arrays of the policy's groups lie; as state.cu declares it.
#[derive(Debug)]
pub(super) enum WidePlaces {}

impl warp_core::device_struct::Pointee for WidePlaces {
    const C_NAME: &'static str = "WidePlaces";
    const DTYPE: Option<warp_core::DType> = None;
}

// What several kernels take.
kernel_args! {
    /// Where what agents see before a step is stored, and what it is normalised by.
    pub(super) struct WideSeen { obs: &mut [f32], masks: &mut [u8], weights: &mut [u8], factors: &[f32] }
    /// Where what was done in a rollout is stored.
    pub(super) struct WideDone {
        masks: &[u8], actions: &mut [i32], raws: &mut [f32], log_probs: &mut [f32], values: &mut [f32],
    }
    /// Step `t` of a rollout, in which so many rows act.
    pub(super) struct WideStep {
        places: &[WidePlaces], state: &mut [WideState], parameters: &[f32], seed: u64,
        first_replica: u32, t: u32, rows: u32, done: {WideDone},
    }
    /// Cells of a rollout, and which of them are learned from.
    pub(super) struct CellsArgs { weights: &[u8], selected: &[u8], rows: u32, cells: u32 }
    /// What the loss reads of samples.
    pub(super) struct WideSamples {
        masks: &[u8], actions: &[i32], raws: &[f32], log_probs: &[f32], values: &[f32],
        advantages: &[f32], returns: &[f32], known: &[f32],
    }
}

// normalise.cu
kernel_args! {
    pub(super) struct SumObsArgs {
        places: &[WidePlaces], rows: u32, shares: u32, factors: &[f32],
        parts: &mut [WideDistances],
    }
    pub(super) struct ObsMomentsArgs {
        parts: &mut [WideDistances], shares: u32, factors: &[f32], pending: &mut [WideMoments],
    }
    pub(super) struct MergeMomentsArgs {
        held: &[WideMoments],
        moments: &mut [WideMoments], pending: &mut [WideMoments], factors: &mut [f32],
    }
    pub(super) struct DiscountArgs {
        steps: u32, rows: u32, rewards: &[f32], ended: &[u8], settings: &[WideSettings], running: &mut [f64],
        discounted: &mut [f32],
    }
    pub(super) struct ReturnMomentsArgs {
        rows: u32, discounted: &[f32], weights: &[u8], steps: &mut [WideMoments],
    }
    pub(super) struct LearnReturnsArgs {
        steps: &[WideMoments], n: u32, anew: i32, moments: &mut [WideMoments],
    }
    pub(super) struct ScaleRewardsArgs { n: u64, moments: &[WideMoments], rewards: &mut [f32] }
}

// rollout.cu
kernel_args! {
    pub(super) struct InputsArgs { places: &[WidePlaces], t: u32, rows: u32, seen: {WideSeen} }
    /// `part` rows from `first` on.
    pub(super) struct ActArgs { step: {WideStep}, outs: &[f32], first: u32, part: u32 }
    pub(super) struct OutcomeArgs {
        places: &[WidePlaces], t: u32, rows: u32, rewards: &mut [f32], ended: &mut [u8],
        truncated_values: &mut [f32], cut_count: &mut [u32], cut_cell: &mut [u32],
        cut_obs: &mut [f32], factors: &[f32],
    }
    pub(super) struct TakeValuesArgs {
        state: &mut [WideState], outs: &[f32], part: u32, values: &mut [f32], at: u64,
    }
    pub(super) struct ScatterCutArgs {
        cut_cell: &[u32], cut_values: &[f32], n: u32, truncated_values: &mut [f32],
    }
    pub(super) struct GaeArgs {
        steps: u32, rows: u32, rewards: &[f32], values: &[f32], ended: &[u8],
        truncated_values: &[f32], settings: &[WideSettings], compat_last_step: i32,
        advantages: &mut [f32], returns: &mut [f32], log_probs: &[f32], known: &mut [f32],
    }
    pub(super) struct CountArgs { of: {CellsArgs}, counts: &mut [u32] }
    pub(super) struct PlacesOfBlocksArgs {
        counts: &mut [u32], blocks: u32, state: &mut [WideState], n: &mut [u32],
    }
    pub(super) struct CompactArgs { of: {CellsArgs}, places: &[u32], order: &mut [u32] }
    pub(super) struct NormaliseReturnsArgs {
        of: {CellsArgs}, values: &[f32], log_probs: &[f32], advantages: &mut [f32],
        returns: &mut [f32], known: &mut [f32],
    }
    pub(super) struct VariancesArgs {
        state: &[WideState], order: &[u32], returns: &[f32], values: &[f32], rewards: &[f32],
        advantages: &[f32], whole: i32, parts: &mut [f64],
    }
    pub(super) struct ExplainArgs {
        parts: &[f64], state: &mut [WideState], ns: &[u32],
    }
    pub(super) struct ShuffleArgs {
        settings: &[WideSettings], state: &[WideState], epoch: u32, order: &[u32],
        shuffled: &mut [u32],
    }
}

// next_iteration.cu
kernel_args! {
    pub(super) struct NextIterationArgs {
        states: &[u64], settings: &[u64], n_policies: u32, totals: &[u32], n_totals: u32,
        taken: &mut [u32], planned: &[u32], results: &mut [u32],
    }
}

// selection.cu
kernel_args! {
    pub(super) struct BeginGoalsArgs {
        episode_length: &[u32], n_envs: u32, lengths: &mut [u32], reached: &mut [u8],
    }
    pub(super) struct NoteGoalsArgs {
        terminated: &[u8], truncated: &[u8], n_envs: u32, statistics: &[f32], width: u32, statistic: i32,
        limit: u32, lengths: &mut [u32], reached: &mut [u8],
    }
    pub(super) struct SelectArgs {
        settings: &[WideSettings], n_envs: u32, ratio: f64, reached: &[u8], selected: &mut [u8],
        counts: &mut [u32],
    }
}

// update.cu
kernel_args! {
    pub(super) struct CheckKlArgs { state: &mut [WideState], target_kl: f64 }
    pub(super) struct AdvantagesArgs {
        state: &[WideState], order: &[u32], advantages: &[f32], parts: &mut [f64], ns: &[u32],
    }
    pub(super) struct ShuffledAdvantagesArgs {
        settings: &[WideSettings], state: &[WideState], epoch: u32, order: &[u32], advantages: &[f32],
        parts: &mut [f64], ns: &[u32],
    }
    pub(super) struct BeginMinibatchArgs {
        state: &mut [WideState], part: u32, parts: &[f64], stride: u32, first: u32, rank_stride: u32,
        normalise: i32, ns: &[u32],
    }
    pub(super) struct GatherArgs {
        state: &[WideState], order: &[u32], first: u32, rows: u32, obs: &[f32],
        gathered: &mut [f32],
    }
    pub(super) struct LossesArgs {
        settings: &[WideSettings], state: &[WideState], order: &[u32], first: u32, rows: u32,
        from: {WideSamples}, parameters: &[f32], outs: &mut [f32], parts: &mut [f64], parts_at: u32,
    }
    pub(super) struct ReduceArgs {
        state: &[WideState], partial: &[f32], copies: u32, n_parameters: u32,
        lanes: u32, gradient: &mut [f32], squares: &mut [f64],
    }
    pub(super) struct SumCopiesArgs {
        partial: &[f32], copies: u32, n_parameters: u32, sum: &mut [f32],
    }
    pub(super) struct ReduceRanksArgs {
        state: &[WideState], partial: &[f32], copies: u32, n_parameters: u32, gradient: &mut [f32],
        squares: &mut [f64], losses: &[u64], all_losses: &mut [u64], n_losses: u32, rounds: &mut [u64],
    }
    pub(super) struct FactorsArgs {
        settings: &[WideSettings], state: &mut [WideState], squares: &[f64], blocks: u32,
        losses: &[f64], loss_blocks: u32, loss_room: u32,
    }
    pub(super) struct DescendArgs {
        settings: &[WideSettings], state: &[WideState], gradient: &[f32], n_parameters: u32, epsilon: f32,
        weight_decay: f64,
        parameters: &mut [f32], exp_avg: &mut [f32], exp_avg_sq: &mut [f32],
    }
}

// layers/gemm.cu, layers/act_few.cu
kernel_args! {
    pub(super) struct LayerArgs {
        x: &[f32], x_at: u64, parameters: &[f32], weight: u32, n_in: u32, n_out: u32,
        y: &mut [f32], to: WideColumns, state: &[WideState], sampled: i32, first: u32, rows: u32,
        activation: i32, tile: i32,
    }
    pub(super) struct LayerInputsArgs {
        dy: &[f32], from: WideColumns, parameters: &[f32], weight: u32, n_in: u32, n_out: u32,
        h: &[f32], dx: &mut [f32], state: &[WideState], first: u32, rows: u32, activation: i32,
        tile: i32,
    }
    pub(super) struct LayerWeightsArgs {
        dy: &[f32], of: WideColumns, x: &[f32], n_in: u32, n_out: u32, partial: &mut [f32],
        n_parameters: u32, weight: u32, state: &[WideState], first: u32, rows: u32, shares: u32,
        tile: i32,
    }
    pub(super) struct ActFewArgs { step: {WideStep}, seen: {WideSeen}, activation: i32 }
}

// layers/norm.cu
kernel_args! {
    pub(super) struct NormArgs {
        parameters: &[f32], gain: u32, n: u32, y: &mut [f32], unit: &mut [f32], inverse: &mut [f32],
        state: &[WideState], sampled: i32, first: u32, rows: u32, activation: i32, epsilon: f32,
    }
    pub(super) struct NormInputsArgs {
        parameters: &[f32], gain: u32, n: u32, unit: &[f32], inverse: &[f32], d: &mut [f32],
        state: &[WideState], first: u32, rows: u32,
    }
    pub(super) struct NormWeightsArgs {
        d: &[f32], unit: &[f32], n: u32, partial: &mut [f32], n_parameters: u32, gain: u32,
        state: &[WideState], first: u32, rows: u32, shares: u32,
    }
}

// shards.cu
kernel_args! {
    pub(super) struct CountShardsArgs {
        settings: &[WideSettings], state: &mut [WideState], order: &[u32], rows: u32, n: &mut [u32],
    }
    pub(super) struct ShuffleShardsArgs {
        settings: &[WideSettings], state: &[WideState], epoch: u32, shuffles: u32, ns: &[u32],
        order: &[u32], shuffled: &mut [u32],
    }
}

// spread.cu
kernel_args! {
    pub(super) struct SpreadArgs {
        actions: &[i32], raws: &[f32], steps: u32, rows: u32, parts: &mut [f64],
    }
    pub(super) struct SpreadMeansArgs {
        parts: &[f64], steps: u32, rows: u32, state: &mut [WideState],
    }
}

// whole_fp32/act.cu, whole_fp32/learn.cu
kernel_args! {
    pub(super) struct FusedActArgs { step: {WideStep}, seen: {WideSeen}, stage: i32, given: &[f32] }
    pub(super) struct FusedLearnArgs {
        settings: &[WideSettings], state: &[WideState], order: &[u32], copies: u32, obs: &[f32],
        from: {WideSamples}, parameters: &[f32], partial: &mut [f32], n_parameters: u32,
        parts: &mut [f64],
    }
}

// tensor/
kernel_args! {
    pub(super) struct PackArgs { parameters: &[f32], image: &mut [u16], biases: &mut [f32] }
    pub(super) struct TensorActArgs {
        step: {WideStep}, stage: i32, given: &[f32], image: &[u8], biases: &[f32],
        obs: &mut [u8], masks: &mut [u8], weights: &mut [u8], factors: &[f32], sums_obs: i32,
        seen: &mut [WideDistances],
    }
    pub(super) struct TensorRolloutArgs { act: {TensorActArgs}, outcome: {OutcomeArgs}, steps: u32 }
    pub(super) struct TensorLearnArgs {
        settings: &[WideSettings], state: &[WideState], order: &[u32], first: u32, rows: u32,
        obs: &[u8], from: {WideSamples}, parameters: &[f32], image: &[u8], biases: &[f32],
        kept: &mut [u8], units: &mut [u8], own_gradients: &mut [f32], parts: &mut [f64],
        parts_at: u32, role: u32,
    }
    pub(super) struct TensorGradientArgs {
        settings: &[WideSettings], state: &[WideState], order: &[u32], first: u32, rows: u32,
        obs: &[u8], from: {WideSamples}, parameters: &[f32], image: &[u8], biases: &[f32],
        partial: &mut [f32], n_parameters: u32, parts: &mut [f64], parts_at: u32,
    }
    pub(super) struct TensorWeightsArgs {
        state: &[WideState], first: u32, rows: u32, copies: u32, kept: &[u8], own_gradients: &[f32],
        groups: u32, partial: &mut [f32], n_parameters: u32,
    }
}

// tiled/
kernel_args! {
    pub(super) struct TiledPackArgs {
        parameters: &[f32], image: &mut [u8], image_tower: u64, biases: &mut [f32],
        biases_tower: u32, few: &mut [u8],
    }
    pub(super) struct TiledStoreObsArgs {
        places: &[WidePlaces], t: u32, rows: u32, first: u32, part: u32, seen: {WideSeen},
        x: &mut [u8],
    }
    pub(super) struct TiledGatherArgs {
        state: &[WideState], sampled: i32, first: u32, rows: u32, order: &[u32], obs: &[f32],
        at: u64, x: &mut [u8],
    }
    pub(super) struct TiledSumArgs {
        state: &[WideState], sampled: i32, first: u32, rows: u32, few_outs: &[f32], few_rows: u32,
        tiles: u32, biases: &[f32], biases_tower: u32, outs: &mut [f32], first_tower: u32, n_towers: u32,
    }
    /// A layer of some towers forward or back: x has `parts` blocks a row, y so many columns; whether x are gradients of the outputs.
    pub(super) struct TiledLayerArgs {
        state: &[WideState], sampled: i32, first: u32, rows: u32, parts: u32,
        n_out: u32, x: &[u8], x_tower: u64, image: &[u8], image_at: u64, image_tower: u64, biases: &[f32],
        biases_at: u32, biases_tower: u32, y: &mut [u8], y_tower: u64, outs: &mut [f32],
        few: &[u8], few_outs: &mut [f32], few_rows: u32, of_outputs: i32,
        first_tower: u32, n_towers: u32,
    }
    /// `sums` of what is seen: of each block, if they are taken.
    pub(super) struct TiledRolloutArgs {
        step: {WideStep}, seen: {WideSeen}, outcome: {OutcomeArgs}, steps: u32, image: &[u8], image_tower: u64,
        biases: &[f32], biases_tower: u32, few: &[u8], sums_obs: i32, sums: &mut [WideDistances],
    }
    pub(super) struct TiledDecideArgs { step: {WideStep}, first: u32, part: u32, outputs: {TiledLayerArgs} }
    /// The output layers, of which y are the gradients.
    pub(super) struct TiledLossesArgs { losses: {LossesArgs}, outputs: {TiledLayerArgs} }
    pub(super) struct TiledNormArgs {
        state: &[WideState], sampled: i32, first: u32, rows: u32, layer: u32, biases: &[f32],
        biases_tower: u32, sums: &[u8], y: &mut [u8], tower: u64,
    }
    pub(super) struct TiledNormBackArgs {
        state: &[WideState], first: u32, rows: u32, layer: u32, biases: &[f32], biases_tower: u32,
        sums: &[u8], d: &mut [u8], tower: u64, parts: &mut [f32],
    }
    pub(super) struct TiledNormSumArgs {
        biases_tower: u32, blocks: u32, copies: u32, first: u32, parts: &[f32], partial: &mut [f32],
        n_parameters: u32,
    }
    pub(super) struct TiledWeightsArgs {
        state: &[WideState], first: u32, rows: u32, layer: u32, copies: u32, left: &[u8],
        left_tower: u64, left_blocks: u32, right: &[u8], right_tower: u64, right_blocks: u32,
        partial: &mut [f32], n_parameters: u32,
    }
}

/// `values` as an initialiser in C.
pub(super) fn list<T: ToString>(values: impl Iterator<Item = T>) -> String {
    format!("{{{}}}", values.map(|v| v.to_string()).collect::<Vec<_>>().join(", "))
}

/// The C code of those of layers/norm.cu.
pub(super) fn norm_declarations() -> String {
    declare(&[NormArgs::ARGS, NormInputsArgs::ARGS, NormWeightsArgs::ARGS])
}

/// The C code of those of shards.cu.
pub(super) fn shard_declarations() -> String {
    declare(&[CountShardsArgs::ARGS, ShuffleShardsArgs::ARGS])
}

/// The C code of those of spread.cu.
pub(super) fn spread_declarations() -> String {
    declare(&[SpreadArgs::ARGS, SpreadMeansArgs::ARGS])
}

/// The C code of all others and of what host and kernels share.
pub(super) fn declarations() -> String {
    let shared = [
        WideSettings::STRUCT,
        WideState::STRUCT,
        WideDistances::STRUCT,
        WideMoments::STRUCT,
        WideColumns::STRUCT,
    ];
    let parts =
        [WideSeen::ARGS, WideDone::ARGS, WideStep::ARGS, CellsArgs::ARGS, WideSamples::ARGS];
    let mut text = String::from("\nstruct WidePlaces;\n");
    let _ =
        writeln!(text, "#define WIDE_SUMS {SUMS}u\n#define WIDE_OF_ADVANTAGES {OF_ADVANTAGES}u");
    let _ = writeln!(text, "#define WIDE_SUM_BLOCKS {SUM_BLOCKS}u");
    let _ = writeln!(text, "#define WIDE_FAULT_OUTPUT {FAULT_OUTPUT}u");
    let _ = writeln!(text, "#define WIDE_FAULT_GRADIENT {FAULT_GRADIENT}u");
    let all = [&shared[..], &parts, &GENERAL, &NETWORKS].concat();
    text + &declare(&all)
}

const GENERAL: [CStruct; 35] = [
    SumObsArgs::ARGS,
    ObsMomentsArgs::ARGS,
    MergeMomentsArgs::ARGS,
    DiscountArgs::ARGS,
    ReturnMomentsArgs::ARGS,
    LearnReturnsArgs::ARGS,
    ScaleRewardsArgs::ARGS,
    InputsArgs::ARGS,
    ActArgs::ARGS,
    OutcomeArgs::ARGS,
    TakeValuesArgs::ARGS,
    ScatterCutArgs::ARGS,
    GaeArgs::ARGS,
    CountArgs::ARGS,
    PlacesOfBlocksArgs::ARGS,
    CompactArgs::ARGS,
    NormaliseReturnsArgs::ARGS,
    BeginGoalsArgs::ARGS,
    NoteGoalsArgs::ARGS,
    SelectArgs::ARGS,
    CheckKlArgs::ARGS,
    VariancesArgs::ARGS,
    ExplainArgs::ARGS,
    ShuffleArgs::ARGS,
    NextIterationArgs::ARGS,
    AdvantagesArgs::ARGS,
    ShuffledAdvantagesArgs::ARGS,
    BeginMinibatchArgs::ARGS,
    GatherArgs::ARGS,
    LossesArgs::ARGS,
    ReduceArgs::ARGS,
    SumCopiesArgs::ARGS,
    ReduceRanksArgs::ARGS,
    FactorsArgs::ARGS,
    DescendArgs::ARGS,
];

const NETWORKS: [CStruct; 24] = [
    LayerArgs::ARGS,
    LayerInputsArgs::ARGS,
    LayerWeightsArgs::ARGS,
    ActFewArgs::ARGS,
    FusedActArgs::ARGS,
    FusedLearnArgs::ARGS,
    PackArgs::ARGS,
    TensorActArgs::ARGS,
    TensorRolloutArgs::ARGS,
    TensorGradientArgs::ARGS,
    TensorLearnArgs::ARGS,
    TensorWeightsArgs::ARGS,
    TiledPackArgs::ARGS,
    TiledStoreObsArgs::ARGS,
    TiledGatherArgs::ARGS,
    TiledSumArgs::ARGS,
    TiledLayerArgs::ARGS,
    TiledDecideArgs::ARGS,
    TiledRolloutArgs::ARGS,
    TiledLossesArgs::ARGS,
    TiledNormArgs::ARGS,
    TiledNormBackArgs::ARGS,
    TiledNormSumArgs::ARGS,
    TiledWeightsArgs::ARGS,
];
