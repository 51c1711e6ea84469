//! The file format of TensorBoard's events: TFRecord frames, each with two checksums.
//!
//! A frame is the length (u64), its masked CRC-32C (u32), that many bytes, and their masked CRC-32C;
//! all little-endian. A frame is written at once, so that a process that is killed leaves at most one
//! incomplete frame at the end, which readers take for "not yet complete". A file of an earlier process
//! is never touched again: where a run is resumed, its next file begins with an event that discards
//! what came after the checkpoint.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The remainder of each byte, by the polynomial of Castagnoli, reflected.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let odd = remainder & 1 == 1;
            remainder = (remainder >> 1) ^ if odd { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

/// The CRC-32C of some bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let next = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, next)
}

/// The checksum as frames hold it: rotated and shifted, so that a checksum of checksums is none.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// One frame around some bytes.
pub(super) fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), bytes, &masked(bytes)].concat()
}

/// The bytes in the first frame of `data`, and the length of the frame; `None` if it is incomplete
/// or damaged.
fn read_frame(data: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = data.split_at_checked(8)?;
    let (length_sum, rest) = rest.split_at_checked(4)?;
    let n = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (bytes, rest) = rest.split_at_checked(n)?;
    let good = masked(length) == length_sum && rest.get(..4)? == masked(bytes);
    good.then_some((bytes, n + 16))
}

/// What is in the frames of a file, up to the first one that is incomplete or damaged.
#[must_use]
pub fn read_frames(mut data: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((bytes, length)) = read_frame(data) {
        frames.push(bytes);
        data = &data[length..];
    }
    frames
}

/// An event file that is written.
#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// Begins the next file in `folder`: one per process, since a reader that has a file open never
    /// looks back in it.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let shown = folder.display();
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create \"{shown}\""))?;
        let mut paths = (0..).map(|number| folder.join(name(number)));
        let path = paths.find(|path| !path.exists()).unwrap_or_default();
        let file = File::options().create_new(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write \"{}\"", path.display()))?;
        Ok(Self { path, file })
    }

    /// Appends some events in one go.
    pub(super) fn write(&mut self, events: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<()> {
        let frames: Vec<u8> = events.into_iter().flat_map(|event| frame(event.as_ref())).collect();
        self.append(&frames)
    }

    /// Appends the bytes of some frames.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<()> {
        let written = self.file.write_all(frames);
        written.with_context(|| format!("cannot write \"{}\"", self.path.display()))
    }
}

/// TensorBoard takes files with `tfevents` in their name, in alphabetical order.
fn name(number: usize) -> String {
    format!("events.out.tfevents.{number:04}.warp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, B.4, and the check value of the catalogue.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn frames_are_read_up_to_the_first_bad_one() {
        let data = [frame(b"one"), frame(b""), frame(b"three")].concat();
        assert_eq!(read_frames(&data), [&b"one"[..], b"", b"three"]);
        for at in 0..data.len() {
            let whole = read_frames(&data[..at]).len();
            assert_eq!(whole, [19, 35].iter().filter(|end| **end <= at).count());
            let mut flipped = data.clone();
            flipped[at] ^= 4;
            assert!(read_frames(&flipped).len() < 3);
        }
    }

    #[test]
    fn files_of_earlier_processes_are_left_alone() {
        let folder = std::env::temp_dir().join(format!("warp-events-{}", std::process::id()));
        let mut first = EventFile::create(&folder).unwrap();
        first.write([b"one", b"two"]).unwrap();
        // A damaged byte, and a frame that was not finished.
        let mut data = std::fs::read(&first.path).unwrap();
        data[3] ^= 1;
        data.extend([7; 5]);
        std::fs::write(&first.path, &data).unwrap();
        let second = EventFile::create(&folder).unwrap();
        assert!(std::fs::read(&first.path).unwrap() == data);
        assert!(second.path.ends_with("events.out.tfevents.0001.warp"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
