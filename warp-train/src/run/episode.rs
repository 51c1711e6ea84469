//! One episode as in an evaluation, step by step: to be drawn, watched or recorded.

use crate::config::TrainConfig;
use crate::engine::rollout::Rollout;
use crate::error::Error;
#[cfg(doc)]
use crate::run::evaluate::evaluate;
use crate::run::evaluate::{EVALUATION, check_choice, choose_actions};
use crate::run::evaluate::{from_true_starts, random_policies};
use crate::run::evaluation::most_steps;
use crate::run::learner::Learner;
use crate::run::memory_check::check_memory;
use std::ops::ControlFlow;
use warp_func::{Registry, VecEnv, VecOptions};
use warp_sample::Mode;

/// How to play one episode.
#[derive(Debug, Clone)]
pub struct EpisodeOptions {
    /// Seed of start states and random numbers; `None`: the run's, which gives the first episode of
    /// [`evaluate`].
    pub seed: Option<u64>,
    /// Greedy or sampled actions.
    pub mode: Mode,
    /// Policies that act at random instead.
    pub random: Vec<String>,
    /// Which of the episodes that [`evaluate`] plays, from 0.
    pub replica: u32,
}

/// What the policies did in the step that led to a moment.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'a> {
    /// What they saw and did, a step of one replica.
    pub rollout: &'a Rollout,
    /// What each one's network said, f32 `[n_agents, output_width]`; nothing of those that act at random.
    pub outputs: &'a [Vec<f32>],
}

/// An observer of an episode: sees the environments after each step, with the actions that led there (none at
/// the start), and may stop the episode or fail.
pub type Look<'a, E> =
    dyn FnMut(&dyn VecEnv, Option<Chosen<'_>>) -> Result<ControlFlow<()>, E> + 'a;

/// How it came that an episode went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpisodeEnd {
    /// It was over.
    Over,
    /// Whoever looked had seen enough.
    Stopped,
    /// It had not ended after this many steps, the most that an evaluation plays.
    Unfinished {
        /// These steps.
        steps: u32,
    },
}

/// Plays one episode as [`evaluate`] does and shows the environment, one replica, to `look`: at the
/// start and after every step, the last one included. It ends early when `look` breaks, and after the most steps that
/// an evaluation plays.
///
/// # Errors
/// As [`evaluate`], and those of `look`.
pub fn play_episode<E: From<Error>>(
    learner: &mut dyn Learner,
    config: &TrainConfig,
    registry: &Registry,
    options: &EpisodeOptions,
    look: &mut Look<'_, E>,
) -> Result<EpisodeEnd, E> {
    check_choice(config, options.mode, &options.random)?;
    let mut config = from_true_starts(config);
    config.run.num_envs = 1;
    config.run.num_steps = 1;
    check_memory(&config, registry, "the environment's size")?;
    let vec_options = VecOptions {
        seed: options.seed.unwrap_or(config.run.seed) ^ EVALUATION,
        first_replica: options.replica,
        // So that the last state is there to be seen.
        auto_reset: false,
        ..config.vec_options()
    };
    let entry = registry.get(&config.run.env_id).map_err(Error::from)?;
    let mut envs = entry.make(&config.env, &vec_options).map_err(Error::from)?;
    envs.sync().map_err(Error::from)?;
    let mut rollout = Rollout::new(&config);
    let random = random_policies(&config, &options.random);
    let mut flow = look(&*envs, None)?;
    let most = most_steps(&config);
    for _ in 0..most {
        if flow.is_break() || is_over(&*envs) {
            break;
        }
        let outputs = choose_actions(learner, &mut rollout, &mut *envs, options.mode, &random)?;
        envs.step().map_err(Error::from)?;
        flow = look(&*envs, Some(Chosen { rollout: &rollout, outputs: &outputs }))?;
    }
    Ok(match (is_over(&*envs), flow) {
        (true, _) => EpisodeEnd::Over,
        (false, ControlFlow::Break(())) => EpisodeEnd::Stopped,
        (false, ControlFlow::Continue(())) => EpisodeEnd::Unfinished { steps: most },
    })
}

/// Whether the only replica's episode has ended.
fn is_over(envs: &dyn VecEnv) -> bool {
    let (ids, store) = (envs.ids(), envs.store());
    store.slice::<u8>(ids.terminated)[0] | store.slice::<u8>(ids.truncated)[0] != 0
}
