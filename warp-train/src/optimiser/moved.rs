//! What one step of an optimiser reads and moves.

/// Some parameters with their gradients and their first and second moments; all f32 `[n]`.
pub(crate) struct Moved<'a> {
    pub(crate) parameters: &'a mut [f32],
    pub(crate) gradients: &'a [f32],
    pub(crate) exp_avg: &'a mut [f32],
    pub(crate) exp_avg_sq: &'a mut [f32],
}
