//! Small arrays in a state by value: `position: [f32; 3]`.
//!
//! Each element is a field of its own, called `position[0]`: a column of the store, like any scalar. So
//! for every element, neighbouring replicas are adjacent in memory, where vectors of a CPU and threads of
//! a GPU load them at once, and code that stores, compares or restores states need not know about arrays.
//! Only bodies, in Rust and in C, see the elements as one array.

use crate::state::{Bits, DType, Field, FieldSource};

/// Maximum number of elements of a state with arrays: each is a pointer that is passed to kernels, twice.
pub const MAX_ELEMENTS: usize = 128;

/// What a field of a state by value is: a number, or an array of a fixed length.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a state by value is made of f32, i32 and u32 and of arrays of them, but not of `{Self}`"
)]
pub trait Value: Copy {
    /// Type of one element.
    const DTYPE: DType;
    /// Nothing but zeros.
    fn zero() -> Self;
    /// The next fields of a source.
    fn load<'a>(source: &mut impl FieldSource<'a>) -> Self;
    /// Hands out the bits of every element, the first one as field `first`; the number of the next field.
    fn save(self, first: usize, put: &mut impl FnMut(usize, u32)) -> usize;
}

impl<T: Bits> Value for T {
    const DTYPE: DType = T::DTYPE;

    #[inline(always)]
    fn zero() -> Self {
        T::default()
    }
    #[inline(always)]
    fn load<'a>(source: &mut impl FieldSource<'a>) -> Self {
        T::from_bits(source.bits())
    }
    #[inline(always)]
    fn save(self, first: usize, put: &mut impl FnMut(usize, u32)) -> usize {
        put(first, self.bits());
        first + 1
    }
}

impl<T: Bits, const N: usize> Value for [T; N] {
    const DTYPE: DType = T::DTYPE;

    #[inline(always)]
    fn zero() -> Self {
        [T::default(); N]
    }
    // A loop and no closure, so that it is compiled for its caller's vectors.
    #[inline(always)]
    fn load<'a>(source: &mut impl FieldSource<'a>) -> Self {
        let mut elements = Self::zero();
        for element in &mut elements {
            *element = T::from_bits(source.bits());
        }
        elements
    }
    #[inline(always)]
    fn save(self, first: usize, put: &mut impl FnMut(usize, u32)) -> usize {
        for (i, element) in self.into_iter().enumerate() {
            put(first + i, element.bits());
        }
        first + N
    }
}

/// The fields of an array's elements, from a list of names that is long enough for every array.
#[doc(hidden)]
#[must_use]
pub const fn elements<const N: usize>(
    names: &[&'static str; MAX_ELEMENTS],
    dtype: DType,
) -> [Field; N] {
    assert!(N > 0, "an array of a state has at least one element");
    assert!(
        N <= MAX_ELEMENTS,
        "an array of a state by value has at most 128 elements; a larger one is a row, whose length is a \
         name that `Env::dims` gives a size"
    );
    let mut fields = [Field { name: "", dtype, dims: &[] }; N];
    let mut i = 0;
    while i < N {
        fields[i].name = names[i];
        i += 1;
    }
    fields
}

/// How many fields there are in `parts`.
#[doc(hidden)]
#[must_use]
pub const fn count(parts: &[&[Field]]) -> usize {
    let (mut n, mut part) = (0, 0);
    while part < parts.len() {
        n += parts[part].len();
        part += 1;
    }
    assert!(
        n <= MAX_ELEMENTS,
        "a state by value that has arrays has at most 128 elements; larger arrays are rows, whose lengths \
         are names that `Env::dims` gives sizes"
    );
    n
}

/// The fields of `parts`, one after the other.
#[doc(hidden)]
#[must_use]
pub const fn flat<const N: usize>(parts: &[&[Field]]) -> [Field; N] {
    let mut fields = [Field { name: "", dtype: DType::F32, dims: &[] }; N];
    let (mut n, mut part) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            fields[n] = parts[part][i];
            n += 1;
            i += 1;
        }
        part += 1;
    }
    fields
}

/// A name as in [`state!`](macro@crate::state): for `position[2]` the array and the element, for any
/// other field only the name.
#[must_use]
pub fn element_of(name: &str) -> (&str, Option<usize>) {
    let split = || {
        let (array, rest) = name.split_once('[')?;
        Some((array, rest.strip_suffix(']')?.parse().ok()?))
    };
    split().map_or((name, None), |(array, element)| (array, Some(element)))
}

/// Fields as they were declared, by the names of their elements in order: each name once, with the length
/// of an array.
#[must_use]
pub fn declared<'n>(names: impl Iterator<Item = &'n str>) -> Vec<(&'n str, Option<usize>)> {
    let mut fields: Vec<(&str, Option<usize>)> = Vec::new();
    for name in names {
        match (element_of(name), fields.last_mut()) {
            ((array, Some(_)), Some((last, Some(len)))) if *last == array => *len += 1,
            ((array, element), _) => fields.push((array, element.map(|_| 1))),
        }
    }
    fields
}

/// The fields of one declaration, as a constant slice.
#[doc(hidden)]
#[macro_export]
macro_rules! __value_fields {
    ($field:ident, [$ty:ident; $len:expr]) => {{
        const NAMES: [&str; $crate::by_value::MAX_ELEMENTS] = $crate::__element_names!($field:
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
            34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
            65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
            96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119
            120 121 122 123 124 125 126 127);
        const FIELDS: &[$crate::Field] =
            &$crate::by_value::elements::<{ $len }>(&NAMES, <$ty as $crate::Bits>::DTYPE);
        FIELDS
    }};
    ($field:ident, $ty:ident) => {
        &[$crate::__field!($field, $ty)]
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __element_names {
    ($field:ident : $($i:literal)*) => {
        [$(concat!(stringify!($field), "[", $i, "]")),*]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_put_together_again() {
        let names = ["x", "p[0]", "p[1]", "q[0]", "y", "p_2"];
        let fields = [("x", None), ("p", Some(2)), ("q", Some(1)), ("y", None), ("p_2", None)];
        assert_eq!(declared(names.into_iter()), fields);
        assert_eq!(element_of("board[11]"), ("board", Some(11)));
        assert_eq!(element_of("board"), ("board", None));
    }
}
