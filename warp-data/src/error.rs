//! Errors of stored arrays; every message contains the array's name and the values.

use crate::bytes::human;
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
    /// A replica that an array does not have.
    #[error("array \"{array}\" has no replica {replica}: there are {n}")]
    NoReplica {
        /// The array.
        array: String,
        /// The replica asked for.
        replica: usize,
        /// How many there are.
        n: usize,
    },
    /// A log without room for another step.
    #[error("the log has room for {steps} steps, all of which are recorded")]
    LogFull {
        /// Steps it has room for.
        steps: usize,
    },
    /// No NVIDIA driver is installed.
    #[error("there is no NVIDIA driver: {searched}")]
    NoDriver {
        /// The file names that were looked for, and where.
        searched: String,
    },
    /// A library that is too old, or none at all.
    #[error(
        "{library} has no function {function}, which came with CUDA {since}: the library is older, \
         or is not this library"
    )]
    OldLibrary {
        /// The library.
        library: String,
        /// What it lacks.
        function: String,
        /// The version of CUDA that brought it.
        since: String,
    },
    /// No GPU has this number.
    #[error("there is no GPU {ordinal}: the driver finds {count}")]
    NoDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// A GPU's driver refuses, or a kernel failed.
    #[error("{doing} failed: {reason}")]
    Cuda {
        /// What was being done.
        doing: String,
        /// What the driver says.
        reason: String,
    },
    /// More memory is needed than is free.
    #[error(
        "{what} would need {}, but {} are free, so {} are missing: lower {lower}",
        human(*.needed), human(u128::from(*.free)), human(.needed.saturating_sub(u128::from(*.free)))
    )]
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
