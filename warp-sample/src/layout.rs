//! Any action, discrete or continuous, behind one type: what a policy's outputs mean.

use crate::categorical::{CategoricalLayout, Samples};
use crate::error::{Error, Result};
use crate::gaussian::{GaussianLayout, GaussianSamples};
use crate::rows::{Mode, Rows};

/// What a policy's outputs mean and what its actions are.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionLayout {
    /// Discrete heads: outputs are logits, actions i32.
    Discrete(CategoricalLayout),
    /// Elements of a box: outputs are means and log standard deviations, actions f32.
    Continuous(GaussianLayout),
}

/// Room for the actions of some rows.
#[derive(Debug)]
pub enum ActionsMut<'a> {
    /// Chosen index per head, i32 `[rows, n_heads]`.
    Discrete(&'a mut [i32]),
    /// Elements of a box.
    Continuous {
        /// Samples before bounding, f32 `[rows, dim]`.
        raw: &'a mut [f32],
        /// The values passed to the environment, f32 `[rows, dim]`.
        bounded: &'a mut [f32],
    },
}

/// Room for the actions of some rows, and for what is known of them.
#[derive(Debug)]
pub struct ActionSamples<'a> {
    /// What is chosen.
    pub actions: ActionsMut<'a>,
    /// f32 `[rows]`.
    pub log_probs: &'a mut [f32],
    /// f32 `[rows]`.
    pub entropies: &'a mut [f32],
}

impl ActionLayout {
    /// Width of a policy's outputs per row: the sum of the heads' sizes, or mean and log standard
    /// deviation of each element.
    pub fn output_width(&self) -> usize {
        match self {
            Self::Discrete(heads) => heads.width(),
            Self::Continuous(elements) => 2 * elements.dim(),
        }
    }

    /// Numbers in one action: heads or elements.
    pub fn action_width(&self) -> usize {
        match self {
            Self::Discrete(heads) => heads.n_heads(),
            Self::Continuous(elements) => elements.dim(),
        }
    }

    /// Numbers in one row of an action mask: the sum of the heads' sizes; 0 for a box.
    pub fn mask_width(&self) -> usize {
        match self {
            Self::Discrete(heads) => heads.width(),
            Self::Continuous(_) => 0,
        }
    }

    /// Sizes of the discrete heads; none for a box.
    pub fn head_sizes(&self) -> &[usize] {
        match self {
            Self::Discrete(heads) => heads.sizes(),
            Self::Continuous(_) => &[],
        }
    }

    /// Chooses an action for every row: [`CategoricalLayout::sample`] or [`GaussianLayout::sample`].
    ///
    /// `outputs` is f32 `[rows, output_width]`.
    ///
    /// # Errors
    ///
    /// As those two; or `actions` of the other kind, or a mask over a box.
    pub fn sample(
        &self,
        outputs: &[f32],
        mask: Option<&[u8]>,
        rows: &Rows,
        mode: Mode,
        out: ActionSamples<'_>,
    ) -> Result<()> {
        let ActionSamples { actions, log_probs, entropies } = out;
        match (self, actions) {
            (Self::Discrete(heads), ActionsMut::Discrete(actions)) => {
                let out = Samples { actions, log_probs, entropies };
                heads.sample(outputs, mask, rows, mode, out)
            }
            (Self::Continuous(elements), ActionsMut::Continuous { raw, bounded }) => {
                check_no_mask(mask)?;
                let out = GaussianSamples { raw, actions: bounded, log_probs, entropies };
                elements.sample(outputs, rows, mode, out)
            }
            _ => Err(Error::OtherKind),
        }
    }

    /// Chooses an action for every row without a policy. Of a box, `bounded` is written and `raw` left.
    ///
    /// # Errors
    ///
    /// As [`CategoricalLayout::random_actions`]; or `actions` of the other kind, or a mask over a box.
    pub fn random_actions(
        &self,
        mask: Option<&[u8]>,
        rows: &Rows,
        actions: ActionsMut<'_>,
    ) -> Result<()> {
        match (self, actions) {
            (Self::Discrete(heads), ActionsMut::Discrete(actions)) => {
                heads.random_actions(mask, rows, actions)
            }
            (Self::Continuous(elements), ActionsMut::Continuous { bounded, .. }) => {
                check_no_mask(mask)?;
                elements.random_actions(rows, bounded)
            }
            _ => Err(Error::OtherKind),
        }
    }
}

fn check_no_mask(mask: Option<&[u8]>) -> Result<()> {
    if mask.is_none() { Ok(()) } else { Err(Error::MaskedBox) }
}
