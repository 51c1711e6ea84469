//! Row functions: pure functions over one row of some columns, written once in Rust.
//!
//! A file of row functions has its CUDA code beside it, made by `warp translate`. Losses with their
//! derivatives, targets and exploration are such functions.

use warp_core::Draw;

/// Some rows of the columns that a function reads and writes.
#[expect(missing_debug_implementations, reason = "draws are a closure")]
pub struct Rows<'a, 'b> {
    /// How many.
    pub n: usize,
    /// Values of its cells.
    pub cells: &'a [f32],
    /// What it reads.
    pub reads: &'a [Read<'a>],
    /// What it writes; what was there can be read.
    pub writes: &'a mut [Write<'b>],
    /// The random numbers of a row.
    pub draws: &'a dyn Fn(usize) -> Draw,
}

/// A column that is read, f32 `[n, width]`.
#[derive(Debug, Clone, Copy)]
pub struct Read<'a> {
    /// Its numbers.
    pub numbers: &'a [f32],
    /// Numbers per row.
    pub width: usize,
    /// Numbers from a row to the next: `width`, or 0 where all rows read the same.
    pub stride: usize,
}

impl<'a> Read<'a> {
    /// A column with a row for each.
    #[must_use]
    pub fn rows(numbers: &'a [f32], width: usize) -> Self {
        Self { numbers, width, stride: width }
    }

    /// Row number `row`, f32 `[width]`.
    #[inline]
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.numbers[row * self.stride..][..self.width]
    }
}

/// A column that is written, f32 `[n, width]`.
#[derive(Debug)]
pub struct Write<'a> {
    /// Its numbers.
    pub numbers: &'a mut [f32],
    /// Numbers per row.
    pub width: usize,
}

impl Write<'_> {
    /// Row number `row`, f32 `[width]`.
    #[inline]
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.numbers[row * self.width..][..self.width]
    }
}

/// The random numbers of a function that needs none.
#[must_use]
pub fn no_draws(_: usize) -> Draw {
    Draw::new(0, 0, 0, warp_core::Purpose::Learn)
}

/// A row function and its CUDA code.
#[derive(Debug)]
pub struct RowFunction {
    /// Its name in Rust and in the text.
    pub name: &'static str,
    /// The CUDA code of its file; empty if there is none.
    pub text: &'static str,
    /// Whether it takes `&mut Draw` as its first parameter.
    pub draws: bool,
    /// Cells, the next parameters: f32 each.
    pub cells: &'static [&'static str],
    /// Columns that are read: `&[f32]` each.
    pub reads: &'static [&'static str],
    /// Columns that are written: `&mut [f32]` each.
    pub writes: &'static [&'static str],
    /// Whether several threads may do the same at the same time: it writes each number once, and reads none that it writes.
    pub repeatable: bool,
    /// Runs it over some rows on the host.
    pub run: fn(Rows<'_, '_>),
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text
    }
}

#[cfg(feature = "cuda")]
impl RowFunction {
    /// Checks that there is CUDA code.
    pub(crate) fn check_text(&self) -> crate::error::Result<()> {
        match self.text {
            "" => Err(crate::error::Error::Invalid(format!(
                "row function {} has no CUDA text, which `warp translate` makes of its file; it runs on \
                 the CPU",
                self.name
            ))),
            _ => Ok(()),
        }
    }
}

/// Declares row functions of a file, `NAME = function(cells; reads; writes)` with the names of their
/// parameters, in their order; `draw` before them if the first parameter is `&mut Draw`.
///
/// The file beside it that is named first has their CUDA code, which `warp translate` makes of the Rust
/// file; without a name the functions run on processors alone. `repeatable` behind it: they write each number once, and read
/// none that they write.
#[macro_export]
macro_rules! row_functions {
    ($text:literal; $($functions:tt)*) => {
        $crate::row_functions!(@all include_str!($text), false; $($functions)*);
    };
    ($text:literal repeatable; $($functions:tt)*) => {
        $crate::row_functions!(@all include_str!($text), true; $($functions)*);
    };
    (@all $text:expr, $repeatable:expr; $($id:ident = $name:ident $($draw:ident)? (
        $($cell:ident),*; $($read:ident),*; $($write:ident),*
    );)*) => {$(
        #[doc = concat!("[`", stringify!($name), "`] as a row function.")]
        pub static $id: $crate::loss::row::RowFunction = $crate::loss::row::RowFunction {
            name: stringify!($name),
            text: $text,
            draws: $crate::row_functions!(@draws $($draw)?),
            cells: &[$(stringify!($cell)),*],
            reads: &[$(stringify!($read)),*],
            writes: &[$(stringify!($write)),*],
            repeatable: $repeatable,
            run: |rows| {
                let $crate::loss::row::Rows { n, cells, reads, writes, draws: _draws } = rows;
                let ([$($cell),*], [$($read),*], [$($write),*]) = (cells, reads, writes) else {
                    return;
                };
                for row in 0..n {
                    $(let mut $draw = _draws(row);)?
                    self::$name(
                        $(&mut $draw,)? $(*$cell,)* $($read.row(row),)* $($write.row(row)),*
                    );
                }
            },
        };
    )*};
    (@draws) => { false };
    (@draws draw) => { true };
    ($($functions:tt)*) => { $crate::row_functions!(@all "", false; $($functions)*); };
}
pub use crate::row_functions;

#[cfg(test)]
mod tests {
    use super::super::{deterministic, sac};
    use super::RowFunction;

    /// What stands behind `name[..]` wherever it does in `text`.
    fn behind<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
        let of = |(at, found): (usize, &str)| {
            let alone = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let (_, rest) = text[at + found.len()..].split_once(']')?;
            alone.then_some(rest)
        };
        text.match_indices(&format!("{name}[")).filter_map(of).collect()
    }

    fn writes_once(RowFunction { name, text, writes, .. }: &RowFunction) {
        let (_, from) = text.split_once(&format!("void {name}(")).unwrap();
        let (body, _) = from.split_once("\n}").unwrap();
        for column in *writes {
            let found = behind(body, column);
            assert!(!found.is_empty(), "{name} does not write {column}");
            assert!(found.iter().all(|rest| rest.starts_with(" = ")), "{name} reads {column}");
        }
    }

    #[test]
    fn repeatable_functions_write_once_and_do_not_read_what_they_write() {
        use deterministic as d;
        let of_sac =
            [&sac::SAMPLE_ACTION, &sac::CRITIC_LOSS, &sac::ACTOR_LOSS, &sac::ACTOR_GRADIENT];
        let others = [&sac::TEMPERATURE_LOSS, &sac::ACT, &d::ACTOR_GRADIENT, &d::ACTOR_LOSS];
        let twins = [&d::TWIN_CRITIC_LOSS, &d::CRITIC_LOSS, &d::SMOOTH, &d::SQUASH, &d::OUTPUTS];
        for function in of_sac.into_iter().chain(others).chain(twins) {
            assert!(function.repeatable);
            writes_once(function);
        }
    }
}
