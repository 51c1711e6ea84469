//! How samples become actions within bounds.

/// How an unbounded sample becomes an action within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounding {
    /// The sample is in the action's own units and clipped to the bounds. Log-probability and entropy
    /// are those of the sample before that.
    Clip,
    /// `centre + half_range * tanh(sample)`; bounds must be finite. Log-probability is that of the
    /// action: it includes the slope of tanh and the range.
    Squash,
}
