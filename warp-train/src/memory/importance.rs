//! Importance-sampling weights of prioritised replay (Schaul et al., 2016).
//!
//! Each ring samples as many of its own transitions as every other, whatever the sum of its priorities, so priorities
//! are scaled by that sum before rings are compared. Weights are normalised over the batch of all rings: the sample of
//! the smallest probability has weight 1.

use super::Ring;
use super::priorities::power;

/// What rings must know of each other's priorities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorityStats {
    /// Sum of all priorities of a ring.
    pub sum: f32,
    /// The smallest priority among the samples of its last batch; infinite if there is none.
    pub min: f32,
}

/// How priorities of a ring become importance weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Importance {
    /// What its priorities are multiplied by to be compared with those of other rings: 1 in a ring that is alone.
    scale: f32,
    /// The smallest scaled priority of a sample in all rings.
    min: f32,
    /// Power of the weights.
    beta: f32,
}

impl Importance {
    /// In the ring with the statistics `own`, one of those that have `all`, which are in their order.
    #[must_use]
    pub fn of(all: &[PriorityStats], own: PriorityStats, beta: f32) -> Self {
        let mean = all.iter().map(|stats| stats.sum).sum::<f32>() / all.len() as f32;
        let scale = |stats: &PriorityStats| mean / stats.sum;
        let min = all.iter().map(|stats| stats.min * scale(stats)).fold(f32::INFINITY, f32::min);
        Self { scale: scale(&own), min, beta }
    }
}

impl Ring {
    /// Statistics of the priorities and of the last batch; none where all transitions are equally likely.
    #[must_use]
    pub fn priority_stats(&self) -> Option<PriorityStats> {
        let priorities = self.priorities.as_ref()?;
        let of = |place: &usize| priorities.of(*place);
        let min = self.sampled.iter().map(of).filter(|p| *p > 0.0).fold(f32::INFINITY, f32::min);
        Some(PriorityStats { sum: priorities.total(), min })
    }

    /// Puts the importance weights of the last batch's samples into `weights`, f32 `[n]`, where these are not 0.
    pub fn importance_weights(&self, importance: &Importance, weights: &mut [f32]) {
        let Some(priorities) = &self.priorities else { return };
        let Importance { scale, min, beta } = *importance;
        for (weight, place) in weights.iter_mut().zip(&self.sampled) {
            if *weight > 0.0 {
                *weight = power(priorities.of(*place) * scale / min, -beta);
            }
        }
    }

    /// The largest priority so far, which new transitions get; none where all are equally likely.
    #[must_use]
    pub fn max_priority(&self) -> Option<f32> {
        self.priorities.as_ref().map(|priorities| priorities.largest())
    }

    /// Raises the largest priority to `max`, that of all rings, if this is larger.
    pub fn raise_max_priority(&mut self, max: f32) {
        if let Some(priorities) = &mut self.priorities {
            priorities.raise_max(max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_make_up_for_how_likely_samples_are_among_all_rings() {
        // Two rings of which either gives half of the batch: the first one's priorities are 1 and 3, the other's 2
        // and 6, so that a sample of half the priority is as likely there.
        let all = [PriorityStats { sum: 4.0, min: 1.0 }, PriorityStats { sum: 8.0, min: 2.0 }];
        let [one, two] = all.map(|own| Importance::of(&all, own, 1.0));
        assert_eq!(3.0 * one.scale, 6.0 * two.scale);
        assert_eq!((one.scale, one.min), (1.5, 1.5));
        assert_eq!(two.min, one.min);
        // One that is alone has the bits of its priorities.
        let alone = Importance::of(&all[..1], all[0], 0.4);
        assert_eq!(alone, Importance { scale: 1.0, min: 1.0, beta: 0.4 });
    }
}
