//! What environments that recordings call otherwise are called here.

use anyhow::{Result, anyhow};
use serde_json::{Map, Value};
use toml::{Table, toml};

/// The `env` under which the tasks of toy text are recorded.
pub(super) const TOY_TEXT: &str = "toy_text";
/// What a file of toy text is that holds no trajectory.
const TRANSITION_TABLE: &str = "transition table";
/// What recordings of toy text call the time limit.
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

/// The environment of toy text that a description is of, and its configuration under our names.
pub(super) fn toy_text(
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
pub(in crate::replay) fn is_table(described: &Map<String, Value>) -> bool {
    described.get("kind").and_then(Value::as_str) == Some(TRANSITION_TABLE)
}

/// What an environment that was recorded as `env`, not one of toy text, is called here: of catalysis the number of
/// atoms decides.
pub(super) fn other<'e>(env: &'e str, config: &Table) -> &'e str {
    let start = config.get("initial_state").and_then(toml::Value::as_array);
    match (env, start.map(Vec::len)) {
        ("catalysis", Some(6)) => "catalysis_two_atoms",
        _ => env,
    }
}
