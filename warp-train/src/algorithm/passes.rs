//! How often an algorithm goes through a rollout, found by noting what it asks an engine for.

use super::on_policy::{OnPolicyAlgorithm, OnPolicyEngine};
use crate::error::Result;
use std::ops::Range;

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
}

/// What an algorithm asks an engine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Estimate,
    Shuffle(usize),
    Cut(usize),
    Gather(usize),
    Gradient,
    Step,
}

/// Notes what is asked for, and does none of it.
#[derive(Debug, Default)]
struct Recorder(Vec<Op>);

impl Recorder {
    fn note(&mut self, op: Op) -> Result<()> {
        self.0.push(op);
        Ok(())
    }
}

impl OnPolicyEngine for Recorder {
    fn estimate(&mut self) -> Result<()> {
        self.note(Op::Estimate)
    }

    fn shuffle(&mut self, epoch: usize) -> Result<()> {
        self.note(Op::Shuffle(epoch))
    }

    fn cut(&mut self, n: usize) -> Range<usize> {
        self.0.push(Op::Cut(n));
        0..n
    }

    fn gather(&mut self, minibatch: usize) -> Result<()> {
        self.note(Op::Gather(minibatch))
    }

    fn gradient(&mut self) -> Result<()> {
        self.note(Op::Gradient)
    }

    fn step(&mut self) -> Result<()> {
        self.note(Op::Step)
    }
}

impl Passes {
    /// Those of `algorithm`; none if its schedule is another one.
    ///
    /// # Errors
    /// An algorithm that asks for nothing that fails, and fails.
    pub(crate) fn of(algorithm: &dyn OnPolicyAlgorithm) -> Result<Option<Self>> {
        let mut asked = Recorder::default();
        algorithm.update(&mut asked)?;
        let of = |op: &&Op| matches!(op, Op::Cut(_));
        let epochs = asked.0.iter().filter(of).count();
        let minibatches = asked.0.iter().find_map(|op| match op {
            Op::Cut(n) => Some(*n),
            _ => None,
        });
        let passes = Self {
            epochs,
            minibatches: minibatches.unwrap_or(1),
            shuffles: asked.0.contains(&Op::Shuffle(0)),
        };
        Ok((passes.ops() == asked.0).then_some(passes))
    }

    /// What an algorithm with this schedule asks for.
    fn ops(self) -> Vec<Op> {
        let mut ops = vec![Op::Estimate];
        for epoch in 0..self.epochs {
            ops.extend(self.shuffles.then_some(Op::Shuffle(epoch)));
            ops.push(Op::Cut(self.minibatches));
            for minibatch in 0..self.minibatches {
                ops.extend([Op::Gather(minibatch), Op::Gradient, Op::Step]);
            }
        }
        ops
    }
}
