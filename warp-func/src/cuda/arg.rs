//! Arguments of kernels. An address is always one of an array that the argument keeps alive, so
//! that code without `unsafe` can't make one up.

use super::signature::{Definition, Parameter, parameter_of, parts_of};
use std::ffi::c_void;
use std::sync::Arc;
use warp_core::device_struct::{CMember, CStruct, CType};
use warp_data::cuda::{Device, DeviceArray};

/// An argument of a kernel.
#[derive(Debug, Clone)]
pub enum Arg {
    /// An array: [`Arg::array`].
    Array(WholeArray),
    /// A number.
    U32(u32),
    /// A number.
    I32(i32),
    /// A number.
    U64(u64),
    /// A number.
    F32(f32),
    /// A struct of this C name, by value, that holds numbers alone.
    Struct(&'static str, Vec<u8>),
    /// A struct of pointers, by value: [`Arg::pointers`].
    Pointers(PointerStruct),
    /// A struct of numbers and pointers, by value: [`super::KernelArgs::arg`].
    Record(Record),
    /// Structs side by side in an array: [`Structs`].
    Structs(Structs),
}

/// A struct of numbers and pointers as an argument.
#[derive(Debug, Clone)]
pub struct Record {
    of: CStruct,
    words: Arc<[u32]>,
    /// Keeps alive what the pointers point to.
    arrays: Arc<[DeviceArray]>,
}

impl Record {
    /// The struct `of` these words, in which the addresses of `arrays` lie where it declares pointers.
    pub(super) fn new(of: CStruct, words: Vec<u32>, arrays: Vec<DeviceArray>) -> Self {
        Self { of, words: words.into(), arrays: arrays.into() }
    }
}

/// Structs side by side in the device's memory, which keep alive what they point to; the kernel gets a pointer
/// to the first.
#[derive(Debug, Clone)]
pub struct Structs {
    address: u64,
    array: DeviceArray,
    fields: Arc<[Vec<Arg>]>,
}

impl Structs {
    /// A struct of each of `rows`, whose fields are the arguments one after the other: structs, whose sizes are
    /// multiples of 8.
    ///
    /// # Errors
    /// Too little memory.
    ///
    /// # Panics
    /// If an argument is no such struct.
    pub fn new(device: &Device, rows: Vec<Vec<Arg>>) -> warp_data::Result<Self> {
        let words: Vec<u32> = rows.iter().flatten().flat_map(Arg::words).collect();
        let array = DeviceArray::from_slice(device, "structs", &[words.len()], &words)?;
        Ok(Self { address: array.ptr(), array, fields: rows.into() })
    }
}

/// An array as an argument; the kernel gets a pointer to its first element, which nobody can make up:
///
/// ```compile_fail
/// use warp_func::cuda::{Arg, DeviceArray, WholeArray};
/// fn forge(array: DeviceArray) -> Arg {
///     Arg::Array(WholeArray { address: 64, array, needed: 1 })
/// }
/// ```
#[derive(Debug, Clone)]
pub struct WholeArray {
    address: u64,
    array: DeviceArray,
    needed: usize,
}

/// A struct of pointers as an argument.
#[derive(Debug, Clone)]
pub struct PointerStruct {
    name: &'static str,
    addresses: Arc<[u64]>,
    /// Keeps alive what the pointers point to.
    arrays: Arc<[DeviceArray]>,
}

/// A pointer to an element of an array, or to nothing.
#[derive(Debug, Clone, Default)]
pub struct Pointer<'a>(Option<(&'a DeviceArray, usize)>);

impl<'a> Pointer<'a> {
    /// A pointer to element `element`.
    ///
    /// # Panics
    /// If the array ends before it.
    #[must_use]
    pub fn to(array: &'a DeviceArray, element: usize) -> Self {
        assert!(element <= array.len(), "array \"{}\" has no element {element}", array.name());
        Self(Some((array, element)))
    }

    fn address(&self) -> u64 {
        self.0.map_or(0, |(array, element)| array.ptr() + (element * array.dtype().size()) as u64)
    }
}

impl<'a> From<&'a DeviceArray> for Pointer<'a> {
    fn from(array: &'a DeviceArray) -> Self {
        Self(Some((array, 0)))
    }
}

impl Arg {
    /// An array of which the kernel touches at most the first `needed` elements.
    #[must_use]
    pub fn array(array: &DeviceArray, needed: usize) -> Self {
        Self::Array(WholeArray { address: array.ptr(), array: array.clone(), needed })
    }

    /// The struct `name` of these pointers, in the order of its fields.
    #[must_use]
    pub fn pointers<'a>(
        name: &'static str,
        pointers: impl IntoIterator<Item = Pointer<'a>>,
    ) -> Self {
        let pointers: Vec<_> = pointers.into_iter().collect();
        let arrays: Arc<[DeviceArray]> =
            pointers.iter().filter_map(|pointer| Some(pointer.0?.0.clone())).collect();
        let addresses = pointers.iter().map(Pointer::address).collect();
        Self::Pointers(PointerStruct { name, addresses, arrays })
    }

    /// Whether it leads to an array that is only planned.
    pub(super) fn is_planned(&self) -> bool {
        let some = |arrays: &[DeviceArray]| arrays.iter().any(DeviceArray::is_planned);
        match self {
            Self::Array(whole) => whole.array.is_planned(),
            Self::Pointers(PointerStruct { arrays, .. }) | Self::Record(Record { arrays, .. }) => {
                some(arrays)
            }
            Self::Structs(Structs { array, fields, .. }) => {
                array.is_planned() || fields.iter().flatten().any(Self::is_planned)
            }
            Self::U32(_) | Self::I32(_) | Self::U64(_) | Self::F32(_) | Self::Struct(..) => false,
        }
    }

    /// The words of a struct.
    fn words(&self) -> Vec<u32> {
        let word =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        match self {
            Arg::Struct(_, bytes) if bytes.len().is_multiple_of(8) => {
                bytes.chunks(4).map(word).collect()
            }
            Arg::Pointers(PointerStruct { addresses, .. }) => {
                addresses.iter().flat_map(|at| [*at as u32, (*at >> 32) as u32]).collect()
            }
            other => panic!("{other:?} is no struct that could lie in an array"),
        }
    }

    pub(super) fn address(&self) -> *mut c_void {
        let address: *const c_void = match self {
            Arg::Array(WholeArray { address, .. })
            | Arg::Structs(Structs { address, .. })
            | Arg::U64(address) => std::ptr::from_ref(address).cast(),
            Arg::U32(value) => std::ptr::from_ref(value).cast(),
            Arg::I32(value) => std::ptr::from_ref(value).cast(),
            Arg::F32(value) => std::ptr::from_ref(value).cast(),
            Arg::Struct(_, bytes) => bytes.as_ptr().cast(),
            Arg::Pointers(PointerStruct { addresses, .. }) => addresses.as_ptr().cast(),
            Arg::Record(Record { words, .. }) => words.as_ptr().cast(),
        };
        address.cast_mut()
    }

    /// Bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Arg::Array(_) | Arg::Structs(_) | Arg::U64(_) => 8,
            Arg::U32(_) | Arg::I32(_) | Arg::F32(_) => 4,
            Arg::Struct(_, bytes) => bytes.len(),
            Arg::Pointers(PointerStruct { addresses, .. }) => 8 * addresses.len(),
            Arg::Record(Record { words, .. }) => 4 * words.len(),
        }
    }

    /// What is wrong with this argument for `parameter`.
    pub(super) fn mismatch(&self, parameter: &Parameter) -> Option<String> {
        let expects = |what: &str, fits: bool| {
            (!fits).then(|| format!("is {what}, but the kernel expects {parameter:?}"))
        };
        let value = |c_type: &str| {
            expects(c_type, matches!(parameter, Parameter::Value(wanted) if wanted == c_type))
        };
        match self {
            Arg::Array(WholeArray { array, needed, .. }) if *needed > array.len() => {
                let (name, len) = (array.name(), array.len());
                Some(format!("is array \"{name}\" of {len} elements, but {needed} are needed"))
            }
            Arg::Array(WholeArray { array, .. }) => {
                let dtype = array.dtype();
                let fits = matches!(parameter, Parameter::Pointer(wanted)
                    if wanted.is_none_or(|wanted| wanted == dtype));
                expects(&format!("an array of {dtype}"), fits)
            }
            Arg::Structs(Structs { fields, .. }) => expects(
                "an array of structs",
                matches!(parameter, Parameter::Structs { name, definitions }
                    if fields.iter().all(|row| makes(row, name, definitions))),
            ),
            Arg::U32(_) => value("unsigned int"),
            Arg::I32(_) => value("int"),
            Arg::U64(_) => value("unsigned long long"),
            Arg::F32(_) => value("float"),
            Arg::Struct(name, _) => expects(
                &format!("{name}, a struct of numbers"),
                matches!(parameter, Parameter::Struct { name: wanted, pointers: false, .. }
                    if wanted == name),
            ),
            // Addresses may be passed as numbers, but not the other way round.
            Arg::Pointers(PointerStruct { name, .. }) => expects(
                &format!("{name}, a struct of pointers"),
                matches!(parameter, Parameter::Struct { name: wanted, .. } if wanted == name),
            ),
            Arg::Record(Record { of, .. }) => expects(
                &format!("{of:?}"),
                matches!(parameter, Parameter::Struct { name, definitions, .. }
                    if name == of.name && defines(definitions, of)),
            ),
        }
    }
}

/// Whether the arguments `row` make a struct `name`: one that is it, or one for each of its members.
fn makes(row: &[Arg], name: &str, definitions: &[Definition]) -> bool {
    let fits = |arg: &Arg, parameter: &Parameter| arg.mismatch(parameter).is_none();
    let whole = || parameter_of(definitions, name).is_some_and(|whole| fits(&row[0], &whole));
    let parts = || {
        parts_of(definitions, name).is_some_and(|parts| {
            parts.len() == row.len() && row.iter().zip(&parts).all(|(arg, part)| fits(arg, part))
        })
    };
    (row.len() == 1 && whole()) || parts()
}

/// Whether a text defines `of`, and the structs in it, with the same members.
fn defines(definitions: &[Definition], of: &CStruct) -> bool {
    let Some(definition) = definitions.iter().find(|d| d.name == of.name) else { return false };
    let same = |(member, text): (&CMember, &String)| {
        let inner = if let CType::Struct(inner) = member.of { Some(inner) } else { None };
        member.to_string() == *text && inner.is_none_or(|inner| defines(definitions, inner))
    };
    definition.members.len() == of.members.len()
        && of.members.iter().zip(&definition.members).all(same)
}

#[cfg(test)]
mod tests {
    use super::super::signature::parse;
    use super::*;

    const TEXT: &str = "struct Tables { const float* rows; };\n\
        struct Run { unsigned long long seed; };\n\
        struct OfRun {\n    Tables tables; // Where it looks.\n    Run run;\n};\n\
        extern \"C\" __global__ void many(const OfRun* runs) {}\n\
        extern \"C\" __global__ void tables(const Tables* all) {}\n\
        extern \"C\" __global__ void seeds(const Run* all) {}\n";

    fn takes(kernel: &str, row: &[Arg]) -> bool {
        match &parse(TEXT, kernel).unwrap()[0] {
            Parameter::Structs { name, definitions } => makes(row, name, definitions),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn structs_with_pointers_are_made_of_arguments_that_hold_them() {
        let tables = || Arg::pointers("Tables", []);
        let run = || Arg::Struct("Run", vec![0; 8]);
        assert!(takes("many", &[tables(), run()]) && takes("tables", &[tables()]));
        // Numbers that pose as addresses.
        assert!(!takes("tables", &[Arg::Struct("Tables", vec![64; 8])]));
        assert!(!takes("many", &[Arg::Struct("Tables", vec![64; 8]), run()]));
        assert!(!takes("many", &[Arg::Struct("OfRun", vec![64; 16])]));
        assert!(!takes("many", &[run(), tables()]) && !takes("many", &[tables()]));
        assert!(!takes("many", &[Arg::pointers("Other", []), run()]));
        // Without pointers an array of numbers will do.
        assert_eq!(parse(TEXT, "seeds").unwrap(), [Parameter::Pointer(None)]);
    }
}
