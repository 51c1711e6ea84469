//! Layers on tensor cores one by one whose rollouts are one launch of clusters.

use super::Case;

/// Tiles of 64 and of 32 replicas that are not full, two blocks of a cluster and more, layers of several widths that they share
/// evenly or not, one layer and four; towers apart and shared, a box, what is seen normalised, episodes that are cut.
pub(crate) const ONE_LAUNCH: [Case; 8] = [
    (
        "rollouts by clusters, three layers, truncations",
        "env_id = \"cartpole\"\nnum_envs = 300\nnum_steps = 13\nhidden = [256, 256, 256]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "rollouts by clusters of two, 64 replicas each",
        "env_id = \"cartpole\"\nnum_envs = 2030\nnum_steps = 5\nhidden = [256, 256, 256]\nnum_minibatches = 1\n\
         update_epochs = 1\nactivation = \"relu\"\n[env]\nepisode_length = 4",
    ),
    (
        "rollouts by clusters, a normalised box, odd widths, truncations",
        "env_id = \"pendulum\"\nnum_envs = 333\nnum_steps = 12\nhidden = [400, 300]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true\nnorm_reward = true\n[env]\nepisode_length = 7",
    ),
    (
        "rollouts by clusters of three, layers of five blocks, shared",
        "env_id = \"acrobot\"\nnum_envs = 1990\nnum_steps = 6\nhidden = [300, 300]\nalgorithm = \"a2c\"\n\
         shared_trunk = true\nactivation = \"relu\"\nnorm_obs = true\n[env]\nepisode_length = 5",
    ),
    (
        "rollouts by clusters of eight, three layers of 512",
        "env_id = \"mountain_car\"\nnum_envs = 70\nnum_steps = 9\nhidden = [512, 512, 512]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 7",
    ),
    (
        "rollouts by clusters of seven, one layer, squashed, deviations from the network",
        "env_id = \"pendulum\"\nnum_envs = 50\nnum_steps = 12\nhidden = [448]\nalgorithm = \"a2c\"\n\
         action_distribution = \"squashed\"\nlog_std = \"state_dependent\"",
    ),
    (
        "rollouts by clusters of six, shared, truncations",
        "env_id = \"cartpole\"\nnum_envs = 100\nnum_steps = 12\nhidden = [384, 384]\nnum_minibatches = 1\n\
         update_epochs = 2\nshared_trunk = true\n[env]\nepisode_length = 5",
    ),
    (
        "rollouts by clusters, four layers, a number to see",
        "env_id = \"frozen_lake\"\nnum_envs = 40\nnum_steps = 9\nhidden = [256, 256, 256, 256]\n\
         algorithm = \"a2c\"",
    ),
];
