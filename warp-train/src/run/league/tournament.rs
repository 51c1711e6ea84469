//! A tournament: a finished run's checkpoints play each other as the snapshots of a league do.

use super::{League, Snapshot, Table, who_acts};
use crate::config::{LeagueConfig, TrainConfig};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::run::checkpoint::{Checkpoint, list};
use crate::run::evaluator::Evaluator;
use crate::run::learner::Learner;
use std::path::Path;

/// Has all checkpoints of the run in `folder` play all of the other policy, `keys.episodes` episodes each. The run
/// need not have been a league; `config` is its configuration and `learner` one for it.
///
/// # Errors
/// Not two policies that learn, checkpoints that can't be opened, or none.
pub fn tournament(
    folder: &Path,
    config: &TrainConfig,
    keys: LeagueConfig,
    learner: &mut dyn Learner,
    evaluator: Evaluator<'_>,
) -> Result<Table> {
    let config = config.with_league(Some(keys))?;
    let none = || Error::Invalid("a tournament needs the keys of a league".into());
    let mut league = League::new(&config)?.ok_or_else(none)?;
    let checkpoints = Run::checkpoints(folder);
    let mut whole = None;
    for (step, path) in list(&checkpoints)? {
        let learner = Checkpoint::open(&path)?.learner;
        league.snapshots.push(Snapshot { step, state: who_acts(&learner) });
        whole = Some(learner);
    }
    let none = || Error::file("cannot open a checkpoint in", &checkpoints, "there is none");
    let whole = whole.ok_or_else(none)?;
    league.play(learner, &whole, &config, evaluator)?;
    Ok(league.table())
}
