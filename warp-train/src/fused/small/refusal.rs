//! What the kernels for small networks do not take.

use super::layout::{hidden, padded_hidden};
use super::multi_agent;
use super::text::{blocks_of_plan, cuts, may_end_early, normalises};
use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::config::TrainConfig;
use crate::fused::objective::{MOST_CELLS, n_cells};
use warp_func::cuda::{DeviceInfo, EnvKernels};
use warp_sample::ActionLayout;

/// Rows of the last layer's tile: outputs of a network at most.
const MOST_OUTPUTS: usize = 8;
/// Inputs at most, so that a tile's rows fit into shared memory beside the layers and products have columns for them.
const MOST_INPUTS: usize = 31;
/// Shared memory of a block on GPUs of generation 9, in bytes.
pub(super) const MOST_SHARED: usize = 227 << 10;
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
        _ => multi_agent::unsupported(config, env),
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
pub(super) fn unsupported_policy(config: &TrainConfig, plan: &PolicyPlan) -> Option<String> {
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

pub(super) fn most_updates_of_fleets(config: &TrainConfig) -> usize {
    let plan = &config.policies[0];
    let wide = plan.group(&config.spec).observation_width() > 15;
    match wide && hidden(&plan.config) == 64 && !plan.config.shared_trunk {
        true if plan.layout.head_sizes().is_empty() => 0,
        true => MOST_UPDATES_OF_WIDE_FLEETS,
        false => MOST_UPDATES_OF_FLEETS,
    }
}

/// Shared memory of a network: weights in half precision, biases, gains and shifts. Twin of `NetShared` (net.cuh).
pub(super) fn network_bytes(keys: &PolicyConfig, inputs: usize) -> usize {
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
}
