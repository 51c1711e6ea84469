//! What samples count for that were drawn by priorities: the likelier, the less.
//!
//! A ring draws from its own transitions alone, so that a priority is worth more in a ring whose priorities are
//! small together. Weights are those of all rings: the least likely sample of the whole batch counts for 1.

use super::Ring;
use super::priorities::power;

/// What rings must know of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// All priorities of a ring together.
    pub total: f32,
    /// The least priority among the samples of its last batch; infinite if there is none.
    pub least: f32,
}

/// How priorities of a ring become weights of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Importance {
    /// What a priority there is worth: 1 in a ring that is alone.
    worth: f32,
    /// The least worth of a sample in all rings.
    least: f32,
    /// Power of the weights.
    beta: f32,
}

impl Importance {
    /// In the ring with the odds `own`, one of those that have `all`, which are in their order.
    #[must_use]
    pub fn of(all: &[Odds], own: Odds, beta: f32) -> Self {
        let mean = all.iter().map(|odds| odds.total).sum::<f32>() / all.len() as f32;
        let worth = |odds: &Odds| mean / odds.total;
        let least = all.iter().map(|odds| odds.least * worth(odds)).fold(f32::INFINITY, f32::min);
        Self { worth: worth(&own), least, beta }
    }
}

impl Ring {
    /// The odds of the last batch; none where all transitions are equally likely.
    #[must_use]
    pub fn odds(&self) -> Option<Odds> {
        let priorities = self.priorities.as_ref()?;
        let of = |place: &usize| priorities.of(*place);
        let least = self.picked.iter().map(of).filter(|p| *p > 0.0).fold(f32::INFINITY, f32::min);
        Some(Odds { total: priorities.total(), least })
    }

    /// Makes weights f32 `[n]` of whether the last batch's samples count.
    pub fn weigh(&self, importance: &Importance, weights: &mut [f32]) {
        let Some(priorities) = &self.priorities else { return };
        let Importance { worth, least, beta } = *importance;
        for (weight, place) in weights.iter_mut().zip(&self.picked) {
            if *weight > 0.0 {
                *weight = power(priorities.of(*place) * worth / least, -beta);
            }
        }
    }

    /// The largest priority so far, which new transitions get; none where all are equally likely.
    #[must_use]
    pub fn largest_priority(&self) -> Option<f32> {
        self.priorities.as_ref().map(|priorities| priorities.largest())
    }

    /// Lets new transitions get a priority of another ring, if it is larger.
    pub fn raise_largest_priority(&mut self, largest: f32) {
        if let Some(priorities) = &mut self.priorities {
            priorities.raise_largest(largest);
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
        let all = [Odds { total: 4.0, least: 1.0 }, Odds { total: 8.0, least: 2.0 }];
        let [one, two] = all.map(|own| Importance::of(&all, own, 1.0));
        assert_eq!(3.0 * one.worth, 6.0 * two.worth);
        assert_eq!((one.worth, one.least), (1.5, 1.5));
        assert_eq!(two.least, one.least);
        // One that is alone has the bits of its priorities.
        let alone = Importance::of(&all[..1], all[0], 0.4);
        assert_eq!(alone, Importance { worth: 1.0, least: 1.0, beta: 0.4 });
    }
}
