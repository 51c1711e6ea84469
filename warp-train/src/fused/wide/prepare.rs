//! What is made of a full rollout before a policy learns from it: advantages, figures, moments, those of all ranks.

use super::args::{
    CompactArgs, CountArgs, ExplainArgs, GaeArgs, PlacesOfBlocksArgs, VariancesArgs,
};
use super::policy::WidePolicy;
use super::update::{ONE_BLOCK, sum_blocks};
use crate::algorithm::Advantages;
use crate::engine::collectives::Gathered;
use crate::error::Result;
use warp_func::cuda::{KernelArgs, Launch, fork_join};

impl WidePolicy {
    /// Prepares everything, and gathers it from all ranks.
    pub(super) fn prepare_all(&self) -> Result<()> {
        self.normaliser.finish_rewards(self)?;
        let works = [Prepare::Observations, Prepare::Advantages, Prepare::Spread];
        let learns = self.plan.config.to_train;
        let works = works.into_iter().filter(|work| learns || work.is_always());
        fork_join(&self.device, works.map(|work| move || self.prepare(work)))?;
        self.gather_prepared()
    }

    fn prepare(&self, work: Prepare) -> Result<()> {
        match work {
            Prepare::Observations => self.normaliser.finish_observations(),
            Prepare::Advantages => self.advantages(),
            Prepare::Spread => self.spread(),
        }
    }

    /// Advantages, returns, and which samples count.
    fn advantages(&self) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let advantages = self.plan.rollouts.as_ref().map(|rollouts| rollouts.advantages);
        let compat = advantages == Some(Advantages::WarpDrive);
        let (state, counts, order) = (&a.state, &a.counts, &a.order);
        let args = GaeArgs {
            steps: s.steps as u32,
            rows: s.rows as u32,
            rewards: &a.rewards,
            values: &a.values,
            ended: &a.ended,
            truncated_values: &a.truncated_values,
            settings: &a.settings,
            compat_last_step: i32::from(compat),
            advantages: &a.advantages,
            returns: &a.returns,
            log_probs: &a.log_probs,
            known: &a.known,
        };
        let kernels = &self.kernels;
        kernels.gae.launch(&Launch::over(s.rows, 64), &[args.arg()])?;
        self.select()?;
        self.normalise_returns()?;
        let blocks = s.cells.div_ceil(1024) as u32;
        let of_cells = Launch { blocks, threads: 256, ..Launch::default() };
        kernels.count.launch(&of_cells, &[CountArgs { of: self.cells(), counts }.arg()])?;
        let args = PlacesOfBlocksArgs { counts, blocks, state, n: &a.n };
        kernels.places_of_blocks.launch(&ONE_BLOCK, &[args.arg()])?;
        let args = CompactArgs { of: self.cells(), places: counts, order };
        kernels.compact.launch(&of_cells, &[args.arg()])?;
        self.count_shards()?;
        let (returns, values, rewards, parts) = (&a.returns, &a.values, &a.rewards, &a.sums);
        let (advantages, whole) = (&a.advantages, i32::from(self.takes_whole_rollouts()));
        let args =
            VariancesArgs { state, order, returns, values, rewards, advantages, whole, parts };
        Ok(kernels.variances.launch(&sum_blocks(), &[args.arg()])?)
    }

    /// Whether the only minibatch is the whole rollout, as it is: then sums of its advantages are taken, and gathered from
    /// all ranks, with the others of the rollout.
    pub(super) fn takes_whole_rollouts(&self) -> bool {
        let passes = self.plan.passes();
        passes.minibatches == 1 && !passes.shuffles
    }

    /// Gathers what all ranks have prepared.
    fn gather_prepared(&self) -> Result<()> {
        let (a, Some(ranks)) = (&self.arrays, &self.ranks) else { return Ok(()) };
        let of_samples = [
            Gathered { own: &a.sums, all: &ranks.sums },
            Gathered { own: &a.n, all: &ranks.ns },
            Gathered { own: self.spread_parts(), all: &ranks.spreads },
        ];
        let sums = of_samples.into_iter().filter(|_| self.plan.config.to_train);
        let pending = self.normaliser.pending();
        let pending = pending.map(|own| Gathered { own, all: &ranks.pending });
        ranks.gather(&sums.chain(pending).collect::<Vec<_>>())
    }

    /// Works out figures of the rollout and moments of what was seen in it, on all ranks.
    pub(super) fn explain(&self) -> Result<()> {
        let (a, ranks, pending) = (&self.arrays, self.ranks.as_ref(), self.normaliser.pending());
        if self.plan.config.to_train {
            let (parts, ns) = ranks.map_or((&a.sums, &a.n), |ranks| (&ranks.sums, &ranks.ns));
            let args = ExplainArgs { parts, state: &a.state, ns };
            self.kernels.explain.launch(&ONE_BLOCK, &[args.arg()])?;
            self.spread_means(ranks.map_or(self.spread_parts(), |ranks| &ranks.spreads))?;
        }
        let held = pending.map(|own| ranks.map_or(own, |ranks| &ranks.pending));
        held.map_or(Ok(()), |held| self.normaliser.count_pending(held))
    }
}

/// What is made of a full rollout before it is learned from; none touches what another writes.
#[derive(Clone, Copy)]
enum Prepare {
    /// Moments of its observations.
    Observations,
    /// Advantages, returns, and what the figures say of them.
    Advantages,
    /// How far its actions differ.
    Spread,
}

impl Prepare {
    /// Whether it is also done where nothing is learned.
    fn is_always(self) -> bool {
        matches!(self, Self::Observations)
    }
}
