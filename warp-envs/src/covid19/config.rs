//! Health and economy under COVID-19: its keys and what they may be.

use super::dates::day;
use super::{N_LEVELS, N_STATES};
use warp_core::{Error, Result, in_range};

/// Levels, days and doses at most; more would be a slip.
const MAX_COUNT: u32 = 1_000_000;

warp_core::config! {
    /// The configuration of [`Covid19`](super::Covid19).
    pub struct Covid19Config {
        /// Folder with model_constants.json, fitted_params.json and real_world_data.npz; unset: the
        /// built-in figures, which know one start date.
        pub data: Option<String> = None,
        /// Number of governors: 51.
        pub n_agents: u32 = 51,
        /// Days in an episode.
        pub episode_length: u32 = 540,
        /// The day of step 0; any other than 2020-03-22 needs data.
        pub start_date: String = "2020-03-22".into(),
        /// Part of the population that is between 18 and 65 years old, 0 to 1.
        pub pop_between_age_18_65: f64 = 0.6,
        /// Part of the infected that is too sick to work, 0 to 1.
        pub infection_too_sick_to_work_rate: f64 = 0.1,
        /// What subsidies cost the planner beyond their amount, 0 or more.
        pub risk_free_interest_rate: f64 = 0.03,
        /// Risk aversion eta in the value of money, from 0 to below 20; at 1 the value is logarithmic.
        pub economic_reward_crra_eta: f64 = 2.0,
        /// Factor of the odds of health against economy in the governors' rewards, above 0.
        pub health_priority_scaling_agents: f64 = 0.3,
        /// Factor of the odds of health against economy in the planner's reward, above 0.
        pub health_priority_scaling_planner: f64 = 0.45,
        /// What all rewards are divided by, above 0.
        pub reward_normalization_factor: f64 = 1.0,
        /// Whether epidemic and unemployment are those of the data, whatever the actors do.
        pub use_real_world_data: bool = false,
        /// Whether stringency and subsidies are those of the data; always so with real data.
        pub use_real_world_policies: bool = false,
        /// Levels of stringency: 10.
        pub n_stringency_levels: u32 = 10,
        /// Days that a governor should wait between two changes, at least 1.
        pub action_cooldown_period: u32 = 28,
        /// Days between two decisions of the planner, at least 1.
        pub subsidy_interval: u32 = 90,
        /// Levels of subsidy beside none, at least 1.
        pub num_subsidy_levels: u32 = 20,
        /// Subsidy per person and year at the highest level, USD.
        pub max_annual_subsidy_per_person: f64 = 20_000.0,
        /// Doses that arrive per day and million people.
        pub daily_vaccines_per_million_people: u32 = 3000,
        /// Days between two deliveries of vaccine, at least 1.
        pub delivery_interval: u32 = 1,
        /// From when on vaccine is delivered.
        pub vaccine_delivery_start_date: String = "2021-01-12".into(),
        /// Whether actors see the coming rate of vaccination.
        pub observe_rate: bool = false,
    }
}

/// Refuses any other number than the one that the fitted figures are for.
fn fixed(key: &str, value: u32, only: usize) -> Result<()> {
    if value as usize == only {
        return Ok(());
    }
    Err(Error::invalid(
        key,
        value,
        format!("must be {only}, as the fitted figures are for that many"),
    ))
}

impl Covid19Config {
    /// Refuses what is out of range.
    pub(super) fn check(&self) -> Result<()> {
        fixed("n_agents", self.n_agents, N_STATES)?;
        fixed("n_stringency_levels", self.n_stringency_levels, N_LEVELS)?;
        in_range("episode_length", self.episode_length, 1, MAX_COUNT)?;
        in_range("pop_between_age_18_65", self.pop_between_age_18_65, 0.0, 1.0)?;
        let too_sick = self.infection_too_sick_to_work_rate;
        in_range("infection_too_sick_to_work_rate", too_sick, 0.0, 1.0)?;
        in_range("risk_free_interest_rate", self.risk_free_interest_rate, 0.0, 100.0)?;
        let eta = self.economic_reward_crra_eta;
        if !(0.0..20.0).contains(&eta) {
            let reason = "must lie between 0 and 20, which is excluded";
            return Err(Error::invalid("economic_reward_crra_eta", eta, reason));
        }
        for (key, value) in [
            ("health_priority_scaling_agents", self.health_priority_scaling_agents),
            ("health_priority_scaling_planner", self.health_priority_scaling_planner),
            ("reward_normalization_factor", self.reward_normalization_factor),
        ] {
            in_range(key, value, 1e-6, 1e6)?;
        }
        for (key, value) in [
            ("action_cooldown_period", self.action_cooldown_period),
            ("subsidy_interval", self.subsidy_interval),
            ("num_subsidy_levels", self.num_subsidy_levels),
            ("delivery_interval", self.delivery_interval),
        ] {
            in_range(key, value, 1, MAX_COUNT)?;
        }
        let subsidy = self.max_annual_subsidy_per_person;
        in_range("max_annual_subsidy_per_person", subsidy, 0.0, 1e6)?;
        let doses = self.daily_vaccines_per_million_people;
        in_range("daily_vaccines_per_million_people", doses, 0, MAX_COUNT)?;
        self.first_vaccine_step().map(|_| ())
    }

    /// The first day, as [`day`] counts.
    pub(super) fn start(&self) -> Result<i32> {
        day("start_date", &self.start_date)
    }

    /// The step from which on vaccine is delivered; 0 or less: from the start on.
    pub(super) fn first_vaccine_step(&self) -> Result<i32> {
        Ok(day("vaccine_delivery_start_date", &self.vaccine_delivery_start_date)? - self.start()?)
    }
}
