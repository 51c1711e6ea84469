//! A whole run: iterations until its end, with evaluations and checkpoints on the way.

use crate::error::Result;
use crate::run::callback::{Callback, End, Flow, Stopped};
use crate::run::evaluate::EvalOptions;
use crate::run::evaluation::Evaluation;
use crate::run::evaluator::Evaluator;
use crate::run::metrics::IterationMetrics;
use crate::run::trainer::Trainer;
use crate::world::{PATIENCE, World};
use std::sync::Arc;
use std::time::Duration;
use warp_sample::Mode;

/// Iterates until `total_steps` are done or a callback stops it; evaluates (with `evaluator`), plays a league's games
/// and lets checkpoints be written whenever the configuration says so.
///
/// With several ranks all of them call it; the first one evaluates, and those that write and print are callbacks of
/// its own.
///
/// # Errors
/// A run or an evaluation that failed, or the error of a callback.
pub fn train(
    trainer: &mut Trainer,
    evaluator: Evaluator<'_>,
    callbacks: &mut [&mut dyn Callback],
) -> Result<End> {
    let world = trainer.config().world.clone();
    // Nobody waits for a rank that can't go on.
    to_the_end(trainer, evaluator, callbacks).inspect_err(|error| world.give_up_for(error))
}

fn to_the_end(
    trainer: &mut Trainer,
    evaluator: Evaluator<'_>,
    callbacks: &mut [&mut dyn Callback],
) -> Result<End> {
    let total = trainer.config().run.total_steps;
    let world = trainer.config().world.clone();
    let stopped = each(callbacks, |callback| callback.start(trainer))?;
    let mut stopped = agreed(&world, stopped, PATIENCE)?;
    // Of the beginning, or those that an earlier process did not come to.
    trainer.play(evaluator)?;
    while stopped.is_none() && trainer.env_steps() < total {
        let mut done = trainer.advance(total)?;
        let evaluation = evaluate_if_due(trainer, evaluator)?;
        let standings = trainer.play(evaluator)?;
        if let Some(last) = done.last_mut() {
            last.evaluation.clone_from(&evaluation);
            last.league = standings;
        }
        // What follows takes its time while a GPU waits: nothing is copied.
        let done: Arc<[IterationMetrics]> = done.into();
        stopped = each(callbacks, |callback| callback.iteration(trainer, &done))?;
        let (config, step) = (trainer.config(), trainer.env_steps());
        let saves = config.is_checkpoint_step(step) || config.is_snapshot_step(step);
        let records = config.is_array_step(step) && world.is_first();
        let reads = saves || config.is_evaluation_step(step);
        // The others know when, and wait for the first rank.
        let takes_long = reads || config.is_array_step(step);
        if records {
            trainer.sync_envs()?;
            callbacks.iter_mut().try_for_each(|callback| callback.arrays(trainer))?;
        }
        if reads {
            match callbacks.iter().any(|callback| callback.reads_envs()) {
                true => trainer.sync()?,
                false => trainer.take()?,
            }
        }
        if let Some(evaluation) = evaluation {
            let enough = each(callbacks, |callback| callback.evaluation(trainer, &evaluation))?;
            stopped = stopped.or(enough);
        }
        if saves {
            callbacks.iter_mut().try_for_each(|callback| callback.checkpoint(trainer))?;
        }
        let patience = if takes_long { PATIENCE } else { Duration::ZERO };
        stopped = agreed(&world, stopped, patience)?;
    }
    trainer.sync()?;
    let complete = trainer.env_steps() >= total;
    let end = stopped.filter(|_| !complete).map_or(End::Complete, End::Stopped);
    callbacks.iter_mut().try_for_each(|callback| callback.end(trainer, end))?;
    Ok(end)
}

/// The first reason to stop that any rank has; the first rank may keep the others waiting for `patience`.
fn agreed(world: &World, stopped: Option<Stopped>, patience: Duration) -> Result<Option<Stopped>> {
    if world.is_alone() {
        return Ok(stopped);
    }
    let (why, reached) = match stopped {
        None => (0_u8, 0.0),
        Some(Stopped::Asked) => (1, 0.0),
        Some(Stopped::ReturnReached(mean)) => (2, mean),
    };
    let said = [&[why][..], &reached.to_le_bytes()].concat();
    let all = world.all_gather_within("whether to stop", &said, patience)?;
    let reason = |said: &Vec<u8>| match said.split_first() {
        Some((1, _)) => Some(Stopped::Asked),
        Some((2, mean)) => Some(Stopped::ReturnReached(f64::from_le_bytes(*mean.first_chunk()?))),
        _ => None,
    };
    Ok(all.iter().find_map(reason))
}

/// Calls every callback, whatever the others say; the first reason to stop, if there is one.
fn each(
    callbacks: &mut [&mut dyn Callback],
    mut call: impl FnMut(&mut dyn Callback) -> Result<Flow>,
) -> Result<Option<Stopped>> {
    let mut stopped = None;
    for callback in callbacks {
        stopped = stopped.or(call(&mut **callback)?.break_value());
    }
    Ok(stopped)
}

/// An evaluation by the first rank, where the configuration wants one.
fn evaluate_if_due(trainer: &mut Trainer, evaluator: Evaluator<'_>) -> Result<Option<Evaluation>> {
    let is_due = trainer.config().is_evaluation_step(trainer.env_steps());
    if !is_due || !trainer.config().world.is_first() {
        return Ok(None);
    }
    let options = EvalOptions {
        episodes: trainer.config().run.eval_episodes,
        mode: Mode::Greedy,
        random: Vec::new(),
        threads: evaluator.threads,
    };
    trainer.evaluate(evaluator.registry, &options).map(Some)
}
