//! The colours of a film: at most 255 for all of its frames, so that nothing flickers.
//!
//! Pictures here have a few flat colours and the mixtures of them at edges: the most frequent colours
//! are taken as they are, then the most frequent shades of what is left.

use super::canvas::Frame;
use std::collections::HashMap;

type Rgb = [u8; 3];

/// Colours that are taken exactly.
const EXACT: usize = 64;
/// Colours at all; the last number is kept for "as before".
pub(super) const MOST: usize = 255;

#[derive(Debug)]
pub(super) struct Palette {
    colours: Vec<Rgb>,
    known: HashMap<Rgb, u8>,
}

impl Palette {
    /// From some frames of the film.
    pub(super) fn of(frames: &[Frame]) -> Self {
        let mut counts: HashMap<Rgb, u64> = HashMap::new();
        for run in frames.iter().flat_map(runs) {
            *counts.entry(run[0]).or_default() += run.len() as u64;
        }
        let mut colours: Vec<Rgb> = most_frequent(&counts, EXACT);
        for colour in &colours {
            counts.remove(colour);
        }
        let mut shades: HashMap<Rgb, u64> = HashMap::new();
        for (colour, count) in counts {
            *shades.entry(colour.map(|part| part & 0xf0 | 0x08)).or_default() += count;
        }
        colours.extend(most_frequent(&shades, MOST - colours.len()));
        Self { colours, known: HashMap::new() }
    }

    /// The number of the nearest colour.
    pub(super) fn number(&mut self, colour: Rgb) -> u8 {
        if let Some(number) = self.known.get(&colour) {
            return *number;
        }
        let distance = |other: &Rgb| -> u32 {
            other.iter().zip(colour).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
        };
        let nearest = (0..self.colours.len()).min_by_key(|i| distance(&self.colours[*i]));
        let number = nearest.unwrap_or(0) as u8;
        self.known.insert(colour, number);
        number
    }

    /// All colours, one after the other.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.colours.concat()
    }
}

/// Runs of equal neighbouring pixels, so that each is looked up once: most pixels are like the one before them.
pub(super) fn runs(frame: &Frame) -> impl Iterator<Item = &[Rgb]> {
    frame.pixels.as_chunks().0.chunk_by(|one, next| one == next)
}

/// The `n` most frequent ones; equally frequent ones in a fixed order.
fn most_frequent(counts: &HashMap<Rgb, u64>, n: usize) -> Vec<Rgb> {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_unstable_by_key(|(colour, count)| (std::cmp::Reverse(**count), **colour));
    sorted.into_iter().take(n).map(|(colour, _)| *colour).collect()
}
