//! After which iterations something is due that happens every given number of steps.

/// Every so many environment steps, at the end of the iteration that reaches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Periodic {
    /// 0: never.
    pub(crate) every: u64,
    /// Steps of an iteration.
    pub(crate) iteration: u64,
}

impl Periodic {
    /// Whether the iteration that ended at `step` has reached a multiple.
    pub(crate) fn is_due(self, step: u64) -> bool {
        let before = step.saturating_sub(self.iteration);
        self.every > 0 && step > 0 && before / self.every != step / self.every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_for_each_multiple_that_is_reached() {
        let due = |every| {
            let interval = Periodic { every, iteration: 30 };
            (0..10).map(|n| 30 * n).filter(|step| interval.is_due(*step)).collect::<Vec<_>>()
        };
        assert_eq!(due(100), [120, 210]);
        assert_eq!(due(10), [30, 60, 90, 120, 150, 180, 210, 240, 270]);
        assert!(due(0).is_empty());
    }
}
