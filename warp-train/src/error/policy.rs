//! The one error type of the policy learner: full sentences with the values in them.

/// What can be wrong with a policy, a minibatch or a checkpoint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A setting is outside its range.
    #[error("{0}")]
    InvalidConfig(String),
    /// An array is not as long as its shape says.
    #[error("array \"{array}\" has {found} elements, but {expected} are needed ({shape})")]
    WrongLength {
        /// Name of the array.
        array: &'static str,
        /// Elements it has.
        found: usize,
        /// Elements it should have.
        expected: usize,
        /// The shape that was expected, in words.
        shape: String,
    },
    /// An action is not one of its head's, or the mask forbids it.
    #[error(
        "row {row} has action {action} for head {head}, but that head has {n_actions} actions, of \
         which the row's mask allows {allowed}"
    )]
    InvalidAction {
        /// Row of the minibatch.
        row: usize,
        /// Index of the discrete head.
        head: usize,
        /// The action found.
        action: i32,
        /// Actions of that head.
        n_actions: usize,
        /// Actions which the mask allows in that row (all of them without a mask).
        allowed: usize,
    },
    /// Discrete actions for a continuous policy, or the other way round.
    #[error(
        "the minibatch contains actions of the other kind: discrete instead of continuous, or the \
         reverse"
    )]
    OtherActions,
    /// A raw sample of a continuous action is infinite or not a number.
    #[error("row {row} has the raw sample {value} as element {element} of its action")]
    InvalidSample {
        /// Row of the minibatch.
        row: usize,
        /// Element of the action.
        element: usize,
        /// The sample found.
        value: f32,
    },
    /// A sample weight is negative, infinite or not a number.
    #[error("sample weight of row {row} is {weight}, but weights must be finite and not negative")]
    InvalidWeight {
        /// Row of the minibatch.
        row: usize,
        /// The weight found.
        weight: f32,
    },
    /// A network gave outputs of an unexpected shape.
    #[error("the network returned {output} of shape {found:?}, but {expected:?} is expected")]
    WrongOutput {
        /// "policy outputs" or "values".
        output: &'static str,
        /// Shape found.
        found: Vec<usize>,
        /// Shape expected.
        expected: Vec<usize>,
    },
    /// A network gave a number that no loss can work with.
    #[error(
        "the network returned {value} among the {output} (element {index} of a chunk): its weights \
         or the observations are not finite"
    )]
    NonFiniteOutput {
        /// "policy outputs" or "values".
        output: &'static str,
        /// Index of the first such element.
        index: usize,
        /// The number found.
        value: f32,
    },
    /// The gradient is infinite or not a number; no parameter was changed.
    #[error("the global gradient norm is {norm}: a loss diverged, no parameter was changed")]
    NonFiniteGradient {
        /// The norm found.
        norm: f64,
    },
    /// A tensor that the policy has is not in the checkpoint.
    #[error("tensor \"{name}\" of shape {shape:?} is missing; {n_found} tensors were given")]
    MissingTensor {
        /// Name of the tensor.
        name: String,
        /// Shape the policy expects.
        shape: Vec<usize>,
        /// How many tensors were given.
        n_found: usize,
    },
    /// A tensor in the checkpoint is not one of the policy's, or comes twice.
    #[error("tensor \"{name}\" is given, but the policy has no such tensor left to load")]
    UnknownTensor {
        /// Name of the tensor.
        name: String,
    },
    /// A tensor has another shape than the policy's.
    #[error(
        "tensor \"{name}\" has shape {found:?} and {n_values} values, the policy expects shape \
         {expected:?}"
    )]
    WrongShape {
        /// Name of the tensor.
        name: String,
        /// Shape found.
        found: Vec<usize>,
        /// Number of values found.
        n_values: usize,
        /// Shape expected.
        expected: Vec<usize>,
    },
    /// burn could not hand out a tensor's values.
    #[error("burn could not read {what} as f32: {reason}")]
    Tensor {
        /// What was read.
        what: String,
        /// burn's own words.
        reason: String,
    },
}

/// An error unless `found == n_rows * columns`.
pub(crate) fn check_length(
    array: &'static str,
    found: usize,
    n_rows: usize,
    columns: usize,
) -> Result<(), PolicyError> {
    let expected = n_rows.saturating_mul(columns);
    if found == expected {
        return Ok(());
    }
    let shape = format!("{n_rows} rows of {columns}");
    Err(PolicyError::WrongLength { array, found, expected, shape })
}
