//! A stream of a GPU that stands still until the host lets it go on.

use super::Result;
use std::sync::Arc;
use std::time::Duration;
use warp_data::cuda::cudarc::driver::{CudaEvent, CudaStream};
use warp_func::cuda::{Arg, Build, Device, DeviceArray, Function, Kernels, Launch, Source};

/// Runs until the gate is open, or for some seconds, so that no mistake stops a GPU for ever.
const TEXT: &str = "extern \"C\" __global__ void hold(const unsigned int* gate) {
    long long start = clock64();
    while (*(const volatile unsigned int*)gate == 0 && clock64() - start < 8000000000LL) {}
}
";

/// In this time everything is done that does not wait.
const AHEAD: Duration = Duration::from_millis(50);

/// What holds a stream up: a kernel on a stream of its own, for which the other waits.
#[derive(Debug)]
pub(crate) struct Hold {
    function: Function,
    stream: Arc<CudaStream>,
    ended: CudaEvent,
    /// Opened on a third stream.
    gate: DeviceArray,
}

impl Hold {
    pub(crate) fn new() -> Result<Self> {
        let device = Device::open(0)?;
        let source = Source::new("hold.cu", TEXT);
        let function = Kernels::new(&device).compile(&source, Build::Parity)?.function("hold")?;
        let gate = DeviceArray::from_slice(&Device::open(0)?, "gate", &[1], &[1u32])?;
        let ended = device.context().new_event(None)?;
        let hold = Self { function, stream: device.stream().clone(), ended, gate };
        // Once with the gate open: what is loaded at the first launch is loaded now.
        hold.launch()?;
        device.synchronize()?;
        Ok(hold)
    }

    fn launch(&self) -> Result<()> {
        let one = Launch { blocks: 1, threads: 1, ..Launch::default() };
        self.function.launch(&one, &[Arg::array(&self.gate, 1)])?;
        Ok(self.ended.record(&self.stream)?)
    }

    /// Whatever `stream` is given from now on waits until [`Self::release`].
    pub(crate) fn stop(&self, stream: &CudaStream) -> Result<()> {
        self.gate.push(&[0u32])?;
        self.gate.device().synchronize()?;
        self.launch()?;
        Ok(stream.wait(&self.ended)?)
    }

    /// Lets the stream go on, when all that did not wait for it is done.
    pub(crate) fn release(&self) -> Result<()> {
        std::thread::sleep(AHEAD);
        if self.ended.try_is_complete()? {
            return Err("the stream went on before it was let to".into());
        }
        Ok(self.gate.push(&[1u32])?)
    }
}
