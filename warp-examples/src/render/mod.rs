//! Pictures of environments.

pub(crate) mod fonts;
pub(crate) mod png;
