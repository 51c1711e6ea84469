//! One of several GPUs that learn together: memory that the others write into while its kernels run.

use crate::error::{Error, Result};
use crate::world::World;
use std::time::Duration;
use warp_core::DType;
use warp_data::cuda::{HostWord, Offer, Window};
use warp_func::cuda::{Device, DeviceArray};

/// How often a wait for the GPU looks whether another rank is gone.
const LOOK: Duration = Duration::from_micros(50);

/// What is to carry sums between GPUs, if not what suits them: `nccl` or `peers`.
const WARP_LINK: &str = "WARP_LINK";

/// Whether all ranks reach each other's memory, so that kernels may tell each other sums; else they go through
/// NCCL. All ranks are to call it.
///
/// # Errors
/// Ranks that have lost each other, or that are out of reach though they are told to use it.
pub(super) fn is_within_reach(gpu: &Device, world: &World) -> Result<bool> {
    let wanted = std::env::var(WARP_LINK).unwrap_or_default();
    let wanted = world.tell("what carries sums", wanted.as_bytes())?;
    match &wanted[..] {
        b"nccl" => return Ok(false),
        b"" | b"peers" => {}
        other => {
            let other = String::from_utf8_lossy(other).into_owned();
            return Err(Error::Invalid(format!("{WARP_LINK}={other}: nccl or peers is needed")));
        }
    }
    let offer = Offer::new(gpu, "inbox", 1)?;
    let all = world.gather("where memory is", offer.bytes())?;
    let opened = offer.open(&all, world.rank());
    let said = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let said = world.gather("who is reached", said.as_bytes())?;
    // Nobody frees what another has not let go.
    drop(opened);
    world.meet("the end of a look around")?;
    match said.iter().find(|why| !why.is_empty()) {
        Some(why) if wanted == b"peers" => {
            Err(Error::Ranks(String::from_utf8_lossy(why).into_owned()))
        }
        found => Ok(found.is_none()),
    }
}

/// A rank's inbox, and those of the others.
#[derive(Debug)]
pub(super) struct Linked {
    world: World,
    /// None once it is being dropped.
    window: Option<Window>,
    /// Set when no kernel is to wait any more.
    stop: HostWord,
    /// Where that lies.
    stop_at: DeviceArray,
    /// Set by a kernel that has waited for too long.
    fault: DeviceArray,
    device: Device,
}

impl Linked {
    /// An inbox of so many `words`, which all other ranks reach; all ranks are to call it.
    ///
    /// # Errors
    /// A rank out of reach, or too little memory.
    pub(super) fn new(gpu: &Device, world: &World, words: usize) -> Result<Self> {
        let offer = Offer::new(gpu, "inbox", words)?;
        let all = world.gather("where memory is", offer.bytes())?;
        let opened = offer.open(&all, world.rank());
        // All or none: a rank that is out of reach of one would be waited for by all.
        let said = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let failed = world.gather("who is reached", said.as_bytes())?;
        if let Some(why) = failed.iter().find(|why| !why.is_empty()) {
            return Err(Error::Ranks(String::from_utf8_lossy(why).into_owned()));
        }
        let stop = HostWord::new(gpu)?;
        let words = [stop.address() as u32, (stop.address() >> 32) as u32];
        Ok(Self {
            world: world.clone(),
            window: Some(opened?),
            stop_at: DeviceArray::from_slice(gpu, "stop", &[2], &words)?,
            stop,
            fault: DeviceArray::zeros(gpu, "fault", DType::U32, &[1])?,
            device: gpu.clone(),
        })
    }

    pub(super) fn rank(&self) -> u32 {
        self.world.rank() as u32
    }

    /// Where the inboxes of all ranks lie.
    ///
    /// # Errors
    /// There are none any more.
    pub(super) fn inboxes(&self) -> Result<&DeviceArray> {
        Ok(self.window()?.addresses())
    }

    fn window(&self) -> Result<&Window> {
        self.window.as_ref().ok_or_else(|| Error::Ranks("the inboxes are gone".into()))
    }

    pub(super) fn stop(&self) -> &DeviceArray {
        &self.stop_at
    }

    pub(super) fn fault(&self) -> &DeviceArray {
        &self.fault
    }

    /// Milliseconds that a kernel waits for another GPU.
    pub(super) fn patience(&self) -> u32 {
        u32::try_from(self.world.timeout().as_millis()).unwrap_or(u32::MAX)
    }

    /// Forgets what was told, on all ranks: a run that goes on from an earlier step tells it again.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub(super) fn clear(&self) -> Result<()> {
        self.world.meet("an empty inbox")?;
        let own = self.window()?.own();
        own.push(&vec![0_u32; own.len()])?;
        self.device.synchronize()?;
        self.world.meet("empty inboxes")
    }

    /// Waits for the GPU, and for no rank that is gone.
    ///
    /// # Errors
    /// A rank that was waited for in vain.
    pub(super) fn wait(&self) -> Result<()> {
        let mut over = None;
        while !self.device.is_idle()? {
            std::thread::sleep(LOOK);
            if over.is_none() {
                over = self.world.over();
                if over.is_some() {
                    self.stop.set(1);
                }
            }
        }
        if let Some(why) = over {
            return Err(Error::Ranks(why));
        }
        match self.fault.pull::<u32>()?[..] {
            [0] => Ok(()),
            _ => {
                let (rank, seconds) = (self.world.rank(), self.world.timeout().as_secs_f64());
                let why = format!(
                    "rank {rank} waited {seconds} s inside a kernel for another rank's sums"
                );
                self.world.give_up(&why);
                Err(Error::Ranks(why))
            }
        }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        // When all have come here, no kernel writes into an inbox any more. Where one is lost, its kernels may:
        // the memory then stays taken until the process ends.
        if self.world.meet("the end of learning").is_err() {
            std::mem::forget(self.window.take());
        }
    }
}
