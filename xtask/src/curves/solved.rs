//! The table of runs until a return is reached: `solved.json` and `solved-process.json`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::line::thousands;

/// A line per seed of what `warp bench --train --until` reported, the medians, and a process with one
/// seed: its milliseconds from start to end, and its report.
///
/// # Errors
/// A report without these figures.
pub(super) fn table(report: &Value, process: Option<&Value>) -> Result<String> {
    let found = &report["replicas"][0];
    let seeds = found["seeds"].as_array().context("solved.json has no seeds")?;
    let mut lines = vec![
        "| seed | iterations | steps | run time, metrics read after each | without reading | \
             100 greedy episodes |"
            .to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    let ms = |value: &Value| {
        value
            .as_f64()
            .map_or("not reached".to_owned(), |seconds| format!("{:.2} ms", 1e3 * seconds))
    };
    for seed in seeds {
        let count = |key: &str| seed[key].as_u64().map_or(String::new(), thousands);
        let reached = seed["reached"] == true;
        let time = |key: &str| if reached { ms(&seed[key]) } else { "not reached".to_owned() };
        let mean = seed["evaluation"]["mean_episode_return"].as_f64().unwrap_or(f64::NAN);
        let other = if seed["repeated_exactly"] == false { " (another policy)" } else { "" };
        lines.push(format!(
            "| {} | {} | {} | {} | {}{other} | {mean:.1} |",
            seed["seed"],
            count("iterations"),
            count("env_steps"),
            time("run_seconds"),
            time("run_seconds_at_once"),
        ));
    }
    let (looked, at_once) = (ms(&found["run_seconds"]), ms(&found["run_seconds_at_once"]));
    lines.push(format!("| median | | | {looked} | {at_once} | |"));
    let mut text = lines.join("\n");
    text += &format!("\n\nCommand: `{}`.", report["command"].as_str().unwrap_or_default());
    if let Some(process) = process {
        let whole = process["process_ms"].as_f64().context("solved-process.json has no time")?;
        let first = process["run"]["start_to_first_reached_seconds"].as_f64();
        let first = first.map_or("not reached".to_owned(), |s| format!("{:.0} ms", 1e3 * s));
        text += &format!(
            "\nA process with one seed and cached kernels: {first} from its start to the return, {whole:.0} ms to its \
                 end, including the second run and the greedy episodes."
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_seed_has_a_line() {
        let seed = |seed: u64, reached: bool| {
            json!({"seed": seed, "reached": reached, "repeated_exactly": reached, "iterations": 20, "env_steps": 81_920,
                "run_seconds": 0.0042, "run_seconds_at_once": 0.003,
                "evaluation": {"mean_episode_return": 500.0}})
        };
        let seeds = json!({"command": "warp bench x", "replicas": [{
            "run_seconds": 0.0042, "run_seconds_at_once": 0.003,
            "seeds": [seed(0, true), seed(1, false)],
        }]});
        let run = json!({"start_to_first_reached_seconds": 0.25});
        let process = Some(json!({"process_ms": 400, "run": run}));
        let text = table(&seeds, process.as_ref()).unwrap();
        for line in [
            "| 0 | 20 | 81,920 | 4.20 ms | 3.00 ms | 500.0 |",
            "| 1 | 20 | 81,920 | not reached | not reached (another policy) | 500.0 |",
            "| median | | | 4.20 ms | 3.00 ms | |",
            "Command: `warp bench x`.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.contains("250 ms from its start") && text.contains("400 ms to its end"));
        assert!(table(&json!({}), None).is_err());
    }
}
