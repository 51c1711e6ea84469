//! A piece of an array on a device: a rollout's row of one step, say.

use crate::error::Result;
use warp_core::DType;
use warp_func::cuda::{DeviceArray, Pointer};

/// The elements of an array from `first` on.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The array.
    pub array: &'a DeviceArray,
    /// Its first element that counts.
    pub first: usize,
}

impl<'a> From<&'a DeviceArray> for Part<'a> {
    fn from(array: &'a DeviceArray) -> Self {
        Self { array, first: 0 }
    }
}

impl<'a> Part<'a> {
    /// A pointer to `needed` elements of `dtype`.
    ///
    /// # Errors
    /// An array of another type, or one that ends before.
    pub fn pointer(&self, dtype: DType, needed: usize) -> Result<Pointer<'a>> {
        let (name, shape) = (self.array.name().to_string(), self.array.shape().to_vec());
        let held = self.array.dtype();
        let refused = |error: warp_data::Error| Err(warp_func::Error::from(error).into());
        if held != dtype {
            return refused(warp_data::Error::WrongType { name, shape, held, asked: dtype });
        }
        let (expected, given) = (self.first.saturating_add(needed), self.array.len());
        if given < expected {
            return refused(warp_data::Error::WrongLength { name, shape, expected, given });
        }
        Ok(Pointer::to(self.array, self.first))
    }
}
