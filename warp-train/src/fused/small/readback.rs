//! Arrays on their way to the host, while the stream behind them goes on.

use crate::error::{Error, Result};
use warp_data::cuda::{HostCopy, PinnedBuffers};
use warp_func::cuda::{Device, DeviceArray};

/// Some arrays as they were at one place in the stream's order.
#[derive(Debug)]
pub(crate) enum Readback {
    /// They come to memory that the driver writes to by itself.
    Copy(HostCopy),
    /// They have been waited for, since no such memory was to be had.
    Pulled(Vec<Vec<u8>>),
}

impl Readback {
    /// Begins to bring `arrays` of `device`, which have the same sizes each time, to `buffers`.
    ///
    /// # Errors
    /// A driver that refuses, or whatever went wrong on the device before.
    pub(super) fn begin<'a>(
        buffers: &PinnedBuffers,
        device: &Device,
        arrays: impl Iterator<Item = &'a DeviceArray> + Clone,
    ) -> Result<Self> {
        if let Some(copy) = buffers.copy(device, arrays.clone())? {
            return Ok(Self::Copy(copy));
        }
        let pull = |array: &DeviceArray| Ok::<_, Error>(array.as_bytes().pull::<u8>()?);
        Ok(Self::Pulled(arrays.map(pull).collect::<Result<_>>()?))
    }

    /// Their bytes, as soon as they are there.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(super) fn wait(&self) -> Result<Vec<&[u8]>> {
        Ok(match self {
            Self::Copy(copy) => copy.wait()?.into_iter().map(|(_, bytes)| bytes).collect(),
            Self::Pulled(arrays) => arrays.iter().map(Vec::as_slice).collect(),
        })
    }
}

/// The words in `bytes`.
pub(super) fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    words
}
