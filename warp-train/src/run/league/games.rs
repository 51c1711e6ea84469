//! Games between snapshots: who wins an episode, and playing some episodes of each pair.

use super::{Game, League, Snapshot, Table, put, who_acts};
use crate::config::{LeagueConfig, TrainConfig};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::Run;
use crate::run::checkpoint::{Checkpoint, list};
use crate::run::evaluate::{Episode, EvalOptions, play};
use crate::run::evaluator::Evaluator;
use crate::run::learner::Learner;
use std::cmp::Ordering;
use std::path::Path;
use warp_sample::Mode;

/// Who decides episodes.
#[derive(Debug)]
pub(super) struct Referee {
    sides: [Side; 2],
    /// The statistic that decides, if one does.
    by: Option<Deciding>,
    episodes: usize,
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
    fn decide(&self, steps: [u64; 2], episodes: &[Episode]) -> Game {
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
        Game { steps, wins, draws, returns: returns.map(rounded), statistic }
    }
}

/// To six digits, so that a table that was read says what the one that was written did.
pub(super) fn rounded(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

impl League {
    /// Plays the games that are due, with the weights loaded into `learner`, which is left with those of the last
    /// game; whether there were any. `state` is what it can load, of whatever weights.
    pub(super) fn play(
        &mut self,
        learner: &mut dyn Learner,
        state: &LearnerState,
        config: &TrainConfig,
        evaluator: Evaluator<'_>,
    ) -> Result<bool> {
        let due = self.due();
        let names = self.referee.names();
        for pair in &due {
            let mut state = state.clone();
            for side in 0..2 {
                put(&mut state, &names[side], &self.snapshots[pair[side]].state);
            }
            learner.load_state(&state)?;
            // The same starts in each game: what differs is who plays.
            let options = EvalOptions {
                episodes: self.referee.episodes,
                mode: Mode::Sample,
                random: Vec::new(),
                threads: evaluator.threads,
            };
            let episodes = play(learner, config, evaluator.registry, &options)?;
            let steps = self.steps(*pair);
            self.games.insert(steps, self.referee.decide(steps, &episodes));
        }
        Ok(!due.is_empty())
    }
}

/// Has all checkpoints of the run in `folder` play all of the other policy, `keys.episodes` episodes each. The run
/// need not have been a league; `config` is its configuration and `learner` one for it.
///
/// # Errors
/// Not two policies that learn, checkpoints that can't be opened, or none.
pub fn tournament(
    folder: &Path,
    config: &TrainConfig,
    keys: LeagueConfig,
    learner: &mut dyn Learner,
    evaluator: Evaluator<'_>,
) -> Result<Table> {
    let config = config.with_league(Some(keys))?;
    let none = || Error::Invalid("a tournament needs the keys of a league".into());
    let mut league = League::new(&config)?.ok_or_else(none)?;
    let checkpoints = Run::checkpoints(folder);
    let mut whole = None;
    for (step, path) in list(&checkpoints)? {
        let learner = Checkpoint::open(&path)?.learner;
        league.snapshots.push(Snapshot { step, state: who_acts(&learner) });
        whole = Some(learner);
    }
    let none = || Error::file("cannot open a checkpoint in", &checkpoints, "there is none");
    let whole = whole.ok_or_else(none)?;
    league.play(learner, &whole, &config, evaluator)?;
    Ok(league.table())
}
