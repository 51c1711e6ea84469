//! Health and economy under COVID-19: start and step, from which `step.cu` is made.

use super::by_part::live_by_part;
use super::day::{Day, value_of};
use super::{Covid19, Covid19Params, Covid19State, GOVERNOR, N_FILTERS, N_STATES, PLANNER};
use warp_core::{Actions, StepOut, team};

/// Partial sums over states; partial sum l adds states l, l + 8 and so on.
const PARTS: usize = 8;

#[inline(always)]
pub(super) fn reset(env: &Covid19, state: &mut Covid19State<'_>) {
    let tables = &env.tables;
    for i in team::each(N_STATES) {
        state.susceptible[i] = tables.start_susceptible[i];
        state.infected[i] = tables.start_infected[i];
        state.recovered[i] = tables.start_recovered[i];
        state.deaths[i] = tables.start_deaths[i];
        state.vaccinated[i] = tables.start_vaccinated[i];
        state.unemployed[i] = tables.start_unemployed[i];
        state.postsubsidy_productivity[i] = 0.0;
        state.stringency_level[i] = tables.past_stringency[i];
        state.action_in_cooldown_until[i] = 0;
    }
    for at in team::each(N_FILTERS * N_STATES) {
        state.filtered[at] = tables.start_filtered[at];
    }
    for at in team::each(state.past_levels.len()) {
        state.past_levels[at] = if at < N_STATES { tables.past_stringency[at] as u32 } else { 0 };
    }
    team::once(|| {
        *state.subsidy_level = 0;
        *state.timestep = 0;
    });
}

#[inline(always)]
pub(super) fn step(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let params = &env.params;
    let t = *state.timestep + 1;
    let subsidy = changed_subsidy(env, state, actions.discrete[PLANNER], t - 1);
    let level = subsidy as f32 / params.num_subsidy_levels as f32;
    let mut deaths = team::shared::<f32, N_STATES>();
    let mut incomes = team::shared::<f32, N_STATES>();
    let (day, actions) = (Day { t, level }, actions.discrete[GOVERNOR]);
    live_by_part(env, state, actions, day, &mut deaths, &mut incomes, out.reward[GOVERNOR]);
    // What both add up to, in parts, so that any number of threads keeps the order.
    let mut parts = team::shared::<f32, { 2 * PARTS }>();
    for part in team::each(2 * PARTS) {
        let mut sum = 0.0;
        for i in (part % PARTS..N_STATES).step_by(PARTS) {
            sum += if part < PARTS { deaths[i] } else { incomes[i] };
        }
        parts[part] = sum;
    }
    team::once(|| {
        let (mut deaths, mut income) = (0.0, 0.0);
        for part in 0..PARTS {
            deaths += parts[part];
            income += parts[PARTS + part];
        }
        *state.timestep = t;
        *state.subsidy_level = subsidy;
        reward_planner(params, deaths, income - level * params.max_subsidy_cost, out);
    });
}

/// The level of subsidy after `past` days.
#[inline(always)]
fn changed_subsidy(env: &Covid19, state: &Covid19State<'_>, actions: &[i32], past: i32) -> i32 {
    if env.params.use_real_world_policies == 1 {
        return env.tables.real_subsidy_level[past as usize];
    }
    if past % env.params.subsidy_interval == 0 { actions[0] } else { *state.subsidy_level }
}

/// The planner's reward for all deaths and all income.
#[inline(always)]
fn reward_planner(params: &Covid19Params, deaths: f32, income: f32, out: &mut StepOut<'_>) {
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
