//! What a command line says twice: refused where an option and `--set` differ, said where a later word wins.

use super::args::TrainArgs;
use crate::settings::{parse_value, split};
use crate::sweep::Setting;
use anyhow::{Result, bail};
use warp_train::TrainConfig;
use warp_train::config::Policies;

/// Refuses keys that are given by an option of their own and by `--set`, with different values.
///
/// # Errors
/// The first of them.
pub(super) fn check(args: &TrainArgs) -> Result<()> {
    let given = [
        ("--envs", "num_envs", args.envs.map(|n| n as u64)),
        ("--steps", "total_steps", args.steps),
        ("--seed", "seed", args.seed),
    ];
    for (option, key, number) in given {
        let Some(number) = number else { continue };
        let other = args.set.iter().find(|set| {
            split(set).is_ok_and(|(own, value)| {
                own == key && parse_value(value) != parse_value(&number.to_string())
            })
        });
        if let Some(set) = other {
            bail!("{option} {number} contradicts --set {set}");
        }
    }
    if let (Some(seeds), Some(set)) = (&args.seeds, key_of("seed", &args.set)) {
        bail!("--seeds {seeds} contradicts --set {set}");
    }
    Ok(())
}

/// The words of `--set` and `--sweep` that have no effect in a run with this configuration, or not on all policies, a
/// sentence each: others come later, the key is swept, or policies have it of their own.
pub(in crate::commands) fn without_effect(args: &TrainArgs, config: &TrainConfig) -> Vec<String> {
    let options = [("--set", &args.set), ("--sweep", &args.sweep)].into_iter();
    let all = options.flat_map(|(option, words)| words.iter().map(move |word| (option, word)));
    let mut found: Vec<String> = all
        .filter_map(|(option, word)| {
            let (key, _) = split(word).ok()?;
            Some(format!("{option} {word} {}", out_of_reach(key, config)?))
        })
        .collect();
    for (n, set) in args.set.iter().enumerate() {
        let Ok((key, value)) = split(set) else { continue };
        let later = key_of(key, &args.set[n + 1..]);
        // Where a condition is not met, what is set holds.
        let swept = args
            .sweep
            .iter()
            .find(|sweep| !sweep.contains(" if ") && split(sweep).is_ok_and(|(own, _)| own == key));
        if let Some(sweep) = swept {
            found.push(format!("--set {set} has no effect beside --sweep {sweep}"));
        } else if let Some(later) = later
            && split(later).is_ok_and(|(_, other)| parse_value(other) != parse_value(value))
        {
            found.push(format!("--set {set} has no effect, since --set {later} comes later"));
        }
    }
    found
}

/// Refuses to sweep a key that changes nothing, since all policies have it of their own.
///
/// # Errors
/// The first such key of a setting, whose configuration is `config`.
pub(in crate::commands) fn check_swept(setting: &Setting, config: &TrainConfig) -> Result<()> {
    let has_no_effect = |key: &&String| {
        let Policies { with_own, others } = config.policies_with_own(key);
        !with_own.is_empty() && others == 0
    };
    match setting.iter().map(|(key, _)| key).find(has_no_effect) {
        Some(key) => bail!("--sweep {key} {}", out_of_reach(key, config).unwrap_or_default()),
        None => Ok(()),
    }
}

/// How far a key at the top level does not reach, because policies have it of their own.
fn out_of_reach(key: &str, config: &TrainConfig) -> Option<String> {
    let Policies { with_own, others } = config.policies_with_own(key);
    let (last, rest) = with_own.split_last()?;
    let own = |name: &&str| format!("policy.{name}.{key}");
    let before = rest.iter().map(own).collect::<Vec<_>>().join(", ");
    let all = if rest.is_empty() { own(last) } else { format!("{before} and {}", own(last)) };
    let (how_far, be) = match (others, rest.len()) {
        (0, 0) => ("has no effect", "is"),
        (0, _) => ("has no effect", "are"),
        (_, 0) => ("has no effect on one policy", "is"),
        _ => ("has no effect on some policies", "are"),
    };
    Some(format!("{how_far}: {all} {be} set, and come{} first", if be == "is" { "s" } else { "" }))
}

/// The first of some `key=value` with this key.
fn key_of<'a>(key: &str, sets: &'a [String]) -> Option<&'a String> {
    sets.iter().find(|set| split(set).is_ok_and(|(own, _)| own == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(target: &str, sets: &[&str]) -> TrainConfig {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        crate::settings::configure(target, &sets, &warp_envs::registry()).unwrap()
    }

    #[test]
    fn keys_that_policies_have_of_their_own_do_not_reach_them() {
        // Both policies of the default configuration have a learning rate.
        let tag = configured("tag_continuous", &["learning_rate=0.1", "gamma=0.5"]);
        let words = "has no effect: policy.runner.learning_rate and policy.tagger.learning_rate are \
                     set, and come first";
        assert_eq!(out_of_reach("learning_rate", &tag).as_deref(), Some(words));
        assert_eq!(out_of_reach("gamma", &tag), None);
        assert_eq!(out_of_reach("policy.tagger.learning_rate", &tag), None);
        let one = configured("tag_gridworld", &["policy.tagger.gamma=0.5"]);
        let words = "has no effect on one policy: policy.tagger.gamma is set, and comes first";
        assert_eq!(out_of_reach("gamma", &one).as_deref(), Some(words));
        let swept = |key: &str| check_swept(&vec![(key.into(), "0.1".into())], &tag);
        let said = swept("learning_rate").unwrap_err().to_string();
        assert!(said.starts_with("--sweep learning_rate has no effect: policy.runner."), "{said}");
        assert!(swept("gamma").is_ok() && swept("policy.tagger.learning_rate").is_ok());
    }
}
