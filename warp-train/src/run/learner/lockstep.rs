//! Policies that act in lockstep, as a learner.

use super::Learner;
use crate::engine::policies::check_owners;
use crate::engine::rollout::normalise::Normaliser;
use crate::engine::{Iterated, LockstepLearner, Progress};
use crate::error::Result;
use crate::model::LearnerState;
use warp_func::VecEnv;

/// Iterations at once, at most: episodes and figures are looked at after each.
const MOST_ITERATIONS: u64 = 64;

impl Learner for LockstepLearner {
    fn backend(&self) -> &'static str {
        "native"
    }

    fn forward(
        &mut self,
        policy: usize,
        obs: &[f32],
        _n_rows: usize,
        outputs: &mut [f32],
        values: &mut [f32],
    ) -> Result<()> {
        self.members[policy].forward(obs, outputs, values)
    }

    fn normaliser(&mut self, policy: usize) -> Result<Option<&Normaliser>> {
        Ok(self.members[policy].normaliser())
    }

    fn most_iterations(&self) -> u64 {
        MOST_ITERATIONS
    }

    fn iterate(
        &mut self,
        envs: &mut dyn VecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let steps = self.config.steps_per_iteration();
        (0..n).map(|i| self.iterate_once(envs, progress.after(i, steps))).collect()
    }

    fn state(&self) -> LearnerState {
        let mut state = LearnerState::default();
        self.members.iter().for_each(|member| member.save(&mut state));
        state
    }

    fn load_state(&mut self, state: &LearnerState) -> Result<()> {
        check_owners(self.config.policies.iter(), state)?;
        self.members.iter_mut().try_for_each(|member| member.load(state))
    }
}
