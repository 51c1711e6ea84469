//! The CPU's twin of [`live`]: short loops, which are compiled for many states at once.

#[cfg(doc)]
use super::day::live;
use super::day::{
    Day, arrives, change_stringency, epidemic, excess, filtered, governor_reward, level_of,
    production, replay, unemployment, value_of, word_of,
};
use super::{Covid19, Covid19State, N_STATES};

/// Twin of [`live`] for the CPU.
#[inline(always)]
pub(super) fn live_by_part(
    env: &Covid19,
    state: &mut Covid19State<'_>,
    actions: &[i32],
    day: Day,
    deaths: &mut [f32],
    incomes: &mut [f32],
    rewards: &mut [f32],
) {
    let (params, t) = (&env.params, day.t);
    let mut change = [0.0; N_STATES];
    let word = word_of(state, t);
    for i in 0..N_STATES {
        change[i] = change_stringency(env, state, actions, (t, word), i);
    }
    if params.use_real_world_data == 1 {
        for i in 0..N_STATES {
            deaths[i] = replay(env, state, t, i);
        }
    } else {
        let oldest = t - params.filter_length;
        let (leaves, stays) = (levels_of(env, state, oldest), levels_of(env, state, oldest - 1));
        let mut signal = [0.0; N_STATES];
        for i in 0..N_STATES {
            signal[i] = filtered(env, state, change[i], leaves[i] - stays[i], i);
        }
        for i in 0..N_STATES {
            signal[i] = excess(signal[i]);
        }
        for i in 0..N_STATES {
            unemployment(env, state, signal[i], i);
        }
        let lagged = levels_of(env, state, t - params.stringency_lag);
        let arrives = arrives(params, t);
        for i in 0..N_STATES {
            deaths[i] = epidemic(env, state, lagged[i], arrives, i);
        }
    }
    for i in 0..N_STATES {
        incomes[i] = production(env, state, day.level, i);
        state.postsubsidy_productivity[i] = incomes[i];
    }
    reward_governors(env, deaths, incomes, &mut rewards[..N_STATES]);
}

/// The governors' rewards: exponentials and logarithms have a loop of their own, in which nothing else
/// keeps a compiler from taking many states at once.
#[inline(always)]
fn reward_governors(env: &Covid19, deaths: &[f32], incomes: &[f32], rewards: &mut [f32]) {
    let mut worth = [0.0; N_STATES];
    for i in 0..N_STATES {
        worth[i] = incomes[i] / env.tables.state_annual_production[i];
    }
    for i in 0..N_STATES {
        worth[i] = value_of(&env.params, worth[i]);
    }
    for i in 0..N_STATES {
        rewards[i] = governor_reward(env, worth[i], deaths[i], i);
    }
}

/// The levels of a day in all states.
#[inline(always)]
fn levels_of(env: &Covid19, state: &Covid19State<'_>, day: i32) -> [i32; N_STATES] {
    let word = word_of(state, day);
    let mut levels = [0; N_STATES];
    for i in 0..N_STATES {
        levels[i] = level_of(env, state, day, word, i);
    }
    levels
}
