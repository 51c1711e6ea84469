//! The header of an `.npy` file: a Python dictionary of three keys, as `numpy.lib.format` describes it.

use super::error::{Result, ensure, unfit};
use super::{Numeric, Order};

/// Bytes that every `.npy` file begins with.
const MAGIC: &[u8] = b"\x93NUMPY";

/// What the header tells, and the elements behind it.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) dtype: Numeric,
    /// Whether the first byte of an element is its highest.
    pub(super) big_endian: bool,
    pub(super) order: Order,
    pub(super) shape: Vec<usize>,
    pub(super) elements: &'a [u8],
}

/// Reads the header of `bytes`, a whole `.npy` file.
///
/// # Errors
/// A header that is cut, or that NumPy does not write for numbers.
pub(super) fn read(bytes: &[u8]) -> Result<Header<'_>> {
    let at = |i: usize| bytes.get(i).copied().map_or(0, usize::from);
    let (begin, length): (usize, usize) = match at(MAGIC.len()) {
        1 => (10, at(8) | at(9) << 8),
        _ => (12, at(8) | at(9) << 8 | at(10) << 16 | at(11) << 24),
    };
    let end = begin.checked_add(length).filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| unfit!("its header is truncated: it has {} bytes", bytes.len()))?;
    ensure!(bytes.starts_with(MAGIC), "it does not begin as an .npy file does");
    let strange =
        || unfit!("its header of {length} bytes is not one that NumPy writes for numbers");
    let text = std::str::from_utf8(&bytes[begin..end]).map_err(|_| strange())?;
    let Fields { descr, fortran_order, shape } = Text(text).fields().ok_or_else(strange)?;
    let dtype = Numeric::of(descr)
        .ok_or_else(|| unfit!("its dtype '{descr}' is none of those that are supported"))?;
    let order = if fortran_order { Order::Columns } else { Order::Rows };
    let big_endian = descr.starts_with('>');
    Ok(Header { dtype, big_endian, order, shape, elements: &bytes[end..] })
}

/// The dictionary's three values.
struct Fields<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// What is not read yet. Every function is `None` where something else stands there.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn fields(mut self) -> Option<Fields<'a>> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.take("{")?;
        while self.take("}").is_none() {
            let key = self.string()?;
            self.take(":")?;
            match key {
                "descr" => descr = Some(self.string()?),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return None,
            }
            if self.take(",").is_none() {
                self.take("}")?;
                break;
            }
        }
        let rest = self.0.trim_start();
        rest.is_empty().then_some(Fields {
            descr: descr?,
            fortran_order: fortran_order?,
            shape: shape?,
        })
    }

    /// Goes past `token` and the spaces before it.
    fn take(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|c| "'\"".contains(*c))?;
        let (string, rest) = text[1..].split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        if self.take("True").is_some() {
            return Some(true);
        }
        self.take("False").map(|()| false)
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut numbers = Vec::new();
        self.take("(")?;
        while self.take(")").is_none() {
            let text = self.0.trim_start();
            let end = text.find(|c: char| !c.is_ascii_digit())?;
            numbers.push(text[..end].parse().ok()?);
            self.0 = &text[end..];
            if self.take(",").is_none() {
                self.take(")")?;
                break;
            }
        }
        Some(numbers)
    }
}
