//! The small learner's code: its files after the environment's, with sizes as constants, so that it is compiled for
//! one network and one environment.

use super::layout::hidden;
use super::refusal::{most_updates_of_fleets, refused_anywhere, unsupported};
use super::shared::declarations;
use super::{TILE_ROWS, multi_agent};
use crate::algorithm::{Advantages, MinibatchSchedule, PolicyConfig, PolicyPlan, Rollouts};
use crate::config::TrainConfig;
use crate::engine::collectives::EXCHANGE;
use crate::fused::halves;
use crate::fused::objective::{self, MOST_CELLS};
use crate::loss::Part;
use crate::model::{Activation, LAYER_NORM_EPSILON, LogStd};
use crate::optimiser::UpdateRule;
use crate::world::{Carrier, World};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use warp_func::Start;
use warp_func::cuda::{EnvKernels, Source};
use warp_sample::ActionLayout;
use warp_sample::kernel_text::layout_text;

/// Included files: names and texts.
const FILES: [(&str, &str); 26] = [
    ("halves.cuh", halves::TEXT),
    ("mma.cuh", include_str!("mma.cuh")),
    ("net.cuh", include_str!("net.cuh")),
    ("layer_norm.cuh", include_str!("layer_norm.cuh")),
    ("layers.cuh", include_str!("layers.cuh")),
    ("loss.cuh", include_str!("loss.cuh")),
    ("four_warps.cuh", include_str!("four_warps.cuh")),
    ("stage.cuh", include_str!("stage.cuh")),
    ("gradient.cuh", include_str!("gradient.cuh")),
    ("exchange.cuh", EXCHANGE),
    ("epochs.cuh", EPOCHS),
    ("order.cuh", include_str!("order.cuh")),
    ("advantages.cuh", include_str!("advantages.cuh")),
    ("normalise.cuh", include_str!("normalise.cuh")),
    ("descent.cuh", include_str!("descent.cuh")),
    ("cluster_peer.cuh", include_str!("cluster_peer.cuh")),
    ("weights.cuh", include_str!("weights.cuh")),
    ("choice.cuh", include_str!("choice.cuh")),
    ("collect.cu", include_str!("collect.cu")),
    ("collect_few.cu", include_str!("collect_few.cu")),
    ("multi_agent_replica.cuh", include_str!("multi_agent_replica.cuh")),
    ("multi_agent_normalise.cuh", include_str!("multi_agent_normalise.cuh")),
    ("collect_multi_agent.cu", include_str!("collect_multi_agent.cu")),
    ("pieces.cuh", include_str!("pieces.cuh")),
    ("update.cu", include_str!("update.cu")),
    ("few_replicas.cu", include_str!("few_replicas.cu")),
];

/// The order in which an epoch takes the samples.
pub(super) const EPOCHS: &str = include_str!("epochs.cuh");

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

/// Rows of a rollout from which on each has a thread that computes its advantages, not a warp: later where a thread also
/// finds the minibatches of its samples, which takes much longer and needs more threads at once.
const MANY_ROWS: usize = 4096;
const MANY_ROWS_OF_MINIBATCHES: usize = 24_576;

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
fn shards(config: &TrainConfig, index: usize) -> usize {
    if passes(config, index).minibatches == 1 { 1 } else { config.shards().here }
}

/// Samples of this GPU in the largest of policy number `index`'s minibatches.
pub(super) fn largest_minibatch(config: &TrainConfig, index: usize) -> usize {
    let shards = shards(config, index);
    shards * (samples(config, index) / shards).div_ceil(passes(config, index).minibatches)
}

/// Samples of a policy in a rollout.
fn samples(config: &TrainConfig, index: usize) -> usize {
    samples_of(config, &config.policies[index])
}

fn samples_of(config: &TrainConfig, plan: &PolicyPlan) -> usize {
    config.n_envs().saturating_mul(config.run.num_steps).saturating_mul(plan.n_agents())
}

/// Replicas of a run of a fleet at most whose rollout one block takes, eight at a time: with more of them the learners
/// wait.
const MOST_REPLICAS_OF_A_RUN: usize = 64;
/// The same of a run that is alone: with more of them many blocks are faster, whose sums have another order.
const MOST_REPLICAS_ALONE: usize = 8;
/// Samples of a minibatch at most where one block has to take all of it.
const FEW_REPLICAS_MINIBATCH: usize = 1024;
/// Minibatches of an iteration at most of such a run, whose moments and factors lie in shared memory, and epochs, for each of
/// which a thread works out the order.
const FEW_REPLICAS_UPDATES: usize = 1024;
const FEW_REPLICAS_EPOCHS: usize = 256;

/// Whether a run that is alone is small enough for a block per network.
#[must_use]
pub(crate) fn has_few_replicas(config: &TrainConfig) -> bool {
    fits_few_replicas(config)
        && config.run.num_envs <= MOST_REPLICAS_ALONE
        && (!is_normed(config) || takes_norms(config))
}

/// Whether the policy has layer norm.
fn is_normed(config: &TrainConfig) -> bool {
    config.policies[0].config.layer_norm
}

/// Whether a block per network takes layer norm: one for both has neither registers nor shared memory for it, and with
/// several tiles a minibatch many blocks are faster.
fn takes_norms(config: &TrainConfig) -> bool {
    spreads(config, 1, 2) && largest_minibatch(config, 0) <= TILE_ROWS
}

/// Whether runs like this one can share launches.
#[must_use]
pub(crate) fn shares_launches(config: &TrainConfig) -> bool {
    fits_few_replicas(config)
        && !is_normed(config)
        && n_updates(config, 0) <= most_updates_of_fleets(config)
}

/// Whether a run is small enough for the kernel for few replicas, alone or in a fleet.
fn fits_few_replicas(config: &TrainConfig) -> bool {
    let (run, hidden) = (&config.run, hidden(&config.policies[0].config));
    let MinibatchSchedule { epochs, minibatches, .. } = passes(config, 0);
    hidden <= 64
        && epochs <= FEW_REPLICAS_EPOCHS
        && epochs * minibatches <= FEW_REPLICAS_UPDATES
        && run.start != Start::Pool
        && config.world.is_alone()
        // Its kernel goes through all epochs.
        && !may_end_early(&config.policies[0])
        && run.num_envs <= MOST_REPLICAS_OF_A_RUN
        && run.num_envs * run.num_steps / minibatches <= FEW_REPLICAS_MINIBATCH
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

/// Shared memory that the host gives a block that collects for one agent; 0 where a kernel may declare what it needs. With
/// layer norm, 47 KB of weights, rows and factors take 53 KB, and four such blocks have room on a multiprocessor.
pub(super) fn collect_bytes(config: &TrainConfig) -> u32 {
    let plan = &config.policies[0];
    let wide = hidden(&plan.config) == 128 && plan.group(&config.spec).observation_width() > 15;
    if wide { 56 << 10 } else { 0 }
}

/// The translation units for `config` on an environment with the text `env`: of a rollout, of an update.
pub(in super::super) fn run_sources(config: &TrainConfig, env: &EnvKernels) -> [Source; 2] {
    let mut constants = constants(config, 0);
    let together = together(config);
    constants.push(("TOGETHER", together.to_string()));
    constants.push(("COLLECT_BYTES", collect_bytes(config).to_string()));
    let collect = if together == FEW_REPLICAS { "collect_few.cu" } else { "collect.cu" };
    let tuning = Tuning { blocks: blocks_of(config, 0), lean: false };
    [collect, "update.cu"].map(|file| source_of(&config.policies[0], &constants, env, tuning, file))
}

/// Whether so many runs at most are few enough for a multiprocessor for each of their networks.
pub(super) fn spreads(config: &TrainConfig, runs: usize, multiprocessors: u32) -> bool {
    !config.policies[0].config.shared_trunk && 2 * runs <= multiprocessors as usize
}

/// The kernel of whole runs with few replicas; with `spread` a block has one of a run's networks and not all.
pub(super) fn few_replicas_source(config: &TrainConfig, env: &EnvKernels, spread: bool) -> Source {
    let mut constants = constants(config, 0);
    // 0: any number of tiles.
    let most_tiles = if largest_minibatch(config, 0) <= TILE_ROWS { 1 } else { 0 };
    constants.push(("MOST_TILES", most_tiles.to_string()));
    constants.push(("SPREAD", u32::from(spread).to_string()));
    let tuning = Tuning { blocks: if spread { 1 } else { 2 }, lean: true };
    source_of(&config.policies[0], &constants, env, tuning, "few_replicas.cu")
}

/// The kernel of `runs` whole runs side by side.
pub(in super::super) fn fleet_source(
    config: &TrainConfig,
    env: &EnvKernels,
    runs: usize,
    multiprocessors: u32,
) -> Source {
    few_replicas_source(config, env, spreads(config, runs, multiprocessors))
}

/// The kernel of policy number `index`'s update alone.
pub(super) fn update_source(config: &TrainConfig, index: usize, env: &EnvKernels) -> Source {
    let mut constants = constants(config, index);
    let rows = samples(config, index) / config.run.num_steps;
    let many =
        if passes(config, index).minibatches > 1 { MANY_ROWS_OF_MINIBATCHES } else { MANY_ROWS };
    constants.push(("MANY_ROWS", u32::from(rows >= many).to_string()));
    constants.push(("APART", u32::from(multi_agent::apart(config)).to_string()));
    let tuning = Tuning { blocks: blocks_of(config, index), lean: false };
    source_of(&config.policies[index], &constants, env, tuning, "update.cu")
}

/// The translation units that `config` would compile for an environment with the code `env`; none if its networks are
/// not small.
#[must_use]
pub fn sources(config: &TrainConfig, env: &EnvKernels) -> Vec<Source> {
    if refused_anywhere(config, env).is_some() {
        return Vec::new();
    }
    if env.team > 1 {
        return multi_agent::sources(config, env);
    }
    let mut sources = run_sources(config, env).to_vec();
    if has_few_replicas(config) || shares_launches(config) {
        let apart = spreads(config, 1, 2);
        let ways = [false, true].into_iter().filter(|spread| match spread {
            true => apart,
            false => !apart || shares_launches(config),
        });
        sources.extend(ways.map(|spread| few_replicas_source(config, env, spread)));
    }
    sources
}

/// How a unit uses a multiprocessor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    /// Blocks that share one.
    pub(super) blocks: u32,
    /// The macro LEAN: registers are worth more than instructions.
    pub(super) lean: bool,
}

/// `file` for these constants and the objective of `plan`.
pub(super) fn source_of(
    plan: &PolicyPlan,
    constants: &[(&'static str, String)],
    env: &EnvKernels,
    tuning: Tuning,
    file: &str,
) -> Source {
    let mut text = String::from("#include \"translated.cuh\"\n");
    for (name, value) in constants {
        let _ = writeln!(text, "#define {name} {value}");
    }
    let (blocks, lean) = (tuning.blocks, u32::from(tuning.lean));
    let _ = writeln!(text, "#define BLOCKS {blocks}\n#define LEAN {lean}");
    // A name of the environment's body is none of ours.
    text.push_str("namespace warp_small {\n");
    text.push_str(&declarations());
    text.push_str(&action_box(plan));
    let _ = writeln!(text, "#include \"{file}\"\n}}");
    let mut source = env.source(&format!("small_{file}"), &text);
    source.headers.extend(FILES.iter().map(|(name, text)| ((*name).into(), (*text).into())));
    source.headers.push(("objective.cuh".into(), objective_of(plan)));
    source
}

/// Macros and their values for policy number `index`.
pub(super) fn constants(config: &TrainConfig, index: usize) -> Vec<(&'static str, String)> {
    let (plan, run) = (&config.policies[index], &config.run);
    let keys = &plan.config;
    let flag = |on: bool| u32::from(on).to_string();
    let number = |value: f64| format!("{:e}f", value as f32);
    let MinibatchSchedule { epochs, minibatches, .. } = passes(config, index);
    let advantages = plan.rollouts.as_ref().map(|rollouts| rollouts.advantages);
    let (group, optimiser) = (plan.group(&config.spec), plan.optimiser_config());
    let heads: Vec<String> = plan.layout.head_sizes().iter().map(usize::to_string).collect();
    let mut constants = vec![
        ("OBS", group.observation_width().to_string()),
        ("HID", hidden(keys).to_string()),
        ("OUT", plan.layout.output_width().to_string()),
        ("ACTION_WIDTH", plan.layout.action_width().to_string()),
        ("SHARED_TRUNK", flag(keys.shared_trunk)),
        ("BF16", flag(halves::are_bf16(keys.precision))),
        ("RELU", flag(keys.activation == Activation::Relu)),
        ("OBJECTIVE", format!("0x{:016x}ull", fingerprint(plan))),
        ("MOST_CELLS", MOST_CELLS.to_string()),
        ("CONTINUOUS", flag(heads.is_empty())),
        ("MASKED", flag(group.mask_width() > 0)),
        ("LOG_STD_FREE", flag(keys.log_std == LogStd::StateIndependent)),
        ("NORM_ADV", flag(keys.norm_adv)),
        ("NORM_OBS", flag(keys.norm_obs)),
        ("NORM_REWARD", flag(keys.norm_reward)),
        ("COMPAT", flag(advantages == Some(Advantages::WarpDrive))),
        ("N_STEPS", run.num_steps.to_string()),
        ("CUTS", cuts(config).to_string()),
        ("MINIBATCHES", minibatches.to_string()),
        ("EPOCHS", epochs.to_string()),
        ("LOCAL_SHARDS", shards(config, index).to_string()),
        ("AGENTS", plan.n_agents().to_string()),
        ("RMSPROP", flag(optimiser.rule == UpdateRule::RmsProp)),
        ("CRITIC_RATE", flag(keys.critic_learning_rate.is_some())),
        ("DECAYS", flag(decays(keys))),
        ("LAYER_NORM", flag(keys.layer_norm)),
        ("LAYER_NORM_EPSILON", format!("{LAYER_NORM_EPSILON:e}f")),
        ("TARGET_KL", flag(may_end_early(plan))),
        ("BETA_1", format!("{:e}", optimiser.beta_1)),
        ("BETA_2", format!("{:e}", optimiser.beta_2)),
        ("BLEND_1", number(1.0 - optimiser.beta_1)),
        ("BLEND_2", number(1.0 - optimiser.beta_2)),
        ("FIRST_AGENT", "0".into()),
        ("ROWS", "1".into()),
        ("RANKS", config.world.size().to_string()),
        ("RELAYED", flag(is_relayed(&config.world))),
        // Four warps multiply matrices of these sizes together.
        ("FOUR_WARPS", flag(hidden(keys) >= 64)),
    ];
    if !heads.is_empty() {
        constants.push(("HEADS", format!("{{{}}}", heads.join(", "))));
    }
    constants
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

/// Between which bounds a policy's actions lie, as a C struct; nothing for choices.
fn action_box(plan: &PolicyPlan) -> String {
    match &plan.layout {
        ActionLayout::Discrete(_) => String::new(),
        ActionLayout::Continuous(_) => layout_text("ActionBox", &plan.layout, false),
    }
}

/// Tells policies' objectives apart, whose cells are not compiled in.
fn fingerprint(plan: &PolicyPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(Rollouts { objective, .. }) = &plan.rollouts {
        for function in [objective.policy.function, objective.value.function] {
            (function.name, function.text).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The text of a policy's objective, with approximate exponentials as everywhere here.
fn objective_of(plan: &PolicyPlan) -> String {
    let Some(Rollouts { objective, .. }) = &plan.rollouts else { return String::new() };
    let cell = |part: &Part, number: usize| objective::cell(objective, part, number);
    format!(
        "#pragma once\nnamespace objective {{\n\
         __device__ __forceinline__ float warp_exp(float x) {{ return fast_exp(x); }}\n\
         {}}}\nusing namespace objective;\n",
        objective::text(objective, cell)
    )
}

/// What runs that share a launch have in common, as text: what is compiled into the kernels, and how layers are padded;
/// empty where nothing can be compiled.
#[must_use]
pub(crate) fn common(config: &TrainConfig) -> String {
    if unsupported(config).is_some() {
        return String::new();
    }
    let constants = constants(config, 0).into_iter();
    let constants = constants.map(|(name, value)| format!("{name} {value}\n"));
    let layers = format!("{:?}", config.policies[0].config.hidden);
    constants.chain([action_box(&config.policies[0]), layers]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config(keys: &str) -> TrainConfig {
        config_of("cartpole", keys)
    }

    fn config_of(env: &str, keys: &str) -> TrainConfig {
        let table = format!("env_id = \"{env}\"\nnum_envs = 4\nnum_steps = 128\n{keys}").parse();
        TrainConfig::resolve(&table.unwrap(), &warp_envs::registry()).unwrap()
    }

    #[test]
    fn runs_of_few_replicas_have_their_kernel() {
        let has = |keys: &str| (has_few_replicas(&config(keys)), shares_launches(&config(keys)));
        assert_eq!(has(""), (true, true));
        assert_eq!(has("num_minibatches = 1\nupdate_epochs = 256"), (true, true));
        assert_eq!(has("num_minibatches = 1\nupdate_epochs = 257"), (false, false), "orders");
        assert_eq!(has("num_minibatches = 8\nupdate_epochs = 128"), (true, false), "sums");
        assert_eq!(has("num_minibatches = 8\nupdate_epochs = 129"), (false, false), "moments");
        assert_eq!(has("hidden = [128, 128]"), (false, false));
        assert_eq!(has("target_kl = 0.01"), (false, false));
    }

    /// Of 16 inputs, frozen_lake's cells, tiles leave room for fewer of the sums that minibatches need.
    #[test]
    fn fleets_with_many_inputs_have_fewer_minibatches() {
        let shares = |keys: &str| {
            shares_launches(&config_of("frozen_lake", &format!("num_minibatches = 25\n{keys}")))
        };
        assert!(shares("update_epochs = 10") && !shares("update_epochs = 11"));
        assert!(shares("update_epochs = 11\nshared_trunk = true"));
        assert!(shares("update_epochs = 11\nhidden = [32, 32]"));
    }

    /// Rates differ, layers do not, also where the same kernels have both.
    #[test]
    fn runs_that_share_a_launch_have_the_same_layers() {
        let of = |keys: &str| common(&config(keys));
        assert_eq!(of("hidden = [40, 24]\nlearning_rate = 1e-3"), of("hidden = [40, 24]"));
        assert_ne!(of("hidden = [40, 24]"), of("hidden = [48, 20]"));
        assert_ne!(of("hidden = [64, 64]"), of("hidden = [48, 20]"));
    }

    #[test]
    fn layer_norm_takes_a_block_per_network_and_one_tile() {
        let has = |keys: &str| {
            let config = config(&format!("layer_norm = true\n{keys}"));
            assert!(!shares_launches(&config));
            has_few_replicas(&config)
        };
        assert!(has("num_minibatches = 4") && has("hidden = [32, 32]\nnum_minibatches = 4"));
        assert!(!has("num_minibatches = 3"), "171 samples are two tiles");
        assert!(!has("num_minibatches = 4\nshared_trunk = true"));
    }
}
