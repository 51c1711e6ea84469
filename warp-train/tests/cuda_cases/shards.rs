//! Runs of small networks that learn from several minibatches, most of them from several shards.

use super::Case;

/// Several minibatches, most of them of several shards: parts of one size and of others, more epochs than keys are kept of, more minibatches
/// than registers hold sums of, tiles of a block that has few replicas.
pub(crate) const SHARDS: [Case; 7] = [
    (
        "two shards",
        "env_id = \"cartpole\"\nnum_envs = 256\nnum_steps = 32\nnum_minibatches = 4\nupdate_epochs = 4\n\
         shards = 2",
    ),
    (
        "three shards, parts of other sizes, shared trunk",
        "env_id = \"acrobot\"\nnum_envs = 27\nnum_steps = 11\nnum_minibatches = 5\nupdate_epochs = 9\n\
         shared_trunk = true\nshards = 3",
    ),
    (
        "eight shards, many minibatches",
        "env_id = \"acrobot\"\nnum_envs = 64\nnum_steps = 40\nnum_minibatches = 40\nupdate_epochs = 1\n\
         shards = 8",
    ),
    (
        "two shards, a block per network",
        "env_id = \"cartpole\"\nnum_envs = 6\nnum_steps = 128\nnum_minibatches = 3\nupdate_epochs = 2\n\
         shards = 2",
    ),
    (
        "four shards of a replica, a tile a minibatch",
        "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 128\nnum_minibatches = 4\nupdate_epochs = 2\n\
         shards = 4",
    ),
    (
        "two shards, a block per network, layer norm",
        "env_id = \"cartpole\"\nnum_envs = 4\nnum_steps = 128\nnum_minibatches = 4\nupdate_epochs = 2\n\
         shards = 2\nlayer_norm = true",
    ),
    (
        "epochs that end early, four minibatches",
        "env_id = \"cartpole\"\nnum_envs = 256\nnum_steps = 32\nnum_minibatches = 4\nupdate_epochs = 4\n\
         critic_learning_rate = 1e-3\ntarget_kl = 1e-7",
    ),
];
