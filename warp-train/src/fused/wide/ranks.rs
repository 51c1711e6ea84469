//! Communication of a run's ranks on the wide path: numbers of samples, moments, gradients and losses, each gathered
//! from all of them and then summed in their order.

use super::args::{ReduceRanksArgs, SumCopiesArgs};
use super::arrays::{LOSS_WORDS, SUM_BLOCKS};
use super::policy::WidePolicy;
use super::shared::{MOST_BESIDE, SPREAD_WORDS, SUMS, WideMoments};
use crate::config::Shards;
use crate::engine::collectives::{self, AllGather, Gathered, PAIRS, RankConnector, Room};
use crate::error::Result;
use crate::world::World;
use warp_core::DType::{F32, U32};
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceStruct, Function, KernelArgs, Launch, Module, programmatic_launch};

/// A policy's way to the other ranks, and what it receives from them: arrays as long as this rank's own for each.
#[derive(Debug)]
pub(super) struct WideRanks {
    all_gather: AllGather,
    /// What sums gradients where a kernel gathers.
    reduce_ranks: Function,
    world: World,
    /// Number of this rank's first shard.
    pub(super) shard: u32,
    /// Samples of every shard.
    pub(super) ns: DeviceArray,
    pub(super) sums: DeviceArray,
    pub(super) moments: DeviceArray,
    pub(super) spreads: DeviceArray,
    pub(super) losses: DeviceArray,
    /// For NCCL: this rank's gradient before it is divided by the number of samples.
    gradient: DeviceArray,
    /// For NCCL: those of all ranks, or their sum.
    gradients: DeviceArray,
    /// Moments of observations.
    pub(super) pending: DeviceArray,
    /// Moments of this rank's returns.
    pub(super) returns: DeviceArray,
    pub(super) all_returns: DeviceArray,
}

/// How much a policy sends the others, and the unit of all networks.
pub(super) struct Sent<'a> {
    pub(super) n_parameters: usize,
    pub(super) width: usize,
    /// Words of the losses' sums.
    pub(super) losses: usize,
    /// Words of the sums over advantages.
    pub(super) moments: usize,
    pub(super) shards: Shards,
    pub(super) module: &'a Module,
    /// Whether a tensor library runs the network, which may allocate at any time: no kernel may wait meanwhile.
    pub(super) foreign: bool,
}

impl WideRanks {
    /// Joins the other ranks, which are all to call it.
    ///
    /// # Errors
    /// No NCCL where it is needed, ranks out of reach, or too little memory.
    pub(super) fn new(connector: &RankConnector, sent: &Sent<'_>) -> Result<Self> {
        let (device, world) = (connector.device(), connector.world());
        let (moments, size, shards) = (WideMoments::WORDS, world.size(), sent.shards);
        let sums = 2 * SUMS * SUM_BLOCKS;
        let copies = collectives::copies(sent.n_parameters, size);
        // The most that is sent at a time.
        let words = (sent.n_parameters.next_multiple_of(2) + sent.losses)
            .max(sums + shards.here + SPREAD_WORDS + moments * sent.width)
            .max(sent.moments);
        let room = Room { words, module: sent.module, may_wait: !sent.foreign };
        let all_gather = AllGather::new(connector, room)?;
        let make = |name: &str, dtype, n: usize| DeviceArray::zeros(device, name, dtype, &[n]);
        let through_nccl = match all_gather {
            AllGather::Nccl(_) => sent.n_parameters,
            AllGather::Kernel(_) => 0,
        };
        Ok(Self {
            all_gather,
            reduce_ranks: sent.module.function("wide_reduce_ranks")?,
            world: world.clone(),
            shard: shards.first as u32,
            ns: make("samples of shards", U32, shards.total)?,
            sums: make("sums of ranks", U32, sums * size)?,
            moments: make("moments of ranks", U32, sent.moments * size)?,
            spreads: make("spreads of ranks", U32, SPREAD_WORDS * size)?,
            losses: make("losses of ranks", U32, sent.losses * size)?,
            gradient: make("gradient of this rank", F32, through_nccl)?,
            gradients: make("gradients of ranks", F32, through_nccl * copies)?,
            pending: make("observations of ranks", U32, moments * sent.width * size)?,
            returns: make("returns of this rank", U32, moments)?,
            all_returns: make("returns of ranks", U32, moments * size)?,
        })
    }

    /// The ranks and how they communicate on the host.
    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// How many ranks there are.
    pub(super) fn size(&self) -> u32 {
        self.world.size() as u32
    }

    /// In how many copies it receives gradients through NCCL.
    fn copies(&self) -> u32 {
        (self.gradients.len() / self.gradient.len().max(1)) as u32
    }

    /// Gathers arrays, in as few exchanges as possible.
    pub(super) fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        self.all_gather.gather(arrays)
    }

    /// Sums the gradients of all ranks, of which this one has copies, and divides them by the number of samples; it also
    /// receives sums of losses, of so many blocks. Returns how many sums of squares it leaves.
    pub(super) fn all_reduce(&self, policy: &WidePolicy, loss_blocks: usize) -> Result<u32> {
        let (a, n) = (&policy.arrays, policy.network.n_parameters);
        let (copies, n_parameters) = (policy.sizes.copies as u32, n as u32);
        match &self.all_gather {
            AllGather::Kernel(inbox) => {
                let n_losses = (LOSS_WORDS / 2 * loss_blocks) as u32;
                let args = ReduceRanksArgs {
                    state: &a.state,
                    partial: &a.partial,
                    copies,
                    n_parameters,
                    gradient: &a.gradient,
                    squares: &a.squares,
                    losses: &a.losses,
                    all_losses: &self.losses,
                    n_losses,
                    rounds: inbox.rounds(),
                };
                let blocks = inbox.blocks(n_parameters.next_multiple_of(2) + 2 * n_losses);
                let launch = Launch { blocks, threads: 2 * PAIRS, ..Launch::default() };
                programmatic_launch(&policy.device)?;
                self.reduce_ranks.launch(&launch, &[args.arg(), inbox.link_args()?.arg()])?;
                Ok(n_parameters.div_ceil(2 * PAIRS))
            }
            AllGather::Nccl(nccl) => {
                let own = &a.losses.first(LOSS_WORDS * loss_blocks);
                let losses = Gathered { own, all: &self.losses };
                let sum = &self.gradient;
                let args = SumCopiesArgs { partial: &a.partial, copies, n_parameters, sum };
                policy.update.sum_copies.launch(&Launch::over(n, 256), &[args.arg()])?;
                nccl.gather(&[Gathered { own: sum, all: &self.gradients }, losses])?;
                // One thread for each parameter adds in the order of ranks, as wide_reduce_ranks does.
                policy.reduce(&self.gradients, self.copies(), 1)
            }
        }
    }
}

/// Whether `policies` may learn side by side: those that NCCL connects may not, since all ranks must ask it for the same
/// in the same order.
pub(super) fn may_be_side_by_side(policies: &[WidePolicy]) -> bool {
    let mut ranks = policies.iter().filter_map(|policy| policy.ranks.as_ref()).peekable();
    ranks.peek().is_none()
        || policies.len() <= MOST_BESIDE
            && ranks.all(|ranks| matches!(ranks.all_gather, AllGather::Kernel(_)))
}

/// Whether several ranks learn some of `policies`.
pub(super) fn are_several(policies: &[WidePolicy]) -> bool {
    policies.iter().any(|policy| policy.ranks.is_some())
}

/// Whether NCCL connects the ranks of some of `policies`.
pub(super) fn go_through_nccl(policies: &[WidePolicy]) -> bool {
    let mut ranks = policies.iter().filter_map(|policy| policy.ranks.as_ref());
    ranks.any(|ranks| matches!(ranks.all_gather, AllGather::Nccl(_)))
}

impl WidePolicy {
    /// What all ranks have of `own`, in their order: this array itself for a rank alone.
    pub(super) fn of_all_ranks<'a>(
        &'a self,
        own: &'a DeviceArray,
        all: fn(&WideRanks) -> &DeviceArray,
    ) -> Result<&'a DeviceArray> {
        let Some(ranks) = &self.ranks else { return Ok(own) };
        let all = all(ranks);
        ranks.gather(&[Gathered { own, all }])?;
        Ok(all)
    }

    /// How many samples each shard of all ranks has.
    pub(super) fn counts(&self) -> &DeviceArray {
        self.ranks.as_ref().map_or(&self.arrays.n, |ranks| &ranks.ns)
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(in super::super) fn check_ranks(&self) -> Result<()> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.all_gather.check())
    }

    /// Waits for what was started, if other ranks take part in it.
    pub(in super::super) fn wait_for_ranks(&self) -> Result<()> {
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.all_gather.wait())
    }
}
