//! An objective's gradient by central differences.

use super::super::BOUND;
use super::super::Gradient;
use super::networks::{Networks, part_of};
use super::objective::{Objective, Row};
use crate::algorithm::PolicyConfig;
use crate::model::NamedTensor;

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
        let given: Vec<Vec<f64>> = rows.iter().map(given).collect();
        let share = 1.0 / rows.len() as f64;
        let losses = |networks: &Networks| -> Vec<f64> {
            let loss =
                |(row, given): (&Row, &Vec<f64>)| (objective.loss)(keys, networks, row, given);
            rows.iter().zip(&given).map(loss).collect()
        };
        let loss = losses(networks).iter().sum::<f64>() * share;
        let (mut tensors, mut sizes) = (weights.to_vec(), Vec::new());
        for model in objective.models {
            let mut moved = networks.clone();
            let mut parameters = networks.parameters(model);
            let mut at = 0;
            for tensor in tensors.iter_mut().filter(|t| part_of(t, model).is_some()) {
                let mut largest = 0.0f64;
                for element in &mut tensor.data {
                    let here = parameters[at];
                    let [far, near] = [STEP, -STEP].map(|by| {
                        parameters[at] = here + by;
                        moved.set_parameters(model, &parameters);
                        losses(&moved)
                    });
                    parameters[at] = here;
                    let slopes = far.iter().zip(near).map(|(a, b)| share * (a - b) / (2.0 * STEP));
                    let slopes: Vec<f64> = slopes.collect();
                    *element = slopes.iter().sum::<f64>() as f32;
                    largest = largest.max(slopes.iter().map(|slope| slope.abs()).sum());
                    at += 1;
                }
                sizes.push(largest);
            }
        }
        let (backend, bound, loss) = ("differences", BOUND, Some(loss));
        Self { gradient: Gradient { backend, bound, loss, tensors }, sizes }
    }
}
