//! RICE-N: what a region sees and may do.

use super::step::stage_of;
use super::{N_HEADS, N_PAIRS, N_REGIONS, NEGOTIATED_WIDTH, RiceNParams, RiceNState, WIDTH};
use warp_core::{Observation, team};

/// Numbers that all regions see alike: of the world (one more with negotiation), of each region, tariffs.
const N_WORLD: usize = 8;
const N_PUBLIC_ROWS: usize = 10;
const N_SHARED: usize = N_WORLD + N_PUBLIC_ROWS * N_REGIONS + N_PAIRS;
const N_SHARED_NEGOTIATED: usize = N_SHARED + 1;
/// Numbers of a region that it alone sees, the least mitigation last.
const N_PRIVATE: usize = 10;
const N_PRIVATE_OF_ALL: usize = N_PRIVATE * N_REGIONS;

#[inline(always)]
pub(super) fn observe(params: &RiceNParams, state: &RiceNState<'_>, out: &mut Observation<'_>) {
    let negotiation = params.negotiation as usize;
    let mut shared = team::shared::<f32, N_SHARED_NEGOTIATED>();
    let mut private = team::shared::<f32, N_PRIVATE_OF_ALL>();
    team::once(|| {
        shared[0] = state.global_temperature[0] / 10.0;
        shared[1] = state.global_temperature[1] / 10.0;
        shared[2] = state.global_carbon_mass[0] / 10_000.0;
        shared[3] = state.global_carbon_mass[1] / 10_000.0;
        shared[4] = state.global_carbon_mass[2] / 10_000.0;
        shared[5] = *state.global_exogenous_emissions;
        shared[6] = *state.global_land_emissions;
        shared[7] = *state.timestep as f32 / 100.0;
        if params.negotiation == 1 {
            shared[8] = stage_of(params, *state.timestep) as f32;
        }
    });
    for i in team::each(N_REGIONS) {
        let first = N_WORLD + negotiation + i;
        shared[first] = state.capital[i] / 10_000.0;
        shared[first + N_REGIONS] = *state.capital_depreciation;
        shared[first + 2 * N_REGIONS] = state.labor[i] / 10_000.0;
        shared[first + 3 * N_REGIONS] = state.gross_output[i] / 1000.0;
        shared[first + 4 * N_REGIONS] = state.investment[i] / 1000.0;
        shared[first + 5 * N_REGIONS] = state.consumption[i] / 1000.0;
        shared[first + 6 * N_REGIONS] = state.savings[i];
        shared[first + 7 * N_REGIONS] = state.mitigation_rate[i];
        shared[first + 8 * N_REGIONS] = state.max_export_limit[i];
        shared[first + 9 * N_REGIONS] = state.current_balance[i] / 1000.0;
        let own = N_PRIVATE * i;
        private[own] = state.production_factor[i] / 100.0;
        private[own + 1] = state.intensity[i] / 0.1;
        private[own + 2] = state.mitigation_cost[i];
        private[own + 3] = *state.damages;
        private[own + 4] = state.abatement_cost[i];
        private[own + 5] = state.production[i] / 1000.0;
        private[own + 6] = state.utility[i];
        private[own + 7] = state.social_welfare[i];
        private[own + 8] = state.reward[i];
        private[own + 9] = state.minimum_mitigation_rate[i];
    }
    let first = N_WORLD + negotiation + N_PUBLIC_ROWS * N_REGIONS;
    for pair in team::each(N_PAIRS) {
        shared[first + pair] = state.tariffs[pair] / 100.0;
    }

    // Two calls, so that each has a width that is known when kernels are compiled.
    if params.negotiation == 1 {
        team::fill(out.obs[0], N_REGIONS, NEGOTIATED_WIDTH, |row, column| {
            let common = seen(row, column, N_SHARED_NEGOTIATED, &shared, &private);
            let deals = N_REGIONS + N_SHARED_NEGOTIATED + N_PRIVATE;
            if column < deals { common } else { deal(state, row, column - deals) }
        });
    } else {
        team::fill(out.obs[0], N_REGIONS, WIDTH, |row, column| {
            seen(row, column, N_SHARED, &shared, &private)
        });
    }
    masks(params, state, out);
}

/// What a region sees of itself and the world; any number beyond that.
#[inline(always)]
fn seen(row: usize, column: usize, n_shared: usize, shared: &[f32], private: &[f32]) -> f32 {
    if column < N_REGIONS {
        if column == row { 1.0 } else { 0.0 }
    } else if column < N_REGIONS + n_shared {
        shared[column - N_REGIONS]
    } else if column < N_REGIONS + n_shared + N_PRIVATE {
        private[row * N_PRIVATE + column - N_REGIONS - n_shared]
    } else {
        0.0
    }
}

/// What a region sees of negotiations: its own row, then its own column, of promises, requests, answers.
#[inline(always)]
fn deal(state: &RiceNState<'_>, row: usize, column: usize) -> f32 {
    let kind = column / N_REGIONS;
    let other = column % N_REGIONS;
    let pair = if kind % 2 == 1 { other * N_REGIONS + row } else { row * N_REGIONS + other };
    if kind < 2 {
        state.promised_mitigation_rate[pair]
    } else if kind < 4 {
        state.requested_mitigation_rate[pair]
    } else {
        state.proposal_decisions[pair]
    }
}

/// All levels are allowed but those of mitigation below what was agreed.
#[inline(always)]
fn masks(params: &RiceNParams, state: &RiceNState<'_>, out: &mut Observation<'_>) {
    let levels = params.levels;
    let mut least = team::shared::<i32, N_REGIONS>();
    for i in team::each(N_REGIONS) {
        least[i] = (state.minimum_mitigation_rate[i] * levels as f32 + 0.5) as i32;
    }
    let own = N_HEADS * levels as usize;
    let negotiated = 2 * N_REGIONS * levels as usize + 2 * N_REGIONS;
    let width = if params.negotiation == 1 { own + negotiated } else { own };
    team::fill(out.action_mask[0], N_REGIONS, width, |row, column| {
        // The second head is mitigation.
        let level = column as i32 - levels;
        u8::from(level < 0 || level >= levels || level >= least[row])
    });
}
