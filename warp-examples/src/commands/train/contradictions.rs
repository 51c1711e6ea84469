//! What a command line says twice: refused where an option and `--set` differ, said where a later word wins.

use super::args::TrainArgs;
use crate::settings::{parse_value, split};
use anyhow::{Result, bail};

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

/// The words of `--set` that have no effect, a sentence each: others come later, or the key is swept.
pub(in crate::commands) fn without_effect(args: &TrainArgs) -> Vec<String> {
    let mut found = Vec::new();
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

/// The first of some `key=value` with this key.
fn key_of<'a>(key: &str, sets: &'a [String]) -> Option<&'a String> {
    sets.iter().find(|set| split(set).is_ok_and(|(own, _)| own == key))
}
