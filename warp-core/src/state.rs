//! State and parameters, declared once.
//!
//! [`state!`](macro@crate::state) yields, from one declaration, the Rust type that bodies work on, a table
//! of fields (name, dtype, symbolic dimensions), and through the table the arrays of the store and the C
//! code. There are two forms. *Scalars only*, and small arrays of them: a `Copy` struct, which the executor
//! loads from columns, steps by value and writes back. *With rows*: a view, one `&mut` per field into the
//! replica's part of the arrays.

/// The type of a state or parameter element; four bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 8-bit unsigned integer; flags and masks only, never a state field.
    U8,
}

impl DType {
    /// Size of one element in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        if self == DType::U8 { 1 } else { 4 }
    }

    /// The type's name in C.
    #[must_use]
    pub fn c_name(self) -> &'static str {
        match self {
            DType::F32 => "float",
            DType::I32 => "int",
            DType::U32 => "unsigned int",
            DType::U8 => "unsigned char",
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::U8 => "u8",
        })
    }
}

/// A four-byte element of a state or of parameters: f32, i32 or u32. Sealed, since executors keep
/// elements as 32 bits of which every pattern is a value:
///
/// ```compile_fail
/// #[derive(Debug, Clone, Copy, Default)]
/// struct Wide([u64; 4]);
/// impl warp_core::Bits for Wide {
///     const DTYPE: warp_core::DType = warp_core::DType::F32;
///     fn from_bits(_: u32) -> Self {
///         Self::default()
///     }
///     fn bits(self) -> u32 {
///         0
///     }
/// }
/// ```
pub trait Bits: Copy + Default + Send + Sync + std::fmt::Debug + 'static + sealed::Sealed {
    /// Its dtype.
    const DTYPE: DType;
    /// The value with these bits.
    fn from_bits(bits: u32) -> Self;
    /// The value's bits.
    fn bits(self) -> u32;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
}

impl Bits for f32 {
    const DTYPE: DType = DType::F32;
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Bits for i32 {
    const DTYPE: DType = DType::I32;
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits as i32
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32
    }
}

impl Bits for u32 {
    const DTYPE: DType = DType::U32;
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self
    }
}

/// One field of a state or of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name; also the name of its array in the store. An element of an array in a state by value is a
    /// field of its own, called `position[0]`.
    pub name: &'static str,
    /// Type of one element.
    pub dtype: DType,
    /// Dimensions per replica, empty for a scalar: numbers, and names that `Env::dims` resolves.
    pub dims: &'static [&'static str],
}

/// A struct whose fields are known as data.
pub trait Record {
    /// The struct's name, in Rust and in C.
    const NAME: &'static str;
    /// Its fields, in order.
    const FIELDS: &'static [Field];
}

/// A record of scalars whose values are known as data.
pub trait Scalars: Record {
    /// The bits of every field, in order.
    fn to_bits(&self) -> Vec<u32>;
}

/// Where the fields of one replica come from; implemented by whatever stores them.
///
/// Every call yields the next field in the order of declaration, so that no field can be asked for
/// twice. A source panics if there is none left, if the field is of another type, or if a state by
/// value asks for a place.
pub trait FieldSource<'a> {
    /// The bits of the next field, a scalar.
    fn bits(&mut self) -> u32;
    /// The place of the next field, a scalar.
    fn scalar<T: Bits>(&mut self) -> &'a mut T;
    /// The elements of the next field, flat.
    fn row<T: Bits>(&mut self) -> &'a mut [T];
}

/// The state of one replica of an environment; made by [`state!`](macro@crate::state).
pub trait State: Record + 'static {
    /// Whether all fields are scalars, so that the state is passed by value: its view is then built
    /// from bits alone, and only then saved.
    const SCALARS: bool;
    /// What bodies work on: the struct itself, or references into the replica's rows.
    type View<'a>;
    /// Builds the view of one replica.
    fn view<'a>(source: &mut impl FieldSource<'a>) -> Self::View<'a>;
    /// Hands the bits of every field to `put(field, bits)`; does nothing for a state with rows,
    /// whose view has written in place.
    fn save(view: &Self::View<'_>, put: impl FnMut(usize, u32));
}

/// Declares a state: the Rust type, its table of fields, and through it the arrays and the C code.
///
/// ```
/// warp_core::state! {
///     /// A pendulum: scalars only, so bodies get the struct itself.
///     pub struct PendulumState { theta: f32, omega: f32 }
/// }
/// warp_core::state! {
///     /// A crowd: bodies get references into rows of `n_agents`.
///     pub struct CrowdState { loc_x: [f32; n_agents], n_left: i32 }
/// }
/// use warp_core::{Record, State};
/// assert!(PendulumState::SCALARS && !CrowdState::SCALARS);
/// assert_eq!(CrowdState::FIELDS[0].dims, ["n_agents"]);
/// ```
///
/// A state of scalars may have small arrays, too. Their lengths are numbers, or constants in braces, since a
/// bare name is a dimension and makes a row. Bodies get them by value, as `[f32; 3]`; outside, each element
/// is a field of its own. A length of 0, or more than 128 elements together, is an error of the compiler.
///
/// ```
/// const CELLS: usize = 9;
/// warp_core::state! {
///     /// A board and a point.
///     pub struct BoardState { board: [i32; { CELLS }], point: [f32; 3], n_moves: i32 }
/// }
/// use warp_core::{Record, State};
/// assert!(BoardState::SCALARS);
/// assert_eq!(BoardState::FIELDS.len(), 13);
/// assert_eq!(BoardState::FIELDS[10].name, "point[1]");
/// ```
///
/// ```compile_fail
/// warp_core::state! { pub struct Empty { point: [f32; 0] } }
/// ```
///
/// ```compile_fail
/// warp_core::state! { pub struct Large { field: [f32; 100], other: [f32; 29] } }
/// ```
///
/// In a state with rows a number is a dimension like any other, and an array a row.
///
/// ```
/// warp_core::state! {
///     /// Agents in space.
///     pub struct SwarmState { loc: [f32; n_agents, 3], goal: [f32; 3] }
/// }
/// assert_eq!(<SwarmState as warp_core::Record>::FIELDS[0].dims, ["n_agents", "3"]);
/// ```
///
/// ```compile_fail
/// warp_core::state! { pub struct Flat { loc: [f32; n_agents, 0] } }
/// ```
///
/// ```compile_fail
/// const CELLS: usize = 9;
/// warp_core::state! { pub struct Boards { left: [i32; n_agents], cells: [i32; { CELLS }] } }
/// ```
#[macro_export]
macro_rules! state {
    (
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident { $($(#[doc = $doc:expr])* $field:ident : $ty:ident),* $(,)? }
    ) => {
        $crate::params! {
            $(#[doc = $about])*
            $vis struct $name { $($(#[doc = $doc])* $field: $ty),* }
        }
        impl $crate::State for $name {
            const SCALARS: bool = true;
            type View<'a> = $name;

            #[inline(always)]
            fn view<'a>(source: &mut impl $crate::FieldSource<'a>) -> $name {
                $name { $($field: <$ty as $crate::Bits>::from_bits(source.bits()),)* }
            }

            #[inline(always)]
            fn save(view: &$name, mut put: impl FnMut(usize, u32)) {
                let mut field = 0..;
                $(put(field.next().unwrap_or(0), $crate::Bits::bits(view.$field));)*
            }
        }
    };
    (
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident {
            $($(#[doc = $doc:expr])* $field:ident :
                $($ty:ident)? $([$of:ident; $($len:literal)? $($constant:block)?])?),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[repr(C)]
        $vis struct $name {
            $($(#[doc = $doc])* pub $field: $($ty)? $([$of; $($len)? $($constant)?])?,)*
        }
        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $crate::by_value::Value::zero(),)* }
            }
        }
        impl $crate::Record for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::Field] = {
                const PARTS: &[&[$crate::Field]] = &[$($crate::__value_fields!(
                    $field, $($ty)? $([$of; $($len)? $($constant)?])?
                )),*];
                &$crate::by_value::flat::<{ $crate::by_value::count(PARTS) }>(PARTS)
            };
        }
        impl $crate::State for $name {
            const SCALARS: bool = true;
            type View<'a> = $name;

            #[inline(always)]
            fn view<'a>(source: &mut impl $crate::FieldSource<'a>) -> $name {
                $name { $($field: $crate::by_value::Value::load(source),)* }
            }

            #[inline(always)]
            fn save(view: &$name, mut put: impl FnMut(usize, u32)) {
                let field = 0;
                $(let field = $crate::by_value::Value::save(view.$field, field, &mut put);)*
                let _ = field;
            }
        }
        const _: &[$crate::Field] = <$name as $crate::Record>::FIELDS;
    };
    (
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident { $($(#[doc = $doc:expr])* $field:ident : $ty:tt),* $(,)? }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug)]
        $vis struct $name<'a> {
            $($(#[doc = $doc])* pub $field: $crate::__view_type!('a, $ty),)*
        }
        impl $crate::Record for $name<'static> {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::Field] = &[$($crate::__field!($field, $ty)),*];
        }
        impl $crate::State for $name<'static> {
            const SCALARS: bool = false;
            type View<'a> = $name<'a>;

            #[inline(always)]
            fn view<'a>(source: &mut impl $crate::FieldSource<'a>) -> $name<'a> {
                $name { $($field: $crate::__view_of!(source, $ty),)* }
            }

            #[inline(always)]
            fn save(_view: &$name<'_>, _put: impl FnMut(usize, u32)) {}
        }
        const _: () = $crate::dimension::check_dims(<$name<'static> as $crate::Record>::FIELDS);
    };
}

/// Declares the parameters of an environment: a `repr(C)` struct of scalars and its table of fields.
#[macro_export]
macro_rules! params {
    (
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident { $($(#[doc = $doc:expr])* $field:ident : $ty:ident),* $(,)? }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        #[repr(C)]
        $vis struct $name { $($(#[doc = $doc])* pub $field: $ty,)* }
        impl $crate::Record for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::Field] = &[$($crate::__field!($field, $ty)),*];
        }
        impl $crate::Scalars for $name {
            fn to_bits(&self) -> Vec<u32> {
                vec![$($crate::Bits::bits(self.$field)),*]
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    ($field:ident, [$ty:ident; $($dim:tt),+]) => {
        $crate::Field {
            name: stringify!($field),
            dtype: <$ty as $crate::Bits>::DTYPE,
            dims: &[$(stringify!($dim)),+],
        }
    };
    ($field:ident, $ty:ident) => {
        $crate::Field {
            name: stringify!($field),
            dtype: <$ty as $crate::Bits>::DTYPE,
            dims: &[],
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __view_type {
    ($life:lifetime, [$ty:ident; $($dim:tt),+]) => { &$life mut [$ty] };
    ($life:lifetime, $ty:ident) => { &$life mut $ty };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __view_of {
    ($source:ident, [$ty:ident; $($dim:tt),+]) => {
        $source.row::<$ty>()
    };
    ($source:ident, $ty:ident) => {
        $source.scalar::<$ty>()
    };
}
