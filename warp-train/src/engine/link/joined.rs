//! One of several GPUs that learn together through NCCL: arrays that are gathered from all ranks, in their order.

use super::linked::Turns;
use crate::error::{Error, Result};
use crate::world::World;
use warp_data::cuda::{Communicator, Device, DeviceArray, nccl_name};

/// An array of this rank, and where those of all ranks go, in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gathered<'a> {
    pub(crate) own: &'a DeviceArray,
    pub(crate) all: &'a DeviceArray,
}

/// A rank among those that NCCL connects.
#[derive(Debug)]
pub(crate) struct Joined {
    communicator: Communicator,
    world: World,
    device: Device,
}

impl Joined {
    /// Joins the other ranks of `world`, which are all to call it.
    ///
    /// # Errors
    /// No NCCL, or ranks out of reach.
    pub(crate) fn new(device: &Device, world: &World) -> Result<Self> {
        let name = match world.is_first() {
            true => nccl_name().inspect_err(|error| world.give_up(&error.to_string()))?,
            false => Vec::new(),
        };
        let name = world.tell("NCCL's name", &name)?;
        let (rank, size) = (world.rank(), world.size());
        let communicator = Communicator::join(device, &name, rank, size, world.timeout())?;
        Ok(Self { communicator, world: world.clone(), device: device.clone() })
    }

    /// Gathers arrays, all in one go.
    pub(crate) fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        let pairs: Vec<_> = arrays.iter().map(|of| (of.own, of.all)).collect();
        Ok(self.communicator.all_gather(&pairs)?)
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn check(&self) -> Result<()> {
        match self.communicator.has_ended() {
            true => Err(Error::Ranks("the ranks have lost each other before".into())),
            false => Ok(()),
        }
    }

    /// Waits for the GPU, and for no rank that is gone.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut turns = Turns::new();
        while !self.device.is_idle()? {
            if !turns.is_due() {
                continue;
            }
            let late = || {
                let (rank, seconds) = (self.world.rank(), self.world.timeout().as_secs_f64());
                (turns.elapsed() > self.world.timeout()).then(|| {
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
