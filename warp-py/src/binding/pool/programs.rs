//! What custom calls of XLA's need of a pool (`xla/`): numbers that are read already, and rows as bytes.

use super::super::options;
use super::Pool;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warp_core::single::GroupAction;

impl Pool {
    /// Waits for the environments that are finished first, and keeps what they show as the last answer.
    pub(in super::super) fn recv_batch(&mut self, py: Python<'_>) -> PyResult<()> {
        self.engine.check()?;
        let at = self.choose_slot(py)?;
        let Self { engine, slots, orders, batch_size, .. } = self;
        engine.open_mut()?.recv(py, *batch_size, orders, &mut slots[at].batch)?;
        self.received = self.engine.open()?.is_queue();
        self.written(at);
        Ok(())
    }

    /// Sends those of `ids` off with choices.
    pub(in super::super) fn send_integers(&mut self, actions: &[i32], ids: &[i32]) -> PyResult<()> {
        self.send_ready(GroupAction::Discrete(actions.to_vec()), ids)
    }

    /// Sends those of `ids` off with real numbers.
    pub(in super::super) fn send_reals(&mut self, actions: &[f32], ids: &[i32]) -> PyResult<()> {
        self.send_ready(GroupAction::Continuous(actions.to_vec()), ids)
    }

    /// What was received last, array by array; of `batch_size` rows, which is what a program expects.
    pub(in super::super) fn xla_rows<'a>(&'a self, py: Python<'a>) -> PyResult<Vec<&'a [u8]>> {
        let rows = self.answered.len();
        self.check_expected(rows)?;
        Ok(self.slots[self.at].xla_rows(py, rows))
    }

    /// Says whether a program receives the rows that it expects once `more` are sent.
    pub(in super::super) fn check_rows(&self, more: usize) -> PyResult<()> {
        let engine = self.engine.open()?;
        let rows = engine.under_way() + more;
        match engine.is_queue() {
            true => engine.check_enough(self.batch_size, more),
            false => self.check_expected(rows),
        }
    }

    fn check_expected(&self, rows: usize) -> PyResult<()> {
        let wanted = self.batch_size;
        if rows == wanted {
            return Ok(());
        }
        let reason = format!("{rows} environments were sent, but a program receives {wanted}");
        Err(PyValueError::new_err(reason))
    }

    fn send_ready(&mut self, actions: GroupAction, ids: &[i32]) -> PyResult<()> {
        self.engine.check()?;
        options::check_ids(ids, self.all.len(), &mut self.orders.ids)?;
        self.orders.actions = vec![actions];
        self.send_orders()
    }
}
