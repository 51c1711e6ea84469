//! `weights/` of a fleet: a file for each run that has finished.

use super::summary::RunSummary;
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::run::durable;
use crate::run::parallel::each;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

/// Threads that wait for the disk at a time, at most, since it takes many files to itself at once; and files for which
/// there is one more of them. A few files go to the disk in their order.
const SYNCS: usize = 32;

pub(super) fn path(folder: &Path, run: usize) -> PathBuf {
    folder.join("weights").join(format!("{run:05}.safetensors"))
}

/// Hidden folders in which files are written before they get their names: threads that make files in one folder wait for
/// each other.
const STAGES: usize = 32;

fn stage(folder: &Path, run: usize) -> PathBuf {
    durable::partial(&folder.join("weights").join((run % STAGES).to_string()))
}

/// Writes the encoded weights of a run; their digest.
pub(super) fn write(folder: &Path, run: usize, bytes: &[u8]) -> Result<String> {
    let (path, stage) = (path(folder, run), stage(folder, run));
    let staged = stage.join(run.to_string());
    let write = || std::fs::write(&staged, bytes);
    // The disk is waited for once, when the fleet is at its end.
    write()
        .or_else(|e| match e.kind() {
            ErrorKind::NotFound => make(&stage).and_then(|()| write()),
            _ => Err(e),
        })
        .and_then(|()| std::fs::rename(&staged, &path))
        .map_err(|e| Error::file("cannot write", &path, e))?;
    Ok(digest(bytes))
}

/// Makes a folder, unless another thread has.
fn make(folder: &Path) -> std::io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes sure that the weights of all finished runs are on the disk, and does `work`: beside it, unless runs are few,
/// whose files go to the disk in their order.
pub(super) fn sync_beside<T>(
    folder: &Path,
    ended: &BTreeMap<usize, RunSummary>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if ended.len() <= SYNCS {
        sync(folder, ended)?;
        return work();
    }
    std::thread::scope(|scope| {
        let synced = scope.spawn(|| sync(folder, ended));
        let done = work();
        synced.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        done
    })
}

/// By more threads, the more there are.
fn sync(folder: &Path, ended: &BTreeMap<usize, RunSummary>) -> Result<()> {
    let finished: Vec<_> = ended.values().filter(|run| run.error.is_none()).collect();
    let sync = |i: usize| {
        let path = path(folder, finished[i].run);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|e| Error::file("cannot write", &path, e))
    };
    let threads = finished.len().div_ceil(SYNCS).clamp(1, SYNCS);
    each(threads, finished.len(), sync).into_iter().collect::<Result<()>>()?;
    (0..STAGES).try_for_each(|run| durable::delete(&stage(folder, run)))?;
    durable::sync_folder(&folder.join("weights"))
}
