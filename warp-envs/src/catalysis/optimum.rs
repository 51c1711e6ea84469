//! The best that can be reached on a landscape: by Dijkstra's search and by value iteration.
//!
//! Cells of the slab are the nodes. To leave it never pays, since no step inside costs more.

use super::landscape::{Landscape, place};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sweeps of value iteration at most; every sweep of a slab brings the goal at least one cell nearer.
const MOST_SWEEPS: usize = 10_000;
/// A value that changes by less stands still.
const STILL: f64 = 1e-12;

/// The best that can be reached from the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimum {
    /// The highest sum of rewards of an episode that reaches the goal, without a time limit.
    pub best_return: f64,
    /// The cells (x, y, z of each atom) of a path with that return, both ends included.
    pub path: Vec<Vec<i32>>,
    /// The highest sum of discounted rewards.
    pub best_value: f64,
    /// By how much the highest energy of a path must exceed that of the start, eV; 0: it need not.
    pub barrier: f64,
}

impl Landscape {
    /// The best that can be reached from the start; `gamma` is the discount of [`Optimum::best_value`],
    /// at least 0 and below 1.
    ///
    /// `None` if the goal cannot be reached, which happens in a slab of one layer at most.
    #[must_use]
    pub fn optimum(&self, gamma: f64) -> Option<Optimum> {
        let graph = Graph::of(self)?;
        let costs: Vec<f64> = self.rewards().map(|reward| -reward).collect();
        let (cost, path) = graph.search(0.0, |cost, cell| cost + costs[cell])?;
        // Shifted, as keys of the search must not be negative.
        let lowest = self.energies.iter().copied().fold(f64::INFINITY, f64::min);
        let start = self.energies[graph.start] - lowest;
        let (highest, _) =
            graph.search(start, |so_far, cell| so_far.max(self.energies[cell] - lowest))?;
        Some(Optimum {
            best_return: self.setting.terminate_reward - cost,
            path: path.into_iter().map(|cell| self.state(cell)).collect(),
            best_value: graph.value(&costs, self.setting.terminate_reward, gamma),
            barrier: highest - start,
        })
    }

    /// x, y, z of each atom in cell number `cell`.
    fn state(&self, cell: usize) -> Vec<i32> {
        let place = place(cell, &self.setting.shape());
        let layer = |(axis, at): (usize, usize)| {
            at as i32 + if axis % 3 == 2 { self.setting.slab.0 } else { 0 }
        };
        place.into_iter().enumerate().map(layer).collect()
    }
}

/// The cells and which lie next to each other.
struct Graph {
    /// Size, distance between neighbouring numbers, and whether it is periodic, of every axis.
    axes: Vec<(usize, usize, bool)>,
    n_cells: usize,
    start: usize,
    goal: usize,
}

impl Graph {
    /// `None` if start or goal lies outside the slab, which a setting does not allow.
    fn of(landscape: &Landscape) -> Option<Self> {
        let shape = landscape.setting.shape();
        let stride = |axis: usize| shape[axis + 1..].iter().product();
        let axis = |(axis, n): (usize, &usize)| (*n, stride(axis), axis % 3 != 2);
        Some(Self {
            axes: shape.iter().enumerate().map(axis).collect(),
            n_cells: shape.iter().product(),
            start: landscape.cell(&landscape.setting.initial)?,
            goal: landscape.cell(&landscape.setting.goal)?,
        })
    }

    /// The cells next to `cell`.
    fn neighbours(&self, cell: usize) -> impl Iterator<Item = usize> {
        self.axes.iter().flat_map(move |(n, stride, periodic)| {
            let at = cell / stride % n;
            let first = cell - at * stride;
            let up = if at + 1 < *n { Some(at + 1) } else { periodic.then_some(0) };
            let down = at.checked_sub(1).or(periodic.then_some(n - 1));
            [up, down].into_iter().flatten().map(move |to| first + to * stride)
        })
    }

    /// Dijkstra's search for the path from start to goal with the lowest cost, of several one with
    /// the fewest steps: the cost and the cells. `reach(cost, cell)` is the cost of a path after one
    /// more step, into `cell`; it is no lower than before and never negative.
    fn search(
        &self,
        at_start: f64,
        reach: impl Fn(f64, usize) -> f64,
    ) -> Option<(f64, Vec<usize>)> {
        // Numbers that are not negative are ordered as their bits.
        let mut open = BinaryHeap::from([Reverse((at_start.to_bits(), 0, self.start, self.start))]);
        let mut before = vec![usize::MAX; self.n_cells];
        while let Some(Reverse((cost, steps, cell, from))) = open.pop() {
            if before[cell] != usize::MAX {
                continue;
            }
            before[cell] = from;
            if cell == self.goal {
                return Some((f64::from_bits(cost), self.trace(&before)));
            }
            for next in self.neighbours(cell).filter(|next| before[*next] == usize::MAX) {
                let cost = reach(f64::from_bits(cost), next);
                open.push(Reverse((cost.to_bits(), steps + 1, next, cell)));
            }
        }
        None
    }

    /// The path to the goal, from the cell before each.
    fn trace(&self, before: &[usize]) -> Vec<usize> {
        let mut path = vec![self.goal];
        let mut cell = self.goal;
        while cell != self.start {
            cell = before[cell];
            path.push(cell);
        }
        path.reverse();
        path
    }

    /// The value of the start by value iteration, from below, each cell as soon as its neighbours.
    fn value(&self, costs: &[f64], terminate_reward: f64, gamma: f64) -> f64 {
        let highest = costs.iter().copied().fold(0.0, f64::max);
        let mut values = vec![-highest / (1.0 - gamma); self.n_cells];
        values[self.goal] = 0.0;
        let best = |values: &[f64], cell: usize| {
            let reward = |next| terminate_reward * f64::from(u8::from(next == self.goal));
            let after = |next| reward(next) - costs[next] + gamma * values[next];
            self.neighbours(cell).map(after).fold(values[cell], f64::max)
        };
        for sweep in 0..MOST_SWEEPS {
            let mut moved: f64 = 0.0;
            for i in 0..self.n_cells {
                // Forth and back, so that news travels both ways.
                let cell = if sweep % 2 == 0 { i } else { self.n_cells - 1 - i };
                if cell != self.goal {
                    let value = best(&values, cell);
                    moved = moved.max(value - values[cell]);
                    values[cell] = value;
                }
            }
            if moved < STILL {
                break;
            }
        }
        values[self.start]
    }
}
