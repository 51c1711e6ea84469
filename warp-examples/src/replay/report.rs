//! The findings of a replay, as a table for people and as JSON for programs.

use super::compare::Tally;
use serde_json::{Value, json};
use std::fmt::Write;

/// What was found in one file.
#[derive(Debug)]
pub(super) struct FileReport {
    /// The file, as it was named.
    pub(super) file: String,
    /// The environment.
    pub(super) env: String,
    /// The case.
    pub(super) case: String,
    /// One entry per array and mode.
    pub(super) arrays: Vec<Tally>,
}

impl FileReport {
    /// Whether every array keeps its tolerance.
    pub(super) fn passed(&self) -> bool {
        self.arrays.iter().all(Tally::passed)
    }

    /// The table.
    pub(super) fn text(&self) -> String {
        let header = ["array", "mode", "largest error", "where", "tolerance", ""];
        let mut rows = vec![header.map(String::from)];
        rows.extend(self.arrays.iter().map(cells));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        let verdict = if self.passed() { "ok" } else { "FAILED" };
        let mut text = format!("{}  {} {}: {verdict}\n", self.file, self.env, self.case);
        for row in rows {
            let mut line = String::from(" ");
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a String cannot fail.
                let _ = write!(line, " {cell:width$} ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The JSON object of this file.
    fn json(&self) -> Value {
        let array = |tally: &Tally| {
            let place = |of: fn(&super::plan::Place) -> usize| tally.place.as_ref().map(of);
            json!({
                "array": tally.array,
                "mode": tally.mode.word(),
                // `null` for an infinite error: a number where there should be none, or none.
                "largest_error": tally.largest_error,
                "tolerance": tally.bound,
                "passed": tally.passed(),
                "step": place(|p| p.row),
                "agent": place(|p| p.agent),
                "element": place(|p| p.element),
                "compared": tally.compared,
                "skipped": tally.skipped,
            })
        };
        json!({
            "file": self.file,
            "env": self.env,
            "case": self.case,
            "passed": self.passed(),
            "arrays": self.arrays.iter().map(array).collect::<Vec<_>>(),
        })
    }
}

/// One line of the table.
fn cells(tally: &Tally) -> [String; 6] {
    let place = match tally.place {
        None => "nothing compared".into(),
        Some(p) if tally.largest_error > 0.0 => {
            format!("step {} agent {} element {}", p.row, p.agent, p.element)
        }
        Some(_) => String::new(),
    };
    let verdict = if tally.passed() { "ok" } else { "FAILED" };
    let verdict = match tally.skipped {
        0 => verdict.to_string(),
        n => format!("{verdict} ({n} skipped)"),
    };
    let number = |value: f64| if value == 0.0 { "0".into() } else { format!("{value:.1e}") };
    [
        tally.array.clone(),
        tally.mode.word().into(),
        number(tally.largest_error),
        place,
        number(tally.bound),
        verdict,
    ]
}

/// The one JSON object for all files.
pub(super) fn to_json(files: &[FileReport]) -> Value {
    let passed = files.iter().all(FileReport::passed);
    json!({ "files": files.iter().map(FileReport::json).collect::<Vec<_>>(), "passed": passed })
}
