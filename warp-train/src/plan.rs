//! Which policy acts for which groups, and whether its keys fit them.

use crate::algorithm::{Advantages, Algorithms, Entry, Learns, OnPolicyAlgorithm, Passes};
use crate::config::{ActionDistribution, PolicyConfig, RunConfig};
use crate::error::{Error, Result, of_policy};
use crate::loss::{Objective, Part};
use crate::model::NetworkConfig;
use crate::optimiser::AdamConfig;
use crate::policy_check::{check_log_std, check_policy};
use crate::policy_config::PolicyKeys;
use warp_core::toml::{Table, Value};
use warp_core::{Config, EnvSpec, GroupSpec, Space};
use warp_sample::{ActionLayout, Bounding, CategoricalLayout, GaussianLayout};

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
        let keys = PolicyKeys::new(algorithms, given, &prefix, keys, total_steps)?;
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
