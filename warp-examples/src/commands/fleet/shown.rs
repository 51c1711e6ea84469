//! What shows how a fleet went: its curves, and TensorBoard's events of its first runs.

use crate::records::fleet::{CURVES, curves};
use crate::records::fleet_events::{EVENTS, FleetEvents};
use anyhow::{Result, anyhow};
use std::path::Path;
use std::thread;
use warp_train::TrainConfig;
use warp_train::fleet::Fleet;
use warp_train::run::{remove, write_whole};

/// Panels of a fleet's curves that are drawn at the same time.
const PANELS_AT_ONCE: usize = 8;

/// What is to be shown, before it is written.
pub(super) struct Shown {
    /// A PNG file.
    curves: Option<Vec<u8>>,
    events: Option<FleetEvents>,
}

/// Which of them are to be made.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    curves: bool,
    events: bool,
}

impl Shown {
    /// All there is of what the fleet in `folder` has recorded, whose first run has this configuration.
    pub(super) fn all(folder: &Path, first: &TrainConfig) -> Result<Self> {
        Self::some(folder, first, Wanted { curves: true, events: true })
    }

    /// What is wanted of curves and events. Each of them reads all records, at the same time.
    fn some(folder: &Path, first: &TrainConfig, wanted: Wanted) -> Result<Self> {
        let listed = Fleet::list(folder)?;
        let draw = || curves(folder, first, &listed)?.png(PANELS_AT_ONCE);
        let (drawn, events) = thread::scope(|scope| {
            let drawing = wanted.curves.then(|| scope.spawn(draw));
            let events = wanted.events.then(|| FleetEvents::read(folder, &listed));
            (drawing.map(thread::ScopedJoinHandle::join), events)
        });
        let drawn = drawn
            .map(|drawn| drawn.unwrap_or_else(|_| Err(anyhow!("the curves could not be drawn"))));
        Ok(Self { events: events.transpose()?, curves: drawn.transpose()? })
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        self.events.as_ref().map_or(Ok(()), |events| events.write(folder))?;
        let write = |curves| write_whole(&folder.join(CURVES), curves);
        Ok(self.curves.as_ref().map_or(Ok(()), write)?)
    }
}

/// Deletes what shows the fleet as an earlier process left it. Once the fleet has ended, what is there is taken to show
/// all of it.
pub(super) fn remove_outdated(folder: &Path) -> Result<()> {
    Ok([CURVES, EVENTS].iter().try_for_each(|name| remove(&folder.join(name)))?)
}

/// Makes what is missing in the folder of a fleet that has ended, and returns its names.
pub(super) fn make_missing(folder: &Path, first: &TrainConfig) -> Result<Vec<&'static str>> {
    // An older build may have left an empty file.
    let has_curves = folder.join(CURVES).metadata().is_ok_and(|file| file.len() > 0);
    let missing = Wanted { curves: !has_curves, events: !folder.join(EVENTS).exists() };
    Shown::some(folder, first, missing)?.write(folder)?;
    let all = [(CURVES, missing.curves), (EVENTS, missing.events)].into_iter();
    Ok(all.filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect())
}
