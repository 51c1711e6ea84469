//! Who wins an episode of a league, and what the episodes of a game come to.

use super::table::Game;
use crate::config::{LeagueConfig, TrainConfig};
use crate::error::Result;
use crate::run::evaluation::Episode;
use std::cmp::Ordering;

/// Who decides episodes.
#[derive(Debug)]
pub(super) struct Referee {
    sides: [Side; 2],
    /// The statistic that decides, if one does.
    by: Option<Deciding>,
    pub(super) episodes: usize,
}

#[derive(Debug)]
struct Side {
    name: String,
    /// Number of the policy.
    policy: usize,
    n_agents: usize,
}

/// A statistic that decides.
#[derive(Debug)]
struct Deciding {
    name: String,
    /// Its place among the environment's.
    place: usize,
    threshold: f64,
    /// The side that wins above.
    above: usize,
}

impl Referee {
    /// For the policies of `config`.
    ///
    /// # Errors
    /// Not two policies that learn.
    pub(super) fn new(config: &TrainConfig, keys: &LeagueConfig) -> Result<Self> {
        let side = |index: usize| {
            let plan = &config.policies[index];
            let n_agents = plan.n_agents();
            Side { name: plan.name.clone(), policy: index, n_agents }
        };
        let sides = LeagueConfig::sides(&config.policies)?.map(side);
        let by = keys.win_statistic.as_ref().map(|name| Deciding {
            name: name.clone(),
            place: config.spec.statistics.iter().position(|own| own == name).unwrap_or(0),
            threshold: keys.win_threshold,
            above: usize::from(keys.win_policy.as_ref() == Some(&sides[1].name)),
        });
        Ok(Self { sides, by, episodes: keys.episodes })
    }

    pub(super) fn names(&self) -> [String; 2] {
        [0, 1].map(|side| self.sides[side].name.clone())
    }

    /// Who wins an episode, in words.
    pub(super) fn words(&self) -> String {
        match &self.by {
            Some(Deciding { name, threshold, above, .. }) => {
                let [winner, loser] = [*above, 1 - above].map(|side| &self.sides[side].name);
                format!("{winner} where {name} is above {threshold}, {loser} where it is below")
            }
            None => "the policy whose agents have the higher mean return".into(),
        }
    }

    /// What the episodes of a game come to.
    pub(super) fn decide(&self, steps: [u64; 2], episodes: &[Episode]) -> Game {
        let (mut wins, mut draws) = ([0; 2], 0);
        let (mut returns, mut statistic) = ([0.0; 2], 0.0);
        let n = episodes.len() as f64;
        for episode in episodes {
            let sums = [0, 1].map(|side: usize| episode.policy_return(self.sides[side].policy));
            [0, 1].into_iter().for_each(|side: usize| returns[side] += sums[side] / n);
            let (better, ahead) = match &self.by {
                Some(by) => {
                    let value = episode.statistics[by.place];
                    statistic += value / n;
                    (value.total_cmp(&by.threshold), by.above)
                }
                None => {
                    let mean = |side: usize| sums[side] / self.sides[side].n_agents as f64;
                    (mean(0).total_cmp(&mean(1)), 0)
                }
            };
            match better {
                Ordering::Greater => wins[ahead] += 1,
                Ordering::Less => wins[1 - ahead] += 1,
                Ordering::Equal => draws += 1,
            }
        }
        let statistic = self.by.as_ref().map(|_| rounded(statistic));
        let unfinished = episodes.iter().filter(|episode| !episode.is_finished).count() as u32;
        Game { steps, wins, draws, returns: returns.map(rounded), statistic, unfinished }
    }
}

/// To six digits, so that a table that was read says what the one that was written did.
pub(super) fn rounded(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}
