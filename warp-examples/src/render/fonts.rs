//! The fonts in images: DejaVu Sans, reduced to Latin characters. Its licence: `fonts/LICENSE`.

/// TrueType data.
pub(crate) const REGULAR: &[u8] = include_bytes!("../../fonts/DejaVuSans-latin.ttf");
/// TrueType data.
pub(crate) const BOLD: &[u8] = include_bytes!("../../fonts/DejaVuSans-Bold-latin.ttf");
