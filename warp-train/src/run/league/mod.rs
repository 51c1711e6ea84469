//! Self-play: two policies that also learn against older versions of each other, and a table of who beats whom.
//!
//! Every `snapshot_steps` both policies are kept as they are; on the disk such a snapshot is a checkpoint that stays.
//! In a fraction of the iterations one policy learns alone, against an older version of the other that is chosen by a
//! rule ([`Opponents`]). The choice depends on the seed, the iteration and the games played, so a resumed run makes
//! the same choices as one that never stopped. All snapshots play all of the other side; a game is some episodes in
//! environments of its own.
//!
//! [`LeagueLearner`] is a learner made of learners: one that trains both policies, one for each that trains it alone.
//! Setting an opponent means loading weights, which every learner supports on every device.

mod games;
mod learner;
mod rating;
mod referee;
mod table;
mod tournament;

pub use learner::LeagueLearner;
pub use table::{Game, LEAGUE, Standing, Table};
pub use tournament::tournament;

use crate::config::{LeagueConfig, Opponents, TrainConfig};
use crate::error::{Error, Result};
use crate::model::LearnerState;
use crate::run::checkpoint::{Checkpoint, list};
use rating::Met;
use referee::{Referee, rounded};
use std::collections::BTreeMap;
use std::path::Path;
use warp_core::{Draw, Purpose};

/// Opponents are drawn from other numbers than everything else with the same seed.
const DRAWS: u64 = 0x6c65_6167_7565;

/// The snapshots of a league and their games.
#[derive(Debug)]
pub struct League {
    keys: LeagueConfig,
    seed: u64,
    referee: Referee,
    snapshots: Vec<Snapshot>,
    games: BTreeMap<[u64; 2], Game>,
}

/// All policies at some step.
#[derive(Debug, Clone, PartialEq)]
struct Snapshot {
    /// Environment steps done.
    step: u64,
    /// Their weights and what they normalise observations by.
    state: LearnerState,
}

/// Who plays in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    /// Both policies as they are, and both learn.
    Latest,
    /// The policy of `side` learns, the other one is its own snapshot number `opponent`.
    Older { side: usize, opponent: usize },
}

impl League {
    /// One without snapshots; none if `config` has no league.
    ///
    /// # Errors
    /// Not two policies that learn.
    fn new(config: &TrainConfig) -> Result<Option<Self>> {
        let Some(keys) = config.league.clone() else { return Ok(None) };
        let referee = Referee::new(config, &keys)?;
        let (snapshots, games) = (Vec::new(), BTreeMap::new());
        Ok(Some(Self { seed: config.run.seed, referee, keys, snapshots, games }))
    }

    /// Who plays in iteration `iteration`, counted from 0.
    fn match_of(&self, iteration: u64) -> Result<Match> {
        let turn = iteration / self.keys.swap_interval;
        let (high, low) = ((turn >> 32) as u32, turn as u32);
        let mut draw = Draw::new(self.seed ^ DRAWS, high, low, Purpose::Learn);
        let is_older = f64::from(draw.uniform()) < self.keys.older_share;
        if self.keys.opponents == Opponents::Latest || !is_older {
            return Ok(Match::Latest);
        }
        if self.snapshots.is_empty() {
            let reason = "the league has no snapshots; it is continued by Trainer::restore";
            return Err(Error::Invalid(reason.into()));
        }
        let side = draw.below(2) as usize;
        let weights = self.weights(side)?;
        let whole: f64 = weights.iter().sum();
        let mut left = f64::from(draw.uniform()) * whole;
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little of the whole.
        let last = weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
        Ok(Match::Older { side, opponent: chosen.unwrap_or(last) })
    }

    /// How often the policy of `side` is to meet each of the other one's snapshots, in relation to each other.
    fn weights(&self, side: usize) -> Result<Vec<f64>> {
        let even = vec![1.0; self.snapshots.len()];
        if self.keys.opponents != Opponents::Prioritised {
            return Ok(even);
        }
        let own = self.snapshots.last().map_or(0, |newest| newest.step);
        let weight = |other: &Snapshot| {
            let steps = if side == 0 { [own, other.step] } else { [other.step, own] };
            let game = self.games.get(&steps).ok_or_else(|| {
                let reason = "has not been played; warp_train::run::train plays them";
                Error::Invalid(format!("the league's game of steps {steps:?} {reason}"))
            })?;
            Ok((1.0 - game.win_rate(side)).powi(2))
        };
        let weights = self.snapshots.iter().map(weight).collect::<Result<Vec<f64>>>()?;
        // Who beats everyone always may meet anyone.
        Ok(if weights.iter().any(|weight| *weight > 0.0) { weights } else { even })
    }

    /// Takes in the snapshot of `step` where one is due: at the beginning, and as the keys say.
    fn keep(&mut self, config: &TrainConfig, step: u64, state: &LearnerState) {
        let is_new = self.snapshots.last().is_none_or(|last| last.step < step);
        if is_new && (step == 0 || config.is_snapshot_step(step)) {
            self.snapshots.push(Snapshot { step, state: who_acts(state) });
        }
    }

    /// Games that have not been played.
    fn due(&self) -> Vec<[usize; 2]> {
        let all = 0..self.snapshots.len();
        let pairs = all.clone().flat_map(|first| all.clone().map(move |second| [first, second]));
        pairs.filter(|pair| !self.games.contains_key(&self.steps(*pair))).collect()
    }

    fn steps(&self, pair: [usize; 2]) -> [u64; 2] {
        pair.map(|index| self.snapshots[index].step)
    }

    /// Takes the snapshots up to `step` from a run's checkpoints, and the games among them from its table. Games that
    /// the table lacks are played anew, with the same results.
    fn restore(&mut self, config: &TrainConfig, checkpoints: &Path, step: u64) -> Result<()> {
        let saved = list(checkpoints)?;
        self.snapshots.clear();
        for at in config.snapshot_steps_until(step) {
            let place = saved.iter().find(|(saved, _)| *saved == at);
            let Some((_, path)) = place else {
                let reason = format!("the league's snapshot of step {at} is missing there");
                return Err(Error::file(
                    "cannot continue from the checkpoints in",
                    checkpoints,
                    reason,
                ));
            };
            let state = who_acts(&Checkpoint::open(path)?.learner);
            self.snapshots.push(Snapshot { step: at, state });
        }
        let table = checkpoints.parent().map(Table::read).transpose()?.flatten();
        let has = |step: &u64| self.snapshots.iter().any(|snapshot| snapshot.step == *step);
        let games = table.into_iter().flat_map(|table| table.games);
        let known = games.filter(|game| game.steps.iter().all(has));
        self.games = known.map(|game| (game.steps, game)).collect();
        Ok(())
    }

    /// What has come of the games so far.
    #[must_use]
    pub fn table(&self) -> Table {
        let place = |step: u64| self.snapshots.iter().position(|own| own.step == step);
        let met = |game: &Game| {
            let pair = [place(game.steps[0])?, place(game.steps[1])?];
            Some(Met { pair, points: game.points() })
        };
        let met: Vec<Met> = self.games.values().filter_map(met).collect();
        let elo = rating::elo(self.snapshots.len(), &met);
        Table {
            policies: self.referee.names(),
            winner: self.referee.words(),
            episodes: self.keys.episodes,
            snapshots: self.snapshots.iter().map(|snapshot| snapshot.step).collect(),
            elo: elo.map(|side| side.into_iter().map(rounded).collect()),
            games: self.games.values().copied().collect(),
        }
    }

    /// The ratings of the newest snapshots, by policy.
    #[must_use]
    pub fn standings(&self) -> BTreeMap<String, Standing> {
        let table = self.table();
        let newest = table.snapshots.last().copied();
        let standing = |side: usize| {
            let own = |game: &&Game| Some(game.steps[side]) == newest;
            let points: Vec<[f64; 2]> = table.games.iter().filter(own).map(Game::points).collect();
            let mine: f64 = points.iter().map(|points| points[side]).sum();
            let all: f64 = points.iter().flatten().sum();
            let elo = table.elo[side].last().copied()?;
            Some((table.policies[side].clone(), Standing { elo, win_rate: mine / all }))
        };
        (0..2).filter_map(standing).collect()
    }
}

/// What of a learner's state decides how its policies act.
fn who_acts(state: &LearnerState) -> LearnerState {
    let normalises =
        |name: &str| name.split_once('.').is_some_and(|(_, own)| own.starts_with("obs_"));
    let mut statistics = state.statistics.clone();
    statistics.retain(|statistic| normalises(&statistic.name));
    LearnerState { weights: state.weights.clone(), statistics, ..LearnerState::default() }
}

/// Whether what is called `name` is a part of `policy`.
fn belongs(name: &str, policy: &str) -> bool {
    name.strip_prefix(policy).is_some_and(|rest| rest.starts_with('.'))
}

/// Puts policy `name` of `from` into its place in `state`.
fn put(state: &mut LearnerState, name: &str, from: &LearnerState) {
    for own in state.weights.iter_mut().filter(|own| belongs(&own.name, name)) {
        if let Some(given) = from.weights.iter().find(|given| given.name == own.name) {
            own.data.clone_from(&given.data);
        }
    }
    for own in state.statistics.iter_mut().filter(|own| belongs(&own.name, name)) {
        if let Some(given) = from.statistics.iter().find(|given| given.name == own.name) {
            own.data.clone_from(&given.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::toml;

    /// A league with `n` snapshots, in which the newest of side 0 has won `wins[i]` of 4 episodes against snapshot i
    /// of side 1.
    fn league(rule: &str, wins: &[u32]) -> League {
        let text = format!(
            "env_id = 'tag_gridworld'\n[league]\nopponents = '{rule}'\nolder_share = 1.0\nswap_interval = 2"
        );
        let table: toml::Table = text.parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        let mut league = League::new(&config).unwrap().unwrap();
        let newest = wins.len() as u64 - 1;
        for (step, won) in (0..).zip(wins) {
            league.snapshots.push(Snapshot { step, state: LearnerState::default() });
            for steps in [[newest, step], [step, newest]] {
                let wins = [*won, 4 - won];
                let (draws, returns, unfinished) = (0, [0.0; 2], 0);
                let game = Game { steps, wins, draws, returns, statistic: None, unfinished };
                league.games.insert(steps, game);
            }
        }
        league
    }

    /// How often side 0 meets each snapshot in so many iterations, as a share of those in which it learns.
    fn met(league: &League, iterations: u64) -> Vec<f64> {
        let mut met = vec![0.0; league.snapshots.len()];
        for iteration in 0..iterations {
            if let Match::Older { side: 0, opponent } = league.match_of(iteration).unwrap() {
                met[opponent] += 1.0;
            }
        }
        let all: f64 = met.iter().sum();
        assert!((all / iterations as f64 - 0.5).abs() < 0.02, "each side as often: {all}");
        met.iter().map(|n| n / all).collect()
    }

    fn assert_near(found: &[f64], wanted: &[f64]) {
        let far = |(a, b): (&f64, &f64)| (a - b).abs() > 0.02;
        assert!(!found.iter().zip(wanted).any(far), "{found:?}, not {wanted:?}");
    }

    #[test]
    fn opponents_are_met_as_the_rule_says() {
        let wins = [4, 2, 0];
        assert_near(&met(&league("uniform", &wins), 20_000), &[1.0 / 3.0; 3]);
        // (1 - 1)^2, (1 - 1/2)^2, (1 - 0)^2.
        assert_near(&met(&league("prioritised", &wins), 20_000), &[0.0, 0.2, 0.8]);
        assert_near(&met(&league("prioritised", &[4, 4]), 20_000), &[0.5, 0.5]);
        let latest = league("latest", &wins);
        assert!((0..100).all(|i| latest.match_of(i).unwrap() == Match::Latest));
        // Two iterations with each.
        let uniform = league("uniform", &wins);
        assert!(
            (0..100).all(|i| {
                uniform.match_of(2 * i).unwrap() == uniform.match_of(2 * i + 1).unwrap()
            })
        );
    }

    #[test]
    fn games_that_were_not_played_decide_nothing() {
        let mut league = league("prioritised", &[1, 1]);
        league.games.clear();
        let error = league.match_of(0).unwrap_err().to_string();
        assert!(error.contains("has not been played"), "{error}");
        league.snapshots.clear();
        let error = league.match_of(0).unwrap_err().to_string();
        assert!(error.contains("the league has no snapshots"), "{error}");
    }
}
