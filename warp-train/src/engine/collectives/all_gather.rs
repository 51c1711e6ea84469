//! Arrays of all ranks, in their order. A kernel gathers them where all ranks reach each other's memory, and NCCL
//! elsewhere, on any number of machines; the words are the same. Of large gradients NCCL makes the sum.

use super::nccl::{Gathered, NcclRank, RankConnector};
use super::peer_memory::{EXCHANGE, LinkArgs, PeerInboxes, is_within_reach};
use crate::error::Result;
use warp_core::DType::{self, U32};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{Function, KernelArgs, Launch, Module, declare};
use warp_func::kernel_args;

/// Words of all ranks that are gathered of an array to be summed, at most: 16 MiB. Of larger ones NCCL makes the sum.
const MOST_GATHERED: usize = 1 << 22;
/// Words of inboxes at most: as many with the number of their round, for even and for odd rounds. What is more goes
/// through NCCL.
const MOST_INBOX: usize = 4 * MOST_GATHERED;
/// Pairs of words that a block sends the others in one go: few, so that many multiprocessors take part.
pub(crate) const PAIRS: u32 = 128;
/// Arrays that are gathered in one go, at most.
const MOST_ARRAYS: usize = 4;

/// What is gathered, whatever it is.
#[derive(Debug)]
enum Word {}

impl warp_core::device_struct::Pointee for Word {
    const C_NAME: &'static str = "unsigned int";
    const DTYPE: Option<DType> = None;
}

// all_gather.cu
kernel_args! {
    /// Up to four arrays of this rank, and those of all ranks.
    struct AllGatherArgs {
        first: &[Word], second: &[Word], third: &[Word], fourth: &[Word],
        first_words: u32, second_words: u32, third_words: u32, fourth_words: u32,
        all_first: &mut [Word], all_second: &mut [Word], all_third: &mut [Word],
        all_fourth: &mut [Word], rounds: &mut [u64],
    }
}

/// The kernel that gathers, for texts that define `P_RANKS`.
pub(crate) fn text() -> String {
    let declared = declare(&[AllGatherArgs::ARGS, LinkArgs::ARGS]);
    let begin =
        "\ntypedef unsigned int u32;\n#define RANKS P_RANKS\n#define RANK_SLOTS link.slots\n";
    let pairs = format!("#define P_PAIRS {PAIRS}u\n");
    [begin, &pairs, &declared, EXCHANGE, include_str!("all_gather.cu")].concat()
}

/// In how many copies an array of so many words is received that is to be summed over ranks: those of all ranks, or their
/// sum alone where the copies would be many words. Sizes alone decide, whatever gathers: inboxes have no room for more.
pub(crate) fn copies(words: usize, ranks: usize) -> usize {
    if words.saturating_mul(ranks) > MOST_GATHERED { 1 } else { ranks }
}

/// What gathers.
#[derive(Debug)]
pub(crate) enum AllGather {
    Nccl(NcclRank),
    Kernel(Box<Inbox>),
}

/// A kernel that gathers: it writes to the others' inboxes, and reads its own.
#[derive(Debug)]
pub(crate) struct Inbox {
    inboxes: PeerInboxes,
    all_gather: Function,
    /// Rounds so far, and blocks that are done with the one at hand; as u64.
    rounds: DeviceArray,
    device: Device,
}

/// What is asked of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'a> {
    /// Words that are gathered at a time, at most.
    pub(crate) words: usize,
    /// With the kernel of [`text`].
    pub(crate) module: &'a Module,
    /// Whether kernels may wait for other ranks: not where something else allocates meanwhile.
    pub(crate) may_wait: bool,
}

impl AllGather {
    /// Joins the other ranks, which are all to call it.
    ///
    /// # Errors
    /// No NCCL where it is needed, ranks out of reach, or too little memory.
    pub(crate) fn new(connector: &RankConnector, room: Room<'_>) -> Result<Self> {
        let (device, world) = (connector.device(), connector.world());
        // Words go in pairs.
        let slots = room.words.next_multiple_of(2);
        let small = room.may_wait && PeerInboxes::words(world, slots) <= MOST_INBOX;
        Ok(match small && is_within_reach(device, world)? {
            true => Self::Kernel(Box::new(Inbox::new(connector, slots, room.module)?)),
            false => Self::Nccl(connector.join()?),
        })
    }

    /// Gathers arrays, as many in one go as can be.
    pub(crate) fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        match self {
            Self::Kernel(inbox) => {
                arrays.chunks(MOST_ARRAYS).try_for_each(|arrays| inbox.gather(arrays))
            }
            Self::Nccl(_) if arrays.is_empty() => Ok(()),
            Self::Nccl(nccl) => nccl.gather(arrays),
        }
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Nccl(nccl) => nccl.check(),
            Self::Kernel(_) => Ok(()),
        }
    }

    /// Waits for the GPU to end an iteration, and for no rank that is gone.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(crate) fn wait(&self) -> Result<()> {
        match self {
            Self::Nccl(nccl) => nccl.wait(1),
            Self::Kernel(inbox) => inbox.inboxes.wait(),
        }
    }
}

impl Inbox {
    fn new(connector: &RankConnector, slots: usize, module: &Module) -> Result<Self> {
        let (inboxes, device) = (PeerInboxes::new(connector, slots)?, connector.device());
        let all_gather = module.function("all_gather")?;
        let rounds = DeviceArray::zeros(device, "rounds", U32, &[4])?;
        Ok(Self { inboxes, all_gather, rounds, device: device.clone() })
    }

    /// Gathers up to four arrays.
    fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        let [first, more @ ..] = arrays else { return Ok(()) };
        let of = |number: usize| more.get(number).copied();
        let words = |of: Option<Gathered<'_>>| of.map_or(0, |of| of.own.len() as u32);
        let first_words = first.own.len() as u32;
        let [second_words, third_words, fourth_words] = [0, 1, 2].map(|number| words(of(number)));
        let [second, third, fourth] = [0, 1, 2].map(|number| of(number).unwrap_or(*first));
        let args = AllGatherArgs {
            first: first.own,
            second: second.own,
            third: third.own,
            fourth: fourth.own,
            first_words,
            second_words,
            third_words,
            fourth_words,
            all_first: first.all,
            all_second: second.all,
            all_third: third.all,
            all_fourth: fourth.all,
            rounds: &self.rounds,
        };
        let words = first_words + second_words + third_words + fourth_words;
        let launch = Launch { blocks: self.blocks(words), threads: PAIRS, ..Launch::default() };
        Ok(self.all_gather.launch(&launch, &[args.arg(), self.inboxes.args()?.arg()])?)
    }

    /// Blocks of [`PAIRS`] pairs that send so many words: no more than fit on the GPU at a time.
    pub(crate) fn blocks(&self, words: u32) -> u32 {
        words.div_ceil(2 * PAIRS).clamp(1, self.device.info().n_multiprocessors)
    }

    /// The way to the other ranks, for another kernel that sends and receives through this inbox.
    ///
    /// # Errors
    /// The inboxes are gone.
    pub(crate) fn link_args(&self) -> Result<LinkArgs<'_>> {
        self.inboxes.args()
    }

    /// Rounds so far, which such a kernel is to count as `all_gather` does.
    pub(crate) fn rounds(&self) -> &DeviceArray {
        &self.rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, threads};
    use std::time::Duration;

    #[test]
    fn what_is_more_than_16_mib_is_summed_and_fits_into_no_inbox() {
        let of_ranks = |ranks: usize| {
            World::new(0, ranks, threads(ranks, Duration::from_secs(1)).swap_remove(0))
        };
        for ranks in [2, 3, 4, 16] {
            let most = (16 << 20) / 4 / ranks;
            assert_eq!([most, most + 1].map(|words| copies(words, ranks)), [ranks, 1]);
            // Words go in pairs.
            let world = of_ranks(ranks);
            assert!(PeerInboxes::words(&world, most / 2 * 2) <= MOST_INBOX);
            assert!(PeerInboxes::words(&world, (most + 1).next_multiple_of(2)) > MOST_INBOX);
        }
    }
}
