//! Animated GIF files: every frame holds what has changed since the one before.

use super::Moment;
use super::canvas::Frame;
use super::palette::{MOST, Palette, runs};
use crate::named_file;
use anyhow::{Context, Result};
use gif::{DisposalMethod, Encoder, Repeat};
use std::borrow::Cow;
use std::iter::repeat_n;
use std::path::Path;

/// Frames from which the colours are taken.
const SAMPLES: usize = 24;
/// How long the last frame stays, hundredths of a second.
const PAUSE: u16 = 100;
/// The number that stands for "as before".
const SAME: u8 = MOST as u8;

/// Writes a film that is repeated for ever.
///
/// # Errors
/// A file that can't be written, or too little memory.
pub fn write_gif(path: &Path, moments: &[Moment], width: u32, fps: u32) -> Result<()> {
    let about = "cannot make a GIF file";
    let every = moments.len().div_ceil(SAMPLES).max(1);
    let samples = moments.iter().step_by(every).map(|moment| moment.picture(width));
    let samples = samples.collect::<Result<Vec<_>>>()?;
    let mut palette = Palette::of(&samples);
    let first = samples.into_iter().next().context("there is nothing to show")?;
    let (columns, rows) = (first.width as u16, first.height as u16);
    let mut colours = palette.bytes();
    colours.resize(3 * (MOST + 1), 0);
    let mut encoder = Encoder::new(Vec::new(), columns, rows, &colours).context(about)?;
    encoder.set_repeat(Repeat::Infinite).context(about)?;
    let mut before: Vec<u8> = Vec::new();
    for (i, moment) in moments.iter().enumerate() {
        let mut now = numbers(&moment.picture(width)?, &mut palette);
        keep_height(&mut now, &before, usize::from(columns) * usize::from(rows));
        let mut frame = changes(&before, &now, columns, rows);
        frame.delay = if i + 1 == moments.len() { PAUSE } else { delay(i, fps) };
        encoder.write_frame(&frame).context(about)?;
        before = now;
    }
    named_file::write(path, encoder.into_inner().context(about)?)
}

/// How long frame `i` is shown, hundredths of a second: right in the mean, if not for each.
fn delay(i: usize, fps: u32) -> u16 {
    let time = |i: usize| (100 * i as u64 + u64::from(fps) / 2) / u64::from(fps.max(1));
    (time(i + 1) - time(i)) as u16
}

fn numbers(frame: &Frame, palette: &mut Palette) -> Vec<u8> {
    runs(frame).flat_map(|run| repeat_n(palette.number(run[0]), run.len())).collect()
}

/// Cuts what is higher than the film and leaves what was below a lower picture: what a scene shows may change in an episode,
/// and so its height.
fn keep_height(now: &mut Vec<u8>, before: &[u8], pixels: usize) {
    now.truncate(pixels);
    now.extend_from_slice(before.get(now.len()..).unwrap_or_default());
}

/// The smallest rectangle in which something has changed, and in it only that.
fn changes(before: &[u8], now: &[u8], width: u16, height: u16) -> gif::Frame<'static> {
    let columns = usize::from(width);
    // Before the first frame there is nothing.
    let row = |y: usize| {
        let range = y * columns..(y + 1) * columns;
        (before.get(range.clone()).unwrap_or_default(), &now[range])
    };
    let is_changed = |y: &usize| row(*y).0 != row(*y).1;
    let changed: Vec<usize> = (0..usize::from(height)).filter(is_changed).collect();
    let pairs = |y: &usize| row(*y).0.iter().zip(row(*y).1);
    let alike = |(before, now): &(&u8, &u8)| before == now;
    let same_on_left = changed.iter().map(|y| pairs(y).take_while(alike).count()).min();
    let same_on_right = changed.iter().map(|y| pairs(y).rev().take_while(alike).count()).min();
    // A frame in which nothing moves still takes its time: one pixel.
    let (left, right) = same_on_left.zip(same_on_right).map_or((0, 1), |(l, r)| (l, columns - r));
    let rows = changed.first().map_or(0, |y| *y)..changed.last().map_or(1, |y| y + 1);
    let mut buffer = Vec::with_capacity(rows.len() * (right - left));
    for (before, now) in rows.clone().map(row) {
        let number = |x: usize| if before.get(x) == Some(&now[x]) { SAME } else { now[x] };
        buffer.extend((left..right).map(number));
    }
    gif::Frame {
        left: left as u16,
        top: rows.start as u16,
        width: (right - left) as u16,
        height: rows.len() as u16,
        transparent: Some(SAME),
        dispose: DisposalMethod::Keep,
        buffer: Cow::Owned(buffer),
        ..gif::Frame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_up() {
        let total = |fps| (0..300).map(|i| u32::from(delay(i, fps))).sum::<u32>();
        assert_eq!((total(30), total(50), total(25)), (1000, 600, 1200));
    }

    #[test]
    fn a_frame_holds_the_changes() {
        let before = [1, 1, 1, 1, 1, 1, 1, 1, 1];
        let now = [1, 1, 1, 1, 2, 1, 1, 1, 3];
        let frame = changes(&before, &now, 3, 3);
        assert_eq!((frame.left, frame.top, frame.width, frame.height), (1, 1, 2, 2));
        assert_eq!(*frame.buffer, [2, SAME, SAME, 3]);
        let frame = changes(&now, &now, 3, 3);
        assert_eq!(*frame.buffer, [SAME]);
        assert_eq!(changes(&[], &now, 3, 3).buffer.len(), 9);
    }

    #[test]
    fn all_frames_are_as_high_as_the_first() {
        let kept = |now: &[u8], before: &[u8]| {
            let mut now = now.to_vec();
            keep_height(&mut now, before, 4);
            now
        };
        assert_eq!(kept(&[1, 2, 3, 4], &[]), [1, 2, 3, 4]);
        assert_eq!(kept(&[5, 6], &[1, 2, 3, 4]), [5, 6, 3, 4]);
        assert_eq!(kept(&[5, 6, 7, 8, 9, 9], &[1, 2, 3, 4]), [5, 6, 7, 8]);
    }
}
