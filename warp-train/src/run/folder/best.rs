//! Which checkpoints are kept because of their evaluations.

/// Steps with the mean returns of the evaluations there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BestSteps {
    /// Best first; of equal ones the earlier.
    scores: Vec<(f64, u64)>,
}

impl BestSteps {
    /// Takes in an evaluation later than all before; whether it is among the best `keep`. One that is not
    /// finite never is.
    pub(crate) fn add(&mut self, step: u64, score: f64, keep: usize) -> bool {
        let place = self.scores.partition_point(|(other, _)| *other >= score);
        if place >= keep || !score.is_finite() {
            return false;
        }
        self.scores.insert(place, (score, step));
        self.scores.truncate(keep);
        true
    }

    /// Whether the checkpoint of `step` is one of them.
    pub(crate) fn contains(&self, step: u64) -> bool {
        self.scores.iter().any(|(_, own)| *own == step)
    }

    /// The step of the best one; nothing if there was no evaluation.
    pub(crate) fn first(&self) -> Option<u64> {
        self.scores.first().map(|(_, step)| *step)
    }

    /// At most `keep` of them, and only those that `is_there`.
    pub(crate) fn narrowed(mut self, keep: usize, is_there: impl Fn(u64) -> bool) -> Self {
        self.scores.retain(|(_, step)| is_there(*step));
        self.scores.truncate(keep);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_and_of_equal_ones_the_earlier() {
        let mut best = BestSteps::default();
        let added: Vec<bool> = [(1, 3.0), (2, 5.0), (3, 5.0), (4, 4.0), (5, f64::NAN), (6, 9.0)]
            .into_iter()
            .map(|(step, score)| best.add(step, score, 2))
            .collect();
        assert_eq!(added, [true, true, true, false, false, true]);
        let kept: Vec<u64> = (1..=6).filter(|step| best.contains(*step)).collect();
        assert_eq!((kept, best.first()), (vec![2, 6], Some(6)));
        assert_eq!(best.clone().narrowed(5, |step| step < 6).first(), Some(2));
        assert_eq!(best.narrowed(0, |_| true).first(), None);
        assert!(!BestSteps::default().add(1, 1.0, 0));
    }
}
