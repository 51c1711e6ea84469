//! `cargo xtask curves FOLDER...`: from reports of `warp bench --train` to the training tables of
//! docs/benchmarks.md, docs/training.json and the curves in docs/images.
//!
//! A folder holds `ROW-fp16.json` and `ROW-fp32.json` (rows on the processor: `ROW-fp32.json` alone),
//! and `solved.json` with `solved-process.json`, as `bundle/run.sh train` leaves them in
//! `report/curves`. Reports take the place of those in docs/training.json; what was not remeasured
//! stays. A table is left alone as long as none of its rows has a report.

mod line;
mod rows;
mod solved;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::target;
use crate::workspace::{self, CommandLine};
use line::{Measured, Reports};
use rows::{CPU, GPU, Row};

/// Digits of a number that are kept in docs/training.json.
const DIGITS: i32 = 5;

/// A table of docs/benchmarks.md, between two markers.
struct Table {
    name: &'static str,
    rows: &'static [Row],
}

const TABLES: [Table; 2] =
    [Table { name: "training-cpu", rows: &CPU }, Table { name: "training-gpu", rows: &GPU }];

/// Writes the tables, the figures and the drawings.
///
/// # Errors
/// Folders without reports, a report that is none, or a file that can't be written.
pub fn run(folders: &[String]) -> Result<()> {
    ensure!(
        !folders.is_empty(),
        "curves needs folders with reports, report/curves of a bundle, say"
    );
    let docs = workspace::root().join("docs");
    let (page, store) = (docs.join("benchmarks.md"), docs.join("training.json"));
    let mut text = std::fs::read_to_string(&page).context("cannot read docs/benchmarks.md")?;
    let mut reports =
        if store.exists() { serde_json::from_value(read(&store)?)? } else { Reports::new() };
    let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    let new = gather(&folders)?;
    ensure!(!new.is_empty(), "no report of a row of the tables is in {folders:?}");
    reports.extend(new);
    for table in &TABLES {
        let measured =
            table.rows.iter().map(|row| Measured::of(row, &reports)).collect::<Result<Vec<_>>>()?;
        if measured.iter().any(Measured::is_any) {
            text = replace(&text, table.name, &markdown(&measured))?;
        }
    }
    if let Some(solved) = reports.get("solved") {
        let table = solved::table(solved, reports.get("solved-process"))?;
        text = replace(&text, "solved", &table)?;
    }
    draw(&docs, &reports)?;
    std::fs::write(&page, text).context("cannot write docs/benchmarks.md")?;
    let line = |(name, report): (&String, &Value)| format!("{}: {report}", json!(name));
    let lines: Vec<String> = reports.iter().map(line).collect();
    let all = format!("{{\n{}\n}}\n", lines.join(",\n"));
    std::fs::write(store, all).context("cannot write docs/training.json")
}

/// All rows, in the order of the tables.
fn rows() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|table| table.rows)
}

/// The reports in `folders`, with as many digits as are kept; the first folder that has one counts.
fn gather(folders: &[PathBuf]) -> Result<Reports> {
    let mut found = Reports::new();
    for name in rows().flat_map(Row::reports).chain(["solved".into(), "solved-process".into()]) {
        let path = folders.iter().map(|folder| folder.join(format!("{name}.json")));
        if let Some(path) = path.into_iter().find(|path| path.exists()) {
            found.insert(name, rounded(&read(&path)?));
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Value> {
    let context = || format!("cannot read the report {}", path.display());
    let text = std::fs::read_to_string(path).with_context(context)?;
    serde_json::from_str(&text).with_context(context)
}

/// The table, and the drawings under it.
fn markdown(measured: &[Measured<'_>]) -> String {
    let mut drawings: Vec<_> =
        measured.iter().filter(|one| one.is_any()).map(|one| one.row.drawing).collect();
    drawings.dedup();
    let pictures = drawings.iter().map(|name| {
        format!("\n![Learning curves of five seeds: {name}](images/curves-{name}.svg)")
    });
    std::iter::once(line::table(measured)).chain(pictures).collect::<Vec<_>>().join("\n")
}

/// One drawing per name, with all curves that are in it.
fn draw(docs: &Path, reports: &Reports) -> Result<()> {
    CommandLine::new("cargo build --locked --release -p warp-examples").run()?;
    let scratch = target().join("xtask-curves");
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot create {scratch:?}"))?;
    let mut drawings: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows() {
        for (name, report) in row.reports().iter().filter_map(|name| reports.get_key_value(name)) {
            let path = scratch.join(format!("{name}.json"));
            let path = path.display().to_string();
            std::fs::write(&path, report.to_string())
                .with_context(|| format!("cannot write {path}"))?;
            match drawings.iter_mut().find(|(drawing, _)| *drawing == row.drawing) {
                Some((_, paths)) => paths.push(path),
                None => drawings.push((row.drawing, vec![path])),
            }
        }
    }
    for (name, paths) in drawings {
        let mut command = CommandLine::default();
        command.words.push(target().join("release").join("warp").display().to_string());
        command.words.push("plot".into());
        command.words.extend(paths);
        let out = docs.join("images").join(format!("curves-{name}.svg"));
        command.words.extend(["--out".into(), out.display().to_string()]);
        command.run()?;
    }
    Ok(())
}

/// The same with fewer digits.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(0.0);
            let size = if number == 0.0 { 0 } else { number.abs().log10().floor() as i32 };
            let factor = 10f64.powi(DIGITS - 1 - size);
            json!((number * factor).round() / factor)
        }
        Value::Array(all) => all.iter().map(rounded).collect(),
        Value::Object(all) => all.iter().map(|(key, v)| (key.clone(), rounded(v))).collect(),
        other => other.clone(),
    }
}

/// `text` with `table` between the markers called `name`.
fn replace(text: &str, name: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}\n{table}\n{end}{after}"))
    });
    parts.with_context(|| format!("docs/benchmarks.md has no `{begin}` followed by `{end}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_digits_are_kept() {
        let numbers = json!([1.234567, 123456.7, 0.0, 7, null, {"a": -0.00123456}]);
        let wanted = json!([1.2346, 123460.0, 0.0, 7, null, {"a": -0.0012346}]);
        assert_eq!(rounded(&numbers), wanted);
    }

    #[test]
    fn a_table_goes_between_its_own_markers() {
        let page = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n";
        assert_eq!(replace(page, "x", "new").unwrap(), page.replace("old", "new"));
        assert!(replace(page, "y", "new").is_err());
        for table in &TABLES {
            let page =
                std::fs::read_to_string(workspace::root().join("docs/benchmarks.md")).unwrap();
            assert!(replace(&page, table.name, "").is_ok(), "{}", table.name);
        }
    }
}
