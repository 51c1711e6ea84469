//! What was measured of each cell, kept in a file from one call to the next.

use super::cell::Cell;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;
use warp_train::run::write_whole;

/// A cell that was measured, or why it could not be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) cell: Cell,
    /// Of the program.
    pub(super) commit: String,
    pub(super) device: String,
    pub(super) found: Found,
}

/// What a cell gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Found {
    Measured(Figures),
    /// In a sentence, such as that it does not fit.
    Refused {
        refused: String,
    },
}

/// A cell's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Environment steps per second of training.
    pub(super) steps_per_second: f64,
    /// Environment steps per second of the world alone, with random actions.
    pub(super) world_steps_per_second: f64,
    /// Operations of the declared networks, 10^12 a second.
    pub(super) tflops: f64,
    /// Of the device's peak, if that is known.
    pub(super) fraction: Option<f64>,
    /// Where phases are timed: by learners from rollouts on the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phases: Option<Phases>,
    /// Which way iterations took, and why.
    pub(super) path: String,
    /// Until the first iteration was done, compiling included.
    pub(super) first_iteration_seconds: f64,
    /// Iterations that the rate is of.
    pub(super) iterations: u64,
}

/// Shares of time on the processor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Phases {
    /// What plain products of the networks' widths would take, of the time that learning takes; older files have null
    /// where that was not known.
    pub(super) products_of_learning: Option<f64>,
    /// What environments take, of all.
    pub(super) world: f64,
}

impl Record {
    pub(super) fn figures(&self) -> Option<&Figures> {
        match &self.found {
            Found::Measured(figures) => Some(figures),
            Found::Refused { .. } => None,
        }
    }

    pub(super) fn fraction(&self) -> Option<f64> {
        self.figures()?.fraction
    }
}

/// All records of a file, in the order in which they were made; those of older commits stay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Records {
    pub(super) cells: Vec<Record>,
}

impl Records {
    /// The cells of the file at `path`, if there is one.
    ///
    /// # Errors
    /// A file that can't be read, or is something else; a folder that is not there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(missing) = folder.filter(|folder| !folder.is_dir()) {
            bail!("there is no folder \"{}\" for the map", missing.display());
        }
        if !path.exists() {
            return Ok(Self::default());
        }
        let name = path.display();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read \"{name}\""))?;
        serde_json::from_str(&text)
            .with_context(|| format!("\"{name}\" was not written by `warp bench --map`"))
    }

    /// Adds a record and writes the file.
    ///
    /// # Errors
    /// A file that can't be written.
    pub(super) fn add(&mut self, record: Record, path: &Path) -> Result<()> {
        self.cells.push(record);
        Ok(write_whole(path, format!("{}\n", serde_json::to_string_pretty(self)?))?)
    }

    /// Whether a cell was measured with this commit on this device.
    pub(super) fn has(&self, cell: &Cell, commit: &str, device: &str) -> bool {
        let is_it = |of: &Record| of.cell == *cell && of.commit == commit && of.device == device;
        self.cells.iter().any(is_it)
    }

    /// The newest record of each cell on a device, in the order of `cells` and then of the file.
    pub(super) fn newest(&self, device: &str) -> Vec<&Record> {
        let mut newest: Vec<&Record> = Vec::new();
        for record in self.cells.iter().filter(|record| record.device == device) {
            match newest.iter_mut().find(|other| other.cell == record.cell) {
                Some(other) => *other = record,
                None => newest.push(record),
            }
        }
        newest
    }
}

/// A cell that is far behind one beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Cliff {
    pub(super) cell: String,
    pub(super) fraction: f64,
    /// The best cell one step away.
    pub(super) beside: String,
    pub(super) best: f64,
}

/// The cells with less than half the fraction of the best one beside them.
pub(super) fn cliffs(records: &[&Record]) -> Vec<Cliff> {
    let known = || records.iter().filter_map(|record| Some((*record, record.fraction()?)));
    let cliff = |(record, fraction): (&Record, f64)| {
        let beside = known().filter(|(other, _)| record.cell.is_beside(&other.cell));
        let (other, best) = beside.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (cell, beside) = (record.cell.to_string(), other.cell.to_string());
        (fraction < 0.5 * best).then_some(Cliff { cell, fraction, beside, best })
    };
    known().filter_map(cliff).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, fraction: f64, commit: &str) -> Record {
        let cell = Cell::asked(name).unwrap().remove(0);
        let found = Found::Measured(Figures {
            steps_per_second: 1.0,
            world_steps_per_second: 2.0,
            tflops: 3.0,
            fraction: Some(fraction),
            phases: Some(Phases { products_of_learning: Some(0.7), world: 0.2 }),
            path: "path".into(),
            first_iteration_seconds: 4.0,
            iterations: 5,
        });
        Record { cell, commit: commit.into(), device: "cpu".into(), found }
    }

    #[test]
    fn records_come_back_and_the_newest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.json");
        let mut records = Records::open(&path).unwrap();
        let name = "cartpole ppo 64-64 separate 256";
        records.add(record(name, 0.1, "a"), &path).unwrap();
        records.add(record("acrobot ppo 64-64 separate 256", 0.2, "a"), &path).unwrap();
        records.add(record(name, 0.3, "b"), &path).unwrap();
        let refused = Found::Refused { refused: "it does not fit".into() };
        let cell = Cell::asked("rice_n ppo 64-64 separate 256").unwrap().remove(0);
        let (commit, device) = ("b".into(), "cpu".into());
        records.add(Record { cell, commit, device, found: refused }, &path).unwrap();
        let back = Records::open(&path).unwrap();
        assert_eq!(back, records);
        let fractions: Vec<_> = back.newest("cpu").iter().map(|of| of.fraction()).collect();
        assert_eq!(fractions, [Some(0.3), Some(0.2), None]);
        assert!(back.has(&back.cells[0].cell, "a", "cpu"));
        assert!(!back.has(&back.cells[0].cell, "c", "cpu"));
        assert!(back.newest("cuda").is_empty());
        std::fs::write(&path, "[1]").unwrap();
        let error = Records::open(&path).unwrap_err().to_string();
        assert!(error.contains("was not written by"), "{error}");
    }

    #[test]
    fn a_cliff_is_less_than_half_of_the_best_beside_it() {
        let records = [
            record("cartpole ppo 64-64 separate 256", 0.3, ""),
            record("cartpole ppo 128-128 separate 256", 0.14, ""),
            record("cartpole ppo 256-256 separate 256", 0.2, ""),
            record("acrobot ppo 64-64 separate 256", 0.16, ""),
        ];
        let found = cliffs(&records.iter().collect::<Vec<_>>());
        let [cliff] = &found[..] else { panic!("{found:?}") };
        assert_eq!(cliff.cell, "cartpole ppo 128-128 separate 256");
        assert_eq!((&cliff.beside[..], cliff.best), ("cartpole ppo 64-64 separate 256", 0.3));
    }
}
