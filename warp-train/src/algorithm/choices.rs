//! The choices in a policy's configuration apart from its network: noise, distribution, precision.

warp_core::choices! {
    /// What is added to a deterministic policy's actions to explore.
    pub enum Noise {
        /// Nothing.
        None = "none",
        /// Independent Gaussian noise in each step.
        Gaussian = "gaussian",
        /// An Ornstein-Uhlenbeck process, which keeps its sign for a while and starts from 0 in each
        /// episode.
        Ou = "ou",
    }
}

warp_core::choices! {
    /// How a continuous action is sampled and kept within its bounds.
    pub enum ActionDistribution {
        /// A Gaussian sample in the action's own units; it is clipped for the environment.
        Gaussian = "gaussian",
        /// The tanh of a Gaussian sample, scaled to the bounds.
        Squashed = "squashed",
    }
}

warp_core::choices! {
    /// The precision of matrix products on a GPU.
    pub enum Precision {
        /// Half-precision operands and f32 sums, on tensor cores, where the network allows it.
        Half = "fp16",
        /// The same with bf16: the range of f32, but an eighth of fp16's resolution.
        BFloat = "bf16",
        /// f32 throughout.
        Single = "fp32",
    }
}
