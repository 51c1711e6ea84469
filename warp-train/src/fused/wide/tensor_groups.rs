//! Groups of four warps that learn from a whole tower in one pass on tensor cores, and those that multiply beside them.

use super::tensor_shape::{BLOCK, TensorShape};

/// Registers of a multiprocessor for each of its 128 lanes.
const REGISTERS: usize = 512;
/// Registers of a thread that multiplies, beside its sums: the compiler has those from number 24 on for them.
const BESIDE_SUMS: usize = 24;
/// The fewest registers with which a thread learns that has sums of 128 columns: the compiler spills none with 104.
const FEWEST_TO_LEARN: usize = 104;
/// Bytes that kernels declare for themselves.
const DECLARED: usize = 1024;
/// Outputs, in whole products, that leave room for ones beside their gradients, where two groups multiply.
const MOST_OUTPUTS: usize = 48;
/// Bytes of 16 rows of a block, all ones.
const ONES: usize = BLOCK / 4;

/// The groups of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Groups {
    /// How many learn, and how many multiply what those keep: one, or two that share every layer.
    pub(super) learners: usize,
    pub(super) multipliers: usize,
    /// Registers of their threads, or 0: as many as all have.
    pub(super) registers_to_learn: usize,
    pub(super) registers_to_multiply: usize,
    /// Whether those that learn have room for the observations of their next tiles.
    pub(super) ahead: bool,
}

impl Groups {
    pub(super) fn count(&self) -> usize {
        self.learners + self.multipliers
    }
}

/// Groups where one multiplies, and the sums that it has registers for beside [`BESIDE_SUMS`].
const OF_64: [(Groups, usize); 2] = [
    (
        Groups {
            learners: 3,
            multipliers: 1,
            registers_to_learn: 112,
            registers_to_multiply: 176,
            ahead: false,
        },
        148,
    ),
    (
        Groups {
            learners: 2,
            multipliers: 1,
            registers_to_learn: 0,
            registers_to_multiply: 0,
            ahead: false,
        },
        136,
    ),
];

impl TensorShape {
    /// Groups that learn in one pass; none where what is kept of their samples does not fit into `shared_bytes` beside
    /// the weights, or the sums of gradients not into registers.
    pub(super) fn find_groups(&self, shared_bytes: usize) -> Option<Groups> {
        let fits = |groups: &Groups| self.gradient_bytes(groups) + DECLARED <= shared_bytes;
        let Some(found) = self.groups_of_64(fits) else {
            return self.groups_of_128().filter(fits);
        };
        let ahead = Groups { ahead: true, ..found.clone() };
        Some(if fits(&ahead) { ahead } else { found })
    }

    /// Where no layer has more than 64 outputs.
    fn groups_of_64(&self, fits: impl Fn(&Groups) -> bool) -> Option<Groups> {
        if self.hidden().chain([self.n_outputs()]).any(|outputs| outputs > 64) {
            return None;
        }
        let sums = self.inputs().map(|inputs| inputs / 2 + 4).sum::<usize>();
        let find = |(groups, most): &&(Groups, usize)| {
            let has_registers = groups.learners == 2 || !self.is_normed();
            has_registers && sums <= *most && fits(groups)
        };
        OF_64.iter().find(find).map(|(groups, _)| groups.clone())
    }

    /// Where all hidden layers have 128.
    fn groups_of_128(&self) -> Option<Groups> {
        if self.is_normed()
            || self.hidden().any(|outputs| outputs != 128)
            || self.n_outputs() > MOST_OUTPUTS
        {
            return None;
        }
        // Of 64 outputs of each hidden layer, of 64 inputs of the last, and of biases.
        let hidden = (self.columns() + self.hidden().skip(1).sum::<usize>()) / 2;
        let biases = self.hidden().count() + usize::from(!self.has_one());
        let sums = hidden + self.n_outputs() / 2 + 4 * biases;
        let registers_to_multiply = (sums + BESIDE_SUMS).next_multiple_of(8);
        let even = Groups { learners: 2, multipliers: 2, ahead: true, ..Groups::default() };
        if registers_to_multiply <= REGISTERS / even.count() {
            return Some(even);
        }
        let registers_to_learn = (REGISTERS / 2).checked_sub(registers_to_multiply)?;
        let uneven = Groups { registers_to_learn, registers_to_multiply, ..even };
        (registers_to_learn >= FEWEST_TO_LEARN).then_some(uneven)
    }

    /// Whether there is room for a one behind observations: where two groups multiply, its gradients are those of biases.
    fn has_one(&self) -> bool {
        !self.n_inputs().is_multiple_of(64)
    }

    /// Observations and that one, in whole columns of 8.
    pub(super) fn columns(&self) -> usize {
        (self.n_inputs() + usize::from(self.has_one())).next_multiple_of(8)
    }

    /// Shared memory of a pass that does all.
    pub(super) fn gradient_bytes(&self, groups: &Groups) -> usize {
        let observations = self.observation_width().div_ceil(64) * BLOCK;
        let ahead = if groups.ahead { observations } else { 0 };
        // Two groups that multiply leave room for gradients in the place of activations.
        let kept = match groups.multipliers {
            1 => self.kept_bytes(),
            _ => observations + (self.hidden().sum::<usize>() + 64) / 64 * BLOCK,
        };
        // 64 rows of outputs, sums of losses and of gradients of gains and shifts; ones that all groups share, or among
        // the gradients of outputs.
        let (places, ones) = if groups.multipliers == 1 { (128, ONES) } else { (64, 0) };
        let sums = places * 5 * 4 + 4 * 4 * self.norms();
        let of_group = kept + ahead + 64 * 4 * (self.n_outputs() + 2) + sums;
        self.image_bytes() + 4 * self.vectors() + groups.learners * of_group + ones
    }
}
