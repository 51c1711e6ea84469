//! How often an algorithm goes through a rollout, found by following what it asks an engine for.

use super::on_policy::{OnPolicyAlgorithm, OnPolicyEngine};
use crate::error::{Error, Result};
use std::ops::Range;

/// Requests after which nothing is followed any more: no kernel is recorded for so many.
const MOST_REQUESTS: usize = 1_000_000;

/// How often a rollout is gone through, and in how many parts: the one kind of schedule that kernels which
/// iterate by themselves know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinibatchSchedule {
    pub(crate) epochs: usize,
    pub(crate) minibatches: usize,
    /// Whether each epoch takes the samples in an order of its own.
    pub(crate) shuffles: bool,
}

impl MinibatchSchedule {
    /// Once and whole.
    #[cfg(feature = "cuda")]
    pub(crate) const ONE: Self = Self { epochs: 1, minibatches: 1, shuffles: false };

    /// That of `algorithm`; none if its schedule is another one, or longer than any that is recorded.
    ///
    /// # Errors
    /// An algorithm that fails by itself.
    pub(crate) fn of(algorithm: &dyn OnPolicyAlgorithm) -> Result<Option<Self>> {
        let mut probe = ScheduleProbe::default();
        let ended = algorithm.update(&mut probe);
        if probe.unsupported {
            return Ok(None);
        }
        ended?;
        let ScheduleProbe { schedule, next, .. } = probe;
        Ok((next == Next::Epoch && schedule.epochs > 0).then_some(schedule))
    }
}

/// What an algorithm asks an engine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Advantages,
    Shuffle(usize),
    Split(usize),
    Load(usize),
    Gradient,
    Step,
}

/// What comes next in a schedule of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Advantages,
    /// An epoch begins, or all is done.
    Epoch,
    Split,
    Load(usize),
    Gradient(usize),
    Step(usize),
}

/// Follows an algorithm for as long as its schedule is of that kind, and does none of what it asks for.
#[derive(Debug)]
struct ScheduleProbe {
    schedule: MinibatchSchedule,
    next: Next,
    n_requests: usize,
    /// Whether the schedule is another one.
    unsupported: bool,
}

impl Default for ScheduleProbe {
    fn default() -> Self {
        let schedule = MinibatchSchedule { epochs: 0, minibatches: 0, shuffles: false };
        Self { schedule, next: Next::default(), n_requests: 0, unsupported: false }
    }
}

impl ScheduleProbe {
    fn take(&mut self, request: Request) -> Result<()> {
        self.n_requests += 1;
        let first = self.schedule.epochs == 0;
        let MinibatchSchedule { epochs, minibatches, shuffles } = self.schedule;
        let next = match (self.next, request) {
            (Next::Advantages, Request::Advantages) => Some(Next::Epoch),
            (Next::Epoch, Request::Shuffle(n)) if n == epochs && (first || shuffles) => {
                self.schedule.shuffles = true;
                Some(Next::Split)
            }
            (Next::Epoch, Request::Split(n)) if first || (!shuffles && n == minibatches) => {
                self.begin(n)
            }
            (Next::Split, Request::Split(n)) if first || n == minibatches => self.begin(n),
            (Next::Load(n), Request::Load(wanted)) if n == wanted => Some(Next::Gradient(n)),
            (Next::Gradient(n), Request::Gradient) => Some(Next::Step(n)),
            (Next::Step(n), Request::Step) if n + 1 < minibatches => Some(Next::Load(n + 1)),
            (Next::Step(_), Request::Step) => {
                self.schedule.epochs += 1;
                Some(Next::Epoch)
            }
            _ => None,
        };
        match next.filter(|_| !self.unsupported && self.n_requests < MOST_REQUESTS) {
            Some(next) => {
                self.next = next;
                Ok(())
            }
            None => {
                self.unsupported = true;
                Err(Error::Invalid("the schedule is followed no further".into()))
            }
        }
    }

    fn begin(&mut self, minibatches: usize) -> Option<Next> {
        self.schedule.minibatches = minibatches;
        (minibatches > 0).then_some(Next::Load(0))
    }
}

impl OnPolicyEngine for ScheduleProbe {
    fn compute_advantages(&mut self) -> Result<()> {
        self.take(Request::Advantages)
    }

    fn shuffle(&mut self, epoch: usize) -> Result<()> {
        self.take(Request::Shuffle(epoch))
    }

    fn split_into_minibatches(&mut self, n: usize) -> Range<usize> {
        if self.take(Request::Split(n)).is_ok() { 0..n } else { 0..0 }
    }

    fn load_minibatch(&mut self, minibatch: usize) -> Result<()> {
        self.take(Request::Load(minibatch))
    }

    fn compute_gradient(&mut self) -> Result<()> {
        self.take(Request::Gradient)
    }

    fn optimiser_step(&mut self) -> Result<()> {
        self.take(Request::Step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::PolicyConfig;
    use crate::algorithm::{A2c, Ppo};
    use crate::loss::{Objective, a2c};

    /// Asks for what a list says.
    #[derive(Debug)]
    struct Listed(Vec<Request>);

    impl OnPolicyAlgorithm for Listed {
        fn objective(&self, _env_steps: u64) -> Objective {
            a2c::objective()
        }

        fn update(&self, engine: &mut dyn OnPolicyEngine) -> Result<()> {
            self.0.iter().try_for_each(|request| match *request {
                Request::Advantages => engine.compute_advantages(),
                Request::Shuffle(epoch) => engine.shuffle(epoch),
                Request::Split(n) => {
                    engine.split_into_minibatches(n);
                    Ok(())
                }
                Request::Load(n) => engine.load_minibatch(n),
                Request::Gradient => engine.compute_gradient(),
                Request::Step => engine.optimiser_step(),
            })
        }
    }

    #[test]
    fn schedules_of_ours_are_followed() {
        let keys = PolicyConfig { update_epochs: 3, num_minibatches: 5, ..PolicyConfig::default() };
        let found = MinibatchSchedule::of(&Ppo::new(&keys)).unwrap();
        assert_eq!(found, Some(MinibatchSchedule { epochs: 3, minibatches: 5, shuffles: true }));
        let found = MinibatchSchedule::of(&A2c::new(&keys)).unwrap();
        assert_eq!(found, Some(MinibatchSchedule { epochs: 1, minibatches: 1, shuffles: false }));
        let endless = PolicyConfig { update_epochs: usize::MAX, ..keys };
        assert_eq!(MinibatchSchedule::of(&Ppo::new(&endless)).unwrap(), None);
    }

    #[test]
    fn other_schedules_are_told_apart() {
        use Request::{Advantages, Gradient, Load, Shuffle, Split, Step};
        let once = [Advantages, Split(1), Load(0), Gradient, Step];
        assert!(MinibatchSchedule::of(&Listed(once.to_vec())).unwrap().is_some());
        for other in [
            vec![],
            vec![Advantages],
            vec![Advantages, Split(0)],
            vec![Advantages, Split(2), Load(0), Gradient, Step],
            vec![Advantages, Split(1), Load(0), Gradient, Gradient, Step],
            vec![Advantages, Shuffle(1), Split(1), Load(0), Gradient, Step],
            [&once[..], &once].concat(),
            [&once[..], &[Split(2), Load(0), Gradient, Step]].concat(),
            [&once[..], &[Shuffle(1), Split(1), Load(0), Gradient, Step]].concat(),
        ] {
            assert_eq!(MinibatchSchedule::of(&Listed(other.clone())).unwrap(), None, "{other:?}");
        }
    }
}
