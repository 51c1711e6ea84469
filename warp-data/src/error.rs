//! What can go wrong with stored arrays; every message holds the array's name and the values.

use warp_core::DType;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No array has this name.
    #[error("there is no array \"{name}\"; there are {known}")]
    UnknownArray {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Two arrays with one name.
    #[error("array \"{name}\" is declared twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// An array is asked for with another element type.
    #[error("array \"{name}\" of shape {shape:?} holds {held}, not {asked}")]
    WrongType {
        /// The array.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Its element type.
        held: DType,
        /// The type asked for.
        asked: DType,
    },
    /// Data of another length than the array's.
    #[error("array \"{name}\" of shape {shape:?} has {expected} elements, but {given} were given")]
    WrongLength {
        /// The array.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Number of elements it has.
        expected: usize,
        /// Number of elements given.
        given: usize,
    },
    /// More memory is needed than is free.
    #[error("{what} would need {}, but {} are free: lower {lower}", human(*.needed), human(u128::from(*.free)))]
    OutOfMemory {
        /// What is to be stored.
        what: String,
        /// Bytes needed.
        needed: u128,
        /// Bytes free.
        free: u64,
        /// The setting to lower.
        lower: String,
    },
}

/// Bytes as a person writes them.
fn human(bytes: u128) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}
