//! Episodes as arrays: what `warp episode` writes into an `.npz` file and `warp render` draws again.
//!
//! Every array is `[episodes, moments, ...]` or `[episodes, steps, ...]`. A moment is what there is before a
//! step, and after the last one: state, observations, masks, returns so far. What belongs to a step (actions,
//! rewards, how it ended, what policies said) stands at the number of the moment before it. Shorter episodes are
//! filled with zeros; `steps`, u32 `[episodes]`, says how long each is. `config`, u8, is the text of the run's
//! configuration.

pub mod recorder;
pub mod recording;

/// The array that says how long the episodes are.
const STEPS: &str = "steps";
/// The array that holds the run's configuration.
const CONFIG: &str = "config";

/// Whether an environment's array belongs to resets: a pool, or the end of an episode that is over.
pub(crate) fn is_of_reset(array: &str) -> bool {
    ["pool.", "final_"].iter().any(|start| array.starts_with(start))
}

/// Whether an environment's array says what happened in a step, and not what is there before it.
pub(crate) fn is_of_step(array: &str) -> bool {
    let grouped = ["action.", "reward.", "agent_terminated."];
    grouped.iter().any(|start| array.starts_with(start))
        || ["terminated", "truncated"].contains(&array)
}
