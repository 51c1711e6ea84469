//! Ornstein-Uhlenbeck noise: exploration of continuous actions that keeps its sign for a while.
//!
//! Uhlenbeck & Ornstein, "On the theory of the Brownian motion", 1930, in discrete time: each
//! element's noise is `x = (1 - damping) x + stddev z` with a standard normal `z`, and the action is
//! the mean plus `scale x`, clipped to its bounds. In the long run `x` has mean 0, standard deviation
//! `stddev / sqrt(1 - (1 - damping)^2)` and, over `k` steps, the correlation `(1 - damping)^k`.

use crate::error::{Error, Result};
use crate::gaussian::GaussianLayout;
use crate::rows::{Rows, check_length};
use warp_core::Purpose;

/// The process's coefficients. Its state is an array of the caller's, f32 `[rows, dim]`, that starts
/// with zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrnsteinUhlenbeck {
    damping: f32,
    stddev: f32,
    scale: f32,
}

impl OrnsteinUhlenbeck {
    /// Noise that decays by the fraction `damping` in each step and gains `stddev` times a normal
    /// sample; `scale` times the noise is added to actions.
    ///
    /// # Errors
    ///
    /// If `damping` is not within 0..=1, or another number is negative or not finite.
    pub fn new(damping: f32, stddev: f32, scale: f32) -> Result<Self> {
        let refuse =
            |coefficient, value, expected| Err(Error::Noise { coefficient, value, expected });
        if !(0.0..=1.0).contains(&damping) {
            return refuse("damping", damping, "a number between 0 and 1");
        }
        for (coefficient, value) in [("stddev", stddev), ("scale", scale)] {
            if !(value.is_finite() && value >= 0.0) {
                return refuse(coefficient, value, "a finite number that is not negative");
            }
        }
        Ok(Self { damping, stddev, scale })
    }

    /// Damping, standard deviation per step, and scale.
    pub fn coefficients(&self) -> [f32; 3] {
        [self.damping, self.stddev, self.scale]
    }

    /// Moves the noise by one step and adds it to `means`; all arrays f32 `[rows, dim]`. Actions are
    /// clipped to the layout's bounds, however it treats samples.
    ///
    /// Element `d` of a row uses the `d`-th normal sample of the row's stream for [`Purpose::Noise`].
    ///
    /// # Errors
    ///
    /// If the arrays differ in length or are not of whole rows.
    pub fn apply(
        &self,
        layout: &GaussianLayout,
        means: &[f32],
        rows: &Rows,
        noise: &mut [f32],
        actions: &mut [f32],
    ) -> Result<()> {
        let (dim, n) = (layout.dim(), means.len() / layout.dim());
        check_length("means", means.len(), dim, n)?;
        check_length("noise", noise.len(), dim, n)?;
        check_length("actions", actions.len(), dim, n)?;
        if rows.n_agents == 0 {
            return Err(Error::NoAgents);
        }
        let parts = means.chunks_exact(dim).zip(noise.chunks_exact_mut(dim));
        for (row, ((means, noise), actions)) in parts.zip(actions.chunks_exact_mut(dim)).enumerate()
        {
            let mut draw = rows.stream(rows.replica(row), rows.agent(row), Purpose::Noise);
            for (i, (mean, x)) in means.iter().zip(noise).enumerate() {
                *x = (1.0 - self.damping) * *x + self.stddev * draw.normal();
                actions[i] = layout.clip(i, mean + self.scale * *x);
            }
        }
        Ok(())
    }

    /// Sets the noise of all agents to 0 in replicas where `ended`, u8 `[n_replicas]`, is not: their
    /// next step begins an episode. `noise` is f32 `[n_replicas, n_agents, dim]`.
    ///
    /// # Errors
    ///
    /// If the noise is not of whole replicas.
    pub fn reset(ended: &[u8], noise: &mut [f32]) -> Result<()> {
        let per_replica = noise.len() / ended.len().max(1);
        check_length("noise", noise.len(), per_replica, ended.len())?;
        for (noise, _) in
            noise.chunks_exact_mut(per_replica.max(1)).zip(ended).filter(|(_, ended)| **ended != 0)
        {
            noise.fill(0.0);
        }
        Ok(())
    }
}
