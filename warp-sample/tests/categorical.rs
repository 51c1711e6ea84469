//! Drawn actions have the frequencies, the exact zeros and the spread that their logits say.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use warp_sample::{CategoricalLayout, Error, Mode, Rows, Samples};

const DRAWS: u32 = 10_000;

/// Actions, log-probabilities and entropies of one batch.
#[derive(Debug, PartialEq)]
struct Batch {
    actions: Vec<i32>,
    log_probs: Vec<f32>,
    entropies: Vec<f32>,
}

fn sample(sizes: &[usize], logits: &[f32], mask: Option<&[u8]>, rows: &Rows, mode: Mode) -> Batch {
    let layout = CategoricalLayout::new(sizes).unwrap();
    let n = logits.len() / layout.width();
    let mut batch = Batch {
        actions: vec![-1; n * layout.n_heads()],
        log_probs: vec![f32::NAN; n],
        entropies: vec![f32::NAN; n],
    };
    let out = Samples {
        actions: &mut batch.actions,
        log_probs: &mut batch.log_probs,
        entropies: &mut batch.entropies,
    };
    layout.sample(logits, mask, rows, mode, out).unwrap();
    batch
}

fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

/// How often each row makes each choice in `DRAWS` steps; rows are the agents of two replicas.
fn counts(sizes: usize, logits: &[f32], mask: Option<&[u8]>, n_agents: u32) -> Vec<Vec<u32>> {
    let mut counts = vec![vec![0; sizes]; logits.len() / sizes];
    for step in 0..DRAWS {
        let rows = Rows { n_agents, ..Rows::new(17, step) };
        let batch = sample(&[sizes], logits, mask, &rows, Mode::Sample);
        for (row, action) in batch.actions.iter().enumerate() {
            counts[row][*action as usize] += 1;
        }
    }
    counts
}

/// Frequencies within 10 % of the probabilities; certain and impossible choices without exception.
fn assert_frequencies(counts: &[Vec<u32>], probabilities: &[f64]) {
    let n_choices = counts[0].len();
    for (row, (counts, expected)) in counts.iter().zip(probabilities.chunks(n_choices)).enumerate()
    {
        for (choice, (count, p)) in counts.iter().zip(expected).enumerate() {
            let frequency = f64::from(*count) / f64::from(DRAWS);
            let bound = if *p == 0.0 || *p == 1.0 { 0.0 } else { 0.1 * p };
            let error = (frequency - p).abs();
            assert!(error <= bound, "row {row}, choice {choice}: {frequency} instead of {p}");
        }
    }
}

#[test]
fn agents_choose_with_their_frequencies() {
    let third = 1.0 / 3.0;
    let p = [
        [third, third, third],
        [0.2, 0.5, 0.3],
        [0.25, 0.35, 0.4],
        [0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.5, 0.0, 0.5],
        [0.0, 0.3, 0.7],
        [0.6, 0.4, 0.0],
        [0.1, 0.1, 0.8],
    ]
    .concat();
    assert_frequencies(&counts(3, &logits(&p), None, 5), &p);
}

#[test]
fn a_planner_chooses_with_its_frequencies() {
    let p = [0.25, 0.25, 0.25, 0.25, 0.15, 0.35, 0.35, 0.15];
    assert_frequencies(&counts(4, &logits(&p), None, 1), &p);
}

#[test]
fn forbidden_choices_leave_their_share_to_the_others() {
    let p = [0.4, 0.1, 0.2, 0.3, 0.25, 0.25, 0.25, 0.25];
    let mask = [1, 0, 1, 0, 0, 0, 1, 0];
    let left = [2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    assert_frequencies(&counts(4, &logits(&p), Some(&mask), 2), &left);
}

#[test]
fn frequencies_pass_chi_square() {
    let p: [f64; 8] = [0.01, 0.02, 0.03, 0.04, 0.1, 0.2, 0.25, 0.35];
    let counts = counts(8, &logits(&p).repeat(4), None, 2);
    for counts in counts {
        let expected = p.map(|p| p * f64::from(DRAWS));
        let chi: f64 =
            counts.iter().zip(expected).map(|(n, e)| (f64::from(*n) - e).powi(2) / e).sum();
        // Seven degrees of freedom: exceeded once in 100,000.
        assert!(chi < 36.4, "chi-square {chi}: {counts:?}");
    }
}

fn std(values: &[i32]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
    (values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// Uniform choices of four vary over agents, over time and over replicas.
#[test]
fn choices_vary_over_agents_time_and_replicas() {
    let (n_replicas, n_agents) = (2, 5);
    let logits = [0.0; 4 * 2 * 5];
    let step = |step| {
        let rows = Rows { n_agents: 5, ..Rows::new(3, step) };
        sample(&[4], &logits, None, &rows, Mode::Sample).actions
    };
    let steps: Vec<Vec<i32>> = (0..DRAWS).map(step).collect();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;

    let agents = steps.iter().flat_map(|row| row.chunks(n_agents).map(std)).collect();
    let over_time = |i: usize| std(&steps.iter().map(|row| row[i]).collect::<Vec<_>>());
    let time = (0..n_replicas * n_agents).map(over_time).collect();
    let pairs = |row: &Vec<i32>| (0..5).map(|a| std(&[row[a], row[a + 5]])).collect::<Vec<_>>();
    let replicas = steps.iter().flat_map(pairs).collect();
    let [agents, time, replicas] = [agents, time, replicas].map(mean);
    assert!(agents > 0.9 && time > 1.11 && replicas > 0.60, "{agents} {time} {replicas}");
}

#[test]
fn heads_are_independent_of_each_other() {
    let p: [f64; 7] = [0.5, 0.3, 0.2, 0.1, 0.2, 0.3, 0.4];
    let n = 40_000;
    let batch = sample(&[3, 4], &logits(&p).repeat(n), None, &Rows::new(5, 0), Mode::Sample);
    let mut joint = [[0u32; 4]; 3];
    for action in batch.actions.chunks(2) {
        joint[action[0] as usize][action[1] as usize] += 1;
    }
    let mut chi = 0.0;
    for (a, row) in joint.iter().enumerate() {
        for (b, count) in row.iter().enumerate() {
            let expected = p[a] * p[3 + b] * n as f64;
            chi += (f64::from(*count) - expected).powi(2) / expected;
        }
    }
    // Eleven degrees of freedom: exceeded once in 100,000.
    assert!(chi < 43.0, "chi-square {chi}: {joint:?}");
}

#[test]
fn random_actions_are_uniform_over_the_allowed() {
    let layout = CategoricalLayout::new(&[3, 4]).unwrap();
    let n = 30_000;
    let mut actions = vec![-1; 2 * n];
    let mut count = |mask: Option<&[u8]>| {
        layout.random_actions(mask, &Rows::new(8, 1), &mut actions).unwrap();
        let mut joint = [[0i32; 4]; 3];
        actions.chunks(2).for_each(|a| joint[a[0] as usize][a[1] as usize] += 1);
        joint
    };
    let even = |count: i32, cells: i32| (count - n as i32 / cells).abs() < 4 * 50;
    assert!(count(None).iter().flatten().all(|c| even(*c, 12)));
    let joint = count(Some(&[0, 1, 1, 1, 0, 0, 1].repeat(n)));
    for (a, row) in joint.iter().enumerate() {
        for (b, c) in row.iter().enumerate() {
            let allowed = a > 0 && (b == 0 || b == 3);
            assert!(if allowed { even(*c, 4) } else { *c == 0 }, "{joint:?}");
        }
    }
}

#[test]
fn greedy_takes_the_first_largest_and_draws_nothing() {
    let logits = [1.0, 3.0, 3.0, -1.0, 0.0, 0.0, 5.0, 4.0, 3.0, 9.0];
    let mask = [1, 1, 1, 1, 1, 1, 0, 1, 1, 0];
    let a = sample(&[3, 2], &logits, Some(&mask), &Rows::new(1, 1), Mode::Greedy);
    let b = sample(&[3, 2], &logits, Some(&mask), &Rows::new(2, 7), Mode::Greedy);
    // Row 0: heads [1, 3, 3] and [-1, 0]; row 1: [0, -, 4] and [3, -].
    assert_eq!(a.actions, [1, 1, 2, 0]);
    assert_eq!(a, b);
}

fn error(logits: &[f32], mask: Option<&[u8]>, n_log_probs: usize) -> Error {
    let layout = CategoricalLayout::new(&[2, 2]).unwrap();
    let (mut actions, mut log_probs, mut entropies) = ([0; 4], vec![0.0; n_log_probs], [0.0; 2]);
    let out =
        Samples { actions: &mut actions, log_probs: &mut log_probs, entropies: &mut entropies };
    layout.sample(logits, mask, &Rows::new(0, 0), Mode::Sample, out).unwrap_err()
}

#[test]
fn errors_name_the_row() {
    let mut logits = [0.0; 8];
    let nothing = error(&logits, Some(&[1, 1, 1, 1, 1, 1, 0, 0]), 2);
    assert_eq!(nothing, Error::NothingAllowed { row: 1, head: 1 });
    logits[5] = f32::INFINITY;
    let infinite = error(&logits, None, 2).to_string();
    assert_eq!(infinite, "logit 1 of head 0 in row 1 is inf, expected a number or -inf");
    logits[2] = f32::NAN;
    assert!(matches!(error(&logits, None, 2), Error::Logit { row: 0, head: 1, choice: 0, .. }));
    let length = error(&logits[..7], None, 2).to_string();
    assert_eq!(length, "\"logits\" has 7 elements, expected 8 for 2 rows");
    assert!(matches!(error(&logits, None, 3), Error::Length { array: "logits", .. }));
    assert!(matches!(error(&logits, Some(&[1; 4]), 2), Error::Length { array: "mask", .. }));
}

/// Rows are worked on in blocks; an error counts them from the batch's first.
#[test]
fn errors_count_rows_over_blocks() {
    let layout = CategoricalLayout::new(&[2]).unwrap();
    let (mut actions, mut log_probs, mut entropies) = ([0; 200], [0.0; 200], [0.0; 200]);
    let mut mask = [1; 400];
    mask[2 * 150..2 * 151].fill(0);
    let out =
        Samples { actions: &mut actions, log_probs: &mut log_probs, entropies: &mut entropies };
    let result = layout.sample(&[0.0; 400], Some(&mask), &Rows::new(0, 0), Mode::Sample, out);
    assert_eq!(result, Err(Error::NothingAllowed { row: 150, head: 0 }));
    let result = layout.random_actions(Some(&mask), &Rows::new(0, 0), &mut actions);
    assert_eq!(result, Err(Error::NothingAllowed { row: 150, head: 0 }));
}

#[test]
fn layouts_without_choices_are_refused() {
    assert_eq!(CategoricalLayout::new(&[]), Err(Error::NoHeads));
    assert_eq!(CategoricalLayout::new(&[2, 0]), Err(Error::HeadSize { head: 1, size: 0 }));
    assert!(CategoricalLayout::new(&[usize::MAX]).is_err());
    let layout = CategoricalLayout::new(&[2]).unwrap();
    let rows = Rows { n_agents: 0, ..Rows::new(0, 0) };
    assert_eq!(layout.random_actions(None, &rows, &mut [0; 4]), Err(Error::NoAgents));
}
