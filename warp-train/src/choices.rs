//! The choices that a policy's configuration has beside its network's: algorithm, distribution, precision.

warp_core::choices! {
    /// How a policy learns.
    pub enum Algorithm {
        /// Proximal policy optimisation.
        Ppo = "ppo",
        /// Advantage actor-critic.
        A2c = "a2c",
        /// Deep Q-network.
        Dqn = "dqn",
        /// Deep deterministic policy gradient.
        Ddpg = "ddpg",
        /// Twin delayed deterministic policy gradient.
        Td3 = "td3",
        /// Soft actor-critic.
        Sac = "sac",
    }
}

impl Algorithm {
    /// Its name in configurations and run folders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ppo => "ppo",
            Algorithm::A2c => "a2c",
            Algorithm::Dqn => "dqn",
            Algorithm::Ddpg => "ddpg",
            Algorithm::Td3 => "td3",
            Algorithm::Sac => "sac",
        }
    }
}

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
