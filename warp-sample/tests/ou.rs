//! Ornstein-Uhlenbeck noise has the statistics of its definition, and starts anew with an episode.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use warp_sample::{Bounding, Error, GaussianLayout, OrnsteinUhlenbeck, Rows};

const DAMPING: f32 = 0.15;
const STDDEV: f32 = 0.2;

fn unbounded(dim: usize) -> GaussianLayout {
    let (low, high) = (vec![f32::NEG_INFINITY; dim], vec![f32::INFINITY; dim]);
    GaussianLayout::new(&low, &high, Bounding::Clip).unwrap()
}

fn process() -> OrnsteinUhlenbeck {
    OrnsteinUhlenbeck::new(DAMPING, STDDEV, 1.0).unwrap()
}

/// `n_steps` steps of the noise of `n` rows, from zeros.
fn trajectory(n: usize, dim: usize, n_steps: u32, seed: u64) -> Vec<Vec<f32>> {
    let (layout, means) = (unbounded(dim), vec![0.0; n * dim]);
    let (mut noise, mut actions) = (vec![0.0; n * dim], vec![0.0; n * dim]);
    let step = |step| {
        let rows = Rows { n_agents: 2, ..Rows::new(seed, step) };
        process().apply(&layout, &means, &rows, &mut noise, &mut actions).unwrap();
        assert_eq!(noise, actions);
        noise.clone()
    };
    (0..n_steps).map(step).collect()
}

fn mean(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    numbers.clone().sum::<f64>() / numbers.count() as f64
}

#[test]
fn in_the_long_run_mean_deviation_and_correlation_are_those_of_the_definition() {
    let (n, keep) = (4000, f64::from(1.0 - DAMPING));
    let steps = trajectory(n, 2, 80, 9);
    let stationary = f64::from(STDDEV) / (1.0 - keep * keep).sqrt();
    let last = steps[79].iter().map(|x| f64::from(*x));
    let count = 2.0 * n as f64;
    assert!(mean(last.clone()).abs() < 4.0 * stationary / count.sqrt());
    let variance = mean(last.clone().map(|x| x * x));
    // The mean of squares of n normal numbers deviates by sqrt(2 / n) of itself.
    let error = (variance / (stationary * stationary) - 1.0).abs();
    assert!(error < 4.0 * (2.0 / count).sqrt(), "{variance} {stationary}");
    let fourth = mean(last.map(|x| (x / stationary).powi(4)));
    assert!((fourth - 3.0).abs() < 4.0 * (96.0 / count).sqrt(), "{fourth}");
    for lag in [1, 2, 5, 12] {
        let pairs = steps[79 - lag].iter().zip(&steps[79]);
        let products = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b));
        let found = mean(products) / (stationary * stationary);
        let expected = keep.powi(lag as i32);
        assert!((found - expected).abs() < 4.0 * (2.0 / count).sqrt(), "{lag}: {found} {expected}");
    }
}

#[test]
fn from_zero_the_deviation_grows_as_the_definition_says() {
    let keep = f64::from(1.0 - DAMPING);
    let steps = trajectory(4000, 1, 6, 21);
    for (t, noise) in steps.iter().enumerate() {
        let growth: f64 = (0..=t).map(|k| keep.powi(2 * k as i32)).sum();
        let expected = f64::from(STDDEV).powi(2) * growth;
        let found = mean(noise.iter().map(|x| f64::from(*x).powi(2)));
        assert!((found / expected - 1.0).abs() < 4.0 * (2.0f64 / 4000.0).sqrt(), "{t}: {found}");
    }
}

#[test]
fn rows_and_elements_have_noise_of_their_own() {
    let steps = trajectory(3000, 2, 30, 4);
    let last = &steps[29];
    let variance = mean(last.iter().map(|x| f64::from(*x).powi(2)));
    let elements = last.chunks(2).map(|x| f64::from(x[0]) * f64::from(x[1]));
    let agents = last.chunks(4).map(|x| f64::from(x[0]) * f64::from(x[2]));
    for (products, n) in [(mean(elements), 3000.0f64), (mean(agents), 1500.0)] {
        assert!((products / variance).abs() < 4.0 / n.sqrt(), "{products}");
    }
}

#[test]
fn actions_are_means_plus_scaled_noise_within_the_bounds() {
    let layout = GaussianLayout::new(&[-0.1, -9.0], &[0.1, 9.0], Bounding::Clip).unwrap();
    let by = OrnsteinUhlenbeck::new(0.3, 0.5, 2.0).unwrap();
    let means = [0.05, -1.0].repeat(50);
    let (mut noise, mut actions) = (vec![0.25; 100], vec![0.0; 100]);
    by.apply(&layout, &means, &Rows::new(2, 3), &mut noise, &mut actions).unwrap();
    let mut cut = 0;
    for (i, ((mean, noise), action)) in means.iter().zip(&noise).zip(&actions).enumerate() {
        let bound = if i % 2 == 0 { 0.1 } else { 9.0 };
        assert_eq!(*action, (mean + 2.0 * noise).clamp(-bound, bound));
        cut += usize::from(action.abs() == bound);
    }
    assert!(cut > 20, "{cut}");
}

#[test]
fn noise_starts_anew_with_an_episode() {
    let mut noise = vec![1.0; 12];
    OrnsteinUhlenbeck::reset(&[0, 1, 0], &mut noise).unwrap();
    assert_eq!(noise, [[1.0; 4], [0.0; 4], [1.0; 4]].concat());
    let wrong = OrnsteinUhlenbeck::reset(&[0; 5], &mut noise).unwrap_err();
    assert!(matches!(wrong, Error::Length { array: "noise", .. }), "{wrong}");
}

#[test]
fn coefficients_out_of_range_are_refused() {
    for (coefficients, word) in [
        ([1.5, 0.2, 1.0], "damping of Ornstein-Uhlenbeck noise is 1.5, expected a number between"),
        ([0.5, -0.2, 1.0], "stddev of Ornstein-Uhlenbeck noise is -0.2"),
        ([0.5, 0.2, f32::NAN], "scale of Ornstein-Uhlenbeck noise is NaN, expected a finite"),
    ] {
        let [damping, stddev, scale] = coefficients;
        let error = OrnsteinUhlenbeck::new(damping, stddev, scale).unwrap_err().to_string();
        assert!(error.starts_with(word), "{error}");
    }
}
