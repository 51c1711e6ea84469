//! Toy text: transition tables, and trajectories with the numbers that were drawn.
//!
//! A recorded transition is replayed at a step of the run whose own draws choose what was drawn there
//! (`chance`), so that the whole environment takes part, on either body.

mod cards;
mod chance;
mod replicas;
mod tabular;

use super::case::Case;
use super::compare::Tallies;
use anyhow::{Result, anyhow};
use chance::Chance;
use serde_json::{Map, Value};
use toml::{Table, toml};
use warp_func::Registry;

/// The `env` under which all of them are recorded.
pub(super) const TOY_TEXT: &str = "toy_text";
/// What a file is that holds no trajectory.
const TRANSITION_TABLE: &str = "transition table";
/// How the recordings call the time limit.
const LIMIT: &str = "max_episode_steps";

/// What the task of a description is called here, and the keys that its name stands for.
fn world(task: &str) -> Option<(&'static str, Table)> {
    Some(match task {
        "Blackjack-v1" => ("blackjack", Table::new()),
        "Catch-v0" => ("catch", Table::new()),
        "CliffWalking-v1" => ("cliff_walking", Table::new()),
        "CliffWalkingSlippery-v1" => ("cliff_walking", toml! { is_slippery = true }),
        "FrozenLake-v1" => ("frozen_lake", Table::new()),
        "FrozenLake8x8-v1" => ("frozen_lake", toml! { map_name = "8x8" }),
        "NChain-v0" => ("nchain", Table::new()),
        "Taxi-v3" | "Taxi-v4" => ("taxi", Table::new()),
        _ => return None,
    })
}

/// The environment of a description, and its configuration under our names.
pub(super) fn environment(
    described: &Map<String, Value>,
    recorded: Table,
) -> Result<(&'static str, Table)> {
    let task = described.get("task").and_then(Value::as_str);
    let task = task.ok_or_else(|| anyhow!("its description has no text \"task\""))?;
    let (env, mut config) =
        world(task).ok_or_else(|| anyhow!("its task \"{task}\" is not one of toy text"))?;
    config.extend(recorded);
    let own = config.remove(LIMIT);
    let limit = described.get(LIMIT).and_then(Value::as_i64).map(toml::Value::Integer);
    if let Some(limit) = own.or(limit) {
        config.insert("episode_length".into(), limit);
    }
    Ok((env, config))
}

/// Whether a description is one of a transition table, which has no steps.
pub(super) fn is_table(described: &Map<String, Value>) -> bool {
    described.get("kind").and_then(Value::as_str) == Some(TRANSITION_TABLE)
}

/// Replays `case`; `None` if it is not one of toy text.
pub(super) fn replay(registry: &Registry, case: &Case) -> Result<Option<Tallies>> {
    if !case.toy_text {
        return Ok(None);
    }
    let mut chance = Chance::new(registry.get(&case.env)?, case)?;
    match case.env.as_str() {
        "blackjack" => cards::replay(case, &mut chance)?,
        "catch" | "nchain" => replicas::replay(case, &mut chance)?,
        _ if is_table(&case.described) => tabular::table(case, &mut chance)?,
        _ => tabular::trajectory(case, &mut chance)?,
    }
    chance.finish().map(Some)
}
