//! One policy that learns from a replay memory on the GPU, in one run or in several side by side: its algorithm's
//! work as lists, and the engine that does it.

use super::context::ProgramContext;
use super::layout::Layout;
use super::machine::Machine;
use super::memory::numbers;
use super::op::Op;
use super::ranks::{self, Division};
use super::schedule::{Part, cut, fuse, segments};
use super::state::Fault;
use super::tracer::{self, How};
use super::{CudaEngine, Setting};
use crate::algorithm::{Algorithm, Plan, Planned, Variant};
use crate::algorithm::{PolicyConfig, PolicyFigures, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::EngineState;
use crate::engine::collectives::{AllGather, RankConnector};
use crate::engine::off_policy::{planned, resumed, save};
use crate::error::{Error, PolicyError, Result};
use crate::model::LearnerState;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{Build, CudaVecEnv, Source};

/// A policy, its algorithm and its engine.
#[derive(Debug)]
pub(crate) struct Member {
    policy: PolicyPlan,
    algorithm: Box<dyn Algorithm>,
    engine: CudaEngine,
    programs: Programs,
    /// Updates made.
    updates: u64,
    warming_up: bool,
}

/// What a member does, as lists of work; of updates by variant.
#[derive(Debug, Clone)]
struct Programs {
    acting: Vec<Op>,
    storing: Vec<Op>,
    updating: Vec<Vec<Part>>,
    /// Whether an update keeps the step before it, and may begin early: while that is made in a run by itself, else to be at
    /// its place.
    stores: bool,
    /// After the host has set weights, where products read them packed.
    packing: Option<Vec<Op>>,
}

/// What of a run decides which programs there are, beside its plan.
#[derive(Debug, Clone, Copy)]
struct RunShape<'a> {
    layout: &'a Layout,
    division: Division,
    /// Whether agents can leave before their episode ends.
    mortal: bool,
}

impl Programs {
    fn new(
        policy: &PolicyPlan,
        algorithm: &dyn Algorithm,
        plan: &Plan,
        RunShape { layout, division, mortal }: RunShape<'_>,
    ) -> Result<Self> {
        let (kept, how) = (policy.config.to_train, How::of(plan, layout, division));
        let updating = (0..algorithm.n_variants()).map(|variant| {
            let ops = tracer::updating(algorithm, Variant(variant), how)?;
            ops.iter().try_for_each(|op| op.check(plan))?;
            Ok(cut(&if how.ranks { ops } else { fuse(&ops, plan) }, plan))
        });
        let mut updating = updating.collect::<Result<Vec<Vec<Part>>>>()?;
        let acting = tracer::acting(algorithm, kept)?;
        // Blocks of acting that met would leave the barrier, which an update that begins early reads, as it must not yet be.
        let is_short = segments(&acting, plan).len() == 1;
        let stores = how.stores && is_short && !mortal && policy.config.gradient_steps == 1;
        if stores {
            let first = updating.iter_mut().filter_map(|parts| parts.first_mut());
            first.for_each(|part| part.ops.insert(0, Op::StoreIfDrawn));
        }
        Ok(Self {
            acting,
            storing: how.storing(kept),
            updating,
            stores,
            packing: layout.half.then(|| tracer::packing(plan)),
        })
    }

    fn all(&self) -> Vec<Vec<Op>> {
        let first = [&self.acting, &self.storing].into_iter().chain(&self.packing);
        let updating = self.updating.iter().flatten().map(|part| &part.ops);
        first.chain(updating).cloned().collect()
    }
}

/// The translation units of the programs of `config` for a GPU like `machine`; none may fuse operations.
///
/// # Errors
/// Policies that an algorithm does not take.
pub(crate) fn sources(config: &TrainConfig, machine: Machine) -> Result<Vec<(Source, Build)>> {
    let (mut all, mut first_agent) = (Vec::new(), 0);
    for (index, policy) in config.policies.iter().enumerate() {
        all.extend(sources_of(config, Setting::new(config, (index, first_agent)), machine)?);
        first_agent += policy.n_agents() as u32;
    }
    Ok(all)
}

/// The texts of the programs of one policy, that of `setting`, for a GPU like `machine`.
///
/// # Errors
/// As [`sources`].
pub(crate) fn sources_of(
    config: &TrainConfig,
    setting: Setting,
    machine: Machine,
) -> Result<Vec<(Source, Build)>> {
    let policy = &config.policies[setting.place.policy];
    let Planned { plan, algorithm } = planned(config, policy)?;
    let (plan, division) = (setting.part(plan), setting.division());
    let layout = Layout::new(&plan, setting.place.n_rows, machine, setting.precision);
    let shape = RunShape { layout: &layout, division, mortal: setting.agents.mortal };
    let programs = Programs::new(policy, &*algorithm, &plan, shape)?;
    let (plan, layout, runs) = (&plan, &layout, machine.runs());
    let Setting { place, agents, .. } = &setting;
    let context = ProgramContext { plan, layout, place, agents, runs, division, machine };
    let gathers = (division.ranks > 1).then(|| ranks::source(division.ranks));
    let sources = programs.all().into_iter().map(|ops| context.program(&ops).source);
    Ok(sources.chain(gathers).map(|source| (source, Build::Parity)).collect())
}

impl Member {
    /// The policy of `setting` in `configs`, one configuration per run.
    ///
    /// # Errors
    /// A policy that the algorithm does not take, text that does not compile, or too little memory.
    pub(crate) fn new(
        configs: &[TrainConfig],
        setting: Setting,
        envs: &[&mut CudaVecEnv],
        connector: &RankConnector,
    ) -> Result<Self> {
        let config = &configs[0];
        let policy = config.policies[setting.place.policy].clone();
        let Planned { plan, algorithm } = planned(config, &policy)?;
        let seeds: Vec<u64> = configs.iter().map(|config| config.run.seed).collect();
        let division = setting.division();
        let mut engine = CudaEngine::new(plan, setting, (&seeds, envs))?;
        engine.join(connector)?;
        let mortal = engine.agents.mortal;
        let shape = RunShape { layout: &engine.layout, division, mortal };
        let programs = Programs::new(&policy, &*algorithm, &engine.plan, shape)?;
        engine.prepare(&programs.all())?;
        let (updates, warming_up) = (0, true);
        Ok(Self { policy, algorithm, engine, programs, updates, warming_up })
    }

    /// The variants of the updates of an iteration that begins now, `num_steps` long.
    pub(crate) fn variants(&self, num_steps: usize) -> Vec<Variant> {
        let keys = &self.policy.config;
        if self.warming_up || !keys.to_train {
            return Vec::new();
        }
        let n = (num_steps / keys.train_freq * keys.gradient_steps) as u64;
        (self.updates..self.updates + n).map(|update| self.algorithm.variant(update)).collect()
    }

    /// Begins an iteration at `env_steps`.
    ///
    /// # Errors
    /// Whatever went wrong on the device, here and below.
    pub(crate) fn begin(&mut self, env_steps: u64) -> Result<()> {
        let PolicyConfig { to_train, learning_starts, .. } = self.policy.config;
        // One that does not learn acts as it is from the first step on.
        self.warming_up = to_train && env_steps < learning_starts;
        self.engine.set_cells(env_steps, self.warming_up)?;
        self.engine.clear_figures()
    }

    /// Starts to act; `early`: if possible, while what was started before still runs.
    pub(crate) fn act(&mut self, early: bool) -> Result<()> {
        // Without a place to make in the memory, acting waits for nothing by itself.
        if early && self.programs.acting.contains(&Op::AdvanceRing) {
            self.engine.programmatic_launch()?;
        }
        self.engine.run(&self.programs.acting)
    }

    /// Starts to keep what came of step `t`, and the updates that belong to it, the next of `variants`; `early`: if
    /// possible, while the step is still made.
    pub(crate) fn learn(&mut self, t: usize, variants: &[Variant], early: bool) -> Result<()> {
        let keys = &self.policy.config;
        let updates = !variants.is_empty() && (t + 1).is_multiple_of(keys.train_freq);
        if !updates || !self.programs.stores {
            self.engine.run(&self.programs.storing)?;
        } else if early {
            self.engine.programmatic_launch()?;
        }
        if !updates {
            return Ok(());
        }
        let first = ((t + 1) / keys.train_freq - 1) * keys.gradient_steps;
        for Variant(variant) in &variants[first..first + keys.gradient_steps] {
            for Part { ops, exchanged } in &self.programs.updating[*variant] {
                self.engine.run(ops)?;
                self.engine.exchange(exchanged)?;
            }
        }
        Ok(())
    }

    /// Counts the updates of an iteration that has been started.
    pub(crate) fn note_updates(&mut self, n: u64) {
        self.updates += n;
    }

    /// Takes over each run's weights, moments, memory and counters.
    ///
    /// # Errors
    /// A tensor that is missing, or of another shape.
    pub(crate) fn load(&mut self, states: &[LearnerState]) -> Result<()> {
        let own: Vec<EngineState> =
            states.iter().map(|state| resumed(&self.policy, state)).collect();
        self.engine.load(&own)?;
        // Runs side by side have made as many.
        self.updates = own.first().map_or(0, |state| state.updates);
        Ok(())
    }

    /// Adds weights, moments and counters of a run to `state`, but no memory, which may be large.
    pub(crate) fn store(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        save(&self.policy.name, self.engine.weights(run)?, state);
        Ok(())
    }

    /// Adds all that a run needs to go on to `state`.
    pub(crate) fn store_all(&self, run: usize, state: &mut LearnerState) -> Result<()> {
        save(&self.policy.name, self.engine.state(run)?, state);
        Ok(())
    }

    /// Whether a run has diverged or can choose nothing: the inner error.
    pub(crate) fn check(&self, run: usize) -> Result<Result<()>> {
        Ok(match self.engine.fault(run)? {
            None => Ok(()),
            Some(Fault::Gradient) => {
                let reason = PolicyError::NonFiniteGradient { norm: f64::NAN };
                Err(Error::Policy { policy: self.policy.name.clone(), reason })
            }
            Some(Fault::NothingAllowed { row }) => {
                Err(warp_sample::Error::NothingAllowed { row, head: 0 }.into())
            }
        })
    }

    /// Where figures are summed, of one run after the other.
    pub(crate) fn figures_array(&self) -> &DeviceArray {
        self.engine.figures_array()
    }

    /// The sums of figures of all ranks, from what arrays of this one's held.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn sum_figures(&self, words: &[u32]) -> Result<Vec<f64>> {
        let here = numbers(words);
        let all = self.engine.setting.ranks.all_gather_f64("figures", &here)?;
        let sum = |i: usize| all.iter().skip(i).step_by(here.len()).sum();
        Ok((0..here.len()).map(sum).collect())
    }

    /// The figures of an iteration that began at `env_steps`, from their sums.
    pub(crate) fn read_figures(&self, sums: &[f64], env_steps: u64) -> PolicyFigures {
        self.policy.learning_rates(env_steps).chain(self.engine.read_figures(sums)).collect()
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn check_ranks(&self) -> Result<()> {
        self.engine.all_gather.as_ref().map_or(Ok(()), AllGather::check)
    }

    /// Waits for what was started, if other ranks take part in it.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(crate) fn wait_for_ranks(&self) -> Result<()> {
        self.engine.all_gather.as_ref().map_or(Ok(()), AllGather::wait)
    }
}
