//! A fleet as its folder describes it, whoever trains it.

use super::ends::{EndsFile, noted};
use super::fleet_json::{self, LIST, Listed};
use super::summary::{FleetSummary, RunSummary, Work};
use super::{Fleet, Halving};
use crate::error::{Error, Result};
use serde::Deserialize;
use std::path::Path;
use warp_data::file;

/// What `summary.json` has of runs.
#[derive(Deserialize)]
struct OfRuns {
    runs: Vec<RunSummary>,
}

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
        fleet_json::read(folder)
    }

    /// How the fleet in `folder` stops settings, if it does.
    ///
    /// # Errors
    /// A list that can't be read.
    pub fn halving(folder: &Path) -> Result<Option<Halving>> {
        fleet_json::halving(folder)
    }

    /// How runs of the fleet in `folder` ended; those that have not are left out.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn ended_runs(folder: &Path) -> Result<Vec<RunSummary>> {
        let noted = noted(folder, &Self::list(folder)?)?;
        if !noted.is_empty() || !Self::is_complete(folder) {
            return Ok(noted);
        }
        // Completed by an older build.
        let path = folder.join("summary.json");
        let unreadable = |e: &dyn std::fmt::Display| Error::file("cannot read", &path, e);
        let text = file::read_text(&path, file::DESCRIPTION).map_err(|e| unreadable(&e))?;
        Ok(serde_json::from_str::<OfRuns>(&text).map_err(|e| unreadable(&e))?.runs)
    }

    /// What the runs of the fleet in `folder` that have ended came to, without what was measured meanwhile.
    ///
    /// # Errors
    /// As [`Fleet::ended_runs`].
    pub fn results(folder: &Path) -> Result<FleetSummary> {
        let (n_runs, runs) = (Self::list(folder)?.len(), Self::ended_runs(folder)?);
        let env_steps = runs.iter().map(|run| run.env_steps).sum();
        let work = Work { env_steps, own_steps: 0, seconds: 0.0 };
        Ok(FleetSummary::default().of_runs(runs, n_runs, &work))
    }
}
