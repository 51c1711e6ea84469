//! Whose rules an environment follows, where Gymnasium and WarpDrive differ.

use warp_core::{Error, LimitEnds, Result, TimeLimit, in_range};

warp_core::choices! {
    /// Whose rules.
    pub enum Preset {
        /// Gymnasium's: an episode that reaches its time limit is truncated.
        Gymnasium = "gymnasium",
        /// WarpDrive's: an episode that reaches its time limit counts as terminated.
        WarpDrive = "warpdrive",
    }
}

impl Preset {
    /// The one of two values that belongs to these rules.
    pub(crate) fn choose<T>(self, gymnasium: T, warpdrive: T) -> T {
        match self {
            Preset::Gymnasium => gymnasium,
            Preset::WarpDrive => warpdrive,
        }
    }

    /// The limit after `episode_length` steps.
    pub(crate) fn time_limit(self, episode_length: u32) -> Result<TimeLimit> {
        if episode_length == 0 {
            return Err(Error::invalid("episode_length", 0, "an episode has at least one step"));
        }
        let ends = self.choose(LimitEnds::Truncated, LimitEnds::Terminated);
        Ok(TimeLimit { steps: episode_length, ends })
    }
}

/// The limit after `episode_length` steps, which truncates; none: there is no limit.
pub(crate) fn limit_of(episode_length: Option<u32>) -> Result<TimeLimit> {
    episode_length.map_or(Ok(TimeLimit::UNLIMITED), |steps| Preset::Gymnasium.time_limit(steps))
}

/// `value`, if it may be a probability.
pub(crate) fn probability(key: &str, value: f64) -> Result<f64> {
    in_range(key, value, 0.0, 1.0)?;
    Ok(value)
}
