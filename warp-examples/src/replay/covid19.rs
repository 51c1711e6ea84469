//! Health and economy under COVID-19. Observations, which were recorded in parts, are put together
//! as the actors see them; what the state remembers of past stringency is made from its record.

use super::adapter::{Adapter, Draft};
use super::case::Case;
use super::plan::{Check, Constant, Origin, Plan, Rule, Tolerance, Track, Treatment};
use anyhow::{Result, anyhow, ensure};
use serde_json::Value;
use toml::Table;
use warp_core::{Config, Env, TableData};
use warp_data::ArrayId;
use warp_envs::covid19::{Covid19, Covid19Config, N_STATES};
use warp_envs::numpy::{Numeric, Recorded};
use warp_func::VecEnv;

/// The adapter.
pub(super) const ADAPTER: Adapter = Adapter { config, plan };

/// What the recordings call the keys, and what they are called here.
const KEYS: [(&str, &str); 15] = [
    ("age_frac", "pop_between_age_18_65"),
    ("cooldown", "action_cooldown_period"),
    ("eta", "economic_reward_crra_eta"),
    ("health_scale_agents", "health_priority_scaling_agents"),
    ("health_scale_planner", "health_priority_scaling_planner"),
    ("max_annual_subsidy", "max_annual_subsidy_per_person"),
    ("rate", "risk_free_interest_rate"),
    ("real_data", "use_real_world_data"),
    ("real_policy", "use_real_world_policies"),
    ("sick_rate", "infection_too_sick_to_work_rate"),
    ("start", "start_date"),
    ("subsidy_levels", "num_subsidy_levels"),
    ("vax_interval", "delivery_interval"),
    ("vax_per_million", "daily_vaccines_per_million_people"),
    ("vax_start", "vaccine_delivery_start_date"),
];
/// A file of the published data set.
const DATA_FILE: &str = "fitted_params.json";
/// The start that needs no data set.
const BUILT_IN_START: &str = "2020-03-22";
/// Days that unemployment remembers, and the time constants of its filters.
const WINDOW: usize = 600;
const LAMBDAS: [f64; 5] =
    [27.724_277_496_337_89, 62.919_250_488_281_25, 129.231_857_299_804_7, 264.431_824, 542.060_059];
/// Eight levels to a word, four bits each.
const LEVELS_PER_WORD: usize = 8;

/// People, per inhabitant.
const PEOPLE: Tolerance = Tolerance::within(2e-6);
/// The dead, per inhabitant.
const DEATHS: Tolerance = Tolerance::within(1e-7);
/// The unemployed and production.
const RELATIVE: Tolerance = Tolerance::scaled(1e-5);
const BETA: Tolerance = Tolerance::within(1e-6);
const OBSERVATION: Tolerance = Tolerance::within(1e-5);
const REWARD: Tolerance = Tolerance::within(2e-4);

/// The recorded configuration under our names.
fn config(case: &Case) -> Result<Table> {
    let mut config = Table::new();
    config.insert("health_priority_scaling_agents".into(), 1.0.into());
    config.insert("health_priority_scaling_planner".into(), 1.0.into());
    for (key, value) in &case.config {
        let ours = KEYS.iter().find(|(theirs, _)| theirs == key).map_or(key.as_str(), |(_, o)| o);
        config.insert(ours.into(), value.clone());
    }
    let replays = |key: &str| config.get(key).and_then(toml::Value::as_bool).unwrap_or(false);
    let start = config.get("start_date").and_then(toml::Value::as_str);
    let built_in = start.is_none_or(|start| start == BUILT_IN_START)
        && !replays("use_real_world_data")
        && !replays("use_real_world_policies");
    if !built_in {
        let file = case.data_file("covid19", DATA_FILE)?;
        let folder = file.parent().and_then(std::path::Path::to_str);
        let folder = folder.ok_or_else(|| anyhow!("{} is not UTF-8", file.display()))?;
        config.insert("data".into(), folder.into());
    }
    Ok(config)
}

fn plan(case: &Case, config: &Table, env: &dyn VecEnv) -> Result<Plan> {
    let ours = Covid19::new(&Covid19Config::from_table(config)?)?;
    let mut draft = Draft::new(case, env, case.steps, true)?;
    let levels = Levels::read(case)?;
    let population = table(&ours, "population")?;
    for (name, id) in draft.fields() {
        let row_len = draft.store.array(id).row_len();
        match name.as_str() {
            "timestep" => draft.load_timestep(id),
            "filtered" => draft.plan.loads.push(track(id, levels.filtered(), row_len)),
            "past_levels" => draft.plan.loads.push(track(id, levels.words(row_len), row_len)),
            _ => {
                let (bound, rule) = state_rule(&name, &population);
                draft.field(&name, id, false, bound, bound, rule)?;
            }
        }
    }
    for (group, name) in ["actions_a", "actions_p"].into_iter().enumerate() {
        let recorded = case.rows(name, case.steps)?;
        let track = whole(name, recorded, &draft, env.ids().action[group])?;
        draft.plan.actions.push(track);
        draft.used(name);
    }
    observations(&mut draft, env)?;
    for (group, name) in ["rewards_a", "rewards_p"].into_iter().enumerate() {
        let recorded = case.rows(name, case.steps)?;
        let track = whole(name, recorded, &draft, env.ids().reward[group])?;
        draft.plan.checks.push(Check::new(name, track, REWARD, Some(REWARD)));
    }
    draft.plan.constants = constants(&draft, &ours, &levels)?;
    draft.used("initial_delta_stringency");
    draft.plan.free_transitions = case.steps;
    Ok(draft.plan)
}

/// How close a state field must stay, and in which units.
fn state_rule(name: &str, population: &[f64]) -> (Tolerance, Rule) {
    let bound = match name {
        "susceptible" | "infected" | "recovered" | "vaccinated" => PEOPLE,
        "deaths" => DEATHS,
        "unemployed" | "postsubsidy_productivity" => RELATIVE,
        _ => Tolerance::EXACT,
    };
    if bound != PEOPLE && bound != DEATHS {
        return (bound, Box::new(|_| Treatment::Plain));
    }
    let population = population.to_vec();
    (bound, Box::new(move |at| Treatment::PerUnit(population[at.element])))
}

/// All elements of a recorded array, in their order.
fn whole(name: &str, recorded: &Recorded, draft: &Draft<'_>, id: ArrayId) -> Result<Track> {
    let row_len = draft.store.array(id).row_len();
    super::adapter::expect_row_len(name, recorded, row_len)?;
    let place = |flat| Origin { flat, agent: flat, element: 0 };
    Track::gather(name, recorded, draft.store, id, (0..row_len).map(place).collect())
}

/// Numbers that were not recorded as such.
fn track(array: ArrayId, data: Vec<f64>, row_len: usize) -> Track {
    let origin = (0..row_len).map(|flat| Origin { flat, agent: 0, element: flat }).collect();
    Track { array, row_len, data, origin }
}

/// The stringency of all days.
struct Levels {
    /// Changes before the start, `[WINDOW][N_STATES]`, the oldest first.
    before: Vec<f64>,
    /// Levels from the start on, `[T + 1][N_STATES]`.
    since: Vec<f64>,
}

impl Levels {
    fn read(case: &Case) -> Result<Levels> {
        let before = case.shaped("initial_delta_stringency", &[WINDOW, N_STATES])?;
        let since = case.shaped("stringency_level", &[case.steps + 1, N_STATES])?;
        Ok(Levels { before: before.data.clone(), since: since.data.clone() })
    }

    fn days(&self) -> usize {
        self.since.len() / N_STATES
    }

    /// The change into day `day`, counted from the oldest of those before the start.
    fn change(&self, day: usize, state: usize) -> f64 {
        match day.checked_sub(WINDOW) {
            None => self.before[day * N_STATES + state],
            Some(t) => self.since[(t + 1) * N_STATES + state] - self.since[t * N_STATES + state],
        }
    }

    /// The level `back` days before day `t` of the episode.
    fn level(&self, t: usize, back: usize, state: usize) -> f64 {
        let today = t.saturating_sub(back);
        let earlier = back.saturating_sub(t).min(WINDOW);
        let changes = (WINDOW - earlier..WINDOW).map(|day| self.change(day, state));
        self.since[today * N_STATES + state] - changes.sum::<f64>()
    }

    /// Per day, what each filter makes of the changes so far.
    fn filtered(&self) -> Vec<f64> {
        let mut rows = Vec::new();
        for t in 0..self.days() {
            for (filter, lambda) in LAMBDAS.iter().enumerate() {
                let fade = (-1.0 / lambda).exp();
                for state in 0..N_STATES {
                    let at = (filter * N_STATES) + state;
                    let all = || (0..WINDOW).map(|day| self.change(day, state));
                    rows.push(match t.checked_sub(1) {
                        None => all().fold(0.0, |sum, change| sum * fade + change),
                        Some(before) => {
                            let last: f64 = rows[before * LAMBDAS.len() * N_STATES + at];
                            let leaves = fade.powi(WINDOW as i32) * self.change(before, state);
                            last * fade + self.change(WINDOW + before, state) - leaves
                        }
                    });
                }
            }
        }
        rows
    }

    /// Per day, the levels since the start in words of eight days, the oldest overwritten.
    fn words(&self, row_len: usize) -> Vec<f64> {
        let mut words = vec![0u32; row_len];
        let mut rows = Vec::new();
        for (t, levels) in self.since.chunks(N_STATES).enumerate() {
            let word = t / LEVELS_PER_WORD % (row_len / N_STATES) * N_STATES;
            let shift = 4 * (t % LEVELS_PER_WORD);
            for (word, level) in words[word..].iter_mut().zip(levels) {
                *word = (*word & ((1 << shift) - 1)) | ((*level as u32) << shift);
            }
            rows.extend(words.iter().map(|word| f64::from(*word)));
        }
        rows
    }
}

/// Puts together what governors and the planner see, in the order of the keys.
fn observations(draft: &mut Draft<'_>, env: &dyn VecEnv) -> Result<()> {
    let rows = draft.case.steps + 1;
    let part = |name: &str, shape: &[usize]| {
        let shape: Vec<usize> = std::iter::once(rows).chain(shape.iter().copied()).collect();
        Ok::<_, anyhow::Error>(&draft.case.shaped(&format!("obs_{name}"), &shape)?.data)
    };
    let shared = [
        part("current_subsidy_level", &[])?,
        part("t_until_next_subsidy", &[])?,
        part("t_until_next_vaccines", &[])?,
        part("time", &[])?,
    ];
    let own = part("policy_indicators", &[N_STATES])?;
    let produced = part("postsubsidy_productivity", &[N_STATES])?;
    let people = part("agent_state", &[6, N_STATES])?;
    let lagged = part("lagged_stringency_level", &[N_STATES])?;
    let (mut governors, mut planner) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let of = |data: &[f64], i: usize| data[row * N_STATES + i];
        let all = |data: &[f64]| data[row * N_STATES..(row + 1) * N_STATES].to_vec();
        let everyone = shared.map(|data| data[row]);
        for i in 0..N_STATES {
            governors.push(of(own, i));
            governors.extend(everyone);
            governors.extend((0..N_STATES).map(|other| f64::from(u8::from(other == i))));
            governors.push(of(produced, i));
            governors.extend((0..6).map(|kind| people[(row * 6 + kind) * N_STATES + i]));
            governors.push(of(lagged, i));
        }
        let people = people[row * 6 * N_STATES..(row + 1) * 6 * N_STATES].to_vec();
        let seen = [all(own), everyone.to_vec(), all(produced), people, all(lagged)];
        planner.extend(seen.concat());
    }
    let masks = [governor_masks(draft)?, draft.case.rows("obs_action_mask_p", rows)?.data.clone()];
    let names = ["observations.governor", "observations.planner"];
    for (group, (name, data)) in names.into_iter().zip([governors, planner]).enumerate() {
        observed(draft, name, env.ids().obs[group], data, OBSERVATION)?;
    }
    for (group, (name, data)) in ["mask_a", "mask_p"].into_iter().zip(masks).enumerate() {
        let id = env.ids().action_mask[group];
        let id = id.ok_or_else(|| anyhow!("group {group} has no action mask"))?;
        observed(draft, &format!("obs_action_{name}"), id, data, Tolerance::EXACT)?;
    }
    let parts: Vec<String> = draft.case.array_names().map(String::from).collect();
    parts.iter().filter(|name| name.starts_with("obs_")).for_each(|name| draft.used(name));
    Ok(())
}

/// The masks with the governors before the actions.
fn governor_masks(draft: &Draft<'_>) -> Result<Vec<f64>> {
    let rows = draft.case.steps + 1;
    let recorded = draft.case.rows("obs_action_mask_a", rows)?;
    let n_actions = recorded.row_len() / N_STATES;
    ensure!(
        recorded.shape == [rows, n_actions, N_STATES],
        "array \"obs_action_mask_a\" has shape {:?}, but its last dimension must be {N_STATES}",
        recorded.shape
    );
    let turned = |row: &[f64]| {
        let cells = (0..N_STATES).flat_map(|i| (0..n_actions).map(move |a| a * N_STATES + i));
        cells.map(|at| row[at]).collect::<Vec<_>>()
    };
    Ok(recorded.data.chunks(recorded.row_len()).flat_map(turned).collect())
}

/// Compares an array that shows the state, before and after every step.
fn observed(
    draft: &mut Draft<'_>,
    name: &str,
    id: ArrayId,
    data: Vec<f64>,
    bound: Tolerance,
) -> Result<()> {
    let rows = draft.case.steps + 1;
    let recorded = Recorded { dtype: Numeric::I64, shape: vec![rows, data.len() / rows], data };
    let track = whole(name, &recorded, draft, id)?;
    let check = Check::new(name, track, bound, Some(bound));
    draft.plan.checks.push(Check { after: 1, observed: true, ..check });
    Ok(())
}

/// A table of the environment.
fn table(env: &Covid19, name: &str) -> Result<Vec<f64>> {
    let tables = env.tables();
    let found = tables.iter().find(|table| table.name == name);
    match found.map(|table| table.data) {
        Some(TableData::F32(data)) => Ok(data.iter().map(|v| f64::from(*v)).collect()),
        Some(TableData::I32(data)) => Ok(data.iter().map(|v| f64::from(*v)).collect()),
        None => Err(anyhow!("the environment has no table \"{name}\"")),
    }
}

/// What follows from configuration and figures: the start, what is shared, and rates.
fn constants(draft: &Draft<'_>, env: &Covid19, levels: &Levels) -> Result<Vec<Constant>> {
    let (case, params) = (draft.case, env.params());
    let close = Tolerance::scaled(1e-6);
    let mut expected = vec![
        ("maximum_productivity", table(env, "max_production")?, close),
        ("weight_health_a", table(env, "health_weight")?, close),
        ("max_daily_subsidy_per_state", table(env, "max_daily_subsidy")?, close),
        ("vaccines_per_delivery", table(env, "vaccines_per_delivery")?, Tolerance::EXACT),
    ];
    let lag = params.stringency_lag as usize;
    let (slope, intercept) = (table(env, "slope")?, table(env, "intercept")?);
    let [doses, subsidy] = ["vaccines_per_delivery", "max_daily_subsidy"].map(|n| table(env, n));
    let (doses, subsidy) = (doses?, subsidy?);
    let paid = case.rows("subsidy_level", case.steps + 1)?.data.iter().flat_map(|level| {
        let part = level / f64::from(params.num_subsidy_levels);
        subsidy.iter().map(move |most| part * most)
    });
    expected.push(("subsidy", paid.collect(), close));
    let cells = || (1..=case.steps).flat_map(|t| (0..N_STATES).map(move |i| (t, i)));
    let beta = |(t, i): (usize, usize)| intercept[i] + slope[i] * levels.level(t, lag, i);
    // With real data, nobody is infected by rates.
    if params.use_real_world_data == 0 {
        expected.push(("beta", cells().map(beta).collect(), BETA));
    }
    let delivered = |(t, i): (usize, usize)| {
        let t = t as i32;
        let arrives = t >= params.first_vaccine_step && t % params.delivery_interval == 0;
        if arrives { doses[i] } else { 0.0 }
    };
    expected.push(("vaccines_available", cells().map(delivered).collect(), Tolerance::EXACT));
    let constant = |(name, expected, tolerance): (&str, Vec<f64>, Tolerance)| {
        let recorded = case.array(name)?;
        super::adapter::expect_row_len(name, recorded, expected.len() / recorded.rows().max(1))?;
        Ok(Constant { name: name.into(), recorded: recorded.data.clone(), expected, tolerance })
    };
    let known = expected.into_iter().filter(|(name, ..)| case.find(name).is_some());
    let mut constants: Vec<Constant> = known.map(constant).collect::<Result<_>>()?;
    constants.extend(derived(case, env));
    constants.extend(start(draft)?);
    Ok(constants)
}

/// Numbers that stand in the description.
fn derived(case: &Case, env: &Covid19) -> Vec<Constant> {
    let params = env.params();
    let numbers = [
        ("daily_production_per_worker", f64::from(params.worker_production)),
        ("planner_norm", f64::from(params.annual_production)),
        ("weight_health_p", f64::from(params.planner_health_weight)),
        ("vaccine_start_step", f64::from(params.first_vaccine_step)),
    ];
    let derived = case.described.get("derived");
    let known = |(name, expected): (&str, f64)| {
        let recorded = derived?.get(name).and_then(Value::as_f64)?;
        let (recorded, expected) = (vec![recorded], vec![expected]);
        let tolerance = Tolerance::scaled(1e-6);
        Some(Constant { name: name.into(), recorded, expected, tolerance })
    };
    numbers.into_iter().filter_map(known).collect()
}

/// The recorded start and our own.
fn start(draft: &Draft<'_>) -> Result<Vec<Constant>> {
    let reals = ["susceptible", "infected", "recovered", "deaths", "vaccinated", "unemployed"];
    let mut constants = Vec::new();
    for (name, id) in draft.fields().into_iter().filter(|(name, _)| reals.contains(&&**name)) {
        let recorded = draft.case.array(&name)?.data[..N_STATES].to_vec();
        let expected = draft.store.slice::<f32>(id)[..N_STATES].iter().map(|v| f64::from(*v));
        let (expected, tolerance) = (expected.collect(), Tolerance::scaled(1e-6));
        constants.push(Constant {
            name: format!("{name} at reset"),
            recorded,
            expected,
            tolerance,
        });
    }
    Ok(constants)
}
