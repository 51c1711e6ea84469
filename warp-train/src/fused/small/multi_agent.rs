//! Several agents and several policies: one launch collects for all of them, and each policy learns as
//! if it were the only one.
//!
//! For environments whose replicas have a team of threads elsewhere: here each has one thread, and the
//! rows of all agents go through the networks together; see collect_multi_agent.cu.

use super::figures::{doubles, policy_figures, spread};
use super::refusal::DECLARED;
use super::run_sizes::replicas_of_warp;
use super::shared::{
    CollectMultiAgentArgs, MultiAgentFiguresArgs, MultiAgentSizes, MultiAgentSizesArgs, SmallRun,
};
use super::text::{MOST_WARPS, team_sources};
use super::{MOST_ITERATIONS, SmallLearner};
use crate::config::TrainConfig;
use crate::engine::collectives::RankConnector;
use crate::engine::{Iterated, Progress};
use crate::error::{Error, Result};
use crate::fused::policy_number::PolicyNumber;
use crate::model::LearnerState;
use warp_core::DType;
use warp_func::cuda::{
    Arg, Build, CudaVecEnv, Device, DeviceArray, DeviceInfo, DeviceStruct, DeviceValue, Function,
    KernelArgs, Launch, Module, Pointer,
};
use warp_func::{EpisodeTotals, Spread};

/// Warps of a multiprocessor up to which it has one block of them, and warps of a block at most.
const FEW_WARPS: u32 = 4;

/// Warps for which a multiprocessor has registers: two such blocks.
const RESIDENT_WARPS: u32 = 2 * MOST_WARPS;

/// Policies that learn from the same replicas.
#[derive(Debug)]
pub(crate) struct MultiAgentLearner {
    policies: Vec<SmallLearner>,
    collect: (Function, Launch),
    sum: Function,
    n_warps: u32,
    /// Numbers about the episodes that ended in an iteration.
    n_figures: usize,
    /// What each warp says of them, iteration by iteration, f64.
    figures: DeviceArray,
    /// Figures of all warps together, iteration by iteration, f64.
    totals: DeviceArray,
}

impl MultiAgentLearner {
    /// Compiles for `envs` and allocates everything; begins with `state`.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, or tensors that do not fit.
    pub(in super::super) fn new(
        config: &TrainConfig,
        envs: &CudaVecEnv,
        state: &LearnerState,
    ) -> Result<Self> {
        let (kernels, gpu) = (envs.kernels(), envs.gpu());
        let (mut policies, mut first_agent) = (Vec::new(), 0);
        let n_warps = config.n_envs().div_ceil(replicas_of_warp(config));
        let sources = team_sources(config, envs.text());
        let units: Vec<_> = sources.iter().map(|unit| (unit, Build::Release)).collect();
        let compile = || kernels.compile_all(&units);
        let modules = config.world.first_then_others("compiled kernels", compile)??;
        let (module, updates) = (&modules[0], &modules[1..]);
        let connector = RankConnector::new(gpu, &config.world);
        for (index, (plan, update)) in config.policies.iter().zip(updates).enumerate() {
            let number = PolicyNumber { index, first_agent };
            policies.push(SmallLearner::of_policy(config, number, &connector, update, n_warps)?);
            first_agent += plan.n_agents() as u32;
        }
        let sizes = MultiAgentSizes::of(gpu, module)?;
        let n_warps = n_warps as u32;
        let array = |name: &str, n: u32| {
            let shape = [MOST_ITERATIONS as usize, n as usize, 2 * sizes.n_figures as usize];
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, DType::U32, &shape)?)
        };
        let launch = sizes.launch(gpu.info(), n_warps);
        let mut this = Self {
            policies,
            collect: (module.function("small_collect_multi_agent")?, launch),
            sum: module.function("small_multi_agent_figures")?,
            n_warps,
            n_figures: sizes.n_figures as usize,
            figures: array("episodes of warps", n_warps)?,
            totals: array("episodes", 1)?,
        };
        this.load(state)?;
        Ok(this)
    }

    /// Whether updates are in pieces, between which NCCL gathers.
    pub(in super::super) fn is_in_pieces(&self) -> bool {
        self.policies.iter().any(SmallLearner::is_in_pieces)
    }

    /// Takes over weights and moments.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(in super::super) fn load(&mut self, state: &LearnerState) -> Result<()> {
        self.policies.iter_mut().try_for_each(|policy| policy.load(&own(policy, state)))
    }

    /// Writes weights and moments into `state`, which has all tensors already.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(in super::super) fn store(&self, state: &mut LearnerState) -> Result<()> {
        let mut new = LearnerState::default();
        for policy in &self.policies {
            let mut part = own(policy, state);
            policy.store(&mut part)?;
            new.weights.extend(part.weights);
            new.optimizer.extend(part.optimizer);
            new.optimizer_steps.extend(part.optimizer_steps);
            new.statistics.extend(part.statistics);
        }
        *state = new;
        Ok(())
    }

    /// Collects and learns `n` times, at most [`MOST_ITERATIONS`].
    ///
    /// # Errors
    /// A policy that diverged, or whatever went wrong on the device.
    pub(in super::super) fn run(
        &mut self,
        config: &TrainConfig,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        for policy in &mut self.policies {
            policy.begin(config, progress, n)?;
        }
        for index in 0..n {
            self.collect(config, envs, progress.seed, index)?;
            for policy in &mut self.policies {
                policy.learn(policy.place(config, progress, index))?;
            }
        }
        envs.tick((n * config.run.num_steps as u64) as u32)?;
        let rows = self.policies.iter_mut().map(|policy| policy.figures(config, n));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let episodes = self.episodes(config, n)?;
        let episodes = crate::engine::episodes::sum_each(&episodes, &config.sharing())?;
        let iteration = |(episodes, i): (EpisodeTotals, u64)| {
            let at = progress.env_steps + i * config.steps_per_iteration();
            let policies = config.policies.iter().zip(&rows).map(|(plan, rows)| {
                let samples = config.steps_per_iteration() as f64 * plan.n_agents() as f64;
                policy_figures(&rows[i as usize], plan, samples, at)
            });
            Ok(Iterated { episodes, policies: policies.collect::<Result<_>>()?, phases: None })
        };
        episodes.into_iter().zip(0..).map(iteration).collect()
    }

    /// Starts the rollout of iteration `index` of a launch.
    fn collect(
        &self,
        config: &TrainConfig,
        envs: &CudaVecEnv,
        seed: u64,
        index: u64,
    ) -> Result<()> {
        let [tables, arrays, world] = envs.args().clone();
        let n = config.n_envs() as u32;
        let before = (index * config.run.num_steps as u64) as u32;
        let (n_rows, n_envs, index, steps_before) = (n, n, index as u32, before);
        let run = SmallRun { seed, n_rows, n_envs, index, steps_before, ..SmallRun::default() };
        let of_policies = || self.policies.iter().map(|policy| &policy.arrays);
        let normalisers = || self.policies.iter().map(|policy| &policy.normaliser);
        let policies = of_policies()
            .map(|arrays| &arrays.parameters[0])
            .chain(of_policies().map(|arrays| &arrays.records))
            .chain(of_policies().map(|arrays| &arrays.barrier))
            .chain(normalisers().map(|normaliser| &normaliser.factors))
            .chain(normalisers().map(|normaliser| &normaliser.known))
            .chain(normalisers().map(|normaliser| &normaliser.parts))
            .chain(normalisers().map(|normaliser| &normaliser.running));
        let policies = Arg::pointers("MultiAgentPolicies", policies.map(Pointer::from));
        let args = CollectMultiAgentArgs { run, figures: &self.figures };
        let args = [world, arrays, tables, policies, args.arg()];
        Ok(self.collect.0.launch(&self.collect.1, &args)?)
    }

    /// Waits for the totals over the episodes that ended in each of `n` iterations.
    fn episodes(&self, config: &TrainConfig, n: u64) -> Result<Vec<EpisodeTotals>> {
        // Nothing was collected when a run is only prepared.
        if n == 0 {
            return Ok(Vec::new());
        }
        let launch = Launch { blocks: n as u32, threads: 256, ..Launch::default() };
        let (figures, out) = (&self.figures, &self.totals);
        let args = MultiAgentFiguresArgs { figures, n_warps: self.n_warps, out };
        self.sum.launch(&launch, &[args.arg()])?;
        let n_groups = config.spec.groups.len();
        let totals = |row: &[f64]| {
            let part = |sum: usize, max: usize| {
                let of = Spread { sum: row[sum], min: -row[max + 1], max: row[max] };
                spread(row[0], of)
            };
            EpisodeTotals {
                count: row[0] as u64,
                length: part(1, 2),
                returns: (0..n_groups).map(|g| part(4 + 3 * g, 5 + 3 * g)).collect(),
                statistics: row[4 + 3 * n_groups..].to_vec(),
            }
        };
        let numbers = doubles(&self.totals)?;
        Ok(numbers.chunks_exact(self.n_figures).take(n as usize).map(totals).collect())
    }
}

/// What of `state` belongs to `policy`.
fn own(policy: &SmallLearner, state: &LearnerState) -> LearnerState {
    let (weights, optimizer, n_steps) = state.of_policy(&policy.policy);
    let mut own = LearnerState::default();
    own.add_policy(&policy.policy, weights, optimizer, n_steps);
    own.add_statistics(&policy.policy, state.statistics_of_policy(&policy.policy));
    own
}

impl MultiAgentSizes {
    fn of(gpu: &Device, module: &Module) -> Result<Self> {
        let sizes = &DeviceArray::zeros(gpu, "sizes", DType::U32, &[Self::WORDS])?;
        let launch = Launch { blocks: 1, threads: 1, ..Launch::default() };
        let kernel = module.function("small_multi_agent_sizes")?;
        kernel.launch(&launch, &[MultiAgentSizesArgs { sizes }.arg()])?;
        Ok(Self::take(&sizes.pull::<u32>()?))
    }

    /// Blocks of as few warps as let all of `n_warps` run at the same time, or, where there is no room for all of them,
    /// in as few turns as possible; of as many as a multiprocessor gets, where those are few.
    fn launch(&self, info: &DeviceInfo, n_warps: u32) -> Launch {
        let bytes = |warps: u32| self.networks + warps * self.rows;
        let fits = |warps: &u32| bytes(*warps) + DECLARED <= info.shared_per_block;
        let turns = |warps: u32, share: u32| {
            let blocks = info.shared_per_multiprocessor / (bytes(warps) + DECLARED);
            share.div_ceil(warps * blocks.min(RESIDENT_WARPS / warps).max(1))
        };
        let warps = match n_warps.div_ceil(info.n_multiprocessors) {
            few @ ..=FEW_WARPS => (1..=few).rev().find(fits),
            share => (1..=MOST_WARPS).filter(fits).min_by_key(|warps| turns(*warps, share)),
        };
        let warps = warps.unwrap_or(1);
        Launch {
            blocks: n_warps.div_ceil(warps),
            threads: 32 * warps,
            shared_bytes: bytes(warps),
            cooperative: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tag's networks of 64 and of 128 with its rows, and twice as many of 128.
    #[test]
    fn rollouts_take_few_turns() {
        let h200 = DeviceInfo {
            ordinal: 0,
            name: String::new(),
            uuid: String::new(),
            driver: (13, 0),
            capability: (9, 0),
            n_multiprocessors: 132,
            total_bytes: 0,
            shared_per_block: 227 << 10,
            shared_per_multiprocessor: 228 << 10,
            l2_bytes: 0,
        };
        let warps = |networks: u32, rows: u32, n: u32| {
            let sizes =
                MultiAgentSizes { networks: networks << 10, rows: rows << 10, n_figures: 0 };
            sizes.launch(&h200, n).threads / 32
        };
        assert_eq!(warps(30, 14, 500), 4, "a block a multiprocessor");
        assert_eq!(warps(30, 14, 1250), 5, "ten of twelve places");
        assert_eq!(warps(30, 20, 1024), 4, "eight of eight places");
        assert_eq!(warps(90, 20, 1024), 4, "two turns of four");
        assert_eq!(warps(180, 20, 500), 2, "no room for more");
    }
}
