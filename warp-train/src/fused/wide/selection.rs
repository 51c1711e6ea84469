//! Which replicas' samples are learned from (the key `neg_pos_env_ratio`), and returns of the same size at every step
//! (`norm_return`). Host side of `selection.cu`.

use super::args::{BeginGoalsArgs, CellsArgs, NormaliseReturnsArgs, NoteGoalsArgs, SelectArgs};
use super::policy::WidePolicy;
use crate::algorithm::PolicyPlan;
use crate::engine::rollout::GOAL_REACHED;
use crate::error::Result;
use warp_core::DType::{F32, U8, U32};
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceEnvs, KernelArgs, Launch};

/// Where episodes of a rollout reached their goals, and which replicas are learned from.
#[derive(Debug)]
pub(super) struct WideGoals {
    ratio: f64,
    n_envs: usize,
    /// Steps after which an episode ends by itself.
    limit: u32,
    /// The environment's arrays.
    episode_length: DeviceArray,
    terminated: DeviceArray,
    truncated: DeviceArray,
    statistics: DeviceArray,
    /// Statistics of a replica, and the place of the one that says whether a goal was reached; negative if none does.
    width: u32,
    statistic: i32,
    /// Steps that each replica's episode had before the step at hand, u32 `[n_envs]`.
    lengths: DeviceArray,
    /// Whether an episode of the replica reached its goal in this rollout, u8 `[n_envs]`.
    reached: DeviceArray,
    /// Whether the replica is learned from, u8 `[n_envs]`.
    selected: DeviceArray,
    /// Replicas that reached a goal, and others that are learned from, u32 `[shards, 2]`.
    counts: DeviceArray,
}

impl WideGoals {
    /// For the rollouts of `plan` in so many shards here, if it selects replicas.
    pub(super) fn new(
        plan: &PolicyPlan,
        envs: &dyn DeviceEnvs,
        shards: usize,
    ) -> Result<Option<Self>> {
        let Some(ratio) = plan.config.neg_pos_env_ratio else { return Ok(None) };
        let (ids, arrays, spec) = (envs.ids(), envs.arrays(), envs.spec());
        let n_envs = envs.options().n_envs;
        let own = |name: &str, dtype, n: usize| {
            DeviceArray::zeros(envs.gpu(), &format!("{}.{name}", plan.name), dtype, &[n])
        };
        let place = spec.statistics.iter().position(|name| name == GOAL_REACHED);
        let known = place.zip(ids.final_statistic);
        Ok(Some(Self {
            ratio,
            n_envs,
            limit: spec.time_limit.steps,
            episode_length: arrays.array(ids.episode_length).clone(),
            terminated: arrays.array(ids.terminated).clone(),
            truncated: arrays.array(ids.truncated).clone(),
            statistics: match known {
                Some((_, id)) => arrays.array(id).clone(),
                None => own("no statistics", F32, 0)?,
            },
            width: spec.statistics.len() as u32,
            statistic: known.map_or(-1, |(place, _)| place as i32),
            lengths: own("episode_length", U32, n_envs)?,
            reached: own("reached", U8, n_envs)?,
            selected: own("selected", U8, n_envs)?,
            counts: own("replicas", U32, 2 * shards)?,
        }))
    }
}

impl WidePolicy {
    /// Looks at the environments before the first step of a rollout.
    pub(super) fn begin_goals(&self) -> Result<()> {
        let Some(goals) = &self.goals else { return Ok(()) };
        let args = BeginGoalsArgs {
            episode_length: &goals.episode_length,
            n_envs: goals.n_envs as u32,
            lengths: &goals.lengths,
            reached: &goals.reached,
        };
        Ok(self.kernels.begin_goals.launch(&Launch::over(goals.n_envs, 128), &[args.arg()])?)
    }

    /// Takes in a step.
    pub(super) fn note_goals(&self) -> Result<()> {
        let Some(goals) = &self.goals else { return Ok(()) };
        let args = NoteGoalsArgs {
            terminated: &goals.terminated,
            truncated: &goals.truncated,
            n_envs: goals.n_envs as u32,
            statistics: &goals.statistics,
            width: goals.width,
            statistic: goals.statistic,
            limit: goals.limit,
            lengths: &goals.lengths,
            reached: &goals.reached,
        };
        Ok(self.kernels.note_goals.launch(&Launch::over(goals.n_envs, 128), &[args.arg()])?)
    }

    /// Selects the replicas that are learned from.
    pub(super) fn select(&self) -> Result<()> {
        let Some(goals) = &self.goals else { return Ok(()) };
        let args = SelectArgs {
            settings: &self.arrays.settings,
            n_envs: goals.n_envs as u32,
            ratio: goals.ratio,
            reached: &goals.reached,
            selected: &goals.selected,
            counts: &goals.counts,
        };
        let blocks = self.sizes.shards as u32;
        let launch = Launch { blocks, threads: 256, ..Launch::default() };
        Ok(self.kernels.select.launch(&launch, &[args.arg()])?)
    }

    /// Replicas of all ranks that reached a goal, and others that were learned from, if they were selected.
    ///
    /// # Errors
    /// Whatever went wrong on the device, or ranks that have lost each other.
    pub(super) fn selected(&self) -> Result<Option<[f64; 2]>> {
        let Some(goals) = &self.goals else { return Ok(None) };
        let counts: Vec<f64> = goals.counts.pull::<u32>()?.into_iter().map(f64::from).collect();
        let all = match &self.ranks {
            Some(ranks) => ranks.world().all_gather_f64("counts of replicas", &counts)?,
            None => counts,
        };
        Ok(Some([0, 1].map(|i| all.iter().skip(i).step_by(2).sum())))
    }

    /// Which cells are learned from.
    pub(super) fn cells(&self) -> CellsArgs<'_> {
        let (a, s) = (&self.arrays, &self.sizes);
        // Not read where all are.
        let selected = self.goals.as_ref().map_or(&a.weights, |goals| &goals.selected);
        let weights = &a.weights;
        CellsArgs { weights, selected, rows: s.rows as u32, cells: s.cells as u32 }
    }

    /// Brings the returns of each step to one size, if the key says so.
    pub(super) fn normalise_returns(&self) -> Result<()> {
        if !self.plan.config.norm_return {
            return Ok(());
        }
        let a = &self.arrays;
        let args = NormaliseReturnsArgs {
            of: self.cells(),
            values: &a.values,
            log_probs: &a.log_probs,
            advantages: &a.advantages,
            returns: &a.returns,
            known: &a.known,
        };
        let blocks = (self.sizes.steps * self.sizes.shards) as u32;
        let launch = Launch { blocks, threads: 256, ..Launch::default() };
        Ok(self.kernels.normalise_returns.launch(&launch, &[args.arg()])?)
    }
}
