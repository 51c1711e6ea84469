//! An engine that writes down what an algorithm asks for, so that it can be looked at before any of it is done.

use super::layout::Layout;
use super::op::{BackwardTarget, Op};
use super::ranks::{Division, Exchanged};
use crate::algorithm::{
    Algorithm, CellId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, Plan, RowsId,
    Variant,
};
use crate::error::Result;

/// An engine that does nothing and writes down what it was asked for.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    pub(super) how: How,
    pub(super) ops: Vec<Op>,
}

/// What of a plan and its layout decides which pieces of work there are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    /// Whether gradients are summed in shares.
    pub(super) shared: bool,
    /// Whether samples have priorities.
    pub(super) prioritised: bool,
    /// Whether other ranks learn, too.
    pub(super) ranks: bool,
    /// Whether there are several shards here.
    pub(super) shards: bool,
    /// Whether steps are few rows, which an update can keep by itself: in a run by itself it may begin before the step
    /// before it has been made.
    pub(super) stores: bool,
}

/// Rows of a step that several blocks may keep: those of the smallest tile.
const FEW_ROWS: usize = 16;

impl How {
    /// Of a plan that is followed by a run that is so divided.
    pub(super) fn of(plan: &Plan, layout: &Layout, Division { ranks, shards }: Division) -> Self {
        let (shared, prioritised) = (layout.shares > 1, plan.replay.priority.is_some());
        let (ranks, shards) = (ranks > 1, shards > 1);
        let few = layout.acting.rows <= FEW_ROWS;
        let stores = few && !prioritised && !ranks && !shards;
        Self { shared, prioritised, ranks, shards, stores }
    }

    /// The exchange of ranks, if there are several.
    fn exchange(self, exchanged: Exchanged) -> Option<Op> {
        self.ranks.then_some(Op::Exchange(exchanged))
    }

    /// The work of keeping what came of a step, or of not doing so.
    pub(super) fn storing(self, kept: bool) -> Vec<Op> {
        match kept {
            true => [Op::Store]
                .into_iter()
                .chain(self.prioritised.then_some(Op::AddPriorities))
                .collect(),
            false => vec![Op::NoteEnds],
        }
    }

    /// The work at the end of an update.
    pub(super) fn ending(self) -> Vec<Op> {
        let mut ops = Vec::new();
        if self.prioritised {
            ops.push(Op::UpdatePriorities);
            if self.ranks || self.shards {
                ops.extend(self.exchange(Exchanged::MaxPriority));
                ops.push(Op::RaiseMaxPriority);
            }
        }
        ops.push(Op::Advance);
        ops
    }
}

impl Engine for Tracer {
    fn sample(&mut self) -> Result<()> {
        let How { prioritised, ranks, shards, .. } = self.how;
        self.ops.extend(prioritised.then_some(Op::SampleByPriority));
        self.ops.push(Op::Sample);
        if prioritised && (ranks || shards) {
            self.ops.push(Op::PriorityStats);
            self.ops.extend(self.how.exchange(Exchanged::PriorityStats));
            self.ops.push(Op::ImportanceWeights);
        }
        Ok(())
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.ops.push(Op::Forward(passes.into(), BackwardTarget::Parameters));
        Ok(())
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        if want == Gradients::OfInput {
            self.ops.push(Op::Backward(passes.into(), BackwardTarget::Input));
            return Ok(());
        }
        self.ops.push(Op::Backward(passes.into(), BackwardTarget::Parameters));
        self.ops.push(Op::WeightGradients(passes.into()));
        if self.how.shared {
            self.ops.push(Op::Gather(passes.into()));
        }
        Ok(())
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.ops.push(Op::Rows(rows));
        Ok(())
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.ops.push(Op::Count(optimiser));
        if self.how.ranks {
            self.ops.extend([Op::Exchange(Exchanged::Gradient(optimiser)), Op::Sum(optimiser)]);
        }
        self.ops.push(Op::Descend(optimiser));
        Ok(())
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.ops.push(Op::PolyakUpdate(targets.into(), tau));
        Ok(())
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        self.ops.push(Op::Figures(figures.into()));
        Ok(())
    }
}

/// The work of an algorithm's acting, with place made in the memory for what comes of it if that is `kept`.
pub(super) fn acting(algorithm: &dyn Algorithm, kept: bool) -> Result<Vec<Op>> {
    let mut tracer = Tracer::default();
    algorithm.act(&mut tracer)?;
    let mut ops = vec![Op::LoadObservations];
    ops.append(&mut tracer.ops);
    ops.push(Op::WriteActions);
    ops.extend(kept.then_some(Op::AdvanceRing));
    Ok(ops)
}

/// Packs all weights.
pub(super) fn packing(plan: &Plan) -> Vec<Op> {
    vec![Op::Pack((0..plan.models.len()).map(ModelId).collect())]
}

/// The work of an update.
pub(super) fn updating(algorithm: &dyn Algorithm, variant: Variant, how: How) -> Result<Vec<Op>> {
    let mut tracer = Tracer { how, ops: Vec::new() };
    algorithm.update(&mut tracer, variant)?;
    tracer.ops.extend(how.ending());
    Ok(tracer.ops)
}
