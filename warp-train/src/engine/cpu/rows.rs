//! Row functions over columns, in pieces of rows that are distributed over threads.

use super::CpuEngine;
use crate::algorithm::{Column, ColumnId, Plan, RowsId, RowsOf};
use crate::loss::row::{Read, Rows, Write};
use std::sync::Mutex;
use warp_core::{Draw, Purpose};

/// Rows that are worth a task.
const TASK_ROWS: usize = 256;
/// Bits of a stream's number that say which agent acts; those above say for which row function.
pub(crate) const ACTING_BITS: u32 = 20;

/// Some rows of the columns that are written.
struct Task<'a> {
    first: usize,
    writes: Vec<Write<'a>>,
}

impl CpuEngine {
    pub(super) fn run_rows(&mut self, id: RowsId) {
        let first_sample = self.first_sample();
        let Self { thread_pool, columns, cells, plan, place, updates, run_step, .. } = self;
        let plan: &Plan = plan;
        let rows = &plan.rows[id.0];
        let width = |id: &ColumnId| plan.columns[id.0].width;
        let of = plan.columns[rows.writes[0].0].rows;
        let n_rows = plan.n_rows(of, place.n_rows);
        let mut taken: Vec<Vec<f32>> =
            rows.writes.iter().map(|id| std::mem::take(&mut columns[id.0])).collect();
        let mut pieces: Vec<_> = taken
            .iter_mut()
            .zip(&rows.writes)
            .map(|(column, id)| (column.chunks_mut(TASK_ROWS * width(id)), width(id)))
            .collect();
        let tasks: Vec<_> = (0..n_rows)
            .step_by(TASK_ROWS)
            .map(|first| {
                let writes = pieces.iter_mut().filter_map(|(column, width)| {
                    column.next().map(|numbers| Write { numbers, width: *width })
                });
                Mutex::new(Task { first, writes: writes.collect() })
            })
            .collect();
        let read = |id: &ColumnId, first: usize| {
            let Column { rows, width, .. } = plan.columns[id.0];
            let stride = if rows == RowsOf::Shared { 0 } else { width };
            Read { numbers: &columns[id.0][first * stride..], width, stride }
        };
        let cells: Vec<f32> = rows.cells.iter().map(|id| cells[id.0]).collect();
        let draw = |row: usize| match of {
            RowsOf::Acting => {
                let replica = place.first_replica + (row / place.n_agents) as u32;
                let agent = place.first_agent + (row % place.n_agents) as u32;
                // Each function draws its own numbers.
                let agent = (id.0 as u32) << ACTING_BITS | agent;
                Draw::new(place.seed, replica, *run_step, Purpose::Noise).agent(agent)
            }
            _ => {
                let agent = (place.policy as u32) << 16 | id.0 as u32;
                let sample = first_sample + row as u32;
                Draw::new(place.seed, sample, *updates as u32, Purpose::Learn).agent(agent)
            }
        };
        thread_pool.run(tasks.len(), &|task| {
            let Ok(mut task) = tasks[task].lock() else { return };
            let Task { first, writes } = &mut *task;
            let reads: Vec<Read<'_>> = rows.reads.iter().map(|id| read(id, *first)).collect();
            (rows.function.run)(Rows {
                n: TASK_ROWS.min(n_rows - *first),
                cells: &cells,
                reads: &reads,
                writes,
                draws: &|row| draw(*first + row),
            });
        });
        drop((tasks, pieces));
        for (id, column) in rows.writes.iter().zip(taken) {
            columns[id.0] = column;
        }
    }
}
