//! Performance profiles: the fraction of a setting's runs with a score above each threshold.

use super::comparison::{Row, Section};
use super::statistics::{Bootstrap, share_above};
use crate::records::charts::{Chart, Horizontal, Line, Panel};

/// Thresholds in a profile, at most; of fewer scores each is one.
const THRESHOLDS: usize = 200;

/// A panel for each section, a curve for each setting, with intervals as bands.
#[must_use]
pub fn chart(sections: &[Section], bootstrap: &Bootstrap) -> Chart {
    let mut labels: Vec<&str> = Vec::new();
    for row in sections.iter().flat_map(|section| &section.rows) {
        if !labels.contains(&&row.label[..]) {
            labels.push(&row.label);
        }
    }
    let panels = sections.iter().map(|section| panel(section, &labels, bootstrap)).collect();
    Chart { title: "Share of runs with a higher score".into(), panels }
}

/// Settings have the colours of their places in `labels`.
fn panel(section: &Section, labels: &[&str], bootstrap: &Bootstrap) -> Panel {
    let low = section.rows.iter().map(|row| row.min).fold(f64::INFINITY, f64::min);
    let high = section.rows.iter().map(|row| row.max).fold(f64::NEG_INFINITY, f64::max);
    // All curves begin at 1 and end at 0.
    let margin = if high > low { 0.05 * (high - low) } else { 0.5 };
    let (low, high) = (low - margin, high + margin);
    let line = |row: &Row| {
        let thresholds = thresholds(row, low);
        let shares = bootstrap.estimate_each(&[&row.strata], |samples| {
            let share = |threshold: &f64| share_above(&samples[0].all, *threshold);
            thresholds.iter().map(share).collect::<Vec<f64>>()
        });
        let bounds: Vec<_> = shares.iter().filter_map(|share| share.interval).collect();
        let band =
            if bounds.len() == shares.len() { steps(&thresholds, &bounds, high) } else { vec![] };
        let shares: Vec<f64> = shares.iter().map(|share| share.value).collect();
        Line {
            label: format!("{} ({} {})", row.label, row.n, if row.n == 1 { "run" } else { "runs" }),
            colour: labels.iter().position(|label| *label == row.label).unwrap_or(0),
            points: steps(&thresholds, &shares, high),
            band: band.into_iter().map(|(x, [low, high])| (x, low, high)).collect(),
            ..Line::default()
        }
    };
    Panel {
        title: section.title.clone(),
        lines: section.rows.iter().map(line).collect(),
        until: high,
        axis: Horizontal::Scores { from: low },
    }
}

/// Where the share changes: at each score, of very many at some; `low`, where a profile begins, comes before them.
fn thresholds(row: &Row, low: f64) -> Vec<f64> {
    let mut scores = row.strata.concat();
    scores.sort_by(f64::total_cmp);
    scores.dedup();
    let apart = scores.len().div_ceil(THRESHOLDS);
    // The highest one is always there, at which the share becomes 0.
    let mut kept: Vec<f64> = scores.iter().rev().step_by(apart.max(1)).copied().collect();
    kept.push(low);
    kept.reverse();
    kept
}

/// A curve that has each of `values` from its threshold up to the next one, the last one up to `end`.
fn steps<T: Copy>(thresholds: &[f64], values: &[T], end: f64) -> Vec<(f64, T)> {
    let ends = thresholds.iter().skip(1).copied().chain([end]);
    let parts = thresholds.iter().zip(ends).zip(values);
    parts.flat_map(|((from, to), value)| [(*from, *value), (to, *value)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::statistics::Estimated;

    #[test]
    fn a_profile_falls_at_each_score_and_nowhere_else() {
        let estimated = Estimated { value: 3.0, interval: None };
        let row = Row {
            label: "PPO".into(),
            n: 4,
            mean: estimated,
            median: estimated,
            interquartile_mean: estimated,
            min: 1.0,
            max: 5.0,
            strata: vec![vec![5.0, 1.0, 5.0, 2.0]],
        };
        let section = Section { title: "cartpole".into(), rows: vec![row], improvements: vec![] };
        let chart = chart(&[section], &Bootstrap { resamples: 100, seed: 0 });
        let line = &chart.panels[0].lines[0];
        let corners = [
            (0.8, 1.0),
            (1.0, 1.0),
            (1.0, 0.75),
            (2.0, 0.75),
            (2.0, 0.5),
            (5.0, 0.5),
            (5.0, 0.0),
            (5.2, 0.0),
        ];
        assert_eq!(line.points, corners);
        assert_eq!(line.band.len(), corners.len());
    }
}
