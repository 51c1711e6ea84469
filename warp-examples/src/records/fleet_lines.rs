//! Lines of a fleet's `metrics.jsonl`: piece by piece, since the file may be large, and each piece by several threads.

use anyhow::{Context, Result};
use std::io::Read;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use warp_data::file;
use warp_train::journal::METRICS;

/// Bytes of the file that are read at once.
const PIECE: u64 = 1 << 24;
/// Bytes for which a thread is worth its start.
const PART: usize = 1 << 16;

/// Passes on what `read` makes of some whole lines at a time, in the order of the file. Only the last of them may be
/// incomplete: the fleet was killed, or goes on as we read.
pub(super) fn each_part<T: Send>(
    folder: &Path,
    read: impl Fn(&[u8]) -> T + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let path = folder.join(METRICS);
    let about = || format!("cannot read a fleet's \"{}\"", path.display());
    let mut file = file::open(&path).with_context(about)?;
    let mut begun = Vec::new();
    loop {
        let n = file.by_ref().take(PIECE).read_to_end(&mut begun).with_context(about)?;
        // What comes behind the last whole line waits for its rest, if there is one.
        let whole = match begun.iter().rposition(|byte| *byte == b'\n') {
            Some(end) if n > 0 => end + 1,
            _ if n > 0 => continue,
            _ => begun.len(),
        };
        parts(&begun[..whole], &read).into_iter().try_for_each(&mut take)?;
        begun.drain(..whole);
        if n == 0 {
            return Ok(());
        }
    }
}

/// What `read` makes of some lines, part by part, each by a thread.
fn parts<T: Send>(lines: &[u8], read: &(impl Fn(&[u8]) -> T + Sync)) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (mut parts, mut rest) = (Vec::new(), lines);
    while !rest.is_empty() {
        let share = (lines.len() / threads).max(PART).min(rest.len());
        let end = rest[share - 1..].iter().position(|byte| *byte == b'\n');
        let (part, behind) = rest.split_at(end.map_or(rest.len(), |end| share + end));
        parts.push(part);
        rest = behind;
    }
    thread::scope(|scope| {
        let workers: Vec<_> =
            parts.into_iter().map(|part| scope.spawn(move || read(part))).collect();
        let made = workers.into_iter().map(|worker| worker.join());
        made.map(|made| made.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
