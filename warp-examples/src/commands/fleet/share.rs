//! A process that trains its share of a fleet, which the first process plans and writes.

use super::devices;
use super::plan::runs_of;
use super::rounds::Rounds;
use crate::Outcome;
use crate::commands::Device;
use crate::commands::ranks::cause_of;
use crate::commands::stop::Stop;
use crate::commands::train::args::TrainArgs;
use anyhow::Result;
use warp_func::Registry;
use warp_train::fleet::{Fleet, FleetBroadcast, together};
use warp_train::world::{PATIENCE, World};

/// What all processes come to when the first has written everything.
pub(super) const END: &str = "the fleet's end";

/// What the first process says at a fleet's end, as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All runs have ended well.
    Done = 0,
    /// All runs have ended, and some of them failed.
    Failed = 1,
    /// Some runs are left.
    Stopped = 2,
}

impl Ended {
    /// What `said` means; `None` for anything that no process says.
    fn of(said: &[u8]) -> Option<Self> {
        [Self::Done, Self::Failed, Self::Stopped].into_iter().find(|end| said == end.bytes())
    }

    pub(super) fn bytes(self) -> [u8; 1] {
        [self as u8]
    }
}

/// Trains what is dealt to this process; the first says what came of it.
pub(super) fn train(
    args: &TrainArgs,
    registry: &Registry,
    devices: &[Device],
    world: &World,
) -> Result<Outcome> {
    let Some(told) = FleetBroadcast::hear(world)? else { return Ok(Outcome::Done) };
    let (runs, halving) = (runs_of(&told.config, told.listed().to_vec(), registry)?, told.halving);
    let fleet = Fleet::elsewhere(told, &runs);
    let own = Some(fleet.deal(&runs, world));
    let registries = devices::registries(devices, registry);
    let stop = Stop::listen()?;
    together(&fleet, world, &|| stop.is_asked(), cause_of, |together| {
        let first = devices::FirstLaunch::of(&runs, world);
        let mut learner = devices::learner(args, first, devices, &registries)?;
        let rounds = Rounds { runs: &runs, own, halving, fleet: &fleet, shows: false };
        rounds.train(&mut learner, together)
    })?;
    let said = world.all_gather_within(END, &[], PATIENCE)?;
    Ok(match Ended::of(&said[0]) {
        Some(Ended::Stopped) => Outcome::Interrupted { signal: Stop::ended_by(Some(&stop)) },
        Some(Ended::Failed) => Outcome::Failed,
        Some(Ended::Done) | None => Outcome::Done,
    })
}
