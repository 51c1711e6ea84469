//! Structs that both host and device read, declared once.
//!
//! [`device_struct!`](macro@crate::device_struct) yields, from one declaration, the Rust type and, as data, the
//! struct in C ([`CStruct`]), from which [`declare`] makes its text. Both compilers check that every member is
//! at the same offset. Members are numbers of four or eight bytes, arrays of them, and other such structs; a
//! device gets them as 32-bit words.

use crate::kernel::OFFSET;
use crate::state::{Bits, DType};
use std::fmt::{Display, Formatter, Write};

/// A struct in C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CStruct {
    /// Its name.
    pub name: &'static str,
    /// Its members, in order.
    pub members: &'static [CMember],
}

/// A member of a struct in C; shown as its declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CMember {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub of: CType,
}

/// The type of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CType {
    /// A number: the type's name, and its bytes.
    Number(&'static str, usize),
    /// So many numbers.
    Array(&'static str, usize, usize),
    /// A struct by value.
    Struct(&'static CStruct),
    /// An address of numbers or structs.
    Pointer {
        /// Their type's name.
        to: &'static str,
        /// Their type, if arrays have it; `None`: whatever the array holds is read as that.
        dtype: Option<DType>,
        /// Whether a kernel only reads them.
        read_only: bool,
    },
}

impl CType {
    /// An address of `T`.
    #[must_use]
    pub const fn pointer<T: Pointee>(read_only: bool) -> Self {
        Self::Pointer { to: T::C_NAME, dtype: T::DTYPE, read_only }
    }

    /// Bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        match self {
            Self::Number(_, bytes) => *bytes,
            Self::Array(_, bytes, n) => *bytes * *n,
            Self::Struct(of) => of.size(),
            Self::Pointer { .. } => 8,
        }
    }

    /// Bytes of which its address is a multiple.
    #[must_use]
    pub const fn align(&self) -> usize {
        match self {
            Self::Number(_, bytes) | Self::Array(_, bytes, _) => *bytes,
            Self::Struct(of) => of.align(),
            Self::Pointer { .. } => 8,
        }
    }
}

impl CStruct {
    /// Offset of member number `index`, in bytes.
    #[must_use]
    pub const fn offset(&self, index: usize) -> usize {
        let (mut end, mut i) = (0_usize, 0);
        while i < index {
            end = end.next_multiple_of(self.members[i].of.align()) + self.members[i].of.size();
            i += 1;
        }
        if index < self.members.len() {
            end.next_multiple_of(self.members[index].of.align())
        } else {
            end
        }
    }

    /// Bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.offset(self.members.len()).next_multiple_of(self.align())
    }

    /// Bytes of which its address is a multiple.
    #[must_use]
    pub const fn align(&self) -> usize {
        let (mut most, mut i) = (1, 0);
        while i < self.members.len() {
            let align = self.members[i].of.align();
            most = if align > most { align } else { most };
            i += 1;
        }
        most
    }
}

impl Display for CMember {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let name = self.name;
        match self.of {
            CType::Number(c_type, _) => write!(f, "{c_type} {name}"),
            CType::Array(c_type, _, n) => write!(f, "{c_type} {name}[{n}]"),
            CType::Struct(of) => write!(f, "{} {name}", of.name),
            CType::Pointer { to, read_only: true, .. } => write!(f, "const {to}* {name}"),
            CType::Pointer { to, read_only: false, .. } => write!(f, "{to}* {name}"),
        }
    }
}

/// The C code of `structs`, each after those that it contains, with assertions of every size and offset.
#[must_use]
pub fn declare(structs: &[CStruct]) -> String {
    let mut text = String::from(OFFSET);
    for of in structs {
        let name = of.name;
        let _ = writeln!(text, "struct {name} {{");
        for member in of.members {
            let _ = writeln!(text, "    {member};");
        }
        let _ = writeln!(text, "}};");
        for (i, member) in of.members.iter().enumerate() {
            let (member, at) = (member.name, of.offset(i));
            let _ = writeln!(
                text,
                "static_assert(WARP_OFFSET({name}, {member}) == {at}, \"{name}.{member} moved\");"
            );
        }
        let size = of.size();
        let _ =
            writeln!(text, "static_assert(sizeof({name}) == {size}, \"{name} changed its size\");");
    }
    text
}

/// What a pointer of a kernel may point to.
pub trait Pointee {
    /// The type's name in C.
    const C_NAME: &'static str;
    /// The type of an array that holds them; `None` for what is kept in arrays of another type.
    const DTYPE: Option<DType>;
}

/// A value that a device reads as words.
pub trait DeviceValue: Copy {
    /// Its type in C.
    const TYPE: CType;
    /// Appends its words, the low ones first.
    fn put(&self, words: &mut Vec<u32>);
    /// The value that `words` begin with.
    fn take(words: &[u32]) -> Self;
}

/// A struct that a device reads; made by [`device_struct!`](macro@crate::device_struct).
pub trait DeviceStruct: DeviceValue + Default {
    /// The struct in C.
    const STRUCT: CStruct;
    /// 32-bit words.
    const WORDS: usize = Self::STRUCT.size() / 4;

    /// Its words.
    fn words(&self) -> Vec<u32> {
        let mut words = Vec::with_capacity(Self::WORDS);
        self.put(&mut words);
        words
    }
}

macro_rules! pointees {
    ($($ty:ident $c_name:literal $dtype:expr),*) => {
        $(impl Pointee for $ty {
            const C_NAME: &'static str = $c_name;
            const DTYPE: Option<DType> = $dtype;
        })*
    };
}

pointees!(
    f32 "float" Some(DType::F32),
    i32 "int" Some(DType::I32),
    u32 "unsigned int" Some(DType::U32),
    u8 "unsigned char" Some(DType::U8),
    u16 "unsigned short" None,
    u64 "unsigned long long" None,
    f64 "double" None
);

macro_rules! words_of_four_bytes {
    ($($ty:ident)*) => {
        $(impl DeviceValue for $ty {
            const TYPE: CType = CType::Number(<$ty as Pointee>::C_NAME, 4);
            fn put(&self, words: &mut Vec<u32>) {
                words.push(self.bits());
            }
            fn take(words: &[u32]) -> Self {
                Self::from_bits(words[0])
            }
        })*
    };
}

words_of_four_bytes!(f32 i32 u32);

impl DeviceValue for u64 {
    const TYPE: CType = CType::Number(<u64 as Pointee>::C_NAME, 8);
    fn put(&self, words: &mut Vec<u32>) {
        words.extend([*self as u32, (*self >> 32) as u32]);
    }
    fn take(words: &[u32]) -> Self {
        u64::from(words[0]) | u64::from(words[1]) << 32
    }
}

impl DeviceValue for f64 {
    const TYPE: CType = CType::Number(<f64 as Pointee>::C_NAME, 8);
    fn put(&self, words: &mut Vec<u32>) {
        self.to_bits().put(words);
    }
    fn take(words: &[u32]) -> Self {
        Self::from_bits(u64::take(words))
    }
}

impl<T: DeviceValue, const N: usize> DeviceValue for [T; N] {
    const TYPE: CType = match T::TYPE {
        CType::Number(c_type, bytes) => CType::Array(c_type, bytes, N),
        _ => panic!("arrays of a device's struct hold numbers"),
    };
    fn put(&self, words: &mut Vec<u32>) {
        self.iter().for_each(|value| value.put(words));
    }
    fn take(words: &[u32]) -> Self {
        std::array::from_fn(|i| T::take(&words[i * T::TYPE.size() / 4..]))
    }
}

/// Declares structs that host and device both read: the Rust type, and through it the C code.
///
/// ```
/// use warp_core::device_struct::{DeviceStruct, DeviceValue, declare};
/// warp_core::device_struct! {
///     /// What a kernel says of an update.
///     pub struct Report { n: u32, norm: f64, sums: [f32; 2] }
/// }
/// let report = Report { n: 3, norm: 0.5, sums: [1.0, 2.0] };
/// // The norm begins at a multiple of its size.
/// assert_eq!(report.words()[..2], [3, 0]);
/// assert_eq!((Report::WORDS, Report::take(&report.words())), (6, report));
/// assert!(declare(&[Report::STRUCT]).contains("static_assert(WARP_OFFSET(Report, sums) == 16"));
/// ```
#[macro_export]
macro_rules! device_struct {
    ($(
        $(#[doc = $about:expr])*
        $vis:vis struct $name:ident { $($(#[doc = $doc:expr])* $field:ident : $ty:ty),* $(,)? }
    )*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        #[repr(C)]
        $vis struct $name { $($(#[doc = $doc])* pub $field: $ty,)* }
        impl $crate::device_struct::DeviceStruct for $name {
            const STRUCT: $crate::device_struct::CStruct = $crate::device_struct::CStruct {
                name: stringify!($name),
                members: &[$($crate::device_struct::CMember {
                    name: stringify!($field),
                    of: <$ty as $crate::device_struct::DeviceValue>::TYPE,
                }),*],
            };
        }
        impl $crate::device_struct::DeviceValue for $name {
            const TYPE: $crate::device_struct::CType = $crate::device_struct::CType::Struct(
                &<$name as $crate::device_struct::DeviceStruct>::STRUCT,
            );
            fn put(&self, words: &mut Vec<u32>) {
                let start = words.len();
                $(
                    words.resize(start + ::std::mem::offset_of!($name, $field) / 4, 0);
                    $crate::device_struct::DeviceValue::put(&self.$field, words);
                )*
                words.resize(start + ::std::mem::size_of::<$name>() / 4, 0);
            }
            fn take(words: &[u32]) -> Self {
                Self {$(
                    $field: $crate::device_struct::DeviceValue::take(
                        &words[::std::mem::offset_of!($name, $field) / 4..],
                    ),
                )*}
            }
        }
        impl $crate::device_struct::Pointee for $name {
            const C_NAME: &'static str = stringify!($name);
            const DTYPE: Option<$crate::DType> = None;
        }
        const _: () = {
            const STRUCT: $crate::device_struct::CStruct =
                <$name as $crate::device_struct::DeviceStruct>::STRUCT;
            const OFFSETS: &[usize] = &[$(::std::mem::offset_of!($name, $field)),*];
            let mut i = 0;
            while i < OFFSETS.len() {
                assert!(OFFSETS[i] == STRUCT.offset(i), "a member lies elsewhere in C");
                i += 1;
            }
            assert!(::std::mem::size_of::<$name>() == STRUCT.size(), "its size differs in C");
        };
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::device_struct! {
        /// What is held by another.
        struct Inner { x: f32, wide: u64 }
        struct Outer { first: i32, inner: Inner, sums: [f64; 2], last: u32 }
    }

    #[test]
    fn rust_and_c_have_members_in_the_same_places() {
        let outer = Outer::STRUCT;
        let offsets: Vec<usize> = (0..4).map(|i| outer.offset(i)).collect();
        assert_eq!((offsets, outer.size()), (vec![0, 8, 24, 40], 48));
        let text = declare(&[Inner::STRUCT, Outer::STRUCT]);
        assert!(text.contains(
            "struct Outer {\n    int first;\n    Inner inner;\n    double sums[2];\n    unsigned int last;\n};"
        ));
        assert!(
            text.contains("static_assert(WARP_OFFSET(Outer, inner) == 8, \"Outer.inner moved\");")
        );
        assert!(text.contains("static_assert(sizeof(Outer) == 48"));
    }

    #[test]
    fn words_come_back() {
        let inner = Inner { x: -1.5, wide: 7 << 40 };
        let outer = Outer { first: -2, inner, sums: [0.25, -0.0], last: 9 };
        let words = outer.words();
        assert_eq!((words.len(), words[0], words[1]), (12, -2_i32 as u32, 0));
        assert_eq!(Outer::take(&words), outer);
    }

    #[test]
    fn pointers_say_what_they_point_to() {
        let member = |of| CMember { name: "x", of }.to_string();
        assert_eq!(member(CType::pointer::<f32>(true)), "const float* x");
        assert_eq!(member(CType::pointer::<Inner>(false)), "Inner* x");
    }
}
