//! A row of a training table: rates and curves from its two reports.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::rows::Row;
use crate::bench::short;

/// Reports by the names of their files, without `.json`.
pub(super) type Reports = BTreeMap<String, Value>;

/// A row with what its reports say of its training, where there are any.
pub(super) struct Measured<'a> {
    pub(super) row: &'static Row,
    half: Option<&'a Value>,
    single: Option<&'a Value>,
}

impl<'a> Measured<'a> {
    /// The row's reports among `reports`.
    ///
    /// # Errors
    /// A report of another precision, or without curves.
    pub(super) fn of(row: &'static Row, reports: &'a Reports) -> Result<Self> {
        let find = |name: &str| {
            let Some(report) = reports.get(name) else { return Ok(None) };
            let (trained, precision) = (&report["training"][0], report["precision"].as_str());
            let right = precision.is_some_and(|precision| name.ends_with(precision));
            ensure!(
                right && trained["curves"].is_object(),
                "the report {name}.json has no curves, or those of another precision"
            );
            Ok(Some(trained))
        };
        let [half, single] = row.reports();
        Ok(Self { row, half: find(&half)?, single: find(&single)? })
    }

    /// Whether it was measured at all.
    pub(super) fn is_any(&self) -> bool {
        self.half.is_some() || self.single.is_some()
    }

    /// What stands under the [`HEADER`].
    pub(super) fn cells(&self) -> [String; 10] {
        let (half, single) = (self.half, self.single);
        let rate = |of: Option<&Value>| of.and_then(|v| v["env_steps_per_second"].as_f64());
        let replicas = self.row.key.rsplit('-').next().and_then(|n| n.parse().ok());
        let ratio = |own: Option<f64>| {
            let ratio = own.zip(self.row.peer).map(|(own, peer)| own / peer);
            ratio.map_or(String::new(), |r| {
                if r < 10.0 { format!("{r:.1}") } else { thousands(r as u64) }
            })
        };
        [
            self.row.work.to_owned(),
            replicas.map_or(String::new(), thousands),
            rate(half).map_or(String::new(), short),
            rate(single).map_or(String::new(), short),
            half.map_or(String::new(), last),
            single.map_or(String::new(), last),
            half.zip(single).map_or(String::new(), |(a, b)| within(a, b)),
            self.row.peer.map_or(String::new(), short),
            ratio(rate(half)),
            ratio(rate(single)),
        ]
    }
}

const HEADER: [&str; 10] = [
    "workload",
    "replicas",
    "fp16, steps/s",
    "fp32, steps/s",
    "fp16: return at the end",
    "fp32: return at the end",
    "points of fp16 within fp32's seeds",
    "peer",
    "ratio, fp16",
    "ratio, fp32",
];

/// The rows as Markdown, without columns that are empty in all of them.
pub(super) fn table(measured: &[Measured<'_>]) -> String {
    let rows: Vec<_> = measured.iter().map(Measured::cells).collect();
    let columns: Vec<usize> = (0..HEADER.len())
        .filter(|column| rows.iter().any(|cells| !cells[*column].is_empty()))
        .collect();
    let line = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = columns.iter().map(|column| cells(*column)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines = vec![
        line(&|column| HEADER[column].to_owned()),
        format!("|{}", "---|".repeat(columns.len())),
    ];
    lines.extend(rows.iter().map(|cells| line(&|column| cells[column].clone())));
    lines.join("\n")
}

/// The last point of every group's curve: mean over the seeds, lowest, highest, and after how many steps.
fn last(trained: &Value) -> String {
    let curves = &trained["curves"];
    let groups = curves["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |group: &Value| {
        let number = |figure: &str| {
            let points = group[figure].as_array()?;
            points.iter().rev().find_map(Value::as_f64)
        };
        let figures = ["mean", "lowest", "highest"].map(number);
        let [Some(mean), Some(low), Some(high)] = figures else { return "no episode".to_owned() };
        let text = format!("{mean:.1} ({low:.1} to {high:.1})");
        if groups.len() > 1 { format!("{}: {text}", name(group)) } else { text }
    };
    let all: Vec<String> = groups.iter().map(one).collect();
    let steps = curves["steps"].as_array().and_then(|s| s.last()?.as_f64()).unwrap_or(0.0);
    format!("{}; {} steps", all.join(", "), short(steps))
}

fn name(group: &Value) -> &str {
    group["group"].as_str().unwrap_or_default()
}

/// How many points of the first's mean lie between the lowest and the highest seed of the second.
fn within(half: &Value, single: &Value) -> String {
    let groups = |of: &Value| of["curves"]["groups"].as_array().cloned().unwrap_or_default();
    let steps = |of: &Value| numbers(&of["curves"]["steps"]);
    let (xs, own_xs) = (steps(single), steps(half));
    let (mut inside, mut all) = (0, 0);
    for (half, single) in groups(half).iter().zip(&groups(single)) {
        let curve: Vec<(f64, f64)> = own_xs
            .iter()
            .zip(numbers(&half["mean"]))
            .filter_map(|(x, y)| Some(((*x)?, y?)))
            .collect();
        let bounds = numbers(&single["lowest"]).into_iter().zip(numbers(&single["highest"]));
        for (x, (low, high)) in xs.iter().zip(bounds) {
            let found = x.and_then(|x| at(&curve, x));
            let (Some(y), Some(low), Some(high)) = (found, low, high) else { continue };
            all += 1;
            inside += usize::from(low <= y && y <= high);
        }
    }
    format!("{inside} of {all}")
}

fn numbers(of: &Value) -> Vec<Option<f64>> {
    of.as_array().map_or(Vec::new(), |all| all.iter().map(Value::as_f64).collect())
}

/// A curve at `x`, on a straight line between its points; nothing outside of them.
fn at(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = curve.partition_point(|point| point.0 < x);
    let right = curve.get(after)?;
    if right.0 == x {
        return Some(right.1);
    }
    let left = curve.get(after.checked_sub(1)?)?;
    Some(left.1 + (right.1 - left.1) * (x - left.0) / (right.0 - left.0))
}

/// 65536 as 65,536.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::rows::GPU;
    use serde_json::json;

    fn trained(mean: &[f64], low: &[f64], high: &[f64], steps: &[u64]) -> Value {
        json!({"replicas": 65_536, "env_steps_per_second": 2.5e6, "curves": {
            "steps": steps,
            "groups": [{"group": "g", "mean": mean, "lowest": low, "highest": high}],
        }})
    }

    #[test]
    fn curves_are_compared_at_the_steps_of_the_second() {
        let half = trained(&[0.0, 4.0, 8.0], &[0.0; 3], &[9.0; 3], &[10, 20, 30]);
        let single = trained(&[0.0; 3], &[0.0, 1.0, 2.5], &[5.0, 1.5, 3.0], &[5, 15, 20]);
        // Nothing is known before 10; 2 is above 1.5; 4 is above 3.
        assert_eq!(within(&half, &single), "0 of 2");
        let single = trained(&[0.0; 2], &[2.0, 5.0], &[2.0, 7.0], &[15, 25]);
        assert_eq!(within(&half, &single), "2 of 2");
    }

    #[test]
    fn a_line_has_both_rates_and_the_ratio_to_the_peer() {
        let training = trained(&[1.0, 3.0], &[0.0, 2.0], &[2.0, 4.5], &[10, 2_000_000]);
        let of = |rate: f64| {
            let mut training = training.clone();
            training["env_steps_per_second"] = json!(rate);
            training
        };
        let (fast, slow, row) = (of(47e6), of(9.4e6), &GPU[1]);
        let whole = Measured { row, half: Some(&fast), single: Some(&slow) };
        let end = "3.0 (2.0 to 4.5); 2.00 M steps";
        let wanted = ["256", "47.0 M", "9.40 M", end, end, "2 of 2", "4.70 M", "10", "2.0"];
        assert_eq!(whole.cells()[1..], wanted);
        let empty = Measured { row, half: None, single: None };
        assert_eq!(empty.cells()[1..], ["256", "", "", "", "", "", "4.70 M", "", ""]);
        let text = table(&[empty, Measured { row, half: None, single: Some(&slow) }]);
        let lines: Vec<&str> = text.lines().collect();
        let header = "| workload | replicas | fp32, steps/s | fp32: return at the end | peer | \
                      ratio, fp32 |";
        assert_eq!(lines[..2], [header, "|---|---|---|---|---|---|"]);
        assert!(lines[3].ends_with(&format!("| 256 | 9.40 M | {end} | 4.70 M | 2.0 |")), "{text}");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(42), "42");
    }
}
