//! The choices that a policy's configuration has beside its network's: noise, distribution, precision.

warp_core::choices! {
    /// What is added to a deterministic policy's actions to explore.
    pub enum Noise {
        /// Nothing.
        None = "none",
        /// A normal number of its own in each step.
        Gaussian = "gaussian",
        /// Ornstein and Uhlenbeck's process, which stays on one side for a while and starts from 0 with
        /// the episode.
        Ou = "ou",
    }
}

warp_core::choices! {
    /// How a continuous action is drawn and kept within its bounds.
    pub enum ActionDistribution {
        /// A normal number in the action's own units; the environment gets it clipped.
        Gaussian = "gaussian",
        /// tanh of a normal number, stretched to the bounds.
        Squashed = "squashed",
    }
}

warp_core::choices! {
    /// How exact a GPU's products of matrices are.
    pub enum Precision {
        /// Half-precision operands and f32 sums, on tensor cores, where the network suits them.
        Half = "fp16",
        /// f32 throughout.
        Single = "fp32",
    }
}
