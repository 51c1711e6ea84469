//! The loss in f64 as each parameter of the network is moved a little.
//!
//! A perturbed parameter changes one unit of its layer, so only what comes after that unit is
//! recomputed; the rest is kept for every row.

use super::batch::CheckBatch;
use super::formulas::{Formula, Row, RowLoss, row_loss};
use super::kinks::RoundedTower;
use super::tower::{Kept, Layer, Norm, Tower};
use crate::algorithm::PolicyPlan;
use crate::error::{Error, Result};
use crate::loss::Minibatch;
use crate::loss::a2c::A2cConfig;
use crate::model::{Activation, Half, NamedTensor};
use crate::run::parallel::each;
use serde::Serialize;
use warp_func::thread_pool::cores;

/// How far a parameter is moved, either way.
const STEP: f64 = 1e-5;

/// How a loss changes with a parameter: the rows' mean, and what it would be if all had one sign.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slope {
    pub(super) mean: f64,
    pub(super) size: f64,
}

/// How far rows must be from points without a derivative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Margin {
    /// Of the loss by the network's outputs.
    pub(super) of_loss: f64,
    /// Of relus.
    pub(super) of_relu: f64,
    /// Relus must also be where operands that are rounded to this leave them on their side.
    pub(super) rounding: Option<Half>,
}

impl Margin {
    /// Every row counts.
    pub(super) const NONE: Self = Self { of_loss: 0.0, of_relu: 0.0, rounding: None };
}

/// Rows of a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// Those that gradients are compared on.
    #[serde(rename = "rows")]
    pub compared: usize,
    /// Those that are left out, being too near a point at which the loss has no derivative.
    #[serde(rename = "rows_left_out")]
    pub left_out: usize,
}

/// A batch with its policy's network in f64.
#[derive(Debug)]
pub(super) struct Reference<'a> {
    plan: &'a PolicyPlan,
    batch: &'a CheckBatch,
    loss: Formula,
    /// Actor (or shared trunk) and critic.
    towers: Vec<Tower>,
    log_std: Option<Vec<f64>>,
    /// By tower and row.
    kept: Vec<Vec<Kept>>,
    /// The batch's, without rows that lie near a kink.
    sample_weights: Vec<f32>,
}

impl<'a> Reference<'a> {
    /// The network that the batch's weights are of. Rows nearer than `margin` to a point without a
    /// derivative are left out.
    ///
    /// # Errors
    /// A layer that is missing, or no row that is left.
    pub(super) fn new(
        plan: &'a PolicyPlan,
        batch: &'a CheckBatch,
        loss: &Formula,
        margin: Margin,
    ) -> Result<Self> {
        let towers = towers(plan, batch)?;
        let log_std = batch.weights.iter().find(|tensor| tensor.name == "log_std");
        let log_std = log_std.map(|t| t.data.iter().map(|x| f64::from(*x)).collect());
        let loss = *loss;
        let sample_weights = batch.sample_weights.clone();
        let kept = Vec::new();
        let mut this = Self { plan, batch, loss, towers, log_std, kept, sample_weights };
        let obs: Vec<_> = (0..batch.returns.len()).map(|row| this.obs(row)).collect();
        let activation = plan.config.activation;
        let of_tower =
            |tower: &Tower| obs.iter().map(|obs| tower.forward(activation, obs)).collect();
        this.kept = this.towers.iter().map(of_tower).collect();
        this.leave_out_rows_near_kinks(margin);
        if this.rows().compared > 0 {
            return Ok(this);
        }
        // Gradients of nothing would agree.
        Err(Error::Invalid(format!(
            "policy \"{}\": none of {} rows is far enough from points at which the loss is not differentiable; \
             use more rows",
            plan.name,
            batch.returns.len()
        )))
    }

    fn leave_out_rows_near_kinks(&mut self, margin: Margin) {
        let relu = self.plan.config.activation == Activation::Relu;
        let rounded: Vec<_> = match margin.rounding {
            Some(half) if relu => {
                self.towers.iter().map(|tower| RoundedTower::new(tower, half)).collect()
            }
            _ => Vec::new(),
        };
        for row in 0..self.batch.returns.len() {
            let kept = || self.kept.iter().map(|rows| &rows[row]);
            let to_kink = self.row_loss(row, 0, &self.kept[0][row].outputs).to_kink;
            let mut sums = kept().filter(|_| relu).flat_map(|kept| kept.sums.concat());
            if to_kink < margin.of_loss
                || sums.any(|sum| sum.abs() < margin.of_relu)
                || rounded.iter().zip(kept()).any(|(tower, kept)| tower.may_cross(kept))
            {
                self.sample_weights[row] = 0.0;
            }
        }
    }

    /// How many rows count, and how many would without the margin.
    pub(super) fn rows(&self) -> Rows {
        let count = |weights: &[f32]| weights.iter().filter(|weight| **weight > 0.0).count();
        let compared = count(&self.sample_weights);
        Rows { compared, left_out: count(&self.batch.sample_weights) - compared }
    }

    /// What the network says the rows are worth, f32 `[rows]`.
    pub(super) fn values(&self) -> Vec<f32> {
        let tower = self.kept.last().into_iter().flatten();
        tower.filter_map(|kept| Some(*kept.outputs.last()?.first()? as f32)).collect()
    }

    /// The minibatch for the backends.
    pub(super) fn minibatch(&self) -> Minibatch<'_> {
        let batch = self.batch;
        Minibatch {
            observations: &batch.obs,
            actions: batch.actions.view(),
            log_probs: &batch.log_probs,
            advantages: &batch.advantages,
            returns: &batch.returns,
            values: &batch.values,
            whole: None,
            weights: Some(&self.sample_weights),
            action_mask: (!batch.action_mask.is_empty()).then_some(&*batch.action_mask),
        }
    }

    fn obs(&self, row: usize) -> Vec<f64> {
        let width = self.batch.obs.len() / self.batch.returns.len();
        self.batch.obs[row * width..][..width].iter().map(|x| f64::from(*x)).collect()
    }

    fn row(&self, row: usize) -> Row<'_> {
        let batch = self.batch;
        let layout = &self.plan.layout;
        let mask = row * layout.mask_width()..(row + 1) * layout.mask_width();
        Row {
            action: batch.actions.view().rows(row..row + 1, layout.action_width()),
            mask: batch.action_mask.get(mask).unwrap_or(&[]),
            old_log_prob: f64::from(batch.log_probs[row]),
            old_value: f64::from(batch.values[row]),
            advantage: f64::from(batch.advantages[row]),
            target: f64::from(batch.returns[row]),
        }
    }

    /// The row's loss with the outputs of one tower replaced.
    fn row_loss(&self, row: usize, tower: usize, outputs: &[Vec<f64>]) -> RowLoss {
        self.joined(row, tower, outputs, self.log_std.as_deref())
    }

    fn joined(
        &self,
        row: usize,
        tower: usize,
        outputs: &[Vec<f64>],
        log_std: Option<&[f64]>,
    ) -> RowLoss {
        let of = |t: usize| if t == tower { outputs } else { &self.kept[t][row].outputs[..] };
        let (heads, value) = match self.towers.len() {
            1 => outputs.split_at(outputs.len() - 1),
            _ => (of(0), of(1)),
        };
        let mut policy = heads.concat();
        policy.extend(log_std.unwrap_or(&[]));
        row_loss(&self.loss, &self.plan.layout, &self.row(row), &policy, value[0][0])
    }

    /// Rows that count, with their share of the minibatch.
    fn shares(&self) -> impl Iterator<Item = (usize, f64)> {
        let total: f64 = self.sample_weights.iter().map(|w| f64::from(*w)).sum();
        let counts = self.sample_weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        counts.map(move |(row, weight)| (row, f64::from(*weight) / total))
    }

    /// The loss over the minibatch.
    pub(super) fn loss(&self) -> f64 {
        let loss = |row: usize| self.row_loss(row, 0, &self.kept[0][row].outputs).loss;
        self.shares().map(|(row, share)| share * loss(row)).sum()
    }

    /// The mean slope over the rows, of a loss as a function of a row and a shift.
    fn slope(&self, loss: impl Fn(usize, f64) -> f64) -> Slope {
        let of_row = |row: usize| (loss(row, STEP) - loss(row, -STEP)) / (2.0 * STEP);
        self.shares().fold(Slope::default(), |sum, (row, share)| {
            let part = share * of_row(row);
            Slope { mean: sum.mean + part, size: sum.size + part.abs() }
        })
    }

    /// The gradient by central differences, with names, shapes and order of the weights, and each
    /// tensor's largest [`Slope::size`].
    pub(super) fn gradient(&self) -> (Vec<NamedTensor>, Vec<f64>) {
        let (mut gradient, mut sizes) = (self.batch.weights.clone(), Vec::new());
        for tensor in &mut gradient {
            let (place, norm) = (self.place(&tensor.name), self.norm(&tensor.name));
            let slopes = each(cores(), tensor.data.len(), |i| match (place, norm) {
                (Some((t, l, is_weight)), _) => self.by_parameter(t, l, i, is_weight),
                (None, Some((t, l, is_gain))) => self.by_norm(t, l, i, is_gain),
                (None, None) => self.by_log_std(i),
            });
            tensor.data = slopes.iter().map(|slope| slope.mean as f32).collect();
            sizes.push(slopes.iter().fold(0.0f64, |largest, slope| largest.max(slope.size)));
        }
        (gradient, sizes)
    }

    /// Tower, layer (heads behind hidden ones) and whether it is a weight.
    fn place(&self, tensor: &str) -> Option<(usize, usize, bool)> {
        let (name, kind) = tensor.rsplit_once('.')?;
        let in_tower = |(t, tower): (usize, &Tower)| {
            let mut layers = tower.hidden.iter().chain(&tower.heads);
            Some((t, layers.position(|layer| layer.name == name)?, kind == "weight"))
        };
        self.towers.iter().enumerate().find_map(in_tower)
    }

    /// Tower and hidden layer of a normalisation, and whether it is a gain.
    fn norm(&self, tensor: &str) -> Option<(usize, usize, bool)> {
        let (name, kind) = tensor.rsplit_once('.')?;
        let in_tower = |(t, tower): (usize, &Tower)| {
            let is_it = |layer: &Layer| layer.norm.as_ref().is_some_and(|norm| norm.name == name);
            Some((t, tower.hidden.iter().position(is_it)?, kind == "weight"))
        };
        self.towers.iter().enumerate().find_map(in_tower)
    }

    /// The slope of the loss by gain or shift `i` of a layer's normalisation.
    fn by_norm(&self, t: usize, l: usize, i: usize, is_gain: bool) -> Slope {
        let activation = self.plan.config.activation;
        self.slope(|row, shift| {
            let kept = &self.kept[t][row];
            let mut sums = kept.sums[l].clone();
            sums[i] += if is_gain { shift * Norm::unit(&kept.raw[l])[i] } else { shift };
            self.row_loss(row, t, &self.towers[t].after(l, sums, activation)).loss
        })
    }

    /// The slope of the loss by element `i` of a layer's weights or biases.
    fn by_parameter(&self, t: usize, l: usize, i: usize, is_weight: bool) -> Slope {
        let tower = &self.towers[t];
        let n_hidden = tower.hidden.len();
        let layer = tower.hidden.get(l).unwrap_or_else(|| &tower.heads[l - n_hidden]);
        let (unit, input) =
            if is_weight { (i / layer.n_in(), Some(i % layer.n_in())) } else { (i, None) };
        let activation = self.plan.config.activation;
        self.slope(|row, shift| {
            let kept = &self.kept[t][row];
            let change = shift * input.map_or(1.0, |input| kept.inputs[l.min(n_hidden)][input]);
            let outputs = match l.checked_sub(n_hidden) {
                None => tower.behind(kept, l, unit, change, activation),
                Some(head) => {
                    let mut outputs = kept.outputs.clone();
                    outputs[head][unit] += change;
                    outputs
                }
            };
            self.row_loss(row, t, &outputs).loss
        })
    }

    fn by_log_std(&self, i: usize) -> Slope {
        self.slope(|row, shift| {
            let mut log_std = self.log_std.clone().unwrap_or_default();
            log_std[i] += shift;
            self.joined(row, 0, &self.kept[0][row].outputs, Some(&log_std)).loss
        })
    }
}

impl CheckBatch {
    /// This batch with what `plan`'s network says at these weights as old values, and advantages that
    /// are the distance from there to the targets: as where both come from the weights alone.
    ///
    /// # Errors
    /// Weights of another network.
    pub fn with_own_values(&self, plan: &PolicyPlan) -> Result<Self> {
        let loss = Formula::A2c(A2cConfig::default());
        let values = Reference::new(plan, self, &loss, Margin::NONE)?.values();
        let pairs = self.returns.iter().zip(&values);
        let advantages = pairs.map(|(target, value)| target - value).collect();
        Ok(Self { advantages, values, ..self.clone() })
    }
}

/// The actor, or a shared trunk, and the critic.
fn towers(plan: &PolicyPlan, batch: &CheckBatch) -> Result<Vec<Tower>> {
    let find = |name: &str| Layer::find(&batch.weights, name);
    let stack = |prefix: &str| (0..).map_while(|i| find(&format!("{prefix}.{i}"))).collect();
    let missing = || Error::Invalid(format!("policy \"{}\" has no policy_head", plan.name));
    let mut actor = Tower { hidden: stack("trunk"), heads: Vec::new() };
    actor.heads.push(find("policy_head").ok_or_else(missing)?);
    actor.heads.extend(find("log_std_head"));
    let value = find("value_head").ok_or_else(missing)?;
    if actor.hidden.is_empty() {
        actor.hidden = stack("actor");
        return Ok(vec![actor, Tower { hidden: stack("critic"), heads: vec![value] }]);
    }
    actor.heads.push(value);
    Ok(vec![actor])
}
