//! Metrics of updates, by the names that algorithms give them.

use serde::Serialize;

/// What an update from a rollout did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PolicyMetrics {
    /// Step size used.
    pub learning_rate: f64,
    /// Whole loss, mean over minibatches.
    pub loss: f64,
    /// Policy loss.
    pub policy_loss: f64,
    /// Value loss, before its coefficient.
    pub value_loss: f64,
    /// Entropy, nats, summed over heads or elements.
    pub entropy: f64,
    /// Estimate of the divergence from the policy that collected the rollout.
    pub approx_kl: f64,
    /// Fraction of samples whose probability ratio moved beyond `clip_coef`.
    pub clip_fraction: f64,
    /// 1 - Var(returns - values) / Var(returns).
    pub explained_variance: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
}

/// What one policy's updates did: figures by the names that its algorithm gives them, in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyFigures(Vec<(&'static str, f64)>);

impl PolicyFigures {
    /// The figure called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, figure)| *figure)
    }

    /// Names and figures.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.0.iter().copied()
    }

    /// Puts `change(name, figure)` in the place of every figure.
    pub(crate) fn change(&mut self, change: impl Fn(&str, f64) -> f64) {
        self.0.iter_mut().for_each(|(name, figure)| *figure = change(name, *figure));
    }
}

impl FromIterator<(&'static str, f64)> for PolicyFigures {
    fn from_iter<I: IntoIterator<Item = (&'static str, f64)>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

impl From<PolicyMetrics> for PolicyFigures {
    fn from(of: PolicyMetrics) -> Self {
        Self(vec![
            ("learning_rate", of.learning_rate),
            ("loss", of.loss),
            ("policy_loss", of.policy_loss),
            ("value_loss", of.value_loss),
            ("entropy", of.entropy),
            ("approx_kl", of.approx_kl),
            ("clip_fraction", of.clip_fraction),
            ("explained_variance", of.explained_variance),
            ("grad_norm", of.grad_norm),
        ])
    }
}

impl Serialize for PolicyFigures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
