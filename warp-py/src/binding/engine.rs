//! Replicas that are moved while somebody waits, or that are sent and received.

use super::raised;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use warp_core::single::GroupAction;
use warp_func::{Batch, Error, Orders, ReplicaQueue, Replicas};

/// How replicas are moved.
#[derive(Debug)]
pub(super) enum Engine {
    /// By the call that asks for it. What was sent waits in `sent` until it is received.
    Direct {
        /// The replicas.
        replicas: Box<Replicas>,
        /// What was sent.
        sent: Orders,
    },
    /// By threads of their own.
    Queue(Box<ReplicaQueue>),
}

impl Engine {
    pub(super) fn new(replicas: Replicas, by_queue: bool) -> PyResult<Self> {
        Ok(match by_queue {
            true => Engine::Queue(Box::new(ReplicaQueue::new(replicas).map_err(raised)?)),
            false => Engine::Direct { replicas: Box::new(replicas), sent: Orders::default() },
        })
    }

    /// Whether threads of their own move them.
    pub(super) fn is_queue(&self) -> bool {
        matches!(self, Engine::Queue(_))
    }

    /// Room for what `rows` replicas show.
    pub(super) fn new_batch(&self, rows: usize) -> PyResult<Batch> {
        match self {
            Engine::Direct { replicas, .. } => replicas.new_batch(rows).map_err(raised),
            Engine::Queue(queue) => queue.new_batch(rows).map_err(raised),
        }
    }

    /// The replicas, while none is under way.
    pub(super) fn replicas(&mut self) -> PyResult<&mut Replicas> {
        match self {
            Engine::Direct { replicas, sent } => match sent.ids.first() {
                Some(id) => {
                    let reason = format!("environment {id} was sent and has not been received");
                    Err(PyRuntimeError::new_err(reason))
                }
                None => Ok(replicas),
            },
            Engine::Queue(queue) => queue.replicas_mut().map_err(raised),
        }
    }

    /// Makes replicas that are not in flight begin an episode when they are next stepped.
    pub(super) fn mark_new(&mut self, ids: &[u32]) -> PyResult<()> {
        self.check_idle(ids)?;
        match self {
            Engine::Direct { replicas, .. } => replicas.mark_new(ids).map_err(raised),
            Engine::Queue(queue) => queue.mark_new(ids).map_err(raised),
        }
    }

    /// Sends replicas off with their actions.
    pub(super) fn send(&mut self, mut orders: Orders) -> PyResult<()> {
        self.check_idle(&orders.ids)?;
        match self {
            Engine::Direct { replicas, sent } => {
                replicas.check(&mut orders).map_err(raised)?;
                append(sent, orders);
                Ok(())
            }
            Engine::Queue(queue) => queue.send(orders).map_err(raised),
        }
    }

    /// Receives `rows` replicas, or all that were sent where they are moved directly; says which.
    pub(super) fn recv(
        &mut self,
        py: Python<'_>,
        rows: usize,
        orders: &mut Orders,
        batch: &mut Batch,
    ) -> PyResult<()> {
        match self {
            Engine::Direct { sent, .. } if sent.ids.is_empty() => Err(none_in_flight()),
            Engine::Direct { replicas, sent } => {
                *orders = std::mem::take(sent);
                advance(py, replicas, orders, batch)
            }
            Engine::Queue(queue) => {
                py.detach(|| queue.recv(rows, batch)).map_err(raised)?;
                let store = batch.store();
                let ids = store.get::<i32>("env_id").map_err(|error| raised(error.into()))?;
                orders.ids.clear();
                orders.ids.extend(ids[..rows].iter().map(|id| *id as u32));
                Ok(())
            }
        }
    }

    /// How many rows can be received.
    pub(super) fn under_way(&self) -> usize {
        match self {
            Engine::Direct { sent, .. } => sent.ids.len(),
            Engine::Queue(queue) => queue.under_way(),
        }
    }

    /// Says whether `rows` replicas, or any where they are moved directly, can be received once `more` are sent.
    pub(super) fn check_enough(&self, rows: usize, more: usize) -> PyResult<()> {
        let under_way = self.under_way() + more;
        match self {
            Engine::Direct { .. } if under_way == 0 => Err(none_in_flight()),
            Engine::Queue(_) if under_way < rows => {
                Err(raised(Error::TooFewUnderWay { wanted: rows, under_way }))
            }
            _ => Ok(()),
        }
    }

    /// Forgets what was sent and not received, once it is finished.
    pub(super) fn drain(&mut self, py: Python<'_>, batch: &mut Batch) -> PyResult<()> {
        if let Engine::Direct { sent, .. } = self {
            sent.ids.clear();
            sent.actions.clear();
            return Ok(());
        }
        let mut orders = Orders::default();
        match self.under_way() {
            0 => Ok(()),
            rows => self.recv(py, rows, &mut orders, batch),
        }
    }

    fn check_idle(&self, ids: &[u32]) -> PyResult<()> {
        let Engine::Direct { sent, .. } = self else { return Ok(()) };
        let under_way = |id: &&u32| sent.ids.contains(id);
        match ids.iter().filter(|_| !sent.ids.is_empty()).find(under_way) {
            Some(id) => {
                let reason = format!("environment {id} was sent and has not been received");
                Err(PyValueError::new_err(reason))
            }
            None => Ok(()),
        }
    }
}

/// Moves replicas with Python's lock let go of. A body that panics, on a state that was set to what is none of its
/// environment's, is an error: the replicas stay what they were made, and can be reset.
pub(super) fn advance(
    py: Python<'_>,
    replicas: &mut Replicas,
    orders: &mut Orders,
    batch: &mut Batch,
) -> PyResult<()> {
    let step = AssertUnwindSafe(|| replicas.step(orders, batch));
    py.detach(|| catch_unwind(step)).unwrap_or(Err(Error::Panicked)).map_err(raised)
}

fn none_in_flight() -> PyErr {
    PyRuntimeError::new_err("no environment is in flight: send some first")
}

/// Adds orders to others.
fn append(all: &mut Orders, more: Orders) {
    if all.ids.is_empty() {
        *all = more;
        return;
    }
    all.ids.extend(more.ids);
    for (all, more) in all.actions.iter_mut().zip(more.actions) {
        match (all, more) {
            (GroupAction::Discrete(all), GroupAction::Discrete(more)) => all.extend(more),
            (GroupAction::Continuous(all), GroupAction::Continuous(more)) => all.extend(more),
            // A group has one kind of action, which was checked.
            _ => {}
        }
    }
}
