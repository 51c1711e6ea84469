//! Row functions: pure functions over one row of some columns, written once in Rust.
//!
//! A file of row functions has its CUDA text beside it, made by `warp translate`. Losses with their
//! derivatives, targets and exploration are such functions.

use warp_core::Draw;

/// One row of the columns that a function reads and writes.
#[derive(Debug)]
pub struct Row<'a> {
    /// Values of its cells.
    pub cells: &'a [f32],
    /// What it reads, f32 `[width]` each.
    pub reads: &'a [&'a [f32]],
    /// What it writes, f32 `[width]` each; what was there can be read.
    pub writes: &'a mut [&'a mut [f32]],
    /// The row's draws.
    pub draw: Draw,
}

/// A row function and its CUDA text.
#[derive(Debug)]
pub struct RowFunction {
    /// Its name in Rust and in the text.
    pub name: &'static str,
    /// The CUDA text of its file.
    pub text: &'static str,
    /// Whether it takes `&mut Draw` as its first parameter.
    pub draws: bool,
    /// Cells, the next parameters: f32 each.
    pub cells: &'static [&'static str],
    /// Columns that are read: `&[f32]` each.
    pub reads: &'static [&'static str],
    /// Columns that are written: `&mut [f32]` each.
    pub writes: &'static [&'static str],
    /// Runs it on the host.
    pub run: fn(Row<'_>),
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text
    }
}

/// Declares row functions of a file, `NAME = function(cells; reads; writes)` with the names of their
/// parameters, in their order; `draw` before them if the first parameter is `&mut Draw`.
macro_rules! row_functions {
    ($text:literal; $($id:ident = $name:ident $($draw:ident)? (
        $($cell:ident),*; $($read:ident),*; $($write:ident),*
    );)*) => {$(
        #[doc = concat!("[`", stringify!($name), "`] as a row function.")]
        pub static $id: $crate::loss::row::RowFunction = $crate::loss::row::RowFunction {
            name: stringify!($name),
            text: include_str!($text),
            draws: $crate::loss::row::row_functions!(@draws $($draw)?),
            cells: &[$(stringify!($cell)),*],
            reads: &[$(stringify!($read)),*],
            writes: &[$(stringify!($write)),*],
            run: |row| {
                let $crate::loss::row::Row { cells, reads, writes, draw: _draw } = row;
                let ([$($cell),*], [$($read),*], [$($write),*]) = (cells, reads, writes) else {
                    return;
                };
                $(let mut $draw = _draw;)?
                self::$name($(&mut $draw,)? $(*$cell,)* $($read,)* $($write),*)
            },
        };
    )*};
    (@draws) => { false };
    (@draws draw) => { true };
}
pub(crate) use row_functions;
