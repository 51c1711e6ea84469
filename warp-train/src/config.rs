//! A run's configuration: the trainer's keys at the top level, the environment's under `env.`, a
//! policy's own under `policy.<name>.`.
//!
//! Names are CleanRL's. A key of [`PolicyConfig`] at the top level holds for every policy that does
//! not set it itself. Nothing depends on `total_steps`: schedules carry their own steps, so a run
//! that is continued equals a longer one.

use crate::burn::Activation;
use crate::error::{Error, Result};
use crate::schedule::Schedule;
use std::fmt::Write;
use warp_core::toml::{Table, Value};
use warp_core::{Config, ConfigField, ConfigValue, EnvSpec, Space};
use warp_func::{Registry, Start};

warp_core::choices! {
    /// How a policy learns.
    pub enum Algorithm {
        /// Proximal policy optimisation.
        Ppo = "ppo",
        /// Advantage actor-critic.
        A2c = "a2c",
    }
}

impl Algorithm {
    /// Its name in configurations and run folders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ppo => "ppo",
            Algorithm::A2c => "a2c",
        }
    }
}

impl ConfigValue for Activation {
    fn to_value(&self) -> Option<Value> {
        Some(if *self == Activation::Tanh { "tanh" } else { "relu" }.into())
    }
    fn from_value(value: &Value) -> std::result::Result<Self, String> {
        match value.as_str() {
            Some("tanh") => Ok(Activation::Tanh),
            Some("relu") => Ok(Activation::Relu),
            _ => Err("one of \"tanh\", \"relu\"".into()),
        }
    }
}

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
        /// iterations). Nothing else depends on it.
        pub total_steps: u64 = 1_000_000,
        /// Where episodes start: "fresh" draws anew for every replica and episode, "fixed" starts
        /// all of them alike.
        pub start: Start = Start::Fresh,
        /// Environment steps between checkpoints (rounded up to whole iterations); 0: only at the end.
        pub checkpoint_steps: u64 = 100_000,
        /// Checkpoints that are kept; older ones are deleted.
        pub keep_checkpoints: usize = 1,
    }
}

warp_core::config! {
    /// Keys of a policy; at the top level: for all policies that do not set them.
    pub struct PolicyConfig {
        /// The environment's groups of agents that this policy acts for.
        pub groups: Vec<String> = Vec::new(),
        /// "ppo" or "a2c".
        pub algorithm: Algorithm = Algorithm::Ppo,
        /// Whether the policy learns; one that does not acts and is kept as it is.
        pub to_train: bool = true,
        /// Step size of Adam: a number, or points [step, value] joined by straight lines.
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
        /// Weight of the entropy bonus: a number or points [step, value].
        pub ent_coef: Schedule = Schedule::constant(0.01),
        /// Weight of the value loss: a number or points [step, value].
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
        /// A2C, for comparison with WarpDrive: the last step of a rollout uses the value of its own
        /// observation as the return and ignores its reward, as the original does.
        pub compat_last_step: bool = false,
    }
}

/// A policy and the groups it acts for.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyPlan {
    /// Its name.
    pub name: String,
    /// Its keys, complete.
    pub config: PolicyConfig,
    /// The groups, by number, in the order of the spec.
    pub groups: Vec<usize>,
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
    base: PolicyConfig,
    own: Vec<(String, Table)>,
}

impl TrainConfig {
    /// Checks `table` and completes it with defaults and the environment's spec.
    ///
    /// # Errors
    /// The first key that is unknown, of the wrong type, out of range or in conflict.
    pub fn resolve(table: &Table, registry: &Registry) -> Result<Self> {
        let (mut run, mut base) = (RunConfig::default(), PolicyConfig::default());
        let (mut env, mut own) = (Table::new(), Vec::new());
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
                _ if is_field(PolicyConfig::fields(), key) => base.set(key, value)?,
                _ => return Err(warp_core::config::unknown_key(key, known_keys()).into()),
            }
        }
        check_run(&run)?;
        let (env, spec) = registry.get(&run.env_id)?.describe(&env)?;
        let policies = plan_policies(&base, &own, &spec)?;
        policies.iter().try_for_each(|plan| check_policy(plan, &spec, &run))?;
        Ok(Self { run, policies, env, spec, base, own })
    }

    /// The algorithms in use, joined by `+` where policies differ.
    #[must_use]
    pub fn algorithm(&self) -> String {
        let mut names: Vec<_> = self.policies.iter().map(|p| p.config.algorithm.name()).collect();
        names.dedup();
        names.join("+")
    }

    /// Environment steps in one iteration.
    #[must_use]
    pub fn steps_per_iteration(&self) -> u64 {
        self.run.num_envs as u64 * self.run.num_steps as u64
    }

    /// As TOML, complete, with a comment before each key.
    #[must_use]
    pub fn to_toml(&self, env_fields: &[ConfigField]) -> String {
        let mut text = String::new();
        write_keys(&mut text, RunConfig::fields(), |key| self.run.get(key));
        let shared = |f: &&ConfigField| f.name != "groups";
        let fields: Vec<_> = PolicyConfig::fields().iter().filter(shared).copied().collect();
        write_keys(&mut text, &fields, |key| self.base.get(key));
        let _ = writeln!(text, "[env]");
        write_keys(&mut text, env_fields, |key| self.env.get(key).cloned());
        for plan in &self.policies {
            let _ = writeln!(text, "[policy.{}]", plan.name);
            let own = self.own.iter().find(|(name, _)| *name == plan.name);
            let is_own = |f: &&ConfigField| {
                f.name == "groups" || own.is_some_and(|o| o.1.contains_key(f.name))
            };
            let fields: Vec<_> = PolicyConfig::fields().iter().filter(is_own).copied().collect();
            write_keys(&mut text, &fields, |key| plan.config.get(key));
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

fn is_field(fields: &[ConfigField], key: &str) -> bool {
    fields.iter().any(|field| field.name == key)
}

fn known_keys() -> impl Iterator<Item = &'static str> {
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

/// Maps every group to exactly one policy. Without any policy, each group gets one of its name.
fn plan_policies(
    base: &PolicyConfig,
    own: &[(String, Table)],
    spec: &EnvSpec,
) -> Result<Vec<PolicyPlan>> {
    let by_group: Vec<(String, Table)> =
        spec.groups.iter().map(|group| (group.name.clone(), Table::new())).collect();
    let own = if own.is_empty() { &by_group } else { own };
    let mut taken = vec![None::<&str>; spec.groups.len()];
    let mut plans = Vec::new();
    for (name, keys) in own {
        let mut config = base.clone();
        for (key, value) in keys {
            config.set(key, value).map_err(|e| e.under(&format!("policy.{name}.")))?;
        }
        if config.groups.is_empty() {
            // A policy that names no groups acts for the one of its own name.
            config.groups = vec![name.clone()];
        }
        let mut groups = Vec::new();
        for group in &config.groups {
            let Some(index) = spec.group_index(group) else {
                let known: Vec<_> = spec.groups.iter().map(|g| g.name.as_str()).collect();
                return Err(Error::Invalid(format!(
                    "policy.{name}.groups names \"{group}\", but {} has the groups {}",
                    spec.name,
                    known.join(", ")
                )));
            };
            if let Some(other) = taken[index].replace(name) {
                return Err(Error::Invalid(format!(
                    "group \"{group}\" is claimed by policy \"{other}\" and by policy \"{name}\""
                )));
            }
            groups.push(index);
        }
        groups.sort_unstable();
        plans.push(PolicyPlan { name: name.clone(), config, groups });
    }
    match taken.iter().position(Option::is_none) {
        Some(group) => Err(Error::Invalid(format!(
            "group \"{}\" has no policy; add it to the groups of one",
            spec.groups[group].name
        ))),
        None => Ok(plans),
    }
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
    if run.num_envs > u32::MAX as usize {
        let reason = "replicas are numbered with 32 bits";
        return Err(warp_core::Error::invalid("num_envs", run.num_envs, reason).into());
    }
    Ok(())
}

fn check_policy(plan: &PolicyPlan, spec: &EnvSpec, run: &RunConfig) -> Result<()> {
    let PolicyPlan { name, config, groups } = plan;
    let invalid = |key: &str, value: String, reason: &str| {
        Err(warp_core::Error::invalid(&format!("policy.{name}.{key}"), value, reason).into())
    };
    let unit = |key: &str, value: f64| {
        if (0.0..=1.0).contains(&value) {
            return Ok(());
        }
        invalid(key, value.to_string(), "must lie between 0 and 1")
    };
    unit("gamma", config.gamma)?;
    unit("gae_lambda", config.gae_lambda)?;
    for (key, value) in [
        ("learning_rate", config.learning_rate.lowest()),
        ("clip_coef", config.clip_coef),
        ("max_grad_norm", config.max_grad_norm),
        ("adam_eps", config.adam_eps),
        ("vf_coef", config.vf_coef.lowest()),
    ] {
        if value < 0.0 {
            return invalid(key, value.to_string(), "must not be negative");
        }
    }
    for (key, value) in [
        ("clip_coef", config.clip_coef),
        ("vf_coef", config.vf_coef.largest()),
        ("ent_coef", config.ent_coef.largest()),
    ] {
        if value > f64::from(f32::MAX) {
            return invalid(key, value.to_string(), "does not fit in an f32");
        }
    }
    if config.hidden.contains(&0) {
        return invalid("hidden", format!("{:?}", config.hidden), "each width must be at least 1");
    }
    if config.update_epochs == 0 {
        return invalid("update_epochs", "0".into(), "must be at least 1");
    }
    let agents: usize = groups.iter().map(|g| spec.groups[*g].n_agents).sum();
    // Too many to count are refused for memory, later.
    let rows = run.num_envs.saturating_mul(run.num_steps).saturating_mul(agents);
    if config.num_minibatches == 0 || config.num_minibatches > rows {
        let reason = format!("must lie between 1 and the {rows} samples of a rollout");
        return invalid("num_minibatches", config.num_minibatches.to_string(), &reason);
    }
    check_spaces(plan, spec)
}

/// Groups that share a policy must look and act alike.
fn check_spaces(plan: &PolicyPlan, spec: &EnvSpec) -> Result<()> {
    let first = &spec.groups[plan.groups[0]];
    for group in plan.groups.iter().map(|g| &spec.groups[*g]) {
        if matches!(group.action, Space::Box { .. }) {
            return Err(Error::Invalid(format!(
                "group \"{}\" takes {}, but policies for continuous actions are not built yet",
                group.name, group.action
            )));
        }
        let alike = group.observation_width() == first.observation_width()
            && group.mask_width() == first.mask_width()
            && group.action.head_sizes() == first.action.head_sizes();
        if !alike {
            return Err(Error::Invalid(format!(
                "groups \"{}\" and \"{}\" can't share policy \"{}\": one observes {} and takes {}, \
                 the other observes {} and takes {}",
                first.name,
                group.name,
                plan.name,
                first.observation,
                first.action,
                group.observation,
                group.action
            )));
        }
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
