//! `warp train --seeds A..B --sweep KEY=A,B,C`: many runs at once.
//!
//! `plan` says which runs there are, `devices` what trains them, `rounds` trains them, and `report` says what came of
//! them, which `shown` draws. Of several processes the first does what one would do, with a share of the runs, and the
//! others `share`.

mod devices;
mod plan;
mod report;
mod rounds;
mod share;
mod shown;

use super::ranks::{Ranks, cause_of, give_up};
use super::stop::Stop;
use super::train::args::TrainArgs;
use super::train::contradictions::without_effect;
use super::train::{begin_notes, out_folder};
use super::{Device, say, tell};
use crate::Outcome;
use anyhow::{Context, Result, bail};
use plan::{plan, planned};
use report::{WINNER, ranked, report};
use rounds::Rounds;
use share::Ended;
use shown::Shown;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use warp_func::{Entry, Registry};
use warp_train::fleet::{
    Fleet, FleetBroadcast, FleetLearner, FleetRun, FleetSummary, FleetWeights, Halving, Together,
    settings, together,
};
use warp_train::run::Place;
use warp_train::world::{PATIENCE, World};
use warp_train::{Error, TrainConfig, digest, half_precision};

pub(super) use plan::config_of;
pub(super) use report::returns_lines;

/// Whether a fleet is asked for.
pub(super) fn is_asked_for(args: &TrainArgs) -> Result<bool> {
    if args.seeds.is_some() || !args.sweep.is_empty() {
        return Ok(true);
    }
    let Some(folder) = &args.resume else { return Ok(false) };
    // The first of several processes tells the others, while a run's folder is there for all of them.
    let is_away = !Place::parse(folder).folder.exists();
    Ok(Fleet::is_in(folder)
        || is_away && Ranks::of(&args.ranks)?.is_some_and(|ranks| !ranks.has_first()))
}

/// Trains a fleet, or completes the one that is to be resumed; or this process's share of it.
pub(super) fn train(args: &TrainArgs, registry: &Registry) -> Result<Outcome> {
    let Some(ranks) = Ranks::of(&args.ranks)? else {
        return write(args, registry, None, &World::default());
    };
    let devices = devices::open(&ranks.devices(&args.device)?)?;
    let common = ["a fleet", env!("CARGO_PKG_VERSION"), devices[0].name(), &args.backend].join(" ");
    let world = ranks.processes(digest(common.as_bytes()), devices[0].uuid())?;
    let done = match world.is_first() {
        true => write(args, registry, Some(devices), &world),
        false => share::train(args, registry, &devices, &world),
    };
    if let Err(error) = &done {
        give_up(&world, error);
    }
    done
}

/// Trains a fleet in the process that writes it: the only one, or the first.
fn write(
    args: &TrainArgs,
    registry: &Registry,
    devices: Option<Vec<Device>>,
    world: &World,
) -> Result<Outcome> {
    let (runs, bases) = match &args.resume {
        Some(folder) => (planned(folder, args, registry)?, Vec::new()),
        None => plan(args, registry)?,
    };
    let first = &runs.first().context("a fleet has at least one run")?.config;
    let entry = registry.get(&first.run.env_id)?;
    if let Some(folder) = &args.resume
        && is_done(folder)?
    {
        make_what_is_missing(folder, &runs, entry)?;
        FleetBroadcast::tell_end(world)?;
        return Ok(outcome_of(&Fleet::results(folder)?));
    }
    let halving = halving(args, &runs)?;
    let (devices, why) = devices::chosen(devices, args, entry)?;
    let registries = devices::registries(&devices, registry);
    if args.resume.is_none() {
        // Before anything is compiled.
        Fleet::check_free(&folder_of(args, &runs))
            .map_err(|error| out_folder::with_way_out(error, args, &first.run))?;
    }
    let mut learner =
        devices::learner(args, devices::FirstLaunch::of(&runs, world), &devices, &registries)?;
    if !why.is_empty() {
        tell(&why);
    }
    if devices[0].precision(&learner.backend(), first) != "fp32" {
        half_precision::by_bounds(first)
            .iter()
            .for_each(|warning| tell(&format!("warning: {warning}")));
    }
    let (folder, fleet) = match &args.resume {
        Some(folder) => (folder.clone(), Fleet::reopen(folder, &runs)?),
        None => create(args, entry, &runs, halving)?,
    };
    if args.resume.is_none() {
        let of_settings = settings(&runs);
        let of_settings = of_settings.iter().map(|setting| &runs[setting.start].config);
        let of_settings = of_settings.flat_map(|config| begin_notes::of_run(config, 0));
        let (bases, idle) = (bases.iter().map(ToString::to_string), without_effect(args, first));
        begin_notes::tell(bases.chain(idle).chain(of_settings));
    }
    begin_notes::tell(fleet.note().map(ToString::to_string));
    let about = FleetSummary {
        env: first.run.env_id.clone(),
        algorithm: algorithms(&runs),
        device: devices[0].name().into(),
        backend: learner.backend(),
        ..FleetSummary::default()
    };
    let written = Written { folder: folder.clone(), fleet, first: first.clone(), halving, about };
    let stop = Stop::listen()?;
    let trained = written.train(&runs, &mut learner, world, &stop)?;
    if let Some(notice) = devices[0].compile_notice() {
        tell(&notice);
    }
    let ending = thread::spawn(|| written.end(trained));
    // To give a GPU back takes about as long: at the same time.
    drop(learner);
    drop((registries, devices));
    let summary = ending.join().unwrap_or_else(|panic| resume_unwind(panic))?;
    let outcome = conclude(&summary, &folder, &runs, entry)?;
    // This process or another one was asked to stop.
    let stopped = summary.runs.len() < summary.n_runs && (stop.is_asked() || !world.is_alone());
    let end = match outcome {
        _ if stopped => Ended::Stopped,
        Ok(Outcome::Failed) => Ended::Failed,
        _ => Ended::Done,
    };
    world.all_gather_within(share::END, &end.bytes(), PATIENCE)?;
    // The terminal may be gone.
    let interrupted = || Ok(Outcome::Interrupted { signal: Stop::ended_by(Some(&stop)) });
    if stopped { interrupted() } else { outcome }
}

/// Says what came of the runs that have ended, and writes the best configuration of a sweep. The inner error is that it
/// could not be said.
fn conclude(
    summary: &FleetSummary,
    folder: &Path,
    runs: &[FleetRun],
    entry: &Entry,
) -> Result<Result<Outcome>> {
    let complete = summary.runs.len() == summary.n_runs;
    let ranked = if complete { ranked(summary) } else { None };
    let told = report(summary, ranked.as_deref(), folder);
    if let Some([winner, ..]) = ranked.as_deref() {
        report::write_winner(winner, runs, entry.fields, folder)?;
    }
    Ok(told.map(|()| outcome_of(summary)))
}

/// A fleet went well if all runs have ended and any of them did not break.
fn outcome_of(summary: &FleetSummary) -> Outcome {
    let went_well = summary.runs.len() == summary.n_runs && summary.n_finished > 0;
    if went_well { Outcome::Done } else { Outcome::Failed }
}

/// A new fleet and its folder.
fn create(
    args: &TrainArgs,
    entry: &Entry,
    runs: &[FleetRun],
    halving: Option<Halving>,
) -> Result<(PathBuf, Fleet)> {
    begin_notes::tell_notice(entry);
    let first = &runs[0].config;
    let folder = folder_of(args, runs);
    let fleet = Fleet::create(&folder, &first.to_toml(entry.fields), runs, halving)
        .map_err(|error| out_folder::with_way_out(error, args, &first.run))?;
    Ok((folder, fleet))
}

/// The folder that a new fleet gets.
pub(super) fn new_folder(args: &TrainArgs, registry: &Registry) -> Result<PathBuf> {
    let (runs, _) = plan(args, registry)?;
    Ok(folder_of(args, &runs))
}

fn folder_of(args: &TrainArgs, runs: &[FleetRun]) -> PathBuf {
    let first = &runs[0].config.run;
    let name = format!("{}-{}-fleet", first.env_id, algorithms(runs));
    out_folder::of(args, first, &name)
}

/// A fleet in the process that writes it.
struct Written {
    folder: PathBuf,
    fleet: Fleet,
    /// The configuration of its first run.
    first: TrainConfig,
    halving: Option<Halving>,
    /// The beginning of its summary.
    about: FleetSummary,
}

/// What a fleet's training came to.
struct Trained {
    launches: usize,
    /// Why runs of other processes are lost.
    lost: Option<anyhow::Error>,
}

impl Written {
    /// Trains this process's share of it while others train theirs. All that has ended is in the folder then.
    fn train(
        &self,
        runs: &[FleetRun],
        learner: &mut dyn FleetLearner,
        world: &World,
        stop: &Stop,
    ) -> Result<Trained> {
        let (fleet, halving) = (&self.fleet, self.halving);
        FleetBroadcast::tell(world, &self.folder, fleet)?;
        let own = (!world.is_alone()).then(|| fleet.deal(runs, world));
        let rounds = Rounds { runs, own, halving, fleet, shows: true };
        let train = |together: &Together<'_>| rounds.train(learner, together);
        match together(fleet, world, &|| stop.is_asked(), cause_of, train) {
            Err(error) if error.downcast_ref().is_some_and(Error::is_of_other_ranks) => {
                Ok(Trained { launches: 0, lost: Some(error) })
            }
            trained => Ok(Trained { launches: trained?, lost: None }),
        }
    }

    /// Brings it to its end. Curves and events are made meanwhile, since all records are there, and are written behind it.
    fn end(self, Trained { launches, lost }: Trained) -> Result<FleetSummary> {
        let Self { folder, fleet, first, about, .. } = self;
        shown::remove_outdated(&folder)?;
        let (summary, shown) = thread::scope(|scope| {
            let showing = scope.spawn(|| Shown::all(&folder, &first));
            let summary = fleet.finish(FleetSummary { launches, ..about });
            (summary, showing.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let summary = summary?;
        match lost {
            Some(error) if summary.runs.len() < summary.n_runs => {
                Err(error.context(format!("--resume {} trains the rest", folder.display())))
            }
            _ => shown?.write(&folder).map(|()| summary),
        }
    }
}

/// Whether nothing is left to train in the fleet in `folder`, which is said; as are weights that are lost.
fn is_done(folder: &Path) -> Result<bool> {
    if !Fleet::is_complete(folder) {
        return Ok(false);
    }
    let lost = FleetWeights::open(folder)?.lost();
    match lost[..] {
        [] => {
            let n_broken =
                Fleet::ended_runs(folder)?.iter().filter(|run| run.error.is_some()).count();
            let all = format!("all runs of the fleet in {} have", folder.display());
            match n_broken {
                0 => say(&format!("{all} finished"))?,
                n => say(&format!("{all} ended, of which {n} broke"))?,
            }
        }
        [run] => tell(&format!("weights are lost or damaged, which are trained again: run {run}")),
        [run, ..] => tell(&format!(
            "weights are lost or damaged, which are trained again: {} runs, from run {run} on",
            lost.len()
        )),
    }
    Ok(lost.is_empty())
}

/// Makes what the process that ended the fleet in `folder` was killed before making, and says so.
fn make_what_is_missing(folder: &Path, runs: &[FleetRun], entry: &Entry) -> Result<()> {
    let mut made = shown::make_missing(folder, &runs[0].config)?;
    if !folder.join(WINNER).exists()
        && let Some([winner, ..]) = ranked(&Fleet::results(folder)?).as_deref()
    {
        report::write_winner(winner, runs, entry.fields, folder)?;
        made.push(WINNER);
    }
    match made[..] {
        [] => Ok(()),
        _ => say(&format!("what was missing in it has been made: {}", made.join(", "))),
    }
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

/// How settings are stopped, if that is asked for or was when the fleet began.
fn halving(args: &TrainArgs, runs: &[FleetRun]) -> Result<Option<Halving>> {
    if let Some(folder) = &args.resume {
        return Ok(Fleet::halving(folder)?);
    }
    let Some(factor) = args.halving else { return Ok(None) };
    let first = &runs[0].config;
    if let Some(groups) = begin_notes::several_groups(first) {
        bail!(
            "--halving {factor}: settings are compared by their mean return, but {} trains several \
             groups ({groups}), whose sum means little",
            first.run.env_id
        );
    }
    let (halving, n) = (Halving::new(factor)?, settings(runs).len());
    if let [_] = halving.rounds(n)[..] {
        tell(&format!(
            "--halving {factor} has no effect on {n} settings: one in {factor} continues, so at least {factor} are needed"
        ));
    }
    Ok(Some(halving))
}
