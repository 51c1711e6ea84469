//! Networks whose hidden layers are normalised, and some with many heads.

use super::Case;

/// Networks of the wide path: widths that are no multiple of a warp, towers apart and shared, deviations that are
/// parameters, several tiles of a group, two blocks a multiprocessor.
pub(crate) const NORMED: [Case; 5] = [
    (
        "layer norm, odd widths, truncations",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [40, 33, 64]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "layer norm, a shared box, relu",
        "env_id = \"pendulum\"\nnum_envs = 70\nnum_steps = 12\nhidden = [128]\nlayer_norm = true\n\
         num_minibatches = 1\nshared_trunk = true\nactivation = \"relu\"\nupdate_epochs = 1\nnorm_obs = true",
    ),
    (
        "layer norm, two policies, runners that leave",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 24\nhidden = [256, 130]\nlayer_norm = true\n\
         algorithm = \"a2c\"\nnorm_adv = false\n[env]\nnum_taggers = 5\nnum_runners = 20\n\
         tagging_distance = 0.1\nepisode_length = 17",
    ),
    (
        "layer norm, one pass, several tiles",
        "env_id = \"cartpole\"\nnum_envs = 2900\nnum_steps = 13\nhidden = [64, 64, 64]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "layer norm, two blocks a multiprocessor",
        "env_id = \"cartpole\"\nnum_envs = 2900\nnum_steps = 13\nhidden = [64, 64, 64, 64]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 1\n[env]\nepisode_length = 9",
    ),
];

/// The same of layers that run one by one: samples that go through in parts, layers of several widths and of odd ones, rows of
/// two, three and eight parts, and a layer that is too wide for a warp.
pub(crate) const NORMED_LAYERS: [Case; 5] = [
    (
        "layer norm, samples in parts",
        "env_id = \"cartpole\"\nnum_envs = 130000\nnum_steps = 4\nhidden = [2048]\nlayer_norm = true\n\
         algorithm = \"a2c\"\nshared_trunk = true",
    ),
    (
        "layer norm, layers one by one",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [300, 40]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "layer norm, layers one by one, relu, deviations from the network",
        "env_id = \"pendulum\"\nnum_envs = 70\nnum_steps = 12\nhidden = [600, 1100]\nlayer_norm = true\n\
         algorithm = \"a2c\"\nactivation = \"relu\"\nlog_std = \"state_dependent\"\nshared_trunk = true",
    ),
    (
        "layer norm, a layer too wide for a warp",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 12\nhidden = [2100]\nlayer_norm = true\nnum_minibatches = 1",
    ),
    (
        "layer norm, layers of whole parts",
        "env_id = \"cartpole\"\nnum_envs = 100\nnum_steps = 13\nhidden = [768, 512]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 2",
    ),
];

/// Small networks: every width, activation and way of collecting, one block a multiprocessor and two, one tile a block and
/// several, and whole runs in a launch.
pub(crate) const NORMED_SMALL: [Case; 10] = [
    (
        "layer norm, truncations",
        "env_id = \"cartpole\"\nnum_envs = 48\nnum_steps = 20\nlayer_norm = true\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "layer norm, relu, shared trunk",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         layer_norm = true\nactivation = \"relu\"\nshared_trunk = true",
    ),
    (
        "layer norm, layers of 128",
        "env_id = \"acrobot\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128, 128]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 1\nmax_grad_norm = 0",
    ),
    (
        "layer norm, gaussian, few replicas, several tiles",
        "env_id = \"pendulum\"\nnum_envs = 5\nnum_steps = 3600\nlayer_norm = true\nnum_minibatches = 1\n\
         update_epochs = 1\nlog_std_init = -0.5",
    ),
    (
        "layer norm, layers of 128, deviations from the network, normalised, several tiles",
        "env_id = \"pendulum\"\nnum_envs = 300\nnum_steps = 60\nhidden = [128, 128]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 1\nlog_std = \"state_dependent\"\nnorm_obs = true\n\
         critic_learning_rate = 1e-3\nweight_decay = 0.01",
    ),
    (
        "layer norm, 16 replicas a warp",
        "env_id = \"acrobot\"\nnum_envs = 4104\nnum_steps = 3\nlayer_norm = true\nactivation = \"relu\"\n\
         num_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "layer norm, 32 replicas a warp",
        "env_id = \"acrobot\"\nnum_envs = 16400\nnum_steps = 2\nlayer_norm = true\nnum_minibatches = 1\n\
         update_epochs = 1\nhidden = [32, 32]",
    ),
    (
        "layer norm, two blocks on a multiprocessor",
        "env_id = \"cartpole\"\nnum_envs = 16384\nnum_steps = 13\nlayer_norm = true\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
    (
        "layer norm, a block per network",
        "env_id = \"cartpole\"\nnum_envs = 7\nnum_steps = 18\nlayer_norm = true\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nepisode_length = 9",
    ),
    (
        "layer norm, a block per network, relu, deviations from the network, normalised",
        "env_id = \"pendulum\"\nnum_envs = 8\nnum_steps = 16\nhidden = [32, 32]\nlayer_norm = true\n\
         activation = \"relu\"\nnum_minibatches = 1\nupdate_epochs = 1\nlog_std = \"state_dependent\"\n\
         norm_obs = true\ncritic_learning_rate = 1e-3\nweight_decay = 0.01",
    ),
];

/// Many heads, alike unless said otherwise, with masks but for the last two: lanes of a warp share a row of outputs, which stay in
/// shared memory unless the last hidden layer is too wide for that, or heads are not alike.
pub(crate) const MANY_HEADS: [Case; 11] = [
    (
        "many heads",
        "env_id = \"rice_n\"\nnum_envs = 7\nnum_steps = 5\nhidden = [40]\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "many heads, several tiles of a block",
        "env_id = \"rice_n\"\nnum_envs = 330\nnum_steps = 1\nhidden = [64, 64]\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "many heads, one stage of weights",
        "env_id = \"rice_n\"\nnum_envs = 7\nnum_steps = 5\nhidden = [64, 128]\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "many heads, one trunk of two parts",
        "env_id = \"rice_n\"\nnum_envs = 6\nnum_steps = 4\nhidden = [200, 100]\nshared_trunk = true\n\
         algorithm = \"a2c\"\nactivation = \"relu\"",
    ),
    (
        "many heads, outputs in memory",
        "env_id = \"rice_n\"\nnum_envs = 5\nnum_steps = 4\nhidden = [64, 256]\nnum_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "many heads, four choices",
        "env_id = \"rice_n\"\nnum_envs = 7\nnum_steps = 5\nhidden = [64, 64]\nnum_minibatches = 1\nupdate_epochs = 1\n\
         [env]\nnum_discrete_action_levels = 4",
    ),
    (
        "many heads, three choices, normalised",
        "env_id = \"rice_n\"\nnum_envs = 7\nnum_steps = 5\nhidden = [80, 64]\nnum_minibatches = 1\nupdate_epochs = 1\n\
         norm_obs = true\n[env]\nnum_discrete_action_levels = 3",
    ),
    (
        "many heads of two sizes",
        "env_id = \"rice_n\"\nnum_envs = 7\nnum_steps = 5\nhidden = [64, 64]\nnum_minibatches = 1\nupdate_epochs = 1\n\
         [env]\nnegotiation_on = true",
    ),
    (
        "many heads of two sizes, outputs far from a lane",
        "env_id = \"rice_n\"\nnum_envs = 5\nnum_steps = 4\nhidden = [40]\nshared_trunk = true\nalgorithm = \"a2c\"\n\
         [env]\nnegotiation_on = true\nnum_discrete_action_levels = 33",
    ),
    (
        "six heads, no mask",
        "env_id = \"relay\"\nnum_envs = 45\nnum_steps = 16\nhidden = [512, 512]\nnum_minibatches = 1\nupdate_epochs = 1\n\
         [env]\nheads = 6",
    ),
    (
        "twelve heads, no mask, one trunk",
        "env_id = \"relay\"\nnum_envs = 45\nnum_steps = 16\nhidden = [512, 512]\nalgorithm = \"a2c\"\nshared_trunk = true\n\
         [env]\nheads = 12",
    ),
];
