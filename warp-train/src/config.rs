//! A run's configuration: the trainer's keys at the top level, the environment's under `env.`, a
//! policy's own under `policy.<name>.`.
//!
//! Names are CleanRL's. A key of [`PolicyConfig`] at the top level holds for every policy that does
//! not set it itself. Schedules may be given over shares of the run, which are resolved to steps
//! first, by `total_steps`; nothing else depends on it, so a run that is continued equals a longer one
//! with the same steps in its schedules.

pub use crate::choices::{ActionDistribution, Algorithm, Noise, Precision};
use crate::algorithm::entry;
use crate::error::{Error, Result};
use crate::learner::LearnerState;
pub use crate::model::{Activation, Init, LogStd};
pub use crate::plan::PolicyPlan;
use crate::plan::{check_policy, plan_policies};
use crate::schedule::Schedule;
use std::fmt::Write;
use std::sync::Arc;
use warp_core::toml::{Table, Value};
use warp_core::{Config, ConfigField, EnvSpec};
use warp_func::{PoolSource, Registry, ResetPool, Start, VecOptions};

warp_core::config! {
    /// Keys that hold for the whole run.
    pub struct RunConfig {
        /// The environment's name.
        pub env_id: String = "cartpole".into(),
        /// Seed of everything random: same seed, same run.
        pub seed: u64 = 0,
        /// Environment replicas that are stepped side by side.
        pub num_envs: usize = 64,
        /// Steps of every replica in one iteration, between two updates.
        pub num_steps: usize = 64,
        /// Environment steps, summed over replicas, after which the run ends (rounded up to whole
        /// iterations). Shares in schedules are shares of it; nothing else depends on it.
        pub total_steps: u64 = 1_000_000,
        /// Where episodes start: "fresh" draws anew for every replica and episode, "fixed" starts
        /// all of them alike, "pool" takes a row of a reset pool, drawn for every replica and episode.
        pub start: Start = Start::Fresh,
        /// Rows of the reset pool for the start "pool", at least 1; they are drawn from the seed.
        pub pool_size: Option<usize> = None,
        /// File of the reset pool instead: .npz with an array [rows, ...] per field of the state.
        pub pool_file: Option<String> = None,
        /// SHA-256 of pool_file, written by the program: a file that has changed since is refused.
        pub pool_digest: Option<String> = None,
        /// Environment steps between checkpoints (rounded up to whole iterations); 0: only at the end. By
        /// default 100,000, or those of 20 iterations where these are more.
        pub checkpoint_steps: Option<u64> = None,
        /// Checkpoints that are kept; older ones are deleted.
        pub keep_checkpoints: usize = 1,
    }
}

warp_core::config! {
    /// Keys of a policy; at the top level: for all policies that do not set them.
    pub struct PolicyConfig {
        /// The environment's groups of agents that this policy acts for.
        pub groups: Vec<String> = Vec::new(),
        /// "ppo", "a2c", "dqn", "ddpg", "td3" or "sac".
        pub algorithm: Algorithm = Algorithm::Ppo,
        /// Whether the policy learns; one that does not acts and is kept as it is.
        pub to_train: bool = true,
        /// Run that the policy's weights start from, and what it normalises by, but not the state of
        /// Adam: a run's folder, for its newest checkpoint, or one of its checkpoints. There the policy
        /// has the same name, or is the only one. With to_train = false the policy stays as it was.
        pub init_from: Option<String> = None,
        /// Step size of Adam, which A2C has, too (Stable-Baselines3's has RMSProp): a number, or points
        /// [step, value] joined by straight lines. A step may be a share of the run:
        /// [["0%", 0.001], ["100%", 0.0]]. Two points at one share are a jump.
        pub learning_rate: Schedule = Schedule::constant(2.5e-4),
        /// Discount per step.
        pub gamma: f64 = 0.99,
        /// Weight of longer returns in the advantage estimate (GAE); 1: the full return.
        pub gae_lambda: f64 = 0.95,
        /// PPO: parts into which the rollout is cut for each pass over it.
        pub num_minibatches: usize = 4,
        /// PPO: passes over the rollout.
        pub update_epochs: usize = 4,
        /// Whether advantages are brought to mean 0 and deviation 1 (PPO: in each minibatch).
        pub norm_adv: bool = true,
        /// PPO: how far the probability of an action may move before its gradient is cut.
        pub clip_coef: f64 = 0.2,
        /// PPO: whether the value may move only as far, too.
        pub clip_vloss: bool = true,
        /// Weight of the entropy bonus: a number or points, as for learning_rate.
        pub ent_coef: Schedule = Schedule::constant(0.01),
        /// Weight of the value loss: a number or points, as for learning_rate. The loss is half the
        /// squared error in PPO, as in CleanRL, and the whole squared error in A2C, as in WarpDrive and
        /// Stable-Baselines3, so that one number weighs twice as much in A2C.
        pub vf_coef: Schedule = Schedule::constant(0.5),
        /// Largest norm of the whole gradient; 0: not clipped.
        pub max_grad_norm: f64 = 0.5,
        /// Epsilon of Adam.
        pub adam_eps: f64 = 1e-5,
        /// Widths of the hidden layers.
        pub hidden: Vec<usize> = vec![64, 64],
        /// Function after each hidden layer: "tanh" or "relu".
        pub activation: Activation = Activation::Tanh,
        /// Whether policy and value share their hidden layers.
        pub shared_trunk: bool = false,
        /// The native learner on a GPU: "fp16" multiplies in half precision with f32 sums where the
        /// network suits that, "fp32" computes everything in f32 and is much slower.
        pub precision: Precision = Precision::Half,
        /// How weights start: "orthogonal" (gain sqrt 2 in hidden layers, 0.01 in the policy's last,
        /// 1 in the value's, biases 0), "xavier" (uniform with gain 1, biases 0) or "kaiming" (torch's
        /// default: weights and biases uniform within 1 / sqrt(inputs)).
        pub init: Init = Init::Orthogonal,
        /// Continuous actions: "gaussian" draws in the action's units and clips to the bounds;
        /// "squashed" puts tanh of the sample between them.
        pub action_distribution: ActionDistribution = ActionDistribution::Gaussian,
        /// Continuous actions: whether the logarithm of the standard deviation is one number per
        /// element ("state_independent") or another output of the network ("state_dependent", which
        /// collapses more easily: a `log_std_min` of about -2 helps).
        pub log_std: LogStd = LogStd::StateIndependent,
        /// Continuous actions: where the logarithm of the standard deviation starts.
        pub log_std_init: f64 = 0.0,
        /// Continuous actions: the lowest logarithm of the standard deviation.
        pub log_std_min: f64 = -5.0,
        /// Continuous actions: the highest logarithm of the standard deviation.
        pub log_std_max: f64 = 2.0,
        /// Whether observations are brought to mean 0 and deviation 1, each number by itself, and cut
        /// off at 10; by what rollouts before this one held, in the first one by the observations
        /// that the environments begin with.
        pub norm_obs: bool = false,
        /// Whether rewards are divided by the standard deviation of the discounted return and cut off
        /// at 10, as Stable-Baselines3 does it: the return takes in the last reward of an episode and
        /// then starts from 0, terminated or truncated. (Gymnasium 1.x drops what came before the last
        /// reward, and goes on where an episode is truncated.) Figures of episodes stay as they are.
        pub norm_reward: bool = false,
        /// A2C, for comparison with WarpDrive: the last step of a rollout uses the value of its own
        /// observation as the return and ignores its reward, as the original does.
        pub compat_last_step: bool = false,
        /// Transitions that the replay memory holds; rounded down to whole steps of all replicas.
        pub buffer_size: usize = 1_000_000,
        /// Samples per update.
        pub batch_size: usize = 256,
        /// Environment steps, summed over replicas, in which actions are drawn at random and nothing is
        /// learned; rounded up to whole iterations.
        pub learning_starts: u64 = 100,
        /// Steps of every replica between updates; num_steps is a multiple of it.
        pub train_freq: usize = 1,
        /// Updates after each `train_freq` steps, each from a batch of its own.
        pub gradient_steps: usize = 1,
        /// Steps whose rewards are summed before the value of what follows; fewer where an episode ends.
        pub n_step: usize = 1,
        /// Share by which target networks move towards those that they follow. DQN: every
        /// target_interval updates, by default wholly.
        pub tau: f64 = 0.005,
        /// Whether samples of larger error are drawn more often.
        pub prioritised: bool = false,
        /// Prioritised: power of the error.
        pub priority_alpha: f64 = 0.6,
        /// Prioritised: power of the weights that make up for it: a number or points, as for
        /// learning_rate.
        pub priority_beta: Schedule = Schedule::constant(0.4),
        /// DQN: share of actions that are drawn at random: a number or points, as for learning_rate.
        pub epsilon: Schedule = Schedule::constant(0.05),
        /// DQN: updates between those in which the target network moves.
        pub target_interval: usize = 1,
        /// DQN: whether the network itself chooses the action that its target values.
        pub double: bool = true,
        /// DQN: whether values are made of a state's value and the actions' advantages.
        pub dueling: bool = false,
        /// DDPG, TD3: noise that is added to actions: "none", "gaussian" or "ou".
        pub noise: Noise = Noise::Gaussian,
        /// DDPG, TD3: standard deviation of the noise, where actions lie within -1 to 1 (of "ou": what
        /// each step adds): a number or points, as for learning_rate.
        pub noise_std: Schedule = Schedule::constant(0.1),
        /// DDPG, TD3: share of itself that the noise "ou" loses in each step.
        pub noise_damping: f64 = 0.15,
        /// TD3: updates of the critics for one of the actor and of the targets.
        pub policy_delay: usize = 2,
        /// TD3: standard deviation of the noise on the target's actions.
        pub target_noise: f64 = 0.2,
        /// TD3: largest magnitude of that noise.
        pub target_noise_clip: f64 = 0.5,
        /// SAC: the temperature, the weight of the entropy; not set: it is learned.
        pub alpha: Option<f64> = None,
        /// SAC: what a learned temperature starts with.
        pub alpha_start: f64 = 1.0,
        /// SAC: the entropy that a learned temperature aims at; not set: less the number of elements of
        /// an action, or 0.98 of the largest for a discrete one.
        pub target_entropy: Option<f64> = None,
    }
}

impl PolicyConfig {
    /// The keys that may change over a run, by name.
    #[must_use]
    pub fn schedules(&self) -> [(&'static str, &Schedule); 6] {
        [
            ("learning_rate", &self.learning_rate),
            ("ent_coef", &self.ent_coef),
            ("vf_coef", &self.vf_coef),
            ("priority_beta", &self.priority_beta),
            ("epsilon", &self.epsilon),
            ("noise_std", &self.noise_std),
        ]
    }

    /// The defaults of an algorithm, for a run of `total_steps`.
    #[must_use]
    pub fn of(algorithm: Algorithm, total_steps: u64) -> Self {
        let config = Self { algorithm, ..Self::default() };
        let defaults = entry(algorithm).defaults.parse::<Table>().unwrap_or_default();
        // Keys and values of ours: a test reads those of every algorithm.
        config.clone().with(&defaults, total_steps).unwrap_or(config)
    }

    /// The same with the keys of `table`, for a run of `total_steps`.
    pub(crate) fn with(mut self, table: &Table, total_steps: u64) -> warp_core::Result<Self> {
        for (key, value) in table {
            let schedule = match key.as_str() {
                "learning_rate" => &mut self.learning_rate,
                "ent_coef" => &mut self.ent_coef,
                "vf_coef" => &mut self.vf_coef,
                "priority_beta" => &mut self.priority_beta,
                "epsilon" => &mut self.epsilon,
                "noise_std" => &mut self.noise_std,
                _ => {
                    self.set(key, value)?;
                    continue;
                }
            };
            *schedule = Schedule::of_run(value, total_steps).map_err(|expected| {
                warp_core::Error::WrongType { key: key.clone(), value: value.to_string(), expected }
            })?;
        }
        Ok(self)
    }
}

/// A complete and checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainConfig {
    /// The run's keys.
    pub run: RunConfig,
    /// The policies, each complete.
    pub policies: Vec<PolicyPlan>,
    /// The environment's keys, complete.
    pub env: Table,
    /// The environment that they lead to.
    pub spec: EnvSpec,
    /// The reset pool in `pool_file`, once it has been read; whoever opens files puts it here.
    pub pool: Option<Arc<ResetPool>>,
    /// Weights and statistics of policies with `init_from`, once their runs have been read
    /// ([`crate::begin::read`]).
    pub begun: Option<Arc<LearnerState>>,
    base: PolicyConfig,
    own: Vec<(String, Table)>,
    /// The policies' keys at the top level, as they were given: with shares in schedules.
    given: Table,
}

impl TrainConfig {
    /// Checks `table` and completes it with defaults and the environment's spec.
    ///
    /// # Errors
    /// The first key that is unknown, of the wrong type, out of range or in conflict.
    pub fn resolve(table: &Table, registry: &Registry) -> Result<Self> {
        let mut run = RunConfig::default();
        let (mut env, mut own, mut given) = (Table::new(), Vec::new(), Table::new());
        for (key, value) in table {
            match (key.as_str(), value) {
                ("env", Value::Table(keys)) => env = keys.clone(),
                ("policy", Value::Table(tables)) => own = policy_tables(tables)?,
                ("env" | "policy", _) => {
                    return Err(Error::Invalid(format!(
                        "{key} = {value}: expected a table of keys"
                    )));
                }
                _ if is_field(RunConfig::fields(), key) => run.set(key, value)?,
                _ if is_field(PolicyConfig::fields(), key) => {
                    given.insert(key.clone(), value.clone());
                }
                _ => return Err(warp_core::config::unknown_key(key, known_keys()).into()),
            }
        }
        check_run(&run)?;
        let base = policy_base(&given, &Table::new(), run.total_steps)?;
        let entry = registry.get(&run.env_id)?;
        run.env_id = entry.name.into();
        let (env, spec) = entry.describe(&env)?;
        let policies = plan_policies(&given, &own, &spec, run.total_steps)?;
        check_keys(&base, &given, &policies)?;
        policies.iter().try_for_each(|plan| check_policy(plan, &spec, &run))?;
        Ok(Self { run, policies, env, spec, pool: None, begun: None, base, own, given })
    }

    /// The algorithms in use, joined by `+` where policies differ.
    #[must_use]
    pub fn algorithm(&self) -> String {
        let mut names: Vec<_> = self.policies.iter().map(|p| p.config.algorithm.name()).collect();
        names.dedup();
        names.join("+")
    }

    /// How the run's replicas are stepped and where their episodes start; on one thread.
    #[must_use]
    pub fn vec_options(&self) -> VecOptions {
        let pool = match (&self.pool, self.run.pool_size) {
            (Some(pool), _) => PoolSource::Given(Arc::clone(pool)),
            (None, Some(rows)) => PoolSource::Generated { rows },
            // Refused, since it has no rows: the file has not been read.
            (None, None) => PoolSource::Given(Arc::default()),
        };
        VecOptions {
            n_envs: self.run.num_envs,
            seed: self.run.seed,
            start: self.run.start,
            start_seed: Some(self.run.seed),
            pool,
            ..VecOptions::default()
        }
    }

    /// Environment steps in one iteration.
    #[must_use]
    pub fn steps_per_iteration(&self) -> u64 {
        self.run.num_envs as u64 * self.run.num_steps as u64
    }

    /// Environment steps at the end of a run that has done `done` of them: iterations are whole.
    #[must_use]
    pub fn end_after(&self, done: u64) -> u64 {
        let each = self.steps_per_iteration().max(1);
        let iterations = self.run.total_steps.saturating_sub(done).div_ceil(each);
        done.saturating_add(iterations.saturating_mul(each))
    }

    /// Whether a checkpoint is due after `step` environment steps, a whole number of iterations.
    #[must_use]
    pub fn is_checkpoint_step(&self, step: u64) -> bool {
        let before = self.steps_per_iteration();
        let every =
            self.run.checkpoint_steps.unwrap_or_else(|| before.saturating_mul(20).max(100_000));
        every > 0 && step > 0 && step.saturating_sub(before) / every != step / every
    }

    /// As TOML, complete, with a comment before each key; points of schedules lie at steps.
    #[must_use]
    pub fn to_toml(&self, env_fields: &[ConfigField]) -> String {
        let own = |plan: &PolicyPlan, key: &str| plan.config.get(key);
        self.write(env_fields, |key| self.base.get(key), own)
    }

    /// The same with schedules as they were given: over shares of a run that may still become longer.
    #[must_use]
    pub fn to_toml_as_given(&self, env_fields: &[ConfigField]) -> String {
        let is_schedule = |key: &str| self.base.schedules().iter().any(|(name, _)| *name == key);
        let given = |table: Option<&Table>, key: &str| {
            table.filter(|_| is_schedule(key)).and_then(|table| table.get(key).cloned())
        };
        let base = |key: &str| given(Some(&self.given), key).or_else(|| self.base.get(key));
        let own = |plan: &PolicyPlan, key: &str| {
            given(self.own_keys(&plan.name), key).or_else(|| plan.config.get(key))
        };
        self.write(env_fields, base, own)
    }

    /// The keys that a policy sets itself, as they were given.
    pub(crate) fn own_keys(&self, policy: &str) -> Option<&Table> {
        self.own.iter().find(|(name, _)| name == policy).map(|(_, keys)| keys)
    }

    fn write(
        &self,
        env_fields: &[ConfigField],
        base: impl Fn(&str) -> Option<Value>,
        own: impl Fn(&PolicyPlan, &str) -> Option<Value>,
    ) -> String {
        let mut text = String::new();
        write_keys(&mut text, RunConfig::fields(), |key| self.run.get(key));
        let read = |name: &str| {
            let mut algorithms = self.policies.iter().map(|plan| plan.config.algorithm);
            algorithms.any(|algorithm| entry(algorithm).reads(name))
        };
        let shared = |f: &&ConfigField| f.name != "groups" && read(f.name);
        let fields: Vec<_> = PolicyConfig::fields().iter().filter(shared).copied().collect();
        write_keys(&mut text, &fields, base);
        let _ = writeln!(text, "[env]");
        write_keys(&mut text, env_fields, |key| self.env.get(key).cloned());
        for plan in &self.policies {
            let _ = writeln!(text, "[policy.{}]", plan.name);
            let keys = self.own_keys(&plan.name);
            let is_own = |f: &&ConfigField| {
                f.name == "groups" || keys.is_some_and(|keys| keys.contains_key(f.name))
            };
            let fields: Vec<_> = PolicyConfig::fields().iter().filter(is_own).copied().collect();
            write_keys(&mut text, &fields, |key| own(plan, key));
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

/// What a policy's keys are: its algorithm's defaults, those `given` for all policies that this algorithm
/// reads, and its `own`.
pub(crate) fn policy_base(given: &Table, own: &Table, total_steps: u64) -> Result<PolicyConfig> {
    let mut config = PolicyConfig::default();
    if let Some(name) = own.get("algorithm").or_else(|| given.get("algorithm")) {
        config.set("algorithm", name)?;
    }
    let algorithm = config.algorithm;
    let mut read = given.clone();
    read.retain(|key, _| entry(algorithm).reads(key));
    Ok(PolicyConfig::of(algorithm, total_steps).with(&read, total_steps)?)
}

/// Checks that some policy's algorithm reads each key that is given for all of them. A default is let
/// pass: earlier versions wrote every key into a run's configuration.
fn check_keys(base: &PolicyConfig, given: &Table, policies: &[PolicyPlan]) -> Result<()> {
    for (key, value) in given {
        let mut algorithms = policies.iter().map(|plan| plan.config.algorithm);
        if !algorithms.any(|algorithm| entry(algorithm).reads(key)) {
            check_foreign(base.algorithm, key, value, "")?;
        }
    }
    Ok(())
}

/// Refuses a key that `algorithm` does not read, unless it has its default's value.
pub(crate) fn check_foreign(
    algorithm: Algorithm,
    key: &str,
    value: &Value,
    prefix: &str,
) -> Result<()> {
    let mut as_default = PolicyConfig::default();
    if as_default.set(key, value).is_ok() && as_default == PolicyConfig::default() {
        return Ok(());
    }
    let entry = entry(algorithm);
    let own = PolicyConfig::fields().iter().map(|field| field.name).filter(|key| entry.reads(key));
    let nearest = warp_core::config::nearest(key, own);
    let hint = nearest.map_or_else(String::new, |key| format!("; did you mean {key}?"));
    let name = algorithm.name();
    Err(Error::Invalid(format!("{prefix}{key} = {value}: {name} has no such key{hint}")))
}

fn is_field(fields: &[ConfigField], key: &str) -> bool {
    fields.iter().any(|field| field.name == key)
}

/// The keys at the top level: the run's, a policy's, and the tables of both.
pub fn known_keys() -> impl Iterator<Item = &'static str> {
    let fields = RunConfig::fields().iter().chain(PolicyConfig::fields());
    fields.map(|field| field.name).chain(["env", "policy"])
}

fn policy_tables(tables: &Table) -> Result<Vec<(String, Table)>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let table = |(name, value): (&String, &Value)| match value {
        // Names stand in TOML headings, in keys and in the names of tensors.
        _ if name.is_empty() || !name.chars().all(plain) => Err(Error::Invalid(format!(
            "policy.{name:?}: a policy's name has letters, digits, _ and - only"
        ))),
        Value::Table(keys) => Ok((name.clone(), keys.clone())),
        _ => Err(Error::Invalid(format!("policy.{name} = {value}: expected a table of keys"))),
    };
    tables.iter().map(table).collect()
}

fn check_run(run: &RunConfig) -> Result<()> {
    let positive = |key: &str, value: usize| {
        if value > 0 {
            Ok(())
        } else {
            Err(warp_core::Error::invalid(key, 0, "must be at least 1"))
        }
    };
    positive("num_envs", run.num_envs)?;
    positive("num_steps", run.num_steps)?;
    positive("keep_checkpoints", run.keep_checkpoints)?;
    positive("pool_size", run.pool_size.unwrap_or(1))?;
    if run.start == Start::Pool && run.pool_size.is_some() == run.pool_file.is_some() {
        return Err(Error::Invalid(match &run.pool_file {
            Some(file) => format!("pool_file = \"{file}\" has its own rows; leave out pool_size"),
            None => "start = \"pool\" needs pool_size or pool_file".into(),
        }));
    }
    if run.num_envs > u32::MAX as usize {
        let reason = "replicas are numbered with 32 bits";
        return Err(warp_core::Error::invalid("num_envs", run.num_envs, reason).into());
    }
    // Totals of steps are counted with 64 bits, and no run ends before a whole iteration.
    let steps = run.num_envs as u128 * run.num_steps as u128;
    if steps > i64::MAX as u128 {
        let reason = format!(
            "an iteration of {} replicas with {} steps each is more than can be counted",
            run.num_envs, run.num_steps
        );
        return Err(warp_core::Error::invalid("num_steps", run.num_steps, reason).into());
    }
    Ok(())
}

fn write_keys(text: &mut String, fields: &[ConfigField], get: impl Fn(&str) -> Option<Value>) {
    for field in fields {
        for line in field.doc.lines() {
            let _ = writeln!(text, "# {}", line.trim());
        }
        let _ = match get(field.name) {
            Some(value) => writeln!(text, "{} = {value}", field.name),
            None => writeln!(text, "# {} is not set", field.name),
        };
    }
    let _ = writeln!(text);
}
