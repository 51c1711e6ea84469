//! What is printed before training: what the run is based on, how long it becomes, where it does not learn, and which
//! keys have no effect.

use crate::output;
use anyhow::{Result, bail};
use warp_func::{Entry, Start};
use warp_train::TrainConfig;
use warp_train::config::RunConfig;
use warp_train::trainer::trained_groups;

/// Prints each of `notes` once.
pub(in crate::commands) fn tell(notes: impl IntoIterator<Item = String>) {
    let mut said = Vec::new();
    for note in notes {
        if !said.contains(&note) {
            // One line, whatever the names in it hold.
            output::tell(&output::one_line(&note));
            said.push(note);
        }
    }
}

/// Notes on a run that continues after `done` steps.
pub(in crate::commands) fn of_run(config: &TrainConfig, done: u64) -> Vec<String> {
    let mut found: Vec<String> = whole_iterations(config, done).into_iter().collect();
    found.extend(without_learning(config, done));
    found.extend(without_effect(config));
    found.extend(super::without_effect::of_policies(config));
    found.extend(best_of_a_sum(config));
    found
}

/// The groups of a run that trains several of them, which may play against each other: the sum of their returns means
/// little.
pub(in crate::commands) fn several_groups(config: &TrainConfig) -> Option<String> {
    let names: Vec<&str> = config.spec.groups.iter().map(|group| group.name.as_str()).collect();
    let n_trained = trained_groups(config).iter().filter(|trained| **trained).count();
    (n_trained > 1).then(|| names.join(", "))
}

/// Refuses to stop a run by such a sum.
pub(super) fn check_stop(config: &TrainConfig) -> Result<()> {
    if let (Some(reached), Some(groups)) = (config.run.stop_at_return, several_groups(config)) {
        bail!(
            "stop_at_return = {reached}: {} trains several groups ({groups}), whose mean returns \
             together mean little",
            config.run.env_id
        );
    }
    Ok(())
}

/// That the best checkpoints of a run are those with the highest sum.
fn best_of_a_sum(config: &TrainConfig) -> Option<String> {
    let keeps_best = config.run.eval_steps > 0 && config.run.keep_best_checkpoints > 0;
    let groups = several_groups(config).filter(|_| keeps_best)?;
    Some(format!(
        "the best checkpoint is the one with the highest sum of the returns of {groups}, which says \
         little where they play against each other"
    ))
}

/// Keys that were set and have no effect beside the others.
fn without_effect(config: &TrainConfig) -> Vec<String> {
    let run = &config.run;
    let mut found = Vec::new();
    if run.start != Start::Pool {
        let set = [("pool_size", run.pool_size.is_some()), ("pool_file", run.pool_file.is_some())];
        let set = set.into_iter().filter(|(_, is_set)| *is_set);
        found.extend(set.map(|(key, _)| format!("{key} has no effect without start = \"pool\"")));
    }
    if run.pool_digest.is_some() && run.pool_file.is_none() {
        found.push("pool_digest has no effect without pool_file".into());
    }
    if run.log_replicas != RunConfig::default().log_replicas && run.log_arrays.is_empty() {
        found.push("log_replicas has no effect without log_arrays".into());
    }
    // One is the default.
    if run.keep_best_checkpoints > 1 && run.eval_steps == 0 {
        found.push(format!(
            "keep_best_checkpoints = {} has no effect without evaluations, that is, with eval_steps \
             = 0",
            run.keep_best_checkpoints
        ));
    }
    if run.eval_episodes != RunConfig::default().eval_episodes && run.eval_steps == 0 {
        found.push(
            "eval_episodes has no effect without evaluations, that is, with eval_steps = 0".into(),
        );
    }
    let replicas = run.num_envs / config.shards().total;
    for plan in config.policies.iter().filter(|plan| plan.config.norm_return) {
        if replicas * plan.n_agents() == 1 {
            found.push(format!(
                "norm_return has no effect on policy \"{}\", which acts for a single agent of a \
                 single replica in each shard",
                plan.name
            ));
        }
    }
    found
}

/// That whole iterations make a run longer than requested, if they do so by a tenth or more.
fn whole_iterations(config: &TrainConfig, done: u64) -> Option<String> {
    let (total, each) = (config.run.total_steps, config.steps_per_iteration().max(1));
    let (end, wanted) = (config.end_after(done), total.checked_sub(done).filter(|n| *n > 0)?);
    ((end - total).saturating_mul(10) >= wanted).then(|| {
        let n = (end - done) / each;
        let iterations = if n == 1 { "one iteration".into() } else { format!("{n} iterations") };
        format!(
            "total_steps = {total}: the run has {iterations} of {each} steps ({} replicas x {} \
             steps) and ends after {end}",
            config.run.num_envs, config.run.num_steps
        )
    })
}

/// Where policies that are to learn have a learning rate of 0.
fn without_learning(config: &TrainConfig, done: u64) -> Vec<String> {
    let (total, each) = (config.run.total_steps, config.steps_per_iteration().max(1));
    let mut found = Vec::new();
    for plan in config.policies.iter().filter(|plan| plan.config.to_train) {
        let (starts, end) = (plan.config.learning_starts, config.end_after(done));
        // Where its last iteration begins.
        if plan.algorithm.reads("learning_starts") && starts > end.saturating_sub(each) {
            found.push(format!(
                "policy \"{}\" learns nothing: its learning_starts = {starts} comes after the last \
                 iteration of this run, which ends after {end} steps",
                plan.name
            ));
        }
        for zero in plan.config.learning_rate.zeros(done..total) {
            let begins = (zero.start - done).checked_next_multiple_of(each);
            // No iteration begins there.
            if begins.is_none_or(|steps| steps >= zero.end - done) {
                continue;
            }
            let percent = 100.0 * (zero.end - zero.start) as f64 / (total - done) as f64;
            let place = match (zero.start == done, zero.end == total) {
                (true, true) => "throughout".into(),
                (true, false) => format!("up to step {}, {percent:.0} % of the run", zero.end - 1),
                (false, true) => format!("from step {} on, {percent:.0} % of the run", zero.start),
                (false, false) => format!("from step {} to step {}", zero.start, zero.end - 1),
            };
            found.push(format!(
                "policy \"{}\" learns nothing {place}: its learning_rate is 0 there",
                plan.name
            ));
        }
    }
    found
}

/// Says what should be known of an environment before training in it.
pub(in crate::commands) fn tell_notice(entry: &Entry) {
    if let Some(notice) = entry.notice {
        output::tell(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(target: &str, sets: &[&str], done: u64) -> Vec<String> {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let registry = warp_envs::registry();
        of_run(&crate::settings::configure(target, &sets, &registry).unwrap(), done)
    }

    #[test]
    fn defaults_learn_from_beginning_to_end_at_any_length() {
        for total in ["total_steps=60000", "total_steps=500000", "total_steps=2000000"] {
            assert_eq!(notes("cartpole", &[total], 0), [""; 0]);
        }
        let both = |taggers, runners| {
            [
                format!(
                    "policy \"runner\" learns nothing from step {runners} on, 40 % of the run: its \
                     learning_rate is 0 there"
                ),
                format!(
                    "policy \"tagger\" learns nothing up to step {taggers}, 60 % of the run: its \
                     learning_rate is 0 there"
                ),
            ]
        };
        assert_eq!(notes("tag_continuous", &[], 0), both(240_000, 240_001));
        assert_eq!(notes("tag_continuous", &["total_steps=60000"], 0), both(36_000, 36_001));
    }

    #[test]
    fn a_rate_of_zero_is_said() {
        let rate = "learning_rate=[[0, 1e-3], [500000, 0]]";
        let said = notes("cartpole", &[rate, "total_steps=2000000"], 0);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("from step 500000 on, 75 % of the run"), "{said:?}");
        // Behind it no iteration of 4,096 steps begins.
        assert_eq!(notes("cartpole", &[rate, "total_steps=502000"], 0), [""; 0]);
        let said = notes("cartpole", &[rate, "total_steps=2000000"], 1_000_000);
        assert!(said[0].contains("learns nothing throughout"), "{said:?}");
        let said = notes("cartpole", &["learning_rate=0"], 0);
        assert!(said[0].contains("learns nothing throughout"), "{said:?}");
        assert_eq!(notes("cartpole", &["learning_rate=0", "to_train=false"], 0), [""; 0]);
    }

    #[test]
    fn a_memory_that_is_filled_to_the_end_is_said() {
        let dqn = ["algorithm=dqn", "num_envs=8", "num_steps=16", "total_steps=1280"];
        let with = |starts: &str| notes("cartpole", &[&dqn[..], &[starts]].concat(), 0);
        assert_eq!(with("learning_starts=1152"), [""; 0]);
        let said = with("learning_starts=1153");
        let words = "learns nothing: its learning_starts = 1153 comes after the last iteration";
        assert!(said.len() == 1 && said[0].contains(words), "{said:?}");
        assert_eq!(notes("cartpole", &["total_steps=50"], 0).len(), 1, "PPO has no memory");
    }

    #[test]
    fn keys_without_effect_are_named() {
        let said = notes("cartpole", &["pool_size=8"], 0);
        assert_eq!(said, ["pool_size has no effect without start = \"pool\""]);
        assert_eq!(notes("cartpole", &["pool_size=8", "start=pool"], 0), [""; 0]);
        let said = notes("cartpole", &["keep_best_checkpoints=3"], 0);
        assert!(said.len() == 1 && said[0].starts_with("keep_best_checkpoints = 3 has no effect"));
        assert_eq!(notes("cartpole", &["keep_best_checkpoints=3", "eval_steps=9"], 0), [""; 0]);
        let said = notes("cartpole", &["norm_return=true", "num_envs=1", "num_minibatches=1"], 0);
        assert!(said.len() == 1 && said[0].starts_with("norm_return has no effect on policy"));
        assert_eq!(notes("cartpole", &["norm_return=true"], 0), [""; 0]);
        let said = notes("cartpole", &["log_replicas=[3]", "pool_digest=\"0\""], 0);
        let words = [
            "pool_digest has no effect without pool_file",
            "log_replicas has no effect without log_arrays",
        ];
        assert_eq!(said, words);
        let said = notes("cartpole", &["eval_episodes=3"], 0);
        assert!(said.len() == 1 && said[0].starts_with("eval_episodes has no effect"), "{said:?}");
        assert_eq!(notes("cartpole", &["eval_episodes=3", "eval_steps=9"], 0), [""; 0]);
        assert_eq!(notes("cartpole", &["log_replicas=[3]", "log_arrays=[\"x\"]"], 0), [""; 0]);
    }

    #[test]
    fn the_best_by_a_sum_of_returns_is_said() {
        let words = "the highest sum of the returns of tagger, runner";
        let said = notes("tag_gridworld", &["eval_steps=6400"], 0);
        assert!(said.len() == 1 && said[0].contains(words), "{said:?}");
        for sets in [
            &["eval_steps=0"][..],
            &["eval_steps=6400", "keep_best_checkpoints=0"],
            &["eval_steps=6400", "policy.runner.to_train=false"],
        ] {
            assert_eq!(notes("tag_gridworld", sets, 0), [""; 0], "{sets:?}");
        }
        assert_eq!(notes("cartpole", &["eval_steps=6400"], 0), [""; 0]);
    }

    #[test]
    fn a_run_that_becomes_longer_says_so() {
        let big = ["num_envs=256", "num_steps=100"];
        let said = notes("cartpole", &[&big[..], &["total_steps=2000"]].concat(), 0);
        let words = "one iteration of 25600 steps (256 replicas x 100 steps) and ends after 25600";
        assert!(said[0].starts_with("total_steps = 2000: ") && said[0].contains(words), "{said:?}");
        let said = notes("cartpole", &[&big[..], &["total_steps=30000"]].concat(), 25_600);
        assert!(said[0].contains("one iteration") && said[0].contains("after 51200"), "{said:?}");
        for total in ["total_steps=25600", "total_steps=1000000", "total_steps=0"] {
            assert_eq!(notes("cartpole", &[&big[..], &[total]].concat(), 0), [""; 0], "{total}");
        }
    }
}
