//! A tower as tensor cores see it: which towers run whole, and the sizes that the kernels in `tensor/` compute for
//! themselves.

use super::groups::{Groups, MOST_COLUMNS};
use crate::fused::wide::args::list;
use crate::fused::wide::network::{Role, Tower};
use crate::model::LAYER_NORM_EPSILON;
use std::fmt::Write;

/// Rows of a tile on tensor cores.
pub(in super::super) const TILE_ROWS: usize = 64;
/// Stages of the ring of tiles that gradients of weights are made from.
const STAGES: usize = 4;
/// Stages at most where the first pass makes the gradients of outer layers, and bytes of all stages.
const MOST_STAGES: usize = 6;
const STAGES_BYTES: usize = 192 << 10;
/// Bytes of 64 rows of 64 columns.
pub(super) const BLOCK: usize = 8192;

/// A tower as tensor cores see it; the sizes that they compute for themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct TensorShape {
    tower: Tower,
    /// Inputs of each layer, padded, and then of none.
    widths: Vec<usize>,
    /// Outputs, padded.
    outputs: usize,
    /// Groups of a block that learn in one pass; none where it takes two.
    groups: Option<Groups>,
    /// Whether the first of two passes makes the gradients of the first and the output layer.
    edges: bool,
    /// Whether the kernel that acts has room for sums of what is seen.
    sums_obs: bool,
    /// Whether a text is for an actor and for a critic, of which an argument names one.
    either: bool,
}

/// Bytes that kernels declare for themselves, at most.
const MOST_DECLARED: usize = 3 * 1024;
/// Blocks of a kernel on one multiprocessor, at most.
pub(in super::super) const MOST_A_PROCESSOR: usize = 2;
/// Groups of four warps of a block that acts, at most.
pub(in super::super) const MOST_GROUPS: usize = 2;
/// Outputs that the first pass makes gradients of, and observations with a one behind them, at most.
const MOST_AT_EDGES: usize = 16;

impl TensorShape {
    /// The shape of `tower`, if it has one that fits into `shared_bytes` of shared memory.
    pub(super) fn new(tower: &Tower, shared_bytes: usize) -> Option<Self> {
        let first = tower.hidden.first()?.n_in.next_multiple_of(16);
        let hidden = tower.hidden.iter().map(|layer| layer.n_out.next_multiple_of(64));
        let widths: Vec<_> = [first].into_iter().chain(hidden).collect();
        let columns = tower.heads.n_out + tower.gap;
        let outputs = columns.next_multiple_of(16);
        let mut shape = Self {
            tower: tower.clone(),
            widths,
            outputs,
            groups: None,
            edges: false,
            sums_obs: false,
            either: false,
        };
        shape.groups = shape.find_groups(shared_bytes);
        let fits = shape.fits(shared_bytes);
        shape.edges = shape.has_room_for_edges(shared_bytes);
        let with = shape.blocks()
            * (shape.act_bytes(MOST_GROUPS) + shape.obs_sums_bytes(MOST_GROUPS) + MOST_DECLARED);
        shape.sums_obs = with <= shared_bytes;
        fits.then_some(shape)
    }

    /// Whether products have its widths, of observations only where those are no shares, and kernels room.
    fn fits(&self, shared_bytes: usize) -> bool {
        let outputs = self.widths[1..].iter().chain([&self.outputs]).max();
        let (inputs, bytes) = match &self.groups {
            Some(groups) if groups.share_inputs => (0, self.act_bytes(MOST_GROUPS)),
            _ => (self.widths[0], self.learn_bytes().max(self.weights_bytes())),
        };
        let widest = outputs.map_or(inputs, |outputs| inputs.max(*outputs));
        widest <= MOST_COLUMNS && bytes + MOST_DECLARED <= shared_bytes
    }

    /// The shapes of a network's towers, if all have one. Two groups multiply for all of them or for none: a tower that takes two
    /// passes decides how many copies of the gradient there are, which are too few for one that takes one.
    pub(in super::super) fn of_towers(towers: &[Tower], shared_bytes: usize) -> Option<Vec<Self>> {
        let shapes = towers.iter().map(|tower| Self::new(tower, shared_bytes));
        let shapes = shapes.collect::<Option<Vec<_>>>()?;
        if shapes.iter().all(|shape| shape.groups.is_some()) {
            return Some(shapes);
        }
        shapes.into_iter().map(|shape| shape.without_two_that_multiply(shared_bytes)).collect()
    }

    /// This shape with at most one group that multiplies, if that fits.
    fn without_two_that_multiply(self, shared_bytes: usize) -> Option<Self> {
        if self.groups.as_ref().is_none_or(|groups| groups.multipliers == 1) {
            return Some(self);
        }
        let mut shape = Self { groups: None, ..self };
        let fits = shape.fits(shared_bytes);
        shape.edges = shape.has_room_for_edges(shared_bytes);
        fits.then_some(shape)
    }

    /// Whether the first of two passes has room to make the gradients of outer layers itself: registers where
    /// observations and outputs are few, shared memory for the rows next to them.
    fn has_room_for_edges(&self, shared_bytes: usize) -> bool {
        let few = self.tower.norms.is_empty()
            && self.tower.hidden.len() > 1
            && self.tower.hidden[0].n_in < MOST_AT_EDGES
            && self.outputs <= MOST_AT_EDGES;
        let with = Self { edges: true, ..self.clone() };
        few && self.groups.is_none()
            && self.blocks() == 1
            && with.learn_bytes() + 1024 <= shared_bytes
    }

    /// Groups of a block that learn in one pass; none where what is kept of their samples does not fit beside the
    /// weights, or the sums of gradients not into registers: then it takes two.
    pub(in super::super) fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// Whether the first of two passes makes the gradients of outer layers.
    pub(in super::super) fn makes_edges(&self) -> bool {
        self.edges
    }

    fn outputs_of(&self, layer: usize) -> usize {
        self.widths.get(layer + 1).copied().unwrap_or(self.outputs)
    }

    fn layers(&self) -> std::ops::Range<usize> {
        0..self.widths.len()
    }

    /// Observations as kept in a rollout: halves per row.
    pub(in super::super) fn observation_width(&self) -> usize {
        self.widths[0]
    }

    /// Bytes of all weights as halves.
    pub(in super::super) fn image_bytes(&self) -> usize {
        self.layers().map(|l| 2 * self.widths[l] * self.outputs_of(l)).sum()
    }

    /// Biases, and gains and shifts of hidden layers that are normalised, padded.
    pub(in super::super) fn vectors(&self) -> usize {
        self.layers().map(|l| self.outputs_of(l)).sum::<usize>() + self.norms()
    }

    /// Observations.
    pub(super) fn n_inputs(&self) -> usize {
        self.tower.hidden[0].n_in
    }

    /// Inputs of each layer, padded.
    pub(super) fn inputs(&self) -> impl Iterator<Item = usize> {
        self.widths.iter().copied()
    }

    /// Outputs of each hidden layer, padded.
    pub(super) fn hidden(&self) -> impl Iterator<Item = usize> {
        self.inputs().skip(1)
    }

    /// Outputs of the last layer, padded.
    pub(super) fn n_outputs(&self) -> usize {
        self.outputs
    }

    pub(super) fn is_normed(&self) -> bool {
        !self.tower.norms.is_empty()
    }

    /// Gains and shifts, padded.
    pub(super) fn norms(&self) -> usize {
        2 * self.normed().sum::<usize>()
    }

    /// Outputs of the hidden layers that are normalised, padded.
    fn normed(&self) -> impl Iterator<Item = usize> {
        self.widths[1..].iter().copied().take(self.tower.norms.len())
    }

    /// Bytes kept of a tile between the two passes.
    pub(in super::super) fn kept_bytes(&self) -> usize {
        let blocks = |columns: usize| columns.div_ceil(64);
        let all = self.kept().map(|l| blocks(self.widths[l]) + blocks(self.outputs_of(l)));
        all.sum::<usize>() * BLOCK
    }

    /// Bytes that a group of the first of two passes keeps of its tile's normalised layers.
    pub(super) fn units_bytes(&self) -> usize {
        self.normed().map(|columns| columns.div_ceil(64) * BLOCK).sum()
    }

    /// Layers whose gradients the second pass makes.
    fn kept(&self) -> std::ops::Range<usize> {
        if self.edges { 1..self.widths.len() - 1 } else { self.layers() }
    }

    /// Numbers of the sums of gradients that a group of the first pass makes itself: of outer layers, or of gains and
    /// shifts, of each of its four warps.
    pub(super) fn own_gradients(&self) -> usize {
        if !self.edges {
            return 4 * self.norms();
        }
        let eights = |columns: usize| columns.div_ceil(8);
        let last = self.widths[self.widths.len() - 1] / 64 + 1;
        let outputs = last * eights(self.tower.heads.n_out + self.tower.gap);
        let first = self.widths[1] / 64 * eights(self.tower.hidden[0].n_in + 1);
        (outputs + first) * 128 * 4
    }

    /// Shared memory of the kernel that acts, in blocks of so many groups of four warps.
    pub(in super::super) fn act_bytes(&self, groups: usize) -> usize {
        // 16 rows of observations, then of outputs, for each warp.
        let row = (2 * self.widths[0] + 16).max(4 * (self.outputs + 2));
        self.image_bytes() + 4 * self.vectors() + groups * 4 * 16 * row
    }

    /// Whether that kernel has room for [`TensorShape::obs_sums_bytes`] more.
    pub(in super::super) fn has_room_for_obs_sums(&self) -> bool {
        self.sums_obs
    }

    /// Sums in f64 of every number that their warps see, and of its square.
    pub(in super::super) fn obs_sums_bytes(&self, groups: usize) -> usize {
        groups * 4 * 2 * 8 * self.tower.hidden[0].n_in
    }

    /// Shared memory of the first pass.
    pub(super) fn learn_bytes(&self) -> usize {
        // A row's sums.
        let sums = 128 * 5 * 4;
        if !self.edges {
            return self.act_bytes(MOST_GROUPS) + sums;
        }
        // 64 rows of the layer next to an outer one, for each of two groups, their outputs, and the observations of
        // two tiles.
        let stages = 2 * 128 * self.widths[1].max(self.widths[self.widths.len() - 1]);
        let outputs = 128 * 4 * (self.outputs + 2);
        let observations = 2 * 128 * self.tower.hidden[0].n_in.div_ceil(8) * 16;
        self.image_bytes() + stages + 4 * self.vectors() + outputs + sums + observations
    }

    /// Shared memory of the second pass.
    pub(super) fn weights_bytes(&self) -> usize {
        // A block of two groups is laid out as if both were full.
        let blocks = |l: usize| 2 * self.group(l) + self.widths[l].div_ceil(64);
        let stage = self.kept().map(|l| blocks(l) * BLOCK).max().unwrap_or(BLOCK);
        stage * if self.edges { MOST_STAGES.min(STAGES_BYTES / stage) } else { STAGES }
    }

    /// Blocks of the kernels that act and of the first pass that a multiprocessor has room for: what waits in one
    /// is hidden by another.
    pub(in super::super) fn blocks(&self) -> usize {
        // Sums of the widest layer and two operands, beside what every thread holds.
        let widest = self.widths.iter().chain([&self.outputs]).max().copied().unwrap_or(0);
        let registers = widest / 2 + widest / 2 + 32;
        let shared = 227 * 1024 / (self.learn_bytes() + MOST_DECLARED);
        (65_536 / 256 / registers).min(shared).clamp(1, MOST_A_PROCESSOR)
    }

    /// Groups of four warps of those kernels at most; a block has two.
    pub(in super::super) fn most_groups(&self, multiprocessors: usize) -> usize {
        2 * self.blocks() * multiprocessors
    }

    /// Blocks of 64 outputs that four warps work on in the second pass.
    fn group(&self, layer: usize) -> usize {
        let most = if self.widths[layer] > 128 { 1 } else { 2 };
        self.outputs_of(layer).div_ceil(128).min(most)
    }

    /// Jobs of the second pass.
    pub(in super::super) fn jobs(&self) -> usize {
        let down = |l: usize| self.outputs_of(l).div_ceil(64).div_ceil(2 * self.group(l));
        self.kept().map(down).sum()
    }

    /// What the tower is for, as kernels say it.
    pub(super) fn role(&self) -> u32 {
        match self.tower.role {
            Role::Both => 0,
            Role::Actor => 1,
            Role::Critic => 2,
        }
    }

    /// What the text of the first of two passes is made of: an actor and a critic whose layers have the same sizes share it, so
    /// that the instructions which one's blocks have fetched are there for the other's.
    pub(in super::super) fn of_first_pass(&self, towers: &[Self]) -> Self {
        let mut alike = towers.iter().filter(|other| other.learns_as(self));
        match (alike.next(), alike.next()) {
            (Some(first), Some(_)) => Self { either: true, ..first.clone() },
            _ => self.clone(),
        }
    }

    fn learns_as(&self, other: &Self) -> bool {
        let layers = |shape: &Self| {
            let hidden = shape.tower.hidden.iter();
            hidden.map(|layer| (layer.n_in, layer.n_out)).collect::<Vec<_>>()
        };
        let sizes = |shape: &Self| {
            let outputs = (shape.outputs, shape.tower.heads.n_out.div_ceil(8));
            (layers(shape), outputs, shape.tower.norms.len(), shape.edges)
        };
        let alone = |shape: &Self| shape.groups.is_none() && shape.tower.role != Role::Both;
        alone(self) && alone(other) && sizes(self) == sizes(other)
    }

    /// Widths of the products that the text needs.
    pub(in super::super) fn products(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.widths.iter().copied().chain([self.outputs, 8]).collect();
        match &self.groups {
            Some(groups) if groups.multipliers > 1 => widths.extend(self.columns_to_share(groups)),
            // With gradients of biases beside those of weights.
            Some(_) => widths.extend(self.widths.iter().map(|width| width + 8)),
            None => {}
        }
        widths.retain(|width| (1..=MOST_COLUMNS).contains(width));
        widths.sort_unstable();
        widths.dedup();
        widths
    }

    pub(in super::super) fn constants(&self, tanh: bool, text: &mut String) {
        let tower = &self.tower;
        let reals = tower.layers().map(|layer| layer.n_in);
        let groups = self.groups.clone().unwrap_or_default();
        // No list of C is empty.
        let gains = tower.norms.iter().chain(tower.norms.is_empty().then_some(&0));
        for (name, value) in [
            ("DEPTH", tower.hidden.len().to_string()),
            ("BLOCKS", self.blocks().to_string()),
            ("LEARNERS", groups.learners.to_string()),
            ("MULTIPLIERS", groups.multipliers.to_string()),
            ("LEARN_REGISTERS", groups.registers_to_learn.to_string()),
            ("MULTIPLY_REGISTERS", groups.registers_to_multiply.to_string()),
            ("AHEAD", u8::from(groups.ahead).to_string()),
            ("EDGES", u8::from(self.edges).to_string()),
            ("WIDTHS", list(self.widths.iter())),
            ("REALS", list(reals)),
            ("N", self.outputs.to_string()),
            ("WEIGHTS", list(tower.layers().map(|layer| format!("{}u", layer.weight)))),
            ("OUTS", tower.heads.n_out.to_string()),
            ("GAP_AT", tower.gap_at.to_string()),
            ("GAP", tower.gap.to_string()),
            ("ROLE", self.role().to_string()),
            ("EITHER", u8::from(self.either).to_string()),
            ("TANH", u8::from(tanh).to_string()),
            ("NORMED", u8::from(!tower.norms.is_empty()).to_string()),
            ("GAINS", list(gains.map(|at| format!("{at}u")))),
            ("EPSILON", format!("{LAYER_NORM_EPSILON:e}f")),
        ] {
            let _ = writeln!(text, "#define T_{name} {value}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fused::wide::network::Layer;

    pub(in super::super) fn tower(inputs: usize, hidden: &[usize], outputs: usize) -> Tower {
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
        assert_eq!((shape.observation_width(), shape.vectors()), (80, 544));
        assert_eq!(shape.image_bytes(), 2 * (80 * 256 + 256 * 256 + 256 * 32));
        assert_eq!((shape.act_bytes(MOST_GROUPS), shape.learn_bytes()), (213_120, 215_680));
        assert_eq!(
            (shape.kept_bytes(), shape.weights_bytes(), shape.jobs()),
            (155_648, 196_608, 4)
        );
        assert_eq!(shape.products(), [8, 32, 80, 256]);
        assert!(shape.has_room_for_obs_sums(), "225,280 bytes with sums of what is seen");
    }

    /// Few observations and outputs: 232,000 bytes of 232,448 with what the first pass declares for itself.
    #[test]
    fn gradients_of_narrow_outer_layers_are_made_in_the_first_pass() {
        let shape = |tower| TensorShape::new(&tower, 232_448).unwrap();
        let found = shape(tower(4, &[256, 256], 2));
        assert_eq!((found.learn_bytes(), found.own_gradients()), (230_976, 9 * 128 * 4));
        assert_eq!((found.kept_bytes(), found.weights_bytes(), found.jobs()), (65_536, 196_608, 2));
        assert_eq!(found.products(), [8, 16, 256]);
        let others = [tower(16, &[256, 256], 2), tower(4, &[256, 256], 17), tower(4, &[256], 2)];
        for tower in others.into_iter().chain([tower(4, &[64, 64], 2)]) {
            assert_eq!(shape(tower).own_gradients(), 0);
        }
    }

    /// Where an actor's outputs are as many eights as its critic's, and the pass is the first of two.
    #[test]
    fn actors_and_critics_share_the_first_pass() {
        let are_one = |hidden: &[usize], actions: usize| {
            let actor = Tower { role: Role::Actor, ..tower(4, hidden, actions) };
            let critic = Tower { role: Role::Critic, ..tower(4, hidden, 1) };
            let shapes = TensorShape::of_towers(&[actor, critic], 232_448).unwrap();
            let [actor, critic] = [0, 1].map(|i| shapes[i].of_first_pass(&shapes));
            actor == critic && actor.either
        };
        assert!(are_one(&[256, 256], 2) && are_one(&[192, 64], 8));
        assert!(!are_one(&[256, 256], 9) && !are_one(&[256, 256], 17) && !are_one(&[64, 64], 2));
    }

    /// Groups that learn in one pass, and those that multiply beside them.
    pub(in super::super) fn groups(shape: &TensorShape) -> Option<(usize, usize)> {
        shape.groups().map(|groups| (groups.learners, groups.multipliers))
    }

    /// Shared memory of one pass, and whether observations come ahead.
    pub(in super::super) fn at_once(shape: &TensorShape) -> (usize, bool) {
        let groups = shape.groups().unwrap();
        (shape.gradient_bytes(groups), groups.ahead)
    }

    /// Sizes as in `tensor/gradient.cu`: 231,040 bytes of 232,448, of which kernels declare 1,024 for themselves.
    #[test]
    fn small_towers_learn_in_one_pass_and_odd_widths_are_padded() {
        let shape = |hidden: &[usize]| TensorShape::new(&tower(71, hidden, 23), 232_448).unwrap();
        assert_eq!(groups(&shape(&[64, 64])), Some((3, 1)));
        assert_eq!(at_once(&shape(&[64, 64])), (231_040, false));
        let fewer = TensorShape::new(&tower(64, &[64, 64], 11), 232_448).unwrap();
        assert_eq!(at_once(&fewer), (214_592, true));
        assert_eq!(
            (fewer.obs_sums_bytes(MOST_GROUPS), fewer.has_room_for_obs_sums()),
            (8_192, true)
        );
        let four = shape(&[64, 64, 64, 64]);
        assert_eq!(groups(&four), Some((2, 2)), "sums of gradients do not fit into one group");
        assert_eq!(groups(&shape(&[64, 128])), None);
        let odd = shape(&[40, 24]);
        assert_eq!((odd.widths.as_slice(), groups(&odd)), (&[80, 64, 64][..], Some((3, 1))));
        let shape = TensorShape::new(&tower(71, &[64, 64], 23), 166_000).unwrap();
        assert_eq!(groups(&shape), Some((2, 1)));
    }

    /// Where outer layers' gradients are made in the first pass, it takes nearly all of the shared memory.
    #[test]
    fn towers_with_outer_gradients_have_shapes() {
        let towers = [tower(6, &[256, 256], 3), tower(6, &[256, 256], 1)];
        let shapes = TensorShape::of_towers(&towers, 232_448).unwrap();
        assert!(shapes.iter().all(TensorShape::makes_edges));
    }

    /// As the kernels' texts say.
    #[test]
    fn normalised_layers_have_gains_shifts_and_room() {
        let shape = |hidden: &[usize]| {
            let norms = vec![0; hidden.len()];
            TensorShape::new(&Tower { norms, ..tower(4, hidden, 2) }, 232_448).unwrap()
        };
        let small = shape(&[64, 64]);
        assert_eq!((small.vectors(), small.kept_bytes()), (144 + 256, 6 * BLOCK));
        assert_eq!(small.units_bytes(), 2 * BLOCK);
        assert_eq!((groups(&small), at_once(&small)), (Some((2, 1)), (153_152, true)));
        assert_eq!(groups(&shape(&[64, 64, 64])), Some((2, 1)));
        assert_eq!(groups(&shape(&[128, 128])), None);
        // Two passes with two blocks a multiprocessor, so that there are 528 groups.
        let deep = shape(&[64, 64, 64, 64]);
        assert_eq!((groups(&deep), deep.most_groups(132)), (None, 528));
        let large = shape(&[256, 256]);
        assert_eq!((large.own_gradients(), large.makes_edges()), (4 * 1024, false));
        assert_eq!((large.kept_bytes(), large.units_bytes()), ((9 + 9) * BLOCK, 8 * BLOCK));
    }

    #[test]
    fn networks_that_do_not_fit_have_no_shape() {
        for (inputs, hidden) in [(729, &[256, 256][..]), (71, &[512]), (71, &[])] {
            assert_eq!(TensorShape::new(&tower(inputs, hidden, 23), 232_448), None, "{hidden:?}");
        }
        assert_eq!(TensorShape::new(&tower(71, &[256, 256], 23), 101_376), None);
    }
}
