//! From a rollout to minibatches: which samples count, in what order, gathered into one piece.

use crate::algorithm::PolicyMetrics;
use crate::engine::rollout::PolicyRollout;
use crate::error::Result;
use crate::loss::actions::{Actions, pick_rows};
use crate::loss::gae::Trajectory;
use crate::loss::{LossMetrics, Minibatch};
pub use crate::network::TrainablePolicy;
use std::ops::Range;
use warp_core::Draw;

/// The samples of a rollout that count, and room for a minibatch of them.
#[derive(Debug, Default)]
pub struct Samples {
    advantages: Vec<f32>,
    returns: Vec<f32>,
    /// `step * n_rows + row` of each sample, in the order of use.
    order: Vec<u32>,
    explained_variance: f64,
    obs: Vec<f32>,
    action_mask: Vec<u8>,
    actions: Actions,
    log_probs: Vec<f32>,
    values: Vec<f32>,
    batch_advantages: Vec<f32>,
    batch_returns: Vec<f32>,
}

impl Samples {
    /// Computes advantages and returns with `estimate(trajectory, advantages, returns)` and selects
    /// the samples whose agent was in the game.
    ///
    /// # Errors
    /// As [`TrainablePolicy::values`].
    pub fn fill(
        &mut self,
        policy: &mut dyn TrainablePolicy,
        rollout: &mut PolicyRollout,
        estimate: impl FnOnce(Trajectory<'_>, &mut [f32], &mut [f32]),
    ) -> Result<()> {
        let mut cut = vec![0.0; rollout.truncated.at.len()];
        if !cut.is_empty() {
            policy.values(&rollout.truncated.obs, &mut cut)?;
        }
        for (at, value) in rollout.truncated.at.iter().zip(cut) {
            rollout.truncated_values[*at] = value;
        }
        let cells = rollout.rewards.len();
        self.advantages.resize(cells, 0.0);
        self.returns.resize(cells, 0.0);
        let trajectory = Trajectory {
            n_rows: rollout.n_rows,
            rewards: &rollout.rewards,
            values: &rollout.values[..cells],
            ended: &rollout.ended,
            truncated_values: &rollout.truncated_values,
            last_values: &rollout.values[cells..],
        };
        estimate(trajectory, &mut self.advantages, &mut self.returns);
        let in_game = |cell: &u32| rollout.weights.get(*cell as usize).is_none_or(|w| *w > 0.0);
        self.order.clear();
        self.order.extend((0..cells as u32).filter(in_game));
        self.explained_variance = self.explain(&rollout.values);
        Ok(())
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// 1 - variance of (return - value) / variance of the return; 0 if returns do not vary.
    #[must_use]
    pub fn explained_variance(&self) -> f64 {
        self.explained_variance
    }

    /// Puts the samples in a random order (Fisher and Yates).
    pub fn shuffle(&mut self, mut draw: Draw) {
        for i in (1..self.order.len()).rev() {
            self.order.swap(i, draw.below(i as u32 + 1) as usize);
        }
    }

    /// The samples `range` of the current order as one minibatch.
    pub fn gather(
        &mut self,
        rollout: &PolicyRollout,
        range: Range<usize>,
        norm_adv: bool,
    ) -> Minibatch<'_> {
        let picked = &self.order[range];
        pick_rows(&mut self.obs, &rollout.obs, picked, rollout.width);
        self.actions.pick(&rollout.actions, picked, rollout.layout.action_width());
        pick_rows(&mut self.log_probs, &rollout.log_probs, picked, 1);
        pick_rows(&mut self.values, &rollout.values, picked, 1);
        pick_rows(&mut self.batch_advantages, &self.advantages, picked, 1);
        pick_rows(&mut self.batch_returns, &self.returns, picked, 1);
        let masked = !rollout.action_mask.is_empty();
        if masked {
            pick_rows(
                &mut self.action_mask,
                &rollout.action_mask,
                picked,
                rollout.layout.mask_width(),
            );
        }
        if norm_adv {
            normalise(&mut self.batch_advantages);
        }
        Minibatch {
            observations: &self.obs,
            actions: self.actions.view(),
            log_probs: &self.log_probs,
            advantages: &self.batch_advantages,
            returns: &self.batch_returns,
            values: &self.values,
            weights: None,
            action_mask: masked.then_some(&*self.action_mask),
        }
    }

    fn explain(&self, values: &[f32]) -> f64 {
        let returns = || self.order.iter().map(|at| f64::from(self.returns[*at as usize]));
        let missed = || {
            self.order.iter().map(|at| f64::from(self.returns[*at as usize] - values[*at as usize]))
        };
        let total = variance(returns);
        if total > 0.0 { 1.0 - variance(missed) / total } else { 0.0 }
    }
}

fn variance<I: Iterator<Item = f64>>(numbers: impl Fn() -> I) -> f64 {
    let n = numbers().count().max(1) as f64;
    let mean = numbers().sum::<f64>() / n;
    numbers().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n
}

/// Mean 0 and (unbiased, as in CleanRL) deviation 1; a lone sample is left as it is.
fn normalise(numbers: &mut [f32]) {
    if numbers.len() < 2 {
        return;
    }
    let n = numbers.len() as f64;
    let mean = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let squares = numbers.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
    let scale = 1.0 / ((squares / (n - 1.0)).sqrt() + 1e-8);
    numbers.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) * scale) as f32);
}

impl PolicyMetrics {
    /// Adds a minibatch's figures.
    pub(crate) fn add(&mut self, seen: &LossMetrics) {
        self.loss += seen.loss;
        self.policy_loss += seen.policy_loss;
        self.value_loss += seen.value_loss;
        self.entropy += seen.entropy;
        self.approx_kl += seen.approx_kl;
        self.clip_fraction += seen.clip_fraction;
    }

    /// Turns sums over `n` minibatches into means.
    pub(crate) fn divide(&mut self, n: usize) {
        let n = n.max(1) as f64;
        for figure in [
            &mut self.loss,
            &mut self.policy_loss,
            &mut self.value_loss,
            &mut self.entropy,
            &mut self.approx_kl,
            &mut self.clip_fraction,
            &mut self.grad_norm,
        ] {
            *figure /= n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::Purpose;

    #[test]
    fn shuffling_permutes() {
        let mut samples = Samples { order: (0..1000).collect(), ..Samples::default() };
        samples.shuffle(Draw::new(1, 0, 0, Purpose::Shuffle));
        assert_ne!(samples.order, (0..1000).collect::<Vec<_>>());
        let moved = samples.order.iter().enumerate().filter(|(i, at)| *i as u32 != **at).count();
        assert!(moved > 950, "{moved}");
        samples.order.sort_unstable();
        assert_eq!(samples.order, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn normalised_numbers_have_mean_0_and_deviation_1() {
        let mut numbers = [1.0, 2.0, 3.0, 6.0];
        normalise(&mut numbers);
        assert!(numbers.iter().sum::<f32>().abs() < 1e-6);
        assert!((numbers.iter().map(|x| x * x).sum::<f32>() / 3.0 - 1.0).abs() < 1e-6);
        let mut lone = [5.0];
        normalise(&mut lone);
        assert_eq!(lone, [5.0]);
    }
}
