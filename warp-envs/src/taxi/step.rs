//! Taxi's body. A step draws where the rain lets a move go, then perhaps another destination.

use super::{N_STATES, TaxiParams, TaxiState};
use warp_core::{Actions, Draw, Observation, StepOut};

/// Where the passenger is while in the taxi.
const IN_TAXI: i32 = 4;
/// The first actions are directions: 0 south, 1 north, 2 east, 3 west.
const PICK_UP: i32 = 4;
/// What leads away from a cell, by direction.
const AWAY: [i32; 4] = [5, -5, 1, -1];
/// To the left of each direction; with its last bit turned, to the right.
const LEFT: [i32; 4] = [2, 3, 1, 0];
/// The number of the place at each cell; -1: there is none.
const PLACE: [i32; 25] = [
    0, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, -1, -1, 3, -1,
];

pub(super) fn reset(params: &TaxiParams, state: &mut TaxiState, draw: &mut Draw) {
    // Of the 300 states with the passenger at a place that is not the destination, in their order.
    let start = draw.below(300) as i32;
    let (cell, passenger, other) = (start / 12, start % 12 / 3, start % 3);
    let destination = other + i32::from(other >= passenger);
    state.state = (cell * 5 + passenger) * 4 + destination;
    state.fickle_armed = i32::from(draw.uniform() < params.fickle);
}

pub(super) fn step(
    params: &TaxiParams,
    state: &mut TaxiState,
    actions: &Actions<'_>,
    draw: &mut Draw,
    out: &mut StepOut<'_>,
) {
    let action = actions.discrete[0][0];
    let u = draw.uniform();
    let (mut cell, passenger) = (state.state / 20, state.state / 4 % 5);
    let mut destination = state.state % 4;
    let place = PLACE[cell as usize];
    let wanted = if action == PICK_UP { place } else { IN_TAXI };
    let fails = action >= PICK_UP && (passenger != wanted || place < 0);
    if action < PICK_UP {
        let turn = i32::from(u >= params.second);
        let way = if u < params.first { action } else { LEFT[action as usize] ^ turn };
        let to = if moved(cell, action) != cell { moved(cell, way) } else { cell };
        if state.fickle_armed == 1 && passenger == IN_TAXI && to != cell {
            let other = draw.below(3) as i32;
            destination = other + i32::from(other >= destination);
            state.fickle_armed = 0;
        }
        cell = to;
    }
    let handles = action >= PICK_UP && !fails;
    let there = if action == PICK_UP { IN_TAXI } else { place };
    let passenger = if handles { there } else { passenger };
    out.terminated = handles && passenger == destination;
    let cost = if fails { -10.0 } else { -1.0 };
    out.reward[0][0] = if out.terminated { 20.0 } else { cost };
    state.state = (cell * 5 + passenger) * 4 + destination;
}

/// The cell next to `cell`, or itself where a wall or the border is in the way.
fn moved(cell: i32, direction: i32) -> i32 {
    let (row, column) = (cell / 5, cell % 5);
    let free = match direction {
        0 => row < 4,
        1 => row > 0,
        2 => column < 4 && !walled(row, column),
        _ => column > 0 && !walled(row, column - 1),
    };
    if free { cell + AWAY[direction as usize] } else { cell }
}

/// Whether a wall stands to the right of a cell.
fn walled(row: i32, column: i32) -> bool {
    (row < 2 && column == 1) || (row > 2 && (column == 0 || column == 2))
}

/// What is seen, as the number that kernels show one-hot.
#[inline(always)]
pub(super) fn shown_number(state: &TaxiState) -> i32 {
    state.state
}

pub(super) fn observe(state: &TaxiState, out: &mut Observation<'_>) {
    let number = shown_number(state);
    for i in 0..N_STATES {
        out.obs[0][i] = if i as i32 == number { 1.0 } else { 0.0 };
    }
    shown_mask(state, out.action_mask[0]);
}

pub(super) fn shown_mask(state: &TaxiState, allowed: &mut [u8]) {
    let (cell, passenger) = (state.state / 20, state.state / 4 % 5);
    let place = PLACE[cell as usize];
    for way in 0..4 {
        allowed[way as usize] = u8::from(moved(cell, way) != cell);
    }
    allowed[4] = u8::from(passenger == place);
    allowed[5] = u8::from(passenger == IN_TAXI && place >= 0);
}

/// Which of the environment's chances a step is: 0 to a side, 1 where it was meant, 2 certain.
pub(super) fn chance(params: &TaxiParams, actions: &Actions<'_>, draw: &mut Draw) -> usize {
    let meant = usize::from(draw.uniform() < params.first);
    if actions.discrete[0][0] < PICK_UP { meant } else { 2 }
}
