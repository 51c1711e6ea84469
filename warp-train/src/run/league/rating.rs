//! Elo ratings of two sides' snapshots, from the results of all games at once.
//!
//! The model is Bradley's and Terry's: i beats j with probability 1 / (1 + 10^((r_j - r_i) / 400)), a draw is half
//! a win. Ratings are those of the highest likelihood, found by Hunter's iteration ("MM algorithms for generalized
//! Bradley-Terry models", 2004), so the order of games does not matter. Every snapshot also has one draw against
//! an imaginary player of rating 1000; otherwise those that have won or lost all games would have no finite
//! rating.

/// The rating of whom everyone has drawn with.
const ANCHOR: f64 = 1000.0;
/// Ratings have settled when no strength changes by more than this share of it.
const SETTLED: f64 = 1e-9;
/// Rounds at most; a hundred snapshots take some thousands.
const MOST_ROUNDS: usize = 20_000;

/// A game between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Met {
    /// Which snapshot of the first side, and which of the second.
    pub(super) pair: [usize; 2],
    /// Points of each side: an episode won is 1, a draw a half for both.
    pub(super) points: [f64; 2],
}

/// Ratings of the `n` snapshots of each side.
pub(super) fn elo(n: usize, games: &[Met]) -> [Vec<f64>; 2] {
    let mut strength = [vec![1.0_f64; n], vec![1.0_f64; n]];
    for _ in 0..MOST_ROUNDS {
        // A draw with the anchor, whose strength is 1.
        let mut won = [vec![0.5; n], vec![0.5; n]];
        let mut expected: [Vec<f64>; 2] =
            [0, 1].map(|side| strength[side].iter().map(|own| 1.0 / (own + 1.0)).collect());
        for Met { pair, points } in games {
            let both = strength[0][pair[0]] + strength[1][pair[1]];
            for side in 0..2 {
                won[side][pair[side]] += points[side];
                expected[side][pair[side]] += (points[0] + points[1]) / both;
            }
        }
        let mut moved = 0.0_f64;
        for side in 0..2 {
            for i in 0..n {
                let new = won[side][i] / expected[side][i];
                moved = moved.max((new / strength[side][i] - 1.0).abs());
                strength[side][i] = new;
            }
        }
        if moved < SETTLED {
            break;
        }
    }
    strength.map(|side| side.iter().map(|own| ANCHOR + 400.0 * own.log10()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(pair: [usize; 2], points: [f64; 2]) -> Met {
        Met { pair, points }
    }

    #[test]
    fn equals_stay_where_they_began() {
        let games = [met([0, 0], [5.0, 5.0]), met([1, 1], [2.5, 2.5])];
        assert_eq!(elo(2, &games), [[1000.0; 2], [1000.0; 2]]);
        assert_eq!(elo(1, &[]), [[1000.0], [1000.0]]);
    }

    /// Where the likelihood is highest its derivative vanishes: everyone has won as much as was to be expected.
    #[test]
    fn everyone_has_won_what_the_ratings_expect() {
        let games = [
            met([0, 0], [9.0, 1.0]),
            met([0, 1], [4.0, 6.0]),
            met([1, 0], [10.0, 0.0]),
            met([1, 1], [7.5, 2.5]),
        ];
        let ratings = elo(2, &games);
        let wins = |a: f64, b: f64| 1.0 / (1.0 + 10_f64.powf((b - a) / 400.0));
        for side in 0..2 {
            for i in 0..2 {
                let own = ratings[side][i];
                let (mut won, mut expected) = (0.5, wins(own, ANCHOR));
                for Met { pair, points } in games.iter().filter(|game| game.pair[side] == i) {
                    won += points[side];
                    expected += 10.0 * wins(own, ratings[1 - side][pair[1 - side]]);
                }
                assert!((won - expected).abs() < 1e-6, "{side} {i}: {won} {expected}");
            }
        }
        assert!(ratings[0][1] > ratings[0][0] && ratings[1][1] > ratings[1][0]);
    }

    /// 10 points to 1 with the anchor's draw between them, by hand: x = won / (1 / (x + 1) + n / (x + y)).
    #[test]
    fn whoever_wins_everything_has_a_finite_rating() {
        let [winner, loser] = elo(1, &[met([0, 0], [100.0, 0.0])]);
        assert!((winner[0] + loser[0] - 2.0 * ANCHOR).abs() < 1e-3, "symmetric about the anchor");
        assert!(winner[0] > 1300.0 && winner[0] < 2000.0, "{winner:?}");
    }
}
