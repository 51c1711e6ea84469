//! What `warp train` is to do for one rank: a new run, or one in a folder that goes on, and its configuration.

use super::args::TrainArgs;
use super::{begin_notes, out_folder, resumption};
use crate::basis::Basis;
use crate::settings;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use warp_func::Registry;
use warp_train::run::{Locked, Place};
use warp_train::world::World;
use warp_train::{Run, TrainConfig};

/// A run that is about to begin or go on.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) args: TrainArgs,
    pub(super) config: TrainConfig,
    pub(super) basis: Option<Basis>,
    /// Where it goes on from; the rank that writes holds the lock.
    pub(super) from: Option<(Place, Option<Locked>)>,
}

impl Task {
    /// Reads what `args` ask for, on one of `n_ranks`, of which one writes.
    ///
    /// # Errors
    /// A folder in which another process is at work, or a configuration that does not fit.
    pub(super) fn read(
        args: TrainArgs,
        registry: &Registry,
        n_ranks: usize,
        writes: bool,
    ) -> Result<Self> {
        let from = args.resume.as_deref().map(Place::parse);
        // Before anything is read that another process might be about to change.
        let lock = |from: Place| {
            let locked = writes.then(|| Run::lock(&from.folder)).transpose();
            locked.map(|locked| (from, locked))
        };
        let from = from.map(lock).transpose()?;
        let place = from.as_ref().map(|(place, _)| place);
        let (mut config, basis) = match place {
            Some(place) => (configure_resumed(&args, place, registry)?, None),
            None if writes => {
                let (target, sets) = named_in(&args)?;
                let (config, basis) = settings::configure_with_basis(target, &sets, registry)?;
                (config, Some(basis))
            }
            // What is to be said of the configuration is said by the rank that writes.
            None => (configure_new(&args, registry)?, None),
        };
        if place.is_none() {
            begin_notes::check_stop(&config)?;
        }
        if args.ranks.scale_envs && from.is_none() {
            config.run.num_envs = config.run.num_envs.saturating_mul(n_ranks);
        }
        Ok(Self { args, config, basis, from })
    }

    /// This task once all ranks have met: where the first one goes on with a run that was restarted, all do.
    ///
    /// # Errors
    /// Ranks that have lost each other, or a folder that not all of them can read.
    pub(super) fn agreed(self, world: &World, registry: &Registry) -> Result<Self> {
        let begun = self.args.restarts.go_on_in().unwrap_or(Path::new(""));
        let told = world.broadcast("where the run goes on", begun.to_string_lossy().as_bytes())?;
        if told.is_empty() {
            return Ok(self);
        }
        let folder = String::from_utf8_lossy(&told).into_owned();
        Self::read(self.args.going_on_in(folder.into()), registry, world.size(), world.is_first())
    }
}

/// The folder that a new run gets.
pub(super) fn new_folder(args: &TrainArgs, registry: &Registry) -> Result<PathBuf> {
    Ok(folder_of(args, &configure_new(args, registry)?))
}

/// The folder of a new run with this configuration.
pub(super) fn folder_of(args: &TrainArgs, config: &TrainConfig) -> PathBuf {
    let run = &config.run;
    let name = format!("{}-{}-s{}", run.env_id, config.algorithm(), run.seed);
    out_folder::of(args, run, &name)
}

/// What a new run is of: an environment's name or a file, and the keys that options set.
fn named_in(args: &TrainArgs) -> Result<(&str, Vec<String>)> {
    let target = args.target.as_deref().context("an environment or a file is needed")?;
    Ok((target, args.set.iter().cloned().chain(args.overrides()).collect()))
}

/// The configuration of a new run; nothing is said of it.
fn configure_new(args: &TrainArgs, registry: &Registry) -> Result<TrainConfig> {
    let (target, sets) = named_in(args)?;
    settings::configure_again(target, &sets, registry)
}

/// The configuration of the run that goes on at `from`.
fn configure_resumed(args: &TrainArgs, from: &Place, registry: &Registry) -> Result<TrainConfig> {
    let config = resumption::configure(&from.folder, args, registry)?;
    // What a run has from before is its own.
    if args.set.iter().any(|set| set.starts_with("stop_at_return")) {
        begin_notes::check_stop(&config)?;
    }
    Ok(config)
}
