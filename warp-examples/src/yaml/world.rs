//! Which environment a run configuration is for, what its keys are called here, and where its
//! episodes start.

use super::section::Section;
use super::tree::Node;
use anyhow::Result;
use warp_core::toml::{Table, Value};
use warp_func::{Entry, Registry};

/// Rows of the original's only built-in pool for tag_gridworld.
const GRIDWORLD_POOL: usize = 5;

/// An environment of the original by the name of its run configuration.
struct World {
    name: &'static str,
    env_id: &'static str,
    /// A key and its value that give the original's rules.
    rules: Option<(&'static str, &'static str)>,
    pool: Pool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pool {
    /// One start for all episodes.
    No,
    /// Always, of so many rows.
    Rows(usize),
    /// Of `reset_pool_size` rows, if these are two or more.
    Sized,
}

const fn classic(name: &'static str, env_id: &'static str) -> World {
    World { name, env_id, rules: Some(("preset", "warpdrive")), pool: Pool::Sized }
}

const WORLDS: [World; 8] = [
    World {
        name: "tag_gridworld",
        env_id: "tag_gridworld",
        rules: Some(("placement", "original")),
        pool: Pool::No,
    },
    World {
        name: "tag_gridworld_with_reset_pool",
        env_id: "tag_gridworld",
        rules: Some(("placement", "original_pool")),
        pool: Pool::Rows(GRIDWORLD_POOL),
    },
    World { name: "tag_continuous", env_id: "tag_continuous", rules: None, pool: Pool::No },
    classic("single_cartpole", "cartpole"),
    classic("single_acrobot", "acrobot"),
    classic("single_mountain_car", "mountain_car"),
    classic("single_continuous_mountain_car", "continuous_mountain_car"),
    classic("single_pendulum", "pendulum"),
];

/// The environment, its keys and where episodes start, all in this program's words.
pub(super) struct Place<'r> {
    pub(super) entry: &'r Entry,
    pub(super) env: Table,
    /// `start` and `pool_size`.
    pub(super) start: Table,
    /// The seed among the environment's keys.
    pub(super) seed: Option<u64>,
}

/// Translates the section `env` for the environment called `name`, at `node`.
pub(super) fn place<'r>(
    top: &Section<'_>,
    key: &str,
    node: &Node,
    mut section: Section<'_>,
    registry: &'r Registry,
    without_effect: &mut Vec<String>,
) -> Result<Place<'r>> {
    let name = node.to_toml();
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    let own = |name| World { name: "", env_id: name, rules: None, pool: Pool::Sized };
    let world = WORLDS.into_iter().find(|world| world.name == name);
    // An environment of the user's own goes by its own name.
    let world = world.or_else(|| {
        let entry = registry.entries().find(|entry| entry.name == name)?;
        Some(own(entry.name))
    });
    let world = world.ok_or_else(|| {
        let known = WORLDS.iter().map(|world| world.name);
        let near = warp_core::config::nearest(name, known.clone());
        let near = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        let list = known.collect::<Vec<_>>().join(", ");
        top.refuse(key, node, &format!("there is no such environment; there are {list}{near}"))
    })?;
    let entry = registry.get(world.env_id)?;
    let mut env = Table::new();
    for field in entry.fields {
        if let Some(value) = section.take(field.name) {
            let toml = value.to_toml();
            let toml = toml.ok_or_else(|| section.refuse(field.name, value, "expected a value"))?;
            env.insert(field.name.into(), toml);
        }
    }
    if let Some((key, value)) = world.rules {
        env.entry(key).or_insert_with(|| value.into());
    }
    let rows = match world.pool {
        Pool::No => 0,
        Pool::Rows(rows) => rows,
        Pool::Sized => section.get_or("reset_pool_size", 0)?,
    };
    let seed = section.get("seed")?;
    section.ignore(&["env_backend"], without_effect);
    section.finish()?;
    Ok(Place { entry, env, start: start(rows), seed })
}

/// As the original, which starts all episodes alike unless a pool has two rows or more.
fn start(rows: usize) -> Table {
    let mut start = Table::new();
    let pooled = rows >= 2;
    start.insert("start".into(), if pooled { "pool" } else { "fixed" }.into());
    if pooled {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        start.insert("pool_size".into(), Value::Integer(rows));
    }
    start
}
