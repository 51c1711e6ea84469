//! SAC's temperature: the weight of the entropy, given or learned.
//!
//! A learned one is a model without inputs, whose only parameter is ln(alpha).

use super::plan_builder::{LearningPass, PlanBuilder};
use super::{CellId, ColumnId, Engine, Gradients, ModelId, OptimiserId};
use crate::algorithm::PolicyPlan;
use crate::error::Result;
use crate::model::Perceptron;

/// ln(alpha), and what learns it.
#[derive(Debug)]
pub(super) struct Temperature {
    /// ln(alpha), batch or shared `[1]`.
    pub(super) log_alpha: ColumnId,
    pub(super) learned: Option<Learned>,
    step: Option<OptimiserId>,
}

/// A temperature that is learned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned {
    model: ModelId,
    pub(super) pass: LearningPass,
}

impl Temperature {
    pub(super) fn plan(plan: &mut PlanBuilder, policy: &PolicyPlan) -> Self {
        let keys = &policy.config;
        if let Some(alpha) = keys.alpha {
            let log_alpha = plan.shared("log_alpha", &[alpha.ln() as f32]);
            return Self { log_alpha, learned: None, step: None };
        }
        let bias = vec![keys.alpha_start.ln() as f32];
        let hidden = Vec::new();
        let network =
            Perceptron { hidden, bias, layer_norm: false, ..PlanBuilder::perceptron(policy, 0, 1) };
        let model = plan.model("temperature", network);
        let pass = plan.pass_and_back("log_alpha", model, &[]);
        Self { log_alpha: pass.output, learned: Some(Learned { model, pass }), step: None }
    }

    /// This temperature with an optimiser, if it is learned. Decay would draw the temperature towards 1, which means nothing.
    pub(super) fn with_rate(
        self,
        plan: &mut PlanBuilder,
        rate: CellId,
        policy: &PolicyPlan,
    ) -> Self {
        let optimiser =
            |own: Learned| plan.optimiser_without_decay("temperature", &[own.model], rate, policy);
        let step = self.learned.map(optimiser);
        Self { step, ..self }
    }

    /// Gives ln(alpha) to every row.
    pub(super) fn forward(&self, engine: &mut dyn Engine) -> Result<()> {
        self.learned.map_or(Ok(()), |learned| engine.forward(&[learned.pass.pass]))
    }

    /// Takes a step along what its loss has written.
    pub(super) fn learn(&self, engine: &mut dyn Engine) -> Result<()> {
        let (Some(learned), Some(step)) = (self.learned, self.step) else { return Ok(()) };
        engine.backward(&[learned.pass.pass], Gradients::OfParameters)?;
        engine.step(step)
    }
}
