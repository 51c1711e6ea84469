//! One array: a typed, shaped, reference-counted block of host memory whose address never changes.
#![expect(unsafe_code, reason = "owns raw memory, so that executors and tensor libraries share it")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use warp_core::DType;

/// A cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// An element that an array can hold. Sealed: all bit patterns must be valid.
pub trait Element: Copy + Send + Sync + std::fmt::Debug + 'static + sealed::Sealed {
    /// Its dtype.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
elements!(f32 => F32, i32 => I32, u32 => U32, u8 => U8);

/// Bytes of an array; `u128::MAX` for more than that.
pub(crate) fn bytes_of(dtype: DType, shape: &[usize]) -> u128 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(dtype.size() as u128, |bytes, n| bytes.saturating_mul(*n as u128))
}

/// A named array; cloning it clones the handle, not the numbers.
#[derive(Debug, Clone)]
pub struct Array {
    name: Arc<str>,
    dtype: DType,
    shape: Arc<[usize]>,
    /// Number of elements: the shape's product, which is known to fit.
    len: usize,
    memory: Arc<Memory>,
}

impl Array {
    /// Zeros of `shape`, whose size the plan has found to be free.
    pub(crate) fn zeros(name: &str, dtype: DType, shape: &[usize]) -> Self {
        let bytes = usize::try_from(bytes_of(dtype, shape)).unwrap_or(usize::MAX);
        let memory = Arc::new(Memory::zeros(bytes));
        Self { name: name.into(), dtype, shape: shape.into(), len: bytes / dtype.size(), memory }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of elements in one entry of the first dimension.
    #[must_use]
    pub fn row_len(&self) -> usize {
        // It fits, unless there is no entry at all.
        self.shape.iter().skip(1).fold(1, |n, size| n.saturating_mul(*size))
    }

    /// Its address: valid as long as any handle lives, and never changed. Code that reads or writes
    /// through it must know what else does.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.address.as_ptr()
    }

    /// The elements. `T` must be the array's dtype.
    pub(crate) fn elements<T: Element>(&self) -> &[T] {
        assert_eq!(T::DTYPE, self.dtype, "checked by the store");
        // SAFETY: the memory is aligned to 64, holds `len` elements of T's dtype, was initialised
        // with zeros and lives as long as `self`. The store hands out `&` only from `&Store` and
        // `&mut` only from `&mut Store`; executors write through `as_ptr` only while they hold the
        // store mutably, and lend no `&mut Store`, through which another could take its place.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len()) }
    }

    /// The elements, to be changed. `T` must be the array's dtype.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DTYPE, self.dtype, "checked by the store");
        // SAFETY: as for `elements`; `&mut self` comes from `&mut Store`.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr().cast(), self.len()) }
    }
}

#[derive(Debug)]
struct Memory {
    address: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn zeros(bytes: usize) -> Self {
        // At least one element, since a zero-sized allocation has no address.
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT);
        let layout = layout.unwrap_or_else(|_| handle_alloc_error(Layout::new::<u8>()));
        // SAFETY: the layout's size is not zero.
        let address = unsafe { alloc_zeroed(layout) };
        let Some(address) = NonNull::new(address) else { handle_alloc_error(layout) };
        Self { address, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeros` with this layout, and freed once.
        unsafe { dealloc(self.address.as_ptr(), self.layout) }
    }
}

// SAFETY: the memory is plain numbers; who may touch it when is governed by the store's borrows.
unsafe impl Send for Memory {}
// SAFETY: as above; a shared `Memory` gives out its address and nothing else.
unsafe impl Sync for Memory {}
