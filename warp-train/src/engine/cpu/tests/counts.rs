//! Losses of actors and temperatures know of a sample whether it counts, and of no weights between.

use crate::loss::row::{Read, RowFunction, Rows, Write, no_draws};
use crate::loss::{deterministic, sac, sac_discrete, value_distribution};

const FUNCTIONS: [&RowFunction; 8] = [
    &sac::ACTOR_LOSS,
    &sac::ACTOR_GRADIENT,
    &sac::TEMPERATURE_LOSS,
    &sac_discrete::ACTOR_LOSS,
    &sac_discrete::TEMPERATURE_LOSS,
    &sac_discrete::MASKED_TEMPERATURE_LOSS,
    &deterministic::ACTOR_LOSS,
    &value_distribution::ACTOR_LOSS,
];

/// Of samples that differ in this alone.
const WEIGHTS: [f32; 3] = [1.0, 0.25, 0.0];

fn width(column: &str) -> usize {
    match column {
        "weight" => 1,
        "action" | "noise" | "d_action_1" | "d_action_2" => 2,
        _ => 4,
    }
}

fn read(column: &str) -> Vec<f32> {
    let of_row = |i: usize| match column {
        "mask" => 1.0,
        // The first critic's value is the smaller one of the first choice alone.
        "q_2" => 0.5 - 0.3 * i as f32,
        _ => 0.1 + 0.2 * i as f32,
    };
    match column {
        "weight" => WEIGHTS.to_vec(),
        _ => WEIGHTS.iter().flat_map(|_| (0..width(column)).map(of_row)).collect(),
    }
}

fn cell(name: &str) -> f32 {
    match name {
        "log_std_min" | "value_min" => -2.0,
        "log_std_max" | "value_max" => 2.0,
        _ => 0.5,
    }
}

/// What a function writes: each column's name and its rows.
fn written(function: &RowFunction) -> Vec<(&'static str, Vec<f32>)> {
    let cells: Vec<f32> = function.cells.iter().map(|name| cell(name)).collect();
    let reads: Vec<_> = function.reads.iter().map(|name| (read(name), width(name))).collect();
    let reads: Vec<Read<'_>> = reads.iter().map(|(x, width)| Read::rows(x, *width)).collect();
    let mut written: Vec<_> = function
        .writes
        .iter()
        .map(|name| (*name, vec![0.0; WEIGHTS.len() * width(name)]))
        .collect();
    let writes = written.iter_mut().map(|(name, x)| Write { numbers: x, width: width(name) });
    let mut writes: Vec<Write<'_>> = writes.collect();
    let (n, draws) = (WEIGHTS.len(), &no_draws);
    (function.run)(Rows { n, cells: &cells, reads: &reads, writes: &mut writes, draws });
    written
}

#[test]
fn a_sample_counts_whole_or_not_at_all() {
    for function in FUNCTIONS {
        let columns = written(function);
        for (column, numbers) in &columns {
            let [whole, part, none] = [0, 1, 2].map(|row| {
                let width = width(column);
                &numbers[row * width..][..width]
            });
            assert_eq!(whole, part, "{} {column}", function.name);
            if *column == "loss" || column.starts_with("d_") {
                assert!(none.iter().all(|x| *x == 0.0), "{} {column}", function.name);
            }
        }
        let slopes = columns.iter().filter(|(column, _)| column.starts_with("d_"));
        let any = slopes.flat_map(|(_, numbers)| numbers).any(|x| *x != 0.0);
        assert!(any, "{} has slopes", function.name);
    }
}
