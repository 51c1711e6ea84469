//! PNG files.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Writes pixels, three bytes (red, green, blue) each, row by row.
pub(crate) fn write_png(path: &Path, width: u32, height: u32, pixels: &[u8]) -> Result<()> {
    let shown = || format!("cannot write \"{}\"", path.display());
    let file = BufWriter::new(File::create(path).with_context(shown)?);
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().with_context(shown)?;
    writer.write_image_data(pixels).with_context(shown)?;
    writer.finish().with_context(shown)
}
