//! Blackjack: hands are made from the recorded cards, and cards are drawn as recorded.

use super::super::case::Case;
use super::chance::{Before, Chance};
use anyhow::{Result, bail, ensure};
use warp_core::Draw;

/// A hand as the environment keeps it.
#[derive(Debug, Clone, Copy, Default)]
struct Hand {
    sum: i32,
    ace: i32,
    cards: i32,
}

impl Hand {
    fn take(&mut self, card: f64) {
        self.sum += card as i32;
        self.ace |= i32::from(card == 1.0);
        self.cards += 1;
    }
}

/// Whether a stream begins with these cards.
fn draws(mut draw: Draw, cards: &[f64]) -> bool {
    cards.iter().all(|card| f64::from((draw.below(13) + 1).min(10)) == *card)
}

pub(super) fn replay(case: &Case, chance: &mut Chance) -> Result<()> {
    let steps = case.steps;
    let column = |name: &str| Ok::<_, anyhow::Error>(&case.shaped(name, &[steps])?.data);
    let (episode, action, n_cards) = (column("episode")?, column("action")?, column("n_cards")?);
    let (reward, terminated) = (column("reward")?, column("terminated")?);
    let observation = &case.shaped("observation", &[steps, 3])?.data;
    let cards = case.rows("cards", steps)?;
    let start = case.array("start_cards")?;
    let starts = start.rows();
    let start = &case.shaped("start_cards", &[starts, 4])?.data;
    let first_seen = &case.shaped("start_observation", &[starts, 3])?.data;
    let (mut player, mut dealer) = (Hand::default(), Hand::default());
    let (mut first, mut timestep) = (0.0, 0);
    for t in 0..steps {
        let number = episode[t] as usize;
        ensure!(number < starts, "array \"episode\" holds {number}, but there are {starts} starts");
        let dealt = &start[4 * number..4 * number + 4];
        if t == 0 || episode[t] != episode[t - 1] {
            chance.start(|draw| draws(draw, dealt))?;
            let seen = chance.observation();
            let row = &first_seen[3 * number..3 * number + 3];
            chance.expect("start_observation", number, row, &seen)?;
            (player, dealer) = (Hand::default(), Hand::default());
            dealt[..2].iter().for_each(|card| dealer.take(*card));
            dealt[2..].iter().for_each(|card| player.take(*card));
            (first, timestep) = (dealt[0], 0);
        }
        let width = cards.row_len();
        let n = n_cards[t] as usize;
        if n > width {
            bail!("array \"n_cards\" holds {n}, but \"cards\" has {width}");
        }
        let drawn = &cards.data[t * width..t * width + n];
        let loaded = [
            ("player_sum", player.sum),
            ("player_ace", player.ace),
            ("player_cards", player.cards),
            ("dealer_sum", dealer.sum),
            ("dealer_ace", dealer.ace),
            ("dealer_card", first as i32),
        ];
        let before = Before { state: &loaded, timestep, action: action[t] as i32 };
        chance.step(before, |draw| draws(draw, drawn))?;
        let hand = if action[t] == 1.0 { &mut player } else { &mut dealer };
        drawn.iter().for_each(|card| hand.take(*card));
        timestep += 1;
        let [got, over, cut] = chance.outcome();
        let seen = chance.observation();
        chance.expect("observation", t, &observation[3 * t..3 * t + 3], &seen)?;
        chance.expect("reward", t, &[f64::from(reward[t] as f32)], &[got])?;
        chance.expect("terminated", t, &terminated[t..=t], &[over + cut])?;
        // The hand has exactly the recorded cards: none was drawn beyond them.
        let sums = [f64::from(player.sum), f64::from(dealer.sum)];
        let seen = [chance.state("player_sum")?, chance.state("dealer_sum")?];
        chance.expect("cards", t, &sums, &seen)?;
    }
    Ok(())
}
