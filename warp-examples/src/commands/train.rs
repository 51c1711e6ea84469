//! `warp train`: a new run, or one that goes on.

use super::halves::HalfWatch;
use super::progress::{ReturnBar, by_group, short};
use super::stop::Stop;
use super::{
    Device, fleet, learner_on, memory, notes, options, resumption, say, tell, thread_count,
};
use crate::basis::Basis;
use crate::records::{Records, curves};
use crate::{Outcome, pool_file, settings};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use warp_func::{Entry, Registry};
use warp_train::callback::{Callback, EarlyStop, End, Stopped};
use warp_train::config::drop_foreign_keys;
use warp_train::run::{Evaluator, Locked, Place, Summary, Which, train};
use warp_train::{Checkpoint, Run, TrainConfig, Trainer};

/// Train policies.
#[derive(Debug, Clone, Args)]
pub struct TrainArgs {
    /// An environment's name, or a configuration file.
    #[arg(value_name = "ENV | FILE.toml | FILE.yaml", required_unless_present = "resume")]
    pub target: Option<String>,
    /// Continue the run in this folder, from its newest checkpoint, that of a step, or the one that did best in
    /// evaluations; environment and configuration come from it, and --set changes what may change: the run's
    /// length, learning rates, coefficients and the like. Or complete the fleet there.
    #[arg(long, value_name = "RUN[@STEP | @best] | FLEET", conflicts_with_all = ["target", "envs", "seed", "out"])]
    pub resume: Option<PathBuf>,
    /// auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// auto, native, or burn in a build with that feature.
    #[arg(long, default_value = "auto")]
    pub backend: String,
    /// Environment replicas; short for --set num_envs=N.
    #[arg(long, value_name = "N")]
    pub envs: Option<usize>,
    /// Environment steps, summed over replicas; short for --set total_steps=N.
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Seed; short for --set seed=S.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Several runs at once, a fleet: one for each of the seeds A to B - 1.
    #[arg(long, value_name = "A..B", conflicts_with_all = ["seed", "resume"])]
    pub seeds: Option<String>,
    /// Several runs at once: one for each value of a key; may be given for several keys.
    #[arg(long, value_name = "KEY=V,V,...", conflicts_with = "resume")]
    pub sweep: Vec<String>,
    /// Threads; 0: one per core. Results do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = options::threads)]
    pub threads: usize,
    /// Changes a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The run's folder; by default ENV-ALGORITHM-sSEED in what the keys basedir (runs) and tag say.
    #[arg(long, value_name = "RUN")]
    pub out: Option<PathBuf>,
    /// Print the memory plan first: every array, with the total and what is left.
    #[arg(short, long, conflicts_with_all = ["seeds", "sweep"])]
    pub verbose: bool,
}

impl TrainArgs {
    /// The options that are short for `--set`, as such.
    pub(super) fn overrides(&self) -> impl Iterator<Item = String> {
        let envs = self.envs.map(|n| format!("num_envs={n}"));
        let steps = self.steps.map(|n| format!("total_steps={n}"));
        let seed = self.seed.map(|n| format!("seed={n}"));
        [envs, steps, seed].into_iter().flatten()
    }
}

/// Runs the command.
///
/// # Errors
/// A configuration, folder or checkpoint that does not fit, or a run that broke.
pub fn execute(args: &TrainArgs, registry: &Registry) -> Result<Outcome> {
    if fleet::is_asked_for(args) {
        return fleet::train(args, registry);
    }
    let from = args.resume.as_deref().map(Place::parse);
    // Before anything is read that another process might be about to change.
    let locked = from.as_ref().map(|from| Run::lock(&from.folder)).transpose()?;
    let (config, basis) = match &from {
        Some(from) => (resumption::configure(&from.folder, args, registry)?, None),
        None => configure(args, registry).map(|(config, basis)| (config, Some(basis)))?,
    };
    let entry = registry.get(&config.run.env_id)?;
    let (device, why) = Device::for_training(&args.device, &args.backend, entry, Some(&config))?;
    let (on_host, threads) = (registry, thread_count(args.threads));
    let registry = &device.registry(on_host);
    let (mut trainer, mut run) = match from.zip(locked) {
        Some((from, locked)) => {
            let checkpoint = checkpoint_of(&from)?;
            resume(checkpoint, locked, config, args, registry, &device, threads)?
        }
        None => begin(config, args, registry, &device, threads)?,
    };
    if !why.is_empty() {
        tell(&why);
    }
    let based = basis.map(|basis| basis.to_string());
    let of_run = notes::of_run(trainer.config(), trainer.env_steps());
    notes::tell(based.into_iter().chain(of_run).chain(run.notes().iter().cloned()));
    // A wait that the user should not wonder about.
    if let Some(notice) = device.compile_notice() {
        tell(&notice);
    }
    let mut halves = HalfWatch::new(&device, &trainer);
    let mut stop = Stop::listen()?;
    let mut records = Records::open(run.folder(), &trainer, &Run::config(run.folder())?)?;
    let mut bar = ReturnBar::new(&trainer, run.recent_returns());
    let end = {
        // What is written down comes before what is shown.
        let callbacks: &mut [&mut dyn Callback] =
            &mut [&mut run, &mut records, &mut halves, &mut bar, &mut EarlyStop, &mut stop];
        let evaluator = Evaluator { registry: on_host, threads };
        train(&mut trainer, evaluator, callbacks)
    };
    let end = end.map_err(|error| with_last_good(error, run.folder()))?;
    let summary = run.summarise(&trainer, device.name())?;
    curves::draw(run.folder(), trainer.config())?;
    let told = report(&summary, run.folder(), end);
    match (end, stop.asked_by()) {
        // The terminal may be gone.
        (End::Stopped(Stopped::Asked), Some(signal)) => Ok(Outcome::Interrupted { signal }),
        _ => told.map(|()| Outcome::Done),
    }
}

/// The checkpoint that a run goes on from.
fn checkpoint_of(place: &Place) -> Result<Checkpoint> {
    let found = place.checkpoint();
    if place.which != Which::Newest {
        return Ok(found?);
    }
    found.with_context(|| format!("older checkpoints: --resume {}@STEP", place.folder.display()))
}

/// Adds to the error of a run that broke what is left of it.
fn with_last_good(error: warp_train::Error, folder: &Path) -> warp_train::Error {
    match error {
        warp_train::Error::Broken { step, reason } => {
            let saved = warp_train::checkpoint::list(&Run::checkpoints(folder)).unwrap_or_default();
            let saved: Vec<u64> = saved.into_iter().map(|(step, _)| step).collect();
            let folder = folder.display();
            // Numbers can be finite and still be too large to go on with.
            let left = match *saved {
                [.., older, newest] if newest == step => format!(
                    "it broke from its newest checkpoint on; --resume {folder}@{older} goes back to the one before"
                ),
                [.., newest] => format!(
                    "its last good checkpoint is that of step {newest}, which --resume {folder} goes on from"
                ),
                [] => "it has no checkpoint".into(),
            };
            let reason = format!("{reason}; {left}");
            warp_train::Error::Broken { step, reason }
        }
        other => other,
    }
}

/// The configuration of a new run.
fn configure(args: &TrainArgs, registry: &Registry) -> Result<(TrainConfig, Basis)> {
    let target = args.target.as_deref().context("an environment or a file is needed")?;
    let mut sets = args.set.clone();
    sets.extend(args.overrides());
    settings::configure_with_basis(target, &sets, registry)
}

fn begin(
    config: TrainConfig,
    args: &TrainArgs,
    registry: &Registry,
    device: &Device,
    threads: usize,
) -> Result<(Trainer, Run)> {
    let run = &config.run;
    let name = format!("{}-{}-s{}", run.env_id, config.algorithm(), run.seed);
    let folder = args.out.clone().unwrap_or_else(|| Run::free_folder(run, &name));
    let entry = registry.get(&run.env_id)?;
    let text = config.to_toml(entry.fields);
    tell_notice(entry);
    // Before anything that takes long.
    Run::check_free(&folder)?;
    let mut trainer = trainer(config, args, registry, device, threads)?;
    prepare(&mut trainer, args, device)?;
    trainer.sync()?;
    let run = Run::create(&folder, &text, &trainer)?;
    Ok((trainer, run))
}

/// Lets the learner take all memory it needs, so that too little of it is known before anything is written;
/// prints the plan if it is asked for.
fn prepare(trainer: &mut Trainer, args: &TrainArgs, device: &Device) -> Result<()> {
    let prepared = trainer.prepare();
    if args.verbose {
        memory::show(trainer, device)?;
    }
    Ok(prepared?)
}

/// Says what should be known of an environment before training in it.
pub(super) fn tell_notice(entry: &Entry) {
    if let Some(notice) = entry.notice {
        tell(notice);
    }
}

fn resume(
    checkpoint: Checkpoint,
    locked: Locked,
    mut config: TrainConfig,
    args: &TrainArgs,
    registry: &Registry,
    device: &Device,
    threads: usize,
) -> Result<(Trainer, Run)> {
    pool_file::attach(&mut config)?;
    let text = config.to_toml(registry.get(&config.run.env_id)?.fields);
    let folder = locked.folder();
    let done = checkpoint.manifest.env_steps;
    let steps = config.run.total_steps;
    if resumption::gives_length(args) && steps < done {
        bail!("--steps {steps}: the run in \"{}\" has done {done} already", folder.display());
    }
    let mut trainer = trainer(config, args, registry, device, threads)?;
    trainer.restore(&checkpoint)?;
    prepare(&mut trainer, args, device)?;
    if !args.set.is_empty() {
        Run::keep_config(folder, done)?;
    }
    let run = Run::reopen(locked, &text, &checkpoint)?;
    Ok((trainer, run))
}

/// The configuration of the run in `folder`, without the rows of its `pool_file`.
pub(crate) fn read_config(folder: &Path, registry: &Registry) -> Result<TrainConfig> {
    let text = Run::config(folder)?;
    let path = || format!("configuration \"{}\"", folder.join("config.toml").display());
    let mut table = settings::parse(&text).with_context(path)?;
    drop_foreign_keys(&mut table, registry);
    TrainConfig::resolve(&table, registry).with_context(path)
}

fn trainer(
    config: TrainConfig,
    args: &TrainArgs,
    registry: &Registry,
    device: &Device,
    threads: usize,
) -> Result<Trainer> {
    let learner = learner_on(device, &args.backend, &config, threads)?;
    Ok(Trainer::new(config, registry, learner, threads)?)
}

fn report(summary: &Summary, folder: &Path, end: End) -> Result<()> {
    let reached = match summary.mean_episode_return {
        Some(mean) => {
            let means = by_group(mean, &summary.mean_group_return);
            format!("a mean return of {means} over the last episodes")
        }
        None => "the end of no episode".into(),
    };
    // Of a single iteration, which is not counted, there is no rate.
    let rate = match summary.env_steps_per_second {
        rate if rate > 0.0 => format!(" ({}steps/s)", short(rate)),
        _ => String::new(),
    };
    let how = match end {
        End::Complete => "reached".into(),
        End::Stopped(Stopped::ReturnReached(mean)) => {
            format!("stopped at an evaluation's mean return of {mean:.1}; reached")
        }
        End::Stopped(_) => "stopped early; reached so far:".to_string(),
    };
    let in_all = match summary.env_steps {
        steps if steps > summary.part_env_steps => format!(", {steps} in all"),
        _ => String::new(),
    };
    say(&format!(
        "{} with {}: {how} {reached}, {} steps in {:.1} s{rate}{in_all}; the run is in {}",
        summary.env,
        summary.algorithm,
        summary.part_env_steps,
        summary.seconds,
        folder.display()
    ))
}
