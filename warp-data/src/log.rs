//! A log: chosen arrays of a store, of chosen replicas, step after step.
//!
//! Room for all steps is allocated at once; recording a step copies rows and nothing else. The log
//! on a device records there and is pulled once, at the end.

use crate::array::Element;
use crate::error::{Error, Result};
use crate::store::{ArrayId, Plan, Store};
use std::ops::Range;
use warp_core::DType;

/// What a log holds, wherever it lies.
#[derive(Debug, Clone)]
pub(crate) struct LogPlan {
    /// The arrays that are logged, by their numbers in their store.
    pub(crate) sources: Vec<ArrayId>,
    /// Replicas that follow each other are copied at once.
    pub(crate) runs: Vec<Range<usize>>,
    /// The log's own arrays, `[steps, replicas, ...]`, called as their sources.
    pub(crate) plan: Plan,
    /// Steps that there is room for.
    pub(crate) steps: usize,
    /// Replicas.
    pub(crate) n_replicas: usize,
}

/// An array as a store declares it: number, name, type and shape.
pub(crate) type Declared<'a> = (ArrayId, &'a str, DType, &'a [usize]);

impl LogPlan {
    /// Room for `steps` steps of `replicas`, of the arrays `sources`.
    pub(crate) fn new(sources: &[Declared<'_>], replicas: &[usize], steps: usize) -> Result<Self> {
        let mut plan = Plan::new();
        for (_, name, dtype, shape) in sources {
            let n = shape.first().copied().unwrap_or(0);
            if let Some(replica) = replicas.iter().find(|replica| **replica >= n) {
                return Err(Error::NoReplica { array: (*name).into(), replica: *replica, n });
            }
            let mut logged = vec![steps, replicas.len()];
            logged.extend(shape.iter().skip(1));
            plan.add(name, *dtype, &logged)?;
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        for replica in replicas {
            match runs.last_mut() {
                Some(run) if run.end == *replica => run.end += 1,
                _ => runs.push(*replica..replica + 1),
            }
        }
        let sources = sources.iter().map(|(id, ..)| *id).collect();
        Ok(Self { sources, runs, plan, steps, n_replicas: replicas.len() })
    }

    /// The copies of step `step` of an array with `row_len` elements per replica: where each begins
    /// in the log, and the elements that go there.
    pub(crate) fn copies(
        &self,
        step: usize,
        row_len: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut to = step * self.n_replicas * row_len;
        self.runs.iter().map(move |run| {
            let at = to;
            to += run.len() * row_len;
            (at, run.start * row_len..run.end * row_len)
        })
    }

    /// Checks that there is room for step number `step`.
    pub(crate) fn check_room(&self, step: usize) -> Result<()> {
        if step < self.steps { Ok(()) } else { Err(Error::LogFull { steps: self.steps }) }
    }
}

/// A log on the host.
#[derive(Debug)]
pub struct Log {
    plan: LogPlan,
    store: Store,
    recorded: usize,
}

impl Log {
    /// Room for `steps` steps of the arrays called `names`, of the replicas numbered `replicas`, in
    /// any order.
    ///
    /// # Errors
    /// An array or a replica that does not exist, or too little memory.
    pub fn new(from: &Store, names: &[&str], replicas: &[usize], steps: usize) -> Result<Self> {
        let ids = names.iter().map(|name| from.id(name)).collect::<Result<Vec<_>>>()?;
        let declared = |id: &ArrayId| {
            let array = from.array(*id);
            (*id, array.name(), array.dtype(), array.shape())
        };
        let sources: Vec<Declared<'_>> = ids.iter().map(declared).collect();
        let plan = LogPlan::new(&sources, replicas, steps)?;
        let store = plan.plan.allocate()?;
        Ok(Self { plan, store, recorded: 0 })
    }

    /// What a device has recorded.
    #[cfg(feature = "cuda")]
    pub(crate) fn pulled(plan: LogPlan, store: Store, recorded: usize) -> Self {
        Self { plan, store, recorded }
    }

    /// Records one step of `from`, the store that the log was made for.
    ///
    /// # Errors
    /// A log that is full.
    pub fn record(&mut self, from: &Store) -> Result<()> {
        self.plan.check_room(self.recorded)?;
        let ids: Vec<(ArrayId, ArrayId)> =
            self.plan.sources.iter().copied().zip(self.store.ids()).collect();
        for (source, target) in ids {
            match from.array(source).dtype() {
                DType::F32 => self.copy::<f32>(from, source, target),
                DType::I32 => self.copy::<i32>(from, source, target),
                DType::U32 => self.copy::<u32>(from, source, target),
                DType::U8 => self.copy::<u8>(from, source, target),
            }
        }
        self.recorded += 1;
        Ok(())
    }

    fn copy<T: Element>(&mut self, from: &Store, source: ArrayId, target: ArrayId) {
        let (row_len, source) = (from.array(source).row_len(), from.slice::<T>(source));
        let mut store = self.store.edit();
        let target = store.slice_mut::<T>(target);
        for (at, elements) in self.plan.copies(self.recorded, row_len) {
            target[at..at + elements.len()].copy_from_slice(&source[elements]);
        }
    }

    /// Forgets what was recorded, so that there is room again.
    pub fn clear(&mut self) {
        self.recorded = 0;
    }

    /// Steps recorded.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.recorded
    }

    /// What was recorded of an array, `[recorded, replicas, ...]`, replicas in the order in which
    /// they were named.
    ///
    /// # Errors
    /// An array that is not logged, or another element type.
    pub fn get<T: Element>(&self, name: &str) -> Result<&[T]> {
        let row_len = self.store.array(self.store.id(name)?).row_len();
        Ok(&self.store.get::<T>(name)?[..self.recorded * row_len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Store {
        let mut plan = Plan::new();
        plan.add("x", DType::F32, &[4, 2]).unwrap();
        plan.add("done", DType::U8, &[4]).unwrap();
        plan.allocate().unwrap()
    }

    #[test]
    fn chosen_replicas_are_recorded_step_by_step() {
        let mut store = store();
        let mut log = Log::new(&store, &["x", "done"], &[2, 3, 0], 2).unwrap();
        for step in 0..2u8 {
            let x = |i: usize| f32::from(step) * 10.0 + i as f32;
            store.edit().push("x", &(0..8).map(x).collect::<Vec<_>>()).unwrap();
            store.edit().push("done", &[0, 1, 2 + step, 3]).unwrap();
            assert_eq!(log.recorded(), usize::from(step));
            log.record(&store).unwrap();
        }
        let first = [4.0, 5.0, 6.0, 7.0, 0.0, 1.0];
        let both: Vec<f32> = first.iter().copied().chain(first.map(|x| x + 10.0)).collect();
        assert_eq!(log.get::<f32>("x").unwrap(), both);
        assert_eq!(log.get::<u8>("done").unwrap(), [2, 3, 0, 3, 3, 0]);
        let full = log.record(&store).unwrap_err().to_string();
        assert_eq!(full, "the log has room for 2 steps, all of which are recorded");
        log.clear();
        log.record(&store).unwrap();
        assert_eq!(log.get::<u8>("done").unwrap(), [3, 3, 0]);
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let store = store();
        let refused = |names: &[&str], replicas: &[usize]| {
            Log::new(&store, names, replicas, 1).unwrap_err().to_string()
        };
        assert_eq!(refused(&["y"], &[0]), "there is no array \"y\"; there are x, done");
        assert_eq!(refused(&["x"], &[1, 4]), "array \"x\" has no replica 4: there are 4");
        let log = Log::new(&store, &["x"], &[1], 1).unwrap();
        assert!(log.get::<u8>("done").is_err());
        assert_eq!(log.get::<f32>("x").unwrap(), [0.0f32; 0]);
    }
}
