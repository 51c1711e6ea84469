//! `warp train`: a new run, or one that is resumed.
//!
//! `args` has the options, `task` reads what they ask for, `begin_notes` says what should be known of it, and `summary`
//! what came of it. `restarts` watches over a child that trains. Many runs at once are `commands/fleet/`'s business, which
//! uses the files beside this one.

pub(super) mod args;
pub(super) mod begin_notes;
pub(super) mod contradictions;
mod dashboard;
mod half_precision;
mod memory_plan;
pub(super) mod out_folder;
pub(crate) mod restarts;
mod resumption;
mod start_clock;
mod summary;
mod task;
mod unfinished;
mod without_effect;

use super::ranks::{Rank, Ranks, give_up};
use super::stop::Stop;
use super::{Device, fleet, tell, thread_count, training_learner};
use crate::basis::Basis;
use crate::records::array_log::{self, ArrayLog};
use crate::records::kernels::Kernels;
use crate::records::trace::{self, Trace};
use crate::records::{Records, curves};
use crate::{Outcome, pool_file};
use anyhow::{Result, anyhow, bail};
pub use args::{RestartArgs, TrainArgs};
use begin_notes::tell_notice;
use half_precision::HalfWatch;
use start_clock::StartClock;
use std::path::Path;
use summary::report;
use task::Task;
use unfinished::UnfinishedWatch;
use warp_func::Registry;
use warp_train::callback::{Callback, EarlyStop, End, Stopped};
use warp_train::checkpoint::list;
use warp_train::run::{Evaluator, Locked, Place, Which, train};
use warp_train::world::{Link, PATIENCE, World};
use warp_train::{Checkpoint, Run, TrainConfig, Trainer};

/// Runs the command.
///
/// # Errors
/// A configuration, folder or checkpoint that does not fit, or a run that failed.
pub fn execute(args: &TrainArgs, registry: &Registry) -> Result<Outcome> {
    // Before anything is created.
    dashboard::check(args.dashboard)?;
    contradictions::check(args)?;
    if args.restarts.is_supervisor() {
        return restarts::supervise(args, registry);
    }
    args.restarts.tie_to_supervisor()?;
    let begun = || args.restarts.go_on_in().map(|folder| args.going_on_in(folder.into()));
    if fleet::is_asked_for(args)? {
        return fleet::train(begun().as_ref().unwrap_or(args), registry);
    }
    let mut clock = StartClock::begin();
    let Some(ranks) = Ranks::of(&args.ranks)? else {
        let args = begun().unwrap_or_else(|| args.clone());
        return OneRank::alone(args, registry, &mut clock)?.train(clock);
    };
    ranks.each(|rank, link| {
        let mut clock = StartClock::begin();
        OneRank::of(rank, link, args, registry, &mut clock)?.train(clock)
    })
}

/// What one rank has of a run that is about to begin or go on.
struct OneRank<'a> {
    args: TrainArgs,
    /// Environments by name, on the host.
    on_host: &'a Registry,
    config: TrainConfig,
    basis: Option<Basis>,
    device: Device,
    /// Why it is that device.
    why: String,
    threads: usize,
    from: Option<(Place, Option<Locked>)>,
    /// Whether it hears signals: one rank of every process.
    listens: bool,
}

impl<'a> OneRank<'a> {
    /// The only rank of a run.
    fn alone(args: TrainArgs, on_host: &'a Registry, clock: &mut StartClock) -> Result<Self> {
        let Task { args, config, basis, from } = Task::read(args, on_host, 1, true)?;
        let config = config.on_rank(World::default())?;
        let entry = on_host.get(&config.run.env_id)?;
        clock.part("configuration");
        let (device, why) = Device::for_training(&args.device, &args.backend, entry)?;
        clock.part("device");
        let threads = thread_count(args.threads);
        Ok(Self { args, on_host, config, basis, device, why, threads, from, listens: true })
    }

    /// One of several.
    fn of(
        rank: Rank<'_>,
        link: Option<Box<dyn Link>>,
        args: &TrainArgs,
        on_host: &'a Registry,
        clock: &mut StartClock,
    ) -> Result<Self> {
        let task = Task::read(args.clone(), on_host, rank.size(), rank.is_first())?;
        let entry = on_host.get(&task.config.run.env_id)?;
        clock.part("configuration");
        let device = Device::choose(&rank.device(&args.device)?)?;
        clock.part("device");
        let world = rank.world(link, task.config.digest(entry.fields), device.uuid())?;
        device.check_ranks(&world)?;
        let task = task.agreed(&world, on_host);
        let task = task.inspect_err(|error| give_up(&world, error))?;
        let Task { args, config, basis, from } = task;
        let config = config.on_rank(world)?;
        let threads = (thread_count(args.threads) / rank.here()).max(1);
        clock.part("ranks");
        let (why, listens) = (String::new(), rank.is_first_here());
        Ok(Self { args, on_host, config, basis, device, why, threads, from, listens })
    }

    /// Trains until the end, and lets other ranks know if it can't.
    fn train(self, clock: StartClock) -> Result<Outcome> {
        let world = self.config.world.clone();
        let done = self.run(clock);
        if let Err(error) = &done {
            give_up(&world, error);
        }
        done
    }

    fn run(mut self, mut clock: StartClock) -> Result<Outcome> {
        clock.watch(&self.device);
        let registry = &self.device.registry(self.on_host);
        let world = self.config.world.clone();
        let kernels = self.kernels();
        let (mut trainer, run) = match self.from.take() {
            Some((place, locked)) => self.resume(&place, locked, registry, &mut clock)?,
            None => self.begin(registry, &mut clock)?,
        };
        let Self { args, on_host, basis, device, why, threads, listens, .. } = self;
        let evaluator = Evaluator { registry: on_host, threads };
        // The first rank has written a checkpoint, which may take long.
        world.all_gather_within("the beginning", &[], PATIENCE)?;
        let Some(mut run) = run else {
            // The first rank writes, prints and draws.
            let mut stop = listens.then(Stop::listen).transpose()?;
            let mut callbacks: Vec<&mut dyn Callback> = Vec::new();
            callbacks.extend(stop.as_mut().map(|stop| stop as &mut dyn Callback));
            let end = train(&mut trainer, evaluator, &mut callbacks)?;
            world.all_gather_within("the end", &[], PATIENCE)?;
            return Ok(match end {
                End::Stopped(Stopped::Asked) => {
                    Outcome::Interrupted { signal: Stop::ended_by(stop.as_ref()) }
                }
                _ => Outcome::Done,
            });
        };
        if !why.is_empty() {
            tell(&why);
        }
        let based = basis.map(|basis| basis.to_string());
        let of_run = begin_notes::of_run(trainer.config(), trainer.env_steps());
        let said = based
            .into_iter()
            .chain(contradictions::without_effect(&args, trainer.config()))
            .chain(of_run);
        begin_notes::tell(said.chain(run.notes().iter().cloned()));
        // A wait that the user should not wonder about.
        if let Some(notice) = device.compile_notice() {
            tell(&notice);
        }
        let mut halves = HalfWatch::new(&device, &trainer);
        let mut unfinished = UnfinishedWatch::default();
        let mut stop = Stop::listen()?;
        let mut records = Records::open(&run, &trainer, &Run::config(run.folder())?)?;
        let mut arrays = ArrayLog::open(&run, &trainer)?;
        let mut trace =
            args.profile.as_deref().map(|path| Trace::create(path, kernels)).transpose()?;
        let mut shown = dashboard::shown(args.dashboard, &trainer, run.recent_returns())?;
        clock.part("records");
        let mut told = args.verbose.then(|| clock.end());
        let end = {
            let mut callbacks: Vec<&mut dyn Callback> = Vec::new();
            // Before those whose time they measure.
            callbacks.extend(told.as_mut().map(|told| told as &mut dyn Callback));
            callbacks.extend(trace.as_mut().map(|trace| trace as &mut dyn Callback));
            // What is written down comes before what is shown.
            let written: [&mut dyn Callback; 3] = [&mut run, &mut records, &mut arrays];
            let others: [&mut dyn Callback; 5] =
                [&mut halves, &mut unfinished, &mut *shown, &mut EarlyStop, &mut stop];
            callbacks.extend(written.into_iter().chain(others));
            train(&mut trainer, evaluator, &mut callbacks)
        };
        drop(shown);
        // What led to an error is on the disk before it is told.
        let end = first_to_break(end, run.settle());
        let end = end.map_err(|error| with_last_good(error, run.folder()))?;
        let summary = run.summarise(&trainer, device.name())?;
        curves::draw(run.folder(), trainer.config())?;
        world.all_gather_within("the end", &[], PATIENCE)?;
        let said = report(&summary, run.folder(), end);
        match end {
            // The terminal may be gone.
            End::Stopped(Stopped::Asked) => {
                Ok(Outcome::Interrupted { signal: Stop::ended_by(Some(&stop)) })
            }
            _ => said.map(|()| Outcome::Done),
        }
    }

    /// What a profile tells of kernels; it begins before there are any.
    fn kernels(&self) -> Kernels {
        // The first rank writes the trace, of all GPUs of its process.
        #[cfg(feature = "cuda")]
        if self.args.profile.is_some()
            && self.config.world.is_first()
            && matches!(self.device, Device::Cuda(_))
        {
            return Kernels::trace();
        }
        Kernels::default()
    }

    /// A new run, and its folder on the first rank.
    fn begin(&self, registry: &Registry, clock: &mut StartClock) -> Result<(Trainer, Option<Run>)> {
        let Self { args, config, .. } = self;
        let run = &config.run;
        let folder = task::folder_of(args, config);
        let entry = registry.get(&run.env_id)?;
        let text = config.to_toml(entry.fields);
        let is_first = config.world.is_first();
        if is_first {
            tell_notice(entry);
            // Before anything that takes long.
            Run::check_free(&folder)?;
            self.check_trace(&folder)?;
        }
        let mut trainer = self.trainer(config.clone(), registry, clock)?;
        self.prepare(&mut trainer, clock)?;
        trainer.sync()?;
        let created = is_first.then(|| Run::create(&folder, &text, &trainer)).transpose();
        let run = created.map_err(|error| out_folder::with_way_out(error, args, run))?;
        clock.part("folder");
        Ok((trainer, run))
    }

    /// A run that goes on, and its folder on the first rank.
    fn resume(
        &self,
        place: &Place,
        locked: Option<Locked>,
        registry: &Registry,
        clock: &mut StartClock,
    ) -> Result<(Trainer, Option<Run>)> {
        let args = &self.args;
        let mut config = self.config.clone();
        let world = config.world.clone();
        let checkpoint = checkpoint_for(&world, place)?;
        pool_file::attach(&mut config)?;
        let text = config.to_toml(registry.get(&config.run.env_id)?.fields);
        let done = checkpoint.manifest.env_steps;
        let steps = config.run.total_steps;
        if resumption::gives_length(args) && steps < done {
            let folder = place.folder.display();
            bail!("--steps {steps}: the run in \"{folder}\" has already done {done}");
        }
        if locked.is_some() {
            self.check_trace(&place.folder)?;
        }
        let mut trainer = self.trainer(config, registry, clock)?;
        trainer.restore(&checkpoint)?;
        clock.part("checkpoint");
        self.prepare(&mut trainer, clock)?;
        trainer.sync()?;
        let Some(locked) = locked else { return Ok((trainer, None)) };
        // A longer run goes on although it has reached its return, also when it is resumed again.
        let goes_on = args.steps.is_some() && trainer.config().run.stop_at_return.is_some();
        Run::keep_config(locked.folder(), done, goes_on || !args.set.is_empty())?;
        let run = Run::reopen(locked, &text, &checkpoint)?;
        clock.part("folder");
        Ok((trainer, Some(run)))
    }

    /// Checks where the trace of the run in `folder` is to be, if there is to be one.
    fn check_trace(&self, folder: &Path) -> Result<()> {
        self.args.profile.as_deref().map_or(Ok(()), |path| trace::check(path, folder))
    }

    fn trainer(
        &self,
        config: TrainConfig,
        registry: &Registry,
        clock: &mut StartClock,
    ) -> Result<Trainer> {
        let backend = &self.args.backend;
        self.device.precompile(backend, &config, registry);
        clock.part("kernels begun");
        let learner = training_learner(&self.device, backend, &config, self.threads)?;
        clock.part("weights");
        let trainer = Trainer::new(config, registry, learner, self.threads)?;
        clock.part("environments");
        array_log::check(&trainer)?;
        Ok(trainer)
    }

    /// Lets the learner take all memory it needs, so that too little of it is known before anything is written;
    /// prints the plan if it is asked for.
    fn prepare(&self, trainer: &mut Trainer, clock: &mut StartClock) -> Result<()> {
        let prepared = trainer.prepare();
        clock.part("learner");
        if self.args.verbose && self.config.world.is_first() {
            memory_plan::show(trainer, &self.device)?;
            clock.part("memory plan");
        }
        Ok(prepared?)
    }
}

/// The checkpoint that the first rank finds, on all of them.
fn checkpoint_for(world: &World, place: &Place) -> Result<Checkpoint> {
    let found = world.is_first().then(|| checkpoint_of(place)).transpose()?;
    let step = found.as_ref().map_or(0, |found| found.manifest.env_steps);
    let told = world.broadcast_within("the checkpoint's step", &step.to_le_bytes(), PATIENCE)?;
    match (found, told.first_chunk()) {
        (Some(found), _) => Ok(found),
        (None, Some(step)) => {
            Ok(Checkpoint::at(&Run::checkpoints(&place.folder), u64::from_le_bytes(*step))?)
        }
        (None, None) => bail!("the first rank has no checkpoint"),
    }
}

/// The checkpoint that a run goes on from.
fn checkpoint_of(place: &Place) -> Result<Checkpoint> {
    let found = place.checkpoint();
    if place.which != Which::Newest {
        return Ok(found?);
    }
    found.map_err(|error| {
        let saved = list(&Run::checkpoints(&place.folder)).unwrap_or_default();
        let older: Vec<String> = saved.iter().rev().skip(1).map(|(at, _)| at.to_string()).collect();
        match older.is_empty() {
            true => error.into(),
            false => anyhow!(
                "{error}; --resume {}@STEP goes back to an older one: {}",
                place.folder.display(),
                older.join(", ")
            ),
        }
    })
}

/// What broke first: a checkpoint may have been refused while training went on, and broke of the same.
fn first_to_break(
    end: warp_train::Result<End>,
    settled: warp_train::Result<()>,
) -> warp_train::Result<End> {
    match (end, settled) {
        (Err(_), Err(earlier @ warp_train::Error::Broken { .. })) => Err(earlier),
        (Ok(_), Err(error)) => Err(error),
        (end, _) => end,
    }
}

/// Adds to the error of a run that broke what is left of it.
fn with_last_good(error: warp_train::Error, folder: &Path) -> warp_train::Error {
    match error {
        warp_train::Error::Broken { step, reason } => {
            let saved = list(&Run::checkpoints(folder)).unwrap_or_default();
            let saved: Vec<u64> = saved.into_iter().map(|(step, _)| step).collect();
            let folder = folder.display();
            // Numbers can be finite and still be too large to go on with.
            let left = match *saved {
                [.., older, newest] if newest == step => format!(
                    "it failed from its newest checkpoint on; --resume {folder}@{older} goes back \
                     to the previous one"
                ),
                [.., newest] => format!(
                    "its last good checkpoint is that of step {newest}, from which --resume \
                     {folder} continues"
                ),
                [] => "it has no checkpoint".into(),
            };
            let reason = format!("{reason}; {left}");
            warp_train::Error::Broken { step, reason }
        }
        other => other,
    }
}
