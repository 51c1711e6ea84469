//! Confidence intervals: what independent numbers (runs, episodes) say about their true mean.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The kind of all intervals in reports and plots.
pub const INTERVAL: &str = "95 % confidence interval of the mean, Student's t";

/// The mean of some numbers, and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Standard deviation (n - 1); `None` for a single number.
    pub std: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean: t std / sqrt(n), with the 97.5 %
    /// quantile of Student's t for n - 1 degrees of freedom; `None` for a single number.
    pub confidence: Option<f64>,
}

impl Estimate {
    /// The estimate from `numbers`; `None` if there are none.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
        let std = (n > 1.0).then(|| (squares / (n - 1.0)).sqrt());
        let t = StudentsT::new(0.0, 1.0, n - 1.0).map(|t| t.inverse_cdf(0.975));
        let confidence = std.zip(t.ok()).map(|(std, t)| t * std / n.sqrt());
        (n > 0.0).then_some(Self { mean, std, confidence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half the width for numbers whose standard deviation is 1.
    fn half_width(n: usize) -> f64 {
        // Pairs around 0, and 0 itself where n is odd.
        let pairs = (n / 2) as f64;
        let apart = ((n - 1) as f64 / (2.0 * pairs)).sqrt();
        let numbers = [apart, -apart].into_iter().cycle().take(n / 2 * 2);
        let numbers: Vec<f64> = numbers.chain((n % 2 == 1).then_some(0.0)).collect();
        let found = Estimate::of(&numbers).unwrap();
        assert!((found.std.unwrap() - 1.0).abs() < 1e-12);
        found.confidence.unwrap()
    }

    #[test]
    fn intervals_are_those_of_students_t() {
        // Quantiles from printed tables.
        for (n, t) in
            [(2, 12.706), (3, 4.303), (4, 3.182), (10, 2.262), (31, 2.042), (100_001, 1.960)]
        {
            let found = half_width(n) * (n as f64).sqrt();
            assert!((found - t).abs() < 5e-4, "{n}: {found}");
        }
    }

    #[test]
    fn a_lone_number_has_none() {
        let found = Estimate::of(&[3.0]).unwrap();
        assert_eq!((found.mean, found.std, found.confidence), (3.0, None, None));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[2.0, 2.0]).unwrap().confidence, Some(0.0));
    }
}
