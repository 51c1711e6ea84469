//! `weights/` of a fleet: a file for each run that has finished, verified by its digest when it is read.

use super::Fleet;
use super::ends::{Ending, endings};
use super::summary::RunSummary;
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::{LearnerState, NamedTensor, Statistic};
use crate::run::checkpoint::encoding::decode;
use crate::run::durable;
use crate::run::parallel::each;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use warp_data::file;

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

/// The weights of a fleet's runs.
#[derive(Debug)]
pub struct FleetWeights {
    folder: PathBuf,
    /// Nothing in a fleet that an older build completed, whose files nothing verifies.
    endings: Option<BTreeMap<usize, Ending>>,
}

impl FleetWeights {
    /// The weights of the fleet in `folder`.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn open(folder: &Path) -> Result<Self> {
        let found = endings(folder)?;
        let is_older = found.is_empty() && Fleet::is_complete(folder);
        Ok(Self { folder: folder.into(), endings: (!is_older).then_some(found) })
    }

    /// The last weights of a run; nothing if it has not ended, or broke.
    ///
    /// # Errors
    /// A file that is lost, or not as it was written.
    pub fn of(&self, run: usize) -> Result<Option<(Vec<NamedTensor>, Vec<Statistic>)>> {
        let path = path(&self.folder, run);
        let damaged = |reason: &dyn std::fmt::Display| {
            let again = format!("{reason}; --resume {} trains it again", self.folder.display());
            Error::file("cannot read", &path, again)
        };
        let expected = match &self.endings {
            Some(endings) => match endings.get(&run).and_then(|ending| ending.weights.as_ref()) {
                Some(expected) => Some(expected),
                None => return Ok(None),
            },
            None => None,
        };
        let bytes = match (file::read(&path, file::TENSORS), expected) {
            (Ok(bytes), _) => bytes,
            (Err(e), None) if e.kind() == ErrorKind::NotFound => return Ok(None),
            (Err(e), None) => return Err(Error::file("cannot read", &path, e)),
            (Err(e), Some(_)) => return Err(damaged(&e)),
        };
        if expected.is_some_and(|expected| *expected != digest(&bytes)) {
            return Err(damaged(&"it has been changed: its digest does not match"));
        }
        let unreadable = |e| Error::file("cannot read", &path, e);
        let (weights, statistics) = decode(&bytes).map_err(unreadable)?;
        let state = LearnerState { weights, statistics, ..LearnerState::default() };
        state.check_finite().map_err(unreadable)?;
        Ok(Some((state.weights, state.statistics)))
    }

    /// The runs whose weights are lost or not as they were written.
    #[must_use]
    pub fn lost(&self) -> Vec<usize> {
        let is_lost = |(run, ending): (&usize, &Ending)| {
            let expected = ending.weights.as_ref()?;
            let found = file::read(&path(&self.folder, *run), file::TENSORS).ok();
            (found.map(|bytes| digest(&bytes)).as_ref() != Some(expected)).then_some(*run)
        };
        self.endings.iter().flatten().filter_map(is_lost).collect()
    }
}
