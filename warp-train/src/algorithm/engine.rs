//! The interface between an algorithm and a device. An engine starts the work and returns; on a GPU the launches of
//! an update are recorded once and replayed.

use super::plan::{CellId, FigureId, Gradients, ModelId, OptimiserId, PassId, RowsId};
use crate::error::Result;

/// Arithmetic on one device, by the ids of a [`Plan`](super::Plan).
pub trait Engine: Send {
    /// Gathers a batch from the replay memory.
    ///
    /// # Errors
    /// A device that failed; so for all functions of an engine.
    fn sample(&mut self) -> Result<()>;

    /// Runs passes, none of which reads what another writes.
    ///
    /// # Errors
    /// As [`Engine::sample`].
    fn forward(&mut self, passes: &[PassId]) -> Result<()>;

    /// Goes back through passes that have just been run forward.
    ///
    /// # Errors
    /// As [`Engine::sample`].
    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()>;

    /// Applies a row function to all rows of the columns that it writes.
    ///
    /// # Errors
    /// As [`Engine::sample`].
    fn rows(&mut self, rows: RowsId) -> Result<()>;

    /// Takes one step of the optimiser along the gradients of the last backward passes.
    ///
    /// # Errors
    /// A gradient that is not finite.
    fn step(&mut self, optimiser: OptimiserId) -> Result<()>;

    /// Moves targets by the share `tau` towards the models that they follow.
    ///
    /// # Errors
    /// As [`Engine::sample`].
    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()>;

    /// Takes the means of figures' columns.
    ///
    /// # Errors
    /// As [`Engine::sample`].
    fn figures(&mut self, figures: &[FigureId]) -> Result<()>;
}
