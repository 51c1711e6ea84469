//! A policy's actions as they are kept: discrete choices, or the raw samples of continuous ones.

use std::ops::Range;
use warp_sample::{ActionLayout, ActionsMut};

/// Actions of some rows, row-major.
#[derive(Debug, Clone, PartialEq)]
pub enum Actions {
    /// Chosen index per head, i32 `[rows, n_heads]`.
    Discrete(Vec<i32>),
    /// Samples before they are clipped or squashed, f32 `[rows, dim]`.
    Continuous(Vec<f32>),
}

/// [`Actions`], borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActionsRef<'a> {
    /// Chosen index per head, i32 `[rows, n_heads]`.
    Discrete(&'a [i32]),
    /// Samples before they are clipped or squashed, f32 `[rows, dim]`.
    Continuous(&'a [f32]),
}

impl Default for Actions {
    fn default() -> Self {
        Self::Discrete(Vec::new())
    }
}

impl Actions {
    /// Zeros for `n_rows` rows of `layout`.
    #[must_use]
    pub fn new(layout: &ActionLayout, n_rows: usize) -> Self {
        let n = n_rows * layout.action_width();
        match layout {
            ActionLayout::Discrete(_) => Self::Discrete(vec![0; n]),
            ActionLayout::Continuous(_) => Self::Continuous(vec![0.0; n]),
        }
    }

    /// All rows.
    #[must_use]
    pub fn view(&self) -> ActionsRef<'_> {
        match self {
            Self::Discrete(actions) => ActionsRef::Discrete(actions),
            Self::Continuous(raw) => ActionsRef::Continuous(raw),
        }
    }

    /// The rows in `rows`, to be drawn; `bounded` is for what the environment gets of continuous ones.
    pub fn rows_mut<'a>(
        &'a mut self,
        rows: Range<usize>,
        width: usize,
        bounded: &'a mut [f32],
    ) -> ActionsMut<'a> {
        let range = rows.start * width..rows.end * width;
        match self {
            Self::Discrete(actions) => ActionsMut::Discrete(&mut actions[range]),
            Self::Continuous(raw) => ActionsMut::Continuous { raw: &mut raw[range], bounded },
        }
    }

    /// Becomes the rows `picked` of `source`, each of `width` numbers.
    pub(crate) fn pick(&mut self, source: &Actions, picked: &[u32], width: usize) {
        match (&mut *self, source) {
            (Self::Discrete(to), Self::Discrete(from)) => pick_rows(to, from, picked, width),
            (Self::Continuous(to), Self::Continuous(from)) => pick_rows(to, from, picked, width),
            (_, Self::Discrete(_)) => {
                *self = Self::Discrete(Vec::new());
                self.pick(source, picked, width);
            }
            (_, Self::Continuous(_)) => {
                *self = Self::Continuous(Vec::new());
                self.pick(source, picked, width);
            }
        }
    }
}

impl<'a> ActionsRef<'a> {
    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Discrete(actions) => actions.len(),
            Self::Continuous(raw) => raw.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows in `rows`, each of `width` numbers.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>, width: usize) -> ActionsRef<'a> {
        let range = rows.start * width..rows.end * width;
        match self {
            Self::Discrete(actions) => ActionsRef::Discrete(&actions[range]),
            Self::Continuous(raw) => ActionsRef::Continuous(&raw[range]),
        }
    }
}

/// Makes of `target` the rows `picked` of `source`.
pub(crate) fn pick_rows<T: Copy>(target: &mut Vec<T>, source: &[T], picked: &[u32], width: usize) {
    target.clear();
    for at in picked {
        target.extend_from_slice(&source[*at as usize * width..][..width]);
    }
}
