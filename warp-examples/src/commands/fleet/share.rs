//! A process that trains its share of a fleet, which the first process plans and writes.

use super::plan::runs_of;
use super::rounds::Rounds;
use super::{Device, TrainArgs, devices};
use crate::Outcome;
use crate::commands::stop::Stop;
use anyhow::Result;
use warp_func::Registry;
use warp_train::fleet::{Fleet, FleetRun, Told, dealt, together};
use warp_train::world::{PATIENCE, World};

/// What all processes come to when the first has written everything.
pub(super) const END: &str = "the fleet's end";

/// Trains what is dealt to this process; the first says what came of it.
pub(super) fn train(
    args: &TrainArgs,
    registry: &Registry,
    devices: &[Device],
    world: &World,
) -> Result<Outcome> {
    let Told { config, listed, left } = Told::hear(world)?;
    if left.is_empty() {
        return Ok(Outcome::Done);
    }
    let runs = runs_of(&config, listed.clone(), registry)?;
    let left: Vec<FleetRun> = left.iter().filter_map(|run| runs.get(*run).cloned()).collect();
    let own = Some(dealt(&left, world));
    let fleet = Fleet::elsewhere(listed, &runs);
    let registries = devices::registries(devices, registry);
    let stop = Stop::listen()?;
    together(&fleet, world, &|| stop.is_asked(), |asked| {
        let mut learner = devices::learner(args, &runs[0].config, devices, &registries)?;
        let rounds = Rounds { runs: &runs, own, halving: None, fleet: &fleet, shows: false };
        rounds.train(&mut learner, asked)
    })?;
    world.gather_within(END, &[], PATIENCE)?;
    Ok(Outcome::Done)
}
