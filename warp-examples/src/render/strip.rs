//! Some moments of an episode side by side, as one PNG file.

use super::Moment;
use super::png::png;
use crate::named_file;
use anyhow::{Result, ensure};
use std::path::Path;

/// Pictures in a row.
const COLUMNS: usize = 4;
/// Pixels between them.
const GAP: usize = 6;

/// Writes `n` moments, evenly chosen, the first and the last one among them.
///
/// # Errors
/// A file that can't be written, or too little memory.
pub fn write_strip(path: &Path, moments: &[Moment], width: u32, n: usize) -> Result<()> {
    ensure!(!moments.is_empty(), "there is nothing to show");
    let n = n.min(moments.len());
    let chosen = (0..n).map(|i| &moments[i * (moments.len() - 1) / (n - 1).max(1)]);
    let frames = chosen.map(|moment| moment.picture(width)).collect::<Result<Vec<_>>>()?;
    let (one_width, one_height) = (frames[0].width as usize, frames[0].height as usize);
    let columns = n.min(COLUMNS);
    let size = |count: usize, one: usize| count * one + (count - 1) * GAP;
    let (width, height) = (size(columns, one_width), size(n.div_ceil(columns), one_height));
    let mut pixels = vec![255; 3 * width * height];
    for (i, frame) in frames.iter().enumerate() {
        let (left, top) = (i % columns * (one_width + GAP), i / columns * (one_height + GAP));
        for (y, row) in frame.pixels.chunks_exact(3 * one_width).enumerate() {
            pixels[3 * ((top + y) * width + left)..][..row.len()].copy_from_slice(row);
        }
    }
    let file = png(&pixels, width as u32, height as u32)?;
    named_file::write(path, file)
}
