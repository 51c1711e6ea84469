//! Why a file's arrays cannot be read, as one sentence.

/// The module's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What is damaged or not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(super) String);

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// An [`Error`] from a format and its arguments.
macro_rules! unfit {
    ($($text:tt)*) => { $crate::numpy::Error(format!($($text)*)) };
}

/// Returns an [`Error`].
macro_rules! bail {
    ($($text:tt)*) => { return Err($crate::numpy::error::unfit!($($text)*)) };
}

/// Returns an [`Error`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            $crate::numpy::error::bail!($($text)*);
        }
    };
}

pub(super) use {bail, ensure, unfit};
