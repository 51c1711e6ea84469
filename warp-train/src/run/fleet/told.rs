//! What the first of several processes tells the others of a fleet: they need neither its folder nor the same
//! command line.

use super::list::{self, LIST, Listed};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::world::{PATIENCE, World, parts};
use std::path::Path;

const RUNS: &str = "the fleet's runs";

/// A fleet whose runs are to be trained.
#[derive(Debug)]
pub struct Told {
    /// The configuration of all runs but for their seeds and swept keys.
    pub config: String,
    /// All runs.
    pub listed: Vec<Listed>,
    /// The numbers of those that have not ended.
    pub left: Vec<usize>,
}

impl Told {
    /// Tells the other processes of the fleet in `folder`, of which the runs `left` have not ended.
    ///
    /// # Errors
    /// A folder that can't be read, or processes that have lost each other.
    pub fn tell(world: &World, folder: &Path, left: &[usize]) -> Result<()> {
        if world.is_alone() {
            return Ok(());
        }
        let numbers: Vec<u8> = left.iter().flat_map(|run| (*run as u64).to_le_bytes()).collect();
        let (config, list) = (Run::config(folder)?, list::text(&folder.join(LIST))?);
        let bytes = parts::join(&[config.into_bytes(), list.into_bytes(), numbers]);
        world.tell_within(RUNS, &bytes, PATIENCE).map(|_| ())
    }

    /// Hears it.
    ///
    /// # Errors
    /// Processes that have lost each other, or a list that does not read back as it was written.
    pub fn hear(world: &World) -> Result<Self> {
        let told = parts::split(&world.tell_within(RUNS, &[], PATIENCE)?);
        let unreadable = || Error::Ranks("the fleet's runs can't be read".into());
        let Some([config, list, numbers]) = told.as_deref() else { return Err(unreadable()) };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| unreadable());
        let (numbers, _) = numbers.as_chunks::<8>();
        let left = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize).collect();
        let listed = list::exactly(&text(list)?, Path::new(LIST))?;
        Ok(Self { config: text(config)?, listed, left })
    }
}
