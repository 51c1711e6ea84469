//! The native learner on a GPU for networks of any size and environments with many agents.
//!
//! An iteration is one recorded graph of launches: of its rollout (per step: read observations, network, sample,
//! environment, store; or all steps at once where an agent is alone in its replica) and of its update. The first one of a
//! run by itself is not recorded, since launching it takes less time. The host starts many iterations and then waits for
//! the figures of all of them. Where it has to look in between (NCCL, replicas that are selected), rollouts and updates are
//! graphs by themselves, and it waits for each. Networks whose weights fit into shared memory run as a whole, on tensor
//! cores or in fp32, all others layer by layer.

mod args;
mod arrays;
mod gradients;
mod iteration_results;
mod kernels;
mod lanes;
mod layers;
mod machine;
mod network;
mod network_path;
mod normalise;
mod policy;
mod prepare;
mod ranks;
mod rollout;
mod selection;
mod shards;
mod shared;
mod spread;
mod tensor;
mod text;
mod tiled;
mod units;
mod update;
mod wgmma;
mod whole_fp32;

use crate::config::TrainConfig;
use crate::engine::collectives::RankConnector;
use crate::engine::{Iterated, Progress, episodes};
use crate::error::Result;
use crate::model::LearnerState;
use iteration_results::{IterationResult, IterationResults};
use warp_func::cuda::{CudaVecEnv, Device, DeviceEnvs, Graph, Kernels, fork_join};

pub(super) use machine::Machine;
pub(super) use policy::WidePolicy;
pub use units::sources;
pub(super) use units::{NetworkBackend, WideText};

/// Policies on a GPU; see the module.
#[derive(Debug)]
pub(crate) struct WideLearner {
    kernels: Kernels,
    policies: Vec<WidePolicy>,
    n_steps: usize,
    /// Whether launches are recorded: a tensor library's can't be.
    recorded: bool,
    /// Whether a rollout's are, steps of the environments included.
    records_rollouts: bool,
    /// Whether an iteration has been started, so that the next one is recorded. With other ranks the first is, too:
    /// kernels wait for theirs, and launches behind those would wait for room in the stream.
    is_under_way: bool,
    collecting: Option<Graph>,
    learning: Option<Graph>,
    ahead: Option<Ahead>,
}

/// Iterations that the host starts one after the other, and reads afterwards.
#[derive(Debug)]
struct Ahead {
    results: IterationResults,
    /// One of them, which writes these results.
    iteration: Option<Graph>,
}

impl WideLearner {
    /// The policies of `config` with the weights of `state`, for `envs`. Nothing is recorded where
    /// networks are foreign.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, or a state of other policies.
    pub(super) fn new(
        config: &TrainConfig,
        envs: &dyn DeviceEnvs,
        state: &LearnerState,
        backend: NetworkBackend,
    ) -> Result<Self> {
        let kernels = envs.kernels();
        let machine = Machine::of(envs.gpu().info());
        let texts = WideText::of_all(config, machine, backend, envs.body())?;
        // All at once, which policies would else have done one after the other.
        let units = texts.iter().flat_map(WideText::units).collect::<Vec<_>>();
        let compile = || kernels.compile_all(&units);
        config.world.first_then_others("compiled kernels", compile)??;
        let foreign = backend.foreign;
        let connector = RankConnector::new(envs.gpu(), &config.world);
        let policy = |(index, text)| {
            WidePolicy::new(config, index, text, kernels, envs, &connector, foreign)
        };
        let policies = texts.into_iter().enumerate().map(policy).collect::<Result<_>>()?;
        let (kernels, n_steps) = (kernels.clone(), config.run.num_steps);
        let recorded = foreign.is_none();
        let mut learner = Self {
            kernels,
            policies,
            n_steps,
            recorded,
            records_rollouts: recorded && envs.steps_by_launches(),
            is_under_way: !config.world.is_alone(),
            collecting: None,
            learning: None,
            ahead: None,
        };
        learner.load(state)?;
        Ok(learner)
    }

    /// How its policies' networks run.
    pub(super) fn paths(&self) -> String {
        let mut paths: Vec<_> = self.policies.iter().map(WidePolicy::path).collect();
        paths.dedup();
        paths.join("; ")
    }

    /// Takes over weights and moments.
    ///
    /// # Errors
    /// A tensor that is missing, or of another shape.
    pub(super) fn load(&mut self, state: &LearnerState) -> Result<()> {
        self.policies.iter_mut().try_for_each(|policy| policy.load_from(state))
    }

    /// Writes weights and moments into `state`.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(super) fn store(&self, state: &mut LearnerState) -> Result<()> {
        let mut new = LearnerState::default();
        self.policies.iter().try_for_each(|policy| policy.store_into(&mut new))?;
        *state = new;
        Ok(())
    }

    /// Collects and learns `n` times.
    ///
    /// # Errors
    /// A policy that diverged, or whatever went wrong on the device.
    pub(super) fn run(
        &mut self,
        config: &TrainConfig,
        envs: &mut dyn DeviceEnvs,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        self.policies.iter().try_for_each(WidePolicy::check_ranks)?;
        // Replicas that are selected are counted by the host, and through NCCL a lost rank is to be noticed within the
        // time of an iteration.
        let waits = self.policies.iter().any(|policy| policy.goals.is_some())
            || ranks::go_through_nccl(&self.policies);
        let steps = config.steps_per_iteration();
        let mut done: Vec<Iterated> = match envs.as_cuda() {
            Some(envs) if self.records_rollouts && !waits => {
                self.run_ahead(envs, progress, n, steps)?
            }
            _ => {
                let at = |i| progress.after(i, steps);
                (0..n).map(|i| self.run_once(envs, at(i))).collect::<Result<_>>()?
            }
        };
        episodes::sum_in(&mut done, &config.sharing())?;
        Ok(done)
    }

    /// Collects and learns `n` times, of so many environment steps each, without waiting in between.
    fn run_ahead(
        &mut self,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
        steps: u64,
    ) -> Result<Vec<Iterated>> {
        // After a failed launch it is made anew.
        let mut ahead = match self.ahead.take() {
            Some(ahead) => ahead,
            None => {
                Ahead { results: IterationResults::new(&self.policies, envs)?, iteration: None }
            }
        };
        if n == 0 {
            self.ahead = Some(ahead);
            return Ok(Vec::new());
        }
        ahead.results.plan(&self.policies, progress, n, steps)?;
        for _ in 0..n {
            self.iterate(&mut ahead, envs)?;
        }
        self.policies.iter().try_for_each(WidePolicy::wait_for_ranks)?;
        let iterated = |(result, i): (IterationResult, u64)| {
            let policies = self.policies.iter().zip(&result.states);
            let at = progress.after(i, steps);
            let policies = policies.map(|(policy, state)| policy.figures_of(state, at));
            let policies = policies.collect::<Result<_>>()?;
            Ok(Iterated { episodes: result.episodes, policies, phases: None })
        };
        let done = ahead.results.read(envs, n)?.into_iter().zip(0..).map(iterated).collect();
        self.ahead = Some(ahead);
        done
    }

    /// Starts an iteration that leaves a result, and returns at once.
    fn iterate(&mut self, ahead: &mut Ahead, envs: &mut CudaVecEnv) -> Result<()> {
        let (policies, n_steps, results) = (&self.policies, self.n_steps, &ahead.results);
        if !std::mem::replace(&mut self.is_under_way, true) {
            return iterate(policies, n_steps, results, envs);
        }
        if let Some(graph) = &mut ahead.iteration {
            graph.launch()?;
            envs.note_steps(n_steps as u32);
            return Ok(());
        }
        let device = self.kernels.device();
        let mut graph = Graph::capture(device, || iterate(policies, n_steps, results, envs))?;
        graph.launch()?;
        ahead.iteration = Some(graph);
        Ok(())
    }

    /// Collects and learns, and waits for it.
    fn run_once(&mut self, envs: &mut dyn DeviceEnvs, progress: Progress) -> Result<Iterated> {
        self.collect(envs)?;
        self.policies.iter().try_for_each(|policy| policy.push_settings(progress))?;
        self.learn()?;
        self.policies.iter().try_for_each(WidePolicy::wait_for_ranks)?;
        let policies = self.policies.iter().map(|policy| policy.figures(progress));
        let policies = policies.collect::<Result<_>>()?;
        Ok(Iterated { episodes: envs.take_episodes(), policies, phases: None })
    }

    /// Starts the next rollout of `envs` and returns at once.
    fn collect(&mut self, envs: &mut dyn DeviceEnvs) -> Result<()> {
        if let Some(graph) = &mut self.collecting {
            graph.launch()?;
            envs.note_steps(self.n_steps as u32);
            return Ok(());
        }
        let (policies, n_steps) = (&self.policies, self.n_steps);
        if !self.records_rollouts || !self.is_under_way {
            return collect(policies, n_steps, envs);
        }
        let device = self.kernels.device();
        let mut graph = Graph::capture(device, || collect(policies, n_steps, envs))?;
        graph.launch()?;
        self.collecting = Some(graph);
        Ok(())
    }

    /// Starts to learn from the last rollout and returns at once.
    fn learn(&mut self) -> Result<()> {
        let policies = &self.policies;
        if !self.recorded || !std::mem::replace(&mut self.is_under_way, true) {
            return learn(policies, self.kernels.device());
        }
        if self.learning.is_none() && !policies.iter().all(WidePolicy::learns_nothing) {
            let device = self.kernels.device();
            self.learning = Some(Graph::capture(device, || learn(policies, device))?);
        }
        match &mut self.learning {
            Some(graph) => Ok(graph.launch()?),
            None => Ok(()),
        }
    }
}

/// What policies do between two steps of the environment, side by side: all read what it left, and write what no other
/// reads.
#[derive(Clone, Copy)]
enum Between {
    Act,
    Outcome,
    SumObs,
}

impl Between {
    /// What takes longest comes first: its blocks are then spread evenly over multiprocessors that have nothing else to do.
    /// Recorded behind `Outcome`, more of the blocks that act would go where `Outcome`'s have just left.
    const ALL: [Self; 3] = [Self::Act, Self::Outcome, Self::SumObs];

    /// Starts it before step `t`; the first policy has the environment count the step before it.
    fn start(
        self,
        policy: &WidePolicy,
        t: usize,
        first: bool,
        envs: &dyn DeviceEnvs,
    ) -> Result<()> {
        match self {
            Self::Outcome => outcome(policy, t, first, envs),
            Self::SumObs => policy.sum_obs(),
            Self::Act => policy.act(t, envs),
        }
    }
}

/// Keeps what came of the step before step `t`, if there was one.
fn outcome(policy: &WidePolicy, t: usize, first: bool, envs: &dyn DeviceEnvs) -> Result<()> {
    let Some(before) = t.checked_sub(1) else { return Ok(()) };
    policy.outcome(before)?;
    if first {
        envs.count_step()?;
    }
    Ok(())
}

/// Starts a rollout.
fn collect(policies: &[WidePolicy], n_steps: usize, envs: &mut dyn DeviceEnvs) -> Result<()> {
    if let [policy] = policies
        && let Some(envs) = envs.as_cuda()
        && policy.roll_out(envs)?
    {
        return policy.finish_rollout();
    }
    let device = envs.gpu().clone();
    let numbered = || policies.iter().enumerate();
    // Few rows first: their blocks would wait until those of many leave a multiprocessor.
    let mut by_rows: Vec<_> = numbered().collect();
    by_rows.sort_by_key(|(_, policy)| policy.n_rows());
    for t in 0..n_steps {
        let seen = &*envs;
        let works = by_rows.iter().flat_map(|policy| Between::ALL.map(|work| (*policy, work)));
        let works = works.map(|((i, policy), work)| move || work.start(policy, t, i == 0, seen));
        fork_join(&device, works)?;
        envs.start_step()?;
    }
    let seen = &*envs;
    let finish = |(i, policy): (usize, &WidePolicy)| {
        outcome(policy, n_steps, i == 0, seen)?;
        policy.finish_rollout()
    };
    fork_join(&device, numbered().map(|policy| move || finish(policy)))
}

/// Starts a rollout, learning from it, and a result of both.
fn iterate(
    policies: &[WidePolicy],
    n_steps: usize,
    results: &IterationResults,
    envs: &mut CudaVecEnv,
) -> Result<()> {
    collect(policies, n_steps, envs)?;
    let device = envs.gpu().clone();
    // Nothing that policies learn from depends on the sums over episodes.
    let works: [Box<dyn FnOnce() -> Result<()> + '_>; 2] =
        [Box::new(|| learn(policies, &device)), Box::new(|| Ok(envs.device_totals()?))];
    fork_join(&device, works)?;
    results.next_iteration(policies, envs)
}

/// Starts to learn from a rollout: policies side by side, if other ranks allow it.
fn learn(policies: &[WidePolicy], device: &Device) -> Result<()> {
    if !ranks::may_be_side_by_side(policies) {
        return policies.iter().try_for_each(WidePolicy::learn);
    }
    if ranks::are_several(policies) {
        // A kernel that waits for other ranks takes room on all multiprocessors, and one that learns keeps it from
        // beginning: so all policies have the sums of all ranks' rollouts before any of them learns.
        fork_join(device, policies.iter().map(|policy| || policy.prepare_all()))?;
        return fork_join(device, policies.iter().map(|policy| || policy.learn_prepared()));
    }
    fork_join(device, policies.iter().map(|policy| || policy.learn()))
}
