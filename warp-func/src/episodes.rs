//! Totals of the episodes that ended: counts, returns, lengths and statistics.

/// Sum, minimum and maximum of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Sum.
    pub sum: f64,
    /// Smallest; infinity for none.
    pub min: f64,
    /// Largest; negative infinity for none.
    pub max: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Spread {
    /// Takes in one number.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn merge(&mut self, other: &Spread) {
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Totals over ended episodes. Which replicas ended when, and in what order sums are formed, does
/// not depend on the number of threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeTotals {
    /// Number of episodes that ended.
    pub count: u64,
    /// Return per group: the sum of the rewards of all its agents over an episode.
    pub returns: Vec<Spread>,
    /// Length in steps.
    pub length: Spread,
    /// Sums of the episode statistics, in the order of the spec.
    pub statistics: Vec<f64>,
}

impl EpisodeTotals {
    /// No episodes yet.
    #[must_use]
    pub fn new(n_groups: usize, n_statistics: usize) -> Self {
        Self {
            count: 0,
            returns: vec![Spread::default(); n_groups],
            length: Spread::default(),
            statistics: vec![0.0; n_statistics],
        }
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.returns.fill(Spread::default());
        self.length = Spread::default();
        self.statistics.fill(0.0);
    }

    /// Takes in another range of replicas.
    pub fn merge(&mut self, other: &EpisodeTotals) {
        self.count += other.count;
        self.length.merge(&other.length);
        self.returns.iter_mut().zip(&other.returns).for_each(|(a, b)| a.merge(b));
        self.statistics.iter_mut().zip(&other.statistics).for_each(|(a, b)| *a += b);
    }
}
