//! Derivatives that row functions give against differences of what they are derivatives of.

use crate::loss::{deterministic, dqn, sac, sac_discrete};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warp_core::{Draw, Purpose};

/// Points at which derivatives are compared.
const POINTS: usize = 200;
/// How far a number is moved: f32's rounding and the third derivative weigh about the same.
const REACH: f32 = 1e-2;

/// What SAC draws.
#[derive(Debug, Default)]
struct Drawn {
    action: [f32; 2],
    noise: [f32; 2],
    log_prob: [f32; 1],
}

/// A loss and its slopes by four logits.
#[derive(Debug, Default)]
struct Costs {
    slopes: [f32; 4],
    loss: [f32; 1],
}

fn numbers<const N: usize>(rng: &mut StdRng, size: f32) -> [f32; N] {
    std::array::from_fn(|_| rng.random_range(-size..size))
}

/// Expects `derivatives` of `of` at `x`; both may be off by what f32 and the distance cost.
fn expect<const N: usize>(x: [f32; N], derivatives: &[f32], of: impl Fn(&[f32; N]) -> f64) {
    for i in 0..N {
        let at = |by: f32| {
            let mut moved = x;
            moved[i] += by;
            of(&moved)
        };
        // By four points, so that the distance costs the fifth derivative.
        let near = (at(REACH) - at(-REACH)) * 8.0;
        let far = at(2.0 * REACH) - at(-2.0 * REACH);
        let slope = (near - far) / (12.0 * f64::from(REACH));
        let error = (slope - f64::from(derivatives[i])).abs();
        assert!(error < 2e-4 * slope.abs().max(1.0), "{x:?}: {i} is {derivatives:?}, not {slope}");
    }
}

#[test]
fn an_actor_of_sac_has_the_slope_of_its_loss() {
    let rng = &mut StdRng::seed_from_u64(1);
    for point in 0..POINTS {
        let output: [f32; 4] = numbers(rng, 1.5);
        let [log_alpha, inv_batch_size] = numbers(rng, 1.0);
        let (first, second): ([f32; 2], [f32; 2]) = (numbers(rng, 1.0), numbers(rng, 1.0));
        let bounds = [-1.0, 1.0];
        let draw = Draw::new(3, point as u32, 0, Purpose::Learn);
        let drawn = |output: &[f32]| {
            let Drawn { mut action, mut noise, mut log_prob } = Drawn::default();
            let (low, high, draw) = (bounds[0], bounds[1], &mut draw.clone());
            sac::sample_action(draw, low, high, output, &mut action, &mut noise, &mut log_prob);
            Drawn { action, noise, log_prob }
        };
        let Drawn { action, noise, .. } = drawn(&output);
        // A bend of the range within reach has no slope.
        if output[2..].iter().any(|x| (x.abs() - 1.0).abs() < 3.0 * REACH) {
            continue;
        }
        let mut found = [0.0; 4];
        sac::actor_gradient(
            inv_batch_size,
            bounds[0],
            bounds[1],
            &[1.0],
            &output,
            &action,
            &noise,
            &[log_alpha],
            &first,
            &second,
            &mut found,
        );
        // Critics that are linear in the action.
        expect(output, &found, |output| {
            let Drawn { action, log_prob, .. } = drawn(output);
            let slopes = first.iter().zip(&second).map(|(a, b)| f64::from(*a) + f64::from(*b));
            let values: f64 = slopes.zip(action).map(|(slope, a)| slope * f64::from(a)).sum();
            f64::from(inv_batch_size) * f64::from(log_alpha).exp() * f64::from(log_prob[0]) + values
        });
    }
}

#[test]
fn a_deterministic_actor_has_the_slope_of_its_critic() {
    let rng = &mut StdRng::seed_from_u64(2);
    for _ in 0..POINTS {
        let (output, slopes): ([f32; 3], [f32; 3]) = (numbers(rng, 2.0), numbers(rng, 1.0));
        let squashed = |output: &[f32]| {
            let mut action = [0.0; 3];
            deterministic::squash(output, &mut action);
            action
        };
        let mut found = [0.0; 3];
        deterministic::actor_gradient(&squashed(&output), &slopes, &mut found);
        expect(output, &found, |output| weighted(&slopes, &squashed(output)));
    }
}

#[test]
fn duelling_values_pass_their_slopes_on() {
    let rng = &mut StdRng::seed_from_u64(3);
    for _ in 0..POINTS {
        let (output, slopes): ([f32; 5], [f32; 4]) = (numbers(rng, 2.0), numbers(rng, 1.0));
        let mut found = [0.0; 5];
        dqn::duel_gradient(&slopes, &mut found);
        expect(output, &found, |output| {
            let mut q = [0.0; 4];
            dqn::duel(output, &mut q);
            weighted(&slopes, &q)
        });
    }
}

#[test]
fn an_actor_of_choices_has_the_slope_of_its_loss() {
    let rng = &mut StdRng::seed_from_u64(4);
    for point in 0..POINTS {
        let logits: [f32; 4] = numbers(rng, 2.0);
        let (q_1, q_2): ([f32; 4], [f32; 4]) = (numbers(rng, 2.0), numbers(rng, 2.0));
        let [log_alpha] = numbers(rng, 1.0);
        // One choice at least is allowed.
        let mask: [f32; 4] =
            std::array::from_fn(|i| f32::from(u8::from(i == point % 4 || rng.random_bool(0.6))));
        let at = |logits: &[f32]| {
            let Costs { mut slopes, mut loss } = Costs::default();
            sac_discrete::actor_loss(
                1.0,
                &[1.0],
                &mask,
                &[log_alpha],
                logits,
                &q_1,
                &q_2,
                &mut slopes,
                &mut loss,
                &mut [0.0],
            );
            Costs { slopes, loss }
        };
        let Costs { slopes, .. } = at(&logits);
        assert!(slopes.iter().zip(mask).all(|(slope, allowed)| allowed > 0.0 || *slope == 0.0));
        expect(logits, &slopes, |logits| f64::from(at(logits).loss[0]));
    }
}

/// At the largest entropy that the allowed choices have, a temperature falls; where there is no choice, it stays.
#[test]
fn a_temperature_of_choices_has_a_target_within_reach() {
    let (inv_batch_size, entropy_share) = (0.5, 0.89);
    for n_allowed in 1..=4 {
        let mask: [f32; 4] = std::array::from_fn(|i| f32::from(u8::from(i < n_allowed)));
        let (mut slopes, mut entropy, mut slope, mut alpha) = ([0.0; 4], [0.0], [0.0], [0.0]);
        let [logits, q] = [[0.25; 4], [0.0; 4]];
        let mut loss = [0.0];
        sac_discrete::actor_loss(
            inv_batch_size,
            &[1.0],
            &mask,
            &[0.5],
            &logits,
            &q,
            &q,
            &mut slopes,
            &mut loss,
            &mut entropy,
        );
        sac_discrete::masked_temperature_loss(
            inv_batch_size,
            entropy_share,
            &[1.0],
            &mask,
            &[0.5],
            &entropy,
            &mut slope,
            &mut alpha,
        );
        let expected = 0.5 * 0.11 * (n_allowed as f32).ln();
        assert!((slope[0] - expected).abs() < 1e-6, "{n_allowed}: {slope:?}, not {expected}");
        assert!(n_allowed > 1 || slope[0] == 0.0);
        assert!((alpha[0] - 0.5_f32.exp()).abs() < 1e-6);
    }
}

fn weighted(slopes: &[f32], numbers: &[f32]) -> f64 {
    slopes.iter().zip(numbers).map(|(slope, x)| f64::from(*slope) * f64::from(*x)).sum()
}
