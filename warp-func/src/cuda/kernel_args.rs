//! Arguments of a kernel as one struct: numbers and pointers under their names.
//!
//! [`kernel_args!`](macro@crate::kernel_args) declares it beside the launch; its C text is made from that, so
//! that a kernel's argument is never identified by its position. A launch compares the struct with the
//! kernel's source member by member.
//!
//! A kernel takes it by value, not as `__grid_constant__`: NVRTC 13.0 and 13.5 then read the argument where
//! it should read a local struct that has a copy of one of the argument's structs and is copied as a whole.

use super::arg::{Arg, Record};
use warp_core::DType;
use warp_core::device_struct::{CStruct, CType, DeviceStruct, DeviceValue};
use warp_data::cuda::DeviceArray;

/// The one argument of a kernel; made by [`kernel_args!`](macro@crate::kernel_args).
pub trait KernelArgs {
    /// The struct in C.
    const ARGS: CStruct;

    /// Hands over all members, in order.
    fn put(&self, to: &mut Members);

    /// The argument.
    ///
    /// # Panics
    /// If what was handed over are not the members of [`KernelArgs::ARGS`], or an array has another type.
    fn arg(&self) -> Arg {
        let mut members = Members::default();
        self.put(&mut members);
        members.align(Self::ARGS.align());
        let (mut pointers, mut declared) = (members.pointers.iter(), Vec::new());
        declared_pointers(&Self::ARGS, 0, &mut declared);
        let alike = declared.len() == members.pointers.len()
            && declared.iter().all(|(at, dtype)| {
                pointers.next().is_some_and(|(own, held)| {
                    at == own && dtype.is_none_or(|dtype| dtype == *held)
                })
            });
        let name = Self::ARGS.name;
        assert!(alike, "{name} has arrays of other types or in other places than it declares");
        assert_eq!(4 * members.words.len(), Self::ARGS.size(), "{name} has another size");
        Arg::Record(Record::new(Self::ARGS, members.words, members.arrays))
    }
}

/// Members of a struct on their way to a kernel.
#[derive(Debug, Default)]
pub struct Members {
    words: Vec<u32>,
    /// Keeps alive what the pointers point to.
    arrays: Vec<DeviceArray>,
    /// The places of pointers, in bytes, and what their arrays hold.
    pointers: Vec<(usize, DType)>,
}

impl Members {
    /// A value, or a struct of values.
    pub fn value<T: DeviceValue>(&mut self, value: &T) {
        self.align(T::TYPE.align());
        // Not into what is there, since addresses are nobody's to change.
        let mut words = Vec::new();
        value.put(&mut words);
        self.words.extend(words);
    }

    /// A pointer to an array's first element.
    pub fn pointer(&mut self, array: &DeviceArray) {
        self.align(8);
        self.pointers.push((4 * self.words.len(), array.dtype()));
        self.arrays.push(array.clone());
        array.ptr().put(&mut self.words);
    }

    /// A struct that contains pointers.
    pub fn part<T: KernelArgs>(&mut self, part: &T) {
        self.align(T::ARGS.align());
        part.put(self);
        self.align(T::ARGS.align());
    }

    fn align(&mut self, bytes: usize) {
        self.words.resize(self.words.len().next_multiple_of(bytes / 4), 0);
    }
}

/// Where a struct that begins at `start` declares pointers, and to what.
fn declared_pointers(of: &CStruct, start: usize, found: &mut Vec<(usize, Option<DType>)>) {
    for (i, member) in of.members.iter().enumerate() {
        let at = start + of.offset(i);
        match member.of {
            CType::Pointer { dtype, .. } => found.push((at, dtype)),
            CType::Struct(inner) => declared_pointers(inner, at, found),
            CType::Number(..) | CType::Array(..) => {}
        }
    }
}

impl<T: DeviceStruct> KernelArgs for T {
    const ARGS: CStruct = T::STRUCT;

    fn put(&self, to: &mut Members) {
        to.value(self);
    }
}

/// Declares what kernels take: values, arrays that they read (`&[f32]`) or write (`&mut [f32]`), and other
/// such structs (`{Part}`).
///
/// ```
/// use warp_core::device_struct::declare;
/// use warp_func::cuda::{DeviceArray, KernelArgs};
/// warp_func::kernel_args! {
///     /// `scale`.
///     struct ScaleArgs { n: u32, by: f32, from: &[f32], to: &mut [f32] }
/// }
/// fn args<'a>(from: &'a DeviceArray, to: &'a DeviceArray) -> ScaleArgs<'a> {
///     ScaleArgs { n: from.len() as u32, by: 2.0, from, to }
/// }
/// assert!(declare(&[ScaleArgs::ARGS]).contains(
///     "struct ScaleArgs {\n    unsigned int n;\n    float by;\n    const float* from;\n    float* to;\n};"
/// ));
/// ```
#[macro_export]
macro_rules! kernel_args {
    ($(
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident {$(
            $(#[doc = $doc:expr])*
            $field:ident : $($value:ident)? $(&[$read:ident])? $(&mut [$write:ident])? $({$part:ident})?
        ),* $(,)?}
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $name<'a> {$(
            $(#[doc = $doc])*
            pub $field: $($value)? $($crate::__array_of!('a $read))? $($crate::__array_of!('a $write))?
                $($part<'a>)?,
        )*}
        impl $crate::cuda::KernelArgs for $name<'_> {
            const ARGS: $crate::cuda::CStruct = $crate::cuda::CStruct {
                name: stringify!($name),
                members: &[$($crate::cuda::CMember {
                    name: stringify!($field),
                    of: $(<$value as $crate::cuda::DeviceValue>::TYPE)?
                        $($crate::cuda::CType::pointer::<$read>(true))?
                        $($crate::cuda::CType::pointer::<$write>(false))?
                        $($crate::cuda::CType::Struct(
                            &<$part<'static> as $crate::cuda::KernelArgs>::ARGS,
                        ))?,
                }),*],
            };
            fn put(&self, to: &mut $crate::cuda::Members) {
                $(
                    $(to.value::<$value>(&self.$field);)?
                    $($crate::__array_of!(to, self.$field, $read);)?
                    $($crate::__array_of!(to, self.$field, $write);)?
                    $(to.part::<$part<'_>>(&self.$field);)?
                )*
            }
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __array_of {
    ($life:lifetime $element:ident) => { &$life $crate::cuda::DeviceArray };
    ($to:ident, $array:expr, $element:ident) => {
        $to.pointer($array)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::kernel_args! {
        /// What is held by another.
        struct Part { x: &[f32], n: u32 }
        struct Whole { first: u32, part: {Part}, last: &mut [f64] }
    }

    #[test]
    fn pointers_lie_where_c_has_them() {
        let mut found = Vec::new();
        declared_pointers(&Whole::ARGS, 0, &mut found);
        assert_eq!(found, [(8, Some(DType::F32)), (24, None)]);
        assert_eq!(Whole::ARGS.size(), 32);
    }
}
