//! Determinism, independence and distribution of the draws.

use super::*;

fn words(mut draw: Draw, n: usize) -> Vec<u32> {
    (0..n).map(|_| draw.next_u32()).collect()
}

/// Sum of (observed - expected)^2 / expected over equally likely cells.
fn chi_square(counts: &[u32]) -> f64 {
    let expected = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum()
}

/// Chi-square's mean and four standard deviations for `cells` cells.
fn chi_square_bound(cells: usize) -> f64 {
    let freedom = (cells - 1) as f64;
    freedom + 4.0 * (2.0 * freedom).sqrt()
}

#[test]
fn words_are_the_blocks_of_philox_in_order() {
    let seed = 0x0123_4567_89ab_cdef;
    let drawn = words(Draw::new(seed, 11, 22, Purpose::Action).agent(33), 10);
    let block = |b| philox4x32_10([11, 33, 22, (3 << 24) | b], [0x89ab_cdef, 0x0123_4567]);
    let expected: Vec<u32> = (0..3).flat_map(block).take(10).collect();
    assert_eq!(drawn, expected);
}

#[test]
fn agent_starts_from_its_first_draw_whatever_was_drawn() {
    let fresh = Draw::new(1, 2, 3, Purpose::Step);
    let mut used = fresh;
    for n in 0..9 {
        assert_eq!(words(used.agent(5), 6), words(fresh.agent(5), 6), "after {n} draws");
        used.next_u32();
    }
    assert_eq!(words(fresh.agent(0), 6), words(fresh, 6));
}

#[test]
fn streams_that_differ_in_one_name_share_nothing() {
    let new = Draw::new;
    let streams = [
        new(1, 2, 3, Purpose::Step),
        new(2, 2, 3, Purpose::Step),
        new(1 | (1 << 32), 2, 3, Purpose::Step),
        new(1, 3, 3, Purpose::Step),
        new(1, 2, 4, Purpose::Step),
        new(1, 2, 3, Purpose::Reset),
        new(1, 2, 3, Purpose::Step).agent(1),
    ];
    let mut all: Vec<u32> = streams.iter().flat_map(|s| words(*s, 1_000)).collect();
    all.sort_unstable();
    all.dedup();
    // 7,000 random words collide 0.006 times on average.
    assert!(all.len() >= 6_999, "{} different words", all.len());
}

/// Neighbouring streams, as replicas and steps are used, must not be correlated.
#[test]
fn neighbouring_streams_are_uncorrelated() {
    type Stream = fn(u32) -> Draw;
    let streams: [Stream; 3] = [
        |i| Draw::new(9, i, 0, Purpose::Step),
        |i| Draw::new(9, 0, i, Purpose::Step),
        |i| Draw::new(9, 0, 0, Purpose::Step).agent(i),
    ];
    for stream in streams {
        let x: Vec<f64> = (0..20_001).map(|i| f64::from(stream(i).uniform()) - 0.5).collect();
        let product: f64 = x.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / 20_000.0;
        // Of independent values: mean 0, standard deviation 1 / 12 / sqrt(n).
        assert!(product.abs() < 4.0 / 12.0 / 20_000f64.sqrt(), "{product}");
    }
}

#[test]
fn uniform_fills_its_cells_evenly() {
    let mut cells = [0; 256];
    let mut pairs = [0; 256];
    for replica in 0..1_000 {
        let mut draw = Draw::new(7, replica, 1, Purpose::Reset);
        for _ in 0..128 {
            let (a, b) = (draw.uniform(), draw.uniform());
            assert!((0.0..1.0).contains(&a) && (0.0..1.0).contains(&b));
            cells[(a * 256.0) as usize] += 1;
            pairs[(a * 16.0) as usize * 16 + (b * 16.0) as usize] += 1;
        }
    }
    assert!(chi_square(&cells) < chi_square_bound(256), "{}", chi_square(&cells));
    assert!(chi_square(&pairs) < chi_square_bound(256), "{}", chi_square(&pairs));
}

#[test]
fn uniform_in_keeps_to_its_range() {
    let mut draw = Draw::new(3, 0, 0, Purpose::Step);
    let x: Vec<f32> = (0..10_000).map(|_| draw.uniform_in(-0.05, 0.05)).collect();
    assert!(x.iter().all(|x| (-0.05..=0.05).contains(x)));
    assert!(x.iter().any(|x| *x < -0.0499) && x.iter().any(|x| *x > 0.0499));
}

#[test]
fn below_is_even_for_any_bound() {
    for n in [1, 2, 3, 7, 10, 100] {
        let mut draw = Draw::new(5, n, 0, Purpose::RandomAction);
        let mut counts = vec![0; n as usize];
        (0..50_000).for_each(|_| counts[draw.below(n) as usize] += 1);
        assert!(chi_square(&counts) <= chi_square_bound(n as usize), "{n}: {counts:?}");
    }
    let mut draw = Draw::new(5, 0, 0, Purpose::Step);
    assert_eq!(draw.below(0), 0);
    assert!((0..1_000).any(|_| draw.below(u32::MAX) > 1 << 31));
}

#[test]
fn normal_has_the_moments_of_the_standard_normal() {
    let n = 200_000;
    let mut draw = Draw::new(13, 0, 0, Purpose::Noise);
    let x: Vec<f64> = (0..n).map(|_| f64::from(draw.normal())).collect();
    let moment = |k: i32| x.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
    // Each bound is four standard deviations of the moment.
    let bounds =
        [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0), (6, 15.0, 10_170.0)];
    for (k, expected, variance) in bounds {
        let bound = 4.0 * (f64::sqrt(variance) / f64::from(n).sqrt());
        assert!((moment(k) - expected).abs() < bound, "moment {k}: {}", moment(k));
    }
    let beyond = |z: f64| x.iter().filter(|x| x.abs() > z).count() as f64 / f64::from(n);
    assert!((beyond(1.0) - 0.3173).abs() < 0.005 && (beyond(3.0) - 0.0027).abs() < 0.0005);
    assert!(x.iter().all(|x| x.abs() <= 5.77));
}
