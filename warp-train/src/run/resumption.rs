//! Keys that may change when a run is resumed, and what must be given again when it becomes longer.
//!
//! Points of schedules are steps once a run has begun, so that a run resumed to its old end equals one that never
//! stopped. A schedule that ends by then does not define what follows; a user who extends the run has to.

use crate::algorithm::PolicyConfig;
use crate::config::{RECORD_KEYS, RunConfig, TrainConfig};
use crate::error::{Error, Result};
use warp_core::Config;

/// Keys that may change beside the run's length and its records; all others decide what a checkpoint holds, or what
/// run it is.
const CHANGEABLE: [&str; 33] = [
    "to_train",
    "learning_rate",
    "gamma",
    "gae_lambda",
    "num_minibatches",
    "update_epochs",
    "norm_adv",
    "norm_return",
    "neg_pos_env_ratio",
    "rollout_metrics",
    "clip_coef",
    "clip_vloss",
    "target_kl",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "adam_eps",
    "weight_decay",
    "precision",
    "critic_learning_rate",
    "learning_starts",
    "gradient_steps",
    "tau",
    "priority_alpha",
    "priority_beta",
    "epsilon",
    "target_interval",
    "noise_std",
    "noise_damping",
    "policy_delay",
    "target_noise",
    "target_noise_clip",
    "target_entropy",
];

fn changeable() -> impl Iterator<Item = &'static str> {
    ["total_steps"].into_iter().chain(RECORD_KEYS).chain(CHANGEABLE)
}

/// Checks that `key` (`policy.NAME.KEY` for a policy's own) may change when a run is resumed. Unknown keys are left
/// to whoever reads the configuration.
///
/// # Errors
/// A key that may not, with those that may.
pub fn check_changeable(key: &str) -> Result<()> {
    let name = match key.split_once('.') {
        Some(("policy", own)) => own.split_once('.').map_or(own, |(_, name)| name),
        Some((table, _)) => table,
        None => key,
    };
    let known = RunConfig::fields().iter().chain(PolicyConfig::fields()).map(|field| field.name);
    if changeable().any(|known| known == name)
        || !known.chain(["env", "league", "policy"]).any(|known| known == name)
    {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{key} can't change when a run is resumed; these can: {}",
        changeable().collect::<Vec<_>>().join(", ")
    )))
}

/// Checks that `longer`, which is `run` with other keys, defines how each schedule continues if it lasts for more
/// steps; `is_given` says whether a key was given again.
///
/// # Errors
/// The schedules that ended by the old end of the run and were not given again.
pub fn check_extension(
    run: &TrainConfig,
    longer: &TrainConfig,
    is_given: impl Fn(&str) -> bool,
) -> Result<()> {
    let (old_end, new_end) = (run.run.total_steps, longer.run.total_steps);
    if new_end <= old_end {
        return Ok(());
    }
    let (mut ended, mut example) = (Vec::<String>::new(), String::new());
    for plan in longer.policies.iter().filter(|plan| plan.config.to_train) {
        for (name, schedule) in plan.config.schedules() {
            let own = format!("policy.{}.{name}", plan.name);
            let has_own = run.own_keys(&plan.name).is_some_and(|keys| keys.contains_key(name));
            if is_given(&own) || (!has_own && is_given(name)) {
                continue;
            }
            let key = if has_own { &own } else { name };
            let Some(end) = schedule.end().filter(|end| *end <= old_end) else { continue };
            let last = schedule.at(end);
            let words = format!("{key} would stay at {last} from step {end} on");
            if ended.is_empty() {
                // Nothing is learned at a rate of 0.
                let is_still = last == 0.0 && name.ends_with("learning_rate");
                example = format!("{key}={}", if is_still { 0.0001 } else { last });
            }
            // Policies that share the key say it once.
            if !ended.contains(&words) {
                ended.push(words);
            }
        }
    }
    if ended.is_empty() {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a run of {old_end} steps can't be extended to {new_end} without changes: {}; set a new \
         value with --set, as in --set {example}",
        ended.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::toml::Table;

    fn config(keys: &str, total_steps: u64) -> TrainConfig {
        let text = format!("env_id = \"tag_continuous\"\ntotal_steps = {total_steps}\n{keys}");
        TrainConfig::resolve(&text.parse::<Table>().unwrap(), &warp_envs::registry()).unwrap()
    }

    fn extended(keys: &str, to: u64, given: &[&str]) -> Result<()> {
        check_extension(&config(keys, 1000), &config(keys, to), |key| given.contains(&key))
    }

    #[test]
    fn keys_that_make_a_run_what_it_is_stay() {
        for key in [
            "seed",
            "num_envs",
            "hidden",
            "norm_obs",
            "env.grid_length",
            "env",
            "policy",
            "league.opponents",
        ] {
            let error = check_changeable(key).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{key} can't change when a run is resumed")),
                "{error}"
            );
        }
        let own = check_changeable("policy.tagger.groups").unwrap_err().to_string();
        assert!(own.contains("total_steps, checkpoint_steps"), "{own}");
        for key in
            ["learning_rate", "policy.tagger.ent_coef", "total_steps", "gama", "policy.x.gama"]
        {
            check_changeable(key).unwrap();
        }
    }

    #[test]
    fn a_schedule_that_has_ended_must_be_given_anew() {
        let ends = "learning_rate = [[0, 0.5], [1000, 0.0]]";
        let error = extended(ends, 2000, &[]).unwrap_err();
        assert!(error.is_users());
        let words = "learning_rate would stay at 0 from step 1000 on; set";
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().ends_with("as in --set learning_rate=0.0001"), "{error}");
        extended(ends, 1000, &[]).unwrap();
        extended(ends, 500, &[]).unwrap();
        extended(ends, 2000, &["learning_rate"]).unwrap();
        extended(ends, 2000, &["policy.tagger.learning_rate"]).unwrap_err();
        // One that goes on beyond the old end, and numbers.
        extended("learning_rate = [[0, 0.5], [1001, 0.0]]\nent_coef = 0.5", 2000, &[]).unwrap();
        let both = "ent_coef = [[0, 0.5], [900, 0.1]]\n[policy.tagger]\n[policy.runner]\nlearning_rate = [[0, 1], [9, 2]]";
        let error = extended(both, 1001, &["learning_rate"]).unwrap_err().to_string();
        assert!(error.contains("ent_coef would stay at 0.1 from step 900 on"), "{error}");
        assert!(error.ends_with("as in --set policy.runner.learning_rate=2"), "{error}");
        assert!(
            error.contains("policy.runner.learning_rate would stay at 2 from step 9"),
            "{error}"
        );
        extended(both, 1001, &["ent_coef", "policy.runner.learning_rate"]).unwrap();
        extended(&format!("to_train = false\n{ends}"), 2000, &[]).unwrap();
    }
}
