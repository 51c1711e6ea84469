//! Which policy acts for which groups, and whether its keys fit them.

use crate::algorithm::{Advantages, Algorithms, Entry, Learns, OnPolicyAlgorithm, Passes};
use crate::config::{ActionDistribution, PolicyConfig, RunConfig};
use crate::error::{Error, Result, of_policy};
use crate::loss::{Objective, Part};
use crate::model::NetworkConfig;
use crate::optimiser::AdamConfig;
use crate::policy_config::PolicyKeys;
use crate::schedule::Schedule;
use warp_core::toml::{Table, Value};
use warp_core::{Config, EnvSpec, GroupSpec, Space};
use warp_sample::{ActionLayout, Bounding, CategoricalLayout, GaussianLayout};

/// Hidden layers at most: far more than learn anything without shortcuts between them.
const MOST_LAYERS: usize = 64;

/// A policy and the groups it acts for.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyPlan {
    /// Its name.
    pub name: String,
    /// How it learns.
    pub algorithm: Entry,
    /// Its keys, complete.
    pub config: PolicyConfig,
    /// The keys that its algorithm alone declares, complete.
    pub own: Table,
    /// The groups, by number, in the order of the spec.
    pub groups: Vec<usize>,
    /// What its outputs mean and what its actions are.
    pub layout: ActionLayout,
    /// What its algorithm makes of rollouts, if it learns from them.
    pub(crate) rollouts: Option<Rollouts>,
}

impl PolicyPlan {
    /// The policy's agents in one replica.
    #[must_use]
    pub fn n_agents(&self, spec: &EnvSpec) -> usize {
        self.groups.iter().map(|group| spec.groups[*group].n_agents).sum()
    }

    /// The network that the keys declare, for an environment of this `spec`.
    #[must_use]
    pub fn network(&self, spec: &EnvSpec) -> NetworkConfig {
        NetworkConfig {
            observation_width: spec.groups[self.groups[0]].observation_width(),
            layout: self.layout.clone(),
            hidden: self.config.hidden.clone(),
            activation: self.config.activation,
            shared_trunk: self.config.shared_trunk,
            init: self.config.init,
            log_std: self.config.log_std,
            log_std_init: self.config.log_std_init as f32,
        }
    }

    /// The keys that its algorithm declares with [`crate::algorithm::OwnKeys::of`].
    ///
    /// # Errors
    /// Keys of another algorithm.
    pub fn own_keys<K: Config>(&self) -> Result<K> {
        Ok(K::from_table(&self.own)?)
    }

    /// The algorithm that it learns by from rollouts.
    ///
    /// # Errors
    /// One that learns from a replay memory, or keys that it does not take.
    pub fn on_policy(&self, spec: &EnvSpec) -> Result<Box<dyn OnPolicyAlgorithm>> {
        match self.algorithm.learns {
            Learns::FromRollouts(make) => make(self, spec),
            Learns::FromReplay(_) => Err(Error::Invalid(format!(
                "policy \"{}\": {} learns from a replay memory, not from rollouts",
                self.name, self.algorithm.name
            ))),
        }
    }

    /// How often kernels go through each rollout, and in how many parts.
    #[cfg(feature = "cuda")]
    pub(crate) fn passes(&self) -> Passes {
        let passes = self.rollouts.as_ref().and_then(|rollouts| rollouts.passes);
        passes.unwrap_or(Passes::ONE)
    }

    /// Checks that kernels which iterate by themselves know the algorithm's schedule.
    ///
    /// # Errors
    /// Another schedule.
    #[cfg(feature = "cuda")]
    pub(crate) fn check_passes(&self) -> Result<()> {
        let Some(Rollouts { objective, passes, .. }) = &self.rollouts else { return Ok(()) };
        let parts = [&objective.policy, &objective.value];
        parts.iter().try_for_each(|part| part.function.check_text())?;
        if passes.is_some() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "policy \"{}\": kernels on a GPU estimate advantages once and then go through all samples \
             a number of times, each time in as many minibatches, but {} has another schedule, or one \
             of more than a million requests; it \
             learns on the CPU",
            self.name, self.algorithm.name
        )))
    }

    /// Whether the policy learns from a replay memory.
    pub(crate) fn is_off_policy(&self) -> bool {
        self.algorithm.is_off_policy()
    }

    /// The value of `key`, if it is set.
    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.config.get(key).or_else(|| self.own.get(key).cloned())
    }

    /// Adam as the keys describe it.
    #[must_use]
    pub fn adam(&self) -> AdamConfig {
        AdamConfig { epsilon: self.config.adam_eps, ..AdamConfig::default() }
    }
}

/// What an algorithm makes of rollouts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rollouts {
    pub(crate) objective: Objective,
    pub(crate) advantages: Advantages,
    /// Its schedule, if it is of the kind that kernels know.
    pub(crate) passes: Option<Passes>,
}

impl Rollouts {
    fn of(plan: &PolicyPlan, spec: &EnvSpec) -> Result<Option<Self>> {
        if plan.is_off_policy() {
            return Ok(None);
        }
        let algorithm = plan.on_policy(spec)?;
        let (objective, advantages) = (algorithm.objective(), algorithm.advantages());
        objective.check().map_err(of_policy(&plan.name))?;
        Ok(Some(Self { objective, advantages, passes: Passes::of(&*algorithm)? }))
    }
}

impl Rollouts {
    /// The same without the values of cells, in which the runs of one launch may differ.
    pub(crate) fn without_numbers(&self) -> Self {
        let Objective { policy, value } = &self.objective;
        let [policy, value] =
            [policy, value].map(|part| Part { function: part.function, cells: Vec::new() });
        Self { objective: Objective { policy, value }, ..self.clone() }
    }
}

/// What a policy's outputs and actions are.
fn layout(name: &str, config: &PolicyConfig, group: &GroupSpec) -> Result<ActionLayout> {
    let Space::Box { low, high, .. } = &group.action else {
        return Ok(ActionLayout::Discrete(CategoricalLayout::new(&group.action.head_sizes())?));
    };
    let bounding = match config.action_distribution {
        ActionDistribution::Gaussian => Bounding::Clip,
        ActionDistribution::Squashed => Bounding::Squash,
    };
    let range = (config.log_std_min as f32, config.log_std_max as f32);
    let layout = GaussianLayout::new(low, high, bounding)
        .and_then(|layout| layout.with_log_std_range(range.0, range.1));
    layout.map(ActionLayout::Continuous).map_err(|e| {
        Error::Invalid(format!("policy \"{}\" for group \"{}\": {e}", name, group.name))
    })
}

/// Maps every group to exactly one policy. Without any policy, each group gets one of its name.
pub(crate) fn plan_policies(
    algorithms: &Algorithms,
    given: &Table,
    own: &[(String, Table)],
    spec: &EnvSpec,
    total_steps: u64,
) -> Result<Vec<PolicyPlan>> {
    let mut by_group: Vec<(String, Table)> =
        spec.groups.iter().map(|group| (group.name.clone(), Table::new())).collect();
    // In the order that tables are read in, so that a run and its config.toml agree on it: agents'
    // draws are numbered policy after policy.
    by_group.sort_by(|a, b| a.0.cmp(&b.0));
    let own = if own.is_empty() { &by_group } else { own };
    let mut taken = vec![None::<&str>; spec.groups.len()];
    let mut plans = Vec::new();
    for (name, keys) in own {
        let prefix = format!("policy.{name}.");
        let keys = PolicyKeys::new(algorithms, given, (&prefix, keys), total_steps)?;
        let PolicyKeys { algorithm, mut config, own } = keys;
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
        check_log_std(name, &config)?;
        let layout = layout(name, &config, &spec.groups[groups[0]])?;
        let name = name.clone();
        let plan = PolicyPlan { name, algorithm, config, own, groups, layout, rollouts: None };
        plans.push(plan);
    }
    match taken.iter().position(Option::is_none) {
        Some(group) => Err(Error::Invalid(format!(
            "group \"{}\" has no policy; add it to the groups of one",
            spec.groups[group].name
        ))),
        None => Ok(plans),
    }
}

/// Checks a policy's keys against each other and the environment, and has its algorithm say what it makes
/// of rollouts.
pub(crate) fn complete_policy(
    mut plan: PolicyPlan,
    spec: &EnvSpec,
    run: &RunConfig,
) -> Result<PolicyPlan> {
    check_policy(&plan, spec, run)?;
    plan.rollouts = Rollouts::of(&plan, spec)?;
    Ok(plan)
}

fn check_policy(plan: &PolicyPlan, spec: &EnvSpec, run: &RunConfig) -> Result<()> {
    let PolicyPlan { name, config, .. } = plan;
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
    let critic_rate = config.critic_learning_rate.as_ref();
    for (key, value) in [
        ("learning_rate", config.learning_rate.lowest()),
        ("critic_learning_rate", critic_rate.map_or(0.0, Schedule::lowest)),
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
        ("learning_rate", config.learning_rate.largest()),
        ("critic_learning_rate", critic_rate.map_or(0.0, Schedule::largest)),
        ("clip_coef", config.clip_coef),
        ("max_grad_norm", config.max_grad_norm),
        ("adam_eps", config.adam_eps),
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
    if config.hidden.len() > MOST_LAYERS {
        let reason = format!("at most {MOST_LAYERS} layers are possible");
        return invalid("hidden", format!("{} layers", config.hidden.len()), &reason);
    }
    if config.update_epochs == 0 {
        return invalid("update_epochs", "0".into(), "must be at least 1");
    }
    let agents = plan.n_agents(spec);
    // Too many to count are refused for memory, later.
    let rows = run.num_envs.saturating_mul(run.num_steps).saturating_mul(agents);
    let cut = plan.algorithm.reads("num_minibatches");
    if cut && (config.num_minibatches == 0 || config.num_minibatches > rows) {
        let reason = format!("must lie between 1 and the {rows} samples of a rollout");
        return invalid("num_minibatches", config.num_minibatches.to_string(), &reason);
    }
    if plan.is_off_policy() {
        check_off_policy(plan, run)?;
    }
    check_spaces(plan, spec)
}

/// Checks the keys of algorithms that learn from a replay memory.
fn check_off_policy(plan: &PolicyPlan, run: &RunConfig) -> Result<()> {
    let PolicyPlan { name, config, .. } = plan;
    let invalid = |key: &str, value: String, reason: &str| {
        Err(warp_core::Error::invalid(&format!("policy.{name}.{key}"), value, reason).into())
    };
    for (key, value) in [
        ("buffer_size", config.buffer_size),
        ("batch_size", config.batch_size),
        ("train_freq", config.train_freq),
        ("gradient_steps", config.gradient_steps),
        ("n_step", config.n_step),
        ("target_interval", config.target_interval),
        ("policy_delay", config.policy_delay),
    ] {
        if value == 0 {
            return invalid(key, "0".into(), "must be at least 1");
        }
    }
    if config.n_step > config.buffer_size {
        let reason = format!("must be at most buffer_size = {}", config.buffer_size);
        return invalid("n_step", config.n_step.to_string(), &reason);
    }
    if let Some(aim) = config.target_entropy.filter(|aim| !(*aim as f32).is_finite()) {
        return invalid("target_entropy", aim.to_string(), "does not fit in an f32");
    }
    if !run.num_steps.is_multiple_of(config.train_freq) {
        let reason = format!("num_steps = {} must be a multiple of it", run.num_steps);
        return invalid("train_freq", config.train_freq.to_string(), &reason);
    }
    for (key, value) in [
        ("tau", config.tau),
        ("noise_damping", config.noise_damping),
        ("priority_alpha", config.priority_alpha),
        ("priority_beta", config.priority_beta.largest()),
        ("epsilon", config.epsilon.largest()),
        ("epsilon", config.epsilon.lowest()),
    ] {
        if !(0.0..=1.0).contains(&value) {
            return invalid(key, value.to_string(), "must lie between 0 and 1");
        }
    }
    for (key, value) in [
        ("noise_std", config.noise_std.lowest()),
        ("target_noise", config.target_noise),
        ("target_noise_clip", config.target_noise_clip),
    ] {
        if !(0.0..=f64::from(f32::MAX)).contains(&value) {
            return invalid(key, value.to_string(), "must not be negative");
        }
    }
    for (key, value) in [("alpha", config.alpha), ("alpha_start", Some(config.alpha_start))] {
        if value.is_some_and(|alpha| !(alpha > 0.0 && alpha <= f64::from(f32::MAX))) {
            let value = value.unwrap_or_default().to_string();
            return invalid(key, value, "must be larger than 0");
        }
    }
    Ok(())
}

/// Groups that share a policy must look and act alike.
fn check_spaces(plan: &PolicyPlan, spec: &EnvSpec) -> Result<()> {
    let first = &spec.groups[plan.groups[0]];
    for group in plan.groups.iter().map(|g| &spec.groups[*g]) {
        let alike = group.observation_width() == first.observation_width()
            && group.mask_width() == first.mask_width()
            && group.action.head_sizes() == first.action.head_sizes()
            && (group.action == first.action || !matches!(group.action, Space::Box { .. }));
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
    if first.mask_width() > 0 && matches!(first.action, Space::Box { .. }) {
        return Err(Error::Invalid(format!(
            "group \"{}\" has an action mask, but takes {}, which has no choices to forbid",
            first.name, first.action
        )));
    }
    Ok(())
}

fn check_log_std(name: &str, config: &PolicyConfig) -> Result<()> {
    let invalid = |key: &str, value: f64, reason: String| {
        Err(warp_core::Error::invalid(&format!("policy.{name}.{key}"), value, &reason).into())
    };
    let PolicyConfig { log_std_min: min, log_std_max: max, log_std_init: init, .. } = *config;
    if !(-20.0..=20.0).contains(&min) {
        return invalid("log_std_min", min, "must lie between -20 and 20".into());
    }
    if !(min..=20.0).contains(&max) {
        return invalid("log_std_max", max, format!("must lie between log_std_min ({min}) and 20"));
    }
    if !(min..=max).contains(&init) {
        let reason = format!("must lie between log_std_min ({min}) and log_std_max ({max})");
        return invalid("log_std_init", init, reason);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainConfig;

    fn resolve(keys: &str) -> Result<TrainConfig> {
        let text = format!("env_id = \"pendulum\"\n{keys}");
        TrainConfig::resolve(&text.parse::<Table>().unwrap(), &warp_envs::registry())
    }

    #[test]
    fn a_box_gets_a_gaussian_within_its_bounds() {
        for (key, bounding) in [("gaussian", Bounding::Clip), ("squashed", Bounding::Squash)] {
            let config = resolve(&format!("action_distribution = \"{key}\"\nlog_std_max = 1.5"));
            let layout = config.unwrap().policies.remove(0).layout;
            let ActionLayout::Continuous(elements) = layout else { panic!("{layout:?}") };
            assert_eq!((elements.dim(), elements.bounding()), (1, bounding));
            assert_eq!(elements.log_std_range(), (-5.0, 1.5));
        }
    }

    #[test]
    fn keys_of_continuous_actions_that_contradict_each_other_are_refused() {
        for (keys, words) in [
            ("log_std_init = 3", "log_std_init = 3: must lie between log_std_min (-5)"),
            ("log_std_min = 1", "log_std_init = 0"),
            ("log_std_max = -6.0", "log_std_max = -6: must lie between log_std_min (-5) and 20"),
            ("log_std_min = -30", "log_std_min = -30: must lie between -20 and 20"),
            ("action_distribution = \"beta\"", "\"gaussian\", \"squashed\""),
            ("init = \"zeros\"", "\"orthogonal\", \"xavier\", \"kaiming\""),
        ] {
            let error = resolve(keys).unwrap_err();
            assert!(error.is_users() && error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn squashing_needs_finite_bounds() {
        let group = GroupSpec {
            name: "arm".into(),
            n_agents: 1,
            observation: Space::unbounded(1),
            action: Space::unbounded(2),
            mortal: false,
        };
        let config = PolicyConfig::default();
        assert!(layout("one", &config, &group).is_ok());
        let config = PolicyConfig { action_distribution: ActionDistribution::Squashed, ..config };
        let error = layout("one", &config, &group).unwrap_err().to_string();
        assert!(error.contains("policy \"one\" for group \"arm\": element 0"), "{error}");
    }
}
