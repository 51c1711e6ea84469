//! An update piece by piece, for inspection between them.

use super::CudaEngine;
use super::tracer;
use crate::algorithm::{Algorithm, Variant};
use crate::error::Result;

impl CudaEngine {
    /// Whether products have half-precision operands.
    pub(crate) fn is_half(&self) -> bool {
        self.layout.half
    }

    /// Whether these operands are bf16 in the forward pass, too.
    pub(crate) fn is_bf16(&self) -> bool {
        self.layout.bf16
    }

    /// Compiles the pieces of an update, side by side.
    ///
    /// # Errors
    /// What the compiler says.
    pub(crate) fn prepare_pieces(
        &mut self,
        algorithm: &dyn Algorithm,
        variant: Variant,
    ) -> Result<()> {
        let ops = tracer::updating(algorithm, variant, self.how())?;
        self.prepare(&ops.into_iter().map(|op| vec![op]).collect::<Vec<_>>())
    }
}
