//! Health and economy under COVID-19: what governors and the planner see, and what they may do.

use super::step::levels_of;
use super::{Covid19, Covid19Params, Covid19State, GOVERNOR, N_LEVELS, N_STATES, PLANNER};
use warp_core::Observation;

/// What everyone sees.
struct Shared {
    subsidy: f32,
    until_subsidy: f32,
    rate: f32,
    until_vaccines: f32,
    time: f32,
}

impl Shared {
    #[inline(always)]
    fn new(params: &Covid19Params, state: &Covid19State<'_>) -> Self {
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
        Shared {
            subsidy: *state.subsidy_level as f32 / params.num_subsidy_levels as f32,
            until_subsidy: (interval - t % interval) as f32 / interval as f32,
            rate: if next < first { 0.0 } else { params.vaccination_rate },
            until_vaccines: days / period,
            time: t as f32 / params.episode_length as f32,
        }
    }

    /// Writes them to the front of `row`, in the order of their keys, and returns how many they are.
    #[inline(always)]
    fn write(&self, params: &Covid19Params, row: &mut [f32]) -> usize {
        row[0] = self.subsidy;
        row[1] = self.until_subsidy;
        let n = if params.observe_rate == 1 {
            row[2] = self.rate;
            3
        } else {
            2
        };
        row[n] = self.until_vaccines;
        row[n + 1] = self.time;
        n + 2
    }
}

#[inline(always)]
pub(super) fn observe(env: &Covid19, state: &Covid19State<'_>, out: &mut Observation<'_>) {
    let params = &env.params;
    let shared = Shared::new(params, state);
    let lagged = levels_of(env, state, *state.timestep - params.stringency_lag + 1);
    let governors = &mut *out.obs[GOVERNOR];
    let width = governors.len() / N_STATES;
    for (i, row) in governors.chunks_exact_mut(width).enumerate() {
        row[0] = tenths(state.stringency_level[i]);
        let n = 1 + shared.write(params, &mut row[1..]);
        row[n..n + N_STATES].fill(0.0);
        row[n + i] = 1.0;
        let rest = &mut row[n + N_STATES..];
        let inverse = env.tables.inverse_population[i];
        rest[0] = state.postsubsidy_productivity[i] * env.tables.inverse_max_production[i];
        for (to, people) in rest[1..7].iter_mut().zip(people(state)) {
            *to = people[i] * inverse;
        }
        rest[7] = tenths(lagged[i]);
    }
    observe_all(env, state, (&shared, &lagged), &mut *out.obs[PLANNER]);
    masks(params, state, out);
}

/// A level as a part of the highest.
#[inline(always)]
fn tenths(level: i32) -> f32 {
    level as f32 / N_LEVELS as f32
}

/// The numbers of people, in the order in which they are seen.
#[inline(always)]
fn people<'s>(state: &'s Covid19State<'_>) -> [&'s [f32]; 6] {
    [
        &*state.susceptible,
        &*state.infected,
        &*state.recovered,
        &*state.deaths,
        &*state.vaccinated,
        &*state.unemployed,
    ]
}

/// What the planner sees.
#[inline(always)]
fn observe_all(
    env: &Covid19,
    state: &Covid19State<'_>,
    (shared, lagged): (&Shared, &[i32; N_STATES]),
    row: &mut [f32],
) {
    for (to, level) in row.iter_mut().zip(&*state.stringency_level) {
        *to = tenths(*level);
    }
    let n = N_STATES + shared.write(&env.params, &mut row[N_STATES..]);
    let row = &mut row[n..];
    let inverse = &env.tables.inverse_max_production;
    for i in 0..N_STATES {
        row[i] = state.postsubsidy_productivity[i] * inverse[i];
    }
    let inverse = &env.tables.inverse_population;
    for (to, people) in row[N_STATES..].chunks_exact_mut(N_STATES).zip(people(state)) {
        for i in 0..N_STATES {
            to[i] = people[i] * inverse[i];
        }
    }
    for (to, level) in row[7 * N_STATES..].iter_mut().zip(lagged) {
        *to = tenths(*level);
    }
}

/// Doing nothing is always allowed; anything else when the time has come, or when data decide anyway.
#[inline(always)]
fn masks(params: &Covid19Params, state: &Covid19State<'_>, out: &mut Observation<'_>) {
    let t = *state.timestep;
    let all = params.use_real_world_policies == 1;
    let governors = out.action_mask[GOVERNOR].chunks_exact_mut(N_LEVELS + 1);
    for (mask, until) in governors.zip(&*state.action_in_cooldown_until) {
        mask.fill(u8::from(all | (t >= *until)));
        mask[0] = 1;
    }
    let planner = &mut *out.action_mask[PLANNER];
    planner.fill(u8::from(all | (t % params.subsidy_interval == 0)));
    planner[0] = 1;
}
