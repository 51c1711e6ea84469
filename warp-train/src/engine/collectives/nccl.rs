//! One of several GPUs that learn together through NCCL: arrays that are gathered from all ranks, in their order, or
//! summed over them.

use super::gpu_wait::GpuWait;
use crate::error::{Error, Result};
use crate::world::{Over, World};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use warp_data::cuda::{Communicator, Device, DeviceArray, HostWord, Transfer, nccl_unique_id};

/// An array of this rank, and where those of all ranks go, in their order; where there is room for one alone, their
/// sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gathered<'a> {
    pub(crate) own: &'a DeviceArray,
    pub(crate) all: &'a DeviceArray,
}

impl Gathered<'_> {
    fn is_summed(&self) -> bool {
        !self.own.is_empty() && self.all.len() == self.own.len()
    }
}

/// Words of the host that kernels look at while they wait for other ranks.
#[derive(Debug)]
pub(super) struct Signals {
    /// Set when no kernel is to wait any more.
    pub(super) stop: HostWord,
    /// Set by a kernel that has waited for too long.
    pub(super) late: HostWord,
}

/// What a run's kernels may be waiting in, for all of its policies: inboxes, NCCL, or both.
#[derive(Debug, Default)]
pub(super) struct Waits {
    signals: OnceLock<Signals>,
    communicator: OnceLock<Mutex<Communicator>>,
}

impl Waits {
    /// A rank is lost: no kernel of any policy waits for it any longer.
    pub(super) fn end(&self) {
        if let Some(signals) = self.signals.get() {
            signals.stop.set(1);
        }
        if let Some(communicator) = self.communicator.get() {
            locked(communicator).abort();
        }
    }

    /// The words, where there is an inbox.
    pub(super) fn signals(&self) -> Option<&Signals> {
        self.signals.get()
    }
}

fn locked(communicator: &Mutex<Communicator>) -> MutexGuard<'_, Communicator> {
    communicator.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way to the other ranks, which is made when a policy asks for it, and which all policies of a run share.
#[derive(Debug)]
pub(crate) struct RankConnector {
    device: Device,
    world: World,
    waits: Arc<Waits>,
}

impl RankConnector {
    /// To the ranks of `world`; nobody is asked yet.
    pub(crate) fn new(device: &Device, world: &World) -> Self {
        Self { device: device.clone(), world: world.clone(), waits: Arc::default() }
    }

    /// This rank's GPU.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// All ranks.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// What ends with a rank, with the words that kernels look at.
    ///
    /// # Errors
    /// Memory that can't be pinned.
    pub(super) fn waits_with_signals(&self) -> Result<Arc<Waits>> {
        if self.waits.signals.get().is_none() {
            let word = || HostWord::new(&self.device);
            let signals = Signals { stop: word()?, late: word()? };
            self.waits.signals.get_or_init(|| signals);
        }
        Ok(self.waits.clone())
    }

    /// Joins the other ranks, which are all to call it; the same again once it is done.
    ///
    /// # Errors
    /// No NCCL, or ranks out of reach.
    pub(crate) fn join(&self) -> Result<NcclRank> {
        if self.waits.communicator.get().is_none() {
            let communicator = Mutex::new(connect(&self.device, &self.world)?);
            self.waits.communicator.get_or_init(|| communicator);
        }
        let (waits, world, device) = (self.waits.clone(), self.world.clone(), self.device.clone());
        Ok(NcclRank { waits, world, device })
    }
}

fn connect(device: &Device, world: &World) -> Result<Communicator> {
    let name = match world.is_first() {
        true => nccl_unique_id().map_err(Error::from).inspect_err(|e| world.give_up_for(e))?,
        false => Vec::new(),
    };
    let name = world.broadcast("NCCL's name", &name)?;
    let (rank, size) = (world.rank(), world.size());
    let communicator = Communicator::begin(device, &name, rank, size, world.timeout())?;
    let mut turns = GpuWait::new();
    while !communicator.is_ready()? {
        if !turns.is_due() {
            continue;
        }
        let seconds = world.timeout().as_secs_f64();
        let late = (turns.elapsed() > world.timeout())
            .then(|| format!("rank {rank} waited {seconds} s for all ranks to join NCCL"));
        if let Some(over) = world.over().or(late.map(Over::lost)) {
            communicator.abort();
            world.give_up(&over);
            return Err(over.into());
        }
    }
    Ok(communicator)
}

/// A rank among those that NCCL connects.
#[derive(Debug, Clone)]
pub(crate) struct NcclRank {
    /// With a communicator.
    waits: Arc<Waits>,
    world: World,
    device: Device,
}

impl NcclRank {
    fn communicator(&self) -> Result<MutexGuard<'_, Communicator>> {
        let none = || Error::Ranks("NCCL has not been joined".into());
        self.waits.communicator.get().map(locked).ok_or_else(none)
    }

    /// Gathers arrays, or sums them, all in one go.
    pub(crate) fn gather(&self, arrays: &[Gathered<'_>]) -> Result<()> {
        let transfers = |summed: bool| -> Vec<_> {
            let some = arrays.iter().filter(|of| of.is_summed() == summed);
            some.map(|of| Transfer { send: of.own, receive: of.all }).collect()
        };
        Ok(self.communicator()?.exchange(&transfers(false), &transfers(true))?)
    }

    /// Checks that the other ranks are still there: what was recorded asks nobody.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn check(&self) -> Result<()> {
        match self.communicator()?.has_ended() {
            true => Err(Error::Ranks("the link between the ranks has already failed".into())),
            false => Ok(()),
        }
    }

    /// Waits for the GPU to end so many iterations, and for no rank that is gone.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(crate) fn wait(&self, iterations: u64) -> Result<()> {
        let patience = self.world.timeout().saturating_mul(iterations.clamp(1, 1 << 16) as u32);
        let mut turns = GpuWait::new();
        while !self.device.is_idle()? {
            if !turns.is_due() {
                continue;
            }
            let late = || {
                let (rank, seconds) = (self.world.rank(), patience.as_secs_f64());
                let what = match iterations {
                    0 | 1 => "an iteration".into(),
                    n => format!("{n} iterations"),
                };
                (turns.elapsed() > patience)
                    .then(|| format!("rank {rank} waited {seconds} s for the GPUs to end {what}"))
            };
            let lost = || self.communicator().and_then(|nccl| Ok(nccl.check_async_error()?)).err();
            let lost = || lost().map(|error| error.to_string());
            let lost = || lost().or_else(late).map(Over::lost);
            if let Some(over) = self.world.over().or_else(lost) {
                self.waits.end();
                self.world.give_up(&over);
                return Err(over.into());
            }
        }
        Ok(())
    }
}
