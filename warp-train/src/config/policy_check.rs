//! Whether a policy's keys fit each other and the environment.

use crate::algorithm::PolicyConfig;
use crate::algorithm::PolicyPlan;
use crate::algorithm::Schedule;
use crate::config::run_config::RunConfig;
use crate::error::{Error, Result};
use warp_core::{ConfigValue, EnvSpec, Space};

/// Passes over a rollout at most: beside a shard's number, one of a pass has room for 16 bits.
const MOST_EPOCHS: usize = 65_535;
/// Updates between two steps at most: somebody who stops a run waits for them.
const MOST_UPDATES: usize = 1_000_000;
/// Hidden layers at most: far more than learn anything without shortcuts between them.
const MOST_LAYERS: usize = 64;
/// Values that a critic's distribution can have.
const MOST_ATOMS: usize = 1 << 16;

/// Checks a policy's keys against each other and the environment.
pub(crate) fn check_policy(plan: &PolicyPlan, spec: &EnvSpec, run: &RunConfig) -> Result<()> {
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
    for (key, schedule) in [("gamma", &config.gamma), ("gae_lambda", &config.gae_lambda)] {
        unit(key, schedule.lowest())?;
        unit(key, schedule.largest())?;
    }
    check_sizes(plan)?;
    if let Some(ratio) = config.neg_pos_env_ratio.filter(|ratio| !(0.0..=1e9).contains(ratio)) {
        return invalid("neg_pos_env_ratio", ratio.to_string(), "must lie between 0 and 1e9");
    }
    if config.hidden.contains(&0) {
        return invalid("hidden", format!("{:?}", config.hidden), "each width must be at least 1");
    }
    if config.hidden.len() > MOST_LAYERS {
        let reason = format!("at most {MOST_LAYERS} layers are possible");
        return invalid("hidden", format!("{} layers", config.hidden.len()), &reason);
    }
    if !(1..=MOST_EPOCHS).contains(&config.update_epochs) {
        let reason = format!("must lie between 1 and {MOST_EPOCHS}");
        return invalid("update_epochs", config.update_epochs.to_string(), &reason);
    }
    let agents = plan.n_agents();
    // Too many to count are refused for memory, later.
    let rows = run.num_envs.saturating_mul(run.num_steps).saturating_mul(agents);
    let cut = plan.algorithm.reads("num_minibatches");
    if cut && (config.num_minibatches == 0 || config.num_minibatches > rows) {
        let reason = match rows {
            1 => "must be 1, since a rollout has a single sample".into(),
            _ => format!("must lie between 1 and the {rows} samples of a rollout"),
        };
        return invalid("num_minibatches", config.num_minibatches.to_string(), &reason);
    }
    if plan.is_off_policy() {
        check_off_policy(plan, run)?;
    }
    check_spaces(plan, spec)
}

/// Checks step sizes, coefficients and limits, at all steps of the run.
fn check_sizes(plan: &PolicyPlan) -> Result<()> {
    let PolicyPlan { name, config, .. } = plan;
    let invalid = |key: &str, value: String, reason: &str| {
        Err(warp_core::Error::invalid(&format!("policy.{name}.{key}"), value, reason).into())
    };
    let critic_rate = config.critic_learning_rate.as_ref();
    for (key, value) in [
        ("learning_rate", config.learning_rate.lowest()),
        ("critic_learning_rate", critic_rate.map_or(0.0, Schedule::lowest)),
        ("clip_coef", config.clip_coef.lowest()),
        ("max_grad_norm", config.max_grad_norm.lowest()),
        ("adam_eps", config.adam_eps),
        ("weight_decay", config.weight_decay),
        ("target_kl", config.target_kl.unwrap_or(0.0)),
        ("vf_coef", config.vf_coef.lowest()),
    ] {
        if value < 0.0 {
            return invalid(key, value.to_string(), "must not be negative");
        }
    }
    for (key, value) in [
        ("learning_rate", config.learning_rate.largest()),
        ("critic_learning_rate", critic_rate.map_or(0.0, Schedule::largest)),
        ("clip_coef", config.clip_coef.largest()),
        ("max_grad_norm", config.max_grad_norm.largest()),
        ("adam_eps", config.adam_eps),
        ("weight_decay", config.weight_decay),
        ("target_kl", config.target_kl.unwrap_or(0.0)),
        ("vf_coef", config.vf_coef.largest()),
        ("ent_coef", config.ent_coef.largest()),
    ] {
        if value > f64::from(f32::MAX) {
            return invalid(key, value.to_string(), "does not fit in an f32");
        }
    }
    if config.max_grad_norm.changes() && plan.is_off_policy() {
        let points =
            config.max_grad_norm.to_value().map_or(String::new(), |value| value.to_string());
        let reason = format!("{} needs a constant here", plan.algorithm.name);
        return invalid("max_grad_norm", points, &reason);
    }
    if config.critic_learning_rate.is_some() && !plan.is_off_policy() {
        let reason = match (&config.network, config.shared_trunk) {
            (Some(_), _) => Some("a network of your own has a single learning rate"),
            (None, true) => {
                Some("with shared_trunk = true the value function has no separate network")
            }
            (None, false) => None,
        };
        if let (Some(reason), Some(rate)) = (reason, critic_rate) {
            let value = rate.to_value().map_or(String::new(), |value| value.to_string());
            return invalid("critic_learning_rate", value, reason);
        }
    }
    Ok(())
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
        ("atoms", config.atoms),
    ] {
        if value == 0 {
            return invalid(key, "0".into(), "must be at least 1");
        }
    }
    if config.gradient_steps > MOST_UPDATES {
        let reason = format!("must be at most {MOST_UPDATES}");
        return invalid("gradient_steps", config.gradient_steps.to_string(), &reason);
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
        ("priority_beta", config.priority_beta.lowest()),
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
    check_atoms(plan)
}

/// Checks the values of critics that give distributions.
fn check_atoms(plan: &PolicyPlan) -> Result<()> {
    let PolicyPlan { name, config, .. } = plan;
    let invalid = |key: &str, value: String, reason: &str| {
        Err(warp_core::Error::invalid(&format!("policy.{name}.{key}"), value, reason).into())
    };
    if config.atoms > MOST_ATOMS {
        let reason = format!("must be at most {MOST_ATOMS}");
        return invalid("atoms", config.atoms.to_string(), &reason);
    }
    for (key, value) in [("value_min", config.value_min), ("value_max", config.value_max)] {
        // Half of the range, so that the distance between the two fits, too.
        if value.abs() > f64::from(f32::MAX) / 2.0 {
            return invalid(key, format!("{value:e}"), "does not fit in an f32");
        }
    }
    // As the algorithm sees them.
    if config.value_min as f32 >= config.value_max as f32 {
        let reason = format!("must be less than value_max = {}", config.value_max);
        return invalid("value_min", config.value_min.to_string(), &reason);
    }
    Ok(())
}

/// Groups that share a policy must look and act alike.
fn check_spaces(plan: &PolicyPlan, spec: &EnvSpec) -> Result<()> {
    let first = plan.group(spec);
    for group in plan.groups().map(|g| &spec.groups[g]) {
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
            "group \"{}\" has an action mask, but its actions are {}, which have no choices to mask",
            first.name, first.action
        )));
    }
    Ok(())
}

/// Checks the range of log standard deviations, which a layout of actions is made with.
pub(crate) fn check_log_std(name: &str, config: &PolicyConfig) -> Result<()> {
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
