//! The order in which an epoch takes samples, and the sums of its minibatches' advantages. Where one GPU has several
//! shards, minibatches have the samples that they would have with a GPU for each. Host side of `shards.cu`, of
//! `minibatches.cu` and of the sums in `update.cu`.

use super::args::{
    AdvantagesArgs, CountShardsArgs, ShuffleArgs, ShuffleShardsArgs, ShuffledAdvantagesArgs,
};
use super::arrays::{Arrays, SUM_BLOCKS};
use super::policy::WidePolicy;
#[cfg(test)]
use super::shared::{WideSettings, WideState};
use super::update::{ONE_BLOCK, sum_blocks};
use crate::algorithm::MinibatchSchedule;
use crate::error::Result;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{Function, KernelArgs, Launch, Module};

/// Samples that a thread of `wide_shuffle` permutes.
const PERMUTED: usize = 8;
/// Minibatches whose sums of advantages a block has room for: with them it takes 57 of the 64 KB that any GPU has.
const SUMMED_AT_ONCE: usize = 12;

/// The kernels.
#[derive(Debug)]
pub(super) struct WideShards {
    count: Function,
    shuffle: Function,
}

impl WideShards {
    /// Of the unit of updates; none where there is one shard, which general kernels know.
    pub(super) fn new(shards: usize, module: &Module) -> Result<Option<Self>> {
        if shards == 1 {
            return Ok(None);
        }
        let (count, shuffle) =
            (module.function("wide_count_shards")?, module.function("wide_shuffle_shards")?);
        Ok(Some(Self { count, shuffle }))
    }
}

impl WidePolicy {
    /// Counts the samples of each shard.
    pub(super) fn count_shards(&self) -> Result<()> {
        let Some(shards) = &self.shards else { return Ok(()) };
        let a = &self.arrays;
        let args = CountShardsArgs {
            settings: &a.settings,
            state: &a.state,
            order: &a.order,
            rows: self.sizes.rows as u32,
            n: &a.n,
        };
        let launch = Launch { blocks: 1, threads: 256, ..Launch::default() };
        Ok(shards.count.launch(&launch, &[args.arg()])?)
    }

    /// Starts to put the samples into the order of an epoch, and returns where they will be.
    pub(super) fn order(&self, epoch: usize, passes: &MinibatchSchedule) -> Result<&DeviceArray> {
        let Arrays { settings, state, order, shuffled, .. } = &self.arrays;
        let epoch = epoch as u32;
        if let Some(shards) = &self.shards {
            let launch = Launch::over(self.sizes.cells, 256);
            let (shuffles, ns) = (u32::from(passes.shuffles), self.counts());
            let args = ShuffleShardsArgs { settings, state, epoch, shuffles, ns, order, shuffled };
            shards.shuffle.launch(&launch, &[args.arg()])?;
            return Ok(shuffled);
        }
        if !passes.shuffles {
            return Ok(order);
        }
        let args = ShuffleArgs { settings, state, epoch, order, shuffled };
        let launch = Launch::over(self.sizes.cells.div_ceil(PERMUTED), 256);
        self.update.shuffle.launch(&launch, &[args.arg()])?;
        Ok(shuffled)
    }

    /// Sums the advantages of all minibatches of an epoch with this order; `shuffled` is its number where
    /// [`WidePolicy::order`] shuffled the samples.
    pub(super) fn sum_advantages(
        &self,
        order: &DeviceArray,
        shuffled: Option<usize>,
    ) -> Result<()> {
        let (minibatches, ns, update) =
            (self.plan.passes().minibatches, self.counts(), &self.update);
        let Arrays { settings, state, advantages, moments: parts, .. } = &self.arrays;
        let permuted = shuffled.filter(|_| self.shards.is_none() && minibatches <= SUMMED_AT_ONCE);
        let Some(epoch) = permuted else {
            let args = AdvantagesArgs { state, order, advantages, parts, ns };
            let launch = Launch { blocks: (SUM_BLOCKS * minibatches) as u32, ..ONE_BLOCK };
            return Ok(update.advantages.launch(&launch, &[args.arg()])?);
        };
        let (order, epoch) = (&self.arrays.order, epoch as u32);
        let args = ShuffledAdvantagesArgs { settings, state, epoch, order, advantages, parts, ns };
        // Two sums in f64 for each of 256 threads, and where the minibatch ends.
        let shared_bytes = (minibatches * (2 * 8 * 256 + 4)) as u32;
        let launch = Launch { shared_bytes, ..sum_blocks() };
        Ok(update.shuffled_advantages.launch(&launch, &[args.arg()])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::sharded::{Given, Program};
    use crate::fused::wide::args::shard_declarations;
    use crate::fused::wide::text::{CELLS, MINIBATCHES};
    use warp_core::device_struct::DeviceStruct;
    use warp_func::cuda::declare;

    fn program(of: &Given) -> Option<Program> {
        let own = [WideSettings::STRUCT, WideState::STRUCT, ShuffleArgs::ARGS];
        let sharded = shard_declarations();
        let shards = include_str!("shards.cu");
        let kernels = [&declare(&own), CELLS, MINIBATCHES, &sharded, shards].concat();
        let texts =
            [("shards_host.cpp", include_str!("shards_host.cpp")), ("shards_text.h", &*kernels)];
        of.program("shards", ["P_MINIBATCHES", "P_LOCAL_SHARDS", "P_AGENTS"], &texts)
    }

    #[test]
    fn minibatches_have_the_parts_of_a_gpu_for_each_shard() {
        // Cells are numbered step by step, replica by replica.
        for of in Given::all(|of| of.replicas * of.agents) {
            let (Some(together), Some(alone)) = (program(&of), program(&of.alone(0))) else {
                return;
            };
            // Of all shards but number 0 every n-th counts, or all: samples may be fewer than minibatches.
            for every in [0, 3, 29] {
                let run = |program: &Program, of: &Given, elsewhere: usize| {
                    program.minibatches([of.line, of.steps, of.first_shard, elsewhere, every])
                };
                let own = of.line / of.shards;
                let counts = |cell: usize| {
                    let first = of.first_shard + cell % of.line / own == 0;
                    let number = cell / of.line * own + cell % of.line % own;
                    every == 0 || first || number.is_multiple_of(every)
                };
                let of_shard = |shard: usize| {
                    let cells = (0..of.samples()).filter(|cell| counts(*cell));
                    cells.filter(|cell| cell % of.line / own == shard).count()
                };
                let most = (0..of.shards).map(of_shard).max().unwrap_or(0);
                let epochs = run(&together, &of, 0);
                of.check(&epochs, counts, |shard| run(&alone, &of.alone(shard), most));
            }
        }
    }
}
