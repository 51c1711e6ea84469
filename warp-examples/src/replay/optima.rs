//! Known optima of catalysis: a `.json` without recordings, an object per published landscape.
//!
//! They are compared with what the search computes, so the folder of the energies must be named.

use super::compare::{Mode, Tallies};
use super::plan::{Place, Tolerance, Treatment};
use super::report::FileReport;
use anyhow::{Result, anyhow, ensure};
use serde_json::{Map, Value};
use std::path::Path;
use toml::Table;
use warp_core::{Config, ConfigValue};
use warp_data::file;
use warp_envs::catalysis::{CatalysisConfig, Landscape, Preset};

/// What tells such a file from the description of a recording.
const MARK: &str = "optimal_value_gamma099";
/// The discount that is meant.
const GAMMA: f64 = 0.99;
/// Both sides add in another order.
const CLOSE: Tolerance = Tolerance::scaled(1e-9);

/// Compares the optima in `path`; `None` if it holds none.
///
/// # Errors
/// A landscape that is unknown or whose energies are not in `data`.
pub(super) fn compare(path: &Path, data: Option<&Path>) -> Result<Option<FileReport>> {
    let text = file::read(path, file::DESCRIPTION).unwrap_or_default();
    let Ok(Value::Object(known)) = serde_json::from_slice(&text) else { return Ok(None) };
    if known.is_empty() || !known.values().all(|entry| entry.get(MARK).is_some()) {
        return Ok(None);
    }
    let refuse = |e: anyhow::Error| anyhow!("{} cannot be compared: {e}", path.display());
    let data = data.ok_or_else(|| anyhow!("give the folder of the energies with --data DIR"));
    let data = data.map_err(refuse)?;
    let mut tallies = Tallies::default();
    for (name, entry) in &known {
        let entry = entry.as_object().cloned().unwrap_or_default();
        landscape(&mut tallies, name, &entry, data).map_err(refuse)?;
    }
    let case = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(Some(FileReport {
        file: path.display().to_string(),
        env: "catalysis".into(),
        case: case.unwrap_or_default(),
        arrays: tallies.into_vec(),
    }))
}

/// Compares one landscape; its numbers are the elements of an array of its name.
fn landscape(
    tallies: &mut Tallies,
    name: &str,
    known: &Map<String, Value>,
    data: &Path,
) -> Result<()> {
    let short = name.strip_prefix("one_atom_").unwrap_or(name);
    let preset = Preset::from_value(&short.into());
    let preset = preset.map_err(|expected| anyhow!("\"{name}\": expected {expected}"))?;
    let inner = data.join("catalysis");
    let folder = if inner.is_dir() { inner } else { data.to_path_buf() };
    let mut config = Table::new();
    config.insert("preset".into(), short.into());
    config.insert("grid".into(), folder.to_string_lossy().into_owned().into());
    config.insert("unphysical".into(), "keep".into());
    let landscape = Landscape::open(&CatalysisConfig::from_table(&config)?, preset.n_atoms())?;
    let best = landscape.optimum(GAMMA);
    let best = best.ok_or_else(|| anyhow!("\"{name}\": the goal cannot be reached"))?;
    let energy = |state: &[i32]| landscape.energy(state).unwrap_or(f64::NAN);
    let start = energy(&landscape.setting.initial);
    let seen = [
        ("steps", best.path.len() as f64 - 1.0),
        ("optimal_undiscounted_return", best.best_return),
        (MARK, best.best_value),
        ("barrier_from_initial", best.barrier),
        ("minimax_energy", start + best.barrier),
        ("initial_energy", start),
        ("final_energy", energy(&landscape.setting.goal)),
    ];
    let tally = tallies.index(name, Mode::Config, CLOSE);
    for (element, (key, seen)) in seen.into_iter().enumerate() {
        let expected = known.get(key).and_then(Value::as_f64);
        ensure!(expected.is_some(), "\"{name}\" has no number \"{key}\"");
        let place = Place { row: 0, agent: 0, element };
        let expected = expected.unwrap_or(f64::NAN);
        tallies.element(tally, place, CLOSE.bound, Treatment::Plain, expected, seen);
    }
    Ok(())
}
