//! A log on a device: recorded there without waiting, pulled once.

use super::array::DeviceArray;
use super::device::Device;
use super::store::DeviceStore;
use crate::error::{Error, Result};
use crate::log::{Declared, Log, LogPlan};
use crate::store::ArrayId;

/// Chosen arrays of a device's store, of chosen replicas, step after step.
#[derive(Debug)]
pub struct DeviceLog {
    plan: LogPlan,
    store: DeviceStore,
    recorded: usize,
}

impl DeviceLog {
    /// Room for `steps` steps of the arrays called `names`, of the replicas numbered `replicas`, in
    /// any order.
    ///
    /// # Errors
    /// An array or a replica that does not exist, or too little memory on the device.
    pub fn new(
        device: &Device,
        from: &DeviceStore,
        names: &[&str],
        replicas: &[usize],
        steps: usize,
    ) -> Result<Self> {
        let sources = names.iter().map(|name| declared(from, name)).collect::<Result<Vec<_>>>()?;
        let plan = LogPlan::new(&sources, replicas, steps)?;
        let store = DeviceStore::allocate(&plan.plan, device)?;
        Ok(Self { plan, store, recorded: 0 })
    }

    /// Starts the copies of one step of `from`, the store that the log was made for, and returns.
    ///
    /// # Errors
    /// A log that is full, or a driver that refuses.
    pub fn record(&mut self, from: &DeviceStore) -> Result<()> {
        self.plan.check_room(self.recorded)?;
        for (source, target) in self.plan.sources.iter().zip(self.store.arrays()) {
            let source = from.array(*source);
            let row_len = source.shape().iter().skip(1).product();
            for (at, elements) in self.plan.copies(self.recorded, row_len) {
                target.copy_part(at, source, elements)?;
            }
        }
        self.recorded += 1;
        Ok(())
    }

    /// Steps recorded.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.recorded
    }

    /// Everything that was recorded, on the host.
    ///
    /// # Errors
    /// Too little memory on the host, or whatever went wrong on the device.
    pub fn pull(&self) -> Result<Log> {
        let mut store = self.plan.plan.allocate()?;
        let ids: Vec<ArrayId> = store.ids().collect();
        for id in ids {
            self.store.pull(id, &mut store)?;
        }
        Ok(Log::pulled(self.plan.clone(), store, self.recorded))
    }
}

/// The array called `name`.
fn declared<'a>(store: &'a DeviceStore, name: &str) -> Result<Declared<'a>> {
    let described =
        |(id, array): (ArrayId, &'a DeviceArray)| (id, array.name(), array.dtype(), array.shape());
    let mut arrays = store.ids().zip(store.arrays());
    let found = arrays.find(|(_, array)| array.name() == name).map(described);
    found.ok_or_else(|| Error::UnknownArray {
        name: name.into(),
        known: store.arrays().map(DeviceArray::name).collect::<Vec<_>>().join(", "),
    })
}
