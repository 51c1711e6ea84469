//! RICE-N's body: start, negotiation and activity. Pairs of regions are numbered 27 x first + second.

use super::{
    N_ACTIVITIES, N_HEADS, N_NEGOTIATED_HEADS, N_PAIRS, N_REGIONS, RiceNParams, RiceNState, Tables,
};
use warp_core::{Actions, StepOut, math, team};

/// Stages of negotiation; any other is activity.
pub(super) const PROPOSAL: i32 = 1;
pub(super) const EVALUATION: i32 = 2;
/// Heads.
const SAVINGS: usize = 0;
const MITIGATION: usize = 1;
const EXPORT: usize = 2;
const TARIFFS: usize = 3;
const IMPORTS: usize = TARIFFS + N_REGIONS;
const PROPOSALS: usize = N_HEADS;
const ANSWERS: usize = PROPOSALS + 2 * N_REGIONS;
/// Years of an activity step.
const YEARS: f32 = 5.0;
/// The part of capital that a step leaves: 0.9^5.
const REMAINS: f32 = 0.590_49;
/// Output: exponent of capital; exponent of mitigation's cost; damage per square of warmth.
const CAPITAL_SHARE: f32 = 0.3;
const MITIGATION_EXPONENT: f32 = 2.6;
const DAMAGE: f32 = 0.002_36;
/// What a balance grows by in a step, and debt at which nothing is imported, per first capital.
const INTEREST: f32 = 1.1;
const DEBT: f32 = 10.0;
/// Weight of a foreign good's root beside a domestic one's of 1/2.
const FOREIGN: f32 = 0.5 / 26.0;
/// 1 - elasticity of utility.
const UTILITY_EXPONENT: f32 = -0.45;
/// Climate: forcing per e-fold of carbon (3.6813 per doubling), the carbon before industry, and
/// warming per forcing.
const FORCING: f32 = 5.310_993;
const FIRST_CARBON: f32 = 588.0;
const WARMING: f32 = 0.1005;
/// Carbon per emissions.
const CARBON: f32 = 1.363_88;
/// How warmth and carbon move in a step: into the first from each, and so on.
const HEAT_FLOW: [f32; 4] = [0.8718, 0.0088, 0.025, 0.975];
const CARBON_FLOW: [f32; 9] = [0.88, 0.196, 0.0, 0.12, 0.797, 0.001_465, 0.0, 0.007, 0.998_534_88];

#[inline(always)]
pub(super) fn reset(tables: &Tables, state: &mut RiceNState<'_>) {
    for i in team::each(N_REGIONS) {
        state.capital[i] = tables.start_capital[i];
        state.labor[i] = tables.start_labor[i];
        state.production_factor[i] = tables.start_technology[i];
        state.intensity[i] = tables.start_intensity[i];
        state.current_balance[i] = 0.0;
        state.production[i] = 0.0;
        state.gross_output[i] = 0.0;
        state.investment[i] = 0.0;
        state.consumption[i] = 0.0;
        state.savings[i] = 0.0;
        state.mitigation_rate[i] = 0.0;
        state.max_export_limit[i] = 0.0;
        state.mitigation_cost[i] = 0.0;
        state.abatement_cost[i] = 0.0;
        state.utility[i] = 0.0;
        state.social_welfare[i] = 0.0;
        state.reward[i] = 0.0;
        state.minimum_mitigation_rate[i] = 0.0;
    }
    for pair in team::each(N_PAIRS) {
        state.tariffs[pair] = 0.0;
    }
    for pair in team::each(state.promised_mitigation_rate.len()) {
        state.promised_mitigation_rate[pair] = 0.0;
        state.requested_mitigation_rate[pair] = 0.0;
        state.proposal_decisions[pair] = 0.0;
    }
    team::once(|| {
        state.global_temperature[0] = 0.85;
        state.global_temperature[1] = 0.0068;
        state.global_carbon_mass[0] = 851.0;
        state.global_carbon_mass[1] = 460.0;
        state.global_carbon_mass[2] = 1740.0;
        *state.global_exogenous_emissions = 0.0;
        *state.global_land_emissions = 0.0;
        *state.timestep = 0;
        *state.activity_timestep = 0;
        *state.capital_depreciation = 0.0;
        *state.damages = 0.0;
    });
}

/// What is decided in a step: proposals, answers, or (0) activity.
#[inline(always)]
pub(super) fn stage_of(params: &RiceNParams, timestep: i32) -> i32 {
    if params.negotiation == 1 { timestep % 3 } else { 0 }
}

/// Heads of a region.
#[inline(always)]
fn heads(params: &RiceNParams) -> usize {
    if params.negotiation == 1 { N_HEADS + N_NEGOTIATED_HEADS } else { N_HEADS }
}

/// The level that a region chose of a head, as a part of 1.
#[inline(always)]
fn chosen(params: &RiceNParams, actions: &[i32], region: usize, head: usize) -> f32 {
    actions[region * heads(params) + head] as f32 / params.levels as f32
}

#[inline(always)]
pub(super) fn step(
    params: &RiceNParams,
    tables: &Tables,
    state: &mut RiceNState<'_>,
    actions: &Actions<'_>,
    out: &mut StepOut<'_>,
) {
    let timestep = *state.timestep + 1;
    let stage = stage_of(params, timestep);
    if stage == PROPOSAL {
        propose(params, state, actions.discrete[0]);
    } else if stage == EVALUATION {
        evaluate(params, state, actions.discrete[0]);
    } else {
        act(params, tables, state, actions.discrete[0], out);
    }
    team::once(|| *state.timestep = timestep);
}

#[inline(always)]
fn propose(params: &RiceNParams, state: &mut RiceNState<'_>, actions: &[i32]) {
    for pair in team::each(N_PAIRS) {
        let i = pair / N_REGIONS;
        let head = PROPOSALS + 2 * (pair % N_REGIONS);
        state.promised_mitigation_rate[pair] = chosen(params, actions, i, head);
        state.requested_mitigation_rate[pair] = chosen(params, actions, i, head + 1);
    }
    for i in team::each(N_REGIONS) {
        state.reward[i] = 0.0;
    }
}

#[inline(always)]
fn evaluate(params: &RiceNParams, state: &mut RiceNState<'_>, actions: &[i32]) {
    let heads = heads(params);
    for pair in team::each(N_PAIRS) {
        let i = pair / N_REGIONS;
        let j = pair % N_REGIONS;
        let answer = actions[i * heads + ANSWERS + j] as f32;
        state.proposal_decisions[pair] = if i == j { 0.0 } else { answer };
    }
    for i in team::each(N_REGIONS) {
        let mut most = 0.0;
        for j in 0..N_REGIONS {
            let (given, taken) = (i * N_REGIONS + j, j * N_REGIONS + i);
            let promised = state.promised_mitigation_rate[given] * state.proposal_decisions[taken];
            let accepted = state.requested_mitigation_rate[taken] * state.proposal_decisions[given];
            most = if promised > most { promised } else { most };
            most = if accepted > most { accepted } else { most };
        }
        state.minimum_mitigation_rate[i] = most;
        state.reward[i] = 0.0;
    }
}

/// `x` to the power `exponent`; 0 for 0 where the exponent is positive.
#[inline(always)]
fn power(x: f32, exponent: f32) -> f32 {
    math::exp(exponent * math::ln(x))
}

/// Five years: production, trade, utility, climate.
#[inline(always)]
fn act(
    params: &RiceNParams,
    tables: &Tables,
    state: &mut RiceNState<'_>,
    actions: &[i32],
    out: &mut StepOut<'_>,
) {
    // Steps since the first activity; the tables end with the episode.
    let past = *state.activity_timestep;
    let t = past.clamp(0, N_ACTIVITIES as i32 - 1) as usize;
    let warmth = state.global_temperature[0];
    let damages = 1.0 / (1.0 + DAMAGE * warmth * warmth);
    produce(params, tables, state, actions, t, damages);

    // What each region imports from each, then the roots of what is left after tariffs.
    let mut imports = team::shared::<f32, N_PAIRS>();
    let mut roots = team::shared::<f32, N_PAIRS>();
    let mut exports = team::shared::<f32, N_REGIONS>();
    trade(params, tables, state, actions, &mut imports, &mut exports);
    for pair in team::each(N_PAIRS) {
        roots[pair] = math::sqrt(imports[pair] * (1.0 - state.tariffs[pair]));
        let head = TARIFFS + pair % N_REGIONS;
        state.tariffs[pair] = chosen(params, actions, pair / N_REGIONS, head);
    }

    let mut emissions = team::shared::<f32, N_REGIONS>();
    for i in team::each(N_REGIONS) {
        let mut imported = 0.0;
        let mut foreign = 0.0;
        for j in 0..N_REGIONS {
            imported += imports[i * N_REGIONS + j];
            foreign += FOREIGN * roots[i * N_REGIONS + j];
        }
        let kept = state.gross_output[i] - state.investment[i] - exports[i];
        let kept = if kept > 0.0 { kept } else { 0.0 };
        let root = 0.5 * math::sqrt(kept) + foreign;
        let consumption = root * root;
        let people = state.labor[i] / 1000.0;
        let utility =
            people * (power(consumption / people + 1.0, UTILITY_EXPONENT) - 1.0) / UTILITY_EXPONENT;
        state.consumption[i] = consumption;
        state.utility[i] = utility;
        state.social_welfare[i] = utility * tables.discount[t];
        state.reward[i] = utility;
        out.reward[0][i] = utility;
        state.current_balance[i] += YEARS * (exports[i] - imported);
        emissions[i] = state.intensity[i] * (1.0 - state.mitigation_rate[i]) * state.production[i];
    }
    grow(tables, state, t);
    let emitted = team::sum_parts::<9>(N_REGIONS, |i| emissions[i] + tables.land_emissions[t]);
    let utility = team::sum_parts::<9>(N_REGIONS, |i| state.utility[i]);
    team::once(|| {
        *state.damages = damages;
        *state.activity_timestep = past + 1;
        *state.capital_depreciation = REMAINS;
        warm(tables, state, t, emitted);
        out.statistics[0] += utility;
        out.statistics[1] = state.global_temperature[0];
        out.statistics[2] = state.global_carbon_mass[0];
    });
}

/// What each region decides, produces and invests.
#[inline(always)]
fn produce(
    params: &RiceNParams,
    tables: &Tables,
    state: &mut RiceNState<'_>,
    actions: &[i32],
    t: usize,
    damages: f32,
) {
    for i in team::each(N_REGIONS) {
        let savings = chosen(params, actions, i, SAVINGS);
        let mitigation = chosen(params, actions, i, MITIGATION);
        let capital = power(state.capital[i], CAPITAL_SHARE);
        let labor = power(state.labor[i] / 1000.0, 1.0 - CAPITAL_SHARE);
        let production = state.production_factor[i] * capital * labor;
        let cost = tables.mitigation_price[t] * state.intensity[i];
        let abatement = cost * power(mitigation, MITIGATION_EXPONENT);
        let output = damages * (1.0 - abatement) * production;
        state.savings[i] = savings;
        state.mitigation_rate[i] = mitigation;
        state.max_export_limit[i] = chosen(params, actions, i, EXPORT);
        state.mitigation_cost[i] = cost;
        state.abatement_cost[i] = abatement;
        state.production[i] = production;
        state.gross_output[i] = output;
        state.investment[i] = savings * output;
        state.current_balance[i] *= INTEREST;
    }
}

/// Who imports how much from whom, and what each region exports in all.
#[inline(always)]
fn trade(
    params: &RiceNParams,
    tables: &Tables,
    state: &RiceNState<'_>,
    actions: &[i32],
    imports: &mut [f32],
    exports: &mut [f32],
) {
    for pair in team::each(N_PAIRS) {
        let i = pair / N_REGIONS;
        let j = pair % N_REGIONS;
        let wanted = chosen(params, actions, i, IMPORTS + j) * state.gross_output[i];
        imports[pair] = if i == j { 0.0 } else { wanted };
    }
    // The part of its wishes that a region can pay for.
    let mut paid = team::shared::<f32, N_REGIONS>();
    for i in team::each(N_REGIONS) {
        let mut total = 0.0;
        for j in 0..N_REGIONS {
            total += imports[i * N_REGIONS + j];
        }
        let output = state.gross_output[i];
        let scale = if total > output { output / total } else { 1.0 };
        let debt = DEBT * state.current_balance[i] / tables.start_capital[i];
        let debt = if debt < -1.0 { -1.0 } else { debt };
        let debt = if debt > 0.0 { 0.0 } else { debt };
        paid[i] = scale * (1.0 + debt);
    }
    // The part of what is wanted from a region that it can deliver.
    let mut delivered = team::shared::<f32, N_REGIONS>();
    for j in team::each(N_REGIONS) {
        let mut total = 0.0;
        for i in 0..N_REGIONS {
            total += imports[i * N_REGIONS + j] * paid[i];
        }
        let output = state.gross_output[j];
        let spare = output - state.investment[j];
        let allowed = state.max_export_limit[j] * output;
        let most = if allowed <= spare { allowed } else { spare };
        let scale = if total > most { most / total } else { 1.0 };
        delivered[j] = scale;
        exports[j] = total * scale;
    }
    for pair in team::each(N_PAIRS) {
        imports[pair] = imports[pair] * paid[pair / N_REGIONS] * delivered[pair % N_REGIONS];
    }
}

/// Capital, labour, technology and intensity of the next step.
#[inline(always)]
fn grow(tables: &Tables, state: &mut RiceNState<'_>, t: usize) {
    for i in team::each(N_REGIONS) {
        state.capital[i] = REMAINS * state.capital[i] + YEARS * state.investment[i];
        let labor = state.labor[i];
        let pull = (1.0 + tables.labor_limit[i]) / (1.0 + labor);
        state.labor[i] = labor * power(pull, tables.labor_growth[i]);
        state.production_factor[i] *= tables.technology_factor[t * N_REGIONS + i];
        state.intensity[i] *= tables.intensity_factor[t];
    }
}

/// Moves warmth and carbon by a step; for one thread.
#[inline(always)]
fn warm(tables: &Tables, state: &mut RiceNState<'_>, t: usize, emitted: f32) {
    let forcing = tables.forcing[t];
    let (air, ocean) = (state.global_temperature[0], state.global_temperature[1]);
    let (m, n) = (state.global_carbon_mass[0], state.global_carbon_mass[1]);
    let o = state.global_carbon_mass[2];
    let heat = WARMING * (FORCING * math::ln(m / FIRST_CARBON) + forcing);
    state.global_temperature[0] = HEAT_FLOW[0] * air + HEAT_FLOW[1] * ocean + heat;
    state.global_temperature[1] = HEAT_FLOW[2] * air + HEAT_FLOW[3] * ocean;
    for layer in 0..3 {
        let stays = CARBON_FLOW[3 * layer] * m
            + CARBON_FLOW[3 * layer + 1] * n
            + CARBON_FLOW[3 * layer + 2] * o;
        state.global_carbon_mass[layer] = stays + if layer == 0 { CARBON * emitted } else { 0.0 };
    }
    *state.global_exogenous_emissions = forcing;
    *state.global_land_emissions = tables.land_emissions[t];
}
