//! How often an algorithm goes through a rollout, found by following what it asks an engine for.

use super::on_policy::{OnPolicyAlgorithm, OnPolicyEngine};
use crate::error::{Error, Result};
use std::ops::Range;

/// Requests after which nothing is followed any more: no kernel is recorded for so many.
const MOST_REQUESTS: usize = 1_000_000;

/// How often a rollout is gone through, and in how many parts: the one kind of schedule that kernels which
/// iterate by themselves know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passes {
    pub(crate) epochs: usize,
    pub(crate) minibatches: usize,
    /// Whether each epoch takes the samples in an order of its own.
    pub(crate) shuffles: bool,
}

impl Passes {
    /// Once and whole.
    #[cfg(feature = "cuda")]
    pub(crate) const ONE: Self = Self { epochs: 1, minibatches: 1, shuffles: false };

    /// Those of `algorithm`; none if its schedule is another one, or longer than any that is recorded.
    ///
    /// # Errors
    /// An algorithm that fails by itself.
    pub(crate) fn of(algorithm: &dyn OnPolicyAlgorithm) -> Result<Option<Self>> {
        let mut follower = Follower::default();
        let ended = algorithm.update(&mut follower);
        if follower.lost {
            return Ok(None);
        }
        ended?;
        let Follower { passes, next, .. } = follower;
        Ok((next == Next::Epoch && passes.epochs > 0).then_some(passes))
    }
}

/// What an algorithm asks an engine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Estimate,
    Shuffle(usize),
    Cut(usize),
    Gather(usize),
    Gradient,
    Step,
}

/// What comes next in a schedule of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Estimate,
    /// An epoch begins, or all is done.
    Epoch,
    Cut,
    Gather(usize),
    Gradient(usize),
    Step(usize),
}

/// Follows an algorithm for as long as its schedule is of that kind, and does none of what it asks for.
#[derive(Debug)]
struct Follower {
    passes: Passes,
    next: Next,
    n_requests: usize,
    /// Whether the schedule is another one.
    lost: bool,
}

impl Default for Follower {
    fn default() -> Self {
        let passes = Passes { epochs: 0, minibatches: 0, shuffles: false };
        Self { passes, next: Next::default(), n_requests: 0, lost: false }
    }
}

impl Follower {
    fn take(&mut self, request: Request) -> Result<()> {
        self.n_requests += 1;
        let first = self.passes.epochs == 0;
        let Passes { epochs, minibatches, shuffles } = self.passes;
        let next = match (self.next, request) {
            (Next::Estimate, Request::Estimate) => Some(Next::Epoch),
            (Next::Epoch, Request::Shuffle(n)) if n == epochs && (first || shuffles) => {
                self.passes.shuffles = true;
                Some(Next::Cut)
            }
            (Next::Epoch, Request::Cut(n)) if first || (!shuffles && n == minibatches) => {
                self.begin(n)
            }
            (Next::Cut, Request::Cut(n)) if first || n == minibatches => self.begin(n),
            (Next::Gather(n), Request::Gather(wanted)) if n == wanted => Some(Next::Gradient(n)),
            (Next::Gradient(n), Request::Gradient) => Some(Next::Step(n)),
            (Next::Step(n), Request::Step) if n + 1 < minibatches => Some(Next::Gather(n + 1)),
            (Next::Step(_), Request::Step) => {
                self.passes.epochs += 1;
                Some(Next::Epoch)
            }
            _ => None,
        };
        match next.filter(|_| !self.lost && self.n_requests < MOST_REQUESTS) {
            Some(next) => {
                self.next = next;
                Ok(())
            }
            None => {
                self.lost = true;
                Err(Error::Invalid("the schedule is followed no further".into()))
            }
        }
    }

    fn begin(&mut self, minibatches: usize) -> Option<Next> {
        self.passes.minibatches = minibatches;
        (minibatches > 0).then_some(Next::Gather(0))
    }
}

impl OnPolicyEngine for Follower {
    fn estimate(&mut self) -> Result<()> {
        self.take(Request::Estimate)
    }

    fn shuffle(&mut self, epoch: usize) -> Result<()> {
        self.take(Request::Shuffle(epoch))
    }

    fn cut(&mut self, n: usize) -> Range<usize> {
        if self.take(Request::Cut(n)).is_ok() { 0..n } else { 0..0 }
    }

    fn gather(&mut self, minibatch: usize) -> Result<()> {
        self.take(Request::Gather(minibatch))
    }

    fn gradient(&mut self) -> Result<()> {
        self.take(Request::Gradient)
    }

    fn step(&mut self) -> Result<()> {
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
                Request::Estimate => engine.estimate(),
                Request::Shuffle(epoch) => engine.shuffle(epoch),
                Request::Cut(n) => {
                    engine.cut(n);
                    Ok(())
                }
                Request::Gather(n) => engine.gather(n),
                Request::Gradient => engine.gradient(),
                Request::Step => engine.step(),
            })
        }
    }

    #[test]
    fn schedules_of_ours_are_followed() {
        let keys = PolicyConfig { update_epochs: 3, num_minibatches: 5, ..PolicyConfig::default() };
        let found = Passes::of(&Ppo::new(&keys)).unwrap();
        assert_eq!(found, Some(Passes { epochs: 3, minibatches: 5, shuffles: true }));
        let found = Passes::of(&A2c::new(&keys)).unwrap();
        assert_eq!(found, Some(Passes { epochs: 1, minibatches: 1, shuffles: false }));
        let endless = PolicyConfig { update_epochs: usize::MAX, ..keys };
        assert_eq!(Passes::of(&Ppo::new(&endless)).unwrap(), None);
    }

    #[test]
    fn other_schedules_are_told_apart() {
        use Request::{Cut, Estimate, Gather, Gradient, Shuffle, Step};
        let once = [Estimate, Cut(1), Gather(0), Gradient, Step];
        assert!(Passes::of(&Listed(once.to_vec())).unwrap().is_some());
        for other in [
            vec![],
            vec![Estimate],
            vec![Estimate, Cut(0)],
            vec![Estimate, Cut(2), Gather(0), Gradient, Step],
            vec![Estimate, Cut(1), Gather(0), Gradient, Gradient, Step],
            vec![Estimate, Shuffle(1), Cut(1), Gather(0), Gradient, Step],
            [&once[..], &once].concat(),
            [&once[..], &[Cut(2), Gather(0), Gradient, Step]].concat(),
            [&once[..], &[Shuffle(1), Cut(1), Gather(0), Gradient, Step]].concat(),
        ] {
            assert_eq!(Passes::of(&Listed(other.clone())).unwrap(), None, "{other:?}");
        }
    }
}
