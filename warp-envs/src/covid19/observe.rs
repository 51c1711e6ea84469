//! Health and economy under COVID-19: what governors and the planner see, and what they may do.

use super::day::{level_of, word_of};
use super::{Covid19, Covid19Params, Covid19State, GOVERNOR, N_LEVELS, N_STATES, PLANNER};
use warp_core::{Observation, team};

/// Numbers of a state that are seen: stringency, production, six kinds of people, lagged stringency.
const OWN: usize = 9;
/// Numbers that all see, at most.
const COMMON: usize = 5;
/// All that is seen lies in one row, so that an agent's number is found by its place, without branches: the states'
/// numbers, what all see, 0 and 1.
const COMMON_AT: usize = OWN * N_STATES;
const ZERO_AT: usize = COMMON_AT + COMMON;
const ONE_AT: usize = ZERO_AT + 1;

#[inline(always)]
pub(super) fn observe(env: &Covid19, state: &Covid19State<'_>, out: &mut Observation<'_>) {
    let n = if env.params.observe_rate == 1 { COMMON } else { COMMON - 1 };
    let mut seen = team::shared::<f32, { ONE_AT + 1 }>();
    team::once(|| common_numbers(&env.params, state, &mut seen));
    let day = *state.timestep - env.params.stringency_lag + 1;
    let word = word_of(state, day);
    for i in team::each(N_STATES) {
        let lagged = level_of(env, state, day, word, i);
        own_numbers(env, state, &mut seen, lagged, i);
    }
    masks(&env.params, state, out);
    governors_by_row(&seen, n, out.obs[GOVERNOR]);
    planner_by_part(&seen, n, out.obs[PLANNER]);
}

/// The planner sees all levels of stringency, what all see, and the rest of all states.
#[expect(dead_code, reason = "the CPU runs its twin")]
fn planner(seen: &[f32], n: usize, out: &mut [f32]) {
    team::fill(out, 1, OWN * N_STATES + n, |_, at| {
        let rest = if at < N_STATES { at } else { at - n };
        let of_all = (at >= N_STATES) & (at < N_STATES + n);
        seen[if of_all { COMMON_AT + at - N_STATES } else { rest }]
    });
}

/// Twin of [`planner`] for the CPU.
#[inline(always)]
fn planner_by_part(seen: &[f32], n: usize, out: &mut [f32]) {
    let (own, common) = (&seen[..COMMON_AT], &seen[COMMON_AT..COMMON_AT + n]);
    let (levels, rest) = out.split_at_mut(N_STATES);
    levels.copy_from_slice(&own[..N_STATES]);
    let (all, rest) = rest.split_at_mut(common.len());
    all.copy_from_slice(common);
    rest.copy_from_slice(&own[N_STATES..]);
}

/// Governors see their stringency, what all see, their number one-hot, and the rest.
#[expect(dead_code, reason = "the CPU runs its twin")]
fn governors(seen: &[f32], n: usize, out: &mut [f32]) {
    let rest = 1 + n + N_STATES;
    team::fill(out, N_STATES, rest + OWN - 1, |i, column| {
        let number = if column == 1 + n + i { ONE_AT } else { ZERO_AT };
        let common = if column <= n { COMMON_AT + column - 1 } else { number };
        let own = if column < rest { 0 } else { column - rest + 1 };
        seen[if (column > 0) & (column < rest) { common } else { own * N_STATES + i }]
    });
}

/// Twin of [`governors`] for the CPU.
#[inline(always)]
fn governors_by_row(seen: &[f32], n: usize, out: &mut [f32]) {
    let (own, common) = (&seen[..COMMON_AT], &seen[COMMON_AT..COMMON_AT + n]);
    let rest = 1 + n + N_STATES;
    for (i, row) in out.chunks_exact_mut(rest + OWN - 1).enumerate() {
        row[0] = own[i];
        // One more than the least: no call for a length that only the program knows.
        row[1..COMMON].copy_from_slice(&common[..COMMON - 1]);
        row[n] = common[n - 1];
        row[1 + n..rest].fill(0.0);
        row[1 + n + i] = 1.0;
        for (k, to) in row[rest..].iter_mut().enumerate() {
            *to = own[(k + 1) * N_STATES + i];
        }
    }
}

/// What everyone sees, in the order of the keys.
#[inline(always)]
fn common_numbers(params: &Covid19Params, state: &Covid19State<'_>, seen: &mut [f32]) {
    let t = *state.timestep;
    let interval = params.subsidy_interval;
    let (next, first) = (t + 1, params.first_delivery);
    let period = params.delivery_interval as f32;
    let days = if next <= first {
        let days = (first - next) as f32 / period;
        if days < 1.0 { days } else { 1.0 }
    } else {
        (params.delivery_interval - next % params.delivery_interval) as f32
    };
    seen[COMMON_AT] = *state.subsidy_level as f32 / params.num_subsidy_levels as f32;
    seen[COMMON_AT + 1] = (interval - t % interval) as f32 / interval as f32;
    seen[COMMON_AT + 2] = if next < first { 0.0 } else { params.vaccination_rate };
    let at = COMMON_AT + if params.observe_rate == 1 { 3 } else { 2 };
    seen[at] = days / period;
    seen[at + 1] = t as f32 / params.episode_length as f32;
    seen[ZERO_AT] = 0.0;
    seen[ONE_AT] = 1.0;
}

/// What is seen of one state: a row of all states for each number.
#[inline(always)]
fn own_numbers(env: &Covid19, state: &Covid19State<'_>, own: &mut [f32], lagged: i32, i: usize) {
    let inverse = env.tables.inverse_population[i];
    own[i] = state.stringency_level[i] as f32 / N_LEVELS as f32;
    own[N_STATES + i] = state.postsubsidy_productivity[i] * env.tables.inverse_max_production[i];
    own[2 * N_STATES + i] = state.susceptible[i] * inverse;
    own[3 * N_STATES + i] = state.infected[i] * inverse;
    own[4 * N_STATES + i] = state.recovered[i] * inverse;
    own[5 * N_STATES + i] = state.deaths[i] * inverse;
    own[6 * N_STATES + i] = state.vaccinated[i] * inverse;
    own[7 * N_STATES + i] = state.unemployed[i] * inverse;
    own[8 * N_STATES + i] = lagged as f32 / N_LEVELS as f32;
}

/// Doing nothing is always allowed; anything else when the time has come, or when data decide anyway.
#[inline(always)]
fn masks(params: &Covid19Params, state: &Covid19State<'_>, out: &mut Observation<'_>) {
    let t = *state.timestep;
    let all = params.use_real_world_policies == 1;
    team::fill(out.action_mask[GOVERNOR], N_STATES, N_LEVELS + 1, |i, action| {
        u8::from(all | (t >= state.action_in_cooldown_until[i]) | (action == 0))
    });
    let turn = all | (t % params.subsidy_interval == 0);
    let n = params.num_subsidy_levels as usize + 1;
    team::fill(out.action_mask[PLANNER], 1, n, |_, action| u8::from(turn | (action == 0)));
}
