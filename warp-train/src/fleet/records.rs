//! `metrics.jsonl` of a fleet: the records of one run after the other, in the order in which they ended, and
//! in that of their numbers when all have.
//!
//! The file is read line by line and never held as a whole.

use crate::error::{Error, Result};
use crate::journal::{Journal, METRICS, each_line};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The number of a record's run.
#[derive(Deserialize)]
struct OfRun {
    run: usize,
}

/// Lines of one run that follow each other.
struct Block {
    run: usize,
    start: u64,
    end: u64,
    n_lines: usize,
}

/// How many records each run has.
pub(super) fn count(fleet: &Path) -> Result<BTreeMap<usize, usize>> {
    let mut found = BTreeMap::new();
    for block in blocks(&fleet.join(METRICS))?.0 {
        *found.entry(block.run).or_default() += block.n_lines;
    }
    Ok(found)
}

/// Sorts the records by their runs, and leaves out those of runs that `is_kept` does not name and half a
/// line that a kill left.
pub(super) fn sort(journal: &mut Journal, is_kept: impl Fn(usize) -> bool) -> Result<()> {
    let path = journal.path().to_path_buf();
    let (mut blocks, length) = blocks(&path)?;
    blocks.retain(|block| is_kept(block.run));
    let is_whole = blocks.iter().map(|block| block.end - block.start).sum::<u64>() == length;
    if is_whole && blocks.is_sorted_by_key(|block| block.run) {
        return Ok(());
    }
    blocks.sort_by_key(|block| block.run);
    journal.replace(|file| {
        let (mut from, mut to) = (File::open(&path)?, BufWriter::new(file));
        for block in &blocks {
            from.seek(SeekFrom::Start(block.start))?;
            std::io::copy(&mut (&from).take(block.end - block.start), &mut to)?;
        }
        to.flush()
    })
}

/// Whole records, run by run, and the length of the file. A line that is none belongs to no block.
fn blocks(path: &Path) -> Result<(Vec<Block>, u64)> {
    let (mut blocks, mut length): (Vec<Block>, _) = (Vec::new(), 0);
    let read = each_line(path, |line| {
        length = line.end;
        let record = line.is_ended.then(|| serde_json::from_slice(line.bytes).ok()).flatten();
        let Some(OfRun { run }) = record else { return };
        match blocks.last_mut() {
            Some(last) if last.run == run && last.end == line.start => {
                (last.end, last.n_lines) = (line.end, last.n_lines + 1);
            }
            _ => blocks.push(Block { run, start: line.start, end: line.end, n_lines: 1 }),
        }
    });
    read.map_err(|e| Error::file("cannot read", path, e))?;
    Ok((blocks, length))
}
