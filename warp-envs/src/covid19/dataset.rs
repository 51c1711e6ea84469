//! The published data set: three files in a folder, checked and cut at the start date.

use super::dates;
use super::figures::{Aftermath, Bounds, Figures, Fitted, Start};
use super::{N_FILTERS, N_LEVELS, N_STATES};
use crate::numpy::{Recorded, read_npz};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use warp_core::{Error, Result};
use warp_func::file;

const CONSTANTS: &str = "model_constants.json";
const FITTED: &str = "fitted_params.json";
const HISTORY: &str = "real_world_data.npz";
/// Days of stringency before the start that observations look back to.
const LOOK_BACK: usize = 28;

/// Reads the figures for a start on `start_date` from the folder `data`.
///
/// # Errors
/// A file that is missing or damaged, a figure that is missing, has another shape or is no number,
/// or a date that the data do not cover.
pub(super) fn load(data: &str, start_date: &str) -> Result<Figures> {
    let fitted = json(data, FITTED)?;
    let first_day = fitted.text("POLICY_START_DATE")?;
    let first_day = dates::day("data", first_day).map_err(|_| {
        fitted.refused(&format!("its POLICY_START_DATE \"{first_day}\" is not a date"))
    })?;
    let history = History::read(data)?;
    let (start, aftermath) = history.cut(start_date, first_day)?;
    let fitted = read_fitted(&fitted, &json(data, CONSTANTS)?)?;
    Ok(Figures { fitted, start, aftermath: Some(aftermath) })
}

fn refused(data: &str, file: &str, reason: &str) -> Error {
    Error::invalid("data", format!("\"{data}\""), format!("{file}: {reason}"))
}

fn bytes(data: &str, name: &str) -> Result<Vec<u8>> {
    file::read(&Path::new(data).join(name), file::DESCRIPTION)
        .map_err(|e| refused(data, name, &format!("it cannot be read: {e}")))
}

/// One of the JSON files.
struct Json<'a> {
    data: &'a str,
    file: &'static str,
    object: Map<String, Value>,
}

fn json<'a>(data: &'a str, file: &'static str) -> Result<Json<'a>> {
    let value = serde_json::from_slice(&bytes(data, file)?)
        .map_err(|e| refused(data, file, &format!("it is not valid JSON: {e}")))?;
    match value {
        Value::Object(object) => Ok(Json { data, file, object }),
        _ => Err(refused(data, file, "it contains no JSON object")),
    }
}

impl Json<'_> {
    fn refused(&self, reason: &str) -> Error {
        refused(self.data, self.file, reason)
    }

    fn get(&self, key: &str) -> Result<&Value> {
        self.object.get(key).ok_or_else(|| self.refused(&format!("it lacks the key \"{key}\"")))
    }

    fn text(&self, key: &str) -> Result<&str> {
        let value = self.get(key)?;
        value.as_str().ok_or_else(|| self.refused(&format!("its key \"{key}\" is not a string")))
    }

    fn number(&self, key: &str) -> Result<f64> {
        let value = self.get(key)?.as_f64().filter(|value| value.is_finite());
        value.ok_or_else(|| self.refused(&format!("its key \"{key}\" is not a number")))
    }

    /// A number above 0.
    fn positive(&self, key: &str) -> Result<f64> {
        let value = self.number(key)?;
        let wrong = || self.refused(&format!("its key \"{key}\" is {value}, but must be above 0"));
        if value > 0.0 { Ok(value) } else { Err(wrong()) }
    }

    /// The numbers in a list, however it is nested.
    fn numbers(&self, key: &str, len: usize) -> Result<Vec<f64>> {
        fn collect(value: &Value, into: &mut Vec<f64>) -> bool {
            match value {
                Value::Array(items) => items.iter().all(|item| collect(item, into)),
                other => other.as_f64().is_some_and(|number| {
                    into.push(number);
                    number.is_finite()
                }),
            }
        }
        let mut numbers = Vec::new();
        if !collect(self.get(key)?, &mut numbers) {
            return Err(
                self.refused(&format!("its key \"{key}\" contains something other than numbers"))
            );
        }
        let seen = numbers.len();
        let wrong = || self.refused(&format!("its key \"{key}\" has {seen} numbers, not {len}"));
        if seen == len { Ok(numbers) } else { Err(wrong()) }
    }

    fn states(&self, key: &str) -> Result<Vec<f64>> {
        self.numbers(key, N_STATES)
    }

    fn bounds(&self, index: &str) -> Result<Bounds> {
        let [min, max] =
            ["MIN", "MAX"].map(|end| self.number(&format!("{end}_MARGINAL_{index}_INDEX")));
        Ok(Bounds { min: min?, max: max? })
    }
}

fn read_fitted(fitted: &Json<'_>, constants: &Json<'_>) -> Result<Fitted> {
    let levels = constants.number("NUM_STRINGENCY_LEVELS")?;
    if levels != N_LEVELS as f64 {
        let reason = format!("its NUM_STRINGENCY_LEVELS is {levels}, but must be {N_LEVELS}");
        return Err(constants.refused(&reason));
    }
    let population = constants.states("US_STATE_POPULATION")?;
    if let Some(value) = population.iter().find(|value| **value < 1.0) {
        return Err(constants.refused(&format!("its US_STATE_POPULATION holds {value}")));
    }
    let whole = |key: &str| match fitted.number(key)? {
        days if (1.0..=10_000.0).contains(&days) && days.fract() == 0.0 => Ok(days as usize),
        other => Err(fitted.refused(&format!("its {key} is {other}, not a number of days"))),
    };
    let weights = fitted.numbers("GROUPED_CONVOLUTIONAL_FILTER_WEIGHTS", N_STATES * N_FILTERS)?;
    let of = |filter: usize| weights.iter().skip(filter).step_by(N_FILTERS).copied().collect();
    Ok(Fitted {
        population,
        slope: fitted.states("BETA_SLOPES")?,
        intercept: fitted.states("BETA_INTERCEPTS")?,
        bias: fitted.states("UNEMPLOYMENT_BIAS")?,
        weights: (0..N_FILTERS).map(of).collect(),
        alpha: fitted.states("INFERRED_WEIGHTAGE_ON_AGENT_HEALTH_INDEX")?,
        min_health: fitted.states("MIN_MARGINAL_AGENT_HEALTH_INDEX")?,
        max_health: fitted.states("MAX_MARGINAL_AGENT_HEALTH_INDEX")?,
        min_economic: fitted.states("MIN_MARGINAL_AGENT_ECONOMIC_INDEX")?,
        max_economic: fitted.states("MAX_MARGINAL_AGENT_ECONOMIC_INDEX")?,
        planner_alpha: fitted.number("INFERRED_WEIGHTAGE_ON_PLANNER_HEALTH_INDEX")?,
        planner_health: Some(fitted.bounds("PLANNER_HEALTH")?),
        planner_economic: Some(fitted.bounds("PLANNER_ECONOMIC")?),
        lambdas: fitted.numbers("CONV_LAMBDAS", N_FILTERS)?,
        lag: whole("BETA_DELAY")?,
        filter_length: whole("FILTER_LEN")?,
        gamma: constants.positive("SIR_GAMMA")?,
        mortality: constants.positive("SIR_MORTALITY")?,
        value_of_life: fitted.positive("VALUE_OF_LIFE")?,
        us_population: constants.positive("US_POPULATION")?,
        gdp_per_capita: constants.positive("GDP_PER_CAPITA")?,
    })
}

/// The daily data.
struct History<'a> {
    data: &'a str,
    arrays: BTreeMap<String, Recorded>,
    days: usize,
}

impl<'a> History<'a> {
    fn read(data: &'a str) -> Result<Self> {
        let arrays =
            read_npz(&bytes(data, HISTORY)?).map_err(|e| refused(data, HISTORY, &e.to_string()))?;
        let days = arrays.get("policy").map_or(0, Recorded::rows);
        Ok(Self { data, arrays, days })
    }

    /// The rows of the array `name`, `width` numbers each.
    fn rows(&self, name: &str, width: usize) -> Result<std::slice::Chunks<'_, f64>> {
        let array = self.arrays.get(name);
        let array = array.ok_or_else(|| {
            refused(self.data, HISTORY, &format!("it lacks the array \"{name}\""))
        })?;
        if array.shape != [self.days, width] {
            let (shape, days) = (&array.shape, self.days);
            let reason = format!(
                "its array \"{name}\" has shape {shape:?}, but [{days}, {width}] is needed"
            );
            return Err(refused(self.data, HISTORY, &reason));
        }
        Ok(array.data.chunks(width))
    }

    /// The levels of stringency, one row per day, each within its range.
    fn stringency(&self) -> Result<Vec<Vec<i32>>> {
        let level = |value: &f64| match *value {
            level if (1.0..=N_LEVELS as f64).contains(&level) && level.fract() == 0.0 => {
                Ok(level as i32)
            }
            other => {
                let reason = format!("its array \"policy\" holds {other}, which is no level");
                Err(refused(self.data, HISTORY, &reason))
            }
        };
        self.rows("policy", N_STATES)?.map(|row| row.iter().map(level).collect()).collect()
    }

    /// What belongs to the start on `start_date`, if day 0 of the data is `first_day`.
    fn cut(&self, start_date: &str, first_day: i32) -> Result<(Start, Aftermath)> {
        let mut stringency = self.stringency()?;
        let row = dates::day("start_date", start_date)? - first_day;
        let row = usize::try_from(row).ok().filter(|row| (LOOK_BACK..self.days).contains(row));
        let row = row.ok_or_else(|| {
            let [first, last] =
                [LOOK_BACK, self.days.max(1) - 1].map(|row| dates::text(first_day + row as i32));
            let reason = format!("the data allow a start from {first} to {last}");
            Error::invalid("start_date", format!("\"{start_date}\""), reason)
        })?;
        let from = |name: &str| -> Result<Vec<Vec<f64>>> {
            Ok(self.rows(name, N_STATES)?.skip(row).map(<[f64]>::to_vec).collect())
        };
        let aftermath = Aftermath {
            stringency: stringency[row..].to_vec(),
            subsidy: self.rows("subsidy", 1)?.skip(row).map(|row| row[0]).collect(),
            susceptible: from("susceptible")?,
            infected: from("infected")?,
            recovered: from("recovered")?,
            deaths: from("deaths")?,
            vaccinated: from("vaccinated")?,
            unemployed: from("unemployed")?,
        };
        stringency.truncate(row + 1);
        let first =
            |name: &str, rows: &[Vec<f64>]| match rows[0].iter().position(|v| !v.is_finite()) {
                None => Ok(rows[0].clone()),
                Some(state) => {
                    let reason = format!(
                        "the data have no figure in \"{name}\" for state {state} on that day"
                    );
                    Err(Error::invalid("start_date", format!("\"{start_date}\""), reason))
                }
            };
        let start = Start {
            susceptible: first("susceptible", &aftermath.susceptible)?,
            infected: first("infected", &aftermath.infected)?,
            recovered: first("recovered", &aftermath.recovered)?,
            vaccinated: first("vaccinated", &aftermath.vaccinated)?,
            unemployed: first("unemployed", &aftermath.unemployed)?,
            stringency,
        };
        Ok((start, aftermath))
    }
}
