//! RICE-N: arrays called `state_*` are the original's own, one row per time.
//!
//! What debts decide, which is trade and all that is made of it, can be followed freely through a whole episode by
//! no other program: a debt counts ten times over a region's first capital, some tens of billions beside an output
//! of trillions, so that one step can make an error a thousand times larger. Two runs of one program, one of which
//! has its state moved by one rounding after each step, are 1e-4 apart after 4 activity steps of the recorded
//! episode, 1e-2 after 12, and have nothing in common after 20; f64 within a step, as in the original, changes
//! nothing, since states are f32. So trade is compared after one step from every recorded state, and followed
//! from every recorded state for as long as its twins (`twins`) stay together: five or six steps in the mean, and
//! the last ones of the episode, too. Climate and growth do not depend on it, and are compared to the end.

use super::adapter::{AS_RECORDED, Adapter, Draft};
use super::case::Case;
use super::plan::{Check, Origin, Plan, Rule, Tolerance, Track, Treatment};
use anyhow::{Result, anyhow, ensure};
use toml::Table;
use warp_data::ArrayId;
use warp_func::VecEnv;

/// The adapter.
pub(super) const ADAPTER: Adapter = Adapter { config, plan };

/// After one step, and running free.
const BOUNDS: (Tolerance, Tolerance) = (Tolerance::scaled(2e-4), Tolerance::scaled(1e-2));

/// The recorded configuration. The length of an episode, which was recorded beside it, follows from it.
fn config(case: &Case) -> Result<Table> {
    let mut config = case.config.clone();
    config.remove("episode_length");
    Ok(config)
}

/// What trade decides.
const OF_TRADE: [&str; 7] = [
    "state_current_balance_all_regions",
    "state_consumption_all_regions",
    "state_utility_all_regions",
    "state_social_welfare_all_regions",
    "state_reward_all_regions",
    "observations",
    "rewards",
];

fn plan(case: &Case, config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    let mut draft = Draft::new(case, env, case.steps, true)?;
    let negotiates = config.get("negotiation_on").and_then(toml::Value::as_bool).unwrap_or(false);
    for (name, id) in draft.fields() {
        let deals = ["promised_mitigation_rate", "requested_mitigation_rate", "proposal_decisions"];
        if !negotiates && deals.contains(&name.as_str()) {
            continue;
        }
        field(&mut draft, &name, id)?;
    }
    draft.actions()?;
    draft.observations(true, AS_RECORDED, BOUNDS.0, Some(BOUNDS.1), (&[], 0.0), plain)?;
    draft.rewards(BOUNDS.0, Some(BOUNDS.1), plain)?;
    draft.done("done", true, plain())?;
    if case.find("action_mask").is_some() {
        mask(&mut draft, env)?;
    }
    draft.used("actions_nvec");
    draft.used("state_stage");
    draft.plan.free_transitions = case.steps;
    let of_trade = |check: &&mut Check| OF_TRADE.contains(&check.name.as_str());
    draft.plan.checks.iter_mut().filter(of_trade).for_each(|check| check.grows = true);
    Ok(draft.plan)
}

/// Loads and compares a state field. Of what is alike for all regions here, the first is taken.
fn field(draft: &mut Draft<'_>, name: &str, id: ArrayId) -> Result<()> {
    let names = [format!("state_{name}"), format!("state_{name}_all_regions")];
    let recorded = names.iter().find(|name| draft.case.find(name).is_some());
    let recorded = recorded.ok_or_else(|| anyhow!("it lacks the array \"{}\"", names[0]))?;
    let array = draft.case.rows(recorded, draft.plan.transitions + 1)?;
    let len = draft.store.array(id).row_len();
    ensure!(
        len == array.row_len() || len == 1,
        "array \"{recorded}\" of shape {:?} has {} elements per row, but {len} are needed",
        array.shape,
        array.row_len()
    );
    let origin = (0..len).map(|i| Origin { flat: i, agent: 0, element: i }).collect();
    let track = Track::gather(recorded, array, draft.store, id, origin)?;
    draft.plan.loads.push(track.clone());
    let whole = draft.store.array(id).dtype() != warp_core::DType::F32;
    let bounds = if whole { (Tolerance::EXACT, Tolerance::EXACT) } else { BOUNDS };
    let check = Check::new(recorded, track, bounds.0, Some(bounds.1));
    draft.plan.checks.push(Check { after: 1, rule: plain(), ..check });
    Ok(())
}

/// Compares the masks before and after every step.
fn mask(draft: &mut Draft<'_>, env: &dyn VecEnv) -> Result<()> {
    let id = env.ids().action_mask[0];
    let id = id.ok_or_else(|| anyhow!("the environment has no action mask"))?;
    let recorded = draft.case.rows("action_mask", draft.plan.transitions + 1)?;
    let len = draft.store.array(id).row_len();
    super::adapter::expect_row_len("action_mask", recorded, len)?;
    let origin = (0..len).map(|i| Origin { flat: i, agent: 0, element: i }).collect();
    let track = Track::gather("action_mask", recorded, draft.store, id, origin)?;
    let check = Check::new("action_mask", track, Tolerance::EXACT, Some(Tolerance::EXACT));
    draft.plan.checks.push(Check { after: 1, observed: true, ..check });
    Ok(())
}

fn plain() -> Rule {
    Box::new(|_| Treatment::Plain)
}

#[cfg(test)]
mod tests {
    use crate::replay::run_to;
    use std::path::Path;

    /// Two steps from the first of three recorded states, and one from the second.
    #[test]
    fn trade_is_followed_from_every_recorded_state() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../warp-envs/tests/golden/rice_n");
        let file = golden.join("no_negotiation_levels10_first2.npz");
        let mut out = Vec::new();
        assert!(run_to(&mut out, &warp_envs::registry(), &[file], None, true).unwrap());
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let arrays = report["files"][0]["arrays"].as_array().unwrap();
        let free = |name: &str| arrays.iter().find(|a| a["array"] == name && a["mode"] == "free");
        for name in super::OF_TRADE.iter().filter(|name| **name != "observations") {
            assert_eq!(free(name).unwrap()["compared"], 3 * 27, "{name}");
        }
    }
}
