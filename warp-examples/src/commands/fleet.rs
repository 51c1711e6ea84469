//! `warp train --seeds A..B --sweep KEY=A,B,C`: many runs at once.

use super::progress::{Progress, short};
use super::stop::Stop;
use super::train::TrainArgs;
use super::{Device, learner_on, notes, say, tell, thread_count};
use crate::basis::Basis;
use crate::records::fleet::{draw, label};
use crate::{Outcome, settings};
use anyhow::{Context, Result, bail};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::{Duration, Instant};
use warp_core::ConfigField;
use warp_core::toml::{Table, Value};
use warp_func::{Entry, Registry};
use warp_train::config::drop_foreign_keys;
use warp_train::fleet::{
    DealtFleet, Fleet, FleetEvent, FleetLearner, FleetRun, FleetSummary, GroupedReturns, Listed,
    Returns, SweptReturns, ThreadFleet, check_sweepable, launches,
};
use warp_train::run::write_whole;
use warp_train::{Run, TrainConfig, half};

/// Runs in one fleet, at most: what their numbers in file names have room for.
const MAX_RUNS: usize = 100_000;

/// Whether a fleet is asked for.
pub(super) fn is_asked_for(args: &TrainArgs) -> bool {
    let resumed = args.resume.as_deref().is_some_and(Fleet::is_in);
    resumed || args.seeds.is_some() || !args.sweep.is_empty()
}

/// Trains a fleet, or completes the one that is to be resumed.
pub(super) fn train(args: &TrainArgs, registry: &Registry) -> Result<Outcome> {
    let (runs, bases) = match &args.resume {
        Some(folder) => (planned(folder, args, registry)?, Vec::new()),
        None => plan(args, registry)?,
    };
    if let Some(folder) = args.resume.as_deref().filter(|folder| Fleet::is_complete(folder)) {
        say(&format!("all runs of the fleet in {} have ended", folder.display()))?;
        return Ok(Outcome::Done);
    }
    let first = &runs.first().context("a fleet has at least one run")?.config;
    let entry = registry.get(&first.run.env_id)?;
    let (device, why, others) = devices(args, entry, first)?;
    let on_device = device.registry(registry);
    let on_others: Vec<Registry> = others.iter().map(|other| other.registry(registry)).collect();
    let mut fleets = vec![learner(args, first, &device, &on_device)?];
    for (other, registry) in others.iter().zip(&on_others) {
        fleets.push(learner(args, first, other, registry)?);
    }
    let mut learner = DealtFleet::new(fleets)?;
    if !why.is_empty() {
        tell(&why);
    }
    if device.precision(&learner.backend(), first) == "fp16" {
        half::by_bounds(first).iter().for_each(|warning| tell(&format!("warning: {warning}")));
    }
    let (folder, fleet) = match &args.resume {
        Some(folder) => (folder.clone(), Fleet::reopen(folder, &runs)?),
        None => {
            super::train::tell_notice(entry);
            let name = format!("{}-{}-fleet", first.run.env_id, first.algorithm());
            let free = || Run::free_folder(&first.run, &name);
            let folder = args.out.clone().unwrap_or_else(free);
            let fleet = Fleet::create(&folder, &first.to_toml(entry.fields), &runs)?;
            let of_runs = runs.iter().flat_map(|run| notes::of_run(&run.config, 0));
            notes::tell(bases.iter().map(ToString::to_string).chain(of_runs));
            (folder, fleet)
        }
    };
    notes::tell(fleet.note().map(ToString::to_string));
    let stop = Stop::listen()?;
    let launches = work(&runs, &fleet, &mut learner, &stop)?;
    if let Some(notice) = device.compile_notice() {
        tell(&notice);
    }
    let about = FleetSummary {
        env: first.run.env_id.clone(),
        algorithm: first.algorithm(),
        device: device.name().into(),
        backend: learner.backend(),
        launches,
        ..FleetSummary::default()
    };
    let summary = fleet.finish(about)?;
    draw(&folder, first)?;
    let complete = summary.n_finished + summary.n_broken == summary.n_runs;
    let ranked = if complete { ranked(&summary) } else { None };
    let told = report(&summary, ranked.as_deref(), &folder);
    if let Some([winner, ..]) = ranked.as_deref() {
        write_winner(winner, &runs, entry.fields, &folder)?;
    }
    match stop.asked_by() {
        // The terminal may be gone.
        Some(signal) if !complete => Ok(Outcome::Interrupted { signal }),
        _ if complete && summary.n_finished > 0 => told.map(|()| Outcome::Done),
        _ => told.map(|()| Outcome::Failed),
    }
}

/// Trains the runs that have not ended, launch by launch, until all have or `stop` is asked. Returns how many
/// launches there are.
fn work(
    runs: &[FleetRun],
    fleet: &Fleet,
    learner: &mut dyn FleetLearner,
    stop: &Stop,
) -> Result<usize> {
    let left: Vec<FleetRun> =
        runs.iter().filter(|run| !fleet.has_ended(run.number)).cloned().collect();
    let done = fleet.progress().0;
    let steps = left.iter().map(|run| run.config.end_after(0));
    let watcher = Watcher::new(done, steps.fold(done, u64::saturating_add), runs.len());
    let launches = launches(&left);
    for launch in &launches {
        let runs: Vec<FleetRun> = launch.iter().map(|at| left[*at].clone()).collect();
        learner.launch(&runs, &|run, event| {
            // A run at its end is kept, whoever asks.
            let goes_on = matches!(event, FleetEvent::Finished(_)) || !stop.is_asked();
            fleet.take(run, event)?;
            watcher.look(fleet);
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if stop.is_asked() {
            break;
        }
    }
    watcher.finish();
    Ok(launches.len())
}

/// All runs of the fleet in `folder`, as they were planned.
fn planned(folder: &Path, args: &TrainArgs, registry: &Registry) -> Result<Vec<FleetRun>> {
    if let Some(steps) = args.steps {
        bail!("--steps {steps}: the runs of a fleet are as long as they were planned");
    }
    if let Some(set) = args.set.first() {
        bail!("--set {set}: the runs of a fleet are as they were planned");
    }
    let shared = settings::parse(&Run::config(folder)?)?;
    let run = |listed: Listed| {
        let config = config_of(&shared, &listed, registry)?;
        Ok(FleetRun { number: listed.run, swept: listed.swept.into_iter().collect(), config })
    };
    Fleet::list(folder)?.into_iter().map(run).collect()
}

/// All runs: every combination of swept values with every seed; and what the combinations stand on.
fn plan(args: &TrainArgs, registry: &Registry) -> Result<(Vec<FleetRun>, Vec<Basis>)> {
    let target = args.target.as_deref().context("an environment or a file is needed")?;
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for sweep in &args.sweep {
        let (key, values) = parse_sweep(sweep)?;
        if combinations[0].iter().any(|(known, _)| *known == key) {
            bail!("--sweep {sweep}: {key} is swept already");
        }
        let with = |combination: &Vec<(String, String)>| -> Vec<Vec<(String, String)>> {
            let one = |value: &String| {
                combination.iter().cloned().chain([(key.clone(), value.clone())]).collect()
            };
            values.iter().map(one).collect()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    let seeds = args.seeds.as_deref().map(parse_seeds).transpose()?;
    let (mut runs, mut bases) = (Vec::new(), Vec::new());
    for combination in combinations {
        let mut sets = args.set.clone();
        sets.extend(args.overrides());
        sets.extend(combination.iter().map(|(key, value)| format!("{key}={value}")));
        let (config, basis) = settings::configure_with_basis(target, &sets, registry)?;
        bases.push(basis);
        if config.run.eval_steps > 0 {
            let steps = config.run.eval_steps;
            bail!(
                "eval_steps = {steps}: the runs of a fleet are not evaluated on their way; set it to 0 and \
                 use warp eval"
            );
        }
        let seeds = seeds.clone().unwrap_or(config.run.seed..config.run.seed.saturating_add(1));
        if runs.len() as u64 + (seeds.end - seeds.start) > MAX_RUNS as u64 {
            bail!("a fleet has at most {MAX_RUNS} runs, but more are asked for");
        }
        let swept: Vec<(String, Value)> = combination
            .iter()
            .map(|(key, value)| (key.clone(), settings::parse_value(value)))
            .collect();
        for seed in seeds {
            let mut config = config.clone();
            config.run.seed = seed;
            runs.push(FleetRun { number: runs.len(), swept: swept.clone(), config });
        }
    }
    Ok((runs, bases))
}

/// `A..B` without B, or one seed.
fn parse_seeds(text: &str) -> Result<Range<u64>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..to),
        None => None,
    };
    match range {
        Some(range) if range.start < range.end => Ok(range),
        _ => bail!("--seeds {text}: expected A..B with A < B, for the seeds A to B - 1"),
    }
}

/// The key and the values of `KEY=A,B,C`; a list in brackets is one value.
fn parse_sweep(text: &str) -> Result<(String, Vec<String>)> {
    let Some((key, values)) = text.split_once('=') else {
        bail!("--sweep {text}: expected key=value,value,...");
    };
    let key = key.trim();
    check_sweepable(key)?;
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in values.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        match (c, depth, parts.last_mut()) {
            (',', 0, _) => parts.push(String::new()),
            (_, _, Some(part)) => part.push(c),
            _ => {}
        }
    }
    let parts: Vec<String> = parts.iter().map(|part| part.trim().to_string()).collect();
    if let Some(twice) = parts.iter().enumerate().find(|(i, part)| parts[..*i].contains(part)) {
        bail!("--sweep {text}: {} stands there twice", twice.1);
    }
    if key.is_empty() || parts.iter().any(String::is_empty) {
        bail!("--sweep {text}: expected key=value,value,...");
    }
    Ok((key.into(), parts))
}

/// The first device, why it is that one, and the others that `--gpus` names.
fn devices(
    args: &TrainArgs,
    entry: &Entry,
    first: &TrainConfig,
) -> Result<(Device, String, Vec<Device>)> {
    let Some(places) = args.ranks.fleet_places()? else {
        let (device, why) = Device::for_training(&args.device, &args.backend, entry, Some(first))?;
        return Ok((device, why, Vec::new()));
    };
    let mut devices = Vec::new();
    for place in places {
        let name = if args.device == "cpu" { "cpu".into() } else { format!("cuda:{place}") };
        devices.push(Device::choose(&name)?);
    }
    let others = devices.split_off(1);
    Ok((devices.swap_remove(0), String::new(), others))
}

/// The learner that `--backend` names, for many runs of which `first` is one.
fn learner<'a>(
    args: &TrainArgs,
    first: &TrainConfig,
    device: &Device,
    registry: &'a Registry,
) -> Result<Box<dyn FleetLearner + Send + 'a>> {
    let name = learner_on(device, &args.backend, first, 1)?.backend();
    // A device's own learner works for all threads.
    let devices = args.ranks.fleet_places()?.map_or(1, |places| places.len());
    let shared = (thread_count(args.threads) / devices).max(1);
    let threads = if matches!(device, Device::Cpu) { shared } else { 1 };
    #[cfg(feature = "cuda")]
    let on_gpu = matches!(device, Device::Cuda(_));
    let (backend, device) = (args.backend.clone(), device.clone());
    let make = move |config: &TrainConfig| {
        let learner = learner_on(&device, &backend, config, 1);
        learner.map_err(|error| match error.downcast::<warp_train::Error>() {
            Ok(error) => error,
            Err(other) => warp_train::Error::Invalid(other.to_string()),
        })
    };
    let others = ThreadFleet::new(registry, name, threads, make);
    #[cfg(feature = "cuda")]
    if on_gpu && name == "native" {
        let threads = shared;
        let fleet = warp_train::native::cuda::CudaFleet::new(registry, others, threads);
        return Ok(Box::new(fleet));
    }
    Ok(Box::new(others))
}

/// Shows how far the fleet is, now and then.
struct Watcher {
    progress: std::sync::Mutex<(Progress, Instant)>,
    n_runs: usize,
}

impl Watcher {
    fn new(done: u64, total_steps: u64, n_runs: usize) -> Self {
        let progress = std::sync::Mutex::new((Progress::new(done, total_steps), Instant::now()));
        Self { progress, n_runs }
    }

    fn look(&self, fleet: &Fleet) {
        // Whoever comes while another one writes need not.
        let Ok(mut progress) = self.progress.try_lock() else { return };
        let (progress, last) = &mut *progress;
        if last.elapsed() > Duration::from_millis(200) {
            *last = Instant::now();
            let (steps, ended) = fleet.progress();
            progress.show_text(steps, &format!("{ended} of {} runs", self.n_runs));
        }
    }

    fn finish(&self) {
        if let Ok(progress) = self.progress.lock() {
            progress.0.finish();
        }
    }
}

/// The configuration of one run of the fleet whose shared configuration is `shared`, with its pool.
pub(super) fn config_of(
    shared: &Table,
    listed: &Listed,
    registry: &Registry,
) -> Result<TrainConfig> {
    let mut config = resolve_listed(shared, listed, registry)?;
    crate::pool_file::attach(&mut config)?;
    Ok(config)
}

/// The same without the rows of its `pool_file`.
pub(crate) fn resolve_listed(
    shared: &Table,
    listed: &Listed,
    registry: &Registry,
) -> Result<TrainConfig> {
    let mut table = shared.clone();
    let sweep = |table: &mut Table| {
        let mut swept = listed.swept.iter();
        swept.try_for_each(|(key, value)| settings::insert(table, key, value.clone()))
    };
    sweep(&mut table)?;
    // What is shared may be for another of the algorithms that are swept over; what is swept may not.
    drop_foreign_keys(&mut table, registry);
    sweep(&mut table)?;
    let seed =
        i64::try_from(listed.seed).map_or_else(|_| listed.seed.to_string().into(), Value::from);
    table.insert("seed".into(), seed);
    Ok(TrainConfig::resolve(&table, registry)?)
}

/// The combinations of a sweep, the highest mean return first; nothing where none is swept, and where agents of
/// several groups may play against each other, since the sum of their returns says little.
fn ranked(summary: &FleetSummary) -> Option<Vec<&SweptReturns>> {
    let mean = |one: &SweptReturns| one.returns.together.map_or(f64::NEG_INFINITY, |r| r.mean);
    // Of combinations in which no episode ended there is nothing to say.
    let known = |one: &&SweptReturns| one.returns.together.is_some();
    let mut ranked: Vec<&SweptReturns> = summary.swept.iter().filter(known).collect();
    ranked.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let several = summary.returns.groups.len() > 1;
    (ranked.len() > 1 && !several).then_some(ranked)
}

/// Writes the configuration of the best combination as `winner.toml`, with the first of its seeds.
fn write_winner(
    winner: &SweptReturns,
    runs: &[FleetRun],
    fields: &[ConfigField],
    folder: &Path,
) -> Result<()> {
    let is_own = |run: &&FleetRun| run.swept.iter().cloned().collect::<Table>() == winner.swept;
    let Some(run) = runs.iter().find(is_own) else { return Ok(()) };
    let path = folder.join("winner.toml");
    write_whole(&path, &run.config.to_toml_as_given(fields))?;
    say(&format!("the configuration that did best is in {}", path.display()))
}

fn report(summary: &FleetSummary, ranked: Option<&[&SweptReturns]>, folder: &Path) -> Result<()> {
    let FleetSummary { env, algorithm, n_runs, n_finished, n_broken, .. } = summary;
    let broken = if *n_broken > 0 { format!(", {n_broken} broke") } else { String::new() };
    say(&format!(
        "{env} with {algorithm}: {n_finished} of {n_runs} runs finished{broken}, {} steps in {:.1} s \
         ({}steps/s together); the fleet is in {}",
        summary.env_steps,
        summary.seconds,
        short(summary.env_steps_per_second),
        folder.display()
    ))?;
    if n_finished + n_broken < *n_runs {
        let left = n_runs - n_finished - n_broken;
        let folder = folder.display();
        say(&format!(
            "stopped early: {left} runs are left, which --resume {folder} trains; those that were under way \
             begin anew"
        ))?;
    }
    if let Some(run) = summary.runs.iter().find(|run| run.error.is_some()) {
        let error = run.error.as_deref().unwrap_or_default();
        say(&format!("the first that broke is run {} with seed {}: {error}", run.run, run.seed))?;
    }
    let in_order: Vec<&SweptReturns> = summary.swept.iter().collect();
    let place = |n: usize| ranked.map_or(String::new(), |_| format!("{}. ", n + 1));
    let swept = ranked.unwrap_or(&in_order).iter().enumerate();
    let swept = swept.map(|(n, one)| (place(n) + &label(&one.swept), &one.returns));
    for (name, returns) in swept.chain([("all runs".to_string(), &summary.returns)]) {
        let lines = returns_lines(&name, returns, "mean return over the last episodes");
        lines.iter().try_for_each(|line| say(line))?;
    }
    Ok(())
}

/// What some runs came to, in a line; where they have several groups of agents, in a line for each.
pub(super) fn returns_lines(name: &str, returns: &GroupedReturns, what: &str) -> Vec<String> {
    if returns.groups.len() < 2 {
        return vec![format!("{name}: {}", line(returns.together.as_ref(), what))];
    }
    let group = |(group, returns): (&String, &Returns)| {
        format!("{name}: {}", line(Some(returns), &format!("{what} of {group}")))
    };
    returns.groups.iter().map(group).collect()
}

fn line(returns: Option<&Returns>, what: &str) -> String {
    let Some(r) = returns else { return "no episode ended".into() };
    let number = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.2}"));
    let runs = if r.n == 1 { "1 run".to_string() } else { format!("{} runs", r.n) };
    format!(
        "{what} {:.2} +- {} (95 %, Student's t, {runs}), std {}, min {:.2}, median {:.2}, max {:.2}",
        r.mean,
        number(r.confidence),
        number(r.std),
        r.min,
        r.median,
        r.max
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_without_its_end() {
        assert_eq!(parse_seeds("0..2048").unwrap(), 0..2048);
        assert_eq!(parse_seeds(" 3 .. 4").unwrap(), 3..4);
        for text in ["3", "4..4", "5..4", "a..b", "-1..2", "1.."] {
            let error = parse_seeds(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("expected A..B"), "{error}");
        }
    }

    #[test]
    fn swept_values_are_separated_by_commas_outside_of_brackets() {
        let (key, values) = parse_sweep("hidden=[64, 64],[32] , []").unwrap();
        assert_eq!(
            (key.as_str(), values),
            ("hidden", vec!["[64, 64]".into(), "[32]".into(), "[]".into()])
        );
        for (text, words) in [
            ("gamma", "expected key=value"),
            ("gamma=", "expected key=value"),
            ("gamma=0.9,", "expected key=value"),
            ("gamma=0.9,0.8,0.9", "0.9 stands there twice"),
            ("total_steps=1,2", "total_steps can't be swept: all runs of a fleet are equally long"),
        ] {
            let error = parse_sweep(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
