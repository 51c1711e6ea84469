//! The basis of a run's configuration: the defaults below the user's keys.

use crate::defaults;
use std::fmt;
use warp_core::toml::{Table, Value};
use warp_func::Entry;

/// What lies under a configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Basis {
    /// The embedded default configuration.
    Default {
        /// The environment's name.
        env: String,
        /// The algorithm.
        algorithm: String,
        /// The file over it, if there is one, with the keys it leaves to the default, `key = value`.
        file: Option<(String, Vec<String>)>,
    },
    /// The trainer's general defaults, since there is no default configuration.
    General {
        /// The environment's name.
        env: String,
        /// The algorithm.
        algorithm: String,
        /// Algorithms for which there is one.
        others: Vec<String>,
    },
    /// Nothing: a file sets all keys.
    Complete {
        /// The file.
        file: String,
    },
    /// The original's defaults, under a configuration of the original.
    Original {
        /// The file.
        file: String,
    },
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::Default { env, algorithm, file: None } => {
                write!(f, "based on the default configuration of {env} for {algorithm}")
            }
            Basis::Complete { file } => write!(f, "based on \"{file}\" alone"),
            Basis::Default { file: Some((file, left)), .. } if left.is_empty() => {
                write!(f, "based on \"{file}\" alone")
            }
            Basis::Default { env, algorithm, file: Some((file, left)) } => write!(
                f,
                "based on \"{file}\"; from the default configuration of {env} for {algorithm} \
                 come: {}",
                left.join(", ")
            ),
            Basis::General { env, algorithm, others } if !others.is_empty() => write!(
                f,
                "warning: {env} has a default configuration for {}, but none for {algorithm}: keys \
                 that are not set have general defaults, which may not learn anything here",
                others.join(", ")
            ),
            Basis::General { env, .. } => write!(
                f,
                "{env} has no default configuration: keys that are not set have general defaults"
            ),
            Basis::Original { file } => {
                write!(f, "based on \"{file}\", with WarpDrive's defaults for what it leaves out")
            }
        }
    }
}

impl Basis {
    /// What `file` (none: only a name was given) stands on, which sets the keys of `given`.
    pub(crate) fn of(
        file: Option<&str>,
        entry: &Entry,
        algorithm: Option<&str>,
        default: &Table,
        given: [&Table; 2],
    ) -> Self {
        let (env, others) = (entry.name.to_string(), defaults::algorithms(entry));
        let first = others.first().map(String::as_str);
        let algorithm = algorithm.or(first).unwrap_or("ppo").to_string();
        if !others.contains(&algorithm) {
            return Self::General { env, algorithm, others };
        }
        let file = file.map(|file| {
            let mut left = Vec::new();
            list_left("", default, &given.map(Some), &mut left);
            (file.to_string(), left)
        });
        Self::Default { env, algorithm, file }
    }

    /// This basis, knowing all keys that the configuration has in the end.
    pub(crate) fn knowing(self, file: Option<&str>, all: &Table, given: [&Table; 2]) -> Self {
        let (Self::General { .. }, Some(file)) = (&self, file) else { return self };
        let mut left = Vec::new();
        list_left("", all, &given.map(Some), &mut left);
        if left.is_empty() { Self::Complete { file: file.into() } } else { self }
    }
}

/// The keys of `default` that none of the tables `given` sets.
fn list_left(prefix: &str, default: &Table, given: &[Option<&Table>; 2], left: &mut Vec<String>) {
    for (key, value) in default {
        let inner = given.map(|table| table.and_then(|table| table.get(key)));
        match value {
            Value::Table(table) => {
                let inner = inner.map(|value| value.and_then(Value::as_table));
                list_left(&format!("{prefix}{key}."), table, &inner, left);
            }
            _ if inner.iter().any(Option::is_some) => {}
            _ if prefix.is_empty() && ["env_id", "algorithm"].contains(&key.as_str()) => {}
            _ => left.push(format!("{prefix}{key} = {value}")),
        }
    }
}
