//! `warp league`: who beats whom among older versions of a run's policies.

use super::{learner, options, print_json, say, thread_count};
use crate::output::short;
use crate::run_config::read_config;
use crate::{Outcome, settings};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use warp_core::toml::Value;
use warp_func::Registry;
use warp_train::config::LeagueConfig;
use warp_train::league::{Table, tournament};
use warp_train::run::Evaluator;
use warp_train::warp_core::Config;

/// Show who beats whom among older versions of a run's policies.
#[derive(Debug, Clone, Args)]
pub struct LeagueArgs {
    /// The run's folder.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Play N episodes for each pair of checkpoints now, instead of showing the games played in training; the run
    /// need not have a league.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub episodes: Option<u32>,
    /// Set a key of the league for those games.
    #[arg(long, value_name = "league.KEY=VALUE", requires = "episodes")]
    pub set: Vec<String>,
    /// Number of threads; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// Print one JSON object to standard output.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// A folder without a run or without games, or checkpoints that can't be opened.
pub fn execute(args: &LeagueArgs, registry: &Registry) -> Result<Outcome> {
    let table = match args.episodes {
        Some(episodes) => played(args, episodes as usize, registry)?,
        None => {
            let config = read_config(&args.run, registry)?;
            let run = args.run.display();
            match Table::read(&args.run)? {
                Some(table) => table,
                None => {
                    // Of other runs there are no games to play.
                    LeagueConfig::sides(&config.policies)?;
                    bail!(
                        "\"{run}\" has no games yet; --episodes N plays some between its checkpoints"
                    )
                }
            }
        }
    };
    if args.json {
        print_json(&table)?;
    } else {
        lines(&table).iter().try_for_each(|line| say(line))?;
    }
    Ok(Outcome::Done)
}

/// Games of all checkpoints, played now.
fn played(args: &LeagueArgs, episodes: usize, registry: &Registry) -> Result<Table> {
    let mut config = read_config(&args.run, registry)?;
    crate::pool_file::attach(&mut config)?;
    let threads = thread_count(args.threads);
    let keys = config.league.clone().unwrap_or_default();
    let mut keys = LeagueConfig { episodes, ..keys };
    for set in &args.set {
        let (key, value) = settings::split(set)?;
        let Some(key) = key.strip_prefix("league.") else {
            bail!("--set {set}: expected a key of the league, as in league.win_threshold=2");
        };
        let value: Value = settings::parse_value(value);
        keys.set(key, &value).with_context(|| format!("--set {set}"))?;
    }
    let config = config.with_league(None)?;
    let mut learner = learner("auto", &config, threads)?;
    let evaluator = Evaluator { registry, threads };
    Ok(tournament(&args.run, &config, keys, &mut *learner, evaluator)?)
}

/// The table in words.
fn lines(table: &Table) -> Vec<String> {
    let Table { policies: [rows, columns], snapshots, elo, .. } = table;
    let mut lines = vec![
        format!(
            "Fraction of the points that {rows} (rows) score against {columns} (columns), {} \
             episodes each; a win is 1, a draw 1/2.",
            table.episodes
        ),
        format!("An episode is won by {}.", table.winner),
        String::new(),
    ];
    let mut head = format!("{:>16}", "step");
    let mut ratings = format!("{:>16}", format!("{columns} Elo"));
    for (step, elo) in snapshots.iter().zip(&elo[1]) {
        head += &format!(" {:>7}", steps(*step));
        ratings += &format!(" {elo:>7.0}");
    }
    lines.push(head + &format!(" {:>12}", format!("{rows} Elo")));
    for (row, elo) in snapshots.iter().zip(&elo[0]) {
        let mut line = format!("{:>16}", steps(*row));
        for column in snapshots {
            let rate = table.game([*row, *column]).map(|game| game.win_rate(0));
            line += &rate.map_or(format!(" {:>7}", "-"), |rate| format!(" {rate:>7.2}"));
        }
        lines.push(line + &format!(" {elo:>12.0}"));
    }
    lines.extend([ratings, String::new()]);
    lines.extend((0..2).filter_map(|side| newest(table, side)));
    let unfinished: u64 = table.games.iter().map(|game| u64::from(game.unfinished)).sum();
    let all = table.games.len() * table.episodes;
    lines.extend((unfinished > 0).then(|| {
        format!("{unfinished} of {all} episodes had not ended after the most steps that are played, and count as they were then.")
    }));
    lines
}

/// A number of steps in a column.
fn steps(n: u64) -> String {
    if n == 0 { "0".into() } else { short(n as f64).trim().into() }
}

/// How the newest snapshot of a policy does against the earlier ones of the other.
fn newest(table: &Table, side: usize) -> Option<String> {
    let (newest, earlier) = table.snapshots.split_last()?;
    let rate = |step: &u64| {
        let steps = if side == 0 { [*newest, *step] } else { [*step, *newest] };
        table.game(steps).map(|game| (game.win_rate(side), *step))
    };
    let (lowest, step) = earlier.iter().filter_map(rate).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let [own, other] = [side, 1 - side].map(|side| &table.policies[side]);
    let beats = if lowest > 0.5 { "beats every" } else { "does not beat every" };
    Some(format!(
        "The newest {own} {beats} earlier {other}: its lowest share of the points is {lowest:.2}, against step {step}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_train::league::Game;

    #[test]
    fn a_table_shows_every_pair_and_what_the_newest_do() {
        let game = |steps: [u64; 2], won: u32| Game {
            steps,
            wins: [won, 4 - won],
            draws: 0,
            returns: [0.0; 2],
            statistic: None,
            unfinished: 0,
        };
        let table = Table {
            policies: ["runner".into(), "tagger".into()],
            winner: "the policy whose agents have the higher mean return".into(),
            episodes: 4,
            snapshots: vec![0, 50_000],
            elo: [vec![900.0, 1100.4], vec![1000.0, 1234.0]],
            games: vec![game([0, 0], 2), game([0, 50_000], 1), game([50_000, 0], 2)],
        };
        let lines = lines(&table);
        let fields = |line: &str| -> Vec<String> {
            line.split_whitespace().map(ToString::to_string).collect()
        };
        assert_eq!(fields(&lines[4]), ["0", "0.50", "0.25", "900"]);
        // A game that was not played.
        assert_eq!(fields(&lines[5])[2..], ["0.50", "-", "1100"]);
        assert_eq!(fields(&lines[6]), ["tagger", "Elo", "1000", "1234"]);
        let words = "The newest runner does not beat every earlier tagger: its lowest share of the points is \
                     0.50, against step 0.";
        assert_eq!(lines[8], words);
        assert!(lines[9].starts_with(
            "The newest tagger beats every earlier runner: its lowest share of the points is 0.75"
        ));
    }
}
