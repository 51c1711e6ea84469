//! Tag on a grid: whole numbers, compared exactly. Recorded agents are ours, the runner last.

use super::adapter::{AS_RECORDED, Adapter, Draft, over_defaults};
use super::case::Case;
use super::plan::{Plan, Rule, Tolerance, Treatment};
use anyhow::Result;
use toml::{Table, toml};
use warp_func::VecEnv;

/// The adapter.
pub(super) const ADAPTER: Adapter = Adapter { config, plan };

/// Rewards and observations are fractions of whole numbers.
const FRACTIONS: Tolerance = Tolerance::within(1e-6);

/// The original's defaults.
fn config(case: &Case) -> Result<Table> {
    Ok(over_defaults(
        case,
        toml! {
            num_taggers = 10
            grid_length = 10
            episode_length = 100
            wall_hit_penalty = 0.1
            tag_reward_for_tagger = 10.0
            tag_penalty_for_runner = 2.0
            step_cost_for_tagger = 0.01
            use_full_observation = true
        },
    ))
}

fn plan(case: &Case, _config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    let mut draft = Draft::new(case, env, case.steps, true)?;
    for (name, id) in draft.fields() {
        draft.field(&name, id, true, Tolerance::EXACT, Tolerance::EXACT, plain())?;
    }
    draft.actions()?;
    draft.observations(true, AS_RECORDED, FRACTIONS, Some(FRACTIONS), (&[], 0.0), plain)?;
    draft.rewards(FRACTIONS, Some(FRACTIONS), plain)?;
    draft.done("done", true, plain())?;
    draft.plan.free_transitions = case.steps;
    Ok(draft.plan)
}

fn plain() -> Rule {
    Box::new(|_| Treatment::Plain)
}
