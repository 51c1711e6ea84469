//! Health and economy under COVID-19: 51 governors set how closed their states are, a planner pays.
//!
//! **Intended use**: research on learning with many agents, as a proof of concept. The model is far
//! simpler than a country, and its figures are fits to a short and noisy record. No policy that is
//! learned here is advice; decisions about people need experts in health and in economics.
//!
//! Model of Trott, Srinivasa, van der Wal, Haneuse and Zheng (2021, arXiv:2108.02904) with its
//! published figures ([`Covid19Config::data`], or the built-in ones for 2020-03-22, whose sources
//! stand in `figures.csv`). One step is one day. Nothing is drawn: replicas differ by actions alone.
//!
//! **Agents**: group `governor`, 51 in the order of the states' names (50 states and the District of
//! Columbia, 8); group `planner`, one.
//!
//! **Actions**: a governor's 0 keeps the level of stringency, 1 (open) to 10 (closed) sets it; the
//! planner's 0 to `num_subsidy_levels` is the level of subsidy. It is read in steps 1, 1 +
//! `subsidy_interval` and so on, and holds in between. A governor's mask forbids changes within
//! `action_cooldown_period` days of the last; the planner's, subsidies between its days. Masks are
//! advice: a change in spite of the mask takes place.
//!
//! **A step**, for each state (S susceptible, I infected, R recovered or dead or vaccinated, V
//! vaccinated, N people; n doses arrive, f = min(1, n / S), v = min(n, S)):
//! transmission b = intercept + slope x level 29 days ago; new infections x = b S I (1 - f) / N; S
//! loses x + v, I gains x - I / 14, R gains I / 14 + v; D = 0.02 (R - V) are dead. Unemployment is
//! bias + ln(1 + e^y) %, y the weighted sum over five filters of the last 600 daily changes of
//! stringency, exp(-age / lambda) each. It is kept by recursion: each filter fades, gains the new
//! change and loses the one that turns 600 days old. Workers are `pop_between_age_18_65` N less those
//! of them who are dead or too sick, less the unemployed; each produces the same, and the subsidy is added.
//!
//! **Rewards**: of a state, alpha h + (1 - alpha) e, with h = -(new deaths) 1e7 USD / (annual
//! production when nobody is ill), e = (1 + (y^(1 - eta) - 1) / (1 - eta)) / 365, y = 365 (production
//! with subsidy) / (annual production), held within 0.1 and 3; h and e are scaled so that 0 and 1 are
//! their means under "all closed" or "all open", and alpha' = m z / (1 + m z), z = alpha / (1 - alpha),
//! where m is `health_priority_scaling_*`. The planner's are the same of the sums over states, less
//! (1 + `risk_free_interest_rate`) times the subsidies. The sum of the planner's rewards is called
//! social welfare.
//!
//! **Observation** of a governor (64 numbers):
//!
//! | index | element |
//! |---|---|
//! | 0 | own stringency / 10 |
//! | 1 | subsidy level / `num_subsidy_levels` |
//! | 2 | days until the planner may act / `subsidy_interval`; 1 on its day |
//! | 3 | days until the next delivery of vaccine, at most 1 before the first, / `delivery_interval` |
//! | 4 | time / `episode_length` |
//! | 5 .. 56 | its number, one-hot |
//! | 56 | production with subsidy / production when nobody is ill |
//! | 57 .. 63 | S, I, R, D, V, unemployed / N |
//! | 63 | the level that acts on transmission next / 10 |
//!
//! The planner sees (463 numbers) all stringencies, elements 1 to 4, all productions, six rows S to
//! unemployed, and all levels that act next. With `observe_rate` a number before element 3 says which
//! part of the people the next day's vaccine is for.
//!
//! **Statistics**: `health_index` and `economic_index`, sums of the planner's h and e; `deaths` since
//! the start.
//!
//! **Deviations**: all numbers are f32, where the original has f64 between steps on the CPU and none
//! on the GPU; sums over states have an order of their own; the sum of the paid subsidies is taken
//! before scaling; eta = 1 is the logarithm, not a division by zero; a second episode of replayed
//! subsidies equals the first; the countdown to vaccine is the one of the original's CPU program.
//! Keys of the original about flattening have no meaning here. With real data the last day of an
//! episode may lie beyond the data (NaN), as in the published replay of 405 days; no earlier one.

mod by_part;
mod config;
mod dataset;
mod dates;
mod day;
mod figures;
mod model;
mod observe;
mod step;
#[cfg(test)]
mod tests;

pub use config::Covid19Config;

use model::Tables;
use warp_core::{
    Actions, Draw, Env, EnvSpec, Fault, GroupSpec, Kernel, Layout, LimitEnds, Observation, Result,
    Space, StepOut, Table, TimeLimit, View,
};

/// States and the District of Columbia.
pub const N_STATES: usize = 51;
/// Filters over the changes of stringency.
const N_FILTERS: usize = 5;
/// Levels of stringency.
const N_LEVELS: usize = 10;
/// Number of the group of governors.
const GOVERNOR: usize = 0;
/// Number of the group of the planner.
const PLANNER: usize = 1;
/// Levels of stringency in one word of the state, four bits each.
const LEVELS_PER_WORD: usize = 8;

warp_core::params! {
    /// What all replicas share.
    pub struct Covid19Params {
        /// Days in an episode.
        episode_length: i32,
        /// Days until stringency acts on transmission.
        stringency_lag: i32,
        /// Days that unemployment remembers.
        filter_length: i32,
        /// Days between two changes of stringency, by the mask.
        action_cooldown_period: i32,
        /// Days between two decisions of the planner.
        subsidy_interval: i32,
        /// Highest level of subsidy.
        num_subsidy_levels: i32,
        /// Days between two deliveries of vaccine.
        delivery_interval: i32,
        /// The step from which on vaccine is delivered.
        first_vaccine_step: i32,
        /// The first step of a delivery.
        first_delivery: i32,
        /// 1: actors see `next_vaccination_rate`.
        observe_rate: i32,
        /// 1: stringency and subsidies are those of the data.
        use_real_world_policies: i32,
        /// 1: epidemic and unemployment are those of the data.
        use_real_world_data: i32,
        /// Doses per person and day, once vaccine is delivered, over `delivery_interval`.
        vaccination_rate: f32,
        /// Days that an infection lasts.
        infectious_days: f32,
        /// Recovered for each that dies, that one included.
        recovered_per_death: f32,
        /// Part of the people at the age of work.
        working_age: f32,
        /// Part of the infected that is too sick to work.
        too_sick: f32,
        /// Production of a worker, USD per day.
        worker_production: f32,
        /// 1 - eta.
        crra_power: f32,
        /// USD.
        value_of_life: f32,
        /// What rewards are divided by.
        reward_normalization_factor: f32,
        /// Subsidy of all states at the highest level and what it costs beyond, USD per day.
        max_subsidy_cost: f32,
        /// Production of all states when nobody is ill, USD per year.
        annual_production: f32,
        /// What counts as 0 in the planner's index of health.
        planner_min_health: f32,
        /// Distance in the planner's index of health from what counts as 0 to what counts as 1.
        planner_health_span: f32,
        /// What counts as 0 in the planner's index of the economy.
        planner_min_economic: f32,
        /// Distance in the planner's index of the economy from what counts as 0 to what counts as 1.
        planner_economic_span: f32,
        /// The planner's part of health.
        planner_health_weight: f32,
    }
}

warp_core::state! {
    /// A country on one day.
    pub struct Covid19State {
        /// People who can be infected.
        susceptible: [f32; n_states],
        /// People who are infected.
        infected: [f32; n_states],
        /// People who are recovered, dead or vaccinated.
        recovered: [f32; n_states],
        /// People who have died.
        deaths: [f32; n_states],
        /// People who are vaccinated.
        vaccinated: [f32; n_states],
        /// People without work.
        unemployed: [f32; n_states],
        /// Production and subsidy, USD per day; 0 at the start.
        postsubsidy_productivity: [f32; n_states],
        /// Filtered changes of stringency.
        filtered: [f32; n_filters, n_states],
        /// Level of stringency, 1 to 10.
        stringency_level: [i32; n_states],
        /// The step from which on stringency may be changed again.
        action_in_cooldown_until: [i32; n_states],
        /// Levels of stringency after the start, eight days to a word, the oldest overwritten.
        past_levels: [u32; n_words, n_states],
        /// Level of subsidy.
        subsidy_level: i32,
        /// Days since the start.
        timestep: i32,
    }
}

/// The environment.
#[derive(Debug, Clone)]
pub struct Covid19 {
    params: Covid19Params,
    tables: Tables,
}

/// The spaces of what an actor sees: `own` for what a governor sees of its state alone, `own` times
/// the number of states for the planner.
fn observation(params: &Covid19Params, own: usize, n_actions: usize) -> Space {
    let mut parts = vec![
        ("ControlUSStateOpenCloseStatus-agent_policy_indicators", own),
        ("FederalGovernmentSubsidy-current_subsidy_level", 1),
        ("FederalGovernmentSubsidy-t_until_next_subsidy", 1),
        ("VaccinationCampaign-t_until_next_vaccines", 1),
        ("time", 1),
        ("world-agent_postsubsidy_productivity", own),
        ("world-agent_state", 6 * own),
        ("world-lagged_stringency_level", own),
    ];
    if params.observe_rate == 1 {
        parts.push(("VaccinationCampaign-next_vaccination_rate", 1));
    }
    if own == 1 {
        parts.push(("world-agent_index", N_STATES));
    }
    let space = |(key, n): (&str, usize)| (key.to_string(), Space::unbounded(n));
    let mut parts: Vec<_> = parts.into_iter().map(space).collect();
    let mask = Space::boxed(0.0, 1.0, &[n_actions]);
    parts.push((warp_core::space::ACTION_MASK.into(), mask));
    Space::Dict(parts)
}

/// Days that are counted at most, and more than any episode has.
const MOST_DAYS: i32 = 1_000_000;

impl Env for Covid19 {
    const NAME: &'static str = "covid19";
    const NOTICE: Option<&'static str> = Some(
        "covid19 is a toy model for research on learning, not for decisions about real policy: \
         those need experts in health and in economics",
    );
    type Config = Covid19Config;
    type Params = Covid19Params;
    type State = Covid19State<'static>;

    fn new(config: &Covid19Config) -> Result<Self> {
        config.check()?;
        let figures = match &config.data {
            None => figures::Figures::built_in(&config.start_date)?,
            Some(data) => dataset::load(data, &config.start_date)?,
        };
        let (params, tables) = model::build(config, &figures)?;
        Ok(Self { params, tables })
    }

    fn spec(&self) -> EnvSpec {
        let group = |name: &str, n_agents, own, n_actions| GroupSpec {
            name: name.into(),
            n_agents,
            observation: observation(&self.params, own, n_actions),
            action: Space::Discrete { n: n_actions },
            mortal: false,
        };
        let levels = self.params.num_subsidy_levels as usize;
        EnvSpec {
            name: Self::NAME.into(),
            groups: vec![
                group("governor", N_STATES, 1, N_LEVELS + 1),
                group("planner", 1, N_STATES, levels + 1),
            ],
            time_limit: TimeLimit {
                steps: self.params.episode_length as u32,
                ends: LimitEnds::Terminated,
            },
            statistics: ["health_index", "economic_index", "deaths"].map(String::from).to_vec(),
            global_observation: None,
        }
    }

    fn params(&self) -> &Covid19Params {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        self.tables.named()
    }

    fn dims(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("n_states", N_STATES),
            ("n_filters", N_FILTERS),
            ("n_words", model::words(&self.params)),
        ]
    }

    fn kernel() -> Option<Kernel> {
        let text = include_str!("step.cu");
        Some(Kernel { file: "covid19/step.cu", text, layout: Layout::TeamPerReplica })
    }

    #[inline(always)]
    /// Tables and levels of earlier days are looked up by the day.
    fn fault(&self, state: &Covid19State<'_>) -> Option<Fault> {
        let (day, most) = (*state.timestep, MOST_DAYS);
        (!(0..=most).contains(&day)).then(|| Fault {
            field: "timestep",
            value: day.to_string(),
            reason: format!("days are counted from 0 to {most}"),
        })
    }

    fn reset(&self, state: &mut View<'_, Self>, _draw: &mut Draw) {
        step::reset(self, state);
    }

    #[inline(always)]
    fn observe(&self, state: &View<'_, Self>, out: &mut Observation<'_>) {
        observe::observe(self, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut View<'_, Self>,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(self, state, actions, out);
    }
}
