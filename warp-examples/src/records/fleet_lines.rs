//! Lines of a fleet's `metrics.jsonl`: part by part, since the file may be large, by several threads.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use warp_data::file;
use warp_train::journal::METRICS;

/// Bytes of the file that are a part; a thread has one at a time.
const PART: u64 = 1 << 20;

/// Passes on what `read` makes of some whole lines at a time, in the order of the file, as long as it is now. Only the last
/// of them may be incomplete: the fleet was killed, or goes on as we read.
pub(super) fn each_part<T: Send>(
    folder: &Path,
    read: impl Fn(&[u8]) -> T + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let path = folder.join(METRICS);
    let about = || format!("cannot read a fleet's \"{}\"", path.display());
    let file = file::open(&path).with_context(about)?;
    let length = file.metadata().with_context(about)?.len();
    let n_parts = length.div_ceil(PART) as usize;
    // Threads share it instead of opening the path again: the sorted file may get its name meanwhile.
    let (lines, read) = (&Lines { file: Mutex::new(file), length }, &read);
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(n_parts);
    thread::scope(|scope| {
        let start = |first: usize| {
            let (sender, results) = sync_channel(1);
            scope.spawn(move || {
                for part in (first..n_parts).step_by(n_threads) {
                    // Nobody waits for it after an error.
                    if sender.send(lines.of_part(part).map(|lines| read(&lines))).is_err() {
                        return;
                    }
                }
            });
            results
        };
        let results: Vec<_> = (0..n_threads).map(start).collect();
        for part in 0..n_parts {
            // Only a thread that panicked sends nothing, and the scope passes that on.
            let Ok(made) = results[part % n_threads].recv() else { break };
            take(made.with_context(about)?)?;
        }
        Ok(())
    })
}

/// The file, of so many bytes.
struct Lines {
    file: Mutex<File>,
    length: u64,
}

impl Lines {
    /// The lines that begin in part number `part`.
    fn of_part(&self, part: usize) -> io::Result<Vec<u8>> {
        let start = part as u64 * PART;
        let end = (start + PART).min(self.length);
        // The byte before says whether a line begins where the part does.
        let from = start.saturating_sub(1);
        let mut bytes = Vec::with_capacity(PART as usize + (PART / 16) as usize);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(from))?;
        (&mut *file).take(end - from).read_to_end(&mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            let rest = (&mut *file).take(self.length - end);
            BufReader::new(rest).read_until(b'\n', &mut bytes)?;
        }
        if part > 0 {
            let before = bytes.iter().position(|byte| *byte == b'\n');
            bytes.drain(..before.map_or(bytes.len(), |at| at + 1));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_in_one_part_whatever_its_length() {
        let folder = std::env::temp_dir().join(format!("warp-fleet-lines-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let part = PART as usize;
        // Lines that end with a part, are longer than one, and have no end.
        let lines = [(b'a', part - 1), (b'b', 2), (b'c', 2 * part), (b'd', part - 5), (b'e', 3)];
        let mut text = Vec::new();
        for (letter, n) in lines {
            text.extend(vec![letter; n]);
            text.push(b'\n');
        }
        text.pop();
        std::fs::write(folder.join(METRICS), &text).unwrap();
        let mut parts = Vec::new();
        each_part(&folder, <[u8]>::to_vec, |part| {
            parts.push(part);
            Ok(())
        })
        .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(parts.concat() == text);
        let first: Vec<Option<u8>> = parts.iter().map(|part| part.first().copied()).collect();
        assert_eq!(first, [Some(b'a'), Some(b'b'), None, Some(b'd'), Some(b'e')]);
    }
}
