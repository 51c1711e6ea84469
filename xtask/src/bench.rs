//! `cargo xtask bench [ROUNDS]`: measures the table of docs/benchmarks.md with the release binary.
//!
//! Every round runs all rows once, so that a disturbance of the machine does not fall on one row;
//! the median counts. Writes `docs/benchmarks.json` and the table between the markers of
//! `docs/benchmarks.md`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::workspace::{self, CommandLine};

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// Rounds when the command line names none.
const ROUNDS: usize = 5;

/// One figure of the table.
struct Row {
    name: &'static str,
    /// The command after `warp`.
    command: &'static str,
    /// Environment steps per second that the project holds itself to on two cores.
    at_least: f64,
}

const ROWS: [Row; 11] = [
    Row {
        name: "cartpole",
        command: "bench cartpole --envs 1024 --threads 2 --seconds 3",
        at_least: 100e6,
    },
    Row {
        name: "acrobot",
        command: "bench acrobot --envs 1024 --threads 2 --seconds 3",
        at_least: 15e6,
    },
    Row {
        name: "mountain_car",
        command: "bench mountain_car --envs 1024 --threads 2 --seconds 3",
        at_least: 60e6,
    },
    Row {
        name: "continuous_mountain_car",
        command: "bench continuous_mountain_car --envs 1024 --threads 2 --seconds 3",
        at_least: 60e6,
    },
    Row {
        name: "pendulum",
        command: "bench pendulum --envs 1024 --threads 2 --seconds 3",
        at_least: 60e6,
    },
    Row {
        name: "tag_gridworld, 5 agents",
        command: "bench tag_gridworld --envs 1024 --threads 2 --seconds 3 --set env.num_taggers=4",
        at_least: 10e6,
    },
    Row {
        name: "tag_continuous, 5 taggers, 100 runners, k = 10",
        command: "bench tag_continuous --envs 1024 --threads 2 --seconds 3 \
                  --set env.num_taggers=5 --set env.num_runners=100 \
                  --set env.use_full_observation=false --set env.num_other_agents_observed=10",
        at_least: 40e3,
    },
    Row {
        name: "PPO on cartpole, 4 epochs, burn",
        command: "train cartpole --device cpu --backend burn --threads 2 --steps 400000 --set update_epochs=4",
        at_least: 40e3,
    },
    Row {
        name: "PPO on cartpole, 4 epochs, native",
        command: "train cartpole --device cpu --backend native --threads 2 --steps 400000 \
                  --set update_epochs=4",
        at_least: 40e3,
    },
    Row {
        name: "PPO on cartpole, PureJaxRL's configuration (4 replicas), native",
        command: "train cartpole --device cpu --backend native --threads 2 --steps 500000 --set num_envs=4 \
                  --set learning_rate=2.5e-4 --set ent_coef=0.01 --set clip_vloss=true",
        at_least: 300e3,
    },
    Row {
        name: "the same with 1,024 replicas, native",
        command: "train cartpole --device cpu --backend native --threads 2 --steps 2000000 \
                  --set num_envs=1024 --set ent_coef=0.01 --set clip_vloss=true",
        at_least: 400e3,
    },
];

/// A row with the steps per second of every round.
struct Measured {
    row: &'static Row,
    rounds: Vec<f64>,
}

impl Measured {
    /// The middle value, or the mean of the two.
    fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 {
            return sorted[middle];
        }
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Builds `warp`, measures every row and writes the two files.
///
/// # Errors
/// When the build or a measurement fails, its JSON lacks the figure, or a file cannot be written.
pub fn run(arguments: &[String]) -> Result<()> {
    let n_rounds = match arguments {
        [] => ROUNDS,
        [rounds] => rounds.parse().with_context(|| format!("`{rounds}` is no number of rounds"))?,
        _ => bail!("bench takes one argument, the number of rounds"),
    };
    ensure!(n_rounds > 0, "bench needs at least one round");
    // Before minutes of measuring, not after them.
    let page = Page::read()?;
    CommandLine::new("cargo build --locked --release -p warp-examples --features burn").run()?;
    let mut table: Vec<Measured> =
        ROWS.iter().map(|row| Measured { row, rounds: Vec::new() }).collect();
    for round in 1..=n_rounds {
        for measured in &mut table {
            let figure = measure(measured.row)?;
            eprintln!("round {round}/{n_rounds}: {}: {} steps/s", measured.row.name, short(figure));
            measured.rounds.push(figure);
        }
    }
    let markdown = markdown(&table);
    println!("{markdown}");
    page.write(&markdown)?;
    let path = workspace::root().join("docs").join("benchmarks.json");
    let json = serde_json::to_string_pretty(&report(&table)?)?;
    std::fs::write(&path, json + "\n").with_context(|| format!("cannot write {path:?}"))
}

/// Runs one row once: environment steps per second.
fn measure(row: &Row) -> Result<f64> {
    let binary = target().join("release").join("warp");
    let mut command = CommandLine::new(row.command);
    command.words.insert(0, binary.display().to_string());
    let text = if row.command.starts_with("bench") {
        command.words.push("--json".to_owned());
        command.output()?
    } else {
        let out = target().join("xtask-bench");
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("cannot remove {out:?}"))?;
        }
        command.words.extend(["--out".to_owned(), out.display().to_string()]);
        command.output()?;
        let summary = out.join("summary.json");
        std::fs::read_to_string(&summary).with_context(|| format!("cannot read {summary:?}"))?
    };
    figure(&text).with_context(|| format!("`{command}` gave {text:?}"))
}

/// The figure in the JSON of `warp bench` and in a run's summary.
fn figure(text: &str) -> Result<f64> {
    let json: Value = serde_json::from_str(text)?;
    let figure = json.get("env_steps_per_second").and_then(Value::as_f64);
    figure.context("no number `env_steps_per_second`")
}

pub(crate) fn target() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace::root().join(folder)
}

fn markdown(table: &[Measured]) -> String {
    let mut lines = vec![
        "| workload | steps/s, median | lowest | highest | target |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for measured in table {
        let sorted = measured.sorted();
        let figures =
            [measured.median(), sorted[0], sorted[sorted.len() - 1], measured.row.at_least];
        let figures = figures.map(short).join(" | ");
        lines.push(format!("| {} | {figures} |", measured.row.name));
    }
    lines.join("\n")
}

/// Three digits and a unit: `1.23 k`, `45.6 M`.
pub(crate) fn short(figure: f64) -> String {
    let units = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
    // What rounds up to 1,000 of a unit is shown as 1 of the next.
    let (size, unit) =
        units.into_iter().find(|(size, _)| figure >= size * 0.9995).unwrap_or((1.0, ""));
    let scaled = figure / size;
    let digits = [99.95, 9.995].iter().filter(|limit| scaled < **limit).count();
    format!("{scaled:.digits$}{unit}")
}

/// docs/benchmarks.md: what stands before its markers and after them.
struct Page {
    before: String,
    after: String,
}

impl Page {
    fn path() -> PathBuf {
        workspace::root().join("docs").join("benchmarks.md")
    }

    fn read() -> Result<Self> {
        let text = std::fs::read_to_string(Self::path());
        Self::parse(&text.context("cannot read docs/benchmarks.md")?)
    }

    fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some(Self { before: before.to_owned(), after: after.to_owned() })
        });
        parts.with_context(|| format!("docs/benchmarks.md has no `{BEGIN}` followed by `{END}`"))
    }

    fn with(&self, table: &str) -> String {
        format!("{}{BEGIN}\n{table}\n{END}{}", self.before, self.after)
    }

    fn write(&self, table: &str) -> Result<()> {
        std::fs::write(Self::path(), self.with(table)).context("cannot write docs/benchmarks.md")
    }
}

/// Everything that was measured, and on what.
fn report(table: &[Measured]) -> Result<Value> {
    let rows = table.iter().map(|measured| {
        json!({
            "name": measured.row.name,
            "command": format!("warp {}", measured.row.command),
            "env_steps_per_second": measured.median(),
            "rounds": measured.rounds,
            "at_least": measured.row.at_least,
        })
    });
    Ok(json!({
        "commit": CommandLine::new("git describe --always --dirty").output()?.trim(),
        "rustc": CommandLine::new("rustc --version").output()?.trim(),
        "processor": processor(),
        "threads": std::thread::available_parallelism()?.get(),
        "rows": rows.collect::<Vec<_>>(),
    }))
}

/// The processor's name, where Linux tells it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_the_order() {
        let of = |rounds: &[f64]| Measured { row: &ROWS[0], rounds: rounds.to_vec() }.median();
        assert_eq!(of(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn figures_are_short() {
        let wanted = [
            (123_456_789.0, "123 M"),
            (40_049.0, "40.0 k"),
            (9_995.0, "10.0 k"),
            (999_960.0, "1.00 M"),
            (1.5e9, "1.50 G"),
            (7.0, "7.00"),
        ];
        for (figure, text) in wanted {
            assert_eq!(short(figure), text);
        }
    }

    #[test]
    fn the_table_goes_between_the_markers() {
        let page = format!("# A\n{BEGIN}\nold\n{END}\nend\n");
        let wanted = format!("# A\n{BEGIN}\nnew\n{END}\nend\n");
        assert_eq!(Page::parse(&page).unwrap().with("new"), wanted);
        assert!(Page::parse(&format!("{END}{BEGIN}")).is_err());
    }

    #[test]
    fn the_figure_is_read_from_the_top_level() {
        let text = r#"{"with_policy": {"env_steps_per_second": 1.0}, "env_steps_per_second": 2}"#;
        assert_eq!(figure(text).unwrap(), 2.0);
        assert!(figure("{}").is_err());
        assert!(figure("warming up").is_err());
    }

    #[test]
    fn a_wrong_number_of_rounds_is_refused() {
        for wrong in [&["x"][..], &["0"], &["1", "2"]] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(run(&arguments).is_err());
        }
    }

    #[test]
    fn a_row_of_the_table_shows_its_range() {
        let table = [Measured { row: &ROWS[0], rounds: vec![2e6, 1e6, 3e6] }];
        let last = "| cartpole | 2.00 M | 1.00 M | 3.00 M | 100 M |";
        assert_eq!(markdown(&table).lines().last(), Some(last));
    }
}
