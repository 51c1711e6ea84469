//! Blueprints, which another machine needs to run an environment: everything but its Rust body, as data.

use crate::error::Result;
use crate::executor::starts::fields;
use crate::pool::StateField;
use warp_core::kernel_text::kernel_text;
use warp_core::{DType, Env, EnvSpec, Layout, State, Table, TableData};

/// An environment with its configuration, as data.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// Its name.
    pub name: &'static str,
    /// Its outside.
    pub spec: EnvSpec,
    /// The fields of its state, dimensions resolved.
    pub fields: Vec<StateField>,
    /// The arrays that all replicas share.
    pub tables: Vec<SharedTable>,
    /// Its CUDA body with all declarations, if it has one.
    pub body: Option<Body>,
}

/// A CUDA body that is ready to be compiled: [`kernel_text`] and how to lay threads over it.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its file name.
    pub file: &'static str,
    /// The C code, declarations first.
    pub text: String,
    /// How threads are mapped to it.
    pub layout: Layout,
}

/// A read-only array, as bits.
#[derive(Debug, Clone)]
pub struct SharedTable {
    /// Its name.
    pub name: &'static str,
    /// Its type: [`DType::F32`] or [`DType::I32`].
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The bits of its elements.
    pub bits: Vec<u32>,
}

impl Blueprint {
    /// The blueprint of `env`.
    ///
    /// # Errors
    /// A spec that contradicts itself, a state field with an unknown dimension, a CUDA body without its three functions,
    /// or one of a state with rows for a single thread.
    pub fn new<E: Env>(env: &E) -> Result<Self> {
        let spec = EnvSpec::of(env)?;
        let body = match E::kernel() {
            Some(kernel) => {
                kernel.validate()?;
                check_layout(E::NAME, E::State::SCALARS, kernel.layout)?;
                let text = kernel_text(env, &kernel);
                Some(Body { file: kernel.file, text, layout: kernel.layout })
            }
            None => None,
        };
        Ok(Self { name: E::NAME, spec, fields: fields(env)?, tables: shared(&env.tables()), body })
    }
}

/// Rows do not fit into the registers of one thread.
fn check_layout(env: &str, of_scalars: bool, layout: Layout) -> Result<()> {
    if of_scalars || layout == Layout::TeamPerReplica {
        return Ok(());
    }
    let reason = "its state has rows, but its kernel has Layout::ThreadPerReplica; a team of threads steps \
        rows, Layout::TeamPerReplica";
    Err(warp_core::Error::InvalidSpec { env: env.into(), reason: reason.into() }.into())
}

fn shared(tables: &[Table<'_>]) -> Vec<SharedTable> {
    let table = |table: &Table<'_>| {
        let (dtype, bits) = match table.data {
            TableData::F32(data) => (DType::F32, data.iter().map(|v| v.to_bits()).collect()),
            TableData::I32(data) => (DType::I32, data.iter().map(|v| *v as u32).collect()),
        };
        SharedTable { name: table.name, dtype, shape: table.shape.clone(), bits }
    };
    tables.iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_for_teams() {
        let check = |of_scalars, layout| check_layout("herd", of_scalars, layout);
        let error = check(false, Layout::ThreadPerReplica).unwrap_err().to_string();
        assert!(error.starts_with("environment \"herd\": its state has rows"), "{error}");
        for (of_scalars, layout) in [
            (true, Layout::ThreadPerReplica),
            (true, Layout::TeamPerReplica),
            (false, Layout::TeamPerReplica),
        ] {
            check(of_scalars, layout).unwrap();
        }
    }
}
