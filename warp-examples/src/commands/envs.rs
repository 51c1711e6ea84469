//! `warp envs`: the environments to train in.

use super::{print_json, say};
use crate::{Outcome, defaults};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use warp_core::toml::{Table, Value as Toml};
use warp_core::{EnvSpec, LimitEnds, TimeLimit};
use warp_func::{Entry, Registry};

/// List the environments.
#[derive(Debug, Clone, Args)]
pub struct EnvsArgs {
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// An environment whose defaults do not fit.
pub fn execute(args: &EnvsArgs, registry: &Registry) -> Result<Outcome> {
    let specs = registry.entries().map(spec).collect::<Result<Vec<_>>>()?;
    if args.json {
        let envs: Vec<_> =
            registry.entries().zip(&specs).map(|(entry, spec)| describe(entry, spec)).collect();
        print_json(&json!({ "envs": envs }))?;
        return Ok(Outcome::Done);
    }
    say(&format!(
        "{:<24} {:>10}  {:<10} {:>6}  {:<12} action",
        "environment", "step limit", "group", "agents", "observation"
    ))?;
    for spec in &specs {
        for (g, group) in spec.groups.iter().enumerate() {
            let (name, limit) = match g {
                0 => (spec.name.as_str(), limit(spec)),
                _ => ("", String::new()),
            };
            let (seen, done) = (group.observation.to_string(), group.action.to_string());
            say(&format!(
                "{name:<24} {limit:>10}  {:<10} {:>6}  {seen:<12} {done}",
                group.name, group.n_agents
            ))?;
        }
    }
    let alias = |entry: &Entry| {
        let name = entry.name;
        entry.aliases.iter().map(|alias| format!("{alias} is {name}")).collect::<Vec<_>>()
    };
    let aliases: Vec<String> = registry.entries().flat_map(alias).collect();
    if !aliases.is_empty() {
        say(&format!("\nOther names: {}.", aliases.join(", ")))?;
    }
    say("\nAgents and limits are those of the default configurations; see `warp config ENV`.")?;
    Ok(Outcome::Done)
}

/// The environment in which `warp train` would train.
fn spec(entry: &Entry) -> Result<EnvSpec> {
    let table = defaults::default_table(entry, None)?;
    let env = table.get("env").and_then(Toml::as_table).cloned().unwrap_or_else(Table::new);
    Ok(entry.describe(&env)?.1)
}

/// The maximum number of steps of an episode, as text.
fn limit(spec: &EnvSpec) -> String {
    match spec.time_limit {
        TimeLimit::UNLIMITED => "none".into(),
        limit => limit.steps.to_string(),
    }
}

fn describe(entry: &Entry, spec: &EnvSpec) -> Value {
    let group = |group: &warp_core::GroupSpec| {
        json!({
            "name": group.name,
            "n_agents": group.n_agents,
            "observation": group.observation.to_string(),
            "observation_width": group.observation_width(),
            "action": group.action.to_string(),
            "action_mask": group.mask_width() > 0,
            "mortal": group.mortal,
        })
    };
    json!({
        "name": spec.name,
        "aliases": entry.aliases,
        "n_agents": spec.n_agents(),
        "groups": spec.groups.iter().map(group).collect::<Vec<_>>(),
        "step_limit": (spec.time_limit != TimeLimit::UNLIMITED).then_some(spec.time_limit.steps),
        "limit_truncates": spec.time_limit.ends == LimitEnds::Truncated,
        "statistics": spec.statistics,
    })
}
