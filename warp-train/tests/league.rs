//! Policies that play against older versions: who learns when, what is kept, and that it goes on
//! exactly.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod runs;

use runs::{AnyLearner, Folder, TAG, bits, config, trainer};
use std::path::Path;
use warp_train::checkpoint;
use warp_train::config::LeagueConfig;
use warp_train::journal::METRICS;
use warp_train::league::{LEAGUE, LeagueLearner, Table, tournament};
use warp_train::learner::LearnerState;
use warp_train::native::NativeLearner;
use warp_train::run::{Evaluator, Run, train};
use warp_train::{Checkpoint, Error, Learner, Result, TrainConfig, Trainer};

/// Steps of an iteration of [`TAG`].
const ITERATION: u64 = 24 * 12;

/// Snapshots after every second iteration, of which seven of ten have an older version.
fn league(keys: &str, rule: &str) -> TrainConfig {
    let tables = format!(
        "[league]\nopponents = '{rule}'\nolder_share = 0.7\nsnapshot_steps = {}\nepisodes = 4\n\
         win_statistic = 'tags'\nwin_policy = 'tagger'\nwin_threshold = 3",
        2 * ITERATION
    );
    config(TAG, &format!("norm_obs = true\nnorm_reward = true\n{keys}"), &tables)
}

fn league_trainer(config: &TrainConfig) -> Trainer {
    let make = |config: &TrainConfig| -> Result<Box<dyn Learner>> {
        Ok(Box::new(AnyLearner::new(config, 1)?))
    };
    let learner = Box::new(LeagueLearner::new(config, make).unwrap());
    Trainer::new(config.clone(), &warp_envs::registry(), learner, 1).unwrap()
}

/// Trains in `folder` up to the configuration's end, on from the newest checkpoint if there is one.
fn run(folder: &Path, config: &TrainConfig) -> Trainer {
    let registry = warp_envs::registry();
    let mut trainer = league_trainer(config);
    let text = config.to_toml(registry.get(&config.run.env_id).unwrap().fields);
    let mut run = if folder.join("config.toml").exists() {
        let locked = Run::lock(folder).unwrap();
        let checkpoint = Checkpoint::newest(&Run::checkpoints(folder)).unwrap();
        trainer.restore(&checkpoint).unwrap();
        Run::reopen(locked, &text, &checkpoint).unwrap()
    } else {
        Run::create(folder, &text, &trainer).unwrap()
    };
    let evaluator = Evaluator { registry: &registry, threads: 1 };
    train(&mut trainer, evaluator, &mut [&mut run]).unwrap();
    trainer
}

/// The lines of a run's metrics, without what the clock says.
fn records(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join(METRICS)).unwrap();
    let line = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys = line.as_object_mut().unwrap();
        keys.retain(|key, _| !["steps_per_second", "seconds"].contains(&&key[..]));
        line
    };
    text.lines().map(line).collect()
}

fn steps_kept(folder: &Path) -> Vec<u64> {
    checkpoint::list(&Run::checkpoints(folder)).unwrap().into_iter().map(|(step, _)| step).collect()
}

#[test]
fn a_run_that_goes_on_equals_one_that_never_stopped() {
    let folder = Folder::new("league-resume");
    for rule in ["uniform", "prioritised"] {
        let to = |iterations: u64, name: &str| {
            let config = league(&format!("total_steps = {}", iterations * ITERATION), rule);
            let path = folder.path().join(format!("{rule}-{name}"));
            (run(&path, &config), path)
        };
        let (whole, whole_path) = to(9, "whole");
        to(3, "parts");
        // At a snapshot whose games nobody has written down: they are played anew.
        let (_, path) = to(4, "parts");
        std::fs::remove_file(path.join(LEAGUE)).unwrap();
        to(7, "parts");
        let (parts, parts_path) = to(9, "parts");
        assert!(bits(&parts.learner().state()) == bits(&whole.learner().state()), "{rule}");
        assert_eq!(records(&parts_path), records(&whole_path));
        let table = Table::read(&whole_path).unwrap().unwrap();
        assert_eq!(Table::read(&parts_path).unwrap().unwrap(), table);
        // Every second iteration, and the end.
        let snapshots: Vec<u64> = (0..5).map(|n| n * 2 * ITERATION).collect();
        assert_eq!(table.snapshots, snapshots);
        assert_eq!(steps_kept(&whole_path), [&snapshots[..], &[9 * ITERATION]].concat());
        assert_eq!(steps_kept(&parts_path), steps_kept(&whole_path));
        assert_eq!((table.games.len(), table.elo[0].len()), (25, 5));
        for game in &table.games {
            assert_eq!(game.wins[0] + game.wins[1] + game.draws, 4, "{game:?}");
            assert!(game.statistic.is_some_and(|tags| (0.0..=4.0).contains(&tags)));
        }
    }
}

/// In each iteration both learn, or one of them while the other's weights stay; and each happens.
#[test]
fn one_side_learns_alone_where_an_older_self_plays() {
    let mut trainer = league_trainer(&league("", "uniform"));
    let mut seen = [0; 3];
    let mut before = trainer.learner().state();
    for _ in 0..20 {
        let metrics = trainer.iterate().unwrap();
        let after = trainer.learner().state();
        let moved = |policy: &str| after.of_policy(policy) != before.of_policy(policy);
        for policy in ["runner", "tagger"] {
            // Nothing is said of a policy that did not learn.
            let said = metrics.policy[policy].iter().count();
            assert_eq!(
                (said > 0, metrics.policy[policy].get("loss").is_some()),
                (moved(policy), moved(policy))
            );
        }
        let kind = match (moved("runner"), moved("tagger")) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => panic!("nobody learned"),
        };
        seen[kind] += 1;
        // Of replicas, which go on, whoever plays.
        let statistics = |state: &LearnerState, policy: &str| {
            let mut all = state.statistics_of_policy(policy);
            all.retain(|statistic| statistic.name != "discounted_return");
            all
        };
        let kept = |policy: &str| statistics(&after, policy) == statistics(&before, policy);
        assert_eq!([kept("runner"), kept("tagger")], [kind == 2, kind == 1]);
        before = after;
    }
    assert!(seen.iter().all(|n| *n > 2), "{seen:?}");
}

#[test]
fn against_the_latest_it_is_the_run_without_a_league() {
    let mut with = league_trainer(&league("", "latest"));
    let mut without = trainer(&config(TAG, "norm_obs = true\nnorm_reward = true", ""), 1);
    for _ in 0..3 {
        with.iterate().unwrap();
        without.iterate().unwrap();
    }
    assert!(bits(&with.learner().state()) == bits(&without.learner().state()));
}

/// What evaluates sees the policies as they are, whoever has just played.
#[test]
fn an_evaluation_changes_nothing() {
    let (first, second) =
        (league("eval_steps = 288\neval_episodes = 3", "uniform"), league("", "uniform"));
    let folder = Folder::new("league-evaluated");
    let end = |mut config: TrainConfig, name: &str| {
        config.run.total_steps = 6 * ITERATION;
        run(&folder.path().join(name), &config)
    };
    let (first, second) = (end(first, "first"), end(second, "second"));
    assert!(bits(&first.learner().state()) == bits(&second.learner().state()));
}

/// A tournament of a run's checkpoints comes to what the league said of them.
#[test]
fn a_tournament_plays_the_same_games() {
    let folder = Folder::new("tournament");
    let config = league(&format!("total_steps = {}", 4 * ITERATION), "uniform");
    run(folder.path(), &config);
    let played = Table::read(folder.path()).unwrap().unwrap();
    let plain = config.with_league(None).unwrap();
    let mut learner = AnyLearner::new(&plain, 1).unwrap();
    let registry = warp_envs::registry();
    let evaluator = Evaluator { registry: &registry, threads: 2 };
    let keys = config.league.clone().unwrap();
    let table = tournament(folder.path(), &plain, keys.clone(), &mut learner, evaluator).unwrap();
    assert_eq!(table, played);
    // By returns: whose agents have more, and nothing is said of tags.
    let keys = LeagueConfig { win_statistic: None, win_policy: None, ..keys };
    let table = tournament(folder.path(), &plain, keys, &mut learner, evaluator).unwrap();
    assert!(table.games.iter().all(|game| game.statistic.is_none()));
    assert_eq!(table.winner, "the policy whose agents have the higher mean return");
    let returns = |games: &[warp_train::league::Game]| -> Vec<[f64; 2]> {
        games.iter().map(|game| game.returns).collect()
    };
    assert_eq!(returns(&table.games), returns(&played.games));
}

#[test]
fn a_snapshot_that_is_gone_is_missed() {
    let folder = Folder::new("gone");
    let config = league(&format!("total_steps = {}", 4 * ITERATION), "uniform");
    run(folder.path(), &config);
    let checkpoints = Run::checkpoints(folder.path());
    std::fs::remove_dir_all(checkpoints.join(format!("{:012}", 2 * ITERATION))).unwrap();
    let newest = Checkpoint::newest(&checkpoints).unwrap();
    let error = league_trainer(&config).restore(&newest).unwrap_err();
    let words = format!("the league's snapshot of step {} is missing there", 2 * ITERATION);
    assert!(error.is_users() && error.to_string().contains(&words), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let resolve = |base: &str, tables: &str| -> Result<TrainConfig> {
        let table = format!("{base}\n{tables}").parse().unwrap();
        TrainConfig::resolve(&table, &warp_envs::registry())
    };
    let keys = |keys: &str| resolve(TAG, &format!("[league]\n{keys}"));
    for (given, words) in [
        ("oponents = 'latest'", "league.oponents"),
        ("opponents = 'oldest'", "\"latest\", \"uniform\", \"prioritised\""),
        ("older_share = 1.5", "league.older_share = 1.5: must lie between 0 and 1"),
        ("swap_interval = 0", "league.swap_interval = 0: must be at least 1"),
        ("snapshot_steps = 0", "league.snapshot_steps = 0: must be at least 1"),
        ("episodes = 0", "league.episodes = 0: must be at least 1"),
        ("win_statistic = 'goals'", "tag_continuous has no such statistic; it has tags"),
        ("win_statistic = 'tags'", "win_statistic needs win_policy = \"runner\" or \"tagger\""),
        ("win_policy = 'tagger'", "league.win_policy = \"tagger\": it needs win_statistic"),
    ] {
        let error = keys(given).unwrap_err();
        assert!(error.is_users() && error.to_string().contains(words), "{error}");
    }
    let one = resolve("env_id = 'cartpole'", "[league]").unwrap_err().to_string();
    assert!(one.contains("but only one of this run's policies learns"), "{one}");
    let error = resolve("env_id = 'cartpole'\nleague = 3", "").unwrap_err().to_string();
    assert!(error.contains("league = 3: expected a table of keys"), "{error}");
    // A learner that knows nothing of the league.
    let config = keys("").unwrap();
    let learner = Box::new(NativeLearner::new(&config, 1).unwrap());
    let error = Trainer::new(config, &warp_envs::registry(), learner, 1).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}
