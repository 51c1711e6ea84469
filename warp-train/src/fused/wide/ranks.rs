//! Communication of a run's ranks on the wide path: numbers of samples, moments, gradients and losses, each gathered
//! from all of them and then summed in their order. A kernel gathers where all ranks reach each other's memory, and
//! NCCL elsewhere, on any number of machines; the bits are the same.

use super::args::SumCopiesArgs;
use super::arrays::{LOSS_WORDS, SUM_BLOCKS};
use super::policy::WidePolicy;
use super::shared::{SUMS, WideMoments};
use super::spread::SPREAD_WORDS;
use crate::config::Shards;
use crate::error::Result;
use crate::fused::joined::{Gathered, Joined, Joining};
use crate::fused::linked::{EXCHANGE, LinkArgs, Linked, is_within_reach};
use crate::world::World;
use warp_core::DType::{self, F32, U32};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{DeviceStruct, Function, KernelArgs, Launch, Module, declare};
use warp_func::kernel_args;

/// Words of inboxes at most: 64 MiB. What is more goes through NCCL.
const MOST_INBOX: usize = 1 << 24;
/// Policies that may wait for other ranks inside kernels at a time, a block on every multiprocessor each: a
/// multiprocessor has room for more than twice as many.
const MOST_BESIDE: usize = 3;
/// Pairs of words that a block tells the others in one go: few, so that many multiprocessors sum copies of gradients.
const PAIRS: u32 = 128;

/// What is gathered, whatever it is.
#[derive(Debug)]
pub(super) enum WideWord {}

impl warp_core::device_struct::Pointee for WideWord {
    const C_NAME: &'static str = "unsigned int";
    const DTYPE: Option<DType> = None;
}

// ranks.cu
kernel_args! {
    /// Up to four arrays of this rank, and those of all ranks; the first in so many copies, if in any.
    struct TellRanksArgs {
        first: &[WideWord], second: &[WideWord], third: &[WideWord], fourth: &[WideWord],
        first_words: u32, second_words: u32, third_words: u32, fourth_words: u32, copies: u32,
        all_first: &mut [WideWord], all_second: &mut [WideWord], all_third: &mut [WideWord],
        all_fourth: &mut [WideWord], rounds: &mut [u64],
    }
}

/// What the unit of all networks has beside them where several ranks learn.
pub(super) fn text(world: &World) -> String {
    if world.is_alone() {
        return String::new();
    }
    let declared = declare(&[TellRanksArgs::ARGS, LinkArgs::ARGS]);
    let begin =
        "\ntypedef unsigned int u32;\n#define RANKS P_RANKS\n#define RANK_SLOTS link.slots\n";
    let pairs = format!("#define P_PAIRS {PAIRS}u\n");
    [begin, &pairs, &declared, EXCHANGE, include_str!("ranks.cu")].concat()
}

/// A policy's way to the other ranks, and what it hears of them: arrays as long as this rank's own for each.
#[derive(Debug)]
pub(super) struct WideRanks {
    carrier: Carrier,
    world: World,
    device: Device,
    /// Number of this rank's first shard.
    pub(super) shard: u32,
    /// Samples of every shard.
    pub(super) ns: DeviceArray,
    pub(super) sums: DeviceArray,
    pub(super) moments: DeviceArray,
    pub(super) spreads: DeviceArray,
    pub(super) losses: DeviceArray,
    /// This rank's gradient before it is divided by the number of samples.
    pub(super) gradient: DeviceArray,
    pub(super) gradients: DeviceArray,
    /// Moments of observations.
    pub(super) pending: DeviceArray,
    /// Moments of this rank's returns.
    pub(super) returns: DeviceArray,
    pub(super) all_returns: DeviceArray,
}

/// What gathers.
#[derive(Debug)]
enum Carrier {
    Nccl(Joined),
    Kernel(Box<Inbox>),
}

/// A kernel that gathers: it tells the others' inboxes, and hears from its own.
#[derive(Debug)]
struct Inbox {
    linked: Linked,
    tell_ranks: Function,
    /// Rounds so far, and blocks that are done with the one at hand; as u64.
    rounds: DeviceArray,
}

/// How much a policy tells the others, and the unit of all networks.
pub(super) struct Told<'a> {
    pub(super) n_parameters: usize,
    pub(super) width: usize,
    /// Words of the losses' sums.
    pub(super) losses: usize,
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
    pub(super) fn new(joining: &Joining, told: &Told<'_>) -> Result<Self> {
        let (device, world) = (joining.device(), joining.world());
        let (moments, size, shards) = (WideMoments::WORDS, world.size(), told.shards);
        let sums = 2 * SUMS * SUM_BLOCKS;
        // The most that is told at a time; even, as words go in pairs.
        let slots = (told.n_parameters + told.losses)
            .max(sums + shards.here + SPREAD_WORDS + moments * told.width);
        let slots = slots.next_multiple_of(2);
        let small = !told.foreign && Linked::words(world, slots) <= MOST_INBOX;
        let carrier = match small && is_within_reach(device, world)? {
            true => Carrier::Kernel(Box::new(Inbox::new(device, world, slots, told.module)?)),
            false => Carrier::Nccl(joining.join()?),
        };
        let make = |name: &str, dtype, n: usize| DeviceArray::zeros(device, name, dtype, &[n]);
        Ok(Self {
            carrier,
            world: world.clone(),
            device: device.clone(),
            shard: shards.first as u32,
            ns: make("samples of ranks", U32, shards.total)?,
            sums: make("sums of ranks", U32, sums * size)?,
            moments: make("moments of ranks", U32, 2 * 2 * SUM_BLOCKS * size)?,
            spreads: make("spreads of ranks", U32, SPREAD_WORDS * size)?,
            losses: make("losses of ranks", U32, told.losses * size)?,
            gradient: make("gradient of this rank", F32, told.n_parameters)?,
            gradients: make("gradients of ranks", F32, told.n_parameters * size)?,
            pending: make("observations of ranks", U32, moments * told.width * size)?,
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

    /// Gathers up to four arrays in one go.
    pub(super) fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        match &self.carrier {
            Carrier::Kernel(inbox) => inbox.gather(arrays, 0, &self.device),
            Carrier::Nccl(_) if arrays.is_empty() => Ok(()),
            Carrier::Nccl(joined) => joined.gather(arrays),
        }
    }

    /// Gathers gradients, of which this rank has `copies` in `partial` that are summed first, and sums of losses of
    /// `loss_blocks` blocks.
    pub(super) fn gather_gradients(
        &self,
        policy: &WidePolicy,
        partial: &DeviceArray,
        copies: u32,
        loss_blocks: usize,
    ) -> Result<()> {
        let own = &policy.arrays.losses.first(LOSS_WORDS * loss_blocks);
        let losses = Gathered { own, all: &self.losses };
        let all = &self.gradients;
        match &self.carrier {
            Carrier::Kernel(inbox) => {
                inbox.gather(&[Gathered { own: partial, all }, losses], copies, &self.device)
            }
            Carrier::Nccl(joined) => {
                let n = policy.network.n_parameters;
                let (sum, n_parameters) = (&self.gradient, n as u32);
                let args = SumCopiesArgs { partial, copies, n_parameters, sum };
                policy.kernels.sum_copies.launch(&Launch::over(n, 256), &[args.arg()])?;
                joined.gather(&[Gathered { own: sum, all }, losses])
            }
        }
    }

    /// Waits for the GPU, and for no rank that is gone.
    fn wait(&self) -> Result<()> {
        match &self.carrier {
            Carrier::Nccl(joined) => joined.wait(),
            Carrier::Kernel(inbox) => inbox.linked.wait(),
        }
    }
}

impl Inbox {
    fn new(device: &Device, world: &World, slots: usize, module: &Module) -> Result<Self> {
        let linked = Linked::new(device, world, slots)?;
        let tell_ranks = module.function("wide_tell_ranks")?;
        let rounds = DeviceArray::zeros(device, "rounds", U32, &[4])?;
        Ok(Self { linked, tell_ranks, rounds })
    }

    /// Gathers up to four arrays; of the first there are so many copies to be summed, if any.
    fn gather(&self, arrays: &[Gathered<'_>], copies: u32, device: &Device) -> Result<()> {
        let [first, more @ ..] = arrays else { return Ok(()) };
        let of = |number: usize| more.get(number).copied();
        let words = |of: Option<Gathered<'_>>| of.map_or(0, |of| of.own.len() as u32);
        let first_words = (first.own.len() / copies.max(1) as usize) as u32;
        let [second_words, third_words, fourth_words] = [0, 1, 2].map(|number| words(of(number)));
        let [second, third, fourth] = [0, 1, 2].map(|number| of(number).unwrap_or(*first));
        let args = TellRanksArgs {
            first: first.own,
            second: second.own,
            third: third.own,
            fourth: fourth.own,
            first_words,
            second_words,
            third_words,
            fourth_words,
            copies,
            all_first: first.all,
            all_second: second.all,
            all_third: third.all,
            all_fourth: fourth.all,
            rounds: &self.rounds,
        };
        let pairs = (first_words + second_words + third_words + fourth_words).div_ceil(2);
        let most = device.info().n_multiprocessors;
        let blocks = pairs.div_ceil(PAIRS).clamp(1, most);
        let launch = Launch { blocks, threads: PAIRS, ..Launch::default() };
        Ok(self.tell_ranks.launch(&launch, &[args.arg(), self.linked.args()?.arg()])?)
    }
}

/// Whether `policies` may learn side by side: those that NCCL connects may not, since all ranks must ask it for the same
/// in the same order.
pub(super) fn may_be_side_by_side(policies: &[WidePolicy]) -> bool {
    let mut ranks = policies.iter().filter_map(|policy| policy.ranks.as_ref()).peekable();
    ranks.peek().is_none()
        || policies.len() <= MOST_BESIDE
            && ranks.all(|ranks| matches!(ranks.carrier, Carrier::Kernel(_)))
}

/// Whether NCCL connects the ranks of some of `policies`.
pub(super) fn go_through_nccl(policies: &[WidePolicy]) -> bool {
    let mut ranks = policies.iter().filter_map(|policy| policy.ranks.as_ref());
    ranks.any(|ranks| matches!(ranks.carrier, Carrier::Nccl(_)))
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

    /// How many ranks learn this policy.
    pub(super) fn n_ranks(&self) -> u32 {
        self.ranks.as_ref().map_or(1, WideRanks::size)
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(super) fn check_ranks(&self) -> Result<()> {
        match self.ranks.as_ref().map(|ranks| &ranks.carrier) {
            Some(Carrier::Nccl(joined)) => joined.check(),
            _ => Ok(()),
        }
    }

    /// Waits for what was started, if other ranks take part in it.
    pub(in super::super) fn wait_for_ranks(&self) -> Result<()> {
        self.ranks.as_ref().map_or(Ok(()), WideRanks::wait)
    }
}
