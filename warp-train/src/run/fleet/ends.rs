//! Which runs of a fleet have ended, so that one that was interrupted or killed can be completed.
//!
//! `ended.jsonl` has a line per ended run, in the order of their ends, until all have ended; then `runs.jsonl` has them
//! in that of their numbers. A line counts if its digests of weights and records match; otherwise the run is repeated,
//! which gives the same bytes.

use super::summary::RunSummary;
use super::weight_files;
use super::{Listed, records};
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::run::durable;
use crate::run::folder::journal::each_line;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use warp_data::file;

const ENDED: &str = "ended.jsonl";
const RUNS: &str = "runs.jsonl";

/// A run's end, as a line has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ending {
    run: usize,
    env_steps: u64,
    /// As text, since JSON's numbers are not always read back bit by bit.
    mean_episode_return: Option<String>,
    mean_group_return: BTreeMap<String, String>,
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped_in_round: Option<usize>,
    /// Lines of the run in `metrics.jsonl`.
    pub(super) n_records: usize,
    /// SHA-256 of the file of weights, in hexadecimal; none of a run that broke.
    pub(super) weights: Option<String>,
}

/// The file, open.
#[derive(Debug)]
pub(super) struct EndsFile {
    path: PathBuf,
    file: File,
}

impl EndsFile {
    /// Makes that of a new fleet.
    pub(super) fn create(fleet: &Path) -> Result<()> {
        durable::write_synced(&fleet.join(ENDED), b"")
    }

    /// Makes that of a fleet again in which all runs had ended, if there is none: some of them are lost.
    pub(super) fn restore(fleet: &Path) -> Result<()> {
        let (path, runs) = (fleet.join(ENDED), fleet.join(RUNS));
        if path.exists() || !runs.exists() {
            return Ok(());
        }
        let lines = std::fs::read_to_string(&runs);
        durable::write_whole(&path, &lines.map_err(|e| Error::file("cannot read", &runs, e))?)
    }

    /// Opens that of a fleet in which not all runs have ended.
    pub(super) fn open(fleet: &Path) -> Result<Self> {
        let path = fleet.join(ENDED);
        let failed = |e| Error::file("cannot continue", &path, e);
        let mut file = File::options().append(true).open(&path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > 0 {
            // Behind half a line that a kill left, a line would not be one.
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { path, file })
    }

    /// Whether the fleet in `fleet` has runs that have not ended.
    pub(super) fn is_in(fleet: &Path) -> bool {
        fleet.join(ENDED).exists()
    }

    /// Adds a run, whose weights and `n_records` records are written.
    pub(super) fn add(
        &mut self,
        run: &RunSummary,
        n_records: usize,
        weights: Option<String>,
    ) -> Result<()> {
        let ending = Ending::of(run, n_records, weights);
        let line = serde_json::to_string(&ending)
            .map_err(|e| Error::file("cannot encode a line of", &self.path, e))?;
        let written = self.file.write_all((line + "\n").as_bytes());
        written.map_err(|e| Error::file("cannot write", &self.path, e))
    }

    /// Brings all lines to the disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| Error::file("cannot write", &self.path, e))
    }

    /// Leaves `runs.jsonl` behind in `fleet`: all runs have ended.
    pub(super) fn complete(self, fleet: &Path) -> Result<()> {
        let path = fleet.join(RUNS);
        let line = |ending: &Ending| serde_json::to_string(ending).map(|line| line + "\n");
        let lines: serde_json::Result<String> = endings(fleet)?.values().map(line).collect();
        let lines = lines.map_err(|e| Error::file("cannot encode", &path, e))?;
        durable::write_whole(&path, &lines)?;
        durable::delete(&self.path)
    }

    /// The ended ones of the runs that are listed; every line that counts.
    pub(super) fn read(fleet: &Path, listed: &[Listed]) -> Result<BTreeMap<usize, RunSummary>> {
        let n_records = records::count(fleet)?;
        let counts = |ending: &Ending| {
            let records = n_records.get(&ending.run).copied().unwrap_or(0);
            let weights = file::read(&weight_files::path(fleet, ending.run), file::TENSORS).ok();
            records == ending.n_records
                && (ending.weights.is_none() || ending.weights == weights.map(|b| digest(&b)))
        };
        let ended = endings(fleet)?.into_values().filter_map(|ending| {
            let listed = listed.get(ending.run).filter(|_| counts(&ending))?;
            Some((ending.run, ending.summary(listed)))
        });
        Ok(ended.collect())
    }
}

/// The ended runs of a fleet by their numbers, as their newest lines have them; none where an older build has
/// completed it.
pub(super) fn endings(fleet: &Path) -> Result<BTreeMap<usize, Ending>> {
    let mut found = BTreeMap::new();
    let Some(path) = [ENDED, RUNS].map(|name| fleet.join(name)).into_iter().find(|p| p.exists())
    else {
        return Ok(found);
    };
    let read = each_line(&path, |line| {
        if let Ok(ending) = serde_json::from_slice::<Ending>(line.bytes) {
            found.insert(ending.run, ending);
        }
    });
    read.map_err(|e| Error::file("cannot read", &path, e))?;
    Ok(found)
}

/// How the runs of a fleet ended that `listed` names, verified by nothing.
pub(super) fn noted(fleet: &Path, listed: &[Listed]) -> Result<Vec<RunSummary>> {
    let summary = |ending: Ending| {
        let listed = listed.get(ending.run)?;
        Some(ending.summary(listed))
    };
    Ok(endings(fleet)?.into_values().filter_map(summary).collect())
}

impl Ending {
    /// That of a run with `n_records` records, and with weights of that digest.
    pub(super) fn of(run: &RunSummary, n_records: usize, weights: Option<String>) -> Self {
        let groups = run.mean_group_return.iter();
        Self {
            run: run.run,
            env_steps: run.env_steps,
            mean_episode_return: run.mean_episode_return.map(|mean| mean.to_string()),
            mean_group_return: groups
                .map(|(name, mean)| (name.clone(), mean.to_string()))
                .collect(),
            error: run.error.clone(),
            stopped_in_round: run.stopped_in_round,
            n_records,
            weights,
        }
    }

    /// The run's number.
    pub(super) fn run(&self) -> usize {
        self.run
    }

    /// What it says of the run, which is listed so.
    pub(super) fn summary(self, listed: &Listed) -> RunSummary {
        let groups = self.mean_group_return.into_iter();
        RunSummary {
            run: self.run,
            seed: listed.seed,
            swept: listed.swept.clone(),
            env_steps: self.env_steps,
            mean_episode_return: self.mean_episode_return.and_then(|mean| mean.parse().ok()),
            mean_group_return: groups
                .filter_map(|(name, mean)| Some((name, mean.parse().ok()?)))
                .collect(),
            error: self.error,
            stopped_in_round: self.stopped_in_round,
        }
    }
}
