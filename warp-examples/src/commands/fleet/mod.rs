//! `warp train --seeds A..B --sweep KEY=A,B,C`: many runs at once.
//!
//! `plan` says which runs there are, `rounds` trains them, and `report` says what came of them.

mod plan;
mod report;
mod rounds;

use super::stop::Stop;
use super::train::TrainArgs;
use super::{Device, learner_on, notes, out_folder, say, tell, thread_count};
use crate::records::fleet::{CURVES, curves};
use crate::records::fleet_events;
use crate::{Outcome, settings};
use anyhow::{Context, Result, anyhow, bail};
use plan::{plan, planned};
use report::{ranked, report, write_winner};
use rounds::Rounds;
use std::path::Path;
use warp_core::toml::{Table, Value};
use warp_func::{Entry, Registry};
use warp_train::config::drop_foreign_keys;
use warp_train::fleet::{
    DealtFleet, Fleet, FleetLearner, FleetRun, FleetSummary, FleetWeights, Halving, Listed,
    ThreadFleet,
};
use warp_train::world::World;
use warp_train::{TrainConfig, half};

pub(super) use report::returns_lines;

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
    if let Some(folder) = &args.resume
        && is_done(folder)?
    {
        return Ok(Outcome::Done);
    }
    let first = &runs.first().context("a fleet has at least one run")?.config;
    let entry = registry.get(&first.run.env_id)?;
    let (device, why, others) = devices(args, entry)?;
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
    if device.precision(&learner.backend(), first) != "fp32" {
        half::by_bounds(first).iter().for_each(|warning| tell(&format!("warning: {warning}")));
    }
    let halving = match &args.resume {
        Some(folder) => Fleet::halving(folder)?,
        None => halving(args, first)?,
    };
    let (folder, fleet) = match &args.resume {
        Some(folder) => (folder.clone(), Fleet::reopen(folder, &runs)?),
        None => {
            super::train::tell_notice(entry);
            let name = format!("{}-{}-fleet", first.run.env_id, algorithms(&runs));
            let folder = out_folder::of(args, &first.run, &name);
            let fleet = Fleet::create(&folder, &first.to_toml(entry.fields), &runs, halving)
                .map_err(|error| out_folder::with_way_out(error, args, &first.run))?;
            let of_runs = runs.iter().flat_map(|run| notes::of_run(&run.config, 0));
            notes::tell(bases.iter().map(ToString::to_string).chain(of_runs));
            (folder, fleet)
        }
    };
    notes::tell(fleet.note().map(ToString::to_string));
    let stop = Stop::listen()?;
    let rounds = Rounds { runs: &runs, halving, fleet: &fleet, stop: &stop };
    let launches = rounds.train(&mut learner)?;
    if let Some(notice) = device.compile_notice() {
        tell(&notice);
    }
    let about = FleetSummary {
        env: first.run.env_id.clone(),
        algorithm: algorithms(&runs),
        device: device.name().into(),
        backend: learner.backend(),
        launches,
        ..FleetSummary::default()
    };
    let summary = fleet.finish(about)?;
    write_curves(&folder, first)?;
    let complete = summary.runs.len() == summary.n_runs;
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

/// Whether nothing is left to train in the fleet in `folder`, which is said; as are weights that are lost.
fn is_done(folder: &Path) -> Result<bool> {
    if !Fleet::is_complete(folder) {
        return Ok(false);
    }
    let lost = FleetWeights::open(folder)?.lost();
    match lost[..] {
        [] => say(&format!("all runs of the fleet in {} have finished", folder.display()))?,
        [run] => tell(&format!("weights are lost or damaged, which are trained again: run {run}")),
        [run, ..] => tell(&format!(
            "weights are lost or damaged, which are trained again: {} runs, from run {run} on",
            lost.len()
        )),
    }
    Ok(lost.is_empty())
}

/// The algorithms of all runs, each once, as those of a run are named.
fn algorithms(runs: &[FleetRun]) -> String {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let name = run.config.algorithm();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join("+")
}

/// Draws the curves of the fleet in `folder` and writes its events. Each reads all records, at the same time; files are
/// written one after the other.
fn write_curves(folder: &Path, first: &TrainConfig) -> Result<()> {
    let listed = Fleet::list(folder)?;
    let (chart, written) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| curves(folder, first, &listed));
        let written = fleet_events::write(folder, &listed);
        (reading.join(), written)
    });
    written?;
    let chart = chart.unwrap_or_else(|_| Err(anyhow!("the curves could not be drawn")))?;
    chart.save(&folder.join(CURVES))
}

/// How settings are stopped, if that is asked for.
fn halving(args: &TrainArgs, first: &TrainConfig) -> Result<Option<Halving>> {
    let Some(factor) = args.halving else { return Ok(None) };
    if let Some(groups) = notes::several_groups(first) {
        bail!(
            "--halving {factor}: settings are compared by their mean return, but {} trains several \
             groups ({groups}), whose sum means little",
            first.run.env_id
        );
    }
    Ok(Some(Halving::new(factor)?))
}

/// The first device, why it is that one, and the others that `--gpus` names.
fn devices(args: &TrainArgs, entry: &Entry) -> Result<(Device, String, Vec<Device>)> {
    let Some(places) = args.ranks.fleet_places()? else {
        let (device, why) = Device::for_training(&args.device, &args.backend, entry)?;
        return Ok((device, why, Vec::new()));
    };
    let choose = |place: usize| {
        Device::choose(&if args.device == "cpu" { "cpu".into() } else { format!("cuda:{place}") })
    };
    // To open a GPU takes a while; all are opened at the same time.
    let devices: Vec<Result<Device>> = std::thread::scope(|scope| {
        let opening: Vec<_> =
            places.into_iter().map(|place| scope.spawn(move || choose(place))).collect();
        let panicked = |_| Err(anyhow!("a device could not be opened"));
        opening.into_iter().map(|device| device.join().unwrap_or_else(panicked)).collect()
    });
    let mut devices = devices.into_iter().collect::<Result<Vec<_>>>()?;
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
    // A fleet's run is one rank's, which may have several shards.
    Ok(TrainConfig::resolve(&table, registry)?.on_rank(World::default())?)
}
