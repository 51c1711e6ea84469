//! From configuration and figures to what replicas share: scalars, and a number per state in tables.

use super::figures::{Aftermath, Bounds, Figures, Fitted, Start};
use super::{Covid19Config, Covid19Params, LEVELS_PER_WORD, N_FILTERS, N_STATES};
use std::f64::consts::LN_2;
use warp_core::{Error, Result, Table, TableData};

/// Days of a year.
const YEAR: f64 = 365.0;
/// Keeps a span from being 0.
const TINY: f64 = 1e-10;

/// Read-only arrays, 51 numbers each where nothing else is said.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    /// People.
    pub(super) population: Vec<f32>,
    pub(super) inverse_population: Vec<f32>,
    /// Transmission rate at level 0, and its change per level.
    pub(super) intercept: Vec<f32>,
    pub(super) slope: Vec<f32>,
    /// Unemployment that does not come from stringency, %.
    pub(super) unemployment_bias: Vec<f32>,
    /// Weights of the filters, `[N_FILTERS, N_STATES]`.
    pub(super) unemployment_weight: Vec<f32>,
    /// Of each filter, the part that fades in a day, `[N_FILTERS]`.
    pub(super) fading: Vec<f32>,
    /// Of each filter, what a change weighs when it is forgotten, `[N_FILTERS]`.
    pub(super) forgotten: Vec<f32>,
    /// Production when nobody is ill, USD per day.
    pub(super) max_production: Vec<f32>,
    pub(super) inverse_max_production: Vec<f32>,
    /// Production when nobody is ill, USD per year.
    pub(super) state_annual_production: Vec<f32>,
    /// The indices: what counts as 0, and the distance to what counts as 1.
    pub(super) min_health: Vec<f32>,
    pub(super) health_span: Vec<f32>,
    pub(super) min_economic: Vec<f32>,
    pub(super) economic_span: Vec<f32>,
    /// Part of health in the reward.
    pub(super) health_weight: Vec<f32>,
    /// Subsidy at the highest level, USD per day.
    pub(super) max_daily_subsidy: Vec<f32>,
    /// Doses.
    pub(super) vaccines_per_delivery: Vec<i32>,
    /// The start.
    pub(super) start_susceptible: Vec<f32>,
    pub(super) start_infected: Vec<f32>,
    pub(super) start_recovered: Vec<f32>,
    pub(super) start_deaths: Vec<f32>,
    pub(super) start_vaccinated: Vec<f32>,
    pub(super) start_unemployed: Vec<f32>,
    /// `[N_FILTERS, N_STATES]`.
    pub(super) start_filtered: Vec<f32>,
    /// Row d: levels d days before the start, `[filter_length + 1, N_STATES]`.
    pub(super) past_stringency: Vec<i32>,
    /// Row t - 1: levels of step t, `[episode_length, N_STATES]`; one row of zeros if not needed.
    pub(super) real_stringency: Vec<i32>,
    /// Entry t - 1: level of step t, `[episode_length]`; one zero if not needed.
    pub(super) real_subsidy_level: Vec<i32>,
    /// Row t - 1: S, I, R, D, V, unemployed of step t, `[episode_length, 6, N_STATES]`; one row of
    /// zeros if not needed.
    pub(super) real_data: Vec<f32>,
}

impl Tables {
    /// All of them, by name.
    pub(super) fn named(&self) -> Vec<Table<'_>> {
        let reals = |name, data| shaped(name, TableData::F32(data), &[]);
        let filters = |name, data| shaped(name, TableData::F32(data), &[N_STATES]);
        let levels = |name, data| shaped(name, TableData::I32(data), &[N_STATES]);
        vec![
            reals("population", &self.population),
            reals("inverse_population", &self.inverse_population),
            reals("intercept", &self.intercept),
            reals("slope", &self.slope),
            reals("unemployment_bias", &self.unemployment_bias),
            filters("unemployment_weight", &self.unemployment_weight),
            reals("fading", &self.fading),
            reals("forgotten", &self.forgotten),
            reals("max_production", &self.max_production),
            reals("inverse_max_production", &self.inverse_max_production),
            reals("state_annual_production", &self.state_annual_production),
            reals("min_health", &self.min_health),
            reals("health_span", &self.health_span),
            reals("min_economic", &self.min_economic),
            reals("economic_span", &self.economic_span),
            reals("health_weight", &self.health_weight),
            reals("max_daily_subsidy", &self.max_daily_subsidy),
            shaped("vaccines_per_delivery", TableData::I32(&self.vaccines_per_delivery), &[]),
            reals("start_susceptible", &self.start_susceptible),
            reals("start_infected", &self.start_infected),
            reals("start_recovered", &self.start_recovered),
            reals("start_deaths", &self.start_deaths),
            reals("start_vaccinated", &self.start_vaccinated),
            reals("start_unemployed", &self.start_unemployed),
            filters("start_filtered", &self.start_filtered),
            levels("past_stringency", &self.past_stringency),
            levels("real_stringency", &self.real_stringency),
            shaped("real_subsidy_level", TableData::I32(&self.real_subsidy_level), &[]),
            shaped("real_data", TableData::F32(&self.real_data), &[6, N_STATES]),
        ]
    }
}

/// A table whose rows have the shape `row`.
fn shaped<'a>(name: &'static str, data: TableData<'a>, row: &[usize]) -> Table<'a> {
    let len = match data {
        TableData::F32(data) => data.len(),
        TableData::I32(data) => data.len(),
    };
    let mut shape = vec![len / row.iter().product::<usize>()];
    shape.extend(row);
    Table { name, shape, data }
}

/// Words of levels per state, for the longest look back at days after the start: what changed in an
/// episode is only forgotten in it if the episode is longer than unemployment remembers.
pub(super) fn words(params: &Covid19Params) -> usize {
    let days = match params.episode_length > params.filter_length {
        true => params.filter_length + 2,
        false => params.stringency_lag + 1,
    };
    let window = (days as usize).div_ceil(LEVELS_PER_WORD) + 1;
    window.min(params.episode_length as usize / LEVELS_PER_WORD + 1)
}

/// Scalars and tables.
///
/// # Errors
/// A replay that the figures do not allow, or figures that contradict each other.
pub(super) fn build(config: &Covid19Config, figures: &Figures) -> Result<(Covid19Params, Tables)> {
    let Figures { fitted, start, aftermath } = figures;
    if fitted.lag > fitted.filter_length {
        let reason = format!("BETA_DELAY must be at most FILTER_LEN, {}", fitted.filter_length);
        return Err(Error::invalid("data", fitted.lag, reason));
    }
    let worker_production = worker_production(config, fitted);
    let mut tables = fitted_tables(config, fitted, worker_production);
    start_tables(&mut tables, fitted, start);
    replay_tables(&mut tables, config, fitted, aftermath.as_ref())?;
    let params = params(config, fitted, &tables, worker_production)?;
    Ok((params, tables))
}

fn f32s(values: impl Iterator<Item = f64>) -> Vec<f32> {
    values.map(|value| value as f32).collect()
}

/// Unemployment without any stringency, people: the filter's answer to nothing is ln 2 %.
fn base_unemployed(fitted: &Fitted) -> impl Iterator<Item = f64> {
    fitted.bias.iter().zip(&fitted.population).map(|(bias, n)| (LN_2 + bias) * n / 100.0)
}

/// What a worker produces, USD per day, rounded to f32 where the original rounds.
fn worker_production(config: &Covid19Config, fitted: &Fitted) -> f32 {
    let at_age = fitted.us_population * config.pop_between_age_18_65;
    let workforce = (at_age - base_unemployed(fitted).sum::<f64>()).trunc().max(1.0);
    let share = (workforce / fitted.us_population) as f32;
    let per_year = (fitted.gdp_per_capita / f64::from(share)) as f32;
    (f64::from(per_year) / YEAR) as f32
}

/// alpha after its odds were multiplied by `factor`.
fn weight(alpha: f64, factor: f64) -> f32 {
    let odds = factor * alpha / (1.0 - alpha);
    (odds / (1.0 + odds)) as f32
}

fn fitted_tables(config: &Covid19Config, fitted: &Fitted, worker_production: f32) -> Tables {
    let population = &fitted.population;
    let working_age = f64::from(config.pop_between_age_18_65 as f32);
    let max_production: Vec<f32> = f32s(
        (population.iter().zip(base_unemployed(fitted)))
            .map(|(n, unemployed)| (working_age * n - unemployed) * f64::from(worker_production)),
    );
    let span = |min: &[f64], max: &[f64]| f32s(min.iter().zip(max).map(|(a, b)| b - a + TINY));
    let [interval, doses] = [config.delivery_interval, config.daily_vaccines_per_million_people];
    // Rounded in this order.
    let delivery = |n: &f64| (f64::from(interval) * n / 1e6 * f64::from(doses)).floor() as i32;
    let health_factor = config.health_priority_scaling_agents;
    Tables {
        inverse_population: f32s(population.iter().map(|n| 1.0 / n)),
        population: f32s(population.iter().copied()),
        intercept: f32s(fitted.intercept.iter().copied()),
        slope: f32s(fitted.slope.iter().copied()),
        unemployment_bias: f32s(fitted.bias.iter().copied()),
        unemployment_weight: f32s(fitted.weights.iter().flatten().copied()),
        fading: f32s(fitted.lambdas.iter().map(|lambda| 1.0 - decay(*lambda))),
        forgotten: f32s(
            fitted.lambdas.iter().map(|lambda| decay(*lambda).powi(fitted.filter_length as i32)),
        ),
        inverse_max_production: max_production.iter().map(|production| 1.0 / production).collect(),
        state_annual_production: max_production
            .iter()
            .map(|production| production * 365.0)
            .collect(),
        max_production,
        min_health: f32s(fitted.min_health.iter().copied()),
        health_span: span(&fitted.min_health, &fitted.max_health),
        min_economic: f32s(fitted.min_economic.iter().copied()),
        economic_span: span(&fitted.min_economic, &fitted.max_economic),
        health_weight: fitted.alpha.iter().map(|alpha| weight(*alpha, health_factor)).collect(),
        max_daily_subsidy: f32s(
            population.iter().map(|n| n * config.max_annual_subsidy_per_person / YEAR),
        ),
        vaccines_per_delivery: population.iter().map(delivery).collect(),
        ..Tables::default()
    }
}

/// exp(-1 / `lambda`) by its series, so that it has the same bits on every machine.
fn decay(lambda: f64) -> f64 {
    let x = -1.0 / lambda;
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..60 {
        term *= x / f64::from(n);
        sum += term;
    }
    sum
}

fn start_tables(tables: &mut Tables, fitted: &Fitted, start: &Start) {
    let days = &start.stringency;
    // Before the first recorded day everything was open.
    let level = |back: usize, state: usize| match days.len().checked_sub(back + 1) {
        Some(day) => days[day][state],
        None => 1,
    };
    let cells = |rows: usize| (0..rows).flat_map(|row| (0..N_STATES).map(move |i| (row, i)));
    tables.past_stringency =
        cells(fitted.filter_length + 1).map(|(back, state)| level(back, state)).collect();
    let filtered = |(filter, state): (usize, usize)| {
        let decay = decay(fitted.lambdas[filter]);
        let days = (0..fitted.filter_length).rev();
        days.fold(0.0, |sum: f64, back| {
            sum * decay + f64::from(level(back, state) - level(back + 1, state))
        })
    };
    tables.start_filtered = f32s(cells(N_FILTERS).map(filtered));
    tables.start_susceptible = f32s(start.susceptible.iter().copied());
    tables.start_infected = f32s(start.infected.iter().copied());
    tables.start_recovered = f32s(start.recovered.iter().copied());
    let deaths = |recovered: &f32| (f64::from(*recovered) * fitted.mortality) as f32;
    tables.start_deaths = tables.start_recovered.iter().map(deaths).collect();
    tables.start_vaccinated = f32s(start.vaccinated.iter().copied());
    tables.start_unemployed = f32s(start.unemployed.iter().copied());
}

fn replay_tables(
    tables: &mut Tables,
    config: &Covid19Config,
    fitted: &Fitted,
    aftermath: Option<&Aftermath>,
) -> Result<()> {
    tables.real_stringency = vec![0; N_STATES];
    tables.real_subsidy_level = vec![0];
    tables.real_data = vec![0.0; 6 * N_STATES];
    let [data, policies] = [config.use_real_world_data, config.use_real_world_policies];
    if !data && !policies {
        return Ok(());
    }
    let key = if data { "use_real_world_data" } else { "use_real_world_policies" };
    let Some(aftermath) = aftermath else {
        let reason = "needs data, the folder of the published data set";
        return Err(Error::invalid(key, true, reason));
    };
    let days = config.episode_length as usize;
    let known = aftermath.stringency.len();
    if days + usize::from(data) > known {
        let reason = format!("the data end {} days after the start", known - 1);
        return Err(Error::invalid("episode_length", days, reason));
    }
    tables.real_stringency = aftermath.stringency[..days].concat();
    tables.real_subsidy_level = real_subsidies(config, fitted, &aftermath.subsidy[..days]);
    if data {
        tables.real_data = real_data(aftermath, days)?;
    }
    Ok(())
}

/// The level of subsidy in every step: a payment is spread over one interval of the planner.
fn real_subsidies(config: &Covid19Config, fitted: &Fitted, payments: &[f64]) -> Vec<i32> {
    let interval = f64::from(config.subsidy_interval);
    let per_level = config.max_annual_subsidy_per_person / f64::from(config.num_subsidy_levels)
        * interval
        / YEAR;
    let mut levels = vec![0; payments.len()];
    for (day, payment) in payments.iter().enumerate().filter(|(_, payment)| **payment > 0.0) {
        let level = (payment / (fitted.us_population * per_level)).round_ties_even() as i32;
        let days = config.subsidy_interval as usize;
        levels.iter_mut().skip(day).take(days).for_each(|sum| *sum += level);
    }
    levels
}

/// The rows of steps 1 to `days`; the last may be beyond the data.
fn real_data(aftermath: &Aftermath, days: usize) -> Result<Vec<f32>> {
    let series = [
        ("susceptible", &aftermath.susceptible),
        ("infected", &aftermath.infected),
        ("recovered", &aftermath.recovered),
        ("deaths", &aftermath.deaths),
        ("vaccinated", &aftermath.vaccinated),
        ("unemployed", &aftermath.unemployed),
    ];
    let mut rows = Vec::with_capacity(days * 6 * N_STATES);
    for day in 1..=days {
        for (name, values) in series {
            let missing = values[day].iter().position(|value| value.is_nan());
            if let Some(state) = missing.filter(|_| day < days) {
                let reason =
                    format!("the data have no figure in \"{name}\" for state {state} on day {day}");
                return Err(Error::invalid("episode_length", days, reason));
            }
            // Fits may be below 0; NaN stays.
            let positive = |value: &f64| if *value < 0.0 { 0.0 } else { *value as f32 };
            rows.extend(values[day].iter().map(positive));
        }
    }
    Ok(rows)
}

fn params(
    config: &Covid19Config,
    fitted: &Fitted,
    tables: &Tables,
    worker_production: f32,
) -> Result<Covid19Params> {
    let interval = config.delivery_interval as i32;
    let first_vaccine_step = config.first_vaccine_step()?;
    let first_delivery = first_vaccine_step.div_euclid(interval) * interval;
    let missed = first_delivery < first_vaccine_step;
    let annual = tables.state_annual_production.iter().map(|production| f64::from(*production));
    let subsidy: f64 =
        fitted.population.iter().sum::<f64>() * config.max_annual_subsidy_per_person / YEAR;
    let none = Bounds { min: 0.0, max: 1.0 };
    let health = fitted.planner_health.unwrap_or(none);
    let economic = fitted.planner_economic.unwrap_or(none);
    let daily_rate = f64::from(config.daily_vaccines_per_million_people) / 1e6;
    Ok(Covid19Params {
        episode_length: config.episode_length as i32,
        stringency_lag: fitted.lag as i32,
        filter_length: fitted.filter_length as i32,
        action_cooldown_period: config.action_cooldown_period as i32,
        subsidy_interval: config.subsidy_interval as i32,
        num_subsidy_levels: config.num_subsidy_levels as i32,
        delivery_interval: interval,
        first_vaccine_step,
        first_delivery: first_delivery.saturating_add(if missed { interval } else { 0 }),
        observe_rate: i32::from(config.observe_rate),
        use_real_world_policies: i32::from(
            config.use_real_world_policies || config.use_real_world_data,
        ),
        use_real_world_data: i32::from(config.use_real_world_data),
        vaccination_rate: (daily_rate / f64::from(interval)) as f32,
        infectious_days: (1.0 / fitted.gamma) as f32,
        recovered_per_death: (1.0 / fitted.mortality) as f32,
        working_age: config.pop_between_age_18_65 as f32,
        too_sick: config.infection_too_sick_to_work_rate as f32,
        worker_production,
        crra_power: (1.0 - config.economic_reward_crra_eta) as f32,
        value_of_life: fitted.value_of_life as f32,
        reward_normalization_factor: config.reward_normalization_factor as f32,
        max_subsidy_cost: ((1.0 + config.risk_free_interest_rate) * subsidy) as f32,
        annual_production: annual.sum::<f64>() as f32,
        planner_min_health: health.min as f32,
        planner_health_span: (health.max - health.min + TINY) as f32,
        planner_min_economic: economic.min as f32,
        planner_economic_span: (economic.max - economic.min + TINY) as f32,
        planner_health_weight: weight(fitted.planner_alpha, config.health_priority_scaling_planner),
    })
}
