//! Priorities of transitions, in a tree of sums (Schaul et al., "Prioritized Experience Replay", 2016).
//!
//! Leaf i of `n` is stored at `leaves + i`, and node k is the sum of nodes 2k and 2k + 1, so that bits
//! do not depend on the order in which leaves have changed.

use warp_core::math;

/// Added to an error, so that no transition is lost for good.
const LEAST_ERROR: f32 = 1e-6;

/// A priority per transition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Priorities {
    /// Number of leaves, a power of 2.
    leaves: usize,
    nodes: Vec<f32>,
    /// What a new transition gets: the largest so far.
    largest: f32,
}

impl Priorities {
    /// Bytes for `n` transitions.
    pub(crate) fn bytes(n: usize) -> u128 {
        8 * (n as u128).next_power_of_two()
    }

    /// For `n` transitions, none of which is there.
    pub(crate) fn new(n: usize) -> Self {
        let leaves = n.next_power_of_two();
        Self { leaves, nodes: vec![0.0; 2 * leaves], largest: 1.0 }
    }

    /// Sum of all priorities.
    pub(crate) fn total(&self) -> f32 {
        self.nodes[1]
    }

    /// The tree of sums: its root is node 1, and its leaves are the second half.
    #[cfg(feature = "cuda")]
    pub(crate) fn nodes(&self) -> &[f32] {
        &self.nodes
    }

    /// The priority of transition `i`.
    pub(crate) fn of(&self, i: usize) -> f32 {
        self.nodes[self.leaves + i]
    }

    /// What a new transition gets.
    pub(crate) fn largest(&self) -> f32 {
        self.largest
    }

    /// Makes that at least `max`.
    pub(crate) fn raise_max(&mut self, max: f32) {
        self.largest = self.largest.max(max);
    }

    pub(crate) fn set(&mut self, i: usize, priority: f32) {
        let mut node = self.leaves + i;
        self.nodes[node] = priority;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }

    /// Makes the priority of transition `i` what follows from its error.
    pub(crate) fn update(&mut self, i: usize, error: f32, alpha: f32) {
        let priority = power(error + LEAST_ERROR, alpha);
        self.largest = self.largest.max(priority);
        self.set(i, priority);
    }

    /// The transition within whose priority `place`, between 0 and the total, lies.
    pub(crate) fn find(&self, mut place: f32) -> usize {
        let mut node = 1;
        while node < self.leaves {
            let left = self.nodes[2 * node];
            // Never into a subtree of nothing, which rounding could lead to.
            let goes_right = place >= left && self.nodes[2 * node + 1] > 0.0;
            if goes_right {
                place -= left;
            }
            node = 2 * node + usize::from(goes_right);
        }
        node - self.leaves
    }

    /// Takes over the largest and the first priorities.
    pub(crate) fn load(&mut self, largest: f32, priorities: &[f32]) {
        self.nodes.fill(0.0);
        self.nodes[self.leaves..][..priorities.len()].copy_from_slice(priorities);
        for node in (1..self.leaves).rev() {
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
        self.largest = largest;
    }
}

/// `x` to the power `exponent`, the same bits on every machine; `x` is larger than 0.
pub(crate) fn power(x: f32, exponent: f32) -> f32 {
    math::exp(exponent * math::ln(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_are_found_in_proportion_to_their_priorities() {
        let mut priorities = Priorities::new(5);
        for (i, priority) in [1.0, 0.0, 2.0, 4.0, 1.0].into_iter().enumerate() {
            priorities.set(i, priority);
        }
        let mut counts = [0; 5];
        (0..80).for_each(|i| counts[priorities.find(i as f32 * 0.1)] += 1);
        assert_eq!((priorities.total(), counts), (8.0, [10, 0, 20, 40, 10]));
        // What rounds up to the total stays within what is there.
        assert_eq!(priorities.find(8.0), 4);
    }

    #[test]
    fn what_is_loaded_is_what_was_set() {
        let mut priorities = Priorities::new(6);
        (0..6).for_each(|i| priorities.update(i, i as f32, 0.6));
        let mut other = Priorities::new(6);
        let leaves: Vec<f32> = (0..6).map(|i| priorities.of(i)).collect();
        other.load(priorities.largest(), &leaves);
        assert_eq!(other, priorities);
    }
}
