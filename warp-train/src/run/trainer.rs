//! A run in memory: environments, learner and rollout, one iteration at a time.

use crate::config::{LeagueConfig, TrainConfig};
use crate::engine::PhaseSeconds;
use crate::engine::rollout::Rollout;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::run::Evaluator;
use crate::run::begin;
use crate::run::checkpoint::{Checkpoint, Counters};
use crate::run::env_state::EnvState;
use crate::run::evaluate::{EvalOptions, Evaluation, evaluate};
use crate::run::league::Standing;
use crate::run::learner::Learner;
use crate::run::metrics::{EpisodeMetrics, IterationMetrics, by_policy};
use crate::run::whole::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use warp_func::{Registry, Start, VecEnv, VecOptions};

/// Everything that a run works with.
pub struct Trainer {
    config: TrainConfig,
    envs: Box<dyn VecEnv>,
    learner: Box<dyn Learner>,
    /// As [`trained_groups`].
    trained: Vec<bool>,
    iteration: u64,
    env_steps: u64,
    phases: PhaseSeconds,
    measured_steps: u64,
    /// What a checkpoint of this step holds, once it was taken; the first rank's alone.
    taken: Option<Arc<Snapshot>>,
    /// Where arrays come to that a checkpoint holds, while the GPU goes on.
    #[cfg(feature = "cuda")]
    landing: warp_data::cuda::Landing,
    spans: Spans,
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
        let options = VecOptions { threads, ..config.vec_options() };
        let mut envs = registry.get(&config.run.env_id)?.make(&config.env, &options)?;
        envs.sync()?;
        begin::begin(&config, &*envs, &mut *learner)?;
        Ok(Self {
            trained: trained_groups(&config),
            config,
            envs,
            learner,
            iteration: 0,
            env_steps: 0,
            phases: PhaseSeconds::default(),
            measured_steps: 0,
            taken: None,
            #[cfg(feature = "cuda")]
            landing: warp_data::cuda::Landing::default(),
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
        self.taken = None;
        Ok(())
    }

    /// Collects and learns once, and says what happened.
    ///
    /// # Errors
    /// A policy that diverged.
    pub fn iterate(&mut self) -> Result<IterationMetrics> {
        let none = || Error::Invalid("the learner said nothing of its iteration".into());
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
        let told = self.config.world.tell("iterations", &n.to_le_bytes())?;
        let unreadable = || Error::Ranks("the first rank does not say how many iterations".into());
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
        self.taken = None;
        let done = self.learner.iterate(&mut *self.envs, progress, n);
        // Before anything of this rank goes: kernels of the others may still write into its memory.
        let done = done.inspect_err(|error| self.config.world.give_up(&error.to_string()));
        let done = done.map_err(|e| diverged(e, step))?;
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
        if !self.config.world.is_alone() {
            self.keep(EnvState::of(&*self.envs))?;
        }
        Ok(())
    }

    /// Takes what a checkpoint holds and nothing else. Arrays on a GPU are on their way when this returns, and the
    /// GPU can go on: whoever needs their numbers waits for them.
    ///
    /// # Errors
    /// As [`Trainer::sync`].
    pub(crate) fn take(&mut self) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(coming) = EnvState::coming(&mut *self.envs, &self.landing)? {
            return self.keep(coming);
        }
        self.envs.sync()?;
        self.keep(EnvState::of(&*self.envs))
    }

    fn keep(&mut self, envs: EnvState) -> Result<()> {
        let (counters, run_step) = (self.counters(), self.envs.run_step());
        let part = Snapshot { counters, learner: self.learner.state(), envs, run_step };
        self.taken = Snapshot::gather(&self.config.world, part)?.map(Arc::new);
        Ok(())
    }

    /// What a checkpoint holds, as of the last [`Trainer::sync`].
    ///
    /// # Errors
    /// A rank other than the first, which has but a part of it.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        if let Some(taken) = &self.taken {
            return Ok(taken.clone());
        }
        if !self.config.world.is_alone() {
            return Err(Error::Invalid("only the first rank has the whole run".into()));
        }
        Ok(Snapshot::of(&self.counters(), self.learner.state(), &*self.envs).into())
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

/// Groups of which a policy that learns acts for an agent; all, if none learns.
#[must_use]
pub fn trained_groups(config: &TrainConfig) -> Vec<bool> {
    let mut trained = vec![false; config.spec.groups.len()];
    for plan in config.policies.iter().filter(|plan| plan.config.to_train) {
        plan.groups().for_each(|group| trained[group] = true);
    }
    if !trained.contains(&true) {
        trained.fill(true);
    }
    trained
}

/// Checks that environments and rollout fit into memory together, before any of them is allocated;
/// `lower` names the setting that would help.
///
/// # Errors
/// Too little memory, with both figures.
pub fn check_memory(config: &TrainConfig, registry: &Registry, lower: &str) -> Result<()> {
    let one = registry.get(&config.run.env_id)?.bytes_per_replica(&config.env)?;
    let replicas = one.saturating_mul(config.n_envs() as u128);
    // A league has a learner, with a rollout, for each of those who may learn.
    let plays_older = config.league.as_ref().is_some_and(LeagueConfig::plays_older);
    let rollouts = Rollout::bytes(config).saturating_mul(if plays_older { 3 } else { 1 });
    let needed = replicas.saturating_add(rollouts);
    let mut what = format!(
        "{} replicas of {} and a rollout of {} steps",
        config.n_envs(),
        config.run.env_id,
        config.run.num_steps
    );
    let (mut needed, mut lower) = (needed, lower.to_string());
    if config.run.start == Start::Pool {
        let rows = config.vec_options().pool.rows();
        let row = registry.get(&config.run.env_id)?.bytes_per_pool_row(&config.env)?;
        needed = needed.saturating_add(row.saturating_mul(rows as u128));
        what += &format!(" and a reset pool of {rows} rows");
        lower += " or pool_size";
    }
    Ok(warp_data::memory::check(&what, needed, &lower)?)
}
