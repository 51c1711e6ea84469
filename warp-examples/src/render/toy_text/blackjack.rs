//! The table: the dealer's first card, and what both hands count as bars beside the mark of 21.

use super::field;
use warp_func::drawing::{Scene, View, colours};

/// Width of one point.
const POINT: f32 = 0.05;

pub(crate) fn draw(view: &View<'_>) -> Option<Scene> {
    let [player, player_ace, dealer, dealer_ace, card] =
        ["player_sum", "player_ace", "dealer_sum", "dealer_ace", "dealer_card"]
            .map(|name| field(view, name));
    let count = |sum: i32, ace: i32| if ace == 1 && sum <= 11 { sum + 10 } else { sum };
    let (player, dealer) = (count(player?, player_ace?), count(dealer?, dealer_ace?));
    let card = card?;
    // Before the end only the dealer's first card is seen.
    let over = view.array::<u8>("terminated")?.first() == Some(&1);
    let first = if card == 1 { 11 } else { card };
    let dealt = if over { dealer } else { first };
    let mut scene = Scene::new(-0.1..1.7, -0.1..1.0);
    let hands = [("dealer", dealt, 0.58, colours::RED), ("player", player, 0.16, colours::BLUE)];
    for (name, points, bottom, colour) in hands {
        let end = POINT * points as f32;
        scene.rectangle((0.0, bottom), (end, bottom + 0.22), colour);
        scene.label((end + 0.12, bottom + 0.07), points.to_string(), 0.12);
        scene.legend.push((colour, name.into()));
    }
    let mark = 21.0 * POINT;
    scene.line(&[(mark, 0.08), (mark, 0.9)], 0.012, colours::INK);
    scene.label((mark, 0.0), "21", 0.1);
    Some(scene)
}
