//! `metrics.jsonl` of a fleet: the records of one run after the other, in the order in which they ended, and
//! in that of their numbers when all have.
//!
//! The file is read line by line and never held as a whole.

use crate::error::{Error, Result};
use crate::run::journal::{Journal, METRICS, SUPERSEDED, each_line};
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
struct Block {
    run: Option<usize>,
    start: u64,
    end: u64,
    n_lines: usize,
}

/// How many records each run has.
pub(super) fn count(fleet: &Path) -> Result<BTreeMap<usize, usize>> {
    let mut found = BTreeMap::new();
    for Block { run, n_lines, .. } in blocks(&fleet.join(METRICS))? {
        run.into_iter().for_each(|run| *found.entry(run).or_default() += n_lines);
    }
    Ok(found)
}

/// Sorts the records by their runs. Those of runs that `is_kept` does not name, and what is no whole record, move
/// to `metrics.superseded.jsonl`; the result is what there is to say of that.
pub(super) fn sort(
    journal: &mut Journal,
    is_kept: impl Fn(usize) -> bool,
) -> Result<Option<String>> {
    let path = journal.path().to_path_buf();
    let all = blocks(&path)?.into_iter();
    let (mut kept, others): (Vec<_>, Vec<_>) =
        all.partition(|block| block.run.is_some_and(&is_kept));
    if others.is_empty() && kept.is_sorted_by_key(|block| block.run) {
        return Ok(None);
    }
    let aside = set_aside(&path, &others)?;
    kept.sort_by_key(|block| block.run);
    journal.replace(|file| copy(&path, &kept, file))?;
    let n: usize = others.iter().map(|block| block.n_lines).sum();
    Ok(aside.map(|aside| {
        let (path, aside) = (path.display(), aside.display());
        format!(
            "\"{path}\": damaged lines, and lines of runs that restart, were moved to {aside}: {n}"
        )
    }))
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
        let mut journal = Journal::open(&folder).unwrap();
        let said = sort(&mut journal, |run| run != 1).unwrap().unwrap();
        assert!(said.ends_with("metrics.superseded.jsonl: 3"), "{said}");
        let text = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text(METRICS), format!("{}\n{}\n", lines[1], lines[0]));
        assert_eq!(text(SUPERSEDED), format!("{}\n", lines[2..].join("\n")));
        // Once more there is nothing to do.
        assert_eq!(sort(&mut journal, |_| true).unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
