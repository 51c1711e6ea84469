//! Errors of training; one sentence each, values included.
//!
//! [`Error::is_users`] distinguishes what the user can put right (a key, a file, a device) from what
//! the user can't (a run that failed), as does the command's exit code.

mod policy;

pub use policy::PolicyError;
pub(crate) use policy::check_length;

use std::path::Path;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration key or value.
    #[error(transparent)]
    Config(#[from] warp_core::Error),
    /// An environment can't be built or stepped.
    #[error(transparent)]
    Env(#[from] warp_func::Error),
    /// Arrays do not fit, or not into memory.
    #[error(transparent)]
    Data(#[from] warp_data::Error),
    /// Actions can't be drawn.
    #[error(transparent)]
    Sample(#[from] warp_sample::Error),
    /// The policy can't be built or updated.
    #[error("policy \"{policy}\": {reason}")]
    Policy {
        /// The policy's name.
        policy: String,
        /// What is wrong with it. No source, which would be said twice.
        reason: PolicyError,
    },
    /// A configuration that contradicts itself or the environment.
    #[error("{0}")]
    Invalid(String),
    /// A file that can't be read or written.
    #[error("{what} \"{path}\": {reason}")]
    File {
        /// What was to be done, as in "cannot read".
        what: &'static str,
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// A checkpoint whose files are missing, cut, changed, or of another run.
    #[error("checkpoint \"{path}\" is damaged: {reason}")]
    Damaged {
        /// The checkpoint's folder or file.
        path: String,
        /// What does not fit.
        reason: String,
    },
    /// What a callback of the program could not do.
    #[error(transparent)]
    Callback(Box<dyn std::error::Error + Send + Sync>),
    /// Ranks of a run that have lost each other.
    #[error("the ranks of this run can't continue: {0}")]
    Ranks(String),
    /// Another rank that gave up for a reason that would end every start.
    #[error("the ranks of this run can't continue: {why}")]
    GaveUp {
        /// Which rank, and its reason.
        why: String,
        /// Whether the user can put that right.
        is_users: bool,
    },
    /// The run can't go on.
    #[error("the run failed at step {step}: {reason}")]
    Broken {
        /// Environment steps done.
        step: u64,
        /// What happened.
        reason: String,
    },
}

/// Names the policy that an error is of.
pub(crate) fn of_policy(name: &str) -> impl FnOnce(PolicyError) -> Error {
    move |reason| Error::Policy { policy: name.into(), reason }
}

/// `text` with its control characters written out.
fn on_one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escaped).collect()
}

impl Error {
    /// An [`Error::File`].
    pub fn file(what: &'static str, path: &Path, reason: impl std::fmt::Display) -> Self {
        Error::File { what, path: path.display().to_string(), reason: reason.to_string() }
    }

    /// An [`Error::Damaged`]; what the reason quotes of a damaged file stays on one line.
    pub fn damaged(path: &Path, reason: impl AsRef<str>) -> Self {
        Error::Damaged { path: path.display().to_string(), reason: on_one_line(reason.as_ref()) }
    }

    /// An [`Error::Broken`] by numbers that are not finite.
    pub fn diverged(step: u64, reason: impl std::fmt::Display) -> Self {
        Error::Broken { step, reason: format!("the policy diverged: {reason}") }
    }

    /// Whether the user can put it right.
    #[must_use]
    pub fn is_users(&self) -> bool {
        match self {
            Error::GaveUp { is_users, .. } => *is_users,
            _ => !matches!(self, Error::Broken { .. } | Error::Sample(_) | Error::Ranks(_)),
        }
    }

    /// Whether it is of other ranks, or of the link to them, and not of this rank's own doing.
    #[must_use]
    pub fn is_of_other_ranks(&self) -> bool {
        matches!(self, Error::Ranks(_) | Error::GaveUp { .. })
    }
}
