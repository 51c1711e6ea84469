//! The functions between hidden layers, by name; each backend computes them in its own way.

warp_core::choices! {
    /// The function after a hidden layer.
    pub enum Activation {
        /// Hyperbolic tangent (CleanRL's choice for vector observations).
        Tanh = "tanh",
        /// `max(x, 0)`.
        Relu = "relu",
    }
}
