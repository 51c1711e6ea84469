//! The toy-text environments: boards of square cells, a table of cards, and a chain.

mod blackjack;
mod boards;
mod nchain;

pub(super) use blackjack::draw as blackjack;
pub(super) use boards::{catch, cliff_walking, frozen_lake, taxi};
pub(super) use nchain::draw as nchain;

use warp_func::drawing::View;

/// A whole number of the state.
fn field(view: &View<'_>, name: &str) -> Option<i32> {
    view.array::<i32>(name)?.first().copied()
}
