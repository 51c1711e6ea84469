//! Moments of numbers that are normalised, as the device has them and as a checkpoint names them.

use crate::error::{Error, Result};
use crate::model::Statistic;
use warp_func::cuda::DeviceValue;

/// Number of samples, mean, and variance over that number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) count: f64,
    pub(super) mean: f64,
    pub(super) var: f64,
}

impl Moments {
    /// `of` some numbers as the statistics `<prefix>_count`, `<prefix>_mean` and `<prefix>_var`.
    pub(super) fn save(of: &[Self], prefix: &str, into: &mut Vec<Statistic>) {
        let mut add = |part: &str, data: Vec<f64>| {
            let name = format!("{prefix}_{part}");
            into.push(Statistic { name, shape: vec![data.len()], data });
        };
        add("count", of.iter().take(1).map(|of| of.count).collect());
        add("mean", of.iter().map(|of| of.mean).collect());
        add("var", of.iter().map(|of| of.var).collect());
    }

    /// The reverse for `n` numbers of `policy`.
    ///
    /// # Errors
    /// A statistic that is missing, or of another length.
    pub(super) fn load(
        policy: &str,
        statistics: &[Statistic],
        prefix: &str,
        n: usize,
    ) -> Result<Vec<Self>> {
        let part = |part: &str, n| statistic(policy, statistics, &format!("{prefix}_{part}"), n);
        let count = part("count", 1)?[0];
        let (mean, var) = (part("mean", n)?, part("var", n)?);
        let each = mean.iter().zip(var);
        Ok(each.map(|(mean, var)| Self { count, mean: *mean, var: *var }).collect())
    }
}

/// The `n` numbers of `policy` called `name`.
///
/// # Errors
/// A statistic that is missing, or of another length.
pub(super) fn statistic<'a>(
    policy: &str,
    statistics: &'a [Statistic],
    name: &str,
    n: usize,
) -> Result<&'a [f64]> {
    let found = statistics.iter().find(|statistic| statistic.name == name);
    let data = found.map(|statistic| &statistic.data[..]).filter(|data| data.len() == n);
    data.ok_or_else(|| {
        Error::Invalid(format!(
            "policy \"{policy}\": statistic \"{name}\" of {n} numbers is missing"
        ))
    })
}

/// Doubles as a device has them.
pub(super) fn doubles(words: &[u32]) -> Vec<f64> {
    words.chunks_exact(2).map(f64::take).collect()
}

/// The reverse.
pub(super) fn words(doubles: &[f64]) -> Vec<u32> {
    let mut words = Vec::with_capacity(2 * doubles.len());
    doubles.iter().for_each(|double| double.put(&mut words));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_back() {
        let of = [(1.0, 2.0), (3.0, 4.0)].map(|(mean, var)| Moments { count: 7.0, mean, var });
        let mut saved = Vec::new();
        Moments::save(&of, "obs", &mut saved);
        let names: Vec<_> = saved.iter().map(|statistic| &statistic.name[..]).collect();
        assert_eq!(names, ["obs_count", "obs_mean", "obs_var"]);
        assert_eq!(Moments::load("p", &saved, "obs", 2).unwrap(), of);
        let error = Moments::load("p", &saved, "obs", 3).unwrap_err().to_string();
        assert!(error.contains("\"obs_mean\" of 3 numbers is missing"), "{error}");
    }
}
