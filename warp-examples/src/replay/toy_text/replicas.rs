//! Catch and NChain: several replicas side by side, which begin anew in the step after an end.

use super::super::case::Case;
use super::chance::{Before, Chance};
use anyhow::{Result, ensure};
use warp_core::Draw;

/// One recorded moment of a replica.
struct Moment<'c> {
    /// Its observation.
    seen: &'c [f64],
    /// Rows and columns of an observation; none for NChain.
    board: Option<(usize, usize)>,
}

impl Moment<'_> {
    /// The state that is seen, by the names of its fields.
    fn state(&self) -> Result<Vec<(&'static str, i32)>> {
        let Some((rows, columns)) = self.board else {
            return Ok(vec![("state", self.seen[0] as i32)]);
        };
        let ones = |rows: std::ops::Range<usize>| {
            let cells = rows.start * columns..rows.end * columns;
            cells.filter(|cell| self.seen[*cell] == 1.0).collect::<Vec<_>>()
        };
        let (ball, paddle) = (ones(0..rows - 1), ones(rows - 1..rows));
        ensure!(
            ball.len() == 1 && paddle.len() == 1,
            "array \"observation\" shows {} balls and {} paddles",
            ball.len(),
            paddle.len()
        );
        Ok(vec![
            ("ball_row", (ball[0] / columns) as i32),
            ("ball_column", (ball[0] % columns) as i32),
            ("paddle", (paddle[0] % columns) as i32),
        ])
    }

    /// Whether an episode that begins with these draws begins here.
    fn begins(&self, mut draw: Draw) -> bool {
        match self.board {
            Some((_, columns)) => {
                let column = draw.below(columns as u32) as usize;
                self.seen[column] == 1.0
            }
            None => true,
        }
    }
}

/// Whether the draws of a step let an action of NChain slip as its reward says it did.
fn slips_as(mut draw: Draw, board: bool, action: f64, reward: f64) -> bool {
    let back = reward == 2.0;
    board || (draw.uniform() < 0.2) == (back != (action == 1.0))
}

pub(super) fn replay(case: &Case, chance: &mut Chance) -> Result<()> {
    let steps = case.steps;
    let n = case.rows("action", steps)?.row_len();
    let column = |name: &str| Ok::<_, anyhow::Error>(&case.shaped(name, &[steps, n])?.data);
    let (action, reward) = (column("action")?, column("reward")?);
    let (terminated, truncated) = (column("terminated")?, column("truncated")?);
    let elapsed = &case.shaped("elapsed_step", &[steps + 1, n])?.data;
    let observation = case.rows("observation", steps + 1)?;
    let board = match observation.shape.as_slice() {
        &[_, _, rows, columns] if rows >= 2 => Some((rows, columns)),
        _ => None,
    };
    ensure!(
        board.is_some() == (case.env == "catch") && observation.row_len() % n.max(1) == 0,
        "array \"observation\" has shape {:?}",
        observation.shape
    );
    let width = observation.row_len() / n.max(1);
    let moment = |t: usize, replica: usize| {
        let first = (t * n + replica) * width;
        Moment { seen: &observation.data[first..first + width], board }
    };
    for t in 0..steps {
        for replica in 0..n {
            let at = t * n + replica;
            let (now, next) = (moment(t, replica), moment(t + 1, replica));
            let ended = t > 0 && terminated[at - n] + truncated[at - n] > 0.0;
            if t == 0 {
                begin(chance, &now, t)?;
            }
            if ended {
                begin(chance, &next, t + 1)?;
                chance.expect("elapsed_step", t + 1, &elapsed[at + n..=at + n], &[0.0])?;
                continue;
            }
            let loaded = now.state()?;
            let timestep = elapsed[at] as u32;
            let before = Before { state: &loaded, timestep, action: action[at] as i32 };
            chance.step(before, |draw| slips_as(draw, board.is_some(), action[at], reward[at]))?;
            let [got, over, cut] = chance.outcome();
            let seen = seen(chance, board.is_some());
            chance.expect("observation", t + 1, next.seen, &seen)?;
            chance.expect("reward", t, &[reward[at]], &[got])?;
            chance.expect("terminated", t, &[terminated[at]], &[over])?;
            chance.expect("truncated", t, &[truncated[at]], &[cut])?;
            let seen = chance.elapsed();
            chance.expect("elapsed_step", t + 1, &elapsed[at + n..=at + n], &[seen])?;
        }
    }
    Ok(())
}

/// Begins an episode, which must look like `moment`.
fn begin(chance: &mut Chance, moment: &Moment<'_>, row: usize) -> Result<()> {
    chance.start(|draw| moment.begins(draw))?;
    let seen = seen(chance, moment.board.is_some());
    chance.expect("observation", row, moment.seen, &seen)
}

fn seen(chance: &Chance, board: bool) -> Vec<f64> {
    if board { chance.observation() } else { vec![chance.one_hot()] }
}
