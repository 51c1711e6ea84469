//! The policies of a run: which acts for which agents, and whether its keys fit them.

use super::claims::Claims;
use super::policy_check::{check_log_std, check_policy};
use super::run_config::RunConfig;
use crate::algorithm::policy_keys::PolicyKeys;
use crate::algorithm::{ActionDistribution, Algorithms, PolicyConfig, PolicyPlan, Rollouts};
use crate::error::{Error, Result};
use warp_core::toml::Table;
use warp_core::{EnvSpec, GroupSpec, Space};
use warp_sample::{ActionLayout, Bounding, CategoricalLayout, GaussianLayout};

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

/// Maps every agent to exactly one policy. Without any policy, each group gets one of its name.
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
    let mut claims = Claims::new(spec);
    let mut plans = Vec::new();
    for (name, keys) in own {
        let prefix = format!("policy.{name}.");
        let keys = PolicyKeys::new(algorithms, given, &prefix, keys, total_steps)?;
        let PolicyKeys { algorithm, mut config, own } = keys;
        if config.groups.is_empty() {
            // A policy that names no groups acts for the one of its own name.
            claims.check_own(name)?;
            config.groups = vec![name.clone()];
        }
        let agents = claims.claim(name, &config.groups)?;
        check_log_std(name, &config)?;
        let layout = layout(name, &config, &spec.groups[agents[0].group])?;
        let name = name.clone();
        let plan = PolicyPlan { name, algorithm, config, own, agents, layout, rollouts: None };
        plans.push(plan);
    }
    claims.check_complete()?;
    Ok(plans)
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
