//! What the first of several processes tells the others of a fleet: they need neither its folder nor the same
//! command line.

use super::fleet_json::{self, LIST, Listed};
use super::standing::Standing;
use super::{Fleet, Halving};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::world::{PATIENCE, World, parts};
use std::path::Path;

const RUNS: &str = "the fleet's runs";

/// A fleet whose runs are to be trained.
#[derive(Debug)]
pub struct FleetBroadcast {
    /// The configuration of all runs but for their seeds and swept keys.
    pub config: String,
    /// How settings are stopped, if they are.
    pub halving: Option<Halving>,
    pub(super) listed: Vec<Listed>,
    pub(super) ended: Vec<Standing>,
}

impl FleetBroadcast {
    /// Tells the other processes of `fleet`, whose folder this is.
    ///
    /// # Errors
    /// A folder that can't be read, or processes that have lost each other.
    pub fn tell(world: &World, folder: &Path, fleet: &Fleet) -> Result<()> {
        if world.is_alone() {
            return Ok(());
        }
        let ended = fleet.standings().into_iter().filter(|standing| standing.has_ended);
        let ended = serde_json::to_vec(&ended.collect::<Vec<_>>()).map_err(|_| unreadable())?;
        let (config, list) = (Run::config(folder)?, fleet_json::text(&folder.join(LIST))?);
        let bytes = parts::join(&[config.into_bytes(), list.into_bytes(), ended]);
        world.broadcast_within(RUNS, &bytes, PATIENCE).map(|_| ())
    }

    /// Tells them that all runs have ended.
    ///
    /// # Errors
    /// Processes that have lost each other.
    pub fn tell_end(world: &World) -> Result<()> {
        world.broadcast_within(RUNS, &[], PATIENCE).map(|_| ())
    }

    /// Hears what the first process tells; nothing if all runs have ended.
    ///
    /// # Errors
    /// Processes that have lost each other, or a list that does not read back as it was written.
    pub fn hear(world: &World) -> Result<Option<Self>> {
        let bytes = world.broadcast_within(RUNS, &[], PATIENCE)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let told = parts::split(&bytes);
        let Some([config, list, ended]) = told.as_deref() else { return Err(unreadable()) };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| unreadable());
        let (listed, halving) = fleet_json::exactly(&text(list)?, Path::new(LIST))?;
        let ended = serde_json::from_slice(ended).map_err(|_| unreadable())?;
        Ok(Some(Self { config: text(config)?, listed, halving, ended }))
    }

    /// All runs.
    #[must_use]
    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }
}

fn unreadable() -> Error {
    Error::Ranks("the fleet's runs can't be read".into())
}
