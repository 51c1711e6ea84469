//! Communication of a run's ranks on the wide path: numbers of samples, moments, gradients and losses, each gathered
//! from all of them and then summed in their order. On any number of machines.

use super::arrays::SUM_BLOCKS;
use super::policy::WidePolicy;
use super::shared::{SUMS, WideMoments};
use super::spread::SPREAD_WORDS;
use crate::error::{Error, Result};
use crate::world::World;
use std::time::Instant;
use warp_core::DType::{F32, U32};
use warp_data::cuda::{Communicator, Device, DeviceArray, nccl_name};
use warp_func::cuda::DeviceStruct;

/// How often a wait for the GPU looks whether another rank is gone.
const LOOK: std::time::Duration = std::time::Duration::from_micros(50);

/// A policy's way to the other ranks, and what it hears of them: arrays as long as this rank's own for each.
#[derive(Debug)]
pub(super) struct WideRanks {
    communicator: Communicator,
    world: World,
    device: Device,
    /// Number of this rank's shard.
    pub(super) shard: u32,
    pub(super) ns: DeviceArray,
    pub(super) sums: DeviceArray,
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

/// How much a policy tells the others.
pub(super) struct Told {
    pub(super) n_parameters: usize,
    pub(super) width: usize,
    /// Words of the losses' sums.
    pub(super) losses: usize,
}

impl WideRanks {
    /// Joins the other ranks of `world`, which are all to call it.
    ///
    /// # Errors
    /// No NCCL, ranks out of reach, or too little memory.
    pub(super) fn new(device: &Device, world: &World, shard: usize, told: &Told) -> Result<Self> {
        let name = match world.is_first() {
            true => nccl_name().inspect_err(|error| world.give_up(&error.to_string()))?,
            false => Vec::new(),
        };
        let name = world.tell("NCCL's name", &name)?;
        let (rank, size) = (world.rank(), world.size());
        let communicator = Communicator::join(device, &name, rank, size, world.timeout())?;
        let make = |name: &str, dtype, n: usize| DeviceArray::zeros(device, name, dtype, &[n]);
        let moments = WideMoments::WORDS;
        Ok(Self {
            communicator,
            world: world.clone(),
            device: device.clone(),
            shard: shard as u32,
            ns: make("samples of ranks", U32, size)?,
            sums: make("sums of ranks", U32, 2 * SUMS * SUM_BLOCKS * size)?,
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

    pub(super) fn gather(&self, pairs: &[(&DeviceArray, &DeviceArray)]) -> Result<()> {
        Ok(self.communicator.all_gather(pairs)?)
    }

    /// Waits for the GPU, and for no rank that is gone.
    fn wait(&self) -> Result<()> {
        let since = Instant::now();
        while !self.device.is_idle()? {
            std::thread::sleep(LOOK);
            let late = || {
                let (rank, seconds) = (self.world.rank(), self.world.timeout().as_secs_f64());
                (since.elapsed() > self.world.timeout()).then(|| {
                    format!("rank {rank} waited {seconds} s for the GPUs to end an iteration")
                })
            };
            let lost = || self.communicator.look().err().map(|error| error.to_string());
            if let Some(why) = self.world.over().or_else(lost).or_else(late) {
                self.communicator.abort();
                self.world.give_up(&why);
                return Err(Error::Ranks(why));
            }
        }
        Ok(())
    }
}

impl WidePolicy {
    /// What all ranks have of `own`, in their order: this array itself for a rank alone.
    pub(super) fn of_all_ranks<'a>(
        &'a self,
        own: &'a DeviceArray,
        all: fn(&WideRanks) -> &DeviceArray,
    ) -> Result<&'a DeviceArray> {
        let Some(ranks) = &self.ranks else { return Ok(own) };
        ranks.gather(&[(own, all(ranks))])?;
        Ok(all(ranks))
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
        match &self.ranks {
            Some(ranks) if ranks.communicator.has_ended() => {
                Err(Error::Ranks("the ranks have lost each other before".into()))
            }
            _ => Ok(()),
        }
    }

    /// Waits for what was started, if other ranks take part in it.
    pub(in super::super) fn wait_for_ranks(&self) -> Result<()> {
        self.ranks.as_ref().map_or(Ok(()), WideRanks::wait)
    }
}
