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
        let (n_agents, width) = (rollout.n_agents, rollout.layout.action_width());
        let (n_rows, n_steps) = (rollout.n_rows, rollout.rewards.len() / rollout.n_rows.max(1));
        let n_replicas = rows.len() / n_agents.max(1);
        let read = |place: [usize; 4]| {
            let [step, replica, agent, head] = place;
            let row = rows.start + replica * n_agents + agent;
            let at = (step * n_rows + row) * width + head;
            match &rollout.actions {
                Actions::Discrete(choices) => f64::from(choices[at]),
                Actions::Continuous(samples) => f64::from(samples[at]),
            }
        };
        let size = [n_steps, n_replicas, n_agents, width];
        Self {
            agents: along(2, size, read),
            replicas: along(1, size, read),
            steps: along(0, size, read),
        }
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

/// The mean standard deviation along axis number `axis` of an array of this size.
fn along(axis: usize, size: [usize; 4], read: impl Fn([usize; 4]) -> f64) -> f64 {
    let n = size[axis];
    if n < 2 || size.contains(&0) {
        return 0.0;
    }
    let others = size.iter().product::<usize>() / n;
    let mut sum = 0.0;
    for other in 0..others {
        // The place in the other axes, the last of them first.
        let (mut place, mut rest) = ([0; 4], other);
        for free in (0..4).rev().filter(|free| *free != axis) {
            place[free] = rest % size[free];
            rest /= size[free];
        }
        let (mut total, mut squares) = (0.0, 0.0);
        // Differences from the first, so that nothing is lost where all are alike.
        let first = read(place);
        for i in 0..n {
            place[axis] = i;
            let x = read(place) - first;
            total += x;
            squares += x * x;
        }
        sum += ((squares - total * total / n as f64).max(0.0) / (n - 1) as f64).sqrt();
    }
    sum / others as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Step s, replica r, agent a, head h: a * 2 + r * 10 for head 0, s * 3 for head 1.
    #[test]
    fn each_direction_has_its_own_spread() {
        let size = [3, 2, 4, 2];
        let read = |[s, r, a, h]: [usize; 4]| {
            if h == 0 { (a * 2 + r * 10) as f64 } else { (s * 3) as f64 }
        };
        // 0, 2, 4, 6 for one of two heads; 0, 10; 0, 3, 6.
        let deviation = (20.0_f64 / 3.0).sqrt();
        assert!((along(2, size, read) - deviation / 2.0).abs() < 1e-12);
        assert!((along(1, size, read) - 50.0_f64.sqrt() / 2.0).abs() < 1e-12);
        assert!((along(0, size, read) - 3.0 / 2.0).abs() < 1e-12);
        assert_eq!(along(2, [3, 2, 1, 2], read), 0.0);
        assert_eq!(along(0, [3, 0, 1, 2], read), 0.0);
    }
}
