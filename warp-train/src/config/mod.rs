//! A run's configuration: the trainer's keys at the top level, the environment's under `env.`, a
//! policy's own under `policy.<name>.`.
//!
//! Names are CleanRL's. A key of [`PolicyConfig`] at the top level applies to every policy that does not set it
//! itself. Schedules may be given in percentages of the run, which are first resolved to steps, by `total_steps`;
//! nothing else depends on it, so a run that is extended equals a longer one with the same steps in its schedules.

mod claims;
mod league;
mod periodic;
pub(crate) mod policies;
mod policy_check;
mod run_check;
mod run_config;
mod shards;
mod trained_groups;
pub(crate) mod weights;

use crate::algorithm::Algorithms;
pub use crate::algorithm::PolicyPlan;
pub use crate::algorithm::choices::{ActionDistribution, Noise, Precision};
use crate::algorithm::policy_keys::{PolicyKeys, foreign_key};
pub use crate::algorithm::{PolicyConfig, drop_foreign_keys};
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::LearnerState;
pub use crate::model::{Activation, Init, LogStd};
use crate::network::own_network::OwnNetworks;
use crate::world::World;
pub use league::{LeagueConfig, Opponents};
use periodic::Periodic;
use policies::{complete_policy, plan_policies};
use run_check::check_run;
pub use run_config::RunConfig;
pub use shards::{Shards, Sharing};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
pub use trained_groups::trained_groups;
use warp_core::toml::{Table, Value};
use warp_core::{Config, ConfigField, EnvSpec};
use warp_func::{PoolSource, Registry, ResetPool, VecOptions};

/// Keys that decide what is recorded during a run, and when it stops; what it learns until then does not depend on
/// them.
pub const RECORD_KEYS: [&str; 11] = [
    "checkpoint_steps",
    "keep_checkpoints",
    "keep_best_checkpoints",
    "eval_steps",
    "eval_episodes",
    "eval_max_steps",
    "stop_at_return",
    "log_interval",
    "log_arrays",
    "log_replicas",
    "log_array_steps",
];
/// Keys that decide in which folder a run's own is created.
pub const FOLDER_KEYS: [&str; 2] = ["basedir", "tag"];

/// Which policies a key at the top level does not reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies<'a> {
    /// The names of those that have the key of their own, which comes first.
    pub with_own: Vec<&'a str>,
    /// How many have not.
    pub others: usize,
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
    /// The league that its policies play in, if they do.
    pub league: Option<LeagueConfig>,
    /// The spec of the environment with these keys.
    pub spec: EnvSpec,
    /// The reset pool in `pool_file`, once it has been read; it is set by the code that opens files.
    pub pool: Option<Arc<ResetPool>>,
    /// Weights and statistics of policies with `init_from`, once their runs have been read
    /// ([`crate::begin::read`]).
    pub begun: Option<Arc<LearnerState>>,
    /// The ranks that share the run, as seen by this one ([`TrainConfig::on_rank`]).
    pub world: World,
    /// The algorithms that its policies may name.
    pub(crate) algorithms: Algorithms,
    /// The networks that its policies may name.
    pub(crate) networks: OwnNetworks,
    base: PolicyKeys,
    own: Vec<(String, Table)>,
    /// The policies' keys at the top level, as they were given: with percentages in schedules.
    given: Table,
}

impl TrainConfig {
    /// Checks `table` and completes it with defaults and the environment's spec.
    ///
    /// # Errors
    /// The first key that is unknown, of the wrong type, out of range or in conflict.
    pub fn resolve(table: &Table, registry: &Registry) -> Result<Self> {
        let (algorithms, networks) = (Algorithms::of(registry), OwnNetworks::of(registry));
        let mut run = RunConfig::default();
        let (mut env, mut own, mut given) = (Table::new(), Vec::new(), Table::new());
        let mut league = None;
        for (key, value) in table {
            match (key.as_str(), value) {
                ("env", Value::Table(keys)) => env = keys.clone(),
                ("policy", Value::Table(tables)) => own = policy_tables(tables)?,
                ("league", keys) => league = Some(LeagueConfig::read(keys)?),
                ("env" | "policy", _) => {
                    return Err(Error::Invalid(format!(
                        "{key} = {value}: expected a table of keys"
                    )));
                }
                _ if is_field(RunConfig::fields(), key) => run.set(key, value)?,
                _ if is_field(PolicyConfig::fields(), key) || algorithms.is_own(key) => {
                    given.insert(key.clone(), value.clone());
                }
                _ => {
                    let known = known_keys().chain(algorithms.own_keys());
                    return Err(warp_core::config::unknown_key(key, known).into());
                }
            }
        }
        check_run(&run)?;
        let base = PolicyKeys::new(&algorithms, &given, "", &Table::new(), run.total_steps)?;
        let entry = registry.get(&run.env_id)?;
        run.env_id = entry.name.into();
        let (env, spec) = entry.describe(&env)?;
        let policies = plan_policies(&algorithms, &given, &own, &spec, run.total_steps)?;
        check_keys(&base, &given, &policies)?;
        policies.iter().try_for_each(|plan| networks.of_policy(plan).map(|_| ()))?;
        let complete = |plan| complete_policy(plan, &spec, &run);
        let policies = policies.into_iter().map(complete).collect::<Result<Vec<_>>>()?;
        if let Some(league) = &league {
            league.check(&policies, &spec)?;
        }
        Ok(Self {
            run,
            policies,
            env,
            league,
            spec,
            pool: None,
            begun: None,
            world: World::default(),
            algorithms,
            networks,
            base,
            own,
            given,
        })
    }

    /// This configuration with another league, or with none.
    ///
    /// # Errors
    /// A league that does not fit the policies or the environment.
    pub fn with_league(&self, league: Option<LeagueConfig>) -> Result<Self> {
        if let Some(league) = &league {
            league.check(&self.policies, &self.spec)?;
        }
        Ok(Self { league, ..self.clone() })
    }

    /// The algorithms in use, joined by `+` where policies differ.
    #[must_use]
    pub fn algorithm(&self) -> String {
        let mut names: Vec<_> = self.policies.iter().map(|p| p.algorithm.name).collect();
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
            n_envs: self.n_envs(),
            first_replica: self.world.share(self.run.num_envs).start as u32,
            parts: self.shards().here,
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
        self.checkpoint_interval().is_due(step)
    }

    pub(crate) fn checkpoint_interval(&self) -> Periodic {
        // A hundredth: a GPU takes hundreds of iterations at once, which a checkpoint ends.
        let default = || {
            let iterations = self.steps_per_iteration().saturating_mul(20);
            iterations.max(self.run.total_steps / 100).max(100_000)
        };
        self.interval(self.run.checkpoint_steps.unwrap_or_else(default))
    }

    /// Whether a league keeps its policies as they are after `step` environment steps, a whole number of
    /// iterations.
    #[must_use]
    pub fn is_snapshot_step(&self, step: u64) -> bool {
        self.league.as_ref().is_some_and(|league| self.interval(league.snapshot_steps).is_due(step))
    }

    /// The steps up to `step` after which a league has kept them, the beginning first.
    pub(crate) fn snapshot_steps_until(&self, step: u64) -> Vec<u64> {
        let Some(league) = &self.league else { return Vec::new() };
        let (each, every) = (self.steps_per_iteration().max(1), league.snapshot_steps);
        // After the first iteration that reaches a multiple.
        let ends = (0..=step / every).map(|n| (n * every).div_ceil(each) * each);
        let mut steps: Vec<u64> = ends.filter(|end| *end <= step).collect();
        steps.dedup();
        steps
    }

    /// Whether an evaluation is due after `step` environment steps, a whole number of iterations.
    #[must_use]
    pub fn is_evaluation_step(&self, step: u64) -> bool {
        self.interval(self.run.eval_steps).is_due(step)
    }

    /// Whether chosen arrays are recorded after `step` environment steps, a whole number of iterations.
    #[must_use]
    pub fn is_array_step(&self, step: u64) -> bool {
        let is_due = self.interval(self.run.log_array_steps).is_due(step);
        !self.run.log_arrays.is_empty() && (is_due || step >= self.run.total_steps)
    }

    fn interval(&self, every: u64) -> Periodic {
        Periodic { every, iteration: self.steps_per_iteration() }
    }

    /// SHA-256 of what a run's ranks have in common, in hexadecimal.
    #[must_use]
    pub fn digest(&self, env_fields: &[ConfigField]) -> String {
        digest(self.to_toml(env_fields).as_bytes())
    }

    /// As TOML, complete, with a comment before each key; points of schedules are at steps.
    #[must_use]
    pub fn to_toml(&self, env_fields: &[ConfigField]) -> String {
        let own = |plan: &PolicyPlan, key: &str| plan.get(key);
        self.write(env_fields, |key| self.base.get(key), own)
    }

    /// As TOML like [`TrainConfig::to_toml`], but schedules as they were given: in percentages of a run that may still
    /// become longer.
    #[must_use]
    pub fn to_toml_as_given(&self, env_fields: &[ConfigField]) -> String {
        let is_schedule =
            |key: &str| self.base.config.schedules().iter().any(|(name, _)| *name == key);
        let given = |table: Option<&Table>, key: &str| {
            table.filter(|_| is_schedule(key)).and_then(|table| table.get(key).cloned())
        };
        let base = |key: &str| given(Some(&self.given), key).or_else(|| self.base.get(key));
        let own = |plan: &PolicyPlan, key: &str| {
            given(self.own_keys(&plan.name), key).or_else(|| plan.get(key))
        };
        self.write(env_fields, base, own)
    }

    /// The keys that a policy sets itself, as they were given.
    pub(crate) fn own_keys(&self, policy: &str) -> Option<&Table> {
        self.own.iter().find(|(name, _)| name == policy).map(|(_, keys)| keys)
    }

    /// Which policies `key` at the top level does not reach, and how many it does.
    #[must_use]
    pub fn policies_with_own(&self, key: &str) -> Policies<'_> {
        let names = self.policies.iter().map(|plan| plan.name.as_str());
        let has_own = |name: &&str| self.own_keys(name).is_some_and(|keys| keys.contains_key(key));
        let (with_own, others): (Vec<_>, Vec<_>) = names.partition(has_own);
        Policies { with_own, others: others.len() }
    }

    /// The keys of policies: those of all algorithms, and those that the ones in use declare.
    fn policy_fields(&self) -> Vec<ConfigField> {
        let mut fields = PolicyConfig::fields().to_vec();
        for plan in &self.policies {
            let own = plan.algorithm.own_fields().iter();
            fields.extend(own.filter(|field| !is_field(&fields, field.name)).collect::<Vec<_>>());
        }
        fields
    }

    /// Whether `key` is one that a policy has to itself: given for it, or with another value than that of all,
    /// since it has another algorithm with other defaults.
    fn is_own(&self, plan: &PolicyPlan, key: &str) -> bool {
        let given = self.own_keys(&plan.name).is_some_and(|keys| keys.contains_key(key));
        let differs = plan.algorithm.reads(key) && plan.get(key) != self.base.get(key);
        key == "groups" || given || differs
    }

    fn write(
        &self,
        env_fields: &[ConfigField],
        base: impl Fn(&str) -> Option<Value>,
        own: impl Fn(&PolicyPlan, &str) -> Option<Value>,
    ) -> String {
        let mut text = String::new();
        write_keys(&mut text, RunConfig::fields(), |key| self.run.get(key));
        let read = |name: &str| self.policies.iter().any(|plan| plan.algorithm.reads(name));
        let shared = |f: &&ConfigField| f.name != "groups" && read(f.name);
        let fields: Vec<_> = self.policy_fields().into_iter().filter(|f| shared(&f)).collect();
        write_keys(&mut text, &fields, base);
        let _ = writeln!(text, "[env]");
        write_keys(&mut text, env_fields, |key| self.env.get(key).cloned());
        if let Some(league) = &self.league {
            let _ = writeln!(text, "[league]");
            write_keys(&mut text, LeagueConfig::fields(), |key| league.get(key));
        }
        for plan in &self.policies {
            let _ = writeln!(text, "[policy.{}]", plan.name);
            let fields = self.policy_fields().into_iter().filter(|f| self.is_own(plan, f.name));
            let fields: Vec<_> = fields.collect();
            write_keys(&mut text, &fields, |key| own(plan, key));
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

/// Checks that some policy's algorithm reads each key that is given for all of them.
fn check_keys(base: &PolicyKeys, given: &Table, policies: &[PolicyPlan]) -> Result<()> {
    let is_foreign = |key: &str| !policies.iter().any(|plan| plan.algorithm.reads(key));
    let Some((key, value)) = given.iter().find(|(key, _)| is_foreign(key)) else { return Ok(()) };
    if !base.algorithm.reads(key) {
        return Err(foreign_key(&base.algorithm, key, value, ""));
    }
    let used: BTreeSet<&str> = policies.iter().map(|plan| plan.algorithm.name).collect();
    let used = used.into_iter().collect::<Vec<_>>().join(", ");
    let reason = format!(
        "{key} = {value}: no policy of this run has an algorithm with this key; they have {used}"
    );
    Err(Error::Invalid(reason))
}

fn is_field(fields: &[ConfigField], key: &str) -> bool {
    fields.iter().any(|field| field.name == key)
}

/// The keys at the top level: the run's, a policy's, and the tables of both and of a league.
pub fn known_keys() -> impl Iterator<Item = &'static str> {
    let fields = RunConfig::fields().iter().chain(PolicyConfig::fields());
    fields.map(|field| field.name).chain(["env", "league", "policy"])
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
