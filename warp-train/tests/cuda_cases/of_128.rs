//! Whole towers on tensor cores with hidden layers of 128, which learn in one pass of which two groups multiply.

use super::Case;

/// One and several tiles of a group, with as many observations as products take or fewer; towers apart and shared, every kind of action, widths that are padded, a layer alone. With metrics of rollouts, small networks come here, too.
pub(crate) const OF_128: [Case; 8] = [
    (
        "layers of 128, 71 inputs, two policies, runners that leave, several tiles",
        "env_id = \"tag_continuous\"\nnum_envs = 60\nnum_steps = 24\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nnum_taggers = 5\nnum_runners = 20\nuse_full_observation = false\n\
         num_other_agents_observed = 10\ntagging_distance = 0.05\nepisode_length = 17",
    ),
    (
        "layers of 128, 64 inputs, several tiles",
        "env_id = \"tag_continuous\"\nnum_envs = 200\nnum_steps = 12\nhidden = [128, 128]\nalgorithm = \"a2c\"\n\
         [env]\nnum_taggers = 2\nnum_runners = 8\ntagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "layers of 128, 48 inputs, relu",
        "env_id = \"cliff_walking\"\nnum_envs = 50\nnum_steps = 12\nhidden = [128, 128]\nactivation = \"relu\"\n\
         num_minibatches = 1\nupdate_epochs = 2",
    ),
    (
        "layers of 128, shared, relu, odd widths, several tiles",
        "env_id = \"tag_gridworld\"\nnum_envs = 900\nnum_steps = 11\nhidden = [100, 127]\n\
         algorithm = \"a2c\"\nactivation = \"relu\"\nshared_trunk = true\nrollout_metrics = true",
    ),
    (
        "layers of 128, a box, normalised, several tiles",
        "env_id = \"pendulum\"\nnum_envs = 3000\nnum_steps = 12\nhidden = [100, 100]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true\nrollout_metrics = true\n[env]\nepisode_length = 7",
    ),
    (
        "layers of 128, squashed, deviations from the network, shared",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [100, 128]\nalgorithm = \"a2c\"\n\
         action_distribution = \"squashed\"\nlog_std = \"state_dependent\"\nshared_trunk = true\n\
         rollout_metrics = true",
    ),
    (
        "layers of 128, masks",
        "env_id = \"covid19\"\nnum_envs = 9\nnum_steps = 15\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true",
    ),
    (
        "a layer of 128",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128]\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
];
