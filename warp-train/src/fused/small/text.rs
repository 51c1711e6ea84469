//! The small learner's code: its files after the environment's, with sizes as constants, so that it is compiled for
//! one network and one environment.

use super::layout::hidden;
use super::refusal::{has_few_replicas, refused_anywhere, shares_launches, unsupported};
use super::run_sizes::{
    FEW_REPLICAS, TILE_ROWS, apart, blocks_of, cuts, decays, is_relayed, largest_minibatch,
    may_end_early, passes, replicas_of_warp, samples, shards, spreads, together,
};
use super::shared::declarations;
use crate::algorithm::{Advantages, MinibatchSchedule, PolicyPlan, Rollouts};
use crate::config::TrainConfig;
use crate::engine::collectives::EXCHANGE;
use crate::fused::halves;
use crate::fused::objective::{self, MOST_CELLS};
use crate::loss::Part;
use crate::model::{Activation, LAYER_NORM_EPSILON, LogStd};
use crate::optimiser::UpdateRule;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
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

/// Rows of a rollout from which on each has a thread that computes its advantages, not a warp: later where a thread also
/// finds the minibatches of its samples, which takes much longer and needs more threads at once.
const MANY_ROWS: usize = 4096;
const MANY_ROWS_OF_MINIBATCHES: usize = 24_576;

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
    constants.push(("APART", u32::from(apart(config)).to_string()));
    let tuning = Tuning { blocks: blocks_of(config, index), lean: false };
    source_of(&config.policies[index], &constants, env, tuning, "update.cu")
}

pub(super) const MOST_WARPS: u32 = 6;

/// The translation units for several agents: of rollouts, and of each policy's updates.
pub(in super::super) fn team_sources(config: &TrainConfig, env: &EnvKernels) -> Vec<Source> {
    let updates = (0..config.policies.len()).map(|p| update_source(config, p, env));
    std::iter::once(collect_team_source(config, env)).chain(updates).collect()
}

/// Rollouts, with the body compiled for a team of one thread.
fn collect_team_source(config: &TrainConfig, env: &EnvKernels) -> Source {
    let spec = &config.spec;
    let agents = config.policies.iter().map(|plan| plan.n_agents());
    let ranges = config.policies.iter().flat_map(|plan| &plan.agents);
    let places = ranges.flat_map(|range| {
        let first = spec.first_agent(range.group);
        range.agents().map(move |agent| first + agent)
    });
    let list = |numbers: Vec<usize>| {
        let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
        format!("{{{}}}", numbers.join(", "))
    };
    let mut constants = constants(config, 0);
    constants.extend([
        ("APART", u32::from(apart(config)).to_string()),
        ("TOGETHER", replicas_of_warp(config).to_string()),
        ("MOST_WARPS", MOST_WARPS.to_string()),
        ("N_POLICIES", config.policies.len().to_string()),
        ("POLICY_AGENTS", list(agents.collect())),
        ("AGENT_PLACES", list(places.collect())),
    ]);
    let mut source = source_of(
        &config.policies[0],
        &constants,
        env,
        Tuning { blocks: 1, lean: false },
        "collect_multi_agent.cu",
    );
    for (name, value) in &mut source.defines {
        if name == "WARP_TEAM" || name == "WARP_TEAMS" {
            *value = "1".into();
        }
    }
    source
}

/// The translation units that `config` would compile for an environment with the code `env`; none if its networks are
/// not small.
#[must_use]
pub fn sources(config: &TrainConfig, env: &EnvKernels) -> Vec<Source> {
    if refused_anywhere(config, env).is_some() {
        return Vec::new();
    }
    if env.team > 1 {
        return team_sources(config, env);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config(keys: &str) -> TrainConfig {
        let table = format!("env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 128\n{keys}").parse();
        TrainConfig::resolve(&table.unwrap(), &warp_envs::registry()).unwrap()
    }

    /// Rates differ, layers do not, also where the same kernels have both.
    #[test]
    fn runs_that_share_a_launch_have_the_same_layers() {
        let of = |keys: &str| common(&config(keys));
        assert_eq!(of("hidden = [40, 24]\nlearning_rate = 1e-3"), of("hidden = [40, 24]"));
        assert_ne!(of("hidden = [40, 24]"), of("hidden = [48, 20]"));
        assert_ne!(of("hidden = [64, 64]"), of("hidden = [48, 20]"));
    }
}
