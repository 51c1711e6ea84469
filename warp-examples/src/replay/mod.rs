//! `warp replay`: recorded trajectories on either body, teacher-forced and free-running.
//!
//! A case is an `.npz` file ([`npz`] reads it) with a `.json` beside it (`case`). An
//! `adapter` turns it into a `plan` in the environment's own arrays, `drive` carries that out
//! through [`warp_func::VecEnv`], `compare` keeps the largest error per array and `report` shows it.
//! `twins` says how far a free run can be compared where errors grow.

mod adapter;
mod case;
mod catalysis;
mod classic_control;
mod compare;
mod covid19;
mod drive;
mod optima;
mod plan;
mod recorded;
mod report;
mod rice_n;
mod tag_continuous;
mod tag_gridworld;
mod toy_text;
mod twins;

/// The reader of recordings.
pub use warp_envs::numpy as npz;

use crate::output::{say_to, tell};
use adapter::Adapter;
use anyhow::{Result, anyhow, ensure};
use case::Case;
use compare::Tallies;
use report::FileReport;
use std::io::Write;
use std::path::{Path, PathBuf};
use warp_func::{Registry, VecOptions};

/// States that are loaded at once.
const REPLICAS: usize = 512;

/// Replays `files` and prints the largest error per array, as tables or as one JSON object. `data` is
/// the folder with the published data that some were recorded with.
///
/// Returns whether all errors are within their tolerances.
///
/// # Errors
/// What the user can put right, in one sentence: a file that is missing, damaged or not the one
/// that its description names, an environment that `registry` lacks, an array or a configuration
/// key that does not fit.
pub fn run(
    registry: &Registry,
    files: &[PathBuf],
    data: Option<&Path>,
    json: bool,
) -> Result<bool> {
    run_to(&mut std::io::stdout().lock(), registry, files, data, json)
}

/// As [`run`], with the output going to `out`.
///
/// # Errors
/// As [`run`].
pub fn run_to(
    out: &mut dyn Write,
    registry: &Registry,
    files: &[PathBuf],
    data: Option<&Path>,
    json: bool,
) -> Result<bool> {
    ensure!(!files.is_empty(), "there is nothing to replay: give at least one .npz file");
    let mut reports = Vec::new();
    for file in files {
        let report = replay(registry, file, data)?;
        if !json {
            say_to(out, report.text().trim_end())?;
        }
        reports.push(report);
    }
    let passed = reports.iter().filter(|report| report.passed()).count();
    let last = match json {
        true => report::to_json(&reports).to_string(),
        false => format!("{passed} of {} cases are within their tolerances", reports.len()),
    };
    say_to(out, &last)?;
    Ok(passed == reports.len())
}

/// The name of the environment that `file` was recorded from.
///
/// # Errors
/// As [`run`], as far as the file and its description go.
pub fn environment_of(file: &Path) -> Result<String> {
    Ok(Case::open(file, None)?.env)
}

fn replay(registry: &Registry, file: &Path, data: Option<&Path>) -> Result<FileReport> {
    if let Some(report) = optima::compare(file, data)? {
        return Ok(report);
    }
    let data = data.map(Path::to_path_buf);
    let mut case = Case::open(file, Some(registry))?;
    case.data = data;
    let arrays = replay_case(registry, &case);
    let arrays = arrays.map_err(|e| anyhow!("{} cannot be replayed: {e}", case.file))?;
    Ok(FileReport { file: case.file, env: case.env, case: case.name, arrays: arrays.into_vec() })
}

fn replay_case(registry: &Registry, case: &Case) -> Result<Tallies> {
    if let Some(tallies) = toy_text::replay(registry, case)? {
        return Ok(tallies);
    }
    let entry = registry.get(&case.env)?;
    let adapter = adapter_of(case);
    let config = (adapter.config)(case)?;
    let options = VecOptions { auto_reset: false, ..VecOptions::default() };
    let mut one = entry.make(&config, &options)?;
    // A plan may compare the state that it begins with.
    one.sync()?;
    let plan = (adapter.plan)(case, &config, &*one)?;
    tell_unused(case, &plan);
    let n_envs = plan.transitions.min(REPLICAS);
    let mut many = entry.make(&config, &VecOptions { n_envs, ..options.clone() })?;
    let mut tallies = Tallies::default();
    drive::constants(&plan, &mut tallies);
    drive::teacher(&mut *many, &plan, &mut tallies)?;
    if plan.checks.iter().any(|check| check.grows) {
        one = entry.make(&config, &VecOptions { n_envs: 1 + twins::TWINS, ..options })?;
    }
    drive::free(&mut *one, &plan, &mut tallies)?;
    many.sync()?;
    one.sync()?;
    Ok(tallies)
}

/// The adapter for a case; environments that are not listed here are replayed by the names of
/// their own arrays.
fn adapter_of(case: &Case) -> Adapter {
    match case.env.as_str() {
        _ if case.classic => classic_control::ADAPTER,
        "catalysis" | "catalysis_two_atoms" => catalysis::ADAPTER,
        "covid19" => covid19::ADAPTER,
        "rice_n" => rice_n::ADAPTER,
        "tag_gridworld" => tag_gridworld::ADAPTER,
        "tag_continuous" => tag_continuous::ADAPTER,
        _ => recorded::ADAPTER,
    }
}

/// Names the arrays that a replay has no use for.
fn tell_unused(case: &Case, plan: &plan::Plan) {
    let checked = |name: &str| plan.checks.iter().any(|check| check.name == name);
    let constant = |name: &str| plan.constants.iter().any(|constant| constant.name == name);
    let used = |name: &str| checked(name) || constant(name) || plan.used.iter().any(|u| u == name);
    let unused: Vec<&str> = case.array_names().filter(|name| !used(name)).collect();
    if !unused.is_empty() {
        tell(&format!("{}: not compared: {}", case.file, unused.join(", ")));
    }
}
