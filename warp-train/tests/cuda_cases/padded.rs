//! Small networks of other widths than there are kernels for.

use super::Case;

/// Every width that they are padded to, on every path: one tile a block and several, and a block per network.
pub(crate) const PADDED: [Case; 4] = [
    (
        "padded layers, truncations",
        "env_id = \"cartpole\"\nnum_envs = 48\nnum_steps = 20\nhidden = [40, 24]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "padded layers of 128, relu, squashed, deviations from the network, weights that decay",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 100]\nnum_minibatches = 1\n\
         update_epochs = 2\nactivation = \"relu\"\nshared_trunk = true\naction_distribution = \"squashed\"\n\
         log_std = \"state_dependent\"\nweight_decay = 0.01",
    ),
    (
        "padded layers, a block per network, normalised",
        "env_id = \"acrobot\"\nnum_envs = 7\nnum_steps = 18\nhidden = [33, 8]\nnum_minibatches = 1\n\
         update_epochs = 2\nnorm_obs = true\n[env]\nepisode_length = 9",
    ),
    (
        "padded layers of 32, two blocks on a multiprocessor",
        "env_id = \"cartpole\"\nnum_envs = 16384\nnum_steps = 13\nhidden = [9, 31]\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
];
