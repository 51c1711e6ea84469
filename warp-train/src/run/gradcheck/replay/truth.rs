//! An objective's gradient by central differences.

use super::super::BOUND;
use super::super::Gradient;
use super::super::reference::Slope;
use super::networks::{Networks, part_of};
use super::objective::{Objective, Row};
use crate::algorithm::PolicyConfig;
use crate::model::NamedTensor;
use crate::run::parallel::each;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use warp_func::thread_pool::cores;

/// How far a parameter is moved, either way.
const STEP: f64 = 1e-5;

/// What central differences say of an objective.
pub(super) struct Truth {
    pub(super) gradient: Gradient,
    /// Each tensor's largest element if the rows' derivatives all had one sign.
    pub(super) sizes: Vec<f64>,
}

impl Truth {
    /// Of the parameters `weights`, on the rows of a batch, at `networks`.
    pub(super) fn of(
        objective: &Objective,
        keys: &PolicyConfig,
        networks: &Networks,
        (rows, weights): (&[Row], &[NamedTensor]),
    ) -> Self {
        let given = |row: &Row| (objective.given)(keys, networks, row);
        let losses = Losses { objective, keys, rows, given: rows.iter().map(given).collect() };
        let loss = losses.at(networks).iter().sum::<f64>() * (1.0 / rows.len() as f64);
        let (mut tensors, mut sizes) = (weights.to_vec(), Vec::new());
        for model in objective.models {
            let mut first = 0;
            for tensor in tensors.iter_mut().filter(|t| part_of(t, model).is_some()) {
                let n = tensor.data.len();
                let slopes = losses.slopes(networks, model, first..first + n);
                first += n;
                tensor.data = slopes.iter().map(|slope| slope.mean as f32).collect();
                sizes.push(slopes.iter().fold(0.0f64, |largest, slope| largest.max(slope.size)));
            }
        }
        let (backend, bound, loss) = ("differences", BOUND, Some(loss));
        Self { gradient: Gradient { backend, bound, loss, tensors }, sizes }
    }
}

/// The losses of a batch's rows.
struct Losses<'a> {
    objective: &'a Objective,
    keys: &'a PolicyConfig,
    rows: &'a [Row],
    /// What each row's loss takes as given.
    given: Vec<Vec<f64>>,
}

impl Losses<'_> {
    /// The loss of each row.
    fn at(&self, networks: &Networks) -> Vec<f64> {
        let loss = |(row, given): (&Row, &Vec<f64>)| {
            (self.objective.loss)(self.keys, networks, row, given)
        };
        self.rows.iter().zip(&self.given).map(loss).collect()
    }

    /// Derivatives by these parameters of a model, a part of them on each core.
    fn slopes(&self, networks: &Networks, model: &str, parameters: Range<usize>) -> Vec<Slope> {
        let n_parts = cores().min(parameters.len());
        let first = |part: usize| parameters.start + parameters.len() * part / n_parts;
        // Networks note what they meet, so that every thread has its own.
        let copies: Vec<_> = (0..n_parts).map(|_| Mutex::new(networks.clone())).collect();
        let slopes = each(n_parts, n_parts, |part| {
            let mut moved = copies[part].lock().unwrap_or_else(PoisonError::into_inner);
            let own = first(part)..first(part + 1);
            own.map(|at| self.slope(&mut moved, model, at)).collect::<Vec<_>>()
        });
        slopes.into_iter().flatten().collect()
    }

    /// The derivative by parameter number `at` of a model, which is moved and put back.
    fn slope(&self, moved: &mut Networks, model: &str, at: usize) -> Slope {
        let mut parameters = moved.parameters(model);
        let here = parameters[at];
        let [far, near] = [STEP, -STEP].map(|by| {
            parameters[at] = here + by;
            moved.set_parameters(model, &parameters);
            self.at(moved)
        });
        parameters[at] = here;
        moved.set_parameters(model, &parameters);
        let share = 1.0 / self.rows.len() as f64;
        let slopes = far.iter().zip(near).map(|(a, b)| share * (a - b) / (2.0 * STEP));
        let slopes: Vec<f64> = slopes.collect();
        let size = slopes.iter().map(|slope| slope.abs()).sum();
        Slope { mean: slopes.iter().sum(), size }
    }
}
