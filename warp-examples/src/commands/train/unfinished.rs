//! Tells of evaluations during training whose episodes did not end.

use crate::output::tell;
use warp_train::callback::Flow;
use warp_train::evaluate::Evaluation;
use warp_train::{Callback, Result, Trainer};

/// Tells it once: each of them is in `metrics.jsonl`.
#[derive(Debug, Default)]
pub(super) struct UnfinishedWatch {
    has_told: bool,
}

impl Callback for UnfinishedWatch {
    fn evaluation(&mut self, trainer: &Trainer, evaluation: &Evaluation) -> Result<Flow> {
        let words = evaluation.unfinished_words(trainer.config());
        if let Some(words) = words.filter(|_| !self.has_told) {
            tell(&format!("warning: evaluation at step {}: {words}", trainer.env_steps()));
            self.has_told = true;
        }
        Ok(Flow::Continue(()))
    }
}
