//! The store on a device: the same arrays, under the same names and numbers, as on the host.

use super::array::DeviceArray;
use super::device::Device;
use crate::error::{Error, Result};
use crate::store::{ArrayId, Plan, Store};
use warp_core::DType;

/// Named arrays on a device.
#[derive(Debug)]
pub struct DeviceStore {
    arrays: Vec<DeviceArray>,
}

impl DeviceStore {
    /// The arrays of `plan` on `device`, all zeros.
    ///
    /// # Errors
    /// Not enough free memory on the device.
    pub fn allocate(plan: &Plan, device: &Device) -> Result<Self> {
        let (needed, free) = (plan.bytes(), device.free_bytes()?);
        if needed > u128::from(free) {
            let what = "the environments' arrays on the GPU".into();
            return Err(Error::OutOfMemory { what, needed, free, lower: "num_envs".into() });
        }
        let array = |(name, dtype, shape): &(String, DType, Vec<usize>)| {
            DeviceArray::zeros(device, name, *dtype, shape)
        };
        Ok(Self { arrays: plan.entries().iter().map(array).collect::<Result<_>>()? })
    }

    /// All arrays, in the order of declaration.
    pub fn arrays(&self) -> impl Iterator<Item = &DeviceArray> {
        self.arrays.iter()
    }

    /// The numbers of all arrays, in the order of declaration.
    pub fn ids(&self) -> impl Iterator<Item = ArrayId> + use<> {
        (0..self.arrays.len()).map(ArrayId::new)
    }

    /// An array's handle.
    #[must_use]
    pub fn array(&self, id: ArrayId) -> &DeviceArray {
        &self.arrays[id.index()]
    }

    /// Copies one array from the host's store, which was made from the same plan.
    ///
    /// # Errors
    /// Arrays that differ in type or length.
    pub fn push(&self, id: ArrayId, from: &Store) -> Result<()> {
        let array = self.array(id);
        match array.dtype() {
            DType::F32 => array.push(from.slice::<f32>(id)),
            DType::I32 => array.push(from.slice::<i32>(id)),
            DType::U32 => array.push(from.slice::<u32>(id)),
            DType::U8 => array.push(from.slice::<u8>(id)),
        }
    }

    /// Copies one array to the host's store, which was made from the same plan.
    ///
    /// # Errors
    /// As [`DeviceStore::push`], or whatever went wrong on the device before.
    pub fn pull(&self, id: ArrayId, to: &mut Store) -> Result<()> {
        let array = self.array(id);
        match array.dtype() {
            DType::F32 => array.pull_into(to.edit().slice_mut::<f32>(id)),
            DType::I32 => array.pull_into(to.edit().slice_mut::<i32>(id)),
            DType::U32 => array.pull_into(to.edit().slice_mut::<u32>(id)),
            DType::U8 => array.pull_into(to.edit().slice_mut::<u8>(id)),
        }
    }
}
