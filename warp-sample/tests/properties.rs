//! What holds for any layout, logits, mask and batch.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use proptest::prelude::*;
use warp_core::{Draw, Purpose};
use warp_sample::{CategoricalLayout, Mode, Rows, Samples};

/// A batch of rows with at least one possible choice per head.
#[derive(Debug, Clone)]
struct Case {
    sizes: Vec<usize>,
    logits: Vec<f32>,
    mask: Vec<u8>,
    rows: Rows,
    n: usize,
}

/// The results for a batch, or for a part of one.
#[derive(Debug, PartialEq)]
struct Drawn {
    actions: Vec<i32>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
}

fn draw(case: &Case, mask: Option<&[u8]>, mode: Mode) -> Drawn {
    let mut drawn = Drawn {
        actions: vec![-1; case.n * case.sizes.len()],
        log_probs: vec![0.0; case.n],
        entropies: vec![0.0; case.n],
    };
    let out = Samples {
        actions: &mut drawn.actions,
        log_probs: &mut drawn.log_probs,
        entropies: &mut drawn.entropies,
    };
    let layout = CategoricalLayout::new(&case.sizes).unwrap();
    layout.sample(&case.logits, mask, &case.rows, mode, out).unwrap();
    drawn
}

/// Logits of all magnitudes, of which some are equal and some impossible.
fn logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => -5.0f32..5.0,
        2 => (-3i8..3).prop_map(f32::from),
        1 => -200.0f32..200.0,
        1 => prop_oneof![Just(f32::NEG_INFINITY), Just(-3e38f32), Just(3e38)],
    ]
}

prop_compose! {
    fn layout_and_rows()(
        sizes in prop::collection::vec(1usize..9, 1..7),
        n in prop_oneof![4 => 1usize..8, 1 => 60usize..200],
        (seed, step, first_replica) in any::<(u64, u32, u32)>(),
        (n_agents, first_agent) in (1u32..4, 0u32..4),
    ) -> (Vec<usize>, usize, Rows) {
        (sizes, n, Rows { seed, step, first_replica, first_agent, n_agents })
    }
}

fn case() -> impl Strategy<Value = Case> {
    layout_and_rows().prop_flat_map(|(sizes, n, rows)| {
        let width = n * sizes.iter().sum::<usize>();
        let logits = prop::collection::vec(logit(), width);
        let mask = prop::collection::vec(prop_oneof![1 => Just(0u8), 3 => Just(1)], width);
        (logits, mask, prop::collection::vec(any::<prop::sample::Index>(), n * sizes.len()))
            .prop_map(move |(logits, mask, possible)| {
                let mut case = Case { sizes: sizes.clone(), logits, mask, rows, n };
                let heads: Vec<_> = heads(&case).collect();
                for ((first, size), index) in heads.into_iter().zip(possible) {
                    let choice = first + index.index(size);
                    case.mask[choice] = 1;
                    case.logits[choice] = case.logits[choice].max(-3e38);
                }
                case
            })
    })
}

/// First logit and size of every head of every row.
fn heads(case: &Case) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    let sizes = case.sizes.repeat(case.n);
    sizes.into_iter().map(move |size| {
        first += size;
        (first - size, size)
    })
}

/// Probabilities of a head in f64.
fn probabilities(logits: &[f32], mask: &[u8]) -> Vec<f64> {
    let allowed = || logits.iter().zip(mask).map(|(l, m)| (f64::from(*l), *m != 0));
    let max = allowed().filter(|(_, m)| *m).fold(f64::NEG_INFINITY, |a, (l, _)| a.max(l));
    let weights: Vec<f64> = allowed().map(|(l, m)| if m { (l - max).exp() } else { 0.0 }).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

fn close(value: f32, exact: f64) -> bool {
    (f64::from(value) - exact).abs() <= 2e-6 + 4e-7 * exact.abs()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_agree_with_f64(case in case(), greedy in any::<bool>()) {
        let mode = if greedy { Mode::Greedy } else { Mode::Sample };
        let drawn = draw(&case, Some(&case.mask), mode);
        let mut exact = vec![(0.0, 0.0); case.n];
        for (i, (first, size)) in heads(&case).enumerate() {
            let (logits, mask) = (&case.logits[first..first + size], &case.mask[first..first + size]);
            let p = probabilities(logits, mask);
            let action = drawn.actions[i] as usize;
            prop_assert!(action < size && mask[action] != 0 && p[action] > 0.0);
            if greedy {
                let best = p.iter().enumerate().fold(0, |b, (j, q)| if *q > p[b] { j } else { b });
                prop_assert_eq!(p[action], p[best]);
                let earlier = (0..action).any(|j| mask[j] != 0 && logits[j] >= logits[action]);
                prop_assert!(!earlier);
            }
            let plogp = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
            exact[i / case.sizes.len()].0 += p[action].ln();
            exact[i / case.sizes.len()].1 -= p.iter().copied().map(plogp).sum::<f64>();
        }
        for (row, (log_prob, entropy)) in exact.into_iter().enumerate() {
            prop_assert!(close(drawn.log_probs[row], log_prob));
            prop_assert!(close(drawn.entropies[row], entropy));
            prop_assert!(drawn.log_probs[row] <= 0.0 && drawn.entropies[row] >= 0.0);
        }
    }

    /// The choice is the inverse of the distribution function at the draw that the row's names
    /// give.
    #[test]
    fn draws_are_the_ones_that_the_rows_are_named_for(case in case()) {
        let drawn = draw(&case, Some(&case.mask), Mode::Sample);
        let n_heads = case.sizes.len();
        for (i, (first, size)) in heads(&case).enumerate() {
            let (row, head) = (i / n_heads, i % n_heads);
            let Rows { seed, step, first_replica, first_agent, n_agents } = case.rows;
            let replica = first_replica.wrapping_add(row as u32 / n_agents);
            let agent = first_agent + row as u32 % n_agents;
            let mut draw = Draw::new(seed, replica, step, Purpose::Action).agent(agent);
            (0..head).for_each(|_| _ = draw.next_u32());
            let uniform = f64::from(draw.uniform());
            let p = probabilities(&case.logits[first..first + size], &case.mask[first..first + size]);
            let action = drawn.actions[i] as usize;
            let below: f64 = p[..action].iter().sum();
            prop_assert!(below <= uniform + 1e-6 && uniform <= below + p[action] + 1e-6);
        }
    }

    #[test]
    fn a_mask_is_the_same_as_infinitely_small_logits(case in case()) {
        let mut impossible = case.clone();
        for (logit, mask) in impossible.logits.iter_mut().zip(&case.mask) {
            *logit = if *mask == 0 { f32::NEG_INFINITY } else { *logit };
        }
        let masked = draw(&case, Some(&case.mask), Mode::Sample);
        prop_assert_eq!(masked, draw(&impossible, None, Mode::Sample));
    }

    /// A batch cut at a replica's boundary gives the results of the whole.
    #[test]
    fn results_do_not_depend_on_how_a_batch_is_cut(case in case(), cut in any::<prop::sample::Index>()) {
        let whole = draw(&case, Some(&case.mask), Mode::Sample);
        let n_agents = case.rows.n_agents as usize;
        let n = (cut.index(case.n) / n_agents) * n_agents;
        let at = n * case.sizes.iter().sum::<usize>();
        let mut tail = Case { n: case.n - n, ..case.clone() };
        tail.rows.first_replica = case.rows.first_replica.wrapping_add((n / n_agents) as u32);
        (tail.logits, tail.mask) = (case.logits[at..].to_vec(), case.mask[at..].to_vec());
        let tail = draw(&tail, Some(&tail.mask), Mode::Sample);
        prop_assert_eq!(&whole.actions[n * case.sizes.len()..], &tail.actions[..]);
        prop_assert_eq!(&whole.log_probs[n..], &tail.log_probs[..]);
    }

    #[test]
    fn random_actions_are_allowed(case in case()) {
        let layout = CategoricalLayout::new(&case.sizes).unwrap();
        let mut actions = vec![-1; case.n * case.sizes.len()];
        layout.random_actions(Some(&case.mask), &case.rows, &mut actions).unwrap();
        for ((first, size), action) in heads(&case).zip(&actions) {
            prop_assert!((*action as usize) < size && case.mask[first + *action as usize] != 0);
        }
        let everything = vec![1; case.mask.len()];
        let mut unmasked = actions.clone();
        layout.random_actions(Some(&everything), &case.rows, &mut actions).unwrap();
        layout.random_actions(None, &case.rows, &mut unmasked).unwrap();
        prop_assert_eq!(actions, unmasked);
    }
}
