//! One recorded case: an `.npz` file and the `.json` beside it, opened and checked.

mod names;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Table;
use warp_data::file;
use warp_envs::numpy::{Recorded, read_npz};
use warp_func::Registry;
use warp_train::digest;

pub(super) use names::is_table;

/// The `env` under which the five environments of classic control are recorded together.
const CLASSIC_CONTROL: &str = "classic_control";
/// Constructor arguments of the original that mean nothing here: `seed` explains row 0, which is
/// loaded; those of covid19 from `flatten_observations` on say how numbers are packed for its actors.
const MEANINGLESS: [&str; 7] = [
    "seed",
    "env_backend",
    "flatten_observations",
    "flatten_masks",
    "multi_action_mode_agents",
    "multi_action_mode_planner",
    "collate_agent_step_and_reset_data",
];
/// An environment, and an array that only recordings of it have.
const TELLING: (&str, &str) = ("covid19", "initial_delta_stringency");

/// A recorded case whose digest and shapes agree with its description.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// The file, as it was named.
    pub(super) file: String,
    /// The case's name.
    pub(super) name: String,
    /// The environment's name.
    pub(super) env: String,
    /// Whether it was recorded from one of the original's classic control environments.
    pub(super) classic: bool,
    /// Whether it was recorded from one of the tasks of toy text.
    pub(super) toy_text: bool,
    /// The configuration as recorded, without the keys that mean nothing here.
    pub(super) config: Table,
    /// Recorded steps, as the description says.
    pub(super) steps: usize,
    /// The whole description.
    pub(super) described: Map<String, Value>,
    /// The folder with published data that the case was recorded with, if one was named.
    pub(super) data: Option<PathBuf>,
    arrays: BTreeMap<String, Recorded>,
}

impl Case {
    /// Opens `path` and the `.json` beside it; either may be named. Its environment must be in `registry`, if
    /// one is given.
    pub(super) fn open(path: &Path, registry: Option<&Registry>) -> Result<Case> {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let path = &if is_json { path.with_extension("npz") } else { path.to_path_buf() };
        let shown = path.display().to_string();
        let read = |path: &Path, most| {
            file::read(path, most).map_err(|e| anyhow!("{} cannot be read: {e}", path.display()))
        };
        let bytes = read(path, file::ARRAYS)?;
        let beside = path.with_extension("json");
        if !beside.exists() {
            bail!("{shown} cannot be replayed, because {} beside it is missing", beside.display());
        }
        let text = read(&beside, file::DESCRIPTION)?;
        let described: Value = serde_json::from_slice(&text)
            .map_err(|e| anyhow!("{} is not valid JSON: {e}", beside.display()))?;
        let described = described.as_object().cloned();
        let described =
            described.ok_or_else(|| anyhow!("{} contains no JSON object", beside.display()))?;
        let cannot = |e: anyhow::Error| anyhow!("{shown} cannot be replayed: {e}");
        let mut case = Case::describe(path, &described).map_err(cannot)?;
        // First of all, since nothing else matters for an environment that does not exist.
        let named = described.contains_key("env");
        let known = || registry.map_or(Ok(()), |registry| registry.get(&case.env).map(|_| ()));
        if named {
            known().map_err(|e| cannot(e.into()))?;
        }
        check_digest(&described, &bytes).map_err(|e| anyhow!("{shown} is refused: {e}"))?;
        case.arrays = read_npz(&bytes).map_err(|e| cannot(e.into()))?;
        check_shapes(&described, &case.arrays).map_err(cannot)?;
        if !named && case.find(TELLING.1).is_some() {
            case.env = TELLING.0.into();
        } else if !named && known().is_err() {
            let reason =
                "its .json has no key \"env\", and its folder is not called as an environment";
            return Err(cannot(anyhow!("{reason}, but \"{}\"", case.env)));
        }
        Ok(case)
    }

    /// What the description says, without the arrays.
    fn describe(path: &Path, described: &Map<String, Value>) -> Result<Case> {
        let file = path.display().to_string();
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let text = |key: &str| match described.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(anyhow!("its key \"{key}\" is {other}, not a string")),
        };
        let name = text("case")?.unwrap_or(&stem);
        // Where the description is silent, the folder is called as the environment.
        let folder = path.canonicalize().ok();
        let folder = folder.as_deref().and_then(Path::parent).and_then(Path::file_name);
        let folder = folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let env = text("env")?.unwrap_or(&folder);
        let classic = env == CLASSIC_CONTROL;
        let env = if classic { name.split("__").next().unwrap_or(name) } else { env };
        let steps = described.get("steps").and_then(Value::as_u64);
        let steps = steps.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let steps = if is_table(described) { Some(0) } else { steps };
        let steps = steps.ok_or_else(|| match described.get("steps") {
            Some(other) => anyhow!("its key \"steps\" is {other}, not a number of steps"),
            None => anyhow!("its description has no key \"steps\""),
        })?;
        let mut config = config(described)?;
        if let Some(length) = described.get("episode_length").filter(|v| !v.is_null()) {
            config.insert("episode_length".into(), to_toml("episode_length", length)?);
        }
        let toy_text = env == names::TOY_TEXT;
        let (env, config) = match toy_text {
            true => names::toy_text(described, config)?,
            false => (names::other(env, &config), config),
        };
        let (name, env) = (name.into(), env.into());
        let (described, data, arrays) = (described.clone(), None, BTreeMap::new());
        Ok(Case { file, name, env, classic, toy_text, config, steps, described, data, arrays })
    }

    /// The published file `name`: in the folder that was named, or in one called `folder` in it.
    pub(super) fn data_file(&self, folder: &str, name: &str) -> Result<PathBuf> {
        let data = self.data.as_ref().ok_or_else(|| {
            anyhow!("it was recorded with {name}: give the folder of that file with --data DIR")
        })?;
        let inner = data.join(folder).join(name);
        Ok(if inner.exists() { inner } else { data.join(name) })
    }

    /// The array called `name`, if it was recorded.
    pub(super) fn find(&self, name: &str) -> Option<&Recorded> {
        self.arrays.get(name)
    }

    /// The names of all arrays.
    pub(super) fn array_names(&self) -> impl Iterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    /// The array called `name`, with `rows` entries in its first dimension.
    pub(super) fn rows(&self, name: &str, rows: usize) -> Result<&Recorded> {
        let array = self.array(name)?;
        let (shape, seen) = (&array.shape, array.rows());
        ensure!(
            seen == rows && !shape.is_empty(),
            "array \"{name}\" of shape {shape:?} has {seen} rows, but {rows} are needed"
        );
        Ok(array)
    }

    /// The array called `name`, with exactly `shape`.
    pub(super) fn shaped(&self, name: &str, shape: &[usize]) -> Result<&Recorded> {
        let array = self.array(name)?;
        ensure!(
            array.shape == shape,
            "array \"{name}\" has shape {:?}, but {shape:?} is needed",
            array.shape
        );
        Ok(array)
    }

    /// The array called `name`.
    pub(super) fn array(&self, name: &str) -> Result<&Recorded> {
        self.find(name).ok_or_else(|| {
            let known = self.array_names().collect::<Vec<_>>().join(", ");
            anyhow!("it lacks the array \"{name}\"; it holds {known}")
        })
    }
}

/// Refuses bytes that are not the ones described.
fn check_digest(described: &Map<String, Value>, bytes: &[u8]) -> Result<()> {
    let expected = described.get("sha256_npz").and_then(Value::as_str);
    let expected = expected.ok_or_else(|| anyhow!("its .json has no text \"sha256_npz\""))?;
    let seen = digest(bytes);
    ensure!(
        expected.eq_ignore_ascii_case(&seen),
        "its SHA-256 is {seen}, but its .json says {expected}"
    );
    Ok(())
}

/// Compares the arrays with what the description says of them, where it does.
fn check_shapes(described: &Map<String, Value>, arrays: &BTreeMap<String, Recorded>) -> Result<()> {
    let Some(Value::Object(declared)) = described.get("arrays") else { return Ok(()) };
    for (name, about) in declared {
        let array = arrays.get(name);
        let array = array.ok_or_else(|| anyhow!("it lacks the array \"{name}\""))?;
        let (shape, dtype) = (Value::from(array.shape.clone()), array.dtype.to_string());
        if let Some(said) = about.get("shape").filter(|said| **said != shape) {
            bail!("array \"{name}\" has shape {shape}, but its .json says {said}");
        }
        let said = about.get("dtype").and_then(Value::as_str);
        if let Some(said) = said.filter(|said| *said != dtype) {
            bail!("array \"{name}\" has dtype {dtype}, but its .json says {said}");
        }
    }
    Ok(())
}

fn config(described: &Map<String, Value>) -> Result<Table> {
    let recorded = match described.get("config") {
        None | Some(Value::Null) => return Ok(Table::new()),
        Some(Value::Object(recorded)) => recorded,
        Some(other) => bail!("its key \"config\" is {other}, not an object"),
    };
    let kept =
        |(key, value): &(&String, &Value)| !value.is_null() && !MEANINGLESS.contains(&key.as_str());
    let entry = |(key, value): (&String, &Value)| Ok((key.clone(), to_toml(key, value)?));
    recorded.iter().filter(kept).map(entry).collect()
}

/// A JSON value as TOML, which has no null.
fn to_toml(key: &str, value: &Value) -> Result<toml::Value> {
    Ok(match value {
        Value::Null => bail!("config key \"{key}\" holds a null inside a list"),
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => toml::Value::Integer(whole),
            (None, Some(real)) => toml::Value::Float(real),
            (None, None) => bail!("config key \"{key}\" is {number}, which is out of range"),
        },
        Value::Array(items) => {
            toml::Value::Array(items.iter().map(|item| to_toml(key, item)).collect::<Result<_>>()?)
        }
        Value::Object(entries) => {
            let entry = |(k, v): (&String, &Value)| Ok((k.clone(), to_toml(k, v)?));
            toml::Value::Table(entries.iter().map(entry).collect::<Result<Table>>()?)
        }
    })
}

#[cfg(test)]
mod tests;
