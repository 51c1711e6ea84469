//! Toy text: transition tables, and trajectories with the numbers that were drawn.
//!
//! A recorded transition is replayed at a step of the run whose own draws choose what was drawn there
//! (`chance`), so that the whole environment takes part, on either body.

mod cards;
mod chance;
mod replicas;
mod tabular;

use super::case::{Case, is_table};
use super::compare::Tallies;
use anyhow::Result;
use chance::Chance;
use warp_func::Registry;

/// Replays `case`; `None` if it is not one of toy text.
pub(super) fn replay(registry: &Registry, case: &Case) -> Result<Option<Tallies>> {
    if !case.toy_text {
        return Ok(None);
    }
    let mut chance = Chance::new(registry.get(&case.env)?, case)?;
    match case.env.as_str() {
        "blackjack" => cards::replay(case, &mut chance)?,
        "catch" | "nchain" => replicas::replay(case, &mut chance)?,
        _ if is_table(&case.described) => tabular::table(case, &mut chance)?,
        _ => tabular::trajectory(case, &mut chance)?,
    }
    chance.finish().map(Some)
}
