//! A fleet's history and `curves.png`: a mean with a band for each combination of swept values.

use super::bands::{Band, together};
use super::charts::{Chart, Line, Panel};
use super::fleet_lines::each_part;
use super::history::{Axis, Keys, Points, damage};
use super::pick::pick;
use anyhow::{Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use warp_core::toml::Table;
use warp_train::TrainConfig;
use warp_train::fleet::Listed;
use warp_train::journal::METRICS;

/// Where the curves are, in the fleet's folder.
pub const CURVES: &str = "curves.png";
/// Fleets of so many runs, at most, show each of them behind the mean.
const SHOWN_RUNS: usize = 32;
/// So many combinations of swept values, at most, are named in the legend.
const NAMED: usize = 14;

/// Some metrics of a fleet's runs.
#[derive(Debug, Default)]
pub struct FleetHistory {
    /// For every run, the series asked for, in their order.
    pub runs: BTreeMap<usize, Vec<Points>>,
    /// The last line, which shows which metrics there are.
    pub last: Value,
    /// What there is to say of lines that can't be read, a sentence; an incomplete last one is nothing to say.
    pub damage: Option<String>,
}

/// Reads some metrics of all runs, each given by its keys.
///
/// # Errors
/// No such folder, or one without metrics; seconds, since runs share their launches.
pub fn read(folder: &Path, axis: Axis, figures: &[Keys<'_>]) -> Result<FleetHistory> {
    let x = match axis {
        Axis::Steps => "env_steps",
        Axis::Episodes => "episodes",
        Axis::Seconds => bail!(
            "--x seconds: the fleet in \"{}\" records none, since its runs may share launches",
            folder.display()
        ),
    };
    let (mut all, mut n_damaged) = (FleetHistory::default(), 0);
    let read = |lines: &[u8]| read_lines(lines, x, figures);
    each_part(folder, read, |part| {
        for (run, series) in part.runs {
            let own = all.runs.entry(run).or_insert_with(|| vec![Vec::new(); figures.len()]);
            own.iter_mut().zip(series).for_each(|(own, points)| own.extend(points));
        }
        all.last = if part.last.is_null() { all.last.take() } else { part.last };
        n_damaged += part.n_damaged;
        Ok(())
    })?;
    all.damage = damage(&folder.join(METRICS), n_damaged);
    if axis == Axis::Episodes {
        // A record says how many ended since the one before.
        for points in all.runs.values_mut().flatten() {
            let mut sum = 0.0;
            points.iter_mut().for_each(|point| {
                sum += point.0;
                point.0 = sum;
            });
        }
    }
    Ok(all)
}

/// What is in some of the lines.
struct Part {
    runs: BTreeMap<usize, Vec<Points>>,
    last: Value,
    n_damaged: u64,
}

fn read_lines(lines: &[u8], x: &str, figures: &[Keys<'_>]) -> Part {
    let keys: Vec<Keys<'_>> =
        [vec!["run"], vec![x]].into_iter().chain(figures.iter().cloned()).collect();
    let (mut runs, mut last, mut n_damaged) = (BTreeMap::new(), &b"null"[..], 0);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let Some(numbers) = pick(line, &keys) else {
            // The last line has no end yet if the fleet goes on as we read.
            n_damaged += u64::from(line.ends_with(b"\n"));
            continue;
        };
        let (Some(run), Some(x)) = (numbers[0], numbers[1]) else { continue };
        let series = runs.entry(run as usize).or_insert_with(|| vec![Vec::new(); figures.len()]);
        for (points, y) in series.iter_mut().zip(&numbers[2..]) {
            points.extend(y.filter(|y| y.is_finite()).map(|y| (x, y)));
        }
        last = line;
    }
    Part { runs, last: serde_json::from_slice(last).unwrap_or_default(), n_damaged }
}

/// Swept keys with their values, as a legend has them.
#[must_use]
pub fn label(swept: &Table) -> String {
    let parts: Vec<String> = swept.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    parts.join(", ")
}

/// The runs of each combination of swept values, in the order of the fleet.
#[must_use]
pub fn combinations(listed: &[Listed]) -> Vec<(&Table, Vec<usize>)> {
    let found = warp_train::fleet::combinations(listed.iter().map(|one| &one.swept));
    let numbers = |places: Vec<usize>| places.iter().map(|place| listed[*place].run).collect();
    found.into_iter().map(|(swept, places)| (swept, numbers(places))).collect()
}

/// The curves of the runs `listed` of the fleet in `folder`.
///
/// # Errors
/// A fleet without metrics.
pub fn curves(folder: &Path, config: &TrainConfig, listed: &[Listed]) -> Result<Chart> {
    let mut figures: Vec<_> = config
        .spec
        .groups
        .iter()
        .map(|group| {
            let title = format!("Episode return, {}", group.name);
            (title, vec!["group_return", group.name.as_str(), "mean"])
        })
        .collect();
    if figures.len() < 2 {
        // What one group gets is all there is.
        figures = vec![("Episode return".to_string(), vec!["episode_return", "mean"])];
    }
    figures.push(("Episode length".to_string(), vec!["episode_length", "mean"]));
    let several = config.policies.len() > 1;
    for (title, key) in [
        ("Policy entropy (nats)", "entropy"),
        ("Explained variance", "explained_variance"),
        ("Policy loss", "policy_loss"),
        ("Value loss", "value_loss"),
    ] {
        for plan in &config.policies {
            let of = if several { format!(", {}", plan.name) } else { String::new() };
            figures.push((format!("{title}{of}"), vec!["policy", &plan.name, key]));
        }
    }
    let keys: Vec<Vec<&str>> = figures.iter().map(|(_, keys)| keys.clone()).collect();
    let runs = read(folder, Axis::Steps, &keys)?.runs;
    let combinations = combinations(listed);
    let panel = &|(i, (title, _)): (usize, &(String, Vec<&str>))| {
        let lines = combinations.iter().enumerate().flat_map(|(colour, (swept, members))| {
            let curves: Vec<Points> =
                members.iter().filter_map(|run| Some(runs.get(run)?[i].clone())).collect();
            let name = label(swept);
            let label = if combinations.len() <= NAMED { name } else { String::new() };
            lines(curves, colour, label, listed.len() <= SHOWN_RUNS)
        });
        Panel { title: title.clone(), lines: lines.collect(), ..Panel::default() }
    };
    // Each looks at all runs.
    let panels = std::thread::scope(|scope| {
        let figures = figures.iter().enumerate();
        let panels: Vec<_> = figures.map(|figure| scope.spawn(move || panel(figure))).collect();
        panels.into_iter().map(|made| made.join().unwrap_or_else(|p| resume_unwind(p))).collect()
    });
    let (env, algorithm) = (&config.run.env_id, config.algorithm().to_uppercase());
    let n = listed.len();
    let title = format!("{env}, {algorithm}, {n} runs: mean, {}", Band::Confidence.title());
    Ok(Chart { title, panels })
}

/// Runs with the same values: their mean with a band and, if there are few, each of them behind it.
fn lines(curves: Vec<Points>, colour: usize, label: String, each: bool) -> Vec<Line> {
    let (points, band) = together(&curves, Band::Confidence);
    let mean = Line { label, colour, points, band, ..Line::default() };
    let faint = |points: Points| Line { colour, faint: true, points, ..Line::default() };
    let behind = curves.into_iter().filter(|_| each).map(faint);
    behind.chain([mean]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_whole_whatever_the_parts() {
        let folder = std::env::temp_dir().join(format!("warp-fleet-read-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // Three parts.
        let (n_runs, n_lines) = (300, 150);
        let line = |run: usize, i: usize| {
            let y = run * n_lines + i;
            format!("{{\"run\":{run},\"env_steps\":{i},\"policy\":{{\"a\":{{\"loss\":{y}}}}}}}\n")
        };
        let lines = (0..n_runs).flat_map(|run| (0..n_lines).map(move |i| line(run, i)));
        let text: String =
            lines.collect::<String>() + "{\"run\":1,\"env_steps\"}\n{\"run\":1,\"env_st";
        std::fs::write(folder.join("metrics.jsonl"), text).unwrap();
        let FleetHistory { runs, last, damage } =
            read(&folder, Axis::Steps, &[vec!["policy", "a", "loss"], vec!["none"]]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(damage.unwrap().ends_with("skipped 1 line that can't be read"));
        assert_eq!((runs.len(), &last["run"]), (n_runs, &Value::from(n_runs - 1)));
        for (run, series) in &runs {
            let wanted = (0..n_lines).map(|i| (i as f64, (run * n_lines + i) as f64));
            assert_eq!(series[0], wanted.collect::<Points>());
            assert!(series[1].is_empty());
        }
    }
}
