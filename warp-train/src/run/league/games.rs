//! Games between snapshots: some episodes of each pair.

use super::{League, put};
use crate::config::TrainConfig;
use crate::error::Result;
use crate::model::LearnerState;
use crate::run::evaluate::{EvalOptions, play};
use crate::run::evaluator::Evaluator;
use crate::run::learner::Learner;
use warp_sample::Mode;

impl League {
    /// Plays the games that are due, with the weights loaded into `learner`, which is left with those of the last
    /// game; whether there were any. `state` is what it can load, of whatever weights.
    pub(super) fn play(
        &mut self,
        learner: &mut dyn Learner,
        state: &LearnerState,
        config: &TrainConfig,
        evaluator: Evaluator<'_>,
    ) -> Result<bool> {
        let due = self.due();
        let names = self.referee.names();
        // What comes of games decides what is learned, and this key may change when a run is resumed.
        let config = &mut config.clone();
        config.run.eval_max_steps = None;
        for pair in &due {
            let mut state = state.clone();
            for side in 0..2 {
                put(&mut state, &names[side], &self.snapshots[pair[side]].state);
            }
            learner.load_state(&state)?;
            // The same starts in each game: what differs is who plays.
            let options = EvalOptions {
                episodes: self.referee.episodes,
                mode: Mode::Sample,
                random: Vec::new(),
                threads: evaluator.threads,
            };
            let episodes = play(learner, config, evaluator.registry, &options)?;
            let steps = self.steps(*pair);
            self.games.insert(steps, self.referee.decide(steps, &episodes));
        }
        Ok(!due.is_empty())
    }
}
