//! What a policy does that acts in lockstep with others in environments on the host.

use crate::algorithm::PolicyFigures;
use crate::engine::Progress;
use crate::engine::rollout::normalise::Normaliser;
use crate::error::Result;
use crate::model::LearnerState;
use std::fmt::Debug;
use warp_func::VecEnv;

/// One policy among those that act in lockstep.
pub(crate) trait Member: Send + Debug {
    /// Begins an iteration.
    fn begin(&mut self, progress: Progress);

    /// Reads the observations of step number `t`, chooses actions, and writes them to the environments.
    ///
    /// # Errors
    /// A policy that diverged.
    fn act(&mut self, t: usize, envs: &mut dyn VecEnv) -> Result<()>;

    /// Takes in what came of step number `t`, and learns if it is time to.
    ///
    /// # Errors
    /// A policy that diverged.
    fn store(&mut self, t: usize, envs: &dyn VecEnv) -> Result<()>;

    /// Ends an iteration.
    ///
    /// # Errors
    /// A policy that diverged.
    fn finish(&mut self, envs: &dyn VecEnv, progress: Progress) -> Result<PolicyFigures>;

    /// Fills outputs f32 `[n_rows, output_width]` and values f32 `[n_rows]` of observations f32 `[n_rows, width]`.
    ///
    /// # Errors
    /// A policy that diverged.
    fn forward(&mut self, obs: &[f32], outputs: &mut [f32], values: &mut [f32]) -> Result<()>;

    /// What observations are normalised by, if they are.
    fn normaliser(&self) -> Option<&Normaliser> {
        None
    }

    /// Adds what a checkpoint holds.
    fn save(&self, state: &mut LearnerState);

    /// Takes over what a checkpoint holds.
    ///
    /// # Errors
    /// A tensor that is missing or of another shape.
    fn load(&mut self, state: &LearnerState) -> Result<()>;
}
