//! What a fleet's folder says of the fleet, whoever trains it.

use super::ends::EndsFile;
use super::list::{self, LIST, Listed};
use super::{Fleet, Halving, weights};
use crate::error::Result;
use crate::model::{NamedTensor, Statistic};
use std::path::Path;

impl Fleet {
    /// Whether `folder` is that of a fleet.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(LIST).exists()
    }

    /// Whether all runs of the fleet in `folder` have ended.
    #[must_use]
    pub fn is_complete(folder: &Path) -> bool {
        Self::is_in(folder) && !EndsFile::is_in(folder)
    }

    /// The runs of the fleet in `folder`, those that have not finished included.
    ///
    /// # Errors
    /// A list that can't be read.
    pub fn list(folder: &Path) -> Result<Vec<Listed>> {
        list::read(folder)
    }

    /// How the fleet in `folder` stops settings, if it does.
    ///
    /// # Errors
    /// A list that can't be read.
    pub fn halving(folder: &Path) -> Result<Option<Halving>> {
        list::halving(folder)
    }

    /// The last weights of a run, if it has finished.
    ///
    /// # Errors
    /// A file that is not as it was written.
    pub fn weights(
        folder: &Path,
        run: usize,
    ) -> Result<Option<(Vec<NamedTensor>, Vec<Statistic>)>> {
        weights::read(folder, run)
    }
}
