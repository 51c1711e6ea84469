//! A run in memory: environments, learner and rollout, one iteration at a time.

use crate::config::TrainConfig;
pub use crate::config::trained_groups;
use crate::engine::PhaseSeconds;
use crate::engine::rollout::Rollout;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::run::begin;
use crate::run::checkpoint::env_state::EnvState;
use crate::run::checkpoint::snapshot::Snapshot;
use crate::run::checkpoint::{Checkpoint, Counters};
use crate::run::evaluate::{EvalOptions, evaluate};
use crate::run::evaluation::Evaluation;
use crate::run::evaluator::Evaluator;
use crate::run::league::Standing;
use crate::run::learner::Learner;
pub use crate::run::memory_check::check_memory;
use crate::run::metrics::{EpisodeMetrics, IterationMetrics, by_policy};
use crate::run::not_finite;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use warp_func::{Registry, VecEnv, VecOptions};

/// Everything that a run works with.
pub struct Trainer {
    config: TrainConfig,
    envs: Box<dyn VecEnv>,
    envs_are_on_host: bool,
    learner: Box<dyn Learner>,
    /// As [`trained_groups`].
    trained: Vec<bool>,
    iteration: u64,
    env_steps: u64,
    phases: PhaseSeconds,
    measured_steps: u64,
    taken: Taken,
    /// Where arrays come to that a checkpoint holds, while the GPU goes on.
    #[cfg(feature = "cuda")]
    buffers: warp_data::cuda::PinnedBuffers,
    spans: Spans,
}

/// What a checkpoint of this step holds, as far as somebody asked for it.
#[derive(Default)]
struct Taken {
    /// The arrays of environments on one rank, which a GPU may change meanwhile.
    envs: Option<EnvState>,
    /// All of it; of several ranks, the first one's alone.
    whole: OnceCell<Arc<Snapshot>>,
}

/// A piece of wall time.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// When it began.
    pub begin: Instant,
    /// When it was over.
    pub end: Instant,
}

/// When the last iterations were done, and the evaluation behind them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spans {
    /// The last iterations, which were done at once.
    pub iterations: Option<Span>,
    /// The evaluation after them, if there was one.
    pub evaluation: Option<Span>,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut s = f.debug_struct("Trainer");
        s.field("env_steps", &self.env_steps).finish_non_exhaustive()
    }
}

impl Trainer {
    /// A run at its beginning. `threads` step the environments; results do not depend on it.
    ///
    /// # Errors
    /// Environments that can't be built, or too little memory for them and the rollout.
    pub fn new(
        config: TrainConfig,
        registry: &Registry,
        mut learner: Box<dyn Learner>,
        threads: usize,
    ) -> Result<Self> {
        if config.league.is_some() != learner.league().is_some() {
            let reason = "a configuration with a table [league] is trained by warp train, or by a LeagueLearner";
            return Err(Error::Invalid(reason.into()));
        }
        if learner.rollout_bytes() > 0 {
            check_memory(&config, registry, "num_envs or num_steps")?;
        }
        config.check_samples()?;
        let options = VecOptions { threads, ..config.vec_options() };
        let mut envs = registry.get(&config.run.env_id)?.make(&config.env, &options)?;
        envs.sync()?;
        begin::begin(&config, &*envs, &mut *learner)?;
        #[cfg(feature = "cuda")]
        let envs_are_on_host = envs.as_device().is_none();
        #[cfg(not(feature = "cuda"))]
        let envs_are_on_host = true;
        Ok(Self {
            trained: trained_groups(&config),
            config,
            envs,
            envs_are_on_host,
            learner,
            iteration: 0,
            env_steps: 0,
            phases: PhaseSeconds::default(),
            measured_steps: 0,
            taken: Taken::default(),
            #[cfg(feature = "cuda")]
            buffers: warp_data::cuda::PinnedBuffers::default(),
            spans: Spans::default(),
        })
    }

    /// Goes on where `checkpoint` was taken.
    ///
    /// # Errors
    /// A checkpoint of another environment, seed, network or number of replicas.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let (manifest, run) = (&checkpoint.manifest, &self.config.run);
        if manifest.env_id != run.env_id || manifest.seed != run.seed {
            let reason = format!(
                "it is of {} with seed {}, the configuration of {} with seed {}",
                manifest.env_id, manifest.seed, run.env_id, run.seed
            );
            return Err(Error::damaged(&checkpoint.path, reason));
        }
        self.learner.load_state(&checkpoint.learner)?;
        if let (Some(league), Some(folder)) = (self.learner.as_league(), checkpoint.path.parent()) {
            league.restore(folder, manifest.env_steps)?;
        }
        checkpoint.restore_envs(&mut *self.envs, &self.config.world)?;
        self.iteration = manifest.iteration;
        self.env_steps = manifest.env_steps;
        self.taken = Taken::default();
        Ok(())
    }

    /// Collects and learns once, and says what happened.
    ///
    /// # Errors
    /// A policy that diverged.
    pub fn iterate(&mut self) -> Result<IterationMetrics> {
        let none = || Error::Invalid("the learner returned no metrics for its iteration".into());
        self.iterate_at_once(1)?.pop().ok_or_else(none)
    }

    /// Iterations until `env_steps` are done, the next checkpoint or evaluation is due, or about a tenth of
    /// a second has passed: as many as the learner takes at once, at least one.
    ///
    /// # Errors
    /// A policy that diverged.
    pub fn advance(&mut self, env_steps: u64) -> Result<Vec<IterationMetrics>> {
        let most = self.learner.most_iterations();
        let each = self.phases.total() / (self.iteration.saturating_sub(1)).max(1) as f64;
        let timely = if each > 0.0 { (0.1 / each) as u64 } else { 1 };
        let (steps, most) = (self.config.steps_per_iteration(), most.min(timely).max(1));
        let after = |n: u64| self.env_steps + n * steps;
        let stops = |step| {
            let config = &self.config;
            config.is_checkpoint_step(step)
                || config.is_evaluation_step(step)
                || config.is_snapshot_step(step)
                || config.is_array_step(step)
        };
        let ends = |n: &u64| after(*n) >= env_steps || stops(after(*n));
        let n = (1..most).find(ends).unwrap_or(most);
        let n = self.agreed(n)?;
        self.iterate_at_once(n)
    }

    /// What the first rank decides: the others have other clocks.
    fn agreed(&self, n: u64) -> Result<u64> {
        if self.config.world.is_alone() {
            return Ok(n);
        }
        let told = self.config.world.broadcast("iterations", &n.to_le_bytes())?;
        let unreadable =
            || Error::Ranks("the first rank did not say how many iterations to run".into());
        told.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(unreadable)
    }

    /// What the first iteration would begin with, once: the learner's kernels and arrays. Nothing is
    /// collected or learned.
    ///
    /// # Errors
    /// Kernels that do not compile, or too little memory.
    pub fn prepare(&mut self) -> Result<()> {
        self.iterate_at_once(0).map(|_| ())
    }

    /// `n` iterations, as many at once as the learner takes.
    ///
    /// # Errors
    /// A policy that diverged.
    pub fn iterate_times(&mut self, n: u64) -> Result<Vec<IterationMetrics>> {
        let most = self.learner.most_iterations().max(1);
        let (mut all, mut left) = (Vec::new(), n);
        while left > 0 {
            let part = left.min(most);
            all.extend(self.iterate_at_once(part)?);
            left -= part;
        }
        Ok(all)
    }

    /// `n` iterations, no more than the learner takes at once.
    fn iterate_at_once(&mut self, n: u64) -> Result<Vec<IterationMetrics>> {
        let (started, step) = (Instant::now(), self.env_steps);
        let (iteration, seed) = (self.iteration, self.config.run.seed);
        let progress = Progress { iteration, env_steps: step, seed };
        self.taken = Taken::default();
        let done = self.learner.iterate(&mut *self.envs, progress, n);
        let done = done.map_err(|e| self.explained(e, step));
        // Before anything of this rank goes: kernels of the others may still write into its memory.
        let done = done.inspect_err(|error| self.config.world.give_up_for(error))?;
        let iterations = Some(Span { begin: started, end: Instant::now() });
        self.spans = Spans { iterations, evaluation: None };
        // One time for everything where nobody waits between the phases.
        let learn = started.elapsed().as_secs_f64() / n.max(1) as f64;
        let steps = self.config.steps_per_iteration();
        let metrics = |one: &Iterated| {
            let phases = one.phases.unwrap_or(PhaseSeconds { learn, ..PhaseSeconds::default() });
            self.iteration += 1;
            self.env_steps += steps;
            // The first iteration touches all memory for the first time: not counted.
            if self.iteration > 1 {
                self.phases.add(&phases);
                self.measured_steps += steps;
            }
            self.metrics(one, &phases)
        };
        Ok(done.iter().map(metrics).collect())
    }

    /// A policy's error as the run's, with the environment's numbers that have caused it.
    fn explained(&mut self, error: Error, step: u64) -> Error {
        let of_numbers = matches!(error, Error::Sample(_) | Error::Policy { .. });
        let known = of_numbers && self.envs.sync().is_ok();
        let cause = known.then(|| not_finite::found(&mut *self.envs)).flatten();
        match (diverged(error, step), cause) {
            (Error::Broken { step, reason }, Some(cause)) => {
                Error::Broken { step, reason: format!("{reason}; {cause}") }
            }
            (error, _) => error,
        }
    }

    /// What there is to say of the iteration that was just done.
    fn metrics(&self, done: &Iterated, phases: &PhaseSeconds) -> IterationMetrics {
        let before = self.env_steps - self.config.steps_per_iteration();
        IterationMetrics {
            iteration: self.iteration,
            env_steps: self.env_steps,
            agent_steps: self.agent_steps(),
            episodes: EpisodeMetrics::new(&done.episodes, self.envs.spec(), &self.trained),
            policy: by_policy(&self.config, &done.policies, before),
            steps_per_second: phases.rates(self.config.steps_per_iteration()),
            evaluation: None,
            league: None,
        }
    }

    /// Evaluates the policies as they are, in environments of their own; what training does next is what
    /// it would have done without.
    ///
    /// # Errors
    /// As [`evaluate`].
    pub fn evaluate(&mut self, registry: &Registry, options: &EvalOptions) -> Result<Evaluation> {
        let begin = Instant::now();
        let found = evaluate(&mut *self.learner, &self.config, registry, options);
        self.spans.evaluation = Some(Span { begin, end: Instant::now() });
        found
    }

    /// Plays the games of its league that are due; returns the ratings of the newest snapshots, if there were
    /// any. What training does next depends on their results where opponents are chosen by them.
    ///
    /// # Errors
    /// As [`evaluate`].
    pub fn play(&mut self, evaluator: Evaluator<'_>) -> Result<Option<BTreeMap<String, Standing>>> {
        let Some(league) = self.learner.as_league() else { return Ok(None) };
        Ok(league.play(self.env_steps, evaluator)?.then(|| league.league().standings()))
    }

    /// Brings what the host knows of the run up to date, its environments' arrays included: with several ranks, which
    /// are all to call it, what all of them have.
    ///
    /// # Errors
    /// Whatever went wrong on a device, weights that differ between ranks, or ranks that have lost each other.
    pub fn sync(&mut self) -> Result<()> {
        self.envs.sync()?;
        match self.config.world.is_alone() {
            true => Ok(()),
            false => self.keep(EnvState::of(&*self.envs)),
        }
    }

    /// Brings the environments' arrays on the host up to date, and nothing else; other ranks take no part in it.
    ///
    /// # Errors
    /// Whatever went wrong on a device.
    pub(crate) fn sync_envs(&mut self) -> Result<()> {
        Ok(self.envs.sync()?)
    }

    /// Takes what a checkpoint holds and nothing else. Arrays on a GPU are on their way when this returns, and the
    /// GPU can go on: whoever needs their numbers waits for them.
    ///
    /// # Errors
    /// As [`Trainer::sync`].
    pub(crate) fn take(&mut self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(coming) = EnvState::coming(&mut *self.envs, &self.buffers)? {
            return self.keep(coming);
        }
        self.envs.sync()?;
        self.keep(EnvState::of(&*self.envs))
    }

    fn keep(&mut self, envs: EnvState) -> Result<()> {
        if self.config.world.is_alone() {
            // The learner, with whatever memory it has, is copied only if a checkpoint is written.
            self.taken = Taken { envs: Some(envs), whole: OnceCell::new() };
            return Ok(());
        }
        let whole = Snapshot::gather(&self.config.world, self.part(envs))?.map(Arc::new);
        self.taken = Taken { envs: None, whole: whole.map(OnceCell::from).unwrap_or_default() };
        Ok(())
    }

    /// What this rank has of a checkpoint.
    fn part(&self, envs: EnvState) -> Snapshot {
        let (counters, run_step) = (self.counters(), self.envs.run_step());
        Snapshot { counters, learner: self.learner.state(), envs, run_step }
    }

    /// What a checkpoint holds, as of the last [`Trainer::sync`].
    ///
    /// # Errors
    /// With several ranks, one that is not the first and has but a part of it, or the first before they all came to
    /// [`Trainer::sync`] at this step.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let world = &self.config.world;
        if !world.is_alone() {
            let why = match world.is_first() {
                true => "the ranks have not brought their parts together at this step",
                false => "only the first rank has the whole run",
            };
            let none = || Error::Invalid(why.into());
            return self.taken.whole.get().cloned().ok_or_else(none);
        }
        let envs = || self.taken.envs.clone().unwrap_or_else(|| EnvState::of(&*self.envs));
        Ok(self.taken.whole.get_or_init(|| self.part(envs()).into()).clone())
    }

    /// Which groups are acted for by a policy that learns (all, if none does).
    #[must_use]
    pub fn trained_groups(&self) -> &[bool] {
        &self.trained
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The environments; their arrays on the host are as of the last [`Trainer::sync`].
    #[must_use]
    pub fn envs(&self) -> &dyn VecEnv {
        &*self.envs
    }

    /// Whether the environments are stepped on the host. On a GPU, kernels keep to themselves what happened in a step,
    /// so arrays of actions and rewards may be out of date even after [`Trainer::sync`].
    #[must_use]
    pub fn envs_are_on_host(&self) -> bool {
        self.envs_are_on_host
    }

    /// What the last iteration collected, where the learner keeps that on the host for all policies.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        self.learner.rollout()
    }

    /// The learner.
    #[must_use]
    pub fn learner(&self) -> &dyn Learner {
        &*self.learner
    }

    /// Environment steps done, summed over replicas.
    #[must_use]
    pub fn env_steps(&self) -> u64 {
        self.env_steps
    }

    /// Agent steps done.
    #[must_use]
    pub fn agent_steps(&self) -> u64 {
        self.env_steps * self.envs.spec().n_agents() as u64
    }

    /// Where the time of this process went, first iteration excluded, and the steps done in it.
    #[must_use]
    pub fn phases(&self) -> (PhaseSeconds, u64) {
        (self.phases, self.measured_steps)
    }

    /// When the last iterations were done, and the evaluation behind them.
    #[must_use]
    pub fn spans(&self) -> Spans {
        self.spans
    }

    /// What a checkpoint says of the run's place.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            env_id: self.config.run.env_id.clone(),
            seed: self.config.run.seed,
            iteration: self.iteration,
            env_steps: self.env_steps,
        }
    }
}

/// A policy's error as the run's.
fn diverged(error: Error, step: u64) -> Error {
    match error {
        Error::Sample(e) => Error::diverged(step, e),
        Error::Policy { policy, reason } => {
            Error::Broken { step, reason: format!("policy \"{policy}\": {reason}") }
        }
        other => other,
    }
}
