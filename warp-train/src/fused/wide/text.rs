//! The CUDA code of the wide path, made for one policy by constants.

use super::args::{declarations, list, norm_declarations, shard_declarations, spread_declarations};
use super::lanes::{lanes, largest_of_many_heads, size_of_many_heads};
use super::layers::few;
use super::network::{Stage, WideNetwork};
use super::network_path::{NetworkPath, Product};
use super::shared::{MOST_BESIDE, SPREAD_BLOCKS};
use super::tensor::shape::TensorShape;
use super::tiled::shape::TiledShape;
use super::wgmma::products;
use crate::algorithm::Rollouts;
use crate::config::TrainConfig;
use crate::engine::collectives::{self, PAIRS};
use crate::engine::rollout::GroupRows;
use crate::fused::halves;
use crate::fused::objective;
use crate::fused::policy_number::PolicyNumber;
use crate::loss::Part;
use crate::model::Activation;
use crate::optimiser::UpdateRule;
use crate::world::World;
use std::fmt::Write;
use warp_core::{EnvSpec, LimitEnds};
use warp_func::cuda::{EnvKernels, NEXT_KERNEL, Source};
use warp_sample::kernel_text::{SAMPLE_CUH, layout_text};

const STATE: &str = include_str!("state.cu");
/// What every text begins with.
const ROWS: [&str; 3] = [NEXT_KERNEL, STATE, include_str!("rows.cu")];
const GENERAL: [&str; 7] = [
    include_str!("normalise.cu"),
    CELLS,
    OUTCOME,
    DECIDE,
    include_str!("rollout.cu"),
    include_str!("selection.cu"),
    include_str!("next_iteration.cu"),
];
/// What is kept of a step.
const OUTCOME: &str = include_str!("outcome.cu");
/// How actions are drawn from outputs.
const DECIDE: &str = include_str!("decide.cu");
/// In which order cells are looked through.
pub(super) const CELLS: &str = include_str!("cells.cu");
/// Minibatches and steps of the optimiser, a unit of their own.
const UPDATE: [&str; 3] = [include_str!("copies.cu"), MINIBATCHES, include_str!("update.cu")];
/// Which samples a minibatch has.
pub(super) const MINIBATCHES: &str = include_str!("minibatches.cu");
const SPREAD: &str = include_str!("spread.cu");
/// Losses of outputs that layers one by one have left in memory.
const LOSSES: &str = include_str!("losses.cu");
const LAYER_LOSSES: &str = include_str!("layers/losses.cu");
const PRODUCTS: [&str; 2] =
    [include_str!("layers/product_single.cu"), include_str!("layers/product_half.cu")];
const OPERAND: &str = include_str!("layers/operand.cu");
const LAYER_NORM: &str = include_str!("layers/norm.cu");
const GEMM: &str = include_str!("layers/gemm.cu");
const ACT_FEW: &str = include_str!("layers/act_few.cu");
const FUSED: &str = include_str!("whole_fp32/tower.cu");
const FUSED_ACT: &str = include_str!("whole_fp32/act.cu");
const FUSED_LEARN: &str = include_str!("whole_fp32/learn.cu");
const HOPPER: &str = include_str!("hopper.cu");
const TENSOR: &str = include_str!("tensor/tower.cu");
/// Texts that take long to compile, so each is a unit of its own: acting, and learning in one pass or in two.
const TENSOR_ACT: &[&str] =
    &[include_str!("tensor/pack.cu"), TENSOR_STEP, include_str!("tensor/act.cu")];
/// Acting with the environment's steps in between, behind its text.
const TENSOR_ROLLOUT: &[&str] = &[OUTCOME, TENSOR_STEP, include_str!("tensor/rollout.cu")];
const TENSOR_STEP: &str = include_str!("tensor/step.cu");
/// One pass, where one group multiplies for all.
const TENSOR_OF_64: &[&str] = &[
    TENSOR_KEPT,
    TENSOR_NORM,
    TENSOR_SAMPLES,
    TENSOR_PARTIAL,
    TENSOR_GROUPS,
    include_str!("tensor/groups_of_64.cu"),
    TENSOR_GRADIENT,
];
/// One pass, where two groups multiply and share every layer's outputs.
const TENSOR_SHARED_OUTPUTS: &[&str] = &[
    TENSOR_KEPT,
    TENSOR_SAMPLES,
    TENSOR_PARTIAL,
    TENSOR_GROUPS,
    TENSOR_TWO_MULTIPLY,
    include_str!("tensor/shares_of_outputs.cu"),
    TENSOR_GRADIENT,
];
/// One pass, where two groups multiply and share the first layer's inputs.
const TENSOR_SHARED_INPUTS: &[&str] = &[
    TENSOR_KEPT,
    TENSOR_SAMPLES,
    TENSOR_PARTIAL,
    TENSOR_GROUPS,
    TENSOR_TWO_MULTIPLY,
    include_str!("tensor/shares_of_inputs.cu"),
    TENSOR_GRADIENT,
];
const TENSOR_LEARN: &[&str] =
    &[TENSOR_KEPT, TENSOR_NORM, TENSOR_SAMPLES, include_str!("tensor/learn.cu")];
const TENSOR_WEIGHTS: &[&str] = &[TENSOR_PARTIAL, include_str!("tensor/weights.cu")];
/// Two passes, of which the first makes the gradients of outer layers.
const EDGES_LEARN: &[&str] = &[
    TENSOR_EDGES,
    include_str!("tensor/edge_sums.cu"),
    TENSOR_KEPT,
    TENSOR_SAMPLES,
    include_str!("tensor/learn.cu"),
];
const EDGES_WEIGHTS: &[&str] = &[
    TENSOR_EDGES,
    TENSOR_PARTIAL,
    include_str!("tensor/edge_places.cu"),
    include_str!("tensor/weights.cu"),
];
const TENSOR_EDGES: &str = include_str!("tensor/edges.cu");
const TENSOR_KEPT: &str = include_str!("tensor/kept.cu");
const TENSOR_NORM: &str = include_str!("tensor/norm.cu");
const TENSOR_SAMPLES: &str = include_str!("tensor/samples.cu");
const TENSOR_PARTIAL: &str = include_str!("tensor/partial.cu");
const TENSOR_GROUPS: &str = include_str!("tensor/groups.cu");
const TENSOR_TWO_MULTIPLY: &str = include_str!("tensor/two_multiply.cu");
const TENSOR_GRADIENT: &str = include_str!("tensor/gradient.cu");

/// What normalises layers one by one.
const ROW_MOMENTS: &str = include_str!("row_moments.cu");
const TILED: &str = include_str!("tiled/blocks.cu");
const TILED_ROWS: &str = include_str!("tiled/rows.cu");
const TILED_UNITS: [&[&str]; 7] = [
    &[include_str!("tiled/layer.cu"), include_str!("tiled/forward.cu")],
    &[include_str!("tiled/layer.cu"), include_str!("tiled/back.cu")],
    &["\n#define U_KIND 0\n", TILED_WEIGHTS],
    &["\n#define U_KIND 1\n", TILED_WEIGHTS],
    &["\n#define U_KIND 2\n", TILED_WEIGHTS],
    &["\n#define U_KIND 3\n", TILED_WEIGHTS],
    &[
        LOSSES,
        DECIDE,
        include_str!("tiled/heads.cu"),
        include_str!("tiled/losses.cu"),
        include_str!("tiled/decide.cu"),
    ],
];
/// Whole rollouts, behind the environment's text.
const TILED_ROLLOUT: &[&str] =
    &[OUTCOME, DECIDE, include_str!("tiled/layer.cu"), include_str!("tiled/rollout.cu")];
/// Further, of normalised layers.
const TILED_NORM: &[&str] = &[ROW_MOMENTS, include_str!("tiled/norm.cu")];
const TILED_WEIGHTS: &str = include_str!("tiled/weights.cu");

/// How often one agent's episode can be cut by a time limit within a rollout.
pub(super) fn truncation_slots(spec: &EnvSpec, n_steps: usize) -> usize {
    match spec.time_limit.ends {
        LimitEnds::Terminated => 0,
        LimitEnds::Truncated => n_steps.div_ceil(spec.time_limit.steps.max(1) as usize),
    }
}

/// The kernels that every network needs, and those that run it unless tensor cores do; a unit for updates; in fp32 one for
/// those that whole towers learn with; and a last one for how far actions differ.
pub(super) fn general(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    path: &NetworkPath,
) -> Vec<Source> {
    let tanh = is_tanh(config, number);
    let rows = constants(config, number, network) + &ROWS.join("\n");
    let known = u8::from(!path.shapes().is_empty());
    let kept = match path {
        NetworkPath::Tiled(shape) => shape.kept_width(),
        _ => 0,
    };
    let rows = format!("{rows}\n#define P_KNOWN {known}\n#define P_KEPT {kept}\n");
    let others = of_ranks(&config.world) + &of_shards(config.shards().here);
    let losses = if has_exact_losses(path) { [LOSSES, LAYER_LOSSES] } else { [""; 2] }.concat();
    let update = [&*rows, &UPDATE.join("\n"), &losses, &others].concat();
    let (mut text, mut learns) = (rows.clone() + &GENERAL.join("\n"), None);
    if network.has_norms() {
        text += ROW_MOMENTS;
    }
    match path {
        NetworkPath::Layers(product) => {
            let half = *product == Product::Half;
            let _ = writeln!(text, "\n#define P_HALF {}", u8::from(half));
            text += &[OPERAND, PRODUCTS[usize::from(half)], GEMM].join("\n");
            if network.has_norms() {
                text += &(norm_declarations() + LAYER_NORM);
            }
        }
        NetworkPath::Fused(shape) => {
            let mut fused = shape.constants(network, tanh);
            fused += FUSED;
            text = format!("{text}{fused}{FUSED_ACT}");
            learns = Some(with_samplers("wide_fused.cu", format!("{rows}{fused}{FUSED_LEARN}")));
        }
        NetworkPath::Tiled(shape) => {
            text += &products(&[]);
            text += &[HOPPER, &shape.constants(tanh), TILED, TILED_ROWS].join("\n");
        }
        NetworkPath::Tensor(_) | NetworkPath::Foreign => {}
    }
    if few::acts_few(network, path) {
        text += &few::constants(network);
        text += ACT_FEW;
    }
    let spread = spread(constants(config, number, network) + STATE);
    let general = [with_samplers("wide.cu", text), with_samplers("wide_update.cu", update)];
    general.into_iter().chain(learns).chain([spread]).collect()
}

/// What the unit of all networks has beside them where several ranks learn.
fn of_ranks(world: &World) -> String {
    match world.is_alone() {
        true => String::new(),
        false => {
            let sizes =
                format!("#define REDUCED_PAIRS {PAIRS}u\n#define REDUCED_BESIDE {MOST_BESIDE}\n");
            [&*collectives::text(), &sizes, include_str!("reduce_ranks.cu")].concat()
        }
    }
}

/// What the unit of all networks has beside them for so many shards here.
fn of_shards(shards: usize) -> String {
    if shards == 1 {
        return String::new();
    }
    shard_declarations() + include_str!("shards.cu")
}

/// The unit for how far actions differ, behind the constants of a policy and what all units begin with.
fn spread(begin: String) -> Source {
    let blocks = format!("#define WIDE_SPREAD_BLOCKS {SPREAD_BLOCKS}u\n");
    with_samplers("wide_spread.cu", begin + &spread_declarations() + &blocks + SPREAD)
}

/// Whether losses are computed from outputs in memory in the unit for updates, with the processor's rounding.
pub(super) fn has_exact_losses(path: &NetworkPath) -> bool {
    matches!(path, NetworkPath::Layers(_) | NetworkPath::Foreign)
}

/// The kernels of one tower on tensor cores, in several units; what acts sums what it sees if `path` has room for that.
pub(super) fn tensor(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    shape: &TensorShape,
    path: &NetworkPath,
) -> Vec<Source> {
    let text = tower(config, number, network, shape, path);
    let unit = |text: &str, parts: &[&str]| {
        with_samplers("wide_tensor.cu", format!("{text}{}", parts.join("\n")))
    };
    let source = |parts: &[&str]| unit(&text, parts);
    let first_pass = |parts: &[&str]| {
        let shape = shape.of_first_pass(path.shapes());
        unit(&tower(config, number, network, &shape, path), parts)
    };
    match shape.groups() {
        Some(groups) if groups.share_inputs => {
            [TENSOR_ACT, TENSOR_SHARED_INPUTS].map(source).to_vec()
        }
        Some(groups) if groups.multipliers > 1 => {
            [TENSOR_ACT, TENSOR_SHARED_OUTPUTS].map(source).to_vec()
        }
        Some(_) => [TENSOR_ACT, TENSOR_OF_64].map(source).to_vec(),
        None if shape.makes_edges() => {
            vec![source(TENSOR_ACT), first_pass(EDGES_LEARN), source(EDGES_WEIGHTS)]
        }
        None => vec![source(TENSOR_ACT), first_pass(TENSOR_LEARN), source(TENSOR_WEIGHTS)],
    }
}

/// The kernel of whole rollouts of `path` in environments with the code `body`, if it has one; it sums what agents see if it has
/// room for that.
pub(super) fn rollout(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    path: &NetworkPath,
    body: &EnvKernels,
) -> Option<Source> {
    let (name, text) = match path {
        NetworkPath::Tensor(shapes) => {
            let mut towers = shapes.iter().zip(&network.towers);
            let (shape, _) = towers.find(|(_, tower)| Stage::Act.has(tower.role))?;
            let text = tower(config, number, network, shape, path);
            ("wide_tensor_rollout.cu", text + &TENSOR_ROLLOUT.join("\n"))
        }
        NetworkPath::Tiled(shape) => {
            let clusters = shape.rollout?;
            let mut text = layers(config, number, network, shape);
            let _ = writeln!(text, "\n#define P_KEPT {}", shape.kept_width());
            text += &clusters.constants(shape, path.sums_obs(&config.policies[number.index]));
            ("wide_tiled_rollout.cu", text + &TILED_ROLLOUT.join("\n"))
        }
        _ => return None,
    };
    // A name of the environment's body is none of ours.
    let own = format!("namespace warp_wide {{\n{text}}}\n");
    let Source { text, defines, .. } = body.steps();
    let source = with_samplers(name, format!("{text}\n#line 1 \"{name}\"\n{own}"));
    Some(Source { defines, ..source })
}

/// What all units of a tower on tensor cores begin with.
fn tower(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    shape: &TensorShape,
    path: &NetworkPath,
) -> String {
    let mut text = constants(config, number, network);
    let sums_obs = path.sums_obs(&config.policies[number.index]);
    // Those that learn in two passes keep what one leaves for the other of a part of a minibatch at a time.
    let chunks = path.shapes().iter().any(|shape| shape.groups().is_none());
    let numbers =
        [("P_KEPT", 0), ("T_SUMS_OBS", u8::from(sums_obs)), ("T_CHUNKS", u8::from(chunks))];
    for (name, value) in numbers {
        let _ = writeln!(text, "#define {name} {value}");
    }
    shape.constants(is_tanh(config, number), &mut text);
    text += &ROWS.join("\n");
    text += &products(&shape.products());
    text + HOPPER + TENSOR
}

/// The kernels of all towers' layers on tensor cores, in several units.
pub(super) fn tiled(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    shape: &TiledShape,
) -> Vec<Source> {
    let text = layers(config, number, network, shape);
    let source =
        |unit: &[&str]| with_samplers("wide_tiled.cu", format!("{text}{}", unit.join("\n")));
    let norm = shape.is_normed().then_some(TILED_NORM);
    TILED_UNITS.into_iter().chain(norm).map(source).collect()
}

/// What all units of layers on tensor cores begin with.
fn layers(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    shape: &TiledShape,
) -> String {
    let text = constants(config, number, network) + &ROWS.join("\n");
    let places = shape.constants(is_tanh(config, number));
    text + &[&products(&TiledShape::PRODUCTS), HOPPER, &places, TILED].join("\n")
}

fn is_tanh(config: &TrainConfig, number: PolicyNumber) -> bool {
    config.policies[number.index].config.activation == Activation::Tanh
}

pub(super) fn with_samplers(name: &str, text: String) -> Source {
    let mut source = Source::new(name, text);
    source.headers.push(("sample.cuh".into(), SAMPLE_CUH.into()));
    source.headers.push(("halves.cuh".into(), halves::TEXT.into()));
    source
}

/// The constants that say what the policy is.
fn constants(config: &TrainConfig, number: PolicyNumber, network: &WideNetwork) -> String {
    let (plan, spec) = (&config.policies[number.index], &config.spec);
    let masked = plan.group(spec).mask_width() > 0;
    let layout = layout_text("WideLayout", &plan.layout, masked);
    let mut text = format!("#include \"sample.cuh\"\n#include \"translated.cuh\"\n{layout}");
    let mut define = |name: &str, value: String| {
        let _ = writeln!(text, "#define P_{name} {value}");
    };
    let groups = GroupRows::of(plan, spec);
    let layout = &plan.layout;
    define("GROUPS", groups.len().to_string());
    define("GROUP_FIRST", list(groups.iter().map(|rows| rows.at)));
    define("GROUP_SHIFT", list(groups.iter().map(|rows| rows.shift())));
    define("GROUP_AGENTS", list(groups.iter().map(|rows| rows.of_group)));
    let whole = groups.len() == 1 && groups[0].of_group == plan.n_agents();
    define("WHOLE", u8::from(whole).to_string());
    define("AGENTS", format!("{}u", plan.n_agents()));
    define("FIRST_AGENT", format!("{}u", number.first_agent));
    define("WIDTH", network.observation_width().to_string());
    define("MASK", plan.group(spec).mask_width().to_string());
    define("MORTAL", u8::from(plan.is_mortal(spec)).to_string());
    define("SLOTS", truncation_slots(spec, config.run.num_steps).to_string());
    define("NORM_OBS", u8::from(plan.config.norm_obs).to_string());
    define("OUT", network.n_outputs.to_string());
    define("ACTION", layout.action_width().to_string());
    let sizes = layout.head_sizes();
    define("LANES", lanes(plan).to_string());
    define("HEAD_SIZE", size_of_many_heads(sizes).to_string());
    define("LARGEST_HEAD", largest_of_many_heads(sizes).to_string());
    let firsts = sizes.iter().scan(0, |next, size| {
        *next += size;
        Some(*next - size)
    });
    define("FIRSTS", if sizes.is_empty() { "{0}".into() } else { list(firsts) });
    define("SIZES", if sizes.is_empty() { "{0}".into() } else { list(sizes.iter().copied()) });
    let log_std = network.log_std.as_ref().map_or(-1, |range| range.start as i64);
    define("LOG_STD_AT", log_std.to_string());
    define("MINIBATCHES", format!("{}u", plan.passes().minibatches));
    define("SELECTS", u8::from(plan.config.neg_pos_env_ratio.is_some()).to_string());
    define("RMSPROP", u8::from(plan.config.optimiser == UpdateRule::RmsProp).to_string());
    define("DECAYS", u8::from(plan.config.weight_decay > 0.0).to_string());
    define("CRITIC_RATE", u8::from(plan.config.critic_learning_rate.is_some()).to_string());
    let critic = network.critic();
    define("CRITIC_BEGIN", format!("{}u", critic.start));
    define("CRITIC_END", format!("{}u", critic.end));
    define("RANKS", config.world.size().to_string());
    // Of this rank, and of all: each has a count of samples.
    let here = config.shards().here;
    define("LOCAL_SHARDS", here.to_string());
    define("COUNTS", (here * config.world.size()).to_string());
    define("CONTINUOUS", u8::from(sizes.is_empty()).to_string());
    if let Some(Rollouts { objective, .. }) = &plan.rollouts {
        let cell = |part: &Part, number: usize| match plan.config.clip_coef.changes() {
            true => objective::cell(objective, part, number),
            false => format!("warp_float({})", bits(part.cells[number])),
        };
        text += &objective::text(objective, cell);
    }
    text += &declarations();
    let bf16 = u8::from(halves::are_bf16(plan.config.precision));
    format!("#define BF16 {bf16}\n#include \"halves.cuh\"\n{text}")
}

fn bits(value: f32) -> String {
    format!("0x{:08x}u", value.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else NVRTC mistakes local structs for them, as `kernel_args.rs` says.
    #[test]
    fn arguments_are_taken_by_value() {
        let at_once = [TENSOR_OF_64, TENSOR_SHARED_OUTPUTS];
        let in_two = [TENSOR_LEARN, TENSOR_WEIGHTS, EDGES_LEARN, EDGES_WEIGHTS];
        let tensor = [&[TENSOR_ACT][..], &at_once, &in_two].concat();
        let units = [&tensor[..], &[TENSOR_ROLLOUT, TILED_ROLLOUT, TILED_NORM], &TILED_UNITS]
            .concat()
            .concat();
        let others = [
            GEMM,
            LAYER_LOSSES,
            LAYER_NORM,
            SPREAD,
            ACT_FEW,
            FUSED,
            FUSED_ACT,
            FUSED_LEARN,
            HOPPER,
            TENSOR,
            TILED,
            TILED_ROWS,
        ];
        let texts = [&ROWS[..], &GENERAL, &UPDATE, &PRODUCTS, &others, &units].concat();
        assert!(texts.iter().all(|text| !text.contains("__grid_constant__")));
    }
}
