//! The keys of a policy.

use crate::algorithm::Entry;
use crate::algorithm::Schedule;
use crate::algorithm::choices::{ActionDistribution, Noise, Precision};
use crate::model::{Activation, Init, LogStd};
use crate::optimiser::UpdateRule;
use warp_core::Config;
use warp_core::toml::Table;

warp_core::config! {
    /// Keys of a policy; at the top level, for all policies that do not set them.
    pub struct PolicyConfig {
        /// The environment's groups of agents that this policy acts for; "tagger[0,2-4]" selects some agents of one,
        /// by number.
        pub groups: Vec<String> = Vec::new(),
        /// "ppo", "a2c", "dqn", "ddpg", "td3", "sac" or "fast_td3" (a preset of td3).
        pub algorithm: String = "ppo".into(),
        /// Whether the policy learns; otherwise it acts but does not change.
        pub to_train: bool = true,
        /// Run from which the policy takes its initial weights and the statistics of its normalisation, but not the
        /// state of the optimiser: a run's folder, for its newest checkpoint, with @STEP or @best for another one, or
        /// a checkpoint's folder. The policy must have the same name there, or be the only one. With to_train = false
        /// the policy does not change from there.
        pub init_from: Option<String> = None,
        /// The optimiser: "adam", also in A2C, or "rmsprop" without momentum and with a decay of 0.99, as in
        /// Stable-Baselines3's A2C.
        pub optimiser: UpdateRule = UpdateRule::Adam,
        /// Decoupled weight decay (AdamW): the fraction of each weight and bias that a step removes, times the
        /// learning rate.
        pub weight_decay: f64 = 0.0,
        /// Learning rate: a number, or points [step, value] with linear interpolation between them. A step may be a
        /// percentage of the run: [["0%", 0.001], ["100%", 0.0]]. Two points at the same place are a jump.
        pub learning_rate: Schedule = Schedule::constant(2.5e-4),
        /// Discount factor per step: a number or points, as for learning_rate.
        pub gamma: Schedule = Schedule::constant(0.99),
        /// Lambda of generalised advantage estimation (GAE); 1: the full return. A number or points, as for
        /// learning_rate.
        pub gae_lambda: Schedule = Schedule::constant(0.95),
        /// PPO: minibatches into which the rollout is divided in each epoch.
        pub num_minibatches: usize = 4,
        /// PPO: epochs, that is, passes over the rollout, 1 to 65,535.
        pub update_epochs: usize = 4,
        /// Whether advantages are normalised to mean 0 and standard deviation 1 (PPO: in each minibatch).
        pub norm_adv: bool = true,
        /// PPO: range within which the probability ratio is clipped: a number, or points, as for learning_rate.
        pub clip_coef: Schedule = Schedule::constant(0.2),
        /// PPO: whether the value is clipped to the same range, too.
        pub clip_vloss: bool = true,
        /// PPO: stops the epochs early when the divergence from the policy that collected the rollout (approx_kl),
        /// averaged over an epoch's minibatches, exceeds this; not set: all epochs are run.
        pub target_kl: Option<f64> = None,
        /// Weight of the entropy bonus: a number or points, as for learning_rate.
        pub ent_coef: Schedule = Schedule::constant(0.01),
        /// Weight of the value loss: a number or points, as for learning_rate. The loss is half the squared error in
        /// PPO, as in CleanRL, and the whole squared error in A2C, as in WarpDrive and Stable-Baselines3, so the same
        /// number weighs twice as much in A2C.
        pub vf_coef: Schedule = Schedule::constant(0.5),
        /// Norm to which the whole gradient is clipped; 0: no clipping. A number or (PPO and A2C) points, as for
        /// learning_rate.
        pub max_grad_norm: Schedule = Schedule::constant(0.5),
        /// Epsilon of Adam, and of RMSprop.
        pub adam_eps: f64 = 1e-5,
        /// Widths of the hidden layers.
        pub hidden: Vec<usize> = vec![64, 64],
        /// Activation after each hidden layer: "tanh" or "relu".
        pub activation: Activation = Activation::Tanh,
        /// Whether the output of each hidden layer is normalised to mean 0 and standard deviation 1, with a learned
        /// gain and shift, before the activation (layer norm).
        pub layer_norm: bool = false,
        /// Name of a network that the program has added; not set: the layers that the other keys describe.
        pub network: Option<String> = None,
        /// Whether policy and value share their hidden layers.
        pub shared_trunk: bool = false,
        /// The native learner on a GPU: "fp16" (mixed precision) multiplies in half precision with f32 sums where the
        /// network allows it; "bf16" does the same with bf16, which has the range of f32 and an eighth of the resolution of
        /// fp16; "fp32" computes everything in f32 and is much slower.
        pub precision: Precision = Precision::Half,
        /// Initialisation of weights: "orthogonal" (gain sqrt 2 in hidden layers, 0.01 in the policy's last, 1 in the
        /// value's, biases 0), "xavier" (uniform with gain 1, biases 0) or "kaiming" (torch's default: weights and
        /// biases uniform within 1 / sqrt(inputs)).
        pub init: Init = Init::Orthogonal,
        /// Continuous actions: "gaussian" samples in the action's units and clips to the bounds; "squashed" scales
        /// the tanh of the sample to them.
        pub action_distribution: ActionDistribution = ActionDistribution::Gaussian,
        /// Continuous actions: whether the logarithm of the standard deviation is one number per
        /// element ("state_independent") or another output of the network ("state_dependent", which
        /// collapses more easily: a `log_std_min` of about -2 helps).
        pub log_std: LogStd = LogStd::StateIndependent,
        /// Continuous actions: initial logarithm of the standard deviation.
        pub log_std_init: f64 = 0.0,
        /// Continuous actions: the lowest logarithm of the standard deviation.
        pub log_std_min: f64 = -5.0,
        /// Continuous actions: the highest logarithm of the standard deviation.
        pub log_std_max: f64 = 2.0,
        /// Whether observations are normalised to mean 0 and standard deviation 1, each element separately, and
        /// clipped to 10; by the statistics of earlier rollouts or, in the first one, of the first observations of
        /// the environments.
        pub norm_obs: bool = false,
        /// Whether rewards are divided by the standard deviation of the discounted return and clipped to 10, as in
        /// Stable-Baselines3: the return includes the last reward of an episode and then starts from 0, after
        /// termination and truncation alike. (Gymnasium 1.x drops everything before the last reward, and continues
        /// after a truncation.) Reported returns are not affected.
        pub norm_reward: bool = false,
        /// Whether returns are normalised to mean 0 and standard deviation 1, over replicas and agents at each step
        /// of the rollout (of a shard), before advantages are computed from them, as in WarpDrive: the value function
        /// learns these.
        pub norm_return: bool = false,
        /// Number of replicas without a success to learn from, for each replica with one; they are chosen at random
        /// for every rollout (of a shard). If there was no success, or there are too few others, all replicas are
        /// used, as without this key. An episode is a success if the environment's statistic goal_reached is above 0
        /// at its end or, without such a statistic, if it was terminated before its time limit.
        pub neg_pos_env_ratio: Option<f64> = None,
        /// Small networks on a GPU: whether rewards and the spread of actions in a rollout are reported (mean_reward,
        /// action_std_steps and the like), as all other learners do. The kernels for small networks don't compute
        /// them, so the slower ones for large networks run instead.
        pub rollout_metrics: bool = false,
        /// A2C, for comparison with WarpDrive: the last step of a rollout uses the value of its own
        /// observation as the return and ignores its reward, as the original does.
        pub compat_last_step: bool = false,
        /// Capacity of the replay memory in transitions; rounded down to whole steps of all replicas.
        pub buffer_size: usize = 1_000_000,
        /// Samples per update.
        pub batch_size: usize = 256,
        /// Environment steps, summed over replicas, in which actions are random and nothing is learned; rounded up to
        /// whole iterations.
        pub learning_starts: u64 = 100,
        /// Steps of every replica between updates; num_steps is a multiple of it.
        pub train_freq: usize = 1,
        /// Updates after each `train_freq` steps, each with its own batch, 1 to 1,000,000.
        pub gradient_steps: usize = 1,
        /// Steps of n-step returns; fewer where an episode ends.
        pub n_step: usize = 1,
        /// Polyak coefficient of target networks: the fraction by which they move towards the networks that they
        /// follow. DQN: every target_interval updates, by default completely.
        pub tau: f64 = 0.005,
        /// Whether samples with a larger error are sampled more often (prioritised replay).
        pub prioritised: bool = false,
        /// Prioritised replay: exponent of the error (alpha).
        pub priority_alpha: f64 = 0.6,
        /// Prioritised replay: exponent of the importance weights (beta): a number or points, as for learning_rate.
        pub priority_beta: Schedule = Schedule::constant(0.4),
        /// DQN: fraction of actions that are random: a number or points, as for learning_rate.
        pub epsilon: Schedule = Schedule::constant(0.05),
        /// DQN: interval between updates of the target network, in updates.
        pub target_interval: usize = 1,
        /// Double DQN: whether the online network chooses the action that the target network evaluates.
        pub double: bool = true,
        /// Duelling DQN: whether action values are the sum of a state's value and the actions' advantages.
        pub dueling: bool = false,
        /// Learning rate of the critics, as learning_rate; not set: the same. PPO and A2C: of the value network if
        /// shared_trunk = false.
        pub critic_learning_rate: Option<Schedule> = None,
        /// DDPG, TD3 and SAC with continuous actions: noise added to actions: "none", "gaussian" or "ou".
        pub noise: Noise = Noise::Gaussian,
        /// Standard deviation of the noise for actions scaled to -1 to 1 ("ou": of its increments): a number or
        /// points, as for learning_rate.
        pub noise_std: Schedule = Schedule::constant(0.1),
        /// Fraction by which the noise "ou" decays in each step.
        pub noise_damping: f64 = 0.15,
        /// TD3: updates of the critics for each update of the actor and of the targets.
        pub policy_delay: usize = 2,
        /// TD3: standard deviation of the noise on the target's actions.
        pub target_noise: f64 = 0.2,
        /// TD3: largest magnitude of that noise.
        pub target_noise_clip: f64 = 0.5,
        /// TD3: number of evenly spaced atoms of distributional critics; 1: critics estimate the value itself.
        pub atoms: usize = 1,
        /// TD3 with atoms: the smallest value.
        pub value_min: f64 = -250.0,
        /// TD3 with atoms: the largest value.
        pub value_max: f64 = 250.0,
        /// SAC: the temperature, the weight of the entropy; not set: it is learned.
        pub alpha: Option<f64> = None,
        /// SAC: initial value of a learned temperature.
        pub alpha_start: f64 = 1.0,
        /// SAC: target entropy of a learned temperature; not set: minus the number of elements of an action, or 0.98
        /// of the largest entropy for a discrete one, with masks 0.89 of that of the choices that are allowed.
        pub target_entropy: Option<f64> = None,
    }
}

/// The keys that may change over a run: those that are always set, and those that need not be.
macro_rules! schedules {
    ($($always:ident),+; $($optional:ident),+) => {
        impl PolicyConfig {
            /// Whether `key` may change over a run.
            #[must_use]
            pub fn is_schedule(key: &str) -> bool {
                [$(stringify!($always)),+, $(stringify!($optional)),+].contains(&key)
            }

            /// The keys that may change over a run and are set, by name.
            #[must_use]
            pub fn schedules(&self) -> Vec<(&'static str, &Schedule)> {
                let always = [$((stringify!($always), &self.$always)),+];
                let optional = [$((stringify!($optional), self.$optional.as_ref())),+];
                let set = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
                always.into_iter().chain(set).collect()
            }

            /// The schedule that is called `key`, put there if it is not set.
            fn schedule_mut(&mut self, key: &str) -> Option<&mut Schedule> {
                match key {
                    $(stringify!($always) => Some(&mut self.$always),)+
                    $(stringify!($optional) => {
                        Some(self.$optional.get_or_insert(Schedule::constant(0.0)))
                    })+
                    _ => None,
                }
            }
        }
    };
}

schedules!(
    learning_rate, gamma, gae_lambda, max_grad_norm, clip_coef, ent_coef, vf_coef, priority_beta, epsilon, noise_std;
    critic_learning_rate
);

impl PolicyConfig {
    /// The defaults of an algorithm, for a run of `total_steps`.
    #[must_use]
    pub fn of(algorithm: &Entry, total_steps: u64) -> Self {
        let config = Self { algorithm: algorithm.name.into(), ..Self::default() };
        let defaults = algorithm.defaults.parse::<Table>().unwrap_or_default();
        // Keys and values of ours: a test reads those of every algorithm.
        config.clone().with(&defaults, total_steps).unwrap_or(config)
    }

    /// These keys with those of `table` in their place, for a run of `total_steps`.
    pub(crate) fn with(mut self, table: &Table, total_steps: u64) -> warp_core::Result<Self> {
        for (key, value) in table {
            let Some(schedule) = self.schedule_mut(key) else {
                self.set(key, value)?;
                continue;
            };
            *schedule = Schedule::of_run(value, total_steps).map_err(|expected| {
                warp_core::Error::WrongType { key: key.clone(), value: value.to_string(), expected }
            })?;
        }
        Ok(self)
    }
}
