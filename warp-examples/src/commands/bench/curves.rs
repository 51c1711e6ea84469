//! `warp bench --train --curve-steps`: learning curves beside the rate.
//!
//! Every seed trains from scratch, with the configuration whose rate was measured; only kernels that were
//! compiled are kept.

use super::BenchArgs;
use super::place::Place;
use crate::commands::say;
use crate::records::learning::{Course, Curves};
use anyhow::{Context, Result, ensure};
use std::time::Instant;
use warp_train::TrainConfig;

/// Lines of a curve that are printed.
const LINES: usize = 10;

/// The curves that `args` ask for, of the run whose iterations take `iteration_ms`; none if they ask for none.
///
/// # Errors
/// Limits that make no sense, or a run that failed.
pub(super) fn measure(
    args: &BenchArgs,
    config: &TrainConfig,
    iteration_ms: f64,
    place: &Place<'_>,
) -> Result<Option<Curves>> {
    let Some(wanted) = args.curve_steps else { return Ok(None) };
    let steps = config.steps_per_iteration();
    let (planned, most) = n_iterations(wanted, args.curve_seconds, steps, iteration_ms)?;
    let (mut courses, mut seconds) = (Vec::new(), Vec::new());
    for seed in 0..args.seeds {
        let run = || format!("seed {seed} of {} replicas", config.run.num_envs);
        let (course, time) = train(config, seed, planned, most, place).with_context(run)?;
        courses.push(course);
        seconds.push(time);
    }
    Ok(Some(Curves::new(config, &courses, seconds)))
}

/// Iterations of a curve of `steps` environment steps, and how many of them take `limit` seconds.
fn n_iterations(
    steps: u64,
    limit: Option<f64>,
    steps_per_iteration: u64,
    iteration_ms: f64,
) -> Result<(u64, u64)> {
    ensure!(steps > 0, "--curve-steps 0: at least 1 is needed");
    let n = steps.div_ceil(steps_per_iteration);
    let Some(limit) = limit else { return Ok((n, n)) };
    ensure!(limit > 0.0, "--curve-seconds {limit}: expected more than 0");
    Ok((n, n.min((1e3 * limit / iteration_ms) as u64).max(1)))
}

/// Trains one seed for as many of the planned iterations as the time limit allows.
fn train(
    config: &TrainConfig,
    seed: u64,
    planned: u64,
    most: u64,
    place: &Place<'_>,
) -> Result<(Course, f64)> {
    let mut config = config.clone();
    config.run.seed = seed;
    let (mut trainer, _) = place.trainer(config.clone())?;
    trainer.prepare()?;
    let mut course = Course::new(&config, planned, most);
    let (steps, started) = (course.env_steps(), Instant::now());
    while trainer.env_steps() < steps {
        for metrics in trainer.advance(steps)? {
            course.add(&config, &metrics);
        }
    }
    Ok((course, started.elapsed().as_secs_f64()))
}

/// Some points of the curves as a table.
pub(super) fn print(curves: &Curves) -> Result<()> {
    for group in &curves.groups {
        let n = group.seeds.len();
        say(&format!(
            "{:>17}  return of {}, {n} seeds: mean, lowest, highest",
            "steps", group.group
        ))?;
        let points = curves.steps.len();
        let lines = LINES.min(points);
        for point in (1..=lines).map(|line| line * points / lines - 1) {
            let figure = |of: &[Option<f64>]| {
                of[point].map_or(format!("{:>10}", "-"), |y| format!("{y:>10.2}"))
            };
            say(&format!(
                "{:>17}  {} {} {}",
                curves.steps[point],
                figure(&group.mean),
                figure(&group.lowest),
                figure(&group.highest)
            ))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_with_its_steps_or_its_seconds() {
        let n = |steps, limit| n_iterations(steps, limit, 100, 2.0);
        let of = |steps, limit| n(steps, limit).unwrap().1;
        assert_eq!([of(1, None), of(100, None), of(101, None)], [1, 1, 2]);
        assert_eq!(
            [of(9_999, Some(0.02)), of(901, Some(0.02)), of(1_000, Some(1e-9))],
            [10, 10, 1]
        );
        assert_eq!(n(9_999, Some(0.02)).unwrap().0, 100);
        assert!(n(0, None).is_err());
        assert!(n(1, Some(0.0)).is_err());
    }
}
