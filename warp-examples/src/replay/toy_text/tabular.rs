//! Worlds with one number as their state: frozen_lake, cliff_walking and taxi.

use super::super::case::Case;
use super::chance::{Before, Chance};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use warp_core::{Config, Draw, Env, TableData};
use warp_envs::cliff_walking::{CliffWalking, CliffWalkingConfig};
use warp_envs::frozen_lake::{FrozenLake, FrozenLakeConfig};
use warp_envs::taxi::{Taxi, TaxiConfig};

/// What chance decides in such a world.
struct Rules {
    /// A draw below the first number has the first outcome, and so on.
    cumulative: [f32; 2],
    /// States in which episodes begin, each as often.
    starts: Vec<i32>,
    /// How many passengers are fickle; 0: none is.
    fickle: f32,
}

impl Rules {
    fn of(case: &Case) -> Result<Rules> {
        let config = &case.config;
        Ok(match case.env.as_str() {
            "frozen_lake" => {
                let env = FrozenLake::new(&FrozenLakeConfig::from_table(config)?)?;
                let starts = match env.tables().iter().find(|table| table.name == "starts") {
                    Some(table) => match table.data {
                        TableData::I32(starts) => starts.to_vec(),
                        TableData::F32(_) => Vec::new(),
                    },
                    None => Vec::new(),
                };
                let params = env.params();
                Rules { cumulative: [params.first, params.second], starts, fickle: 0.0 }
            }
            "cliff_walking" => {
                let env = CliffWalking::new(&CliffWalkingConfig::from_table(config)?)?;
                let params = env.params();
                Rules { cumulative: [params.first, params.second], starts: vec![36], fickle: 0.0 }
            }
            _ => {
                let env = Taxi::new(&TaxiConfig::from_table(config)?)?;
                let waits = |state: &i32| state / 4 % 5 < 4 && state / 4 % 5 != state % 4;
                let (params, starts) = (env.params(), (0..500).filter(waits).collect());
                let cumulative = [params.first, params.second];
                Rules { cumulative, starts, fickle: params.fickle }
            }
        })
    }

    /// The outcome, of `n`, that a draw has.
    fn outcome(&self, u: f32, n: usize) -> usize {
        match n {
            1 => 0,
            _ => usize::from(u >= self.cumulative[0]) + usize::from(u >= self.cumulative[1]),
        }
    }

    /// How often outcome `k` of `n` comes up.
    fn probability(&self, k: usize, n: usize) -> f64 {
        let [first, second] = self.cumulative.map(f64::from);
        if n == 1 { 1.0 } else { [first, second - first, 1.0 - second][k.min(2)] }
    }

    /// The number of a start among those of `n`, for a draw from 0 to 1.
    fn start(&self, u: f64) -> f64 {
        let n = self.starts.len();
        f64::from(self.starts[((u * n as f64) as usize).min(n - 1)])
    }
}

/// Plays every outcome of every action in every state that an episode can go on from.
pub(super) fn table(case: &Case, chance: &mut Chance) -> Result<()> {
    let rules = Rules::of(case)?;
    let n_outcomes = case.array("n_outcomes")?;
    let &[states, actions] = n_outcomes.shape.as_slice() else {
        anyhow::bail!("array \"n_outcomes\" has shape {:?}, not two dimensions", n_outcomes.shape)
    };
    let most = case.array("prob")?.shape.get(2).copied().unwrap_or(0);
    let part =
        |name: &str| Ok::<_, anyhow::Error>(&case.shaped(name, &[states, actions, most])?.data);
    let (prob, next, reward) = (part("prob")?, part("next_state")?, part("reward")?);
    let terminated = part("terminated")?;
    let ends: BTreeSet<usize> = (0..next.len())
        .filter(|at| terminated[*at] == 1.0 && prob[*at] > 0.0)
        .map(|at| next[at] as usize)
        .collect();
    for row in 0..states * actions {
        let (state, action) = (row / actions, row % actions);
        let n = n_outcomes.data[row] as usize;
        ensure!((1..=most).contains(&n), "array \"n_outcomes\" holds {n}, but \"prob\" has {most}");
        if ends.contains(&state) {
            continue;
        }
        for k in 0..n {
            let at = row * most + k;
            chance.follows("prob", state, &prob[at..=at], &[rules.probability(k, n)])?;
            if prob[at] == 0.0 {
                continue;
            }
            let loaded = [("state", state as i32)];
            let before = Before { state: &loaded, timestep: 0, action: action as i32 };
            chance.step(before, |mut draw| rules.outcome(draw.uniform(), n) == k)?;
            let [got, over, cut] = chance.outcome();
            let seen = chance.state("state")?;
            chance.expect("next_state", state, &next[at..=at], &[seen])?;
            chance.expect("reward", state, &[f64::from(reward[at] as f32)], &[got])?;
            chance.expect("terminated", state, &terminated[at..=at], &[over + cut])?;
        }
    }
    starts(case, &rules, chance, states)
}

/// Every state in which episodes begin, and no other.
fn starts(case: &Case, rules: &Rules, chance: &mut Chance, states: usize) -> Result<()> {
    let initial = &case.shaped("initial", &[states])?.data;
    let n = rules.starts.len();
    for (state, often) in initial.iter().enumerate() {
        let number = rules.starts.iter().position(|start| *start as usize == state);
        let share = if number.is_some() { 1.0 / n as f64 } else { 0.0 };
        chance.follows("initial", state, &[*often], &[share])?;
        if let Some(number) = number {
            chance.start(|mut draw| draw.below(n as u32) as usize == number)?;
            let seen = chance.state("state")?;
            chance.expect("initial", state, &[state as f64], &[seen])?;
        }
    }
    Ok(())
}

/// The draws of a step: its outcome, and which other destination a fickle passenger chooses.
fn drawn(rules: &Rules, mut draw: Draw, k: usize, n: usize, other: Option<u32>) -> bool {
    rules.outcome(draw.uniform(), n) == k && other.is_none_or(|other| draw.below(3) == other)
}

/// Follows recorded episodes, transition by transition.
pub(super) fn trajectory(case: &Case, chance: &mut Chance) -> Result<()> {
    let rules = Rules::of(case)?;
    let steps = case.steps;
    let column = |name: &str| Ok::<_, anyhow::Error>(&case.shaped(name, &[steps])?.data);
    let (state, action, next) = (column("state")?, column("action")?, column("next_state")?);
    let (outcome, u, prob) = (column("outcome")?, column("u")?, column("prob")?);
    let (timestep, episode, reward) = (column("step")?, column("episode")?, column("reward")?);
    let (terminated, truncated) = (column("terminated")?, column("truncated")?);
    let taxi = case.env == "taxi";
    let armed = if taxi { column("fickle_armed")?.as_slice() } else { &[] };
    for t in 0..steps {
        // What is certain has one outcome: actions that are no moves, and all where nobody slips.
        let chancy = rules.cumulative != [0.0, 1.0] && rules.cumulative != [1.0, 1.0];
        let n = if chancy && !(taxi && action[t] >= 4.0) { 3 } else { 1 };
        let k = outcome[t] as usize;
        chance.follows("outcome", t, &outcome[t..=t], &[rules.outcome(u[t] as f32, n) as f64])?;
        chance.follows("prob", t, &prob[t..=t], &[rules.probability(k, n)])?;
        let mut loaded = vec![("state", state[t] as i32)];
        loaded.extend(armed.get(t).map(|armed| ("fickle_armed", *armed as i32)));
        let before =
            Before { state: &loaded, timestep: timestep[t] as u32, action: action[t] as i32 };
        chance.load(before)?;
        if taxi {
            masks(case, chance, "mask", t)?;
        }
        let other = if taxi { other(case, t, state[t] as i32)? } else { None };
        chance.act(before.action, |draw| drawn(&rules, draw, k, n, other))?;
        let [got, over, cut] = chance.outcome();
        let (seen, shown) = (chance.state("state")?, chance.one_hot());
        chance.expect("next_state", t, &[next[t], next[t]], &[seen, shown])?;
        chance.expect("reward", t, &[f64::from(reward[t] as f32)], &[got])?;
        chance.expect("terminated", t, &terminated[t..=t], &[over])?;
        // The original may say both; here what ends an episode counts.
        let cut_only = truncated[t] * (1.0 - terminated[t]);
        chance.expect("truncated", t, &[cut_only], &[cut])?;
        if taxi {
            masks(case, chance, "next_mask", t)?;
            if t + 1 < steps && episode[t + 1] == episode[t] {
                let seen = chance.state("fickle_armed")?;
                chance.expect("fickle_armed", t + 1, &armed[t + 1..=t + 1], &[seen])?;
            }
        }
    }
    first_states(case, &rules, chance)
}

/// Which of the three other destinations was drawn in transition `t`.
fn other(case: &Case, t: usize, state: i32) -> Result<Option<u32>> {
    let chosen = case.shaped("new_destination", &[case.steps])?.data[t] as i32;
    let before = state % 4;
    Ok((chosen >= 0).then_some((chosen - i32::from(chosen > before)) as u32))
}

fn masks(case: &Case, chance: &mut Chance, name: &str, t: usize) -> Result<()> {
    let recorded = case.rows(name, case.steps)?;
    let width = recorded.row_len();
    let seen = chance.mask()?;
    chance.expect(name, t, &recorded.data[t * width..(t + 1) * width], &seen)
}

/// Begins an episode as each recorded one began.
fn first_states(case: &Case, rules: &Rules, chance: &mut Chance) -> Result<()> {
    let first = &case.array("start_state")?.data;
    let u = &case.rows("start_u", first.len())?.data;
    let n = rules.starts.len() as u32;
    for (episode, state) in first.iter().enumerate() {
        chance.follows("start_u", episode, &[*state], &[rules.start(u[episode])])?;
        let number = rules.starts.iter().position(|start| f64::from(*start) == *state);
        let number = number.unwrap_or(usize::MAX);
        ensure!(number < usize::MAX, "array \"start_state\" holds {state}, where none can begin");
        let fickle = match case.find("fickle_u") {
            Some(_) => case.rows("fickle_u", first.len())?.data[episode],
            None => -1.0,
        };
        // Not drawn: -1, and nobody is fickle.
        let armed = fickle >= 0.0 && (fickle as f32) < rules.fickle;
        chance.start(|mut draw| {
            draw.below(n) as usize == number
                && (fickle < 0.0 || (draw.uniform() < rules.fickle) == armed)
        })?;
        let (seen, shown) = (chance.state("state")?, chance.one_hot());
        chance.expect("start_state", episode, &[*state, *state], &[seen, shown])?;
        if case.find("fickle_u").is_some() {
            let seen = chance.state("fickle_armed")?;
            chance.expect("fickle_u", episode, &[f64::from(u8::from(armed))], &[seen])?;
        }
    }
    Ok(())
}
