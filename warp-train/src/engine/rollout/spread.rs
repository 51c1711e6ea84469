//! How far actions differ: over the agents of a replica, over replicas, over the steps of a rollout.

use crate::engine::rollout::PolicyRollout;
use crate::loss::actions::Actions;
use std::ops::Range;

/// Mean standard deviations (n - 1) of a rollout's actions, over heads or elements and all that is not the
/// direction itself; 0 along a direction with fewer than two places.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Spread {
    /// Over the agents of a replica at a step.
    pub(super) agents: f64,
    /// Over the replicas, of an agent at a step.
    pub(super) replicas: f64,
    /// Over the steps, of an agent of a replica.
    pub(super) steps: f64,
}

impl Spread {
    /// Of the actions in `rows`, whole replicas.
    pub(super) fn of(rollout: &PolicyRollout, rows: Range<usize>) -> Self {
        let width = rollout.layout.action_width();
        let size =
            Size { width, per_replica: rollout.n_agents * width, per_step: rollout.n_rows * width };
        let taken = rows.start * width..rows.end * width;
        match &rollout.actions {
            Actions::Discrete(choices) => Self::of_actions(choices, size, taken),
            Actions::Continuous(samples) => Self::of_actions(samples, size, taken),
        }
    }

    /// Of the numbers `taken` of each step; reads them once, as they lie.
    fn of_actions<T: Copy + Into<f64>>(actions: &[T], size: Size, taken: Range<usize>) -> Self {
        let Size { width, per_replica, per_step } = size;
        if taken.is_empty() || per_replica == 0 {
            return Self::default();
        }
        let [mut agents, mut replicas, mut steps] =
            [width, per_replica, taken.len()].map(Tally::new);
        for step in actions.chunks_exact(per_step) {
            let step = &step[taken.clone()];
            for replica in step.chunks_exact(per_replica) {
                // A lone agent differs from nobody.
                if per_replica > width {
                    replica.chunks_exact(width).for_each(|agent| agents.add(agent));
                    agents.finish();
                }
                replicas.add(replica);
            }
            replicas.finish();
            steps.add(step);
        }
        steps.finish();
        Self { agents: agents.mean(), replicas: replicas.mean(), steps: steps.mean() }
    }

    /// As numbers, to be gathered.
    pub(super) fn numbers(self) -> [f64; 3] {
        [self.agents, self.replicas, self.steps]
    }

    /// The mean of several, given by their numbers.
    pub(super) fn mean(all: &[[f64; 3]]) -> Self {
        let mean = |i: usize| all.iter().map(|one| one[i]).sum::<f64>() / all.len().max(1) as f64;
        Self { agents: mean(0), replicas: mean(1), steps: mean(2) }
    }

    /// The figures by their names.
    pub(super) fn figures(self) -> [(&'static str, f64); 3] {
        [
            ("action_std_agents", self.agents),
            ("action_std_replicas", self.replicas),
            ("action_std_steps", self.steps),
        ]
    }
}

/// How many numbers lie beside each other.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Of an agent: heads or elements.
    width: usize,
    per_replica: usize,
    per_step: usize,
}

/// The standard deviations along a direction, of places beside each other.
#[derive(Debug)]
struct Tally {
    n: usize,
    /// Differences are taken from the first, so that nothing is lost where all are alike.
    first: Vec<f64>,
    total: Vec<f64>,
    squares: Vec<f64>,
    /// Of the deviations that are finished, and how many there are.
    sum: f64,
    n_finished: usize,
}

impl Tally {
    fn new(places: usize) -> Self {
        let zeros = || vec![0.0; places];
        let (first, total, squares) = (zeros(), zeros(), zeros());
        Self { n: 0, first, total, squares, sum: 0.0, n_finished: 0 }
    }

    /// Takes in the next number of every place.
    fn add<T: Copy + Into<f64>>(&mut self, numbers: &[T]) {
        if self.n == 0 {
            self.first.iter_mut().zip(numbers).for_each(|(first, x)| *first = (*x).into());
        }
        let sums = self.total.iter_mut().zip(&mut self.squares);
        for ((x, first), (total, squares)) in numbers.iter().zip(&self.first).zip(sums) {
            let x = (*x).into() - first;
            *total += x;
            *squares += x * x;
        }
        self.n += 1;
    }

    /// Ends a way along the direction.
    fn finish(&mut self) {
        let n = std::mem::take(&mut self.n);
        for (total, squares) in self.total.iter_mut().zip(&mut self.squares) {
            let (total, squares) = (std::mem::take(total), std::mem::take(squares));
            if n > 1 {
                self.sum += ((squares - total * total / n as f64).max(0.0) / (n - 1) as f64).sqrt();
            }
            self.n_finished += 1;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.n_finished.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Step s, replica r, agent a, head h: a * 2 + r * 10 for head 0, s * 3 for head 1.
    #[test]
    fn each_direction_has_its_own_spread() {
        let size = Size { width: 2, per_replica: 8, per_step: 16 };
        let number = |at: i32| {
            let [step, replica, agent] = [at / 16, at / 8 % 2, at / 2 % 4];
            if at % 2 == 0 { agent * 2 + replica * 10 } else { step * 3 }
        };
        let actions: Vec<i32> = (0..48).map(number).collect();
        // 0, 2, 4, 6 for one of two heads; 0, 10; 0, 3, 6.
        let deviation = (20.0_f64 / 3.0).sqrt();
        let Spread { agents, replicas, steps } = Spread::of_actions(&actions, size, 0..16);
        assert!((agents - deviation / 2.0).abs() < 1e-12);
        assert!((replicas - 50.0_f64.sqrt() / 2.0).abs() < 1e-12);
        assert!((steps - 3.0 / 2.0).abs() < 1e-12);
        // The second replica alone, and none.
        let second = Spread::of_actions(&actions, size, 8..16);
        assert_eq!(second, Spread { agents, replicas: 0.0, steps });
        assert_eq!(Spread::of_actions(&actions, size, 0..0), Spread::default());
    }
}
