//! FrozenLake's maps: two that are known, random ones, and a user's own.

use super::FrozenLakeConfig;
use warp_core::{Draw, Error, Purpose, Result};

/// Cells at most; more would be a slip, and are seen one-hot.
const MAX_CELLS: usize = 65_536;
/// Random maps: tiles of a side, and how many of them are frozen.
const SIDE: usize = 8;
const FROZEN: f32 = 0.8;

const SMALL: [&str; 4] = ["SFFF", "FHFH", "FFFH", "HFFG"];
const LARGE: [&str; 8] = [
    "SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG",
];

warp_core::choices! {
    /// Which map.
    pub enum MapName {
        /// Four times four tiles.
        Small = "4x4",
        /// Eight times eight tiles.
        Large = "8x8",
        /// One that is drawn.
        Random = "random",
    }
}

/// A map as the environment needs it.
pub(super) struct Map {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Per cell: 0 frozen, 1 hole, 2 goal.
    pub(super) tiles: Vec<i32>,
    /// Cells of start tiles, at least one.
    pub(super) starts: Vec<i32>,
}

impl Map {
    pub(super) fn new(config: &FrozenLakeConfig) -> Result<Map> {
        match (&config.desc, config.map_name) {
            (Some(rows), _) => parse(rows),
            (None, MapName::Small) => parse(&SMALL.map(String::from)),
            (None, MapName::Large) => parse(&LARGE.map(String::from)),
            (None, MapName::Random) => parse(&random(config.map_seed)),
        }
    }
}

fn parse(rows: &[String]) -> Result<Map> {
    let fail = |reason: &str| Err(Error::invalid("desc", format!("{rows:?}"), reason));
    let columns = rows.first().map_or(0, String::len);
    if columns == 0 || rows.iter().any(|row| row.len() != columns) {
        return fail("must have rows, all of the same length");
    }
    if rows.len() * columns > MAX_CELLS {
        return fail("has more than 65536 tiles");
    }
    let letters: Vec<char> = rows.iter().flat_map(|row| row.chars()).collect();
    if letters.iter().any(|letter| !"SFHG".contains(*letter)) {
        return fail("may hold the letters S, F, H and G only");
    }
    let tile = |letter: &char| i32::from(*letter == 'H') + 2 * i32::from(*letter == 'G');
    let start = |(cell, letter): (usize, &char)| (*letter == 'S').then_some(cell as i32);
    let starts: Vec<i32> = letters.iter().enumerate().filter_map(start).collect();
    if starts.is_empty() {
        return fail("has no start tile S");
    }
    let tiles = letters.iter().map(tile).collect();
    Ok(Map { rows: rows.len(), columns, tiles, starts })
}

/// A map with start and goal in its corners, drawn again until a way leads from one to the other.
fn random(seed: u64) -> Vec<String> {
    let mut draw = Draw::new(seed, 0, 0, Purpose::Reset);
    loop {
        let mut letters = [[b'H'; SIDE]; SIDE];
        for letter in letters.iter_mut().flatten() {
            *letter = if draw.uniform() < FROZEN { b'F' } else { b'H' };
        }
        letters[0][0] = b'S';
        letters[SIDE - 1][SIDE - 1] = b'G';
        if crosses(&letters) {
            return letters.map(|row| row.map(char::from).iter().collect()).to_vec();
        }
    }
}

/// Whether a way leads from the first tile to the last.
fn crosses(letters: &[[u8; SIDE]; SIDE]) -> bool {
    let mut reached = [[false; SIDE]; SIDE];
    let mut open = vec![(0, 0)];
    while let Some((row, column)) = open.pop() {
        if letters[row][column] == b'H' || std::mem::replace(&mut reached[row][column], true) {
            continue;
        }
        let last = SIDE - 1;
        open.extend([(row.saturating_sub(1), column), ((row + 1).min(last), column)]);
        open.extend([(row, column.saturating_sub(1)), (row, (column + 1).min(last))]);
    }
    reached[SIDE - 1][SIDE - 1]
}
