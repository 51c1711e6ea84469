//! The choices that a policy's configuration has beside its network's: algorithm, distribution, precision.

warp_core::choices! {
    /// How a policy learns.
    pub enum Algorithm {
        /// Proximal policy optimisation.
        Ppo = "ppo",
        /// Advantage actor-critic.
        A2c = "a2c",
    }
}

impl Algorithm {
    /// Its name in configurations and run folders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ppo => "ppo",
            Algorithm::A2c => "a2c",
        }
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
