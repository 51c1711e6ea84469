//! `league.json`: what has come of a league's games.

use crate::error::{Error, Result};
use crate::run::durable::write_whole;
use serde::{Deserialize, Serialize};
use std::path::Path;
use warp_data::file;

/// The file's name in a run's folder.
pub const LEAGUE: &str = "league.json";

/// The games of a league and what they come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The two policies.
    pub policies: [String; 2],
    /// Who wins an episode, in words.
    pub winner: String,
    /// Episodes of each game.
    pub episodes: usize,
    /// Environment steps of the snapshots, ascending; both policies have one at each.
    pub snapshots: Vec<u64>,
    /// Elo ratings of each policy's snapshots, anchored by one draw of each against an imaginary
    /// player of rating 1000.
    pub elo: [Vec<f64>; 2],
    /// What came of each game.
    pub games: Vec<Game>,
}

/// The rating of the newest snapshot of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Standing {
    /// Its Elo rating.
    pub elo: f64,
    /// Its fraction of the points against all snapshots of the other policy.
    pub win_rate: f64,
}

/// Some episodes between a snapshot of the one policy and one of the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Game {
    /// Environment steps of the snapshots.
    pub steps: [u64; 2],
    /// Episodes that each policy won.
    pub wins: [u32; 2],
    /// Episodes that neither won.
    pub draws: u32,
    /// Mean return of each policy's agents together.
    pub returns: [f64; 2],
    /// Mean of the statistic that decides, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistic: Option<f64>,
    /// Episodes that had not ended after as many steps as an evaluation plays at most, and count as they were then.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub unfinished: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_of_them(unfinished: &u32) -> bool {
    *unfinished == 0
}

impl Game {
    /// Points of each policy: an episode won is 1, a draw a half for both.
    #[must_use]
    pub fn points(&self) -> [f64; 2] {
        self.wins.map(|wins| f64::from(wins) + f64::from(self.draws) / 2.0)
    }

    /// Fraction of the points that policy `side` (0 or 1) has.
    #[must_use]
    pub fn win_rate(&self, side: usize) -> f64 {
        let [first, second] = self.points();
        if side == 0 { first / (first + second) } else { second / (first + second) }
    }
}

impl Table {
    /// The game between the snapshots of these steps.
    #[must_use]
    pub fn game(&self, steps: [u64; 2]) -> Option<&Game> {
        self.games.iter().find(|game| game.steps == steps)
    }

    /// Reads the table in a run's folder; none if there is none yet.
    ///
    /// # Errors
    /// A file that can't be read or is no such table.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        let path = run.join(LEAGUE);
        if !path.exists() {
            return Ok(None);
        }
        let text = file::read_text(&path, file::TENSORS)
            .map_err(|e| Error::file("cannot read", &path, e))?;
        let table = serde_json::from_str(&text);
        table.map(Some).map_err(|e| Error::file("cannot read", &path, e))
    }

    /// Writes it there; it is the old table or the new one whenever somebody reads it.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn write(&self, run: &Path) -> Result<()> {
        let path = run.join(LEAGUE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::file("cannot encode", &path, e))?;
        write_whole(&path, &(text + "\n"))
    }
}
