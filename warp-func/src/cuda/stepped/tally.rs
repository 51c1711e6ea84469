//! Totals of the episodes that ended, for each environment, until somebody asks.

use crate::episodes::{EpisodeTotals, Spread};
use crate::error::Result;
use warp_core::DType;
use warp_data::cuda::{Device, DeviceArray};

/// Episodes that ended, by environment: `[n]` each. Where there are none the other numbers mean nothing.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) ended: DeviceArray,
    pub(super) lengths: DeviceArray,
    pub(super) shortest: DeviceArray,
    pub(super) longest: DeviceArray,
    pub(super) returns: DeviceArray,
    pub(super) least: DeviceArray,
    pub(super) most: DeviceArray,
}

impl Tally {
    pub(super) fn new(device: &Device, n: usize) -> Result<Self> {
        let zeros = |name: &str, dtype| DeviceArray::zeros(device, name, dtype, &[n]);
        Ok(Self {
            ended: zeros("ended", DType::U32)?,
            lengths: zeros("ended lengths", DType::U32)?,
            shortest: zeros("shortest", DType::U32)?,
            longest: zeros("longest", DType::U32)?,
            returns: zeros("ended returns", DType::F32)?,
            least: zeros("least return", DType::F32)?,
            most: zeros("largest return", DType::F32)?,
        })
    }

    /// Their totals, in the order of the environments; forgets them. Waits for the GPU.
    pub(super) fn take(&self) -> Result<EpisodeTotals> {
        let ended = self.ended.pull::<u32>()?;
        let mut totals = EpisodeTotals::new(1, 0);
        if ended.iter().all(|count| *count == 0) {
            return Ok(totals);
        }
        let lengths = [&self.lengths, &self.shortest, &self.longest].map(DeviceArray::pull::<u32>);
        let [lengths, shortest, longest] = lengths;
        let (lengths, shortest, longest) = (lengths?, shortest?, longest?);
        let returns = [&self.returns, &self.least, &self.most].map(DeviceArray::pull::<f32>);
        let [returns, least, most] = returns;
        let (returns, least, most) = (returns?, least?, most?);
        for (i, count) in ended.iter().enumerate().filter(|(_, count)| **count > 0) {
            totals.count += u64::from(*count);
            let length = [lengths[i], shortest[i], longest[i]].map(f64::from);
            merge(&mut totals.length, length);
            merge(&mut totals.returns[0], [returns[i], least[i], most[i]].map(f64::from));
        }
        self.ended.push(&vec![0_u32; ended.len()])?;
        Ok(totals)
    }
}

fn merge(into: &mut Spread, [sum, min, max]: [f64; 3]) {
    into.sum += sum;
    into.min = into.min.min(min);
    into.max = into.max.max(max);
}
