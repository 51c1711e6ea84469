//! `weights/` of a fleet: a file for each run that has finished.

use super::side_by_side::each;
use super::summary::RunSummary;
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::{LearnerState, NamedTensor, Statistic};
use crate::run::durable;
use crate::run::encoding::decode;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use warp_data::file;

/// Threads that wait for the disk at a time, at most, since it takes many files to itself at once; and files for which
/// there is one more of them. A few files go to the disk in their order.
const SYNCS: usize = 32;

pub(super) fn path(folder: &Path, run: usize) -> PathBuf {
    folder.join("weights").join(format!("{run:05}.safetensors"))
}

/// Writes the encoded weights of a run; their digest.
pub(super) fn write(folder: &Path, run: usize, bytes: &[u8]) -> Result<String> {
    let path = path(folder, run);
    let partial = durable::partial(&path);
    // The disk is waited for once, when the fleet is at its end.
    std::fs::write(&partial, bytes)
        .and_then(|()| std::fs::rename(&partial, &path))
        .map_err(|e| Error::file("cannot write", &path, e))?;
    Ok(digest(bytes))
}

/// The weights of a run, if it has finished.
pub(super) fn read(
    folder: &Path,
    run: usize,
) -> Result<Option<(Vec<NamedTensor>, Vec<Statistic>)>> {
    let path = path(folder, run);
    match file::read(&path, file::TENSORS) {
        Ok(bytes) => {
            let unreadable = |e| Error::file("cannot read", &path, e);
            let (weights, statistics) = decode(&bytes).map_err(unreadable)?;
            let state = LearnerState { weights, statistics, ..LearnerState::default() };
            state.check_finite().map_err(unreadable)?;
            Ok(Some((state.weights, state.statistics)))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::file("cannot read", &path, e)),
    }
}

/// Makes sure that the weights of all finished runs are on the disk.
pub(super) fn sync(folder: &Path, ended: &BTreeMap<usize, RunSummary>) -> Result<()> {
    let finished: Vec<_> = ended.values().filter(|run| run.error.is_none()).collect();
    let sync = |i: usize| {
        let path = path(folder, finished[i].run);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|e| Error::file("cannot write", &path, e))
    };
    let threads = finished.len().div_ceil(SYNCS).clamp(1, SYNCS);
    each(threads, finished.len(), sync).into_iter().collect::<Result<()>>()?;
    durable::sync_folder(&folder.join("weights"))
}
