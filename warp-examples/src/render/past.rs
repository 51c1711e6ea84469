//! What an episode has been so far, for drawings that show how it came to be.

use super::covid19::{self, Day};
use super::rice_n;
use crate::pathway;
use std::cell::OnceCell;
use warp_envs::catalysis::{Landscape, Optimum};
use warp_func::drawing::View;

/// The moments of an episode, the present one included.
#[derive(Debug, Default)]
pub struct Past {
    /// The state of catalysis at each moment, x, y, z of each atom.
    states: Vec<Vec<i32>>,
    /// The days of covid19, or the steps of rice_n.
    days: Vec<Day>,
    backdrop: OnceCell<Option<Backdrop>>,
}

/// The landscape behind a path; computed once for all moments.
#[derive(Debug)]
pub(super) struct Backdrop {
    pub(super) landscape: Landscape,
    pub(super) best: Option<Optimum>,
}

impl Past {
    /// Adds the moment that `view` shows.
    pub fn record(&mut self, view: &View<'_>) {
        self.days.extend(covid19::day(view).or_else(|| rice_n::day(view)));
        self.states.extend(pathway::state(view));
    }

    /// The recorded states of catalysis, the oldest first.
    #[must_use]
    pub fn states(&self) -> &[Vec<i32>] {
        &self.states
    }

    /// The recorded days of covid19 or steps of rice_n, the oldest first.
    pub(super) fn days(&self) -> &[Day] {
        &self.days
    }

    /// The landscape of the environment that `view` shows, if it has one that can (still) be read.
    pub(super) fn backdrop(&self, view: &View<'_>) -> Option<&Backdrop> {
        let open = || {
            let landscape = pathway::landscape(&view.spec().name, view.config()).ok()??;
            let best = landscape.optimum(0.0);
            Some(Backdrop { landscape, best })
        };
        self.backdrop.get_or_init(open).as_ref()
    }
}
