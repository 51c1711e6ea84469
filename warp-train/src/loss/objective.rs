//! What an actor-critic descends: row functions of log-probabilities and of values, with their coefficients.

use super::block::Column;
use super::row::{Read, RowFunction, Rows, Write, no_draws};
use crate::error::PolicyError;

/// What an actor-critic descends: the policy's part, `vf_coef` times the value's, less `ent_coef` times the
/// entropy.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The two parts.
    pub objective: Objective,
    /// Weight of the value's part.
    pub vf_coef: f32,
    /// Weight of the entropy bonus.
    pub ent_coef: f32,
}

/// The parts of a loss, none of which has numbers of both policy and value.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// Reads some of [`POLICY_READS`] and writes `loss`, `d_log_prob` and any of [`POLICY_FIGURES`].
    pub policy: Part,
    /// Reads some of [`VALUE_READS`] and writes `loss` and `d_value`.
    pub value: Part,
}

/// What a policy's part may read: the log-probability of the action now and when it was taken, and the
/// advantage.
pub const POLICY_READS: [&str; 3] = ["log_prob", "old_log_prob", "advantage"];
/// Figures that a policy's part may write: an estimate of the divergence from the old policy, and 1 where
/// the ratio is clipped, else 0.
pub const POLICY_FIGURES: [&str; 2] = ["approx_kl", "clip_fraction"];
/// What a value's part may read: the value estimate now and when the action was taken, and its target.
pub const VALUE_READS: [&str; 3] = ["value", "old_value", "target"];

/// The columns that a part may read and write.
pub(super) struct Names<const READS: usize, const WRITES: usize> {
    reads: [&'static str; READS],
    writes: [&'static str; WRITES],
}

pub(super) const POLICY: Names<3, 4> = Names {
    reads: POLICY_READS,
    writes: ["loss", "d_log_prob", POLICY_FIGURES[0], POLICY_FIGURES[1]],
};
pub(super) const VALUE: Names<3, 2> = Names { reads: VALUE_READS, writes: ["loss", "d_value"] };

/// A row function with its coefficients, whose columns are told by their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The function.
    pub function: &'static RowFunction,
    /// Values of its cells.
    pub cells: Vec<f32>,
}

impl Part {
    /// Runs the function over the first `n` rows of columns, which lie in the order of `names`; those that
    /// it does not write stay as they are.
    pub(super) fn run<const READS: usize, const WRITES: usize>(
        &self,
        n: usize,
        names: &Names<READS, WRITES>,
        reads: [&[f32]; READS],
        writes: &mut [Column; WRITES],
    ) {
        let position = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
        let read = |name: &&str| Some(Read::rows(reads[position(&names.reads, name)?], 1));
        let reads: Vec<Read<'_>> = self.function.reads.iter().filter_map(read).collect();
        let mut free = writes.each_mut().map(Some);
        let write = |name: &&str| {
            let numbers = &mut free[position(&names.writes, name)?].take()?[..n];
            Some(Write { numbers, width: 1 })
        };
        let mut writes: Vec<Write<'_>> = self.function.writes.iter().filter_map(write).collect();
        let (cells, draws) = (&self.cells, &no_draws);
        (self.function.run)(Rows { n, cells, reads: &reads, writes: &mut writes, draws });
    }

    /// Checks the function's columns and cells.
    fn check(&self, reads: &[&str], writes: &[&str], needed: &[&str]) -> Result<(), PolicyError> {
        let RowFunction { name, .. } = self.function;
        let invalid = |reason: String| {
            Err(PolicyError::InvalidConfig(format!("row function {name}: {reason}")))
        };
        for (verb, own, known) in
            [("reads", self.function.reads, reads), ("writes", self.function.writes, writes)]
        {
            if let Some(column) = own.iter().find(|column| !known.contains(column)) {
                return invalid(format!(
                    "it {verb} {column}, but a loss {verb} {}",
                    known.join(", ")
                ));
            }
        }
        if let Some(column) = needed.iter().find(|column| !self.function.writes.contains(column)) {
            return invalid(format!("it does not write {column}"));
        }
        if self.function.draws {
            return invalid("a loss does not draw".into());
        }
        let (n, given) = (self.function.cells.len(), self.cells.len());
        if n != given {
            return invalid(format!("it has {n} cells, but {given} values are given"));
        }
        match self.cells.iter().find(|cell| !cell.is_finite()) {
            Some(cell) => invalid(format!("{cell} is given, which is not finite")),
            None => Ok(()),
        }
    }

    fn reads(&self, column: &str) -> bool {
        self.function.reads.contains(&column)
    }
}

impl Objective {
    /// Checks that the functions are those of a loss, and their cells finite.
    ///
    /// # Errors
    /// A column that no loss has, one that is missing, or a cell that is not finite.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.policy.check(&POLICY.reads, &POLICY.writes, &POLICY.writes[..2])?;
        self.value.check(&VALUE.reads, &VALUE.writes, &VALUE.writes)
    }
}

impl Loss {
    /// Whether the loss reads `Minibatch::log_probs`.
    #[must_use]
    pub fn reads_log_probs(&self) -> bool {
        self.objective.policy.reads(POLICY_READS[1])
    }

    /// Whether the loss reads `Minibatch::values`.
    #[must_use]
    pub fn reads_values(&self) -> bool {
        self.objective.value.reads(VALUE_READS[1])
    }

    /// Checks that the functions are those of a loss, and all coefficients finite.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        self.objective.check()?;
        let finite = self.vf_coef.is_finite() && self.ent_coef.is_finite();
        match finite {
            true => Ok(()),
            false => Err(PolicyError::InvalidConfig(format!(
                "a loss needs finite coefficients, but has vf_coef = {} and ent_coef = {}",
                self.vf_coef, self.ent_coef
            ))),
        }
    }
}
