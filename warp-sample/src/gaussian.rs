//! Gaussian actions for a batch of rows: sampled or greedy, then clipped or squashed into a Box.
//!
//! One pass over the parameters gives raw samples, actions, log-probabilities and entropies. A row's
//! random numbers are identified by [`Rows`]: element `d` uses numbers `2 d` and `2 d + 1` of the
//! stream (seed, replica, agent, step, [`Purpose::Action`]), that is, the stream's `d`-th normal
//! sample.

use crate::bounding::Bounding;
use crate::density::{UNIT_ENTROPY, log_slope, mean_log_slope, mean_log_slopes, normal};
use crate::error::{Error, Result};
use crate::head::LANES;
use crate::rows::{Mode, Rows, check_length};
use warp_core::Purpose;
use warp_core::math;

/// Where the results of [`GaussianLayout::sample`] go.
#[derive(Debug)]
pub struct GaussianSamples<'a> {
    /// Samples before bounding, f32 `[rows, dim]`; a log-probability is recomputed from them.
    pub raw: &'a mut [f32],
    /// The values passed to the environment, f32 `[rows, dim]`, within the bounds.
    pub actions: &'a mut [f32],
    /// Log-density of the row's action, summed over its elements, f32 `[rows]`; in nats.
    pub log_probs: &'a mut [f32],
    /// Entropy of the row's distribution, summed over its elements, f32 `[rows]`; in nats. Squashed:
    /// within the error of [`mean_log_slope`].
    pub entropies: &'a mut [f32],
}

/// The elements of a continuous action and how they are bounded.
///
/// A row of parameters is `[mean_0 .. mean_dim, log_std_0 .. log_std_dim]`. Log standard deviations
/// are clamped to [`GaussianLayout::log_std_range`] before use.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianLayout {
    low: Vec<f32>,
    high: Vec<f32>,
    bounding: Bounding,
    log_std_range: (f32, f32),
    /// Squash: middle, half of the range and its logarithm, per element.
    scale: Vec<[f32; 3]>,
}

impl GaussianLayout {
    /// A layout of one element per bound. Log standard deviations are kept within -5..=2.
    ///
    /// # Errors
    ///
    /// If there is no element, the bounds differ in number or are not in order, or a bound that is
    /// to be squashed into is not finite.
    pub fn new(low: &[f32], high: &[f32], bounding: Bounding) -> Result<Self> {
        if low.is_empty() || low.len() != high.len() {
            return Err(Error::Bounds { low: low.len(), high: high.len() });
        }
        let fits = |(low, high): (&f32, &f32)| match bounding {
            Bounding::Clip => low <= high,
            Bounding::Squash => low < high && low.is_finite() && high.is_finite(),
        };
        if let Some(element) = low.iter().zip(high).position(|pair| !fits(pair)) {
            let (low, high) = (low[element], high[element]);
            return Err(Error::Bound { element, low, high, bounding });
        }
        let scale = |(low, high): (&f32, &f32)| match bounding {
            Bounding::Clip => [0.0, 1.0, 0.0],
            Bounding::Squash => {
                let half = 0.5 * high - 0.5 * low;
                [0.5 * high + 0.5 * low, half, math::ln(half)]
            }
        };
        Ok(Self {
            low: low.to_vec(),
            high: high.to_vec(),
            bounding,
            log_std_range: (-5.0, 2.0),
            scale: low.iter().zip(high).map(scale).collect(),
        })
    }

    /// This layout with log standard deviations between `min` and `max`.
    ///
    /// # Errors
    ///
    /// If the range is empty or reaches beyond -20..=20, where an f32 overflows.
    pub fn with_log_std_range(self, min: f32, max: f32) -> Result<Self> {
        if -20.0 <= min && min <= max && max <= 20.0 {
            return Ok(Self { log_std_range: (min, max), ..self });
        }
        Err(Error::LogStdRange { min, max })
    }

    /// Number of elements of an action.
    pub fn dim(&self) -> usize {
        self.low.len()
    }

    /// How samples are bounded.
    pub fn bounding(&self) -> Bounding {
        self.bounding
    }

    /// Lowest and highest log standard deviation; values beyond are clamped.
    pub fn log_std_range(&self) -> (f32, f32) {
        self.log_std_range
    }

    /// The log standard deviation that is used for `log_std`.
    #[inline(always)]
    pub fn clamp_log_std(&self, log_std: f32) -> f32 {
        let (min, max) = self.log_std_range;
        let log_std = if log_std < min { min } else { log_std };
        if log_std > max { max } else { log_std }
    }

    /// What bounding adds to the log-density of element `element`'s raw sample, negated: the logarithm
    /// of the action's derivative by the sample. 0 for [`Bounding::Clip`].
    #[inline(always)]
    pub fn log_jacobian(&self, element: usize, raw: f32) -> f32 {
        match self.bounding {
            Bounding::Clip => 0.0,
            Bounding::Squash => self.scale[element][2] + log_slope(raw),
        }
    }

    /// The entropy of element `element` and its derivatives by mean and log standard deviation (within
    /// [`GaussianLayout::log_std_range`]).
    #[inline(always)]
    pub fn entropy(&self, element: usize, mean: f32, log_std: f32) -> [f32; 3] {
        let plain = UNIT_ENTROPY + log_std;
        match self.bounding {
            Bounding::Clip => [plain, 0.0, 1.0],
            Bounding::Squash => {
                let slope = mean_log_slope(mean, math::exp(log_std));
                let value = plain + self.scale[element][2] + slope.value;
                [value, slope.d_mean, 1.0 + slope.d_log_std]
            }
        }
    }

    /// [`GaussianLayout::log_jacobian`] of several samples.
    #[inline(always)]
    pub fn log_jacobians<const N: usize>(&self, element: usize, raw: &[f32; N]) -> [f32; N] {
        let mut found = [0.0; N];
        if self.bounding == Bounding::Squash {
            for i in 0..N {
                found[i] = self.scale[element][2] + log_slope(raw[i]);
            }
        }
        found
    }

    /// [`GaussianLayout::entropy`] of several means and log standard deviations: entropies, derivatives by means and
    /// derivatives by log standard deviations.
    #[inline(always)]
    pub fn entropies<const N: usize>(
        &self,
        element: usize,
        means: &[f32; N],
        log_stds: &[f32; N],
    ) -> [[f32; N]; 3] {
        let (mut entropies, mut d_means, mut d_log_stds) = ([0.0; N], [0.0; N], [1.0; N]);
        for i in 0..N {
            entropies[i] = UNIT_ENTROPY + log_stds[i];
        }
        if self.bounding == Bounding::Squash {
            let mut stds = [0.0; N];
            for i in 0..N {
                stds[i] = math::exp(log_stds[i]);
            }
            let [values, by_mean, by_log_std] = mean_log_slopes(means, &stds);
            for i in 0..N {
                entropies[i] = entropies[i] + self.scale[element][2] + values[i];
                d_means[i] = by_mean[i];
                d_log_stds[i] += by_log_std[i];
            }
        }
        [entropies, d_means, d_log_stds]
    }

    /// The action of element `element` for a raw sample.
    #[inline(always)]
    fn bounded(&self, element: usize, raw: f32) -> f32 {
        let action = match self.bounding {
            Bounding::Clip => raw,
            Bounding::Squash => {
                let [centre, half, _] = self.scale[element];
                centre + half * math::tanh(raw)
            }
        };
        self.clip(element, action)
    }

    /// `action` clipped to the bounds of element `element`.
    #[inline(always)]
    pub(crate) fn clip(&self, element: usize, action: f32) -> f32 {
        let (low, high) = (self.low[element], self.high[element]);
        let action = if action < low { low } else { action };
        if action > high { high } else { action }
    }

    /// Bounds of element `element`, then middle, half of the range and its logarithm.
    pub fn constants(&self, element: usize) -> [f32; 5] {
        let [centre, half, log_half] = self.scale[element];
        [self.low[element], self.high[element], centre, half, log_half]
    }

    /// Turns raw samples into actions, both f32 `[rows, dim]`.
    ///
    /// # Errors
    ///
    /// If the arrays differ in length or are not of whole rows.
    pub fn bound(&self, raw: &[f32], actions: &mut [f32]) -> Result<()> {
        let dim = self.dim();
        check_length("actions", actions.len(), dim, raw.len() / dim)?;
        check_length("raw", raw.len(), dim, raw.len() / dim)?;
        for (raw, actions) in raw.chunks_exact(dim).zip(actions.chunks_exact_mut(dim)) {
            for (element, (raw, action)) in raw.iter().zip(actions).enumerate() {
                *action = self.bounded(element, *raw);
            }
        }
        Ok(())
    }

    /// Chooses an action for every row; [`Mode::Greedy`] takes the mean (before bounding).
    ///
    /// `parameters` is f32 `[rows, 2 dim]`: means, then log standard deviations. Log-probabilities and
    /// entropies are those of the distribution, in either mode.
    ///
    /// # Errors
    ///
    /// If an array's length does not fit, or a parameter is not a finite number; in the last case
    /// the results hold no meaning.
    pub fn sample(
        &self,
        parameters: &[f32],
        rows: &Rows,
        mode: Mode,
        out: GaussianSamples<'_>,
    ) -> Result<()> {
        let (n, dim) = (out.log_probs.len(), self.dim());
        check_length("parameters", parameters.len(), 2 * dim, n)?;
        check_length("raw", out.raw.len(), dim, n)?;
        check_length("actions", out.actions.len(), dim, n)?;
        check_length("entropies", out.entropies.len(), 1, n)?;
        if rows.n_agents == 0 {
            return Err(Error::NoAgents);
        }
        if let Some(at) = parameters.iter().position(|x| !x.is_finite()) {
            let (row, parameter) = (at / (2 * dim), at % (2 * dim));
            return Err(Error::Parameter { row, parameter, value: parameters[at] });
        }
        for first in (0..n).step_by(LANES) {
            let last = n.min(first + LANES);
            let out = GaussianSamples {
                raw: &mut out.raw[first * dim..last * dim],
                actions: &mut out.actions[first * dim..last * dim],
                log_probs: &mut out.log_probs[first..last],
                entropies: &mut out.entropies[first..last],
            };
            self.sample_block(&parameters[first * 2 * dim..last * 2 * dim], rows, first, mode, out);
        }
        Ok(())
    }

    /// At most [`LANES`] rows, of which the first has the number given.
    fn sample_block(
        &self,
        parameters: &[f32],
        rows: &Rows,
        first_row: usize,
        mode: Mode,
        out: GaussianSamples<'_>,
    ) {
        let (n, dim) = (out.log_probs.len(), self.dim());
        let (mut log_probs, mut entropies) = ([0.0; LANES], [0.0; LANES]);
        let mut noise = [[0.0; LANES]; 2];
        for element in 0..dim {
            if mode == Mode::Sample && element % 2 == 0 {
                noise = rows.normal_lanes(first_row, n, element / 2);
            }
            let (mut means, mut log_stds) = ([0.0; LANES], [0.0; LANES]);
            for (row, parameters) in parameters.chunks_exact(2 * dim).enumerate() {
                means[row] = parameters[element];
                log_stds[row] = self.clamp_log_std(parameters[dim + element]);
            }
            let (mut raw, mut actions) = ([0.0; LANES], [0.0; LANES]);
            for i in 0..LANES {
                let (mean, log_std) = (means[i], log_stds[i]);
                raw[i] = mean + math::exp(log_std) * noise[element % 2][i];
                actions[i] = self.bounded(element, raw[i]);
                let density = normal(raw[i], mean, log_std).log_density;
                log_probs[i] += density - self.log_jacobian(element, raw[i]);
                entropies[i] += self.entropy(element, mean, log_std)[0];
            }
            for row in 0..n {
                out.raw[row * dim + element] = raw[row];
                out.actions[row * dim + element] = actions[row];
            }
        }
        out.log_probs.copy_from_slice(&log_probs[..n]);
        out.entropies.copy_from_slice(&entropies[..n]);
    }

    /// Chooses an action for every row without a policy, f32 `[rows, dim]`, as Gymnasium's
    /// `Box.sample`: uniform between two finite bounds, standard normal without any, and one finite
    /// bound plus or minus an exponential number of mean 1.
    ///
    /// Elements use the numbers of the row's stream for [`Purpose::RandomAction`] in turn.
    ///
    /// # Errors
    ///
    /// If the array is not of whole rows.
    pub fn random_actions(&self, rows: &Rows, actions: &mut [f32]) -> Result<()> {
        let dim = self.dim();
        check_length("actions", actions.len(), dim, actions.len() / dim)?;
        if rows.n_agents == 0 {
            return Err(Error::NoAgents);
        }
        for (row, actions) in actions.chunks_exact_mut(dim).enumerate() {
            let (replica, agent) = (rows.replica(row), rows.agent(row));
            let mut draw = rows.stream(replica, agent, Purpose::RandomAction);
            for (action, (&low, &high)) in actions.iter_mut().zip(self.low.iter().zip(&self.high)) {
                *action = match (low.is_finite(), high.is_finite()) {
                    (true, true) => draw.uniform_in(low, high).clamp(low, high),
                    (false, false) => draw.normal(),
                    (true, false) => low - math::ln(1.0 - draw.uniform()),
                    (false, true) => high + math::ln(1.0 - draw.uniform()),
                };
            }
        }
        Ok(())
    }
}
