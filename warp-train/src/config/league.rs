//! The keys of a league: against which older versions its policies play, and who wins an episode.

use crate::algorithm::PolicyPlan;
use crate::error::{Error, Result};
use warp_core::toml::{Table, Value};
use warp_core::{Config, EnvSpec};

warp_core::choices! {
    /// How an opponent is chosen among the older versions of a policy.
    pub enum Opponents {
        /// The current policies, and no older ones.
        Latest = "latest",
        /// All snapshots equally often.
        Uniform = "uniform",
        /// Snapshots that the learning policy rarely beats more often: by (1 - win rate) squared.
        Prioritised = "prioritised",
    }
}

warp_core::config! {
    /// Keys of a league.
    pub struct LeagueConfig {
        /// Who plays against a policy that learns alone: "uniform" and "prioritised" (by the square of the fraction
        /// of games that it does not win) choose among all snapshots of the other policy; with "latest" both always
        /// learn together, and the league is only a table of results.
        pub opponents: Opponents = Opponents::Uniform,
        /// Fraction of the iterations in which one of the policies, each equally often, learns alone against an
        /// older version of the other; in all others both learn together.
        pub older_share: f64 = 0.5,
        /// Iterations before another opponent is chosen, at least 1.
        pub swap_interval: u64 = 1,
        /// Environment steps between snapshots (rounded up to whole iterations), at least 1. Each is a checkpoint
        /// that is kept, and so is the first one.
        pub snapshot_steps: u64 = 100_000,
        /// Episodes of each game between two snapshots, at least 1; actions are sampled as in training.
        pub episodes: usize = 32,
        /// Statistic of the environment that decides who wins an episode; not set: the policy with the higher mean
        /// return per agent wins.
        pub win_statistic: Option<String> = None,
        /// With win_statistic: the policy that wins where it is above win_threshold, and loses below.
        pub win_policy: Option<String> = None,
        /// With win_statistic: the value at which neither wins.
        pub win_threshold: f64 = 0.0,
    }
}

impl LeagueConfig {
    /// The keys of the table `[league]`.
    ///
    /// # Errors
    /// A key that is unknown or of the wrong type.
    pub(super) fn read(value: &Value) -> Result<Self> {
        let table: &Table = value
            .as_table()
            .ok_or_else(|| Error::Invalid(format!("league = {value}: expected a table of keys")))?;
        Self::from_table(table).map_err(|e| e.under("league.").into())
    }

    /// Whether policies ever learn against older versions of each other.
    #[must_use]
    pub fn plays_older(&self) -> bool {
        self.opponents != Opponents::Latest && self.older_share > 0.0
    }

    /// Numbers of the two policies that play against each other, in the order of the configuration.
    ///
    /// # Errors
    /// Not two policies that learn.
    pub fn sides(policies: &[PolicyPlan]) -> Result<[usize; 2]> {
        let learns = |index: &usize| policies[*index].config.to_train;
        let found: Vec<usize> = (0..policies.len()).filter(learns).collect();
        found.try_into().map_err(|found: Vec<usize>| {
            let found = match found.len() {
                0 => "none of this run's policies learns".into(),
                1 => "only one of this run's policies learns".into(),
                n => format!("{n} of this run's policies learn"),
            };
            Error::Invalid(format!(
                "[league]: two policies that learn play against each other, but {found}"
            ))
        })
    }

    /// Checks the keys against each other, the policies and the environment.
    pub(super) fn check(&self, policies: &[PolicyPlan], spec: &EnvSpec) -> Result<()> {
        let invalid = |key: &str, value: String, reason: &str| {
            Err(warp_core::Error::invalid(&format!("league.{key}"), value, reason).into())
        };
        if !(0.0..=1.0).contains(&self.older_share) {
            let reason = "must lie between 0 and 1";
            return invalid("older_share", self.older_share.to_string(), reason);
        }
        for (key, value) in [
            ("swap_interval", self.swap_interval),
            ("snapshot_steps", self.snapshot_steps),
            ("episodes", self.episodes as u64),
        ] {
            if value == 0 {
                return invalid(key, "0".into(), "must be at least 1");
            }
        }
        let sides = Self::sides(policies)?.map(|side| &policies[side]);
        if let Some(plan) = sides.iter().find(|plan| plan.is_off_policy()) {
            return Err(Error::Invalid(format!(
                "[league]: policy \"{}\" learns by {} from a replay memory, which would contain \
                 steps of older versions; a league's policies learn from rollouts",
                plan.name, plan.algorithm.name
            )));
        }
        if let Some(name) = &self.win_statistic
            && !spec.statistics.contains(name)
        {
            let known = match spec.statistics.join(", ") {
                none if none.is_empty() => "none".into(),
                known => known,
            };
            let reason = format!("{} has no such statistic; it has {known}", spec.name);
            return invalid("win_statistic", format!("\"{name}\""), &reason);
        }
        let is_side = |name: &String| sides.iter().any(|plan| plan.name == *name);
        match (&self.win_statistic, &self.win_policy) {
            (Some(_), Some(name)) if is_side(name) => Ok(()),
            (None, None) => Ok(()),
            (Some(_), _) => Err(Error::Invalid(format!(
                "[league]: win_statistic needs win_policy = \"{}\" or \"{}\", which wins where it is high",
                sides[0].name, sides[1].name
            ))),
            (None, Some(name)) => {
                invalid("win_policy", format!("\"{name}\""), "it needs win_statistic")
            }
        }
    }
}
