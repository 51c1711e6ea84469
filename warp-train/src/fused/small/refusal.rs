//! What the kernels for small networks do not take, of one agent, of several, and of runs of few replicas.

use super::layout::{hidden, padded_hidden};
use super::run_sizes::{
    TILE_ROWS, blocks_of_plan, cuts, largest_minibatch, may_end_early, n_updates, normalises,
    passes, replicas_of_warp, spreads,
};
use crate::algorithm::{MinibatchSchedule, PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::fused::objective::{MOST_CELLS, n_cells};
use warp_func::Start;
use warp_func::cuda::{DeviceInfo, EnvKernels};
use warp_sample::ActionLayout;

/// Rows of the last layer's tile: outputs of a network at most.
const MOST_OUTPUTS: usize = 8;
/// Inputs at most, so that a tile's rows fit into shared memory beside the layers and products have columns for them.
const MOST_INPUTS: usize = 31;
/// Shared memory of a block on GPUs of generation 9, in bytes.
const MOST_SHARED: usize = 227 << 10;
/// What of it an update needs for each minibatch: two sums of eight warps, in f64, and two factors.
const BYTES_OF_MINIBATCH: usize = 2 * 8 * 8 + 2 * 4;
/// What it needs beside those and its network.
const BESIDE: usize = 4 << 10;
/// Heads that a stored row has room for, and choices of one.
const MOST_HEADS: usize = 4;
const MOST_CHOICES: usize = 15;
/// Truncations of one replica in a rollout that a stored row can tell apart.
const MOST_CUTS: u32 = 63;
/// Samples of a rollout are numbered with 32 bits, and so are a minibatch's shares.
const MOST_SAMPLES: usize = 1 << 31;

/// Why there are no kernels for a run on a GPU like `info`, on environments of the text `env`; nothing if there are.
#[must_use]
pub(crate) fn refusal(config: &TrainConfig, env: &EnvKernels, info: &DeviceInfo) -> Option<String> {
    refused_anywhere(config, env).or_else(|| {
        let (major, minor) = info.capability;
        (!runs_on(info)).then(|| format!("a GPU of compute capability {major}.{minor}"))
    })
}

/// Whether a GPU has the instructions that the kernels use.
#[must_use]
pub(crate) fn runs_on(info: &DeviceInfo) -> bool {
    info.capability.0 == 9
}

/// Why there are no kernels for a run on any GPU.
#[must_use]
pub(super) fn refused_anywhere(config: &TrainConfig, env: &EnvKernels) -> Option<String> {
    match env.team {
        1 => unsupported(config),
        _ => unsupported_team(config, env),
    }
}

/// Why this learner can't take a run of one agent; nothing if it can.
#[must_use]
pub(crate) fn unsupported(config: &TrainConfig) -> Option<String> {
    let [plan] = &config.policies[..] else { return Some("more than one policy".into()) };
    let spec = &config.spec;
    let refusals = [
        (spec.groups.len() != 1 || spec.n_agents() != 1, "more than one agent"),
        (!spec.statistics.is_empty(), "statistics of episodes"),
    ];
    let refused = refusals.iter().find(|(refused, _)| *refused).map(|(_, what)| (*what).into());
    refused.or_else(|| unsupported_policy(config, plan))
}

/// What of a policy and its agents there are no kernels for.
fn unsupported_policy(config: &TrainConfig, plan: &PolicyPlan) -> Option<String> {
    let (spec, keys) = (&config.spec, &plan.config);
    if keys.hidden.is_empty() {
        return Some("no hidden layer".into());
    }
    let inputs = plan.group(spec).observation_width();
    let outputs = plan.layout.output_width() + usize::from(keys.shared_trunk);
    let rows = config.n_envs().saturating_mul(plan.n_agents());
    let updates = plan.passes().epochs.saturating_mul(plan.passes().minibatches);
    let has_no_kernel = padded_hidden(keys).is_none();
    let refusals = [
        (spec.groups.iter().any(|group| group.mortal), "agents that can leave"),
        (spec.global_observation.is_some(), "a global observation"),
        (!keys.to_train, "a policy that does not learn"),
        (keys.network.is_some(), "a network of the program's own"),
        (keys.rollout_metrics, "metrics of rollouts"),
        (keys.norm_return, "returns that are normalised"),
        (
            may_end_early(plan) && !config.world.is_alone(),
            "epochs that may end early on several GPUs",
        ),
        (keys.neg_pos_env_ratio.is_some(), "replicas that are selected"),
        (plan.check_passes().is_err(), "an objective or a schedule that no kernel has"),
        (
            normalises(plan) && !config.world.is_alone(),
            "observations or rewards that several GPUs normalise together",
        ),
        (
            has_no_kernel && keys.layer_norm,
            "layer norm of other hidden layers than two equal ones of 32, 64 or 128",
        ),
        (
            has_no_kernel && keys.adam_eps == 0.0,
            "adam_eps = 0 with other hidden layers than two equal ones of 32, 64 or 128",
        ),
        (has_no_kernel, "other hidden layers than two of at most 128"),
        (inputs > MOST_INPUTS, "an observation of more than 31 numbers"),
        (outputs > MOST_OUTPUTS, "more than 8 outputs"),
        (updates > most_updates(config, plan), "too many minibatches for shared memory"),
        (
            plan.passes().minibatches > 1 && !plan.passes().shuffles,
            "several minibatches that are not shuffled",
        ),
        (n_cells(plan) > MOST_CELLS, "a loss with more than 8 coefficients"),
        (
            keys.norm_reward && keys.gamma.changes(),
            "rewards that are normalised with a discount that changes",
        ),
        (cuts(config) > MOST_CUTS, "more than 63 truncations of a replica in one rollout"),
        (
            rows.saturating_mul(config.run.num_steps) > MOST_SAMPLES,
            "more than 2^31 samples in a rollout",
        ),
    ];
    let refused = refusals.iter().find(|(refused, _)| *refused).map(|(_, what)| (*what).into());
    refused.or_else(|| unsupported_actions(&plan.layout).map(Into::into))
}

/// Minibatches of an iteration at most: what blocks tell of each lies in shared memory.
fn most_updates(config: &TrainConfig, plan: &PolicyPlan) -> usize {
    let blocks = blocks_of_plan(config, plan) as usize;
    if may_end_early(plan) || plan.config.layer_norm {
        return if blocks > 1 { 128 } else { 1024 };
    }
    let inputs = plan.group(&config.spec).observation_width();
    // What tiles leave takes as much room in turn: where two blocks share it, these are the most that fit with any network.
    let most = if blocks > 1 { 512 } else { usize::MAX };
    let room = (MOST_SHARED / blocks).saturating_sub(network_bytes(&plan.config, inputs) + BESIDE);
    most.min(room / BYTES_OF_MINIBATCH)
}

/// Updates of an iteration, at most, of runs that share a multiprocessor: their sums lie in shared memory. Fewer, or none,
/// where two networks of 64 units have more than 15 inputs, since their tiles take more of it (`FewReplicasShared` in
/// `few_replicas.cu`).
const MOST_UPDATES_OF_FLEETS: usize = 384;
const MOST_UPDATES_OF_WIDE_FLEETS: usize = 250;

fn most_updates_of_fleets(config: &TrainConfig) -> usize {
    let plan = &config.policies[0];
    let wide = plan.group(&config.spec).observation_width() > 15;
    match wide && hidden(&plan.config) == 64 && !plan.config.shared_trunk {
        true if plan.layout.head_sizes().is_empty() => 0,
        true => MOST_UPDATES_OF_WIDE_FLEETS,
        false => MOST_UPDATES_OF_FLEETS,
    }
}

/// Shared memory of a network: weights in half precision, biases, gains and shifts. Twin of `NetShared` (net.cuh).
fn network_bytes(keys: &PolicyConfig, inputs: usize) -> usize {
    let hidden = hidden(keys);
    // Inputs as products take them, with the one that is 1.
    let k = (inputs + 1).next_multiple_of(16);
    let norms = if keys.layer_norm { 4 } else { 0 };
    let (row, alignment) = if hidden >= 64 { (hidden, 1024) } else { (hidden + 8, 16) };
    let halves = hidden * row + hidden * (k + 8) + 8 * (hidden + 8);
    (2 * halves + 4 * (hidden * (1 + norms) + 8)).next_multiple_of(alignment)
}

fn unsupported_actions(layout: &ActionLayout) -> Option<&'static str> {
    match layout {
        ActionLayout::Discrete(heads) => {
            let fits = heads.n_heads() <= MOST_HEADS
                && heads.sizes().iter().all(|size| *size <= MOST_CHOICES);
            (!fits).then_some("more than 4 heads, or one of more than 15 choices")
        }
        ActionLayout::Continuous(_) => None,
    }
}

/// Agents of a replica at most: a thread has the state and the actions of all of them.
const MOST_AGENTS: usize = 16;
/// Words of a replica's state at most, for the same reason.
const MOST_STATE: usize = 256;
/// Shared memory of a block that the kernel declares, and that the driver takes, in bytes.
pub(super) const DECLARED: u32 = 4 << 10;

/// Why there are no kernels for a run of several agents on environments of the text `env`; nothing if there are.
fn unsupported_team(config: &TrainConfig, env: &EnvKernels) -> Option<String> {
    let Some(first) = config.policies.first() else { return Some("no policy".into()) };
    let spec = &config.spec;
    let width = |g: usize| spec.groups[g].observation_width();
    let alike = config.policies.iter().all(|plan| {
        let (a, b) = (&plan.config, &first.config);
        (&a.hidden, a.shared_trunk, a.activation, a.layer_norm)
            == (&b.hidden, b.shared_trunk, b.activation, b.layer_norm)
            && plan.groups().all(|g| width(g) == first.group(spec).observation_width())
            && plan.layout.head_sizes() == first.layout.head_sizes()
            && (a.norm_obs, a.norm_reward, a.precision) == (b.norm_obs, b.norm_reward, b.precision)
    });
    let words = env.defines.iter().find(|(name, _)| name == "WARP_STATE_WORDS");
    let words = words.and_then(|(_, words)| words.parse().ok()).unwrap_or(usize::MAX);
    let refusals = [
        (spec.n_agents() > MOST_AGENTS, "more than 16 agents"),
        (words > MOST_STATE, "a state of more than 256 words"),
        (
            !matches!(first.layout, ActionLayout::Discrete(_)),
            "continuous actions of several agents",
        ),
        (
            spec.groups.iter().any(|group| group.mask_width() > 0),
            "masked actions of several agents",
        ),
        (
            !alike,
            "policies that differ in their networks, their precision, or in what they normalise",
        ),
    ];
    let refused = refusals.iter().find(|(refused, _)| *refused).map(|(_, what)| (*what).into());
    let of_policies = || config.policies.iter().find_map(|plan| unsupported_policy(config, plan));
    let together = "policies whose networks and rows do not fit into shared memory together";
    let inputs = first.group(spec).observation_width();
    let has_places = || has_places(rows_of_warp(config), inputs);
    refused.or_else(of_policies).or_else(|| (!fits(config)).then(|| together.into())).or_else(
        || (!has_places()).then(|| "more rows of agents than a warp has places for".into()),
    )
}

/// Rows of agents that a warp takes, with those that fill up a policy's tiles.
fn rows_of_warp(config: &TrainConfig) -> usize {
    let together = replicas_of_warp(config);
    let slots = |plan: &PolicyPlan| plan.n_agents().next_multiple_of(16 / together);
    config.policies.iter().map(slots).sum::<usize>() * together
}

/// Whether a lane has a bit for each of its rows and for each unit of 16 bytes of observations that it stores
/// (`MultiAgentPlaces` in `collect_multi_agent.cu`).
fn has_places(rows: usize, inputs: usize) -> bool {
    let units = (inputs + 1).div_ceil(8);
    rows.div_ceil(32) + (rows * units).div_ceil(32) <= 32
}

/// Whether the networks that act and a warp's rows (`MultiAgentRows` in collect_multi_agent.cu) have room in the shared
/// memory of a block.
fn fits(config: &TrainConfig) -> bool {
    let (first, policies) = (&config.policies[0], config.policies.len());
    let inputs = first.group(&config.spec).observation_width();
    let rounds = rows_of_warp(config).div_ceil(32);
    // Observations and outputs of a round, and observations before they are normalised.
    let raw = if first.config.norm_obs { 4 * (inputs | 1) } else { 0 };
    let rows = 32 * rounds * (2 * ((inputs + 1).next_multiple_of(16) + 8) + 4 * 12 + raw);
    policies * network_bytes(&first.config, inputs) + rows + DECLARED as usize <= MOST_SHARED
}

/// Replicas of a run of a fleet at most whose rollout one block takes, eight at a time: with more of them the learners
/// wait.
const MOST_REPLICAS_OF_A_RUN: usize = 64;
/// Replicas at most of a run that is alone: with more of them many blocks are faster, whose sums have another order.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(keys: &str) -> Option<String> {
        let table = format!("num_envs = 2048\nnum_steps = 128\n{keys}").parse().unwrap();
        unsupported(&TrainConfig::resolve(&table, &warp_envs::registry()).unwrap())
    }

    /// Bytes of a block as the compiler said: 190,464 of `UpdateShared` with 1,280 minibatches, 294,912 with 2,048.
    #[test]
    fn minibatches_are_as_many_as_there_is_room_for() {
        let too_many = Some("too many minibatches for shared memory".into());
        let of = |minibatches: usize, keys: &str| {
            refused(&format!("{keys}\nnum_minibatches = {minibatches}\nupdate_epochs = 16"))
        };
        assert_eq!(of(80, "env_id = \"cartpole\""), None);
        assert_eq!(of(128, "env_id = \"cartpole\""), too_many);
        assert_eq!(of(80, "env_id = \"frozen_lake\"\nhidden = [128, 128]"), None);
        let large = |epochs: usize| {
            refused(&format!(
                "env_id = \"pendulum\"\nhidden = [32, 32]\nnum_minibatches = 2\nupdate_epochs = {epochs}"
            ))
        };
        assert_eq!(
            (large(256), large(257)),
            (None, too_many.clone()),
            "two blocks a multiprocessor"
        );
        assert_eq!(of(64, "env_id = \"cartpole\"\ntarget_kl = 0.1"), None);
        assert_eq!(of(65, "env_id = \"cartpole\"\ntarget_kl = 0.1"), too_many);
    }

    /// As the compiler said: `sizeof(NetShared)`.
    #[test]
    fn networks_have_the_kernels_sizes() {
        let bytes = |keys: &str, inputs| {
            let table = format!("env_id = \"cartpole\"\n{keys}").parse().unwrap();
            let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
            network_bytes(&config.policies[0].config, inputs)
        };
        assert_eq!(bytes("hidden = [128, 128]", 16), 46_080);
        assert_eq!(bytes("hidden = [128, 128]\nlayer_norm = true", 16), 48_128);
        assert_eq!(bytes("hidden = [64, 64]", 4), 13_312);
        assert_eq!(bytes("hidden = [32, 32]", 4), 4_896);
    }

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

    fn fits_with(keys: &str) -> bool {
        let keys = format!("env_id = \"tag_gridworld\"\n{keys}").parse().unwrap();
        fits(&TrainConfig::resolve(&keys, &warp_envs::registry()).unwrap())
    }

    /// A policy per agent: networks of 128 take 45 KB each.
    #[test]
    fn networks_of_all_policies_share_a_block() {
        let policies = |n: usize, hidden: usize| {
            let of_tagger = |i: usize| format!("[policy.tagger{i}]\ngroups = [\"tagger[{i}]\"]\n");
            let taggers: String = (0..n - 1).map(of_tagger).collect();
            format!(
                "norm_obs = false\nhidden = [{hidden}, {hidden}]\n[env]\nnum_taggers = {}\n{taggers}\
                 [policy.runner]\ngroups = [\"runner\"]\n",
                n - 1
            )
        };
        assert!(fits_with(&policies(2, 128)) && fits_with(&policies(4, 128)));
        assert!(!fits_with(&policies(5, 128)));
        assert!(fits_with(&policies(7, 64)));
    }

    /// Five agents of tag, and sixteen policies of an agent each, whose rows fill up tiles of four.
    #[test]
    fn rows_have_places_in_a_word() {
        assert!(has_places(8 * 4, 21));
        assert!(has_places(16 * 4 * 4, 23));
        assert!(!has_places(16 * 4 * 4, 24));
    }
}
