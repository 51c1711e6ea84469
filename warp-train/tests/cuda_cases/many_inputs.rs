//! Whole towers on tensor cores with layers of 64 and many inputs, or three and four of them: each of two groups multiplies half
//! of the inputs.

use super::Case;

/// One and two groups that learn, one and several tiles of each; as many observations as products take, or fewer; one to four
/// layers; towers apart and shared; masks, boxes, and agents that leave.
pub(crate) const MANY_INPUTS: [Case; 8] = [
    (
        "many inputs, 500, masks, several tiles",
        "env_id = \"taxi\"\nnum_envs = 1500\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "many inputs, 500, shared, relu, a narrow layer alone",
        "env_id = \"taxi\"\nnum_envs = 40\nnum_steps = 12\nhidden = [40]\nalgorithm = \"a2c\"\n\
         shared_trunk = true\nactivation = \"relu\"",
    ),
    (
        "many inputs, 512, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 4\nnum_steps = 12\nhidden = [64, 64]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 5\nnum_runners = 69\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "many inputs, 176, several tiles",
        "env_id = \"tag_continuous\"\nnum_envs = 60\nnum_steps = 12\nhidden = [64, 50]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 5\nnum_runners = 21\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "many inputs, 463, three layers, masks, normalised",
        "env_id = \"covid19\"\nnum_envs = 9\nnum_steps = 15\nhidden = [64, 33, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true",
    ),
    (
        "many inputs, 400, an odd number of blocks",
        "env_id = \"tag_continuous\"\nnum_envs = 20\nnum_steps = 12\nhidden = [64, 64]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 5\nnum_runners = 53\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "many inputs: few, four layers, several tiles",
        "env_id = \"cartpole\"\nnum_envs = 3000\nnum_steps = 12\nhidden = [64, 40, 64, 64]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "many inputs: few, four layers, squashed, deviations from the network, shared",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 64, 33, 64]\nalgorithm = \"a2c\"\n\
         action_distribution = \"squashed\"\nlog_std = \"state_dependent\"\nshared_trunk = true",
    ),
];
