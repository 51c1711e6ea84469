//! Catalysis, with one atom or two: the state in one matrix x, y, z of each atom, the energies in a
//! published file that the description names.

use super::adapter::Adapter;
use super::case::Case;
use super::plan::{Check, Origin, Plan, Tolerance, Track};
use super::recorded::{Rules, plan_by_names};
use anyhow::{Result, anyhow};
use serde_json::Value;
use toml::{Table, toml};
use warp_func::VecEnv;

/// The adapter for both.
pub(super) const ADAPTER: Adapter = Adapter { config, plan };

/// Rewards and observations are fractions.
const RULES: Rules = Rules { bound: 1e-6, ..Rules::PLAIN };

/// The original's defaults, with the energies as they were published.
fn config(case: &Case) -> Result<Table> {
    let file = case.described.get("energy_file").and_then(Value::as_str);
    let file = file.ok_or_else(|| anyhow!("its description has no text \"energy_file\""))?;
    let path = case.data_file("catalysis", file)?;
    let path = path.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", path.display()))?;
    let mut config = toml! {
        ienergy = 0.0
        terminate_reward = 10.0
        min_reward = -1.0
        episode_length = 50
        unphysical = "keep"
    };
    config.extend(case.config.clone());
    config.insert("grid".into(), path.into());
    Ok(config)
}

/// Everything runs free as closely as step by step, since states are whole numbers.
fn plan(case: &Case, _config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    let mut plan = plan_by_names(case, env, &RULES)?;
    if case.find("done").is_some() && case.find("terminated").is_some() {
        let recorded = case.rows("terminated", plan.transitions)?;
        let origin = vec![Origin { flat: 0, agent: 0, element: 0 }];
        let track =
            Track::gather("terminated", recorded, env.store(), env.ids().terminated, origin)?;
        plan.checks.push(Check::new("terminated", track, Tolerance::EXACT, None));
    }
    for check in &mut plan.checks {
        check.free = Some(check.teacher);
    }
    Ok(plan)
}
