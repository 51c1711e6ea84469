//! A report as text: Markdown, and LaTeX with booktabs.

use super::comparison::{Row, Section};
use super::statistics::{Estimated, INTERVAL};
use std::fmt::Write;

/// Heads of the columns of figures.
const HEADS: [&str; 7] = ["setting", "runs", "IQM", "median", "mean", "min", "max"];

/// All sections with what `notes` say below them.
#[must_use]
pub fn markdown(sections: &[Section], score: &str, notes: &[String]) -> String {
    let mut text = format!("Score: {score}. In brackets: {INTERVAL}.\nIQM: interquartile mean.\n");
    for section in sections {
        let _ = write!(text, "\n## {}\n\n", section.title);
        let rows: Vec<Vec<String>> = section.rows.iter().map(cells).collect();
        text += &grid(&HEADS.map(String::from), &rows);
        if !section.improvements.is_empty() {
            let heads = ["a run of", "is better than one of", "with probability"].map(String::from);
            let row = |one: &super::comparison::Improvement| {
                vec![one.better.clone(), one.than.clone(), bracketed(&one.probability)]
            };
            text += "\n";
            text += &grid(&heads, &section.improvements.iter().map(row).collect::<Vec<_>>());
        }
    }
    if !notes.is_empty() {
        text += "\n";
        notes.iter().for_each(|note| text += &format!("{note}\n"));
    }
    text
}

/// The figures of all sections as one table; the preamble needs `\\usepackage{booktabs}`.
#[must_use]
pub fn latex(sections: &[Section], score: &str) -> String {
    let mut text = format!("% Score: {score}. In brackets: {}.\n", INTERVAL.replace('%', "\\%"));
    text += "\\begin{tabular}{lrrrrrr}\n\\toprule\n";
    let _ = writeln!(text, "{} \\\\", HEADS.join(" & "));
    for section in sections {
        let title = escaped(&section.title);
        let _ = writeln!(text, "\\midrule\n\\multicolumn{{7}}{{l}}{{\\textit{{{title}}}}} \\\\");
        for row in &section.rows {
            let cells: Vec<String> = cells(row).iter().map(|cell| escaped(cell)).collect();
            let _ = writeln!(text, "{} \\\\", cells.join(" & "));
        }
    }
    text + "\\bottomrule\n\\end{tabular}\n"
}

fn cells(row: &Row) -> Vec<String> {
    let figures = [&row.interquartile_mean, &row.median, &row.mean].map(bracketed);
    let start = [row.label.clone(), row.n.to_string()];
    start.into_iter().chain(figures).chain([number(row.min), number(row.max)]).collect()
}

/// A figure with its interval, which `-` stands for where there is none.
fn bracketed(figure: &Estimated) -> String {
    match figure.interval {
        Some([low, high]) => {
            format!("{} [{}, {}]", number(figure.value), number(low), number(high))
        }
        None => format!("{} [-]", number(figure.value)),
    }
}

/// Four digits or so.
fn number(x: f64) -> String {
    let digits = match x.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{x:.digits$}")
}

/// A table whose columns stand below each other, numbers to the right.
fn grid(heads: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]).chain([&heads[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cell = |(column, cell): (usize, &String)| {
            let (width, cell) = (widths[column], cell.replace('|', "\\|"));
            if is_text(column, heads) {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        };
        format!("| {} |\n", cells.iter().enumerate().map(cell).collect::<Vec<_>>().join(" | "))
    };
    let rule = |(column, width): (usize, &usize)| {
        let dashes = "-".repeat(width - 1);
        if is_text(column, heads) { format!("{dashes}-") } else { format!("{dashes}:") }
    };
    let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}| {} |\n{rows}", line(heads), rules.join(" | "))
}

/// Labels; what follows the last of them are figures.
fn is_text(column: usize, heads: &[String]) -> bool {
    column == 0 || (column == 1 && heads.len() == 3)
}

/// Text as LaTeX prints it.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            '\\' => escaped += "\\textbackslash{}",
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::comparison::Improvement;

    fn section() -> Section {
        let estimated = |value: f64, interval| Estimated { value, interval };
        let row = |label: &str, value: f64, interval| Row {
            label: label.into(),
            n: 3,
            mean: estimated(value, interval),
            median: estimated(value, interval),
            interquartile_mean: estimated(value, interval),
            min: -1.0,
            max: 12345.6,
            strata: vec![],
        };
        let improvements = vec![Improvement {
            better: "PPO".into(),
            than: "A2C".into(),
            probability: estimated(0.75, Some([0.5, 1.0])),
        }];
        let rows = vec![row("PPO, a_b = 5 %", 480.25, Some([470.0, 500.0])), row("A2C", 0.5, None)];
        Section { title: "cartpole".into(), rows, improvements }
    }

    #[test]
    fn markdown_has_aligned_columns_and_says_where_no_interval_is() {
        let text = markdown(&[section()], "return", &["2 runs broke".into()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3], "## cartpole");
        assert_eq!(
            lines[5],
            "| setting        | runs |                  IQM |               median |                 mean |   min |   max |"
        );
        assert_eq!(
            lines[6],
            "| -------------- | ---: | -------------------: | -------------------: | -------------------: | ----: | ----: |"
        );
        assert_eq!(
            lines[7],
            "| PPO, a_b = 5 % |    3 | 480.2 [470.0, 500.0] | 480.2 [470.0, 500.0] | 480.2 [470.0, 500.0] | -1.00 | 12346 |"
        );
        assert!(lines[8].contains("0.500 [-]"), "{text}");
        assert!(
            text.contains("| PPO      | A2C                   | 0.750 [0.500, 1.00] |"),
            "{text}"
        );
        assert_eq!(lines.last(), Some(&"2 runs broke"));
    }

    #[test]
    fn latex_is_escaped() {
        let text = latex(&[section()], "return");
        assert!(text.contains("PPO, a\\_b = 5 \\% & 3 & 480.2 [470.0, 500.0] & "), "{text}");
        assert!(text.ends_with("\\bottomrule\n\\end{tabular}\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with("\\\\")).count(), 4);
    }
}
