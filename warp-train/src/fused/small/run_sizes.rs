//! Sizes of a run's work, which its configuration alone decides: samples, minibatches, blocks.

use super::layout::hidden;
use crate::algorithm::{MinibatchSchedule, PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::world::{Carrier, World};

/// Samples of a tile of an update.
pub(super) const TILE_ROWS: usize = 128;

/// Whether a policy's epochs may end early: as elsewhere, those of algorithms that shuffle.
pub(super) fn may_end_early(plan: &PolicyPlan) -> bool {
    plan.config.target_kl.is_some() && plan.passes().shuffles
}

/// Whether steps take something off every weight.
pub(super) fn decays(keys: &PolicyConfig) -> bool {
    keys.weight_decay > 0.0
}

/// Whether a policy's observations or rewards are normalised.
pub(super) fn normalises(plan: &PolicyPlan) -> bool {
    plan.config.norm_obs || plan.config.norm_reward
}

/// Truncations of one replica in a rollout at most.
pub(super) fn cuts(config: &TrainConfig) -> u32 {
    let limit = config.spec.time_limit;
    match limit.ends {
        warp_core::LimitEnds::Terminated => 0,
        warp_core::LimitEnds::Truncated => {
            (config.run.num_steps as u32).div_ceil(limit.steps.max(1)).max(1)
        }
    }
}

/// Samples of a minibatch, for all networks together, from which on two blocks share a multiprocessor:
/// their barriers and sums over blocks cost more, their tiles less.
const LARGE_MINIBATCH: usize = 200_000;

/// Blocks of an update of policy number `index` on one multiprocessor.
pub(super) fn blocks_of(config: &TrainConfig, index: usize) -> u32 {
    blocks_of_plan(config, &config.policies[index])
}

pub(super) fn blocks_of_plan(config: &TrainConfig, plan: &PolicyPlan) -> u32 {
    let minibatch = samples_of(config, plan) / passes_of(config, plan).minibatches;
    let keys = &plan.config;
    let n_nets = if keys.shared_trunk { 1 } else { 2 };
    if minibatch * n_nets >= LARGE_MINIBATCH && hidden(keys) <= 64 { 2 } else { 1 }
}

/// Shards of this GPU that minibatches of policy number `index` are sampled from. One minibatch has all samples, whatever
/// the shards.
pub(super) fn shards(config: &TrainConfig, index: usize) -> usize {
    if passes(config, index).minibatches == 1 { 1 } else { config.shards().here }
}

/// Samples of this GPU in the largest of policy number `index`'s minibatches.
pub(super) fn largest_minibatch(config: &TrainConfig, index: usize) -> usize {
    let shards = shards(config, index);
    shards * (samples(config, index) / shards).div_ceil(passes(config, index).minibatches)
}

/// Samples of a policy in a rollout.
pub(super) fn samples(config: &TrainConfig, index: usize) -> usize {
    samples_of(config, &config.policies[index])
}

fn samples_of(config: &TrainConfig, plan: &PolicyPlan) -> usize {
    config.n_envs().saturating_mul(config.run.num_steps).saturating_mul(plan.n_agents())
}

/// How often policy number `index` goes through a rollout, and in how many parts.
pub(super) fn passes(config: &TrainConfig, index: usize) -> MinibatchSchedule {
    passes_of(config, &config.policies[index])
}

fn passes_of(config: &TrainConfig, plan: &PolicyPlan) -> MinibatchSchedule {
    let passes = plan.passes();
    let of_shard = samples_of(config, plan) / config.shards().here;
    MinibatchSchedule { minibatches: passes.minibatches.min(of_shard), ..passes }
}

/// Minibatches that policy number `index` learns from in an iteration.
pub(super) fn n_updates(config: &TrainConfig, index: usize) -> usize {
    let MinibatchSchedule { epochs, minibatches, .. } = passes(config, index);
    epochs * minibatches
}

/// Sums for the moments of policy number `index`'s advantages; 0 where they are not normalised.
pub(super) fn n_moments(config: &TrainConfig, index: usize) -> usize {
    match (config.policies[index].config.norm_adv, passes(config, index).minibatches) {
        (false, _) => 0,
        (true, 1) => 2,
        (true, _) => 2 * n_updates(config, index),
    }
}

/// Whether NCCL carries sums between ranks, and updates are in pieces.
pub(super) fn is_relayed(world: &World) -> bool {
    !world.is_alone() && world.carrier() == Carrier::Nccl
}

/// Whether rewards and the like are stored behind the observations: unless updates take rows in another
/// order than the rollout's, which then are not read from two places.
pub(super) fn apart(config: &TrainConfig) -> bool {
    (0..config.policies.len()).all(|p| passes(config, p).minibatches == 1)
}

/// Up to this many replicas a block takes eight of them, its warps sharing the network.
const FEW: usize = 4096;
/// Replicas that a block's warps take together; the macro of this name in collect_few.cu.
pub(super) const FEW_REPLICAS: usize = 8;
/// From this many replicas on a warp takes 32 of them, below 16.
const MANY: usize = 16_384;

/// Replicas of a run of one agent that are taken through a rollout together: few at a time for as long as
/// that fills the device better.
pub(super) fn together(config: &TrainConfig) -> usize {
    match config.n_envs() {
        ..=FEW => FEW_REPLICAS,
        MANY.. if hidden(&config.policies[0].config) <= 64 => 32,
        _ => 16,
    }
}

/// Whether so many runs at most are few enough for a multiprocessor for each of their networks.
pub(super) fn spreads(config: &TrainConfig, runs: usize, multiprocessors: u32) -> bool {
    !config.policies[0].config.shared_trunk && 2 * runs <= multiprocessors as usize
}

/// Up to this many replicas a warp takes four of them, up to the next eight, above sixteen.
const MOST_BY_FOURS: usize = 4096;
const MOST_BY_EIGHTS: usize = 12_288;
/// Sixteen for so many agents at most.
const FEW_AGENTS: usize = 8;

/// Replicas of several agents that a warp takes: few are done sooner, more use the products' tiles better, as long as
/// registers can hold where all their agents' rows go.
pub(super) fn replicas_of_warp(config: &TrainConfig) -> usize {
    match config.n_envs() {
        ..=MOST_BY_FOURS => 4,
        n if n > MOST_BY_EIGHTS && config.spec.n_agents() <= FEW_AGENTS => 16,
        _ => 8,
    }
}
