//! The weights of a fleet's runs, verified by their digests when they are read.

use super::Fleet;
use super::ends::{Ending, endings};
use super::weight_files::path;
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::{LearnerState, NamedTensor, Statistic};
use crate::run::checkpoint::encoding::decode;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use warp_data::file;

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
