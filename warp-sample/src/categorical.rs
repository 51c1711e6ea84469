//! Categorical and multi-discrete actions for a batch of rows, masked or not, sampled or greedy.
//!
//! One pass over the logits gives actions, log-probabilities and entropies. A row's random numbers
//! are identified by [`Rows`]: head `h` uses number `h` of the stream (seed, replica, agent, step,
//! [`Purpose::Action`]).

use crate::error::{Error, Result};
use crate::head::{Choices, Head, LANES, Pick};
use crate::rows::{Mode, Rows, check_length};
use warp_core::Purpose;

/// Where the results of [`CategoricalLayout::sample`] go.
#[derive(Debug)]
pub struct Samples<'a> {
    /// Chosen index per head, i32 `[rows, n_heads]`.
    pub actions: &'a mut [i32],
    /// Log-probability of the row's actions, summed over heads, f32 `[rows]`; in nats, at most 0.
    pub log_probs: &'a mut [f32],
    /// Entropy of the row's distributions, summed over heads, f32 `[rows]`; in nats, at least 0.
    pub entropies: &'a mut [f32],
}

/// The discrete heads of an action and where their logits lie in a row: one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoricalLayout {
    sizes: Vec<usize>,
    width: usize,
}

impl CategoricalLayout {
    /// A layout of one head per element of `sizes`, which are the numbers of choices.
    ///
    /// [`warp_core::Space::head_sizes`] gives them for an action space.
    ///
    /// # Errors
    ///
    /// If there is no head, or a head has no choice or more than 2^31 - 1.
    pub fn new(sizes: &[usize]) -> Result<Self> {
        if sizes.is_empty() {
            return Err(Error::NoHeads);
        }
        let bad = |size: &usize| *size == 0 || i32::try_from(*size).is_err();
        if let Some(head) = sizes.iter().position(bad) {
            return Err(Error::HeadSize { head, size: sizes[head] });
        }
        Ok(Self { sizes: sizes.to_vec(), width: sizes.iter().sum() })
    }

    /// Number of choices per head.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Number of heads, which is the width of a row of actions.
    pub fn n_heads(&self) -> usize {
        self.sizes.len()
    }

    /// Sum of the sizes, which is the width of a row of logits and of a mask.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Chooses an action for every row.
    ///
    /// `logits` is f32 `[rows, width]`, `mask` u8 `[rows, width]` with 0 for a choice that is
    /// forbidden. A logit of negative infinity is a probability of 0. A choice whose probability is
    /// 0, be it forbidden or too small for an f32, is never made. Log-probabilities and entropies
    /// are those of the softmax over the allowed choices, in either mode.
    ///
    /// # Errors
    ///
    /// If an array's length does not fit, if a logit is NaN or positive infinity (forbidden or
    /// not), or if a head has no choice left. In the last two cases the results hold no meaning.
    pub fn sample(
        &self,
        logits: &[f32],
        mask: Option<&[u8]>,
        rows: &Rows,
        mode: Mode,
        out: Samples<'_>,
    ) -> Result<()> {
        let n = out.log_probs.len();
        check_length("logits", logits.len(), self.width, n)?;
        check_length("actions", out.actions.len(), self.n_heads(), n)?;
        check_length("entropies", out.entropies.len(), 1, n)?;
        self.check_rows(mask, rows, n)?;
        for first in (0..n).step_by(LANES) {
            let last = n.min(first + LANES);
            let part = first * self.width..last * self.width;
            let (logits, mask) = (&logits[part.clone()], mask.map(|mask| &mask[part.clone()]));
            let mut out = Samples {
                actions: &mut out.actions[first * self.n_heads()..last * self.n_heads()],
                log_probs: &mut out.log_probs[first..last],
                entropies: &mut out.entropies[first..last],
            };
            self.sample_block(logits, mask, rows, first, mode, &mut out)
                .ok_or_else(|| self.fault(logits, mask, first))?;
        }
        Ok(())
    }

    /// At most [`LANES`] rows, of which the first has the number given; nothing if any is at fault.
    fn sample_block(
        &self,
        logits: &[f32],
        mask: Option<&[u8]>,
        rows: &Rows,
        first_row: usize,
        mode: Mode,
        out: &mut Samples<'_>,
    ) -> Option<()> {
        // Not `all`, which stops at the first and so does not vectorise. False for NaN, too.
        let sound = logits.iter().fold(true, |sound, logit| sound & (*logit < f32::INFINITY));
        if !sound {
            return None;
        }
        let mut uniforms = [[0.0; LANES]; 4];
        let mut first = 0;
        for (head, &size) in self.sizes.iter().enumerate() {
            let one = Head { logits, mask, width: self.width, first, size };
            if mode == Mode::Sample && head % 4 == 0 {
                uniforms = rows.uniform_lanes(first_row, out.log_probs.len(), head / 4);
            }
            let choices = one.choose(match mode {
                Mode::Sample => Pick::At(&uniforms[head % 4]),
                Mode::Greedy => Pick::Largest,
            })?;
            self.write(head, &choices, out);
            first += size;
        }
        Some(())
    }

    /// Writes one head's choices, and adds to the rows' sums.
    fn write(&self, head: usize, choices: &Choices, out: &mut Samples<'_>) {
        let rows = out.actions.chunks_exact_mut(self.n_heads());
        for (row, action) in rows.zip(&choices.actions) {
            row[head] = *action;
        }
        let totals = out.log_probs.iter_mut().zip(out.entropies.iter_mut());
        let values = choices.log_probs.iter().zip(&choices.entropies);
        for ((log_prob, entropy), (of_head, entropy_of_head)) in totals.zip(values) {
            *log_prob = if head == 0 { *of_head } else { *log_prob + of_head };
            *entropy = if head == 0 { *entropy_of_head } else { *entropy + entropy_of_head };
        }
    }

    /// What is wrong with the first row at fault.
    #[cold]
    fn fault(&self, logits: &[f32], mask: Option<&[u8]>, first_row: usize) -> Error {
        let bad = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
        let mut first = 0;
        let n_rows = logits.len() / self.width;
        let heads = (0..n_rows * self.n_heads()).map(|i| (i / self.n_heads(), i % self.n_heads()));
        for (row, head) in heads {
            let (row, part) = (first_row + row, first..first + self.sizes[head]);
            if let Some(choice) = logits[part.clone()].iter().position(bad) {
                return Error::Logit { row, head, choice, value: logits[first + choice] };
            }
            let allowed = |i: usize| mask.is_none_or(|mask| mask[i] != 0);
            if !part.clone().any(|i| allowed(i) && logits[i] > f32::NEG_INFINITY) {
                return Error::NothingAllowed { row, head };
            }
            first = part.end;
        }
        unreachable!("a block at fault has a row at fault")
    }

    /// Chooses an action for every row without a policy: each allowed choice is equally likely.
    ///
    /// `mask` is as for [`CategoricalLayout::sample`], `actions` i32 `[rows, n_heads]`. Head `h`
    /// takes draw `h` of the row's stream for [`Purpose::RandomAction`].
    ///
    /// # Errors
    ///
    /// If an array's length does not fit, or if a head has no choice left; rows before that one are
    /// written already.
    pub fn random_actions(
        &self,
        mask: Option<&[u8]>,
        rows: &Rows,
        actions: &mut [i32],
    ) -> Result<()> {
        let n = actions.len() / self.n_heads();
        check_length("actions", actions.len(), self.n_heads(), n)?;
        self.check_rows(mask, rows, n)?;
        for (row, actions) in actions.chunks_exact_mut(self.n_heads()).enumerate() {
            let (replica, agent) = (rows.replica(row), rows.agent(row));
            let mut draw = rows.stream(replica, agent, Purpose::RandomAction);
            let mut first = row * self.width;
            for (head, (&size, action)) in self.sizes.iter().zip(actions).enumerate() {
                *action = match mask {
                    None => draw.below(size as u32),
                    Some(mask) => {
                        let mask = &mask[first..first + size];
                        let n_allowed = mask.iter().filter(|m| **m != 0).count();
                        nth_allowed(mask, draw.below(n_allowed as u32))
                            .ok_or(Error::NothingAllowed { row, head })?
                    }
                } as i32;
                first += size;
            }
        }
        Ok(())
    }

    fn check_rows(&self, mask: Option<&[u8]>, rows: &Rows, n: usize) -> Result<()> {
        if let Some(mask) = mask {
            check_length("mask", mask.len(), self.width, n)?;
        }
        if rows.n_agents == 0 { Err(Error::NoAgents) } else { Ok(()) }
    }
}

fn nth_allowed(mask: &[u8], nth: u32) -> Option<u32> {
    let allowed = mask.iter().enumerate().filter(|(_, m)| **m != 0);
    allowed.map(|(choice, _)| choice as u32).nth(nth as usize)
}
