//! Performance profiles: the fraction of a setting's runs with a score above each threshold.

use super::comparison::{Row, Section};
use super::statistics::{Bootstrap, share_above};
use crate::records::charts::{Chart, Horizontal, Line, Panel};

/// Thresholds in a profile.
const THRESHOLDS: usize = 80;

/// A panel for each section, a curve for each setting, with intervals as bands.
#[must_use]
pub fn chart(sections: &[Section], bootstrap: &Bootstrap) -> Chart {
    let panels = sections.iter().map(|section| panel(section, bootstrap)).collect();
    Chart { title: "Share of runs with a higher score".into(), panels }
}

fn panel(section: &Section, bootstrap: &Bootstrap) -> Panel {
    let low = section.rows.iter().map(|row| row.min).fold(f64::INFINITY, f64::min);
    let high = section.rows.iter().map(|row| row.max).fold(f64::NEG_INFINITY, f64::max);
    // All curves begin at 1 and end at 0.
    let margin = if high > low { 0.05 * (high - low) } else { 0.5 };
    let (low, high) = (low - margin, high + margin);
    let step = (high - low) / (THRESHOLDS - 1) as f64;
    let thresholds: Vec<f64> = (0..THRESHOLDS).map(|i| low + i as f64 * step).collect();
    let line = |(colour, row): (usize, &Row)| {
        let shares = bootstrap.estimate_each(&[&row.strata], |samples| {
            let share = |threshold: &f64| share_above(&samples[0].all, *threshold);
            thresholds.iter().map(share).collect::<Vec<f64>>()
        });
        let at = || thresholds.iter().zip(&shares);
        Line {
            label: format!("{} ({} {})", row.label, row.n, if row.n == 1 { "run" } else { "runs" }),
            colour,
            points: at().map(|(x, share)| (*x, share.value)).collect(),
            band: at().filter_map(|(x, s)| s.interval.map(|[low, high]| (*x, low, high))).collect(),
            ..Line::default()
        }
    };
    Panel {
        title: section.title.clone(),
        lines: section.rows.iter().enumerate().map(line).collect(),
        until: high,
        axis: Horizontal::Scores { from: low },
    }
}
