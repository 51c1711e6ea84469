//! Engines that are fed a batch and looked into.

use super::super::BOUND;
use crate::algorithm::{
    CellId, ColumnId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, RowsId,
};
use crate::engine::EngineState;
use crate::engine::cpu::CpuEngine;
use crate::error::{Error, Result};
use crate::model::NamedTensor;

/// An engine whose columns can be set and seen.
pub(crate) trait Probe: Engine {
    /// What it is called.
    fn backend(&self) -> &'static str;

    /// How far its gradients may be off: more than [`BOUND`] with half-precision operands.
    fn bound(&self) -> f64 {
        BOUND
    }

    /// Takes these weights; moments and counters are fresh.
    fn begin(&mut self, weights: &[NamedTensor]) -> Result<()>;

    /// Sets the numbers of a column.
    fn set_column(&mut self, id: ColumnId, numbers: &[f32]) -> Result<()>;

    /// The numbers of a column.
    fn column(&self, id: ColumnId) -> Result<Vec<f32>>;

    /// What an update has left.
    fn state(&self) -> Result<EngineState>;
}

impl Probe for CpuEngine {
    fn backend(&self) -> &'static str {
        "native"
    }

    fn begin(&mut self, weights: &[NamedTensor]) -> Result<()> {
        let state = EngineState { weights: weights.to_vec(), ..EngineState::default() };
        self.load(&state).map_err(Error::Invalid)
    }

    fn set_column(&mut self, id: ColumnId, numbers: &[f32]) -> Result<()> {
        self.column_mut(id).copy_from_slice(numbers);
        Ok(())
    }

    fn column(&self, id: ColumnId) -> Result<Vec<f32>> {
        Ok(Self::column(self, id).to_vec())
    }

    fn state(&self) -> Result<EngineState> {
        Ok(Self::state(self))
    }
}

/// An engine that finds a given batch in its memory.
pub(super) struct Fed<'a> {
    pub(super) probe: &'a mut dyn Probe,
    pub(super) columns: &'a [(ColumnId, Vec<f32>)],
}

impl Engine for Fed<'_> {
    fn sample(&mut self) -> Result<()> {
        self.columns.iter().try_for_each(|(id, numbers)| self.probe.set_column(*id, numbers))
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.probe.forward(passes)
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        self.probe.backward(passes, want)
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.probe.rows(rows)
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.probe.step(optimiser)
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.probe.polyak_update(targets, tau)
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        self.probe.figures(figures)
    }
}
