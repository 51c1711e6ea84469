//! Values of types that only crates above this one know, kept in a registry.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// Something with a type of its own.
trait Extension: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> Extension for T {}

/// Values of any types.
#[derive(Debug, Clone, Default)]
pub(super) struct Extensions(Vec<Arc<dyn Extension>>);

impl Extensions {
    pub(super) fn push<T: Any + Debug + Send + Sync>(&mut self, extension: T) {
        self.0.push(Arc::new(extension));
    }

    /// The values of type `T`.
    pub(super) fn of<T: Any>(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|extension| {
            let any: &dyn Any = &**extension;
            any.downcast_ref()
        })
    }
}
