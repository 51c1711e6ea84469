//! `metrics.jsonl` of a fleet: the records of one run after the other, in the order in which they ended, and
//! in that of their numbers when all have.
//!
//! The file is read line by line and never held as a whole; what this process appends it need not read again.

use crate::error::{Error, Result};
use crate::run::folder::journal::{Journal, METRICS, SUPERSEDED, each_line};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The number of a record's run.
#[derive(Deserialize)]
struct OfRun {
    run: usize,
}

/// Lines of one run that follow each other, or such that are no records.
#[derive(Debug)]
struct Block {
    run: Option<usize>,
    start: u64,
    end: u64,
    n_lines: usize,
}

/// The file of a fleet in training.
#[derive(Debug)]
pub(super) struct Records {
    journal: Journal,
    /// All that is in it.
    blocks: Vec<Block>,
}

impl Records {
    /// Of a new fleet, whose file is empty.
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, blocks: Vec::new() }
    }

    /// Of a fleet that goes on, sorted; what is not of a run that `is_kept` names, or no whole record, moves to
    /// `metrics.superseded.jsonl`. The sentence is what there is to say of that.
    pub(super) fn reopen(
        journal: Journal,
        is_kept: impl Fn(usize) -> bool,
    ) -> Result<(Self, Option<String>)> {
        let blocks = blocks(journal.path())?;
        let mut this = Self { journal, blocks };
        let note = this.sort(is_kept)?;
        Ok((this, note))
    }

    /// Appends the `n_lines` lines of a run that has ended.
    pub(super) fn append(&mut self, run: usize, lines: &str, n_lines: usize) -> Result<()> {
        self.journal.append(lines)?;
        if n_lines > 0 {
            let start = self.blocks.last().map_or(0, |last| last.end);
            let end = start + lines.len() as u64;
            self.blocks.push(Block { run: Some(run), start, end, n_lines });
        }
        Ok(())
    }

    /// Brings everything to the disk; with `is_complete` sorted by run.
    pub(super) fn finish(&mut self, is_complete: bool) -> Result<()> {
        if is_complete {
            self.look_if_changed()?;
            self.sort(|_| true)?;
        }
        self.journal.sync()
    }

    /// Reads the file where somebody else has written to it, whatever its lock says.
    fn look_if_changed(&mut self) -> Result<()> {
        let path = self.journal.path();
        let metadata = std::fs::metadata(path).map_err(|e| Error::file("cannot read", path, e))?;
        if metadata.len() != self.blocks.last().map_or(0, |last| last.end) {
            self.blocks = blocks(path)?;
        }
        Ok(())
    }

    /// Sorts the records by their runs. Those of runs that `is_kept` does not name, and what is no whole record, move
    /// to `metrics.superseded.jsonl`; the result is what there is to say of that.
    fn sort(&mut self, is_kept: impl Fn(usize) -> bool) -> Result<Option<String>> {
        let path = self.journal.path().to_path_buf();
        let all = std::mem::take(&mut self.blocks).into_iter();
        let (mut kept, others): (Vec<_>, Vec<_>) =
            all.partition(|block| block.run.is_some_and(&is_kept));
        if others.is_empty() && kept.is_sorted_by_key(|block| block.run) {
            self.blocks = kept;
            return Ok(None);
        }
        let aside = set_aside(&path, &others)?;
        kept.sort_by_key(|block| block.run);
        self.journal.replace(|file| copy(&path, &kept, file))?;
        self.blocks = moved_together(kept);
        let n: usize = others.iter().map(|block| block.n_lines).sum();
        Ok(aside.map(|aside| {
            let (path, aside) = (path.display(), aside.display());
            format!(
                "\"{path}\": damaged lines, and lines of runs that restart, were moved to {aside}: {n}"
            )
        }))
    }
}

/// These blocks, one right after the other.
fn moved_together(mut blocks: Vec<Block>) -> Vec<Block> {
    let mut end = 0;
    for block in &mut blocks {
        (block.start, block.end) = (end, end + block.end - block.start);
        end = block.end;
    }
    blocks
}

/// How many records each run has.
pub(super) fn count(fleet: &Path) -> Result<BTreeMap<usize, usize>> {
    let mut found = BTreeMap::new();
    for Block { run, n_lines, .. } in blocks(&fleet.join(METRICS))? {
        run.into_iter().for_each(|run| *found.entry(run).or_default() += n_lines);
    }
    Ok(found)
}

/// Adds the blocks to those that were set aside before, and brings them to the disk; where they are then.
fn set_aside(path: &Path, blocks: &[Block]) -> Result<Option<PathBuf>> {
    if blocks.is_empty() {
        return Ok(None);
    }
    let aside = path.with_file_name(SUPERSEDED);
    let add = || {
        let mut file = File::options().create(true).append(true).open(&aside)?;
        copy(path, blocks, &mut file)?;
        // A kill may have left half a line at the end.
        file.write_all(b"\n")?;
        file.sync_all()
    };
    add().map_err(|e| Error::file("cannot write", &aside, e))?;
    Ok(Some(aside))
}

fn copy(from: &Path, blocks: &[Block], to: &mut File) -> std::io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, BufWriter::new(to));
    for block in blocks {
        from.seek(SeekFrom::Start(block.start))?;
        std::io::copy(&mut (&from).take(block.end - block.start), &mut to)?;
    }
    to.flush()
}

/// The whole file, block by block.
fn blocks(path: &Path) -> Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    let read = each_line(path, |line| {
        let record = line.is_ended.then(|| serde_json::from_slice(line.bytes).ok()).flatten();
        let run = record.map(|OfRun { run }| run);
        match blocks.last_mut() {
            Some(last) if last.run == run => {
                (last.end, last.n_lines) = (line.end, last.n_lines + 1);
            }
            _ => blocks.push(Block { run, start: line.start, end: line.end, n_lines: 1 }),
        }
    });
    read.map_err(|e| Error::file("cannot read", path, e))?;
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_or_begins_anew_is_set_aside_and_said() {
        let folder = std::env::temp_dir().join(format!("warp-records-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let lines =
            ["{\"run\":2}", "{\"run\":0,\"x\":1}", "{\"r\u{1}n\":0}", "{\"run\":1}", "{\"ru"];
        std::fs::write(folder.join(METRICS), lines.join("\n")).unwrap();
        let journal = Journal::open(&folder).unwrap();
        let (mut records, said) = Records::reopen(journal, |run| run != 1).unwrap();
        let said = said.unwrap();
        assert!(said.ends_with("metrics.superseded.jsonl: 3"), "{said}");
        let text = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text(METRICS), format!("{}\n{}\n", lines[1], lines[0]));
        assert_eq!(text(SUPERSEDED), format!("{}\n", lines[2..].join("\n")));
        // Once more there is nothing to do.
        assert_eq!(records.sort(|_| true).unwrap(), None);
        // What is appended finds its place without being read.
        records.append(3, "{\"run\":3}\n", 1).unwrap();
        records.append(4, "", 0).unwrap();
        records.append(1, "{\"run\":1,\"y\":2}\n{\"run\":1}\n", 2).unwrap();
        records.finish(true).unwrap();
        let sorted = [lines[1], "{\"run\":1,\"y\":2}", "{\"run\":1}", lines[0], "{\"run\":3}", ""];
        assert_eq!(text(METRICS), sorted.join("\n"));
        // What another appended is not lost.
        let mut other = File::options().append(true).open(folder.join(METRICS)).unwrap();
        other.write_all(b"{\"run\":2}\n").unwrap();
        records.finish(true).unwrap();
        let sorted = [&sorted[..4], &["{\"run\":2}"], &sorted[4..]].concat();
        assert_eq!(text(METRICS), sorted.join("\n"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
