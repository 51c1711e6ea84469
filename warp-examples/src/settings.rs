//! From the command line to a configuration: defaults, then a file, then `--set`.

use crate::basis::Basis;
use crate::output::tell;
use crate::toml_text::line_of;
use crate::yaml;
use anyhow::{Context, Result, anyhow, bail};
use std::path::Path;
use warp_core::toml::{Table, Value};
use warp_data::file;
use warp_func::{Entry, Registry};
use warp_train::TrainConfig;
use warp_train::config::drop_foreign_keys;

pub use crate::toml_text::parse;

/// The configuration for `target`, an environment's name, a TOML file or a run configuration of the
/// original in YAML, changed by `sets` (`key=value` each; the key may have dots).
///
/// Keys of the original that mean nothing here are named on standard error.
///
/// # Errors
/// A name, file, key or value that does not fit.
pub fn configure(target: &str, sets: &[String], registry: &Registry) -> Result<TrainConfig> {
    Ok(configure_with_basis(target, sets, registry)?.0)
}

/// As [`configure`], of a target that has been configured before: nothing is said of it again.
///
/// # Errors
/// As [`configure`].
pub fn configure_again(target: &str, sets: &[String], registry: &Registry) -> Result<TrainConfig> {
    Ok(resolve(target, sets, registry)?.config)
}

/// As [`configure`], with what the configuration is based on.
///
/// # Errors
/// As [`configure`].
pub fn configure_with_basis(
    target: &str,
    sets: &[String],
    registry: &Registry,
) -> Result<(TrainConfig, Basis)> {
    let Resolved { config, basis, without_effect } = resolve(target, sets, registry)?;
    if !without_effect.is_empty() {
        tell(&format!("accepted without effect: {}", without_effect.join(", ")));
    }
    Ok((config, basis))
}

/// A configuration, what it is based on, and the keys of the original that mean nothing here.
struct Resolved {
    config: TrainConfig,
    basis: Basis,
    without_effect: Vec<String>,
}

fn resolve(target: &str, sets: &[String], registry: &Registry) -> Result<Resolved> {
    let is_yaml = yaml::is_yaml(target);
    let is_file = is_yaml || target.ends_with(".toml");
    let (given, without_effect) = match target {
        _ if is_yaml => {
            let yaml::Translated { table, without_effect } = yaml::read(target, registry)?;
            (table, without_effect)
        }
        _ if is_file => (read_file(target)?, Vec::new()),
        _ => (Table::new(), Vec::new()),
    };
    let mut overrides = Table::new();
    for set in sets {
        set_key(&mut overrides, set)?;
    }
    let text = |key: &str| {
        let value = overrides.get(key).or_else(|| given.get(key));
        value.and_then(Value::as_str).map(str::to_string)
    };
    let env = if is_file {
        match overrides.get("env_id").or_else(|| given.get("env_id")) {
            Some(Value::String(id)) => id.clone(),
            Some(other) => {
                bail!("file \"{target}\": env_id = {other}: expected a string in quotes")
            }
            None => bail!("file \"{target}\" has no key env_id"),
        }
    } else {
        let known = |id: &str| registry.get(id).map(|entry| entry.name).ok();
        let other = text("env_id").filter(|id| known(id).is_none() || known(id) != known(target));
        if let Some(id) = other {
            bail!("--set env_id={id}: the command already names the environment {target}");
        }
        target.to_string()
    };
    let entry = registry.get(&env)?;
    let given_keys = [&given, &overrides];
    // What a file of the original leaves out has the original's defaults.
    let (mut table, algorithm) = match is_yaml {
        true => (Table::new(), text("algorithm")),
        false => defaults_below(given_keys, entry, text("algorithm"), registry)?,
    };
    let basis = if is_yaml {
        Basis::Original { file: target.into() }
    } else {
        let file = is_file.then_some(target);
        Basis::of(file, entry, algorithm.as_deref(), &table, given_keys)
    };
    merge(&mut table, given.clone());
    merge(&mut table, overrides.clone());
    table.insert("env_id".into(), env.into());
    let mut config = TrainConfig::resolve(&table, registry)
        .map_err(|error| placed(with_way_out(error, entry), target, &overrides))?;
    let all = parse(&config.to_toml(entry.fields))?;
    let basis = basis.knowing(is_file.then_some(target), &all, [&given, &overrides]);
    crate::pool_file::attach(&mut config)?;
    warp_train::begin::read(&mut config)?;
    Ok(Resolved { config, basis, without_effect })
}

/// Says where all keys are listed, if none is near one that is unknown.
fn with_way_out(error: warp_train::Error, entry: &Entry) -> anyhow::Error {
    use warp_core::Error::UnknownKey;
    match &error {
        warp_train::Error::Config(UnknownKey { nearest: None, .. }) => {
            anyhow!("{error}; warp config {} lists all keys", entry.name)
        }
        _ => error.into(),
    }
}

/// The default configuration below the keys of `given`, and the algorithm that it is for, if they name one.
fn defaults_below(
    given: [&Table; 2],
    entry: &Entry,
    mut algorithm: Option<String>,
    registry: &Registry,
) -> Result<(Table, Option<String>)> {
    let defaults = |algorithm: Option<&str>| -> Result<Table> {
        let mut table = crate::defaults::default_table(entry, algorithm)?;
        if given[0].contains_key("policy") {
            // A file that lists policies lists all of them.
            table.remove("policy");
        }
        Ok(table)
    };
    let whole = |mut table: Table| {
        given.into_iter().for_each(|given| merge(&mut table, given.clone()));
        table
    };
    let mut table = defaults(algorithm.as_deref())?;
    if algorithm.is_none() {
        algorithm = algorithm_of_all_policies(&whole(table.clone()));
        if algorithm.is_some() {
            table = defaults(algorithm.as_deref())?;
        }
    }
    let mut read = whole(table.clone());
    drop_foreign_keys(&mut read, registry);
    keep_keys_of(&mut table, &read);
    Ok((table, algorithm))
}

/// The algorithm that every policy of a table names for itself, if it is the same.
fn algorithm_of_all_policies(table: &Table) -> Option<String> {
    let policies = table.get("policy")?.as_table()?;
    let mut names = policies.iter().map(|(_, keys)| keys.get("algorithm").and_then(Value::as_str));
    let first = names.next()??;
    names.all(|name| name == Some(first)).then(|| first.into())
}

/// Takes from `table`, and from the tables in it, the keys that `read` does not have.
fn keep_keys_of(table: &mut Table, read: &Table) {
    table.retain(|key, _| read.contains_key(key));
    for (key, value) in table {
        if let (Value::Table(inner), Some(Value::Table(read))) = (value, read.get(key)) {
            keep_keys_of(inner, read);
        }
    }
}

fn read_file(path: &str) -> Result<Table> {
    let text = file::read_text(Path::new(path), file::CONFIGURATION)
        .map_err(|e| anyhow::anyhow!("cannot read the configuration \"{path}\": {e}"))?;
    parse(&text).with_context(|| format!("configuration \"{path}\""))
}

/// The error with the file and the line of the key that it is about, if the file `target` gives that key.
fn placed(error: anyhow::Error, target: &str, overrides: &Table) -> anyhow::Error {
    let text = match target.ends_with(".toml") {
        true => file::read_text(Path::new(target), file::CONFIGURATION).ok(),
        false => None,
    };
    let line = text.and_then(|text| line_of(&error.to_string(), &text, overrides));
    match line {
        Some(line) => error.context(format!("configuration \"{target}\", line {line}")),
        None => error,
    }
}

/// Puts `key=value` into `table`; a value that is not TOML is a text.
///
/// # Errors
/// As [`split`] and [`insert`].
pub fn set_key(table: &mut Table, set: &str) -> Result<()> {
    let (key, value) = split(set)?;
    insert(table, key, parse_value(value)).with_context(|| format!("--set {set}"))
}

/// The key and the value of `key=value`.
///
/// # Errors
/// A text without `=`.
pub fn split(set: &str) -> Result<(&str, &str)> {
    let Some((key, value)) = set.split_once('=') else {
        bail!("--set {set}: expected key=value");
    };
    Ok((key.trim(), value))
}

/// A value as the command line has it: TOML, or else a text. Shares such as `60%` need no quotes,
/// which a shell takes away.
#[must_use]
pub fn parse_value(text: &str) -> Value {
    let text = text.trim();
    let parse = |text: &str| format!("value = {text}").parse::<Table>().ok()?.remove("value");
    let parsed = parse(text).or_else(|| parse(&quote_shares(text)));
    parsed.unwrap_or_else(|| Value::String(text.into()))
}

/// `[[0%, 1.0]]` as `[["0%", 1.0]]`.
fn quote_shares(text: &str) -> String {
    let part = |part: &str| match part.trim_start_matches(['[', ' ']) {
        share if share.ends_with('%') => {
            format!("{}\"{share}\"", &part[..part.len() - share.len()])
        }
        _ => part.into(),
    };
    text.split(',').map(part).collect::<Vec<String>>().join(",")
}

/// Puts `value` into `table`; the key may have dots.
///
/// # Errors
/// An empty key, or one that goes through something that is no table.
pub fn insert(table: &mut Table, key: &str, value: Value) -> Result<()> {
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().filter(|last| !last.is_empty()).context("the key is empty")?;
    let mut inner = table;
    for part in path {
        let entry = inner.entry(part).or_insert_with(|| Value::Table(Table::new()));
        inner = entry.as_table_mut().with_context(|| format!("{part} is not a table"))?;
    }
    inner.insert(last.into(), value);
    Ok(())
}

/// Puts `from` over `into`, table by table.
fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(new)) => merge(inner, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_with_an_algorithm_of_their_own_have_its_defaults() {
        let registry = warp_envs::registry();
        let configured = |target: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
            configure(target, &sets, &registry)
                .unwrap_or_else(|error| panic!("{target} {sets:?}: {error:#}"))
        };
        for (env, policy, algorithm) in
            [("cartpole", "pole", "dqn"), ("pendulum", "pendulum", "sac")]
        {
            let named = configured(env, &[&format!("policy.{policy}.algorithm={algorithm}")]);
            let shared = configured(env, &[&format!("algorithm={algorithm}")]);
            assert_eq!(named.policies[0].config, shared.policies[0].config);
        }
        let [tagger, runner] = ["policy.tagger.algorithm=a2c", "policy.runner.algorithm=a2c"];
        for env in ["tag_gridworld", "tag_continuous"] {
            let both = configured(env, &[tagger, runner]);
            let shared = configured(env, &["algorithm=a2c"]);
            let configs = |config: &TrainConfig| -> Vec<_> {
                config.policies.iter().map(|plan| plan.config.clone()).collect()
            };
            assert_eq!(configs(&both), configs(&shared));
        }
        let one = configured("tag_continuous", &[tagger]);
        let algorithms: Vec<_> = one.policies.iter().map(|plan| plan.algorithm.name).collect();
        assert_eq!(algorithms, ["ppo", "a2c"]);
        // Two others: what is left of the defaults is what they read.
        let mixed = configured("tag_gridworld", &[tagger, "policy.runner.algorithm=dqn"]);
        let algorithms: Vec<_> = mixed.policies.iter().map(|plan| plan.algorithm.name).collect();
        assert_eq!(algorithms, ["dqn", "a2c"]);
        let sets = [tagger, runner, "clip_coef=0.1"].map(String::from);
        let error = configure("tag_continuous", &sets, &registry).unwrap_err().to_string();
        assert!(
            error.contains("clip_coef = 0.1") && error.ends_with("a2c has no such key"),
            "{error}"
        );
    }

    fn refused(target: &str, sets: &[&str]) -> String {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        format!("{:#}", configure(target, &sets, &warp_envs::registry()).unwrap_err())
    }

    #[test]
    fn later_settings_win() {
        let sets = ["num_envs=7".into(), "env.episode_length=9".into(), "gamma = 0.5".into()];
        let config = configure("cartpole", &sets, &warp_envs::registry()).unwrap();
        assert_eq!(config.run.num_envs, 7);
        assert_eq!(config.spec.time_limit.steps, 9);
        assert_eq!(config.policies[0].config.gamma.at(0), 0.5);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(refused("cartpol", &[]).contains("did you mean \"cartpole\"?"));
        assert!(refused("cartpole", &["gama=1"]).contains("nearest known key is \"gamma\""));
        assert_eq!(
            refused("cartpole", &["lr=1"]),
            "unknown key \"lr\"; warp config cartpole lists all keys"
        );
        assert!(refused("cartpole", &["env.start_rang=1"]).contains("\"env.start_range\""));
        assert!(refused("cartpole", &["num_envs=many"]).contains("num_envs = \"many\": expected"));
        assert!(refused("cartpole", &["num_envs"]).contains("expected key=value"));
        assert!(refused("cartpole", &["policy.pole.gama=1"]).contains("policy.pole.gamma"));
        assert!(refused("cartpole", &["policy.ghost.gamma=1"]).contains("\"ghost\""));
        assert!(refused("nowhere.toml", &[]).contains("nowhere.toml"));
    }

    #[test]
    fn a_key_in_a_file_is_named_with_its_line() {
        let path = std::env::temp_dir().join(format!("warp-placed-{}.toml", std::process::id()));
        let refused = |text: &str, sets: &[&str]| {
            std::fs::write(&path, text).unwrap();
            refused(path.to_str().unwrap(), sets).replace(path.to_str().unwrap(), "FILE")
        };
        let said = refused("env_id = \"cartpole\"\n\ngama = 1\n", &[]);
        assert!(said.starts_with("configuration \"FILE\", line 3: unknown key \"gama\""), "{said}");
        let said = refused("env_id = \"cartpole\"\n[env]\ngravty = 1\n", &[]);
        assert!(said.contains("line 3: unknown key \"env.gravty\""), "{said}");
        let said = refused("env_id = \"cartpole\"\nnum_envs = \"x\"\n", &[]);
        assert!(said.contains("line 2: num_envs = \"x\": expected"), "{said}");
        let said = refused("env_id = \"cartpole\"\nnum_envs = 3\n", &["num_envs=0"]);
        assert_eq!(said, "num_envs = 0: must be at least 1");
        let said = refused("env_id = 3\n", &[]);
        assert_eq!(said, "file \"FILE\": env_id = 3: expected a string in quotes");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn defaults_of_the_registry_come_before_those_that_are_embedded() {
        let text = "num_envs = 7\ngamma = 0.5";
        let a2c = "algorithm = \"a2c\"\nnum_envs = 9";
        let registry = warp_envs::registry()
            .with_defaults::<warp_envs::cartpole::CartPole>(text)
            .with_defaults::<warp_envs::cartpole::CartPole>(a2c);
        let config = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
            configure("cartpole", &sets, &registry).map(|config| config.run.num_envs)
        };
        assert_eq!(config(&[]).unwrap(), 7);
        assert_eq!(config(&["algorithm=a2c"]).unwrap(), 9);
        assert_eq!(config(&["algorithm=a2c", "num_envs=3"]).unwrap(), 3);
        let broken =
            warp_envs::registry().with_defaults::<warp_envs::cartpole::CartPole>("gamma = = 1");
        let error = format!("{:#}", configure("cartpole", &[], &broken).unwrap_err());
        assert!(error.starts_with("the default configuration of cartpole: line 1: "), "{error}");
    }

    #[test]
    fn shares_need_no_quotes_on_the_command_line() {
        let quoted = parse_value(r#"[["0%", 1e-3], ["60 %", 0.5],["100%", 0]]"#);
        assert_eq!(parse_value("[[0%, 1e-3], [60 %, 0.5],[100%, 0]]"), quoted);
        assert_eq!(quoted[1][0].as_str(), Some("60 %"));
        assert_eq!(parse_value("50%"), Value::from("50%"));
        assert_eq!(parse_value("a, 50%]"), Value::from("a, 50%]"));
    }
}
