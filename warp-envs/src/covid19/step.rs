//! Health and economy under COVID-19: start and step. `step.cu` repeats it operation by operation.

use super::{
    Covid19, Covid19Params, Covid19State, GOVERNOR, LEVELS_PER_WORD, N_FILTERS, N_STATES, PLANNER,
};
use warp_core::{Actions, StepOut, math};

/// Bits of a level in a word.
const LEVEL_BITS: usize = 4;
/// Partial sums over states; partial sum l adds states l, l + 8 and so on.
const PARTS: usize = 8;
/// Days of a year.
const YEAR: f32 = 365.0;
/// The value of money is flat below and above these parts of what is usual.
const LEAST: f32 = 0.1;
const MOST: f32 = 3.0;
/// Above it ln(1 + e^x) is x.
const LINEAR: f32 = 20.0;
/// Keeps a quotient by the susceptible finite.
const TINY: f32 = 1e-10;

/// One number per state.
type States = [f32; N_STATES];

#[inline(always)]
pub(super) fn reset(env: &Covid19, state: &mut Covid19State<'_>) {
    let tables = &env.tables;
    state.susceptible.copy_from_slice(&tables.start_susceptible);
    state.infected.copy_from_slice(&tables.start_infected);
    state.recovered.copy_from_slice(&tables.start_recovered);
    state.deaths.copy_from_slice(&tables.start_deaths);
    state.vaccinated.copy_from_slice(&tables.start_vaccinated);
    state.unemployed.copy_from_slice(&tables.start_unemployed);
    state.filtered.copy_from_slice(&tables.start_filtered);
    state.postsubsidy_productivity.fill(0.0);
    state.stringency_level.copy_from_slice(&tables.past_stringency[..N_STATES]);
    state.action_in_cooldown_until.fill(0);
    state.past_levels.fill(0);
    for (word, level) in state.past_levels.iter_mut().zip(&*state.stringency_level) {
        *word = *level as u32;
    }
    *state.subsidy_level = 0;
    *state.timestep = 0;
}

#[inline(always)]
pub(super) fn step(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    *state.timestep += 1;
    let change = change_stringency(env, state, actions.discrete[GOVERNOR]);
    change_subsidy(env, state, actions.discrete[PLANNER]);
    let deaths = if env.params.use_real_world_data == 1 {
        replay(env, state)
    } else {
        unemployment(env, state, &change);
        epidemic(env, state)
    };
    production(env, state);
    reward_governors(env, state, &deaths, out);
    reward_planner(&env.params, state, &deaths, out);
}

/// Where the level of a day lies: the first element of its row of words, and its place in a word.
#[inline(always)]
fn place(state: &Covid19State<'_>, day: i32) -> (usize, usize) {
    let n_words = state.past_levels.len() / N_STATES;
    let day = day as usize;
    let word = day / LEVELS_PER_WORD % n_words;
    (word * N_STATES, day % LEVELS_PER_WORD * LEVEL_BITS)
}

/// The levels of a day, counted from the start; `day` may be before it, but not after today. The start
/// itself is read from the table, as its word may have been overwritten.
#[inline(always)]
pub(super) fn levels_of(env: &Covid19, state: &Covid19State<'_>, day: i32) -> [i32; N_STATES] {
    let mut levels = [0; N_STATES];
    if day <= 0 {
        let first = -day as usize * N_STATES;
        levels.copy_from_slice(&env.tables.past_stringency[first..first + N_STATES]);
    } else {
        let (first, shift) = place(state, day);
        let words = &state.past_levels[first..first + N_STATES];
        for (level, word) in levels.iter_mut().zip(words) {
            *level = ((word >> shift) & 15) as i32;
        }
    }
    levels
}

/// Sets the levels of stringency and returns by how much they changed.
#[inline(always)]
fn change_stringency(env: &Covid19, state: &mut Covid19State<'_>, actions: &[i32]) -> States {
    let params = &env.params;
    let t = *state.timestep;
    let actions = match params.use_real_world_policies {
        1 => &env.tables.real_stringency[(t - 1) as usize * N_STATES..],
        _ => actions,
    };
    let (first, shift) = place(state, t);
    let words = &mut state.past_levels[first..first + N_STATES];
    let mut change = [0.0; N_STATES];
    for i in 0..N_STATES {
        let (action, before) = (actions[i], state.stringency_level[i]);
        let level = if action != 0 { action } else { before };
        let until = state.action_in_cooldown_until[i];
        let wait = if action != 0 { params.action_cooldown_period } else { 1 };
        state.action_in_cooldown_until[i] = if t == until + 1 { until + wait } else { until };
        state.stringency_level[i] = level;
        // Levels of later days in this word are those of a round ago.
        let earlier = words[i] & ((1 << shift) - 1);
        words[i] = earlier | ((level as u32) << shift);
        change[i] = (level - before) as f32;
    }
    change
}

#[inline(always)]
fn change_subsidy(env: &Covid19, state: &mut Covid19State<'_>, actions: &[i32]) {
    let params = &env.params;
    let past = *state.timestep - 1;
    if params.use_real_world_policies == 1 {
        *state.subsidy_level = env.tables.real_subsidy_level[past as usize];
    } else if past % params.subsidy_interval == 0 {
        *state.subsidy_level = actions[0];
    }
}

/// Takes epidemic and unemployment from the data; returns the new deaths.
#[inline(always)]
fn replay(env: &Covid19, state: &mut Covid19State<'_>) -> States {
    let first = (*state.timestep - 1) as usize * 6 * N_STATES;
    let day = &env.tables.real_data[first..first + 6 * N_STATES];
    let series = |n: usize| &day[n * N_STATES..(n + 1) * N_STATES];
    let mut deaths = [0.0; N_STATES];
    for (i, after) in series(3).iter().enumerate() {
        deaths[i] = after - state.deaths[i];
    }
    state.susceptible.copy_from_slice(series(0));
    state.infected.copy_from_slice(series(1));
    state.recovered.copy_from_slice(series(2));
    state.deaths.copy_from_slice(series(3));
    state.vaccinated.copy_from_slice(series(4));
    state.unemployed.copy_from_slice(series(5));
    deaths
}

/// Lets the epidemic go on for a day; returns the new deaths.
#[inline(always)]
fn epidemic(env: &Covid19, state: &mut Covid19State<'_>) -> States {
    let (params, tables) = (&env.params, &env.tables);
    let t = *state.timestep;
    let lagged = levels_of(env, state, t - params.stringency_lag);
    let arrives = (t >= params.first_vaccine_step) & (t % params.delivery_interval == 0);
    let mut deaths = [0.0; N_STATES];
    for i in 0..N_STATES {
        let (susceptible, infected) = (state.susceptible[i], state.infected[i]);
        let doses = if arrives { tables.vaccines_per_delivery[i] as f32 } else { 0.0 };
        let part = doses / (susceptible + TINY);
        let part = if part < 1.0 { part } else { 1.0 };
        let vaccinated = if doses < susceptible { doses } else { susceptible };
        let rate = tables.intercept[i] + tables.slope[i] * lagged[i] as f32;
        let met = susceptible / tables.population[i] * infected;
        let newly = rate * met * (1.0 - part);
        let recovered = infected / params.infectious_days;
        state.susceptible[i] = positive(susceptible - (newly + vaccinated));
        state.infected[i] = positive(infected + (newly - recovered));
        state.recovered[i] = positive(state.recovered[i] + (recovered + vaccinated));
        state.vaccinated[i] += vaccinated;
        let after = (state.recovered[i] - state.vaccinated[i]) / params.recovered_per_death;
        deaths[i] = after - state.deaths[i];
        state.deaths[i] = after;
    }
    deaths
}

#[inline(always)]
fn positive(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Filters today's change of stringency, forgets the one that leaves the window, and says who is
/// without work.
#[inline(always)]
fn unemployment(env: &Covid19, state: &mut Covid19State<'_>, change: &States) {
    let (params, tables) = (&env.params, &env.tables);
    let oldest = *state.timestep - params.filter_length;
    let left = levels_of(env, state, oldest);
    let before = levels_of(env, state, oldest - 1);
    let mut signal = [0.0; N_STATES];
    for filter in 0..N_FILTERS {
        let (fading, forgotten) = (tables.fading[filter], tables.forgotten[filter]);
        let row = filter * N_STATES..(filter + 1) * N_STATES;
        let weights = &tables.unemployment_weight[row.clone()];
        let filtered = &mut state.filtered[row];
        for i in 0..N_STATES {
            let leaves = forgotten * (left[i] - before[i]) as f32;
            // Less than one minus a fading part: that would round it to a few digits.
            filtered[i] = (filtered[i] - filtered[i] * fading) + (change[i] - leaves);
            signal[i] += weights[i] * filtered[i];
        }
    }
    for (i, x) in signal.into_iter().enumerate() {
        let excess = if x > LINEAR { x } else { math::ln(1.0 + math::exp(x)) };
        let rate = excess + tables.unemployment_bias[i];
        state.unemployed[i] = rate * tables.population[i] / 100.0;
    }
}

#[inline(always)]
fn production(env: &Covid19, state: &mut Covid19State<'_>) {
    let (params, tables) = (&env.params, &env.tables);
    let level = *state.subsidy_level as f32 / params.num_subsidy_levels as f32;
    for i in 0..N_STATES {
        let incapable = params.too_sick * state.infected[i] + state.deaths[i];
        let idle = params.working_age * incapable + state.unemployed[i];
        let workers = positive(params.working_age * tables.population[i] - idle);
        let production = workers * params.worker_production;
        state.postsubsidy_productivity[i] = production + level * tables.max_daily_subsidy[i];
    }
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
    } else if power == 0.0 {
        math::ln(y)
    } else {
        (math::exp(power * math::ln(y)) - 1.0) / power
    };
    (1.0 + utility) / YEAR
}

#[inline(always)]
fn reward_governors(
    env: &Covid19,
    state: &Covid19State<'_>,
    deaths: &States,
    out: &mut StepOut<'_>,
) {
    let (params, tables) = (&env.params, &env.tables);
    for (i, reward) in out.reward[GOVERNOR].iter_mut().enumerate().take(N_STATES) {
        let annual = tables.state_annual_production[i];
        let health = -deaths[i] * params.value_of_life / annual;
        let economic = value_of(params, state.postsubsidy_productivity[i] / annual);
        let health = (health - tables.min_health[i]) / tables.health_span[i];
        let economic = (economic - tables.min_economic[i]) / tables.economic_span[i];
        let weight = tables.health_weight[i];
        let sum = weight * health + (1.0 - weight) * economic;
        *reward = sum / params.reward_normalization_factor;
    }
}

/// The sum over states in an order that any number of threads can keep.
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut parts = [0.0; PARTS];
    for eight in values.chunks(PARTS) {
        for (part, value) in parts.iter_mut().zip(eight) {
            *part += value;
        }
    }
    let mut total = 0.0;
    for part in parts {
        total += part;
    }
    total
}

#[inline(always)]
fn reward_planner(
    params: &Covid19Params,
    state: &Covid19State<'_>,
    deaths: &States,
    out: &mut StepOut<'_>,
) {
    let deaths = sum(deaths);
    let level = *state.subsidy_level as f32 / params.num_subsidy_levels as f32;
    let income = sum(state.postsubsidy_productivity) - level * params.max_subsidy_cost;
    let health = -deaths * params.value_of_life / params.annual_production;
    let economic = value_of(params, income / params.annual_production);
    let health = (health - params.planner_min_health) / params.planner_health_span;
    let economic = (economic - params.planner_min_economic) / params.planner_economic_span;
    let weight = params.planner_health_weight;
    let sum = weight * health + (1.0 - weight) * economic;
    out.reward[PLANNER][0] = sum / params.reward_normalization_factor;
    out.statistics[0] += health;
    out.statistics[1] += economic;
    out.statistics[2] += deaths;
}
