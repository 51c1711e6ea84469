//! Structs that host and kernels of the small path both read, and what kernels take: a struct each.

use crate::engine::collectives::LinkArgs;
use crate::fused::objective::MOST_CELLS;
use std::fmt::Write;
use warp_core::DType;
use warp_core::device_struct::Pointee;
use warp_func::cuda::{DeviceStruct, KernelArgs, declare};

warp_core::device_struct! {
    /// Where in a run an iteration is.
    pub(super) struct SmallRun {
        seed: u64,
        /// Agents of all replicas.
        n_rows: u32,
        n_envs: u32,
        /// Iterations done: what permutations depend on.
        iteration: u32,
        /// Row of the schedule and of the figures.
        index: u32,
        /// Number of the policy's first agent.
        first_agent: u32,
        actor_blocks: u32,
        /// Number of the first shard that its samples are of, among those of all ranks.
        shard: u32,
        /// Steps of the other runs in this launch that the counter of steps does not know yet.
        steps_before: u32,
    }

    /// Which runs a launch of whole runs takes, and how far.
    pub(super) struct FewReplicasRun {
        /// Of one run.
        n_envs: u32,
        /// Iterations done.
        iteration: u32,
        /// To do.
        n_iterations: u32,
        /// Whether episodes begin with the launch.
        begins: u32,
        /// Rows from one run's schedule to the next's; 0: all have the same.
        schedules: u32,
        /// Rows of figures of a run.
        n_figures: u32,
        n_runs: u32,
        /// Number of the first among those whose replicas the environment's arrays hold.
        first_run: u32,
        /// Steps done that the counter of steps does not know.
        steps_before: u32,
    }

    /// What one iteration learns with; `Schedule` of order.cuh is this and a [`StepFactors`] per minibatch.
    pub(super) struct Settings {
        vf_coef: f32,
        ent_coef: f32,
        gamma: f32,
        gae_lambda: f32,
        /// Of the objective: the policy's part, then the value's, then zeros.
        cells: [f32; MOST_CELLS],
        max_grad_norm: f32,
        adam_eps: f32,
    }

    /// Factors of a step of the optimiser; where epochs may end early the learning rate and 1, which the kernel corrects.
    pub(super) struct StepFactors { step_size: f32, inverse_bias_correction2_sqrt: f32 }

    /// What an iteration says of itself. Blocks have a part each of all but the last three: sums, then what is
    /// largest, then sums again.
    pub(super) struct Figures {
        returns: f64,
        returns_squared: f64,
        /// Returns less values.
        residuals: f64,
        residuals_squared: f64,
        /// Episodes that ended.
        n_episodes: f64,
        episode_lengths: f64,
        episode_returns: f64,
        longest: f64,
        largest: f64,
        minus_shortest: f64,
        minus_smallest: f64,
        policy_loss: f64,
        value_loss: f64,
        entropy: f64,
        approx_kl: f64,
        clip_fraction: f64,
        grad_norm: f64,
        /// Not 0 if a gradient was not finite.
        non_finite: f64,
        /// Minibatches that were learned from: all of them, unless the epochs ended early.
        n_updates: f64,
    }

    /// What a replica says of its ended episodes; an array of each.
    pub(super) struct EpisodeFigures {
        count: f32,
        lengths: f32,
        returns: f32,
        longest: f32,
        largest: f32,
        minus_shortest: f32,
        minus_smallest: f32,
    }

    /// What is kept of a row beside its observation. Bits of `what`: 4 per head its choice, 16 to 23 the
    /// allowed choices, 24 ended, 25 truncated, 26 to 31 which of the replica's truncations.
    pub(super) struct Row {
        what: u32,
        log_prob: f32,
        value: f32,
        /// Until it is known, the reward.
        advantage: f32,
    }

    /// Sizes of what kernels keep.
    pub(super) struct SmallSizes {
        shared_bytes: u32,
        n_parameters: u32,
        /// Of 16 bytes, of a stored row.
        record_units: u32,
        /// Numbers of an update that a block has of each kind.
        own: u32,
        n_totals: u32,
    }

    /// Sizes of what a rollout of several agents keeps: bytes of all networks and of a warp's rows, and the figures.
    pub(super) struct MultiAgentSizes { networks: u32, rows: u32, n_figures: u32 }
}

/// Bits of a [`Row`].
pub(super) const ROW_ENDED: u32 = 1 << 24;
const ROW_TRUNCATED: u32 = 1 << 25;
/// Where the bits of the allowed choices begin.
pub(super) const ROW_MASK_AT: u32 = 16;

/// What an iteration learns with, as long as a policy has minibatches.
#[derive(Debug)]
pub(super) enum Schedule {}

impl Pointee for Schedule {
    const C_NAME: &'static str = "Schedule";
    const DTYPE: Option<DType> = None;
}

warp_func::kernel_args! {
    /// What a rollout is normalised by, and what it tells the update: see normalise.cuh.
    pub(super) struct NormaliserArgs {
        /// `[2 * columns + 1]`.
        factors: &mut [f32],
        /// Count, mean and variance of each column, then the discount: `[3 * columns + 1]`.
        known: &mut [f64],
        /// `[2 * summed columns, n_parts]`.
        parts: &mut [f64],
        /// The discounted return of each row so far.
        running: &mut [f64],
        n_parts: u32,
    }

    /// `small_collect`, behind the environment's.
    pub(super) struct CollectArgs {
        run: SmallRun,
        parameters: &[f32],
        records: &mut [u32],
        episodes: &mut [f32],
        barrier: &mut [u32],
        normaliser: {NormaliserArgs},
    }

    /// `small_update`.
    pub(super) struct UpdateArgs {
        run: SmallRun,
        parameters: &mut [f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
        records: &mut [u32],
        schedule: &[Schedule],
        episodes: &[f32],
        partials: &mut [f32],
        reduced: &mut [f32],
        norms: &mut [f32],
        state: &mut [f32],
        totals: &mut [f64],
        figures: &mut [Figures],
        barrier: &mut [u32],
        normaliser: {NormaliserArgs},
        /// Steps that the optimiser had made before the launch's first iteration.
        optimiser_steps: u32,
        /// Divergence of a whole epoch, in the mean, after which no other begins; read where the key is set.
        target_kl: f64,
    }

    /// What `small_piece` takes beside it.
    pub(super) struct PieceArgs {
        /// Which piece: from -1 to the number of minibatches.
        update: i32,
        /// Where in the run the iteration at hand is, as the first piece says.
        place: &mut [SmallRun],
        /// Sums for the moments of advantages, of this rank and of all ranks.
        moments: &mut [f64],
        all_moments: &[f64],
        /// The gradient of this rank, and those of all ranks.
        gradient: &mut [f32],
        gradients: &[f32],
        /// Every thread's sums of losses: `[blocks, threads, 5]`.
        losses: &mut [f32],
        /// The sum of the norms so far, and whether one was not finite.
        norms: &mut [f32],
    }

    /// `small_few_replicas`, behind the environment's: where the runs' numbers lie, one run after the other.
    pub(super) struct FewReplicasArgs {
        run: FewReplicasRun,
        seeds: &[u64],
        parameters: &mut [f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
        records: &mut [u32],
        schedule: &[Schedule],
        episodes: &mut [f32],
        state: &mut [f32],
        totals: &mut [f64],
        figures: &mut [Figures],
        normaliser: {NormaliserArgs},
    }

    /// `small_collect_multi_agent`, behind the environment's and the policies' arrays.
    pub(super) struct CollectMultiAgentArgs { run: SmallRun, figures: &mut [f64] }

    /// `small_multi_agent_figures`.
    pub(super) struct MultiAgentFiguresArgs { figures: &[f64], n_warps: u32, out: &mut [f64] }

    /// `small_sizes`.
    pub(super) struct SizesArgs { sizes: &mut [SmallSizes] }

    /// `small_multi_agent_sizes`.
    pub(super) struct MultiAgentSizesArgs { sizes: &mut [MultiAgentSizes] }
}

/// The C code of all of them.
pub(super) fn declarations() -> String {
    let mut text = String::from("struct Schedule;\n");
    let bits = [("ENDED", ROW_ENDED), ("TRUNCATED", ROW_TRUNCATED), ("MASK_AT", ROW_MASK_AT)];
    for (name, value) in bits {
        let _ = writeln!(text, "#define ROW_{name} {value}u");
    }
    text + &declare(&[
        SmallRun::STRUCT,
        FewReplicasRun::STRUCT,
        Settings::STRUCT,
        StepFactors::STRUCT,
        Figures::STRUCT,
        EpisodeFigures::STRUCT,
        Row::STRUCT,
        SmallSizes::STRUCT,
        MultiAgentSizes::STRUCT,
        NormaliserArgs::ARGS,
        CollectArgs::ARGS,
        UpdateArgs::ARGS,
        PieceArgs::ARGS,
        LinkArgs::ARGS,
        FewReplicasArgs::ARGS,
        CollectMultiAgentArgs::ARGS,
        MultiAgentFiguresArgs::ARGS,
        SizesArgs::ARGS,
        MultiAgentSizesArgs::ARGS,
    ])
}
