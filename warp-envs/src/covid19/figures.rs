//! The figures that the model runs on, wherever they come from: what was fitted, and the start.
//!
//! [`Figures::built_in`] holds those of the published model for its default start (`figures.csv`,
//! with their sources); `dataset` reads the published files for any other.

use super::{N_FILTERS, N_STATES};
use warp_core::{Error, Result};

/// The built-in figures, a line per state.
const TABLE: &str = include_str!("figures.csv");
/// The only start of the built-in figures.
const START_DATE: &str = "2020-03-22";
/// Its row in the daily data, which begin with 2020-01-01.
const START_ROW: usize = 81;

/// Lowest and highest value of an index, over the 284 days that it was calibrated on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    pub(super) min: f64,
    pub(super) max: f64,
}

/// Everything that the model is made from, beside the configuration.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    /// What was fitted or is constant.
    pub(super) fitted: Fitted,
    /// The state at the start.
    pub(super) start: Start,
    /// What happened afterwards; `None` without a data set.
    pub(super) aftermath: Option<Aftermath>,
}

/// What was fitted, or is constant: numbers, and a number for each of the 51 states.
#[derive(Debug, Clone, Default)]
pub(super) struct Fitted {
    /// People.
    pub(super) population: Vec<f64>,
    /// Change of the transmission rate per level of stringency, per day.
    pub(super) slope: Vec<f64>,
    /// Transmission rate at level 0, per day.
    pub(super) intercept: Vec<f64>,
    /// Unemployment that does not come from stringency, %.
    pub(super) bias: Vec<f64>,
    /// Weights of the filtered changes of stringency, `[N_FILTERS][N_STATES]`.
    pub(super) weights: Vec<Vec<f64>>,
    /// Part of health in the reward.
    pub(super) alpha: Vec<f64>,
    pub(super) min_health: Vec<f64>,
    pub(super) max_health: Vec<f64>,
    pub(super) min_economic: Vec<f64>,
    pub(super) max_economic: Vec<f64>,
    /// The planner's part of health.
    pub(super) planner_alpha: f64,
    pub(super) planner_health: Option<Bounds>,
    pub(super) planner_economic: Option<Bounds>,
    /// Time constants of the filters, days.
    pub(super) lambdas: Vec<f64>,
    /// Days until stringency acts on transmission.
    pub(super) lag: usize,
    /// Days that unemployment remembers.
    pub(super) filter_length: usize,
    /// Part of the infected that recovers or dies per day.
    pub(super) gamma: f64,
    /// Part of those who dies.
    pub(super) mortality: f64,
    /// USD.
    pub(super) value_of_life: f64,
    /// People.
    pub(super) us_population: f64,
    /// USD per year.
    pub(super) gdp_per_capita: f64,
}

/// The state on the first day, a number per state.
#[derive(Debug, Clone, Default)]
pub(super) struct Start {
    pub(super) susceptible: Vec<f64>,
    pub(super) infected: Vec<f64>,
    pub(super) recovered: Vec<f64>,
    pub(super) vaccinated: Vec<f64>,
    pub(super) unemployed: Vec<f64>,
    /// Levels of stringency from the first recorded day to the start, `[days][N_STATES]`.
    pub(super) stringency: Vec<Vec<i32>>,
}

/// What happened from the start on, a row of 51 numbers per day.
#[derive(Debug, Clone, Default)]
pub(super) struct Aftermath {
    /// Levels of stringency.
    pub(super) stringency: Vec<Vec<i32>>,
    /// Subsidies of the federal government, USD.
    pub(super) subsidy: Vec<f64>,
    pub(super) susceptible: Vec<Vec<f64>>,
    pub(super) infected: Vec<Vec<f64>>,
    pub(super) recovered: Vec<Vec<f64>>,
    pub(super) deaths: Vec<Vec<f64>>,
    pub(super) vaccinated: Vec<Vec<f64>>,
    pub(super) unemployed: Vec<Vec<f64>>,
}

impl Fitted {
    /// The numbers of the published model; the numbers per state are still missing.
    fn published() -> Self {
        Fitted {
            weights: vec![Vec::new(); N_FILTERS],
            planner_alpha: 0.757,
            planner_health: Some(Bounds {
                min: -0.007_381_112_780_421_972,
                max: -0.000_145_109_574_077_650_9,
            }),
            planner_economic: Some(Bounds {
                min: 0.002_124_679_973_348_975,
                max: 0.002_707_795_938_476_92,
            }),
            lambdas: vec![
                27.724_277_496_337_89,
                62.919_250_488_281_25,
                129.231_857_299_804_7,
                264.431_824,
                542.060_059,
            ],
            lag: 29,
            filter_length: 600,
            gamma: 1.0 / 14.0,
            mortality: 0.02,
            value_of_life: 1e7,
            us_population: 328_737_916.0,
            gdp_per_capita: 65_300.0,
            ..Fitted::default()
        }
    }
}

impl Figures {
    /// The published model's figures for a start on 2020-03-22.
    ///
    /// # Errors
    /// Another `start_date`.
    pub(super) fn built_in(start_date: &str) -> Result<Figures> {
        if start_date != START_DATE {
            let reason = format!(
                "the built-in figures are those of {START_DATE}; set data to the folder of the \
                 published data set for another date"
            );
            return Err(Error::invalid("start_date", format!("\"{start_date}\""), reason));
        }
        let mut fitted = Fitted::published();
        let mut start = Start {
            vaccinated: vec![0.0; N_STATES],
            stringency: vec![vec![1; N_STATES]; START_ROW + 1],
            ..Start::default()
        };
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
        for (state, line) in lines.enumerate() {
            let mut cells = line.split(',').skip(1);
            let columns = columns(&mut fitted, &mut start);
            for (column, cell) in columns.into_iter().zip(&mut cells) {
                column.push(cell.parse().map_err(|_| damaged(line))?);
            }
            changes(&mut start.stringency, state, cells.next().unwrap_or(""))
                .ok_or_else(|| damaged(line))?;
        }
        Ok(Figures { fitted, start, aftermath: None })
    }
}

/// The columns of the table, in its order.
fn columns<'a>(fitted: &'a mut Fitted, start: &'a mut Start) -> Vec<&'a mut Vec<f64>> {
    let mut all =
        vec![&mut fitted.population, &mut fitted.slope, &mut fitted.intercept, &mut fitted.bias];
    all.extend(&mut fitted.weights);
    all.extend([
        &mut fitted.alpha,
        &mut fitted.min_health,
        &mut fitted.max_health,
        &mut fitted.min_economic,
        &mut fitted.max_economic,
        &mut start.susceptible,
        &mut start.infected,
        &mut start.recovered,
        &mut start.unemployed,
    ]);
    all
}

/// Carries out `changes`, each `row:level`, of one state; `None`: they are not of that form.
fn changes(stringency: &mut [Vec<i32>], state: usize, changes: &str) -> Option<()> {
    for change in changes.split(' ') {
        let (row, level) = change.split_once(':')?;
        let (row, level): (usize, i32) = (row.parse().ok()?, level.parse().ok()?);
        stringency.get_mut(row..)?.iter_mut().for_each(|levels| levels[state] = level);
    }
    Some(())
}

fn damaged(line: &str) -> Error {
    Error::invalid("data", "unset", format!("the built-in line \"{line}\" is damaged"))
}
