//! Errors when an environment is described or configured.
//!
//! Every message is one sentence that contains the offending value and can be shown to users as it
//! is.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration key that does not exist.
    #[error("unknown key \"{key}\"{}", nearest.as_ref().map_or(String::new(), |n| format!("; the nearest known key is \"{n}\"")))]
    UnknownKey {
        /// The key as given, with its prefix.
        key: String,
        /// The known key that is spelled most alike, if one is close.
        nearest: Option<String>,
    },
    /// A configuration value of the wrong type.
    #[error("{key} = {value}: expected {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// A configuration value outside its range, or in conflict with another one.
    #[error("{key} = {value}: {reason}")]
    InvalidValue {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A space or spec that contradicts itself.
    #[error("environment \"{env}\": {reason}")]
    InvalidSpec {
        /// The environment's name.
        env: String,
        /// What is wrong.
        reason: String,
    },
    /// An environment that breaks the contract, found by [`crate::check_env`].
    #[error("environment \"{env}\" breaks the contract: {reason}")]
    NonConforming {
        /// The environment's name.
        env: String,
        /// What was seen.
        reason: String,
    },
}

impl Error {
    /// An [`Error::InvalidValue`] for `key`.
    pub fn invalid(key: &str, value: impl std::fmt::Display, reason: impl Into<String>) -> Self {
        Error::InvalidValue { key: key.into(), value: value.to_string(), reason: reason.into() }
    }

    /// This error with `prefix` put before the key it names, if it names one.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        match &mut self {
            Error::UnknownKey { key, nearest } => {
                *key = format!("{prefix}{key}");
                if let Some(nearest) = nearest {
                    *nearest = format!("{prefix}{nearest}");
                }
            }
            Error::WrongType { key, .. } | Error::InvalidValue { key, .. } => {
                *key = format!("{prefix}{key}");
            }
            _ => {}
        }
        self
    }
}
