//! Pixels of a chart: rectangles that are drawn by themselves and then put side by side.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

/// A rectangle is drawn this much larger and then reduced, which smooths every edge.
pub(super) const OVERSAMPLING: u32 = 2;

/// What a rectangle is drawn on.
pub(super) type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// A rectangle of pixels, three bytes (red, green, blue) each, row by row.
pub(super) struct Pixels {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) bytes: Vec<u8>,
}

impl Pixels {
    /// A white rectangle.
    pub(super) fn white((width, height): (u32, u32)) -> Self {
        Self { width, height, bytes: vec![u8::MAX; 3 * width as usize * height as usize] }
    }

    /// A white rectangle with what `draw` adds, for which all lengths are [`OVERSAMPLING`] times as large.
    pub(super) fn drawn(
        size: (u32, u32),
        draw: impl FnOnce(&Area<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut large = Self::white((size.0 * OVERSAMPLING, size.1 * OVERSAMPLING));
        let large_size = (large.width, large.height);
        let area = BitMapBackend::with_buffer(&mut large.bytes, large_size).into_drawing_area();
        draw(&area)?;
        area.present().map_err(broken)?;
        drop(area);
        Ok(large.reduced())
    }

    /// Each pixel the mean of two by two.
    fn reduced(&self) -> Self {
        const { assert!(OVERSAMPLING == 2) };
        let (width, height) = (self.width / OVERSAMPLING, self.height / OVERSAMPLING);
        let mut bytes = vec![0; 3 * width as usize * height as usize];
        let own = 3 * self.width as usize;
        let mut sums = vec![0_u16; own];
        // Loops over neighbours are fast in every build.
        for (to, rows) in bytes.chunks_exact_mut(own / 2).zip(self.bytes.chunks_exact(2 * own)) {
            let (upper, lower) = rows.split_at(own);
            for ((sum, a), b) in sums.iter_mut().zip(upper).zip(lower) {
                *sum = u16::from(*a) + u16::from(*b);
            }
            for (to, sums) in to.as_chunks_mut().0.iter_mut().zip(sums.as_chunks().0) {
                let [a, b, c, d, e, f]: [u16; 6] = *sums;
                *to = [(a + d) / 4, (b + e) / 4, (c + f) / 4].map(|mean| mean as u8);
            }
        }
        Self { width, height, bytes }
    }

    /// Puts a rectangle with its upper left corner there; it must not reach over the right edge.
    pub(super) fn put(&mut self, piece: &Self, (left, top): (u32, u32)) {
        let (own, row) = (3 * self.width as usize, 3 * piece.width as usize);
        let first = top as usize * own + 3 * left as usize;
        let rows = self.bytes[first..].chunks_mut(own);
        rows.zip(piece.bytes.chunks_exact(row)).for_each(|(to, from)| {
            to[..row].copy_from_slice(from);
        });
    }
}

/// What the drawing library could not do.
pub(super) fn broken<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("cannot draw the curves: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_are_reduced_and_lie_where_they_are_put() {
        // One of four pixels is black.
        let drawn = Pixels::drawn((2, 1), |area| area.draw_pixel((2, 1), &BLACK).map_err(broken));
        let drawn = drawn.unwrap();
        assert_eq!(drawn.bytes, [255, 255, 255, 191, 191, 191]);
        let mut whole = Pixels::white((3, 2));
        whole.put(&drawn, (1, 1));
        let reds: Vec<u8> = whole.bytes.iter().step_by(3).copied().collect();
        assert_eq!(reds, [255, 255, 255, 255, 255, 191]);
    }
}
