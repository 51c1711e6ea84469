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
    pub(crate) fn pick(&mut self, source: ActionsRef<'_>, picked: &[u32], width: usize) {
        match (&mut *self, source) {
            (Self::Discrete(to), ActionsRef::Discrete(from)) => pick_rows(to, from, picked, width),
            (Self::Continuous(to), ActionsRef::Continuous(from)) => {
                pick_rows(to, from, picked, width);
            }
            (_, ActionsRef::Discrete(_)) => {
                *self = Self::Discrete(Vec::new());
                self.pick(source, picked, width);
            }
            (_, ActionsRef::Continuous(_)) => {
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
    // Rows as short as these would spend their time in calls.
    match width {
        1 => pick_short::<T, 1>(target, source, picked),
        2 => pick_short::<T, 2>(target, source, picked),
        3 => pick_short::<T, 3>(target, source, picked),
        4 => pick_short::<T, 4>(target, source, picked),
        6 => pick_short::<T, 6>(target, source, picked),
        8 => pick_short::<T, 8>(target, source, picked),
        _ => {
            target.clear();
            for at in picked {
                target.extend_from_slice(&source[*at as usize * width..][..width]);
            }
        }
    }
}

fn pick_short<T: Copy, const WIDTH: usize>(target: &mut Vec<T>, source: &[T], picked: &[u32]) {
    let (rows, _) = source.as_chunks::<WIDTH>();
    let Some(any) = source.first() else { return target.clear() };
    target.resize(picked.len() * WIDTH, *any);
    for (to, at) in target.as_chunks_mut::<WIDTH>().0.iter_mut().zip(picked) {
        *to = rows[*at as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_width_are_picked() {
        for width in 1..=20 {
            let source: Vec<usize> = (0..7 * width).collect();
            let mut target = vec![99; 3];
            for picked in [vec![6, 0, 3, 3], vec![], vec![2]] {
                pick_rows(&mut target, &source, &picked, width);
                let wanted = |at: &u32| *at as usize * width..(*at as usize + 1) * width;
                assert_eq!(target, picked.iter().flat_map(wanted).collect::<Vec<_>>());
            }
        }
    }
}
