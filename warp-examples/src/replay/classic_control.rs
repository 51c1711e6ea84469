//! The five environments of classic control: the original's physics and time limit, the state in
//! one matrix whose columns are the state's fields in their order.

use super::adapter::Adapter;
use super::case::Case;
use super::plan::Plan;
use super::recorded::{Rules, plan_by_names};
use anyhow::Result;
use toml::Table;
use warp_func::VecEnv;

/// The adapter for all of them.
pub(super) const ADAPTER: Adapter = Adapter { config, plan };

/// What the original's rules are called in our configurations.
const PRESET: &str = "warpdrive";

fn config(case: &Case) -> Result<Table> {
    let mut config = case.config.clone();
    config.insert("preset".into(), PRESET.into());
    Ok(config)
}

fn plan(case: &Case, _config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    plan_by_names(case, env, &rules(&case.env))
}

/// How recordings of the environment `env` are compared.
fn rules(env: &str) -> Rules {
    match env {
        // x, x', theta, theta'
        "cartpole" => Rules { free_transitions: 50, ..Rules::PLAIN },
        // theta 1, theta 2, omega 1, omega 2; seen as cosine and sine of both, then both omega.
        "acrobot" => Rules {
            free_transitions: 50,
            angles: &[0, 1],
            loose_state: (&[2, 3], 2e-4),
            loose_observation: (&[4, 5], 2e-4),
            ..Rules::PLAIN
        },
        // theta, omega
        "pendulum" => Rules { angles: &[0], ..Rules::PLAIN },
        // Both mountain cars: position, velocity.
        _ => Rules::PLAIN,
    }
}
