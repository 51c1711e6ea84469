//! The CUDA code of the wide path, made for one policy by constants.

use super::args::declarations;
use super::layer_norm;
use super::layers::{self, Product};
use super::network::{Role, Tower, WideNetwork};
use super::network_path::NetworkPath;
use super::ranks;
use super::shards;
use super::spread;
use super::tiled_shape::TiledShape;
use super::wgmma::products;
use crate::algorithm::{PolicyPlan, Rollouts};
use crate::config::TrainConfig;
use crate::engine::link::COPIES;
use crate::engine::rollout::GroupRows;
use crate::fused::halves;
use crate::fused::objective;
use crate::fused::policy_number::PolicyNumber;
use crate::loss::Part;
use crate::model::Activation;
use crate::optimiser::UpdateRule;
use std::fmt::Write;
use warp_core::{EnvSpec, LimitEnds};
use warp_func::cuda::Source;
use warp_sample::kernel_text::{SAMPLE_CUH, layout_text};

/// What every text begins with.
const ROWS: [&str; 2] = [include_str!("state.cu"), include_str!("rows.cu")];
const GENERAL: [&str; 5] = [
    include_str!("normalise.cu"),
    CELLS,
    include_str!("rollout.cu"),
    include_str!("selection.cu"),
    include_str!("turn.cu"),
];
/// In which order cells are looked through.
pub(super) const CELLS: &str = include_str!("cells.cu");
/// Minibatches and steps of the optimiser, a unit of their own.
const UPDATE: [&str; 3] = [COPIES, MINIBATCHES, include_str!("update.cu")];
/// Which samples a minibatch has.
pub(super) const MINIBATCHES: &str = include_str!("minibatches.cu");
const PRODUCTS: [&str; 2] = [include_str!("product_single.cu"), include_str!("product_half.cu")];
const OPERAND: &str = include_str!("operand.cu");
const GEMM: &str = include_str!("gemm.cu");
const ACT_FEW: &str = include_str!("act_few.cu");
const FUSED: &str = include_str!("fused.cu");
const FUSED_ACT: &str = include_str!("fused_act.cu");
const FUSED_LEARN: &str = include_str!("fused_learn.cu");
const HOPPER: &str = include_str!("hopper.cu");
const TENSOR: &str = include_str!("tensor.cu");
/// Texts that take long to compile, so each is a unit of its own: acting, and learning in one pass or in two.
const TENSOR_ACT: &[&str] = &[include_str!("tensor_pack.cu"), include_str!("tensor_act.cu")];
const TENSOR_AT_ONCE: &[&str] =
    &[TENSOR_SAMPLES, TENSOR_PARTIAL, include_str!("tensor_gradient.cu")];
const TENSOR_LEARN: &[&str] = &[TENSOR_SAMPLES, include_str!("tensor_learn.cu")];
const TENSOR_WEIGHTS: &[&str] = &[TENSOR_PARTIAL, include_str!("tensor_weights.cu")];
const TENSOR_SAMPLES: &str = include_str!("tensor_samples.cu");
const TENSOR_PARTIAL: &str = include_str!("tensor_partial.cu");

const TILED: &str = include_str!("tiled.cu");
const TILED_ROWS: &str = include_str!("tiled_rows.cu");
const TILED_UNITS: [&[&str]; 6] = [
    &[include_str!("tiled_layer.cu"), include_str!("tiled_forward.cu")],
    &[include_str!("tiled_layer.cu"), include_str!("tiled_back.cu")],
    &["\n#define U_KIND 0\n", TILED_WEIGHTS],
    &["\n#define U_KIND 1\n", TILED_WEIGHTS],
    &["\n#define U_KIND 2\n", TILED_WEIGHTS],
    &["\n#define U_KIND 3\n", TILED_WEIGHTS],
];
const TILED_WEIGHTS: &str = include_str!("tiled_weights.cu");

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
    let rows = format!("{rows}\n#define P_KNOWN {known}\n");
    let others = ranks::text(&config.world) + &shards::text(config.shards().here);
    let update = [&*rows, &UPDATE.join("\n"), &others].concat();
    let (mut text, mut learns) = (rows.clone() + &GENERAL.join("\n"), None);
    match path {
        NetworkPath::Layers(product) => {
            let half = *product == Product::Half;
            let _ = writeln!(text, "\n#define P_HALF {}", u8::from(half));
            text += &[OPERAND, PRODUCTS[usize::from(half)], GEMM].join("\n");
            if network.has_norms() {
                text += &layer_norm::text();
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
    if layers::acts_few(network, path) {
        text += &layers::constants(network);
        text += ACT_FEW;
    }
    let spread = spread::source(constants(config, number, network) + ROWS[0]);
    let general = [with_samplers("wide.cu", text), with_samplers("wide_update.cu", update)];
    general.into_iter().chain(learns).chain([spread]).collect()
}

/// The kernels of one tower on tensor cores, in several units.
pub(super) fn tensor(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    shape: &TensorShape,
) -> Vec<Source> {
    let mut text = constants(config, number, network);
    shape.constants(is_tanh(config, number), &mut text);
    text += &ROWS.join("\n");
    text += &products(&shape.products());
    text += HOPPER;
    text += TENSOR;
    let source =
        |unit: &[&str]| with_samplers("wide_tensor.cu", format!("{text}{}", unit.join("\n")));
    match shape.learners() {
        Some(_) => [TENSOR_ACT, TENSOR_AT_ONCE].map(source).to_vec(),
        None => [TENSOR_ACT, TENSOR_LEARN, TENSOR_WEIGHTS].map(source).to_vec(),
    }
}

/// The kernels of all towers' layers on tensor cores, in several units.
pub(super) fn tiled(
    config: &TrainConfig,
    number: PolicyNumber,
    network: &WideNetwork,
    shape: &TiledShape,
) -> Vec<Source> {
    let mut text = constants(config, number, network) + &ROWS.join("\n");
    text += &products(&TiledShape::PRODUCTS);
    text += &[HOPPER, &shape.constants(is_tanh(config, number)), TILED].join("\n");
    let source =
        |unit: &[&str]| with_samplers("wide_tiled.cu", format!("{text}{}", unit.join("\n")));
    TILED_UNITS.map(source).to_vec()
}

/// How many lanes of a warp share a sample's heads where its loss is computed by itself: one, unless heads are many.
pub(super) fn lanes(plan: &PolicyPlan) -> usize {
    match plan.layout.head_sizes().len() {
        0..=4 => 1,
        heads => heads.next_power_of_two().min(32),
    }
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

fn list<T: ToString>(values: impl Iterator<Item = T>) -> String {
    format!("{{{}}}", values.map(|v| v.to_string()).collect::<Vec<_>>().join(", "))
}

fn bits(value: f32) -> String {
    format!("0x{:08x}u", value.to_bits())
}

/// Rows of a tile on tensor cores.
pub(super) const TILE_ROWS: usize = 64;
/// Stages of the ring of tiles that gradients of weights are made from.
const STAGES: usize = 4;
/// Bytes of 64 rows of 64 columns.
const BLOCK: usize = 8192;
/// Bytes of 16 rows of them, all ones.
const ONES: usize = BLOCK / 4;

/// A tower as tensor cores see it; the sizes that `wide_tensor*.cu` computes for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorShape {
    tower: Tower,
    /// Inputs of each layer, padded, and then of none.
    widths: Vec<usize>,
    /// Outputs, padded.
    outputs: usize,
    /// Groups of a block that learn in one pass; none where it takes two.
    learners: Option<usize>,
}

/// Numbers of groups that learn in one pass, and the sums that a thread of the group beside them has registers for.
const LEARNERS: [(usize, usize); 2] = [(3, 148), (2, 136)];

impl TensorShape {
    /// The shape of `tower`, if it has one that fits into `shared_bytes` of shared memory.
    pub(super) fn new(tower: &Tower, shared_bytes: usize) -> Option<Self> {
        let first = tower.hidden.first()?.n_in.next_multiple_of(16);
        let hidden = tower.hidden.iter().map(|layer| layer.n_out.next_multiple_of(64));
        let widths: Vec<_> = [first].into_iter().chain(hidden).collect();
        let columns = tower.heads.n_out + tower.gap;
        let outputs = columns.next_multiple_of(16);
        let mut shape = Self { tower: tower.clone(), widths, outputs, learners: None };
        let whole = shape.widths.iter().chain([&outputs]).all(|width| *width <= 256);
        // What kernels declare for themselves.
        let fixed = 3 * 1024;
        let fixed_of_gradients = 1024;
        let largest = shape.learn_bytes().max(shape.weights_bytes()) + fixed;
        let fits = whole && largest <= shared_bytes;
        let narrow = shape.widths[1..].iter().chain([&shape.outputs]).all(|width| *width <= 64);
        let sums = shape.widths.iter().map(|width| width / 2 + 4).sum::<usize>();
        let learners = LEARNERS.iter().find(|(learners, most)| {
            sums <= *most && shape.gradient_bytes(*learners) + fixed_of_gradients <= shared_bytes
        });
        shape.learners = learners.map(|(learners, _)| *learners).filter(|_| narrow);
        fits.then_some(shape)
    }

    /// Groups of a block that learn in one pass; none where what is kept of their samples does not fit beside the
    /// weights, or the sums of gradients not into registers: then it takes two.
    pub(super) fn learners(&self) -> Option<usize> {
        self.learners
    }

    fn outputs_of(&self, layer: usize) -> usize {
        self.widths.get(layer + 1).copied().unwrap_or(self.outputs)
    }

    fn layers(&self) -> std::ops::Range<usize> {
        0..self.widths.len()
    }

    /// Observations as kept in a rollout: halves per row.
    pub(super) fn observation_width(&self) -> usize {
        self.widths[0]
    }

    /// Bytes of all weights as halves.
    pub(super) fn image_bytes(&self) -> usize {
        self.layers().map(|l| 2 * self.widths[l] * self.outputs_of(l)).sum()
    }

    /// Biases, padded.
    pub(super) fn biases(&self) -> usize {
        self.layers().map(|l| self.outputs_of(l)).sum()
    }

    /// Bytes kept of a tile between the two passes.
    pub(super) fn kept_bytes(&self) -> usize {
        let blocks = |columns: usize| columns.div_ceil(64);
        let all = self.layers().map(|l| blocks(self.widths[l]) + blocks(self.outputs_of(l)));
        all.sum::<usize>() * BLOCK
    }

    /// Shared memory of the kernel that acts.
    pub(super) fn act_bytes(&self) -> usize {
        // 16 rows of observations, then of outputs, for each of eight warps.
        let row = (2 * self.widths[0] + 16).max(4 * (self.outputs + 2));
        self.image_bytes() + 4 * self.biases() + 8 * 16 * row
    }

    /// Shared memory of the first pass.
    pub(super) fn learn_bytes(&self) -> usize {
        self.act_bytes() + 256 * 5 * 4
    }

    /// Shared memory of a pass that does all, with so many groups that learn.
    pub(super) fn gradient_bytes(&self, learners: usize) -> usize {
        // 64 rows of outputs, and sums of losses; ones that all groups share.
        let of_group = self.kept_bytes() + 64 * 4 * (self.outputs + 2) + 128 * 5 * 4;
        self.image_bytes() + 4 * self.biases() + learners * of_group + ONES
    }

    /// Shared memory of the second pass.
    pub(super) fn weights_bytes(&self) -> usize {
        // A block of two groups is laid out as if both were full.
        let room = |l: usize| (2 * self.group(l) + self.widths[l].div_ceil(64)) * BLOCK;
        self.layers().map(room).max().unwrap_or(0) * STAGES
    }

    /// Blocks of the kernels that act and of the first pass that a multiprocessor has room for: what waits in one
    /// is hidden by another.
    pub(super) fn blocks(&self) -> usize {
        // Sums of the widest layer and two operands, beside what every thread holds.
        let widest = self.widths.iter().chain([&self.outputs]).max().copied().unwrap_or(0);
        let registers = widest / 2 + widest / 2 + 32;
        let shared = 227 * 1024 / (self.learn_bytes() + 3 * 1024);
        (65_536 / 256 / registers).min(shared).clamp(1, 2)
    }

    /// Blocks of 64 outputs that four warps work on in the second pass.
    fn group(&self, layer: usize) -> usize {
        let most = if self.widths[layer] > 128 { 1 } else { 2 };
        self.outputs_of(layer).div_ceil(128).min(most)
    }

    /// Jobs of the second pass.
    pub(super) fn jobs(&self) -> usize {
        let jobs = |l: usize| self.outputs_of(l).div_ceil(64).div_ceil(2 * self.group(l));
        self.layers().map(jobs).sum()
    }

    /// Widths of the products that the text needs.
    fn products(&self) -> Vec<usize> {
        let widths = self.widths.iter().copied().chain([self.outputs, 8]);
        let mut widths: Vec<_> = widths.collect();
        if self.learners.is_some() {
            // With gradients of biases beside those of weights.
            widths.extend(self.widths.iter().map(|width| width + 8).filter(|width| *width <= 256));
        }
        widths.sort_unstable();
        widths.dedup();
        widths
    }

    fn constants(&self, tanh: bool, text: &mut String) {
        let tower = &self.tower;
        let role = match tower.role {
            Role::Both => 0,
            Role::Actor => 1,
            Role::Critic => 2,
        };
        let reals = tower.layers().map(|layer| layer.n_in);
        for (name, value) in [
            ("DEPTH", tower.hidden.len().to_string()),
            ("BLOCKS", self.blocks().to_string()),
            ("LEARNERS", self.learners.unwrap_or(0).to_string()),
            ("WIDTHS", list(self.widths.iter())),
            ("REALS", list(reals)),
            ("N", self.outputs.to_string()),
            ("WEIGHTS", list(tower.layers().map(|layer| format!("{}u", layer.weight)))),
            ("OUTS", tower.heads.n_out.to_string()),
            ("GAP_AT", tower.gap_at.to_string()),
            ("GAP", tower.gap.to_string()),
            ("ROLE", role.to_string()),
            ("TANH", u8::from(tanh).to_string()),
        ] {
            let _ = writeln!(text, "#define T_{name} {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::network::Layer;
    use super::*;

    fn tower(inputs: usize, hidden: &[usize], outputs: usize) -> Tower {
        let mut n_in = inputs;
        let mut layer = |n_out: usize| {
            let layer = Layer { n_in, n_out, weight: 0 };
            n_in = n_out;
            layer
        };
        let (norms, column, gap_at, gap) = (Vec::new(), 0, 0, 0);
        let hidden = hidden.iter().map(|n| layer(*n)).collect();
        Tower { role: Role::Both, hidden, norms, heads: layer(outputs), column, gap_at, gap }
    }

    /// What the kernels compute for themselves, as they printed it.
    #[test]
    fn sizes_are_those_of_the_kernels() {
        let shape = TensorShape::new(&tower(71, &[256, 256], 23), 232_448).unwrap();
        assert_eq!((shape.observation_width(), shape.biases()), (80, 544));
        assert_eq!(shape.image_bytes(), 2 * (80 * 256 + 256 * 256 + 256 * 32));
        assert_eq!((shape.act_bytes(), shape.learn_bytes()), (213_120, 218_240));
        assert_eq!(
            (shape.kept_bytes(), shape.weights_bytes(), shape.jobs()),
            (155_648, 196_608, 4)
        );
        assert_eq!(shape.products(), [8, 32, 80, 256]);
    }

    /// Sizes as in `tensor_gradient.cu`: 231,040 bytes of 232,448, of which kernels declare 1,024 for themselves.
    #[test]
    fn small_towers_learn_in_one_pass_and_odd_widths_are_padded() {
        let shape = |hidden: &[usize]| TensorShape::new(&tower(71, hidden, 23), 232_448).unwrap();
        assert_eq!(shape(&[64, 64]).learners(), Some(3));
        assert_eq!(shape(&[64, 64]).gradient_bytes(3), 231_040);
        assert_eq!(shape(&[64, 64, 64, 64]).learners(), None, "sums of gradients do not fit");
        assert_eq!(shape(&[64, 128]).learners(), None);
        let odd = shape(&[40, 24]);
        assert_eq!((odd.widths.as_slice(), odd.learners()), (&[80, 64, 64][..], Some(3)));
        assert_eq!(
            TensorShape::new(&tower(71, &[64, 64], 23), 166_000).unwrap().learners(),
            Some(2)
        );
    }

    #[test]
    fn networks_that_do_not_fit_have_no_shape() {
        for (inputs, hidden) in [(729, &[256, 256][..]), (71, &[512]), (71, &[])] {
            assert_eq!(TensorShape::new(&tower(inputs, hidden, 23), 232_448), None, "{hidden:?}");
        }
        assert_eq!(TensorShape::new(&tower(71, &[256, 256], 23), 101_376), None);
    }

    /// Else NVRTC mistakes local structs for them, as `kernel_args.rs` says.
    #[test]
    fn arguments_are_taken_by_value() {
        let tensor = [TENSOR_ACT, TENSOR_AT_ONCE, TENSOR_LEARN, TENSOR_WEIGHTS];
        let units = [&tensor[..], &TILED_UNITS].concat().concat();
        let others = [
            GEMM,
            layer_norm::TEXT,
            spread::TEXT,
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
