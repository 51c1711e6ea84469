//! The contract of environments: state, parameters, spec and step.
#![doc = include_str!("../README.md")]

mod actions;
pub mod by_value;
pub mod check;
pub mod config;
pub mod device_struct;
pub mod dimension;
pub mod draw;
pub mod env;
pub mod error;
pub mod kernel;
pub mod kernel_text;
pub mod math;
pub mod philox;
mod replica;
pub mod single;
pub mod space;
pub mod spec;
pub mod state;
pub mod team;

pub use check::check_env;
pub use config::{Config, ConfigField, ConfigValue, in_range};
pub use draw::{Draw, Purpose};
pub use env::{Actions, Env, Fault, Groups, Observation, StepOut, Table, TableData, View};
pub use error::{Error, Result};
pub use kernel::{Kernel, Layout};
pub use single::Single;
pub use space::{Flat, FlatEntry, Space};
pub use spec::{EnvSpec, GroupSpec, LimitEnds, MAX_GROUPS, TimeLimit};
pub use state::{Bits, DType, Field, FieldSource, Record, Scalars, State};

/// The [`toml`] crate that configurations are read with, re-exported so that versions agree.
pub use toml;
