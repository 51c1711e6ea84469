//! Health and economy under COVID-19: what happens in a state on a day.

use super::{Covid19, Covid19Params, Covid19State, LEVELS_PER_WORD, N_FILTERS, N_STATES};
use warp_core::{math, team};

/// Bits of a level in a word.
const LEVEL_BITS: usize = 4;
/// Days of a year.
const YEAR: f32 = 365.0;
/// The value of money is flat below and above these parts of what is usual.
const LEAST: f32 = 0.1;
const MOST: f32 = 3.0;
/// Below it money's value is a series, whose rest is less than f32 resolves.
const SMALL_POWER: f32 = 0.0625;
/// Above it ln(1 + e^x) is x.
const LINEAR: f32 = 20.0;
/// Keeps a quotient by the susceptible finite.
const TINY: f32 = 1e-10;

/// A day, counted from 1, and its level of subsidy, from 0 to 1.
#[derive(Clone, Copy)]
pub(super) struct Day {
    pub(super) t: i32,
    pub(super) level: f32,
}

/// What happens in each state on a day: levels, people, work; fills in deaths, incomes and rewards.
#[expect(dead_code, reason = "the CPU runs its twin")]
pub(super) fn live(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    actions: &[i32],
    day: Day,
    deaths: &mut [f32],
    incomes: &mut [f32],
    rewards: &mut [f32],
) {
    let (params, t) = (&env.params, day.t);
    let oldest = t - params.filter_length;
    let word = word_of(state, t);
    for i in team::each(N_STATES) {
        let change = change_stringency(env, state, actions, (t, word), i);
        let died = if params.use_real_world_data == 1 {
            replay(env, state, t, i)
        } else {
            let left = level_on(env, state, oldest, i) - level_on(env, state, oldest - 1, i);
            let signal = filtered(env, state, change, left, i);
            unemployment(env, state, excess(signal), i);
            let lagged = level_on(env, state, t - params.stringency_lag, i);
            epidemic(env, state, lagged, arrives(params, t), i)
        };
        let income = production(env, state, day.level, i);
        state.postsubsidy_productivity[i] = income;
        let worth = value_of(params, income / env.tables.state_annual_production[i]);
        rewards[i] = governor_reward(env, worth, died, i);
        deaths[i] = died;
        incomes[i] = income;
    }
}

/// Whether vaccine is delivered on a day.
#[inline(always)]
pub(super) fn arrives(params: &Covid19Params, t: i32) -> bool {
    (t >= params.first_vaccine_step) & (t % params.delivery_interval == 0)
}

/// Where the levels of a day lie: the first of their words.
#[inline(always)]
pub(super) fn word_of(state: &Covid19State<'_>, day: i32) -> usize {
    let n_words = state.past_levels.len() / N_STATES;
    day as usize / LEVELS_PER_WORD % n_words * N_STATES
}

/// And its place in the word.
#[inline(always)]
fn shift_of(day: i32) -> usize {
    day as usize % LEVELS_PER_WORD * LEVEL_BITS
}

/// The level of a day, whose words begin at `word`; days are counted from the start, and `day`
/// may be before it, but not after today. The start itself is read from the table, as its word may
/// have been overwritten.
#[inline(always)]
pub(super) fn level_of(
    env: &Covid19,
    state: &Covid19State<'_>,
    day: i32,
    word: usize,
    i: usize,
) -> i32 {
    if day <= 0 {
        return env.tables.past_stringency[-day as usize * N_STATES + i];
    }
    let words = &state.past_levels[word..word + N_STATES];
    ((words[i] >> shift_of(day)) & 15) as i32
}

/// The level of a day, wherever it lies.
#[inline(always)]
fn level_on(env: &Covid19, state: &Covid19State<'_>, day: i32, i: usize) -> i32 {
    level_of(env, state, day, word_of(state, day), i)
}

/// Sets the level of stringency and returns by how much it changed.
#[inline(always)]
pub(super) fn change_stringency(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    actions: &[i32],
    (t, word): (i32, usize),
    i: usize,
) -> f32 {
    let action = if env.params.use_real_world_policies == 1 {
        env.tables.real_stringency[(t - 1) as usize * N_STATES + i]
    } else {
        actions[i]
    };
    let before = state.stringency_level[i];
    let level = if action != 0 { action } else { before };
    let until = state.action_in_cooldown_until[i];
    let wait = if action != 0 { env.params.action_cooldown_period } else { 1 };
    state.action_in_cooldown_until[i] = if t == until + 1 { until + wait } else { until };
    state.stringency_level[i] = level;
    // Levels of later days in this word are those of a round ago.
    let shift = shift_of(t);
    let earlier = state.past_levels[word + i] & ((1 << shift) - 1);
    state.past_levels[word + i] = earlier | ((level as u32) << shift);
    (level - before) as f32
}

/// Takes epidemic and unemployment from the data; returns the new deaths.
#[inline(always)]
pub(super) fn replay(env: &Covid19, state: &mut Covid19State<'_>, t: i32, i: usize) -> f32 {
    let day = &env.tables.real_data[(t - 1) as usize * 6 * N_STATES..];
    let after = day[3 * N_STATES + i];
    let deaths = after - state.deaths[i];
    state.susceptible[i] = day[i];
    state.infected[i] = day[N_STATES + i];
    state.recovered[i] = day[2 * N_STATES + i];
    state.deaths[i] = after;
    state.vaccinated[i] = day[4 * N_STATES + i];
    state.unemployed[i] = day[5 * N_STATES + i];
    deaths
}

/// Lets the epidemic go on for a day, on which vaccine `arrives` or not; returns the new deaths.
#[inline(always)]
pub(super) fn epidemic(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    lagged: i32,
    arrives: bool,
    i: usize,
) -> f32 {
    let (params, tables) = (&env.params, &env.tables);
    let (susceptible, infected) = (state.susceptible[i], state.infected[i]);
    let doses = if arrives { tables.vaccines_per_delivery[i] as f32 } else { 0.0 };
    let part = doses / (susceptible + TINY);
    let part = if part < 1.0 { part } else { 1.0 };
    let vaccinated = if doses < susceptible { doses } else { susceptible };
    let rate = tables.intercept[i] + tables.slope[i] * lagged as f32;
    let met = susceptible / tables.population[i] * infected;
    let newly = rate * met * (1.0 - part);
    let recovered = infected / params.infectious_days;
    state.susceptible[i] = positive(susceptible - (newly + vaccinated));
    state.infected[i] = positive(infected + (newly - recovered));
    let all_recovered = positive(state.recovered[i] + (recovered + vaccinated));
    let all_vaccinated = state.vaccinated[i] + vaccinated;
    let after = (all_recovered - all_vaccinated) / params.recovered_per_death;
    let deaths = after - state.deaths[i];
    state.recovered[i] = all_recovered;
    state.vaccinated[i] = all_vaccinated;
    state.deaths[i] = after;
    deaths
}

#[inline(always)]
fn positive(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Filters today's change of stringency, forgets the one that has left the window, and returns what
/// all filters let through.
#[inline(always)]
pub(super) fn filtered(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    change: f32,
    left: i32,
    i: usize,
) -> f32 {
    let tables = &env.tables;
    let mut signal = 0.0;
    for filter in 0..N_FILTERS {
        let at = filter * N_STATES + i;
        let leaves = tables.forgotten[filter] * left as f32;
        let before = state.filtered[at];
        // Less than one minus a fading part: that would round it to a few digits.
        let filtered = (before - before * tables.fading[filter]) + (change - leaves);
        state.filtered[at] = filtered;
        signal += tables.unemployment_weight[at] * filtered;
    }
    signal
}

/// ln(1 + e^signal): how many more are without work than ever.
#[inline(always)]
pub(super) fn excess(signal: f32) -> f32 {
    let soft = math::ln(1.0 + math::exp(signal));
    if signal > LINEAR { signal } else { soft }
}

/// Says who is without work.
#[inline(always)]
pub(super) fn unemployment(env: &Covid19, state: &mut Covid19State<'_>, excess: f32, i: usize) {
    let rate = excess + env.tables.unemployment_bias[i];
    state.unemployed[i] = rate * env.tables.population[i] / 100.0;
}

/// What a state produces, with its subsidy.
#[inline(always)]
pub(super) fn production(env: &Covid19, state: &Covid19State<'_>, level: f32, i: usize) -> f32 {
    let (params, tables) = (&env.params, &env.tables);
    let incapable = params.too_sick * state.infected[i] + state.deaths[i];
    let idle = params.working_age * incapable + state.unemployed[i];
    let workers = positive(params.working_age * tables.population[i] - idle);
    let production = workers * params.worker_production;
    production + level * tables.max_daily_subsidy[i]
}

/// The value of a day's income, as a part of a year's, in parts of a year.
#[inline(always)]
pub(super) fn value_of(params: &Covid19Params, income: f32) -> f32 {
    let y = YEAR * income;
    let y = if y < LEAST { LEAST } else { y };
    let y = if y > MOST { MOST } else { y };
    let power = params.crra_power;
    let utility = if power == -1.0 {
        1.0 - 1.0 / y
    } else if power.abs() < SMALL_POWER {
        // Here the difference below would cancel.
        let log = math::ln(y);
        let z = power * log;
        log * (1.0 + z * (1.0 / 2.0 + z * (1.0 / 6.0 + z * (1.0 / 24.0 + z * (1.0 / 120.0)))))
    } else {
        (math::exp(power * math::ln(y)) - 1.0) / power
    };
    (1.0 + utility) / YEAR
}

#[inline(always)]
pub(super) fn governor_reward(env: &Covid19, economic: f32, deaths: f32, i: usize) -> f32 {
    let (params, tables) = (&env.params, &env.tables);
    let annual = tables.state_annual_production[i];
    let health = -deaths * params.value_of_life / annual;
    let health = (health - tables.min_health[i]) / tables.health_span[i];
    let economic = (economic - tables.min_economic[i]) / tables.economic_span[i];
    let weight = tables.health_weight[i];
    let sum = weight * health + (1.0 - weight) * economic;
    sum / params.reward_normalization_factor
}
