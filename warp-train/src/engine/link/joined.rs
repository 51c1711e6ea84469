//! One of several GPUs that learn together through NCCL: arrays that are gathered from all ranks, in their order.

use super::linked::Turns;
use crate::error::{Error, Result};
use crate::world::World;
use std::cell::OnceCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warp_data::cuda::{Communicator, Device, DeviceArray, HostWord, nccl_name};

/// An array of this rank, and where those of all ranks go, in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gathered<'a> {
    pub(crate) own: &'a DeviceArray,
    pub(crate) all: &'a DeviceArray,
}

/// The way to the other ranks, which is made when a policy asks for it. All policies of a run share it: where a rank
/// is lost, no kernel of any of them waits any longer.
#[derive(Debug)]
pub(crate) struct Joining {
    device: Device,
    world: World,
    joined: OnceCell<Joined>,
    stop: OnceCell<Arc<HostWord>>,
}

impl Joining {
    /// To the ranks of `world`; nobody is asked yet.
    pub(crate) fn new(device: &Device, world: &World) -> Self {
        Self {
            device: device.clone(),
            world: world.clone(),
            joined: OnceCell::new(),
            stop: OnceCell::new(),
        }
    }

    /// This rank's GPU.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// All ranks.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// What is set when no kernel is to wait any more.
    ///
    /// # Errors
    /// Memory that can't be pinned.
    pub(crate) fn stop(&self) -> Result<Arc<HostWord>> {
        if let Some(stop) = self.stop.get() {
            return Ok(stop.clone());
        }
        let stop = Arc::new(HostWord::new(&self.device)?);
        Ok(self.stop.get_or_init(|| stop).clone())
    }

    /// Joins the other ranks, which are all to call it; the same again once it is done.
    ///
    /// # Errors
    /// No NCCL, or ranks out of reach.
    pub(crate) fn join(&self) -> Result<Joined> {
        if let Some(joined) = self.joined.get() {
            return Ok(joined.clone());
        }
        let joined = Joined::new(&self.device, &self.world)?;
        Ok(self.joined.get_or_init(|| joined).clone())
    }
}

/// A rank among those that NCCL connects.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    communicator: Arc<Mutex<Communicator>>,
    world: World,
    device: Device,
}

impl Joined {
    fn new(device: &Device, world: &World) -> Result<Self> {
        let name = match world.is_first() {
            true => nccl_name().inspect_err(|error| world.give_up(&error.to_string()))?,
            false => Vec::new(),
        };
        let name = world.tell("NCCL's name", &name)?;
        let (rank, size) = (world.rank(), world.size());
        let communicator = Communicator::join(device, &name, rank, size, world.timeout())?;
        let communicator = Arc::new(Mutex::new(communicator));
        Ok(Self { communicator, world: world.clone(), device: device.clone() })
    }

    fn communicator(&self) -> MutexGuard<'_, Communicator> {
        self.communicator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gathers arrays, all in one go.
    pub(crate) fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        let pairs: Vec<_> = arrays.iter().map(|of| (of.own, of.all)).collect();
        Ok(self.communicator().all_gather(&pairs)?)
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn check(&self) -> Result<()> {
        match self.communicator().has_ended() {
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
            let lost = || self.communicator().look().err().map(|error| error.to_string());
            if let Some(why) = self.world.over().or_else(lost).or_else(late) {
                self.communicator().abort();
                self.world.give_up(&why);
                return Err(Error::Ranks(why));
            }
        }
        Ok(())
    }
}
