//! The store: every array of a simulation, by name.
//!
//! Arrays are declared in a [`Plan`], whose size is known and checked before a byte is allocated;
//! then they live as long as the [`Store`], at addresses that never change.

use crate::array::{Array, Element, bytes_of};
use crate::error::{Error, Result};
use crate::memory;
use warp_core::DType;

/// An array's number in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayId(usize);

impl ArrayId {
    /// The array at this place in the order of declaration.
    #[cfg(feature = "cuda")]
    pub(crate) fn new(index: usize) -> Self {
        Self(index)
    }

    /// Its place in the order of declaration.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// The arrays of a future store.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    arrays: Vec<(String, DType, Vec<usize>)>,
}

impl Plan {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array of zeros.
    ///
    /// # Errors
    /// A name that is taken.
    pub fn add(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Result<ArrayId> {
        if self.arrays.iter().any(|(other, ..)| other == name) {
            return Err(Error::Duplicate { name: name.into() });
        }
        self.arrays.push((name.into(), dtype, shape.to_vec()));
        Ok(ArrayId(self.arrays.len() - 1))
    }

    /// Name, type and shape of every array, in the order of declaration.
    #[must_use]
    pub fn entries(&self) -> &[(String, DType, Vec<usize>)] {
        &self.arrays
    }

    /// Bytes of all arrays together; `u128::MAX` for more than that.
    #[must_use]
    pub fn bytes(&self) -> u128 {
        let size = |(_, dtype, shape): &(String, DType, Vec<usize>)| bytes_of(*dtype, shape);
        self.arrays.iter().map(size).fold(0, u128::saturating_add)
    }

    /// Allocates the arrays, all zeros.
    ///
    /// # Errors
    /// Not enough free memory.
    pub fn allocate(&self) -> Result<Store> {
        memory::check("the arrays of the environments", self.bytes(), "num_envs")?;
        let array =
            |(name, dtype, shape): &(String, DType, Vec<usize>)| Array::zeros(name, *dtype, shape);
        Ok(Store { arrays: self.arrays.iter().map(array).collect() })
    }
}

/// Named arrays on the host.
#[derive(Debug)]
pub struct Store {
    arrays: Vec<Array>,
}

impl Store {
    /// All arrays, in the order of declaration.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.arrays.iter()
    }

    /// The numbers of all arrays, in the order of declaration.
    pub fn ids(&self) -> impl Iterator<Item = ArrayId> + use<> {
        (0..self.arrays.len()).map(ArrayId)
    }

    /// The array called `name`.
    ///
    /// # Errors
    /// No such array; the message lists those that exist.
    pub fn id(&self, name: &str) -> Result<ArrayId> {
        let found = self.arrays.iter().position(|a| a.name() == name);
        found.map(ArrayId).ok_or_else(|| Error::UnknownArray {
            name: name.into(),
            known: self.arrays.iter().map(Array::name).collect::<Vec<_>>().join(", "),
        })
    }

    /// An array's handle; clone it to keep the memory alive beyond the store.
    #[must_use]
    pub fn array(&self, id: ArrayId) -> &Array {
        &self.arrays[id.0]
    }

    /// The elements of an array by name, row-major.
    ///
    /// # Errors
    /// No such array, or another element type.
    pub fn get<T: Element>(&self, name: &str) -> Result<&[T]> {
        let id = self.id(name)?;
        self.check_type::<T>(id)?;
        Ok(self.slice(id))
    }

    /// The elements of an array by number, row-major.
    ///
    /// # Panics
    /// If `T` is not its element type: the holder of an [`ArrayId`] knows what it declared.
    #[must_use]
    pub fn slice<T: Element>(&self, id: ArrayId) -> &[T] {
        self.arrays[id.0].elements()
    }

    /// The numbers, to be changed.
    pub fn edit(&mut self) -> StoreMut<'_> {
        StoreMut(self)
    }

    fn check_type<T: Element>(&self, id: ArrayId) -> Result<()> {
        let array = self.array(id);
        if array.dtype() == T::DTYPE {
            return Ok(());
        }
        Err(Error::WrongType {
            name: array.name().into(),
            shape: array.shape().to_vec(),
            held: array.dtype(),
            asked: T::DTYPE,
        })
    }
}

/// The numbers of a store, to be changed; the arrays themselves can't be, so whoever has pointers
/// into them may lend this out. Everything that [`Store`] reads is there too.
///
/// To exchange two of these exchanges no arrays:
///
/// ```
/// use warp_data::{DType, Plan};
/// let mut plan = Plan::new();
/// let x = plan.add("x", DType::I32, &[2])?;
/// let (mut one, mut two) = (plan.allocate()?, plan.allocate()?);
/// std::mem::swap(&mut one.edit(), &mut two.edit());
/// one.edit().slice_mut::<i32>(x).fill(1);
/// assert_eq!((one.slice::<i32>(x), two.slice::<i32>(x)), (&[1, 1][..], &[0, 0][..]));
/// # Ok::<(), warp_data::Error>(())
/// ```
///
/// The stores behind them can't be exchanged:
///
/// ```compile_fail
/// fn exchange(one: &mut warp_data::StoreMut<'_>, two: &mut warp_data::StoreMut<'_>) {
///     std::mem::swap::<warp_data::Store>(one, two);
/// }
/// ```
#[derive(Debug)]
pub struct StoreMut<'a>(&'a mut Store);

impl std::ops::Deref for StoreMut<'_> {
    type Target = Store;
    fn deref(&self) -> &Store {
        self.0
    }
}

impl<'a> StoreMut<'a> {
    /// The elements of an array by name, to be changed.
    ///
    /// # Errors
    /// No such array, or another element type.
    pub fn get_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let id = self.id(name)?;
        self.check_type::<T>(id)?;
        Ok(self.slice_mut(id))
    }

    /// Copies `data` into an array.
    ///
    /// # Errors
    /// No such array, another element type, or another number of elements.
    pub fn push<T: Element>(&mut self, name: &str, data: &[T]) -> Result<()> {
        let id = self.id(name)?;
        let target = self.get_mut::<T>(name)?;
        if target.len() == data.len() {
            target.copy_from_slice(data);
            return Ok(());
        }
        Err(Error::WrongLength {
            name: name.into(),
            shape: self.array(id).shape().to_vec(),
            expected: self.array(id).len(),
            given: data.len(),
        })
    }

    /// The elements of an array by number, to be changed.
    ///
    /// # Panics
    /// As [`Store::slice`].
    pub fn slice_mut<T: Element>(&mut self, id: ArrayId) -> &mut [T] {
        self.0.arrays[id.0].elements_mut()
    }

    /// As [`StoreMut::slice_mut`], for as long as the store is lent.
    ///
    /// # Panics
    /// As [`Store::slice`].
    #[must_use]
    pub fn into_slice_mut<T: Element>(self, id: ArrayId) -> &'a mut [T] {
        self.0.arrays[id.0].elements_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_arrays() -> Plan {
        let mut plan = Plan::new();
        plan.add("x", DType::F32, &[3, 2]).unwrap();
        plan.add("flag", DType::U8, &[3]).unwrap();
        plan
    }

    #[test]
    fn arrays_are_updated_in_place_and_never_move() {
        let mut store = two_arrays().allocate().unwrap();
        let before = store.array(store.id("x").unwrap()).as_ptr();
        store.edit().push("x", &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        store.edit().get_mut::<u8>("flag").unwrap()[2] = 1;
        assert_eq!(store.get::<f32>("x").unwrap()[5], 6.0);
        assert_eq!(store.get::<u8>("flag").unwrap(), [0, 0, 1]);
        assert_eq!(store.array(store.id("x").unwrap()).as_ptr(), before);
        assert_eq!(before as usize % 64, 0);
    }

    #[test]
    fn a_handle_keeps_the_memory_alive() {
        let mut store = two_arrays().allocate().unwrap();
        store.edit().push("flag", &[7u8, 8, 9]).unwrap();
        let handle = store.array(store.id("flag").unwrap()).clone();
        drop(store);
        assert_eq!(handle.elements::<u8>(), [7, 8, 9]);
    }

    #[test]
    fn errors_name_array_shape_and_dtype() {
        let mut plan = two_arrays();
        assert_eq!(
            plan.add("x", DType::I32, &[1]).unwrap_err().to_string(),
            "array \"x\" is declared twice"
        );
        let mut store = plan.allocate().unwrap();
        assert_eq!(
            store.get::<f32>("y").unwrap_err().to_string(),
            "there is no array \"y\"; there are x, flag"
        );
        assert_eq!(
            store.edit().push("x", &[0.0f32]).unwrap_err().to_string(),
            "array \"x\" of shape [3, 2] has 6 elements, but 1 were given"
        );
    }

    #[test]
    fn too_much_is_refused_before_it_is_allocated() {
        let mut plan = Plan::new();
        plan.add("huge", DType::F32, &[usize::MAX / 8, 16]).unwrap();
        let error = plan.allocate().unwrap_err().to_string();
        assert!(error.contains("lower num_envs"), "{error}");
    }

    #[test]
    fn sizes_that_no_number_holds_are_refused_too() {
        // Together 2^128 bytes, which is nothing at all if the sum wraps.
        let mut plan = Plan::new();
        plan.add("one", DType::F32, &[1 << 62]).unwrap();
        plan.add("rest", DType::F32, &[1 << 62, usize::MAX]).unwrap();
        assert_eq!(plan.bytes(), u128::MAX);
        assert!(plan.allocate().is_err());
        let mut plan = Plan::new();
        plan.add("huge", DType::U8, &[1 << 43, 1 << 43, 1 << 42]).unwrap();
        assert!(plan.allocate().is_err());
        // Nothing of anything is nothing.
        let mut plan = Plan::new();
        let none = plan.add("none", DType::F32, &[usize::MAX, usize::MAX, 0]).unwrap();
        assert!(plan.allocate().unwrap().slice::<f32>(none).is_empty());
    }
}
