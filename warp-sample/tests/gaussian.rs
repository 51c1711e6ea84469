//! Gaussian actions: densities against f64 and numeric integration, draws against the distribution.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use proptest::prelude::*;
use warp_core::{Draw, Purpose};
use warp_sample::{Bounding, Error, GaussianLayout, GaussianSamples, Mode, Rows};

#[derive(Debug, PartialEq, Clone)]
struct Drawn {
    raw: Vec<f32>,
    actions: Vec<f32>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
}

fn draw(layout: &GaussianLayout, parameters: &[f32], rows: &Rows, mode: Mode) -> Drawn {
    let dim = layout.dim();
    let n = parameters.len() / (2 * dim);
    let (raw, numbers) = (vec![9.0; n * dim], vec![9.0; n]);
    let mut drawn =
        Drawn { actions: raw.clone(), raw, log_probs: numbers.clone(), entropies: numbers };
    let out = GaussianSamples {
        raw: &mut drawn.raw,
        actions: &mut drawn.actions,
        log_probs: &mut drawn.log_probs,
        entropies: &mut drawn.entropies,
    };
    layout.sample(parameters, rows, mode, out).unwrap();
    drawn
}

fn layout(low: f32, high: f32, bounding: Bounding) -> GaussianLayout {
    GaussianLayout::new(&[low], &[high], bounding).unwrap()
}

/// Log-density of an action, from the definition in f64.
fn log_density(raw: f64, mean: f64, log_std: f64, half_range: Option<f64>) -> f64 {
    let z = (raw - mean) / log_std.exp();
    let normal = -0.5 * z * z - log_std - 0.5 * std::f64::consts::TAU.ln();
    match half_range {
        Some(half) => normal - (half * (1.0 - raw.tanh().powi(2))).ln(),
        None => normal,
    }
}

#[test]
fn log_probabilities_agree_with_f64() {
    for (bounding, half) in [(Bounding::Clip, None), (Bounding::Squash, Some(1.5))] {
        let layout = layout(-1.0, 2.0, bounding);
        for (mean, log_std) in [(0.0, 0.0), (1.0, -2.0), (-0.7, 0.5), (0.2, -4.5)] {
            let parameters = [mean, log_std].repeat(200);
            let drawn = draw(&layout, &parameters, &Rows::new(1, 2), Mode::Sample);
            for (raw, found) in drawn.raw.iter().zip(&drawn.log_probs) {
                let truth = log_density((*raw).into(), mean.into(), log_std.into(), half);
                // The rounding of a sample far smaller than its mean shows in its distance to it.
                let bound = 2e-6 + 2e-6 * truth.abs() + 3e-7 * f64::from(-log_std).exp();
                assert!((f64::from(*found) - truth).abs() < bound, "{raw}: {found} {truth}");
            }
        }
    }
}

/// The density over actions, by the Jacobian at `atanh`, integrates to 1 over the range.
#[test]
fn squashed_densities_integrate_to_one() {
    for (low, high) in [(-2.0, 2.0), (0.0, 5.0)] {
        let layout = layout(low, high, Bounding::Squash);
        for (mean, log_std) in [(0.0f32, -1.0f32), (0.5, -0.3), (-1.0, -2.0), (0.0, 0.3)] {
            let (low, high) = (f64::from(low), f64::from(high));
            let n = 200_000;
            let width = (high - low) / f64::from(n);
            let density = |i: i32| {
                let action = low + (f64::from(i) + 0.5) * width;
                let raw = ((action - low) / (high - low) * 2.0 - 1.0).atanh();
                let inverse_std = (-f64::from(log_std)).exp();
                let z = (raw - f64::from(mean)) * inverse_std;
                let normal = -0.5 * z * z - 0.5 * std::f64::consts::TAU.ln();
                let jacobian = f64::from(layout.log_jacobian(0, raw as f32));
                (normal - f64::from(log_std) - jacobian).exp()
            };
            let total: f64 = (0..n).map(|i| density(i) * width).sum();
            assert!((total - 1.0).abs() < 1e-4, "{mean} {log_std}: {total}");
        }
    }
}

#[test]
fn samples_have_the_moments_and_the_distribution_function_asked_for() {
    let n = 10_000;
    let (mean, log_std) = (0.3f32, -0.4f32);
    let layout = GaussianLayout::new(&[-9.0; 3], &[9.0; 3], Bounding::Clip).unwrap();
    let parameters = [mean, mean, mean, log_std, log_std, log_std].repeat(n);
    let drawn = draw(&layout, &parameters, &Rows::new(77, 5), Mode::Sample);
    assert_eq!(drawn.raw, drawn.actions);
    for element in 0..3 {
        let mut z: Vec<f64> =
            drawn.raw.iter().skip(element).step_by(3).copied().map(f64::from).collect();
        z.iter_mut().for_each(|x| *x = (*x - f64::from(mean)) / f64::from(log_std).exp());
        let moment = |k: i32| z.iter().map(|z| z.powi(k)).sum::<f64>() / n as f64;
        for (k, expected, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]
        {
            let bound = 4.0 * f64::sqrt(variance / n as f64);
            assert!((moment(k) - expected).abs() < bound, "moment {k}: {}", moment(k));
        }
        // Kolmogorov and Smirnov: beyond 1.95 / sqrt(n) with a probability of 0.001.
        z.sort_by(f64::total_cmp);
        let step = 1.0 / n as f64;
        let distance = z.iter().enumerate().map(|(i, z)| (normal_cdf(*z) - i as f64 * step).abs());
        assert!(distance.fold(0.0, f64::max) < 1.95 / (n as f64).sqrt() + step);
    }
    let pairs = drawn.raw.chunks(3).map(|x| f64::from((x[0] - mean) * (x[1] - mean)));
    let covariance = pairs.sum::<f64>() / n as f64 / (2.0 * f64::from(log_std)).exp();
    assert!(covariance.abs() < 4.0 / (n as f64).sqrt(), "{covariance}");
}

/// By Abramowitz and Stegun's 7.1.26, within 1.5e-7.
fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / 2f64.sqrt();
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let erf = 1.0 - poly * (-x * x).exp();
    if z > 0.0 { 0.5 + 0.5 * erf } else { 0.5 - 0.5 * erf }
}

#[test]
fn entropy_is_the_mean_of_minus_the_log_probability() {
    for bounding in [Bounding::Clip, Bounding::Squash] {
        let layout = layout(-3.0, 1.0, bounding);
        for (mean, log_std) in [(0.0f32, 0.0f32), (1.0, -1.0), (-0.5, -0.5)] {
            let n = 40_000;
            let drawn = draw(&layout, &[mean, log_std].repeat(n), &Rows::new(5, 0), Mode::Sample);
            let estimate = -drawn.log_probs.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let found = f64::from(drawn.entropies[0]);
            assert!((found - estimate).abs() < 0.03, "{mean} {log_std}: {found} {estimate}");
        }
    }
}

#[test]
fn greedy_is_the_mean_and_draws_nothing() {
    for bounding in [Bounding::Clip, Bounding::Squash] {
        let layout = layout(-1.0, 3.0, bounding);
        let parameters = [0.25, 0.0, 50.0, 0.0, -50.0, 0.0];
        let drawn = draw(&layout, &parameters, &Rows::new(1, 1), Mode::Greedy);
        assert_eq!(drawn.raw, [0.25, 50.0, -50.0]);
        assert_eq!(drawn.actions[1..], [3.0, -1.0]);
        let inner = if bounding == Bounding::Clip { 0.25 } else { 1.0 + 2.0 * 0.25f32.tanh() };
        assert!((drawn.actions[0] - inner).abs() < 1e-6);
        assert_eq!(drawn, draw(&layout, &parameters, &Rows::new(9, 8), Mode::Greedy));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let new = GaussianLayout::new;
    let infinite = new(&[0.0, 0.0], &[1.0, f32::INFINITY], Bounding::Squash).unwrap_err();
    assert!(infinite.to_string().contains("element 1"), "{infinite}");
    assert!(new(&[0.0], &[f32::INFINITY], Bounding::Clip).is_ok());
    assert!(new(&[1.0], &[0.0], Bounding::Clip).is_err());
    assert!(new(&[1.0], &[1.0], Bounding::Squash).is_err());
    assert!(new(&[], &[], Bounding::Clip).is_err());
    let layout = layout(0.0, 1.0, Bounding::Clip);
    assert!(layout.clone().with_log_std_range(1.0, 0.0).is_err());
    assert!(layout.clone().with_log_std_range(-30.0, 0.0).is_err());
    for (at, value) in [(2, f32::NAN), (1, f32::INFINITY)] {
        let mut parameters = [0.0; 4];
        parameters[at] = value;
        let out = GaussianSamples {
            raw: &mut [0.0; 2],
            actions: &mut [0.0; 2],
            log_probs: &mut [0.0; 2],
            entropies: &mut [0.0; 2],
        };
        let error = layout.sample(&parameters, &Rows::new(0, 0), Mode::Sample, out).unwrap_err();
        assert!(
            matches!(error, Error::Parameter { row, parameter, .. } if row * 2 + parameter == at)
        );
    }
}

#[test]
fn random_actions_cover_the_space() {
    let inf = f32::INFINITY;
    let (low, high) = ([-2.0, -inf, 3.0, -inf], [1.0, inf, inf, -3.0]);
    let layout = GaussianLayout::new(&low, &high, Bounding::Clip).unwrap();
    let mut actions = vec![f32::NAN; 4 * 20_000];
    layout.random_actions(&Rows::new(3, 1), &mut actions).unwrap();
    let mean = |element: usize| {
        actions.iter().skip(element).step_by(4).map(|x| f64::from(*x)).sum::<f64>() / 20_000.0
    };
    for (element, expected) in [(0, -0.5), (1, 0.0), (2, 4.0), (3, -4.0)] {
        assert!((mean(element) - expected).abs() < 0.04, "{element}: {}", mean(element));
        let inside = |x: &f32| (low[element]..=high[element]).contains(x);
        assert!(actions.iter().skip(element).step_by(4).all(inside));
    }
}

proptest! {
    /// Element `d` of an agent takes the `d`-th normal number of its stream, wherever a batch is cut.
    #[test]
    fn draws_are_the_ones_that_the_rows_are_named_for(
        dim in 1usize..6,
        (seed, step, first_replica) in any::<(u64, u32, u16)>(),
        (n_agents, first_agent) in (1u32..4, 0u32..4),
        replicas in 1usize..60,
        squash in any::<bool>(),
        log_std in -7.0f32..4.0,
    ) {
        let bounding = if squash { Bounding::Squash } else { Bounding::Clip };
        let layout = GaussianLayout::new(&vec![-1.0; dim], &vec![1.5; dim], bounding).unwrap();
        let first_replica = u32::from(first_replica);
        let rows = Rows { seed, step, first_replica, first_agent, n_agents };
        let n = replicas * n_agents as usize;
        let parameters: Vec<f32> = (0..n * 2 * dim)
            .map(|i| if i % (2 * dim) < dim { (i % 7) as f32 * 0.1 } else { log_std })
            .collect();
        let whole = draw(&layout, &parameters, &rows, Mode::Sample);
        prop_assert!(whole.actions.iter().all(|a| (-1.0..=1.5).contains(a)));
        let std = warp_core::math::exp(layout.clamp_log_std(log_std));
        for row in 0..n {
            let replica = first_replica + row as u32 / n_agents;
            let agent = first_agent + row as u32 % n_agents;
            let mut stream = Draw::new(seed, replica, step, Purpose::Action).agent(agent);
            for element in 0..dim {
                let expected = parameters[row * 2 * dim + element] + std * stream.normal();
                prop_assert_eq!(whole.raw[row * dim + element].to_bits(), expected.to_bits());
            }
        }
        let cut = replicas / 2;
        let (first, second) = parameters.split_at(cut * n_agents as usize * 2 * dim);
        let later = Rows { first_replica: first_replica + cut as u32, ..rows };
        let mut both = draw(&layout, first, &rows, Mode::Sample);
        let end = draw(&layout, second, &later, Mode::Sample);
        both.raw.extend(end.raw);
        both.actions.extend(end.actions);
        both.log_probs.extend(end.log_probs);
        both.entropies.extend(end.entropies);
        prop_assert_eq!(both, whole);
    }
}
