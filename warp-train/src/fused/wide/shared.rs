//! Structs that host and kernels of the wide path both read.

use crate::fused::objective::MOST_CELLS;
use warp_core::device_struct;

device_struct! {
    /// What the host says before an iteration.
    pub(super) struct WideSettings {
        seed: u64,
        learning_rate: f64,
        /// Of the value's network: the same, unless it has its own.
        critic_learning_rate: f64,
        vf_coef: f32,
        ent_coef: f32,
        gamma: f64,
        gae_lambda: f32,
        /// 0: gradients are not clipped.
        max_grad_norm: f32,
        /// Of the objective, where they change; else they are compiled in.
        cells: [f32; MOST_CELLS],
        iteration: u32,
        /// Number of the first shard that this rank's samples are of.
        shard: u32,
    }

    /// What kernels tell each other and the host in an iteration.
    pub(super) struct WideState {
        /// Advantages become (advantage - `adv_mean`) * `adv_scale`.
        adv_mean: f64,
        adv_scale: f64,
        /// L2 norm of the last gradient before clipping.
        norm: f64,
        /// Sums over minibatches of the means of policy loss, value loss, entropy, divergence and clipped
        /// share, and of the norms.
        sums: [f64; 6],
        explained_variance: f64,
        /// Over the samples of a rollout, on all ranks.
        mean_return: f64,
        mean_advantage: f64,
        mean_reward: f64,
        max_reward: f64,
        min_reward: f64,
        /// Minibatches and their divergences together when the last epoch had ended.
        judged_kl: f64,
        judged: u32,
        /// Not 0 once the policy has moved too far from the one that collected the rollout.
        stopped: u32,
        /// Samples of the rollout, and which of them (in the order of use) the minibatch at hand has.
        n: u32,
        begin: u32,
        end: u32,
        /// Samples that the minibatch at hand has on all ranks.
        whole: u32,
        /// [`FAULT_OUTPUT`], [`FAULT_GRADIENT`].
        fault: u32,
        optimiser_steps: u32,
        updates: u32,
        clip: f32,
        step_size: f32,
        critic_step_size: f32,
        /// Root of the second moment's bias correction.
        bias_correction2_sqrt: f32,
        /// How far actions differ over agents, replicas and steps; see spread.cu.
        action_std: [f64; 3],
        /// Where the counts of this rank's shards are among those of all ranks.
        first_shard: u32,
        /// Steps of the run done when the rollout began.
        first_step: u32,
    }

    /// Number of samples, and sums of their distances from what was known to be the mean, and of the squares.
    pub(super) struct WideDistances { count: f64, sum: f64, squares: f64 }

    /// Number of samples, mean, and variance over that number.
    pub(super) struct WideMoments { count: f64, mean: f64, var: f64 }

    /// Outputs of a layer as columns of rows of so many: from column `at` on, those from number `gap_at` on
    /// by `gap` further right.
    pub(super) struct WideColumns { at: u32, row: u32, gap_at: u32, gap: u32 }
}

/// Numbers that a block of sums has room for: those of `wide_variances`.
pub(super) const SUMS: usize = 9;
/// Which of them are the sum and the squares of advantages, where the only minibatch is the whole rollout.
pub(super) const OF_ADVANTAGES: usize = 7;
/// Bits of a fault: outputs that are not finite.
pub(super) const FAULT_OUTPUT: u32 = 1;
/// A gradient that is not finite.
pub(super) const FAULT_GRADIENT: u32 = 2;
/// Blocks of spread.cu for each of the three directions.
pub(super) const SPREAD_BLOCKS: usize = 256;
/// Words of what they find.
pub(super) const SPREAD_WORDS: usize = 2 * 3 * SPREAD_BLOCKS;
/// Policies that may wait for other ranks inside kernels at a time, a block on every multiprocessor each: it has room for
/// so many, as long as nothing else begins early beside a kernel that waits.
pub(super) const MOST_BESIDE: usize = 3;
