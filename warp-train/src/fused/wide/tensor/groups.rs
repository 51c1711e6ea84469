//! Groups of four warps that learn from a whole tower in one pass on tensor cores, and those that multiply beside them.

use super::shape::{BLOCK, TensorShape};

/// Registers of a multiprocessor for each of its 128 lanes.
const REGISTERS: usize = 512;
/// Registers of a thread that multiplies, beside its sums: the compiler has those from number 24 on for them.
const BESIDE_SUMS: usize = 24;
/// The fewest registers with which a thread learns that has sums of 128 columns, or of 64: the compiler spills none there.
const FEWEST_TO_LEARN: usize = 104;
const FEWEST_TO_LEARN_64: usize = 88;
/// Hidden layers at most where two groups multiply: those that learn wait for them at every layer.
const MOST_LAYERS: usize = 4;
/// Columns of a product at most.
pub(super) const MOST_COLUMNS: usize = 256;
/// Bytes that kernels declare for themselves.
const DECLARED: usize = 1024;
/// Outputs, in whole products, that leave room for ones beside their gradients, where two groups multiply.
const MOST_OUTPUTS: usize = 48;
/// Bytes of 16 rows of a block, all ones.
const ONES: usize = BLOCK / 4;

/// The groups of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Groups {
    /// How many learn, and how many multiply what those keep: one, or two.
    pub(in super::super) learners: usize,
    pub(in super::super) multipliers: usize,
    /// Whether two that multiply share the inputs of the first layer, and else the outputs of all.
    pub(in super::super) share_inputs: bool,
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

    /// These with registers for so many sums of a thread that multiplies, if there are enough beside them to learn.
    fn with_room_for(self, sums: usize) -> Option<Self> {
        let registers_to_multiply = (sums + BESIDE_SUMS).next_multiple_of(8);
        // Of what a block has been given, registers go from one group to another.
        let each = REGISTERS / self.count() / 8 * 8;
        if registers_to_multiply <= each {
            return Some(self);
        }
        let given = each * self.count();
        let rest = given.checked_sub(self.multipliers * registers_to_multiply)?;
        let registers_to_learn = rest / self.learners / 8 * 8;
        let uneven = Self { registers_to_learn, registers_to_multiply, ..self };
        let fewest = if self.share_inputs { FEWEST_TO_LEARN_64 } else { FEWEST_TO_LEARN };
        (registers_to_learn >= fewest).then_some(uneven)
    }
}

/// Groups where one multiplies, and the sums that it has registers for beside [`BESIDE_SUMS`].
const OF_64: [(Groups, usize); 2] = [
    (
        Groups {
            learners: 3,
            multipliers: 1,
            share_inputs: false,
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
            share_inputs: false,
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
            let sharing = || self.groups_that_share_inputs(fits);
            return self.groups_of_128().filter(fits).or_else(sharing);
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
        let even = Groups { learners: 2, multipliers: 2, ahead: true, ..Groups::default() };
        even.with_room_for(sums)
    }

    /// Where all hidden layers have 64, and observations are many or layers are.
    fn groups_that_share_inputs(&self, fits: impl Fn(&Groups) -> bool) -> Option<Groups> {
        if self.is_normed()
            || self.hidden().any(|outputs| outputs != 64)
            || self.n_outputs() > MOST_OUTPUTS
            || self.half() > MOST_COLUMNS
            || self.hidden().count() > MOST_LAYERS
        {
            return None;
        }
        let last = self.hidden().count();
        let of_layer = |layer: usize| if layer < last { 64 } else { self.n_outputs() } / 2 + 4;
        let first = self.half() / 2 + 4 * usize::from(!self.has_one());
        let of_share = |share: usize| {
            let above = (1..=last).filter(|layer| layer % 2 == share).map(of_layer);
            let has_first = share * self.half() < self.observation_width();
            above.sum::<usize>() + if has_first { first } else { 0 }
        };
        let sums = of_share(0).max(of_share(1));
        let groups = |(learners, ahead): (usize, bool)| {
            let even =
                Groups { learners, multipliers: 2, share_inputs: true, ahead, ..Groups::default() };
            even.with_room_for(sums)
        };
        // One that learns alone is slower than two passes where rows are few, but those have no room for more inputs.
        let alone = self.observation_width() > MOST_COLUMNS;
        let ways = [(2, true), (2, false), (1, true), (1, false)];
        let ways = ways.into_iter().filter(|(learners, _)| *learners == 2 || alone);
        ways.filter_map(groups).find(fits)
    }

    /// Inputs of the first layer that each of two groups multiplies, in whole blocks.
    fn half(&self) -> usize {
        self.observation_width().div_ceil(64).div_ceil(2) * 64
    }

    /// Widths of products of two groups that multiply; 0 is none.
    pub(super) fn columns_to_share(&self, groups: &Groups) -> [usize; 2] {
        let blocks = self.observation_width().div_ceil(64);
        if groups.share_inputs {
            [self.half(), blocks * 64 - self.half()]
        } else {
            [self.columns(); 2]
        }
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

#[cfg(test)]
mod tests {
    use super::super::shape::tests::{at_once, groups, tower};
    use super::*;

    /// Two groups multiply: their sums and what those need that learn are the registers that there are.
    #[test]
    fn layers_of_128_learn_in_one_pass() {
        let shape = |inputs: usize, hidden: &[usize], outputs: usize| {
            TensorShape::new(&tower(inputs, hidden, outputs), 232_448).unwrap()
        };
        let registers = |shape: &TensorShape| {
            let groups = shape.groups().unwrap();
            (groups.registers_to_learn, groups.registers_to_multiply)
        };
        let runner = shape(71, &[128, 128], 23);
        assert_eq!((groups(&runner), registers(&runner)), (Some((2, 2)), (104, 152)));
        assert_eq!((at_once(&runner), runner.columns()), ((230_016, true), 72));
        assert_eq!(runner.products(), [8, 32, 72, 80, 128]);
        let critic = shape(71, &[128, 128], 1);
        assert_eq!((at_once(&critic), registers(&critic)), ((217_664, true), (112, 144)));
        let few = shape(4, &[100, 65], 2);
        assert_eq!((groups(&few), registers(&few)), (Some((2, 2)), (0, 0)));
        let one = shape(4, &[128], 2);
        assert_eq!((groups(&one), registers(&one)), (Some((2, 2)), (0, 0)));
        assert_eq!(groups(&shape(72, &[128, 128], 23)), Some((2, 2)), "80 columns");
        assert_eq!(groups(&shape(80, &[128, 128], 23)), None, "88 columns");
        assert_eq!(groups(&shape(4, &[128, 128, 128], 2)), None);
        assert_eq!(groups(&shape(4, &[128, 64], 2)), None);
    }

    /// Halves of 256 columns, beside every second layer above; the registers are those of a block, which are a multiple of 8 for
    /// each thread: 504 for three groups.
    #[test]
    fn many_inputs_are_shared() {
        let shape = |inputs: usize, hidden: &[usize], outputs: usize| {
            TensorShape::new(&tower(inputs, hidden, outputs), 232_448)
        };
        let registers = |shape: &TensorShape| {
            let groups = shape.groups().unwrap();
            (groups.registers_to_learn, groups.registers_to_multiply)
        };
        let taxi = shape(500, &[64, 64], 6).unwrap();
        assert_eq!((groups(&taxi), registers(&taxi)), (Some((1, 2)), (120, 192)));
        assert!(!taxi.groups().unwrap().ahead);
        assert_eq!(taxi.products(), [8, 16, 64, 256]);
        assert_eq!((taxi.act_bytes(1), taxi.act_bytes(2)), (142_912, 209_472));
        let odd = shape(400, &[64, 64], 6).unwrap();
        assert_eq!(odd.products(), [8, 16, 64, 192, 256], "four blocks and three");
        let some = shape(176, &[64, 50], 22).unwrap();
        assert_eq!((groups(&some), registers(&some)), (Some((2, 2)), (0, 0)));
        let deep = shape(4, &[64; 4], 2).unwrap();
        assert_eq!((groups(&deep), registers(&deep)), (Some((2, 2)), (0, 0)));
        assert_eq!(groups(&shape(4, &[64; 5], 2).unwrap()), None);
        assert_eq!(shape(513, &[64, 64], 6), None, "more than two products of 256 columns");
        assert_eq!(shape(500, &[64, 64, 64], 48), None, "more sums than registers");
        let two_passes = shape(256, &[128, 64], 6).unwrap();
        assert_eq!(groups(&two_passes), None);
    }

    /// An actor of 88 columns and 32 outputs has too many sums of gradients for registers, its critic has not.
    #[test]
    fn two_groups_multiply_for_all_towers_or_for_none() {
        let towers = |inputs: usize, outputs: usize| {
            let towers = [tower(inputs, &[128, 128], outputs), tower(inputs, &[128, 128], 1)];
            let shapes = TensorShape::of_towers(&towers, 232_448).unwrap();
            shapes.iter().map(groups).collect::<Vec<_>>()
        };
        assert_eq!(towers(71, 23), [Some((2, 2)); 2]);
        assert_eq!(
            groups(&TensorShape::new(&tower(85, &[128, 128], 1), 232_448).unwrap()),
            Some((2, 2))
        );
        assert_eq!(towers(85, 23), [None; 2]);
    }
}
