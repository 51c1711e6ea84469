//! Health and economy under COVID-19: each rule by a case small enough to work out by hand.

mod dataset;
mod published;

use super::*;
use warp_core::single::GroupAction;
use warp_core::{Config, Draw, Purpose, Single, check_env};

type One = Single<Covid19>;

fn make(text: &str) -> One {
    let config = Covid19Config::from_table(&text.parse().unwrap()).unwrap();
    Single::new(Covid19::new(&config).unwrap(), 1).unwrap()
}

/// One day; `governors` may name a single action for all of them.
fn act(one: &mut One, governors: &[i32], planner: i32) -> (Vec<f32>, f32) {
    let governors = match governors {
        [all] => vec![*all; N_STATES],
        each => each.to_vec(),
    };
    let planner = vec![planner];
    one.step(&[GroupAction::Discrete(governors), GroupAction::Discrete(planner)]).unwrap();
    (one.reward(GOVERNOR).to_vec(), one.reward(PLANNER)[0])
}

fn close(a: f32, b: f32, relative: f32) {
    assert!((a - b).abs() <= relative * b.abs().max(1e-6), "{a} {b}");
}

#[test]
fn the_contract_holds() {
    for text in ["episode_length = 60", "episode_length = 700\nobserve_rate = true"] {
        check_env::<Covid19>(&Covid19Config::from_table(&text.parse().unwrap()).unwrap(), 3)
            .unwrap();
    }
}

#[test]
fn a_change_of_stringency_starts_the_cooldown_and_a_masked_one_takes_place() {
    let mut one = make("");
    let seen = |one: &mut One| {
        let mask = one.action_mask(GOVERNOR)[..11].to_vec();
        let mut state = (0, 0);
        one.edit(|s| state = (s.stringency_level[0], s.action_in_cooldown_until[0]));
        (state.0, state.1, mask[0], mask[1..].iter().all(|allowed| *allowed == 1))
    };
    assert_eq!(seen(&mut one), (5, 0, 1, true));
    let mut actions = vec![0; 40];
    (actions[1], actions[3], actions[29]) = (5, 7, 2);
    for (t, action) in (1..).zip(&actions) {
        act(&mut one, &[*action], 0);
        let expected = match t {
            1 => (5, 1, 1, true),
            2 | 3 => (5, 29, 1, false),
            4..=28 => (7, 29, 1, false),
            // Until 29 nothing was allowed; the change in step 30 counts again.
            29 => (7, 29, 1, true),
            _ => (2, 57, 1, false),
        };
        assert_eq!(seen(&mut one), expected, "step {t}");
    }
}

#[test]
fn the_planner_is_heard_on_its_days_only() {
    let mut one = make("subsidy_interval = 3\nnum_subsidy_levels = 4");
    let mut heard = Vec::new();
    let mut allowed = vec![one.action_mask(PLANNER).to_vec()];
    for action in [4, 1, 2, 3, 0, 0, 1] {
        act(&mut one, &[0], action);
        one.edit(|state| heard.push(*state.subsidy_level));
        allowed.push(one.action_mask(PLANNER).to_vec());
    }
    assert_eq!(heard, [4, 4, 4, 3, 3, 3, 1]);
    let turns: Vec<bool> = allowed.iter().map(|mask| mask[1..].iter().all(|a| *a == 1)).collect();
    assert_eq!(turns, [true, false, false, true, false, false, true, false]);
    assert!(allowed.iter().all(|mask| mask.len() == 5 && mask[0] == 1));
    // Its income: a quarter of 20,000 USD a year for everyone in Alabama.
    let mut paid = 0.0;
    one.edit(|state| paid = state.postsubsidy_productivity[0]);
    act(&mut one, &[0], 0);
    one.edit(|state| *state.subsidy_level = 0);
    act(&mut one, &[0], 0);
    let mut unpaid = 0.0;
    one.edit(|state| unpaid = state.postsubsidy_productivity[0]);
    let gift = 4_903_185.0 * 20_000.0 / 365.0 / 4.0;
    close(paid - unpaid, gift, 0.1);
}

/// Unemployment of one state by the definition: every change within the window, in f64.
fn by_definition(changes: &[f64], weights: [f64; N_FILTERS], bias: f64, population: f64) -> f64 {
    let figures = figures::Figures::built_in("2020-03-22").unwrap().fitted;
    let mut x = 0.0;
    for (weight, lambda) in weights.iter().zip(&figures.lambdas) {
        let ages = changes.iter().rev().take(600).zip(0..);
        x += weight
            * ages.map(|(change, age)| change * (-f64::from(age) / lambda).exp()).sum::<f64>();
    }
    (x.exp().ln_1p() + bias) * population / 100.0
}

#[test]
fn unemployment_equals_the_sum_over_the_window_also_when_changes_leave_it() {
    // 600 days are what unemployment remembers; in longer episodes their own changes are forgotten.
    for days in [600, 601, 900] {
        let worst = recursion_error(days);
        assert!(worst < 5e-6, "{days} {worst}");
    }
}

/// The largest relative difference between unemployment and its definition under random changes.
fn recursion_error(days: i32) -> f64 {
    let figures = figures::Figures::built_in("2020-03-22").unwrap();
    let mut one = make(&format!("episode_length = {days}"));
    let states = [0, 4, 30, 50];
    let history = |state: usize| {
        let mut before = 1;
        let days = figures.start.stringency.iter();
        days.map(|levels| f64::from(levels[state] - std::mem::replace(&mut before, levels[state])))
            .collect::<Vec<f64>>()
    };
    let mut changes: Vec<Vec<f64>> = states.iter().map(|state| history(*state)).collect();
    let mut draw = Draw::new(4, 0, 0, Purpose::RandomAction);
    let mut worst = 0.0f64;
    for t in 1..=days {
        let change = |_| if draw.below(20) == 0 { draw.below(11) as i32 } else { 0 };
        let actions: Vec<i32> = (0..N_STATES).map(change).collect();
        let mut before = vec![0; N_STATES];
        one.edit(|state| before.copy_from_slice(state.stringency_level));
        act(&mut one, &actions, 0);
        one.edit(|state| {
            for (n, i) in states.into_iter().enumerate() {
                changes[n].push(f64::from(state.stringency_level[i] - before[i]));
                let weights = [0, 1, 2, 3, 4].map(|k| figures.fitted.weights[k][i]);
                let (bias, people) = (figures.fitted.bias[i], figures.fitted.population[i]);
                let expected = by_definition(&changes[n], weights, bias, people);
                worst = worst.max((f64::from(state.unemployed[i]) / expected - 1.0).abs());
            }
            assert_eq!(*state.timestep, t);
        });
    }
    worst
}

#[test]
fn stringency_acts_on_infections_after_29_days_and_is_shown_a_day_before() {
    let mut one = make("episode_length = 60");
    let infected = |one: &mut One| {
        let mut infected = 0.0;
        one.edit(|state| infected = state.infected[4]);
        infected
    };
    let mut other = make("episode_length = 60");
    for t in 1..=31 {
        act(&mut one, &[1], 0);
        act(&mut other, &[10], 0);
        let differs = infected(&mut one) != infected(&mut other);
        assert_eq!(differs, t >= 30, "step {t}");
        // The last of a governor's numbers: what acts in the next step.
        let shown = [one.obs(GOVERNOR)[63], other.obs(GOVERNOR)[63]];
        assert_eq!(shown[0] != shown[1], t >= 29, "step {t}");
    }
    assert_eq!([one.obs(GOVERNOR)[63], other.obs(GOVERNOR)[63]], [0.1, 1.0]);
}

#[test]
fn people_are_neither_made_nor_lost() {
    let mut one = make("episode_length = 400");
    let total = |one: &mut One| {
        let mut total = Vec::new();
        one.edit(|s| {
            let sum = |i| f64::from(s.susceptible[i]) + f64::from(s.infected[i] + s.recovered[i]);
            total = (0..N_STATES).map(sum).collect();
        });
        total
    };
    let before = total(&mut one);
    for _ in 0..400 {
        act(&mut one, &[6], 0);
    }
    let after = total(&mut one);
    one.edit(|state| assert!(state.vaccinated.iter().all(|people| *people > 1000.0)));
    for (a, b) in before.iter().zip(after) {
        assert!((a - b).abs() < 2e-6 * a, "{a} {b}");
    }
}

#[test]
fn vaccine_comes_in_deliveries_and_is_counted_down() {
    let text =
        "vaccine_delivery_start_date = \"2020-03-26\"\ndelivery_interval = 3\nobserve_rate = true";
    let mut one = make(text);
    let shown = |one: &One| one.obs(GOVERNOR)[3..5].to_vec();
    // From step 4 on, in steps 6, 9, 12: 4,903,185 people, 3,000 doses a day per million.
    let third = 1.0f32 / 3.0;
    let rate = 0.003f32 / 3.0;
    let mut seen = vec![shown(&one)];
    let mut vaccinated = Vec::new();
    for _ in 0..9 {
        act(&mut one, &[0], 0);
        seen.push(shown(&one));
        one.edit(|state| vaccinated.push(state.vaccinated[0]));
    }
    let days = [1.0, 1.0, 1.0, 2.0 * third, third, 0.0, 2.0 / 3.0, third, 1.0, 2.0 / 3.0];
    let divided = |(t, days): (usize, &f32)| if t <= 5 { days / 3.0 } else { *days };
    for (t, (seen, days)) in seen.iter().zip(days.iter().enumerate().map(divided)).enumerate() {
        close(seen[1], days, 1e-6);
        assert_eq!(seen[0], if t < 5 { 0.0 } else { rate }, "step {t}");
    }
    let doses = 3.0f32 * 4_903_185.0 * 0.003;
    let expected = [0.0, 0.0, 0.0, 0.0, 0.0, doses.floor(), doses.floor(), doses.floor()];
    assert_eq!(vaccinated[..8], expected);
    assert_eq!(vaccinated[8], 2.0 * doses.floor());
}

#[test]
fn deliveries_are_rounded_from_left_to_right() {
    let delivered = |interval: u32, doses: u32| {
        let keys = [("delivery_interval", interval), ("daily_vaccines_per_million_people", doses)];
        let text: String = keys.map(|(key, value)| format!("{key} = {value}\n")).concat();
        make(&text).env().tables.vaccines_per_delivery.clone()
    };
    // floor(25 * 8,882,190 / 1e6 * 4000) and two more, which another order makes smaller by a dose.
    assert_eq!(delivered(25, 4000)[30], 888_219);
    assert_eq!(delivered(40, 4250)[35], 1_987_147);
    assert_eq!(delivered(40, 5000)[12], 357_413);
}

#[test]
fn money_is_worth_what_the_formula_says_for_every_eta() {
    let plain = |eta: f64, x: f64| {
        let y = (365.0 * x).clamp(0.1, 3.0);
        let power = 1.0 - eta;
        let utility = if eta == 1.0 { y.ln() } else { (power * y.ln()).exp_m1() / power };
        (1.0 + utility) / 365.0
    };
    let near_one = [1.01, 1.001, 1.0001, 1.000_000_1, 0.9999];
    let around_the_series = [0.93, 0.94, 1.06, 1.07];
    let others = [0.0, 0.5, 1.0, 2.0, 3.25, 19.5];
    for eta in others.into_iter().chain(near_one).chain(around_the_series) {
        let one = make(&format!("economic_reward_crra_eta = {eta}"));
        for x in [0.0, 1e-4, 5e-4, 1e-3, 2e-3, 2.5e-3, 2.74e-3, 3e-3, 8e-3, 1.0] {
            let seen = f64::from(day::value_of(one.env().params(), x as f32));
            let expected = plain(eta, f64::from(x as f32));
            assert!(
                (seen - expected).abs() <= 4e-6 * expected.abs().max(1e-3),
                "{eta} {x}: {seen}"
            );
        }
    }
}

#[test]
fn rewards_follow_health_and_economy_and_their_weights() {
    let mut one = make("reward_normalization_factor = 2.0\nhealth_priority_scaling_agents = 0.5");
    let mut before = Vec::new();
    one.edit(|state| before = state.deaths.to_vec());
    let (rewards, planner) = act(&mut one, &[3], 11);
    let figures = figures::Figures::built_in("2020-03-22").unwrap().fitted;
    let tables = one.env().tables.clone();
    let mut sums = [0.0; 3];
    one.edit(|state| {
        for i in 0..N_STATES {
            let norm = f64::from(tables.max_production[i]) * 365.0;
            let dead = f64::from(state.deaths[i] - before[i]);
            let income = f64::from(state.postsubsidy_productivity[i]);
            let money = (2.0 - 1.0 / (365.0 * income / norm)) / 365.0;
            let scaled = |v: f64, min: f64, max: f64| (v - min) / (max - min);
            let h = scaled(-dead * 1e7 / norm, figures.min_health[i], figures.max_health[i]);
            let e = scaled(money, figures.min_economic[i], figures.max_economic[i]);
            let odds = 0.5 * figures.alpha[i] / (1.0 - figures.alpha[i]);
            let alpha = odds / (1.0 + odds);
            close(rewards[i], ((alpha * h + (1.0 - alpha) * e) / 2.0) as f32, 2e-5);
            let gift = figures.population[i] * 20_000.0 / 365.0 * 11.0 / 20.0;
            sums = [sums[0] + dead, sums[1] + income - 1.03 * gift, sums[2] + norm];
        }
    });
    let [dead, income, norm] = sums;
    let [health, economic] = [figures.planner_health, figures.planner_economic].map(Option::unwrap);
    let h = (-dead * 1e7 / norm - health.min) / (health.max - health.min);
    let money = (2.0 - norm / (365.0 * income)) / 365.0;
    let e = (money - economic.min) / (economic.max - economic.min);
    let odds = 0.45 * 0.757 / 0.243;
    let alpha = odds / (1.0 + odds);
    close(planner, ((alpha * h + (1.0 - alpha) * e) / 2.0) as f32, 2e-5);
    close(one.statistics()[0], h as f32, 2e-5);
    close(one.statistics()[1], e as f32, 2e-5);
    close(one.statistics()[2], dead as f32, 1e-4);
}

#[test]
fn observations_show_the_state_where_the_spec_says() {
    let mut one = make("");
    for _ in 0..40 {
        act(&mut one, &[0], 7);
    }
    let spec = one.spec().clone();
    let entry = |group: usize, path: &str| {
        let flat = spec.groups[group].observation.flatten();
        let entry = flat.entries.iter().find(|entry| entry.path == path).unwrap();
        entry.offset..entry.offset + entry.width
    };
    assert_eq!(spec.groups.iter().map(GroupSpec::observation_width).collect::<Vec<_>>(), [64, 463]);
    let (governors, planner) = (one.obs(GOVERNOR).to_vec(), one.obs(PLANNER).to_vec());
    let max_production = one.env().tables.max_production.clone();
    let population = one.env().tables.population.clone();
    one.edit(|s| {
        let people =
            [&s.susceptible, &s.infected, &s.recovered, &s.deaths, &s.vaccinated, &s.unemployed];
        for i in 0..N_STATES {
            let own = &governors[i * 64..(i + 1) * 64];
            let index = &own[entry(GOVERNOR, "world-agent_index")];
            assert!(index.iter().enumerate().all(|(n, x)| *x == f32::from(u8::from(n == i))));
            let place = entry(GOVERNOR, "world-agent_state");
            for (kind, people) in people.iter().enumerate() {
                close(own[place.start + kind], people[i] / population[i], 1e-6);
                let place = entry(PLANNER, "world-agent_state").start + kind * N_STATES + i;
                assert_eq!(planner[place], own[57 + kind]);
            }
            let produced = s.postsubsidy_productivity[i] / max_production[i];
            close(
                own[entry(GOVERNOR, "world-agent_postsubsidy_productivity").start],
                produced,
                1e-6,
            );
            for (path, value) in [
                (
                    "ControlUSStateOpenCloseStatus-agent_policy_indicators",
                    s.stringency_level[i] as f32 / 10.0,
                ),
                ("FederalGovernmentSubsidy-current_subsidy_level", 0.35),
                ("FederalGovernmentSubsidy-t_until_next_subsidy", 50.0 / 90.0),
                ("VaccinationCampaign-t_until_next_vaccines", 1.0),
                ("time", 40.0 / 540.0),
                ("world-lagged_stringency_level", s.stringency_level[i] as f32 / 10.0),
            ] {
                assert_eq!(own[entry(GOVERNOR, path).start], value, "{path}");
                let all = entry(PLANNER, path);
                assert_eq!(planner[all.start + if all.len() > 1 { i } else { 0 }], value, "{path}");
            }
        }
    });
}

#[test]
fn bad_values_are_refused_in_a_sentence() {
    let refused = |text: &str| {
        let config = Covid19Config::from_table(&text.parse().unwrap());
        config.and_then(|c| Covid19::new(&c)).unwrap_err().to_string()
    };
    for text in [
        "n_agents = 50",
        "n_stringency_levels = 9",
        "episode_length = 0",
        "pop_between_age_18_65 = 1.5",
        "infection_too_sick_to_work_rate = -0.1",
        "risk_free_interest_rate = -1",
        "economic_reward_crra_eta = 20",
        "health_priority_scaling_agents = 0",
        "health_priority_scaling_planner = -1",
        "reward_normalization_factor = 0",
        "action_cooldown_period = 0",
        "subsidy_interval = 0",
        "num_subsidy_levels = 0",
        "max_annual_subsidy_per_person = -1",
        "delivery_interval = 0",
        "start_date = \"2020-02-30\"",
        "vaccine_delivery_start_date = \"soon\"",
    ] {
        let sentence = refused(text);
        let key = text.split(' ').next().unwrap();
        assert!(sentence.starts_with(key) && sentence.contains(": must "), "{sentence}");
    }
    assert!(refused("start_date = \"2020-06-01\"").contains("set data to the folder"));
    assert!(refused("use_real_world_policies = true").contains("needs data"));
    assert!(refused("use_real_world_data = true").starts_with("use_real_world_data = true"));
    let nan = Covid19Config { economic_reward_crra_eta: f64::NAN, ..Default::default() };
    assert!(Covid19::new(&nan).is_err());
}
