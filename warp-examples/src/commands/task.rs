//! What `warp train` is to do for one rank: a new run, or one in a folder that goes on, and its configuration.

use super::train::TrainArgs;
use super::{notes, out_folder, resumption};
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
        let (mut config, basis) = configure(&args, place, registry)?;
        if args.ranks.scale_envs && from.is_none() {
            config.run.num_envs = config.run.num_envs.saturating_mul(n_ranks);
        }
        Ok(Self { args, config, basis, from })
    }

    /// The same once all ranks have met: where the first one goes on with a run that was restarted, all do.
    ///
    /// # Errors
    /// Ranks that have lost each other, or a folder that not all of them can read.
    pub(super) fn agreed(self, world: &World, registry: &Registry) -> Result<Self> {
        let begun = self.args.restarts.go_on_in().unwrap_or(Path::new(""));
        let told = world.tell("where the run goes on", begun.to_string_lossy().as_bytes())?;
        if told.is_empty() {
            return Ok(self);
        }
        let folder = String::from_utf8_lossy(&told).into_owned();
        Self::read(self.args.going_on_in(folder.into()), registry, world.size(), world.is_first())
    }
}

/// The folder that a new run gets.
pub(super) fn new_folder(args: &TrainArgs, registry: &Registry) -> Result<PathBuf> {
    let (config, _) = configure(args, None, registry)?;
    Ok(folder_of(args, &config))
}

/// The folder of a new run with this configuration.
pub(super) fn folder_of(args: &TrainArgs, config: &TrainConfig) -> PathBuf {
    let run = &config.run;
    let name = format!("{}-{}-s{}", run.env_id, config.algorithm(), run.seed);
    out_folder::of(args, run, &name)
}

/// The configuration of a new run with what it is based on, or of the one that goes on at `from`.
fn configure(
    args: &TrainArgs,
    from: Option<&Place>,
    registry: &Registry,
) -> Result<(TrainConfig, Option<Basis>)> {
    if let Some(from) = from {
        let config = resumption::configure(&from.folder, args, registry)?;
        // What a run has from before is its own.
        if args.set.iter().any(|set| set.starts_with("stop_at_return")) {
            notes::check_stop(&config)?;
        }
        return Ok((config, None));
    }
    let target = args.target.as_deref().context("an environment or a file is needed")?;
    let mut sets = args.set.clone();
    sets.extend(args.overrides());
    let (config, basis) = settings::configure_with_basis(target, &sets, registry)?;
    notes::check_stop(&config)?;
    Ok((config, Some(basis)))
}
