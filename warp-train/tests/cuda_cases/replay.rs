//! Runs that learn from replay memories.

use super::Case;

/// Runs that learn from replay memories.
pub(crate) const REPLAY: [Case; 8] = [
    (
        "sac",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 2\nnum_steps = 8\nlearning_starts = 32\n\
         [env]\nepisode_length = 13",
    ),
    (
        "sac, fp32, prioritised",
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 4\nnum_steps = 8\nlearning_starts = 32\n\
         hidden = [32]\nbuffer_size = 500\nprioritised = true\npriority_beta = [[0, 0.4], [200, 1.0]]\n\
         precision = \"fp32\"",
    ),
    (
        "td3, odd widths, clipped",
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 6\nnum_steps = 8\nhidden = [40, 65, 24]\n\
         activation = \"tanh\"\nmax_grad_norm = 0.5\nbatch_size = 144\nn_step = 3\nlearning_starts = 48\n\
         gradient_steps = 2\ntrain_freq = 2\nbuffer_size = 200",
    ),
    (
        "td3, distributions",
        "env_id = \"pendulum\"\nalgorithm = \"fast_td3\"\nnum_envs = 16\nnum_steps = 4\nhidden = [64, 48]\n\
         batch_size = 192\nlearning_starts = 0\natoms = 51\nvalue_min = -40\nvalue_max = 2",
    ),
    (
        "ddpg, noise that goes on",
        "env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nnum_envs = 34\nnum_steps = 4\nhidden = [64]\n\
         noise = \"ou\"\nlearning_starts = 0",
    ),
    (
        "dqn, fp32, a large batch",
        "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nnum_envs = 40\nnum_steps = 8\nhidden = [32]\n\
         batch_size = 9600\nlearning_starts = 0\nprecision = \"fp32\"",
    ),
    (
        "dueling dqn, several agents, prioritised",
        "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48, 48]\n\
         prioritised = true\ndueling = true\nn_step = 2\nlearning_starts = 0\n\
         [policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "discrete sac, no hidden layer",
        "env_id = \"acrobot\"\nalgorithm = \"sac\"\nnum_envs = 4\nnum_steps = 4\nhidden = []\n\
         learning_starts = 0",
    ),
];
