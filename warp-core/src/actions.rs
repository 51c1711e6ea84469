//! The actions of a single replica's step, and how the step ended.

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The game is over.
    pub terminated: bool,
    /// The time limit cut the episode.
    pub truncated: bool,
}

/// The actions of one group: discrete heads or real numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupAction {
    /// i32 `[n_agents, n_heads]`.
    Discrete(Vec<i32>),
    /// f32 `[n_agents, dim]`.
    Continuous(Vec<f32>),
}
