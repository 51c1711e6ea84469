//! One of several GPUs that learn together: memory that the others write into while its kernels run.

use super::gpu_wait::GpuWait;
use super::nccl::{RankConnector, Signals, Waits};
use crate::error::{Error, Result};
use crate::world::{Carrier, World};
use std::sync::Arc;
use warp_core::DType;
use warp_data::cuda::{HostWord, PeerExport, Window};
use warp_func::cuda::{Device, DeviceArray};
use warp_func::kernel_args;

/// How kernels of several GPUs exchange numbers; for texts that define `RANKS` and `RANK_SLOTS`.
pub(crate) const EXCHANGE: &str = include_str!("exchange.cuh");

kernel_args! {
    /// What a kernel takes beside its own arguments where several GPUs learn together.
    pub(crate) struct LinkArgs {
        /// The inbox of each rank.
        inboxes: &[u64],
        /// Where words of the host lie: one is set when no kernel is to wait any more, the other one by a kernel whose
        /// wait was too long.
        stop: &[u64],
        /// Set when a wait was too long.
        fault: &mut [u32],
        rank: u32,
        /// Milliseconds that a kernel waits at most.
        timeout_ms: u32,
        /// Words that a rank can send another in a round.
        slots: u32,
    }
}

/// What is to carry sums between GPUs, if not what suits them: `nccl` or `peers`.
const WARP_LINK: &str = "WARP_LINK";

/// Whether all ranks reach each other's memory, so that kernels may exchange sums; else they go through
/// NCCL. All ranks are to call it.
///
/// # Errors
/// Ranks that have lost each other, or that are out of reach though they are told to use it.
pub(crate) fn is_within_reach(gpu: &Device, world: &World) -> Result<bool> {
    let wanted = match world.carrier() {
        Carrier::Suited => std::env::var(WARP_LINK).unwrap_or_default(),
        Carrier::Nccl => "nccl".into(),
        Carrier::Peers => "peers".into(),
    };
    let wanted = world.broadcast("what carries sums", wanted.as_bytes())?;
    match &wanted[..] {
        b"nccl" => return Ok(false),
        b"" | b"peers" => {}
        other => {
            let other = String::from_utf8_lossy(other).into_owned();
            return Err(Error::Invalid(format!("{WARP_LINK}={other}: expected nccl or peers")));
        }
    }
    let export = PeerExport::new(gpu, "inbox", 1)?;
    let all = world.all_gather("where memory is", export.bytes())?;
    let opened = export.open(&all, world.rank());
    let said = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let said = world.all_gather("who is reached", said.as_bytes())?;
    // Nobody frees what another has not let go.
    drop(opened);
    world.barrier("the end of a look around")?;
    match said.iter().find(|why| !why.is_empty()) {
        Some(why) if wanted == b"peers" => {
            Err(Error::Ranks(String::from_utf8_lossy(why).into_owned()))
        }
        found => Ok(found.is_none()),
    }
}

/// A rank's inbox, and those of the others.
#[derive(Debug)]
pub(crate) struct PeerInboxes {
    world: World,
    /// None once it is being dropped.
    window: Option<Window>,
    /// With signals.
    waits: Arc<Waits>,
    /// Where both signals lie.
    signals_at: DeviceArray,
    /// Set by a kernel that has waited for too long.
    fault: DeviceArray,
    /// Words that a rank can send another in a round.
    slots: usize,
    device: Device,
}

impl PeerInboxes {
    /// An inbox for so many words of eight bytes from each rank in a round, which all other ranks reach; all ranks are
    /// to call it.
    ///
    /// # Errors
    /// A rank out of reach, or too little memory.
    pub(crate) fn new(connector: &RankConnector, slots: usize) -> Result<Self> {
        let (gpu, world) = (connector.device(), connector.world());
        let export = PeerExport::new(gpu, "inbox", Self::words(world, slots))?;
        let all = world.all_gather("where memory is", export.bytes())?;
        let opened = export.open(&all, world.rank());
        // All or none: a rank that is out of reach of one would be waited for by all.
        let said = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let failed = world.all_gather("who is reached", said.as_bytes())?;
        if let Some(why) = failed.iter().find(|why| !why.is_empty()) {
            return Err(Error::Ranks(String::from_utf8_lossy(why).into_owned()));
        }
        let waits = connector.waits_with_signals()?;
        let halves = |word: &HostWord| [word.address() as u32, (word.address() >> 32) as u32];
        let words = signals(&waits)?;
        let words = [&words.stop, &words.late].map(halves);
        Ok(Self {
            world: world.clone(),
            window: Some(opened?),
            signals_at: DeviceArray::from_slice(gpu, "stop", &[4], &words.concat())?,
            waits,
            fault: DeviceArray::zeros(gpu, "fault", DType::U32, &[1])?,
            slots,
            device: gpu.clone(),
        })
    }

    /// 32-bit words of an inbox for so many words of eight bytes: of every rank, for even and for odd rounds.
    pub(crate) fn words(world: &World, slots: usize) -> usize {
        4 * world.size() * slots
    }

    /// What kernels are to know of it.
    ///
    /// # Errors
    /// The inboxes are gone.
    pub(crate) fn args(&self) -> Result<LinkArgs<'_>> {
        Ok(LinkArgs {
            inboxes: self.window()?.addresses(),
            stop: &self.signals_at,
            fault: &self.fault,
            rank: self.world.rank() as u32,
            timeout_ms: u32::try_from(self.world.timeout().as_millis()).unwrap_or(u32::MAX),
            slots: self.slots as u32,
        })
    }

    fn window(&self) -> Result<&Window> {
        self.window.as_ref().ok_or_else(|| Error::Ranks("the inboxes are gone".into()))
    }

    /// Forgets what was told, on all ranks: a run that goes on from an earlier step tells it again.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(crate) fn clear(&self) -> Result<()> {
        self.world.barrier("an empty inbox")?;
        let own = self.window()?.own();
        own.push(&vec![0_u32; own.len()])?;
        self.device.synchronize()?;
        self.world.barrier("empty inboxes")
    }

    /// Waits for the GPU, and for no rank that is gone.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(crate) fn wait(&self) -> Result<()> {
        let mut turns = GpuWait::new();
        while !self.device.is_idle()? {
            let over = if turns.is_due() { self.world.over() } else { None };
            if let Some(over) = over {
                self.waits.end();
                self.settle()?;
                return Err(over.into());
            }
        }
        match signals(&self.waits)?.late.get() {
            0 => Ok(()),
            _ => {
                let (rank, seconds) = (self.world.rank(), self.world.timeout().as_secs_f64());
                let why = format!(
                    "rank {rank} waited {seconds} s inside a kernel for another rank's sums"
                );
                let lost = Error::Ranks(why);
                self.world.give_up_for(&lost);
                Err(lost)
            }
        }
    }

    /// Lets kernels that no longer wait come to their ends, if they do.
    fn settle(&self) -> Result<()> {
        let mut turns = GpuWait::new();
        while !self.device.is_idle()? && turns.elapsed() < self.world.timeout() {
            turns.is_due();
        }
        Ok(())
    }
}

fn signals(waits: &Waits) -> Result<&Signals> {
    waits.signals().ok_or_else(|| Error::Ranks("there is no inbox".into()))
}

impl Drop for PeerInboxes {
    fn drop(&mut self) {
        // When all have come here, no kernel writes into an inbox any more. Where one is lost, its kernels may:
        // the memory then stays taken until the process ends.
        if self.world.barrier("the end of learning").is_err() {
            std::mem::forget(self.window.take());
        }
    }
}
