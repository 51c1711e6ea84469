//! Errors when actions are sampled.
//!
//! Every message is one sentence that says which array or row is wrong and how.

use crate::bounding::Bounding;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layout without any head, such as that of a space of real numbers.
    #[error("a categorical action needs at least one head")]
    NoHeads,
    /// A head with no choices, or with more than an i32 can number.
    #[error("head {head} has {size} choices, expected 1 to 2147483647")]
    HeadSize {
        /// The head.
        head: usize,
        /// Its number of choices.
        size: usize,
    },
    /// Rows that belong to no agent.
    #[error("rows need at least one agent per replica")]
    NoAgents,
    /// An array whose length does not fit the number of rows.
    #[error("\"{array}\" has {found} elements, expected {expected} for {rows} rows")]
    Length {
        /// The array.
        array: &'static str,
        /// Elements it has.
        found: usize,
        /// Elements it must have.
        expected: usize,
        /// Number of rows, as the log-probabilities (or, for random actions, the actions) give it.
        rows: usize,
    },
    /// A logit that is NaN or positive infinity, allowed by the mask or not.
    #[error("logit {choice} of head {head} in row {row} is {value}, expected a number or -inf")]
    Logit {
        /// The row.
        row: usize,
        /// The head.
        head: usize,
        /// The choice within the head.
        choice: usize,
        /// The logit.
        value: f32,
    },
    /// A row in which no choice of a head is possible: the mask forbids each, or its logit is
    /// negative infinity.
    #[error(
        "row {row} (rows are a group's agents, replica after replica) allows no choice of head {head}: the \
         action mask forbids each, or its logit is -inf"
    )]
    NothingAllowed {
        /// The row, counting the agents of a group replica after replica.
        row: usize,
        /// The head.
        head: usize,
    },
    /// A Gaussian layout without elements, or with unequal numbers of bounds.
    #[error("a Gaussian action has {low} low and {high} high bounds, expected as many, at least 1")]
    Bounds {
        /// Number of low bounds.
        low: usize,
        /// Number of high bounds.
        high: usize,
    },
    /// Bounds that are not in order, or not finite where samples are squashed.
    #[error(
        "element {element} of a Gaussian action has bounds {low} and {high}, expected {} in order",
        if *bounding == Bounding::Squash { "two finite and different ones" } else { "two" }
    )]
    Bound {
        /// The element.
        element: usize,
        /// Its low bound.
        low: f32,
        /// Its high bound.
        high: f32,
        /// How it was to be bounded.
        bounding: Bounding,
    },
    /// A range of log standard deviations that is empty or too wide for an f32.
    #[error(
        "log standard deviations between {min} and {max} were requested, expected -20 <= min <= \
         max <= 20"
    )]
    LogStdRange {
        /// Lowest log standard deviation.
        min: f32,
        /// Highest log standard deviation.
        max: f32,
    },
    /// A mean or log standard deviation that is NaN or infinite.
    #[error("parameter {parameter} in row {row} is {value}, expected a finite number")]
    Parameter {
        /// The row.
        row: usize,
        /// Its place in the row: means first, then log standard deviations.
        parameter: usize,
        /// What it is.
        value: f32,
    },
    /// Room for discrete actions was given for continuous ones, or the other way round.
    #[error(
        "the arrays for actions are of the other kind: discrete instead of continuous, or the \
         reverse"
    )]
    OtherKind,
    /// A coefficient of exploration noise that is out of range.
    #[error("{coefficient} of Ornstein-Uhlenbeck noise is {value}, expected {expected}")]
    Noise {
        /// The coefficient.
        coefficient: &'static str,
        /// Its value.
        value: f32,
        /// What it may be.
        expected: &'static str,
    },
    /// A policy's outputs on a device from which no action can be sampled: they are not numbers, or
    /// allow no choice.
    #[cfg(feature = "cuda")]
    #[error(
        "row {row} allows no action: its outputs are not finite, or its mask forbids everything"
    )]
    RowAtFault {
        /// The first such row.
        row: u32,
    },
    /// A sampler that was made for the other kind of actions, or without what it is now given.
    #[cfg(feature = "cuda")]
    #[error("a sampler on a device was made {made}, but is given {given}")]
    NotMadeFor {
        /// What it was made for.
        made: &'static str,
        /// What it is given.
        given: &'static str,
    },
    /// A device that refuses, or an array on it that does not fit.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] warp_func::Error),
    /// A mask over continuous actions.
    #[error("an action mask was given, but continuous actions have none")]
    MaskedBox,
}
