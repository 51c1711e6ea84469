//! The keys that algorithms read, in groups.

/// Keys that every algorithm reads; no entry lists them.
pub const COMMON: &[&str] = &[
    "groups",
    "algorithm",
    "to_train",
    "init_from",
    "learning_rate",
    "gamma",
    "max_grad_norm",
    "adam_eps",
    "optimiser",
    "weight_decay",
    "hidden",
    "activation",
    "layer_norm",
    "precision",
    "init",
];
/// Keys of every algorithm that learns from rollouts.
pub const ON_POLICY: &[&str] = &[
    "gae_lambda",
    "norm_adv",
    "ent_coef",
    "vf_coef",
    "critic_learning_rate",
    "network",
    "shared_trunk",
    "action_distribution",
    "log_std",
    "log_std_init",
    "log_std_min",
    "log_std_max",
    "norm_obs",
    "norm_reward",
    "norm_return",
    "neg_pos_env_ratio",
    "rollout_metrics",
];
/// PPO's own keys.
pub const PPO: &[&str] =
    &["num_minibatches", "update_epochs", "clip_coef", "clip_vloss", "target_kl"];
/// A2C's own keys.
pub const A2C: &[&str] = &["compat_last_step"];
/// Keys of every algorithm that learns from a replay memory.
pub const OFF_POLICY: &[&str] = &[
    "buffer_size",
    "batch_size",
    "learning_starts",
    "train_freq",
    "gradient_steps",
    "n_step",
    "tau",
    "prioritised",
    "priority_alpha",
    "priority_beta",
];
pub(super) const DQN: &[&str] = &["epsilon", "target_interval", "double", "dueling"];
pub(super) const CRITICS: &[&str] = &["critic_learning_rate"];
pub(super) const NOISE: &[&str] = &["noise", "noise_std", "noise_damping"];
pub(super) const TD3: &[&str] =
    &["policy_delay", "target_noise", "target_noise_clip", "atoms", "value_min", "value_max"];
pub(super) const SAC: &[&str] =
    &["alpha", "alpha_start", "target_entropy", "log_std_min", "log_std_max"];
