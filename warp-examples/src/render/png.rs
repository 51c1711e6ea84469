//! PNG files.

use anyhow::{Context, Result};

/// The file of these pixels, three bytes (red, green, blue) each, row by row.
pub(crate) fn png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let about = "cannot make a PNG file";
    let mut writer = encoder.write_header().context(about)?;
    writer.write_image_data(pixels).context(about)?;
    writer.finish().context(about)?;
    Ok(file)
}
