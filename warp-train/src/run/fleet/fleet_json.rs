//! `fleet.json`: which runs a fleet has, line by line.

use super::{FleetRun, Halving};
use crate::error::{Error, Result};
use crate::run::durable::write_whole;
use serde::{Deserialize, Serialize};
use std::path::Path;
use warp_core::toml::Table;
use warp_data::file;

/// Version of the layout.
const FORMAT: u32 = 1;
pub(super) const LIST: &str = "fleet.json";

/// One run, as `fleet.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its number.
    pub run: usize,
    /// Its seed.
    pub seed: u64,
    /// The swept keys with its values; empty without a sweep.
    pub swept: Table,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    halving: Option<Halving>,
    runs: Vec<Listed>,
}

impl List {
    fn text(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)?.replace("{\"run\"", "\n{\"run\"") + "\n")
    }
}

/// Writes the list of a new fleet.
pub(super) fn write(
    fleet: &Path,
    runs: &[FleetRun],
    halving: Option<Halving>,
) -> Result<Vec<Listed>> {
    let listed = |run: &FleetRun| Listed {
        run: run.number,
        seed: run.config.run.seed,
        swept: run.swept.iter().cloned().collect(),
    };
    let list = List { format: FORMAT, halving, runs: runs.iter().map(listed).collect() };
    let path = fleet.join(LIST);
    let text = list.text().map_err(|e| Error::file("cannot encode", &path, e))?;
    write_whole(&path, &text)?;
    Ok(list.runs)
}

pub(super) fn read(fleet: &Path) -> Result<Vec<Listed>> {
    Ok(load(fleet)?.runs)
}

/// How settings are stopped, if they are.
pub(super) fn halving(fleet: &Path) -> Result<Option<Halving>> {
    Ok(load(fleet)?.halving)
}

/// The list, every swept value bit by bit: JSON's numbers are not always read so.
pub(super) fn read_exactly(fleet: &Path) -> Result<Vec<Listed>> {
    let path = fleet.join(LIST);
    Ok(exactly(&text(&path)?, &path)?.0)
}

/// What `text` lists, every swept value bit by bit, and how settings are stopped; it is that of the file at `path`.
pub(super) fn exactly(text: &str, path: &Path) -> Result<(Vec<Listed>, Option<Halving>)> {
    let list = parse(text, path)?;
    if list.text().is_ok_and(|again| again == text) {
        return Ok((list.runs, list.halving));
    }
    let reason = "it does not read back as it was written, so the runs would not be the same";
    Err(Error::file("cannot continue a fleet's", path, reason))
}

fn load(fleet: &Path) -> Result<List> {
    let path = fleet.join(LIST);
    parse(&text(&path)?, &path)
}

/// The file as it is.
pub(super) fn text(path: &Path) -> Result<String> {
    file::read_text(path, file::DESCRIPTION).map_err(|e| wrong(path, &e))
}

fn parse(text: &str, path: &Path) -> Result<List> {
    let list: List = serde_json::from_str(text).map_err(|e| wrong(path, &e))?;
    if list.format == FORMAT {
        return Ok(list);
    }
    Err(wrong(path, &format!("it has format {}, this build reads {FORMAT}", list.format)))
}

fn wrong(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::file("cannot read a fleet's", path, reason)
}
