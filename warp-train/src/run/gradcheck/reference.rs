//! The network in f64, and the loss as each of its parameters is moved a little.
//!
//! A perturbed parameter changes one unit of its layer, so only what comes after that unit is
//! recomputed; the rest is kept for every row.

use super::batch::CheckBatch;
use super::formulas::{Formula, Row, RowLoss, row_loss};
use crate::algorithm::PolicyPlan;
use crate::error::{Error, Result};
use crate::loss::Minibatch;
use crate::model::{Activation, LAYER_NORM_EPSILON, NamedTensor};

/// How far a parameter is moved, either way.
const STEP: f64 = 1e-5;

/// A linear layer; weights `[outputs, inputs]`.
#[derive(Debug)]
struct Layer {
    name: String,
    weight: Vec<f64>,
    bias: Vec<f64>,
    norm: Option<Norm>,
}

/// Layer norm behind a layer.
#[derive(Debug)]
struct Norm {
    name: String,
    gain: Vec<f64>,
    shift: Vec<f64>,
}

impl Norm {
    fn unit(x: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        x.iter().map(|x| (x - mean) / (variance + f64::from(LAYER_NORM_EPSILON)).sqrt()).collect()
    }

    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let moved = self.gain.iter().zip(&self.shift);
        Self::unit(x).iter().zip(moved).map(|(x, (gain, shift))| x * gain + shift).collect()
    }
}

impl Layer {
    fn find(weights: &[NamedTensor], name: &str) -> Option<Self> {
        let widen = |name: &str, suffix: &str| {
            let tensor = weights.iter().find(|t| t.name == format!("{name}.{suffix}"))?;
            Some(tensor.data.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>())
        };
        let norm = name.split_once('.').map(|(stack, i)| format!("{stack}_norm.{i}"));
        let norm = norm.and_then(|name| {
            let (gain, shift) = (widen(&name, "weight")?, widen(&name, "bias")?);
            Some(Norm { name, gain, shift })
        });
        let (weight, bias) = (widen(name, "weight")?, widen(name, "bias")?);
        Some(Self { name: name.into(), weight, bias, norm })
    }

    fn n_in(&self) -> usize {
        self.weight.len() / self.bias.len()
    }

    fn forward(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks_exact(self.n_in());
        let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        rows.zip(&self.bias).map(|(row, bias)| bias + dot(row)).collect()
    }

    /// What is behind the layer's normalisation, if it has one.
    fn normed(&self, raw: &[f64]) -> Vec<f64> {
        self.norm.as_ref().map_or_else(|| raw.to_vec(), |norm| norm.apply(raw))
    }

    /// Adds to the outputs what a change of one input makes.
    fn add_change(&self, unit: usize, change: f64, outputs: &mut [f64]) {
        let column = self.weight[unit..].iter().step_by(self.n_in());
        outputs.iter_mut().zip(column).for_each(|(y, w)| *y += w * change);
    }
}

/// Hidden layers and the heads that read the last of them.
#[derive(Debug)]
struct Tower {
    hidden: Vec<Layer>,
    heads: Vec<Layer>,
}

/// What a tower computed for one row.
#[derive(Debug)]
struct Kept {
    /// Inputs of the first layer, then of the next, and so on; last: of the heads.
    inputs: Vec<Vec<f64>>,
    /// What each hidden layer gave, before its normalisation if it has one.
    raw: Vec<Vec<f64>>,
    /// What went into each activation.
    sums: Vec<Vec<f64>>,
    outputs: Vec<Vec<f64>>,
}

/// How a loss changes with a parameter: the rows' mean, and what it would be if all had one sign.
#[derive(Debug, Clone, Copy, Default)]
struct Slope {
    mean: f64,
    size: f64,
}

impl Tower {
    fn forward(&self, activation: Activation, obs: &[f64]) -> Kept {
        let (raw, sums, outputs) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = Kept { inputs: vec![obs.to_vec()], raw, sums, outputs };
        for (l, layer) in self.hidden.iter().enumerate() {
            let raw = layer.forward(&kept.inputs[l]);
            let sums = layer.normed(&raw);
            kept.inputs.push(sums.iter().map(|x| activate(activation, *x)).collect());
            kept.raw.push(raw);
            kept.sums.push(sums);
        }
        let top = &kept.inputs[self.hidden.len()];
        kept.outputs = self.heads.iter().map(|head| head.forward(top)).collect();
        kept
    }

    /// The heads' outputs if this went into the activation of hidden layer `l`.
    fn after(&self, l: usize, mut sums: Vec<f64>, activation: Activation) -> Vec<Vec<f64>> {
        for layer in &self.hidden[l + 1..] {
            sums.iter_mut().for_each(|x| *x = activate(activation, *x));
            sums = layer.normed(&layer.forward(&sums));
        }
        sums.iter_mut().for_each(|x| *x = activate(activation, *x));
        self.heads.iter().map(|head| head.forward(&sums)).collect()
    }

    /// The heads' outputs if `unit` of hidden layer `l` got `change` more before its activation.
    fn behind(
        &self,
        kept: &Kept,
        l: usize,
        unit: usize,
        change: f64,
        activation: Activation,
    ) -> Vec<Vec<f64>> {
        if self.hidden.iter().any(|layer| layer.norm.is_some()) {
            // Every unit of the layer moves.
            let mut raw = kept.raw[l].clone();
            raw[unit] += change;
            return self.after(l, self.hidden[l].normed(&raw), activation);
        }
        let before = kept.inputs[l + 1][unit];
        let change = activate(activation, kept.sums[l][unit] + change) - before;
        let Some(next) = self.hidden.get(l + 1) else {
            let mut outputs = kept.outputs.clone();
            for (head, outputs) in self.heads.iter().zip(&mut outputs) {
                head.add_change(unit, change, outputs);
            }
            return outputs;
        };
        let mut x = kept.sums[l + 1].clone();
        next.add_change(unit, change, &mut x);
        x.iter_mut().for_each(|x| *x = activate(activation, *x));
        for layer in &self.hidden[l + 2..] {
            x = layer.forward(&x);
            x.iter_mut().for_each(|x| *x = activate(activation, *x));
        }
        self.heads.iter().map(|head| head.forward(&x)).collect()
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
    }
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
    /// The network that the batch's weights are of. Rows nearer than `near` to a point without a
    /// derivative are left out.
    ///
    /// # Errors
    /// A layer that is missing, or no row that is left.
    pub(super) fn new(
        plan: &'a PolicyPlan,
        batch: &'a CheckBatch,
        loss: &Formula,
        near: f64,
    ) -> Result<Self> {
        let find = |name: &str| Layer::find(&batch.weights, name);
        let stack = |prefix: &str| (0..).map_while(|i| find(&format!("{prefix}.{i}"))).collect();
        let missing = || Error::Invalid(format!("policy \"{}\" has no policy_head", plan.name));
        let mut actor = Tower { hidden: stack("trunk"), heads: Vec::new() };
        actor.heads.push(find("policy_head").ok_or_else(missing)?);
        actor.heads.extend(find("log_std_head"));
        let value = find("value_head").ok_or_else(missing)?;
        let towers = if actor.hidden.is_empty() {
            actor.hidden = stack("actor");
            vec![actor, Tower { hidden: stack("critic"), heads: vec![value] }]
        } else {
            actor.heads.push(value);
            vec![actor]
        };
        let log_std = batch.weights.iter().find(|tensor| tensor.name == "log_std");
        let log_std = log_std.map(|t| t.data.iter().map(|x| f64::from(*x)).collect());
        let loss = *loss;
        let sample_weights = batch.sample_weights.clone();
        let kept = Vec::new();
        let mut this = Self { plan, batch, loss, towers, log_std, kept, sample_weights };
        let rows = 0..batch.returns.len();
        let activation = plan.config.activation;
        let obs: Vec<_> = rows.clone().map(|row| this.obs(row)).collect();
        let of_tower =
            |tower: &Tower| obs.iter().map(|obs| tower.forward(activation, obs)).collect();
        this.kept = this.towers.iter().map(of_tower).collect();
        for row in rows {
            if this.distance_to_kink(row) < near {
                this.sample_weights[row] = 0.0;
            }
        }
        // Gradients of nothing would agree.
        if this.shares().next().is_none() {
            return Err(Error::Invalid(format!(
                "policy \"{}\": all {} rows are within {near} of a point at which the loss is not \
                 differentiable; use more rows",
                plan.name,
                batch.returns.len()
            )));
        }
        Ok(this)
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

    fn distance_to_kink(&self, row: usize) -> f64 {
        let of_loss = self.row_loss(row, 0, &self.kept[0][row].outputs).to_kink;
        let relu = self.plan.config.activation == Activation::Relu;
        let sums = self.kept.iter().filter(|_| relu).flat_map(|kept| kept[row].sums.concat());
        sums.fold(of_loss, |nearest, x| nearest.min(x.abs()))
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
            let mut largest = 0.0f64;
            for (i, d) in tensor.data.iter_mut().enumerate() {
                let slope = match (place, norm) {
                    (Some((t, l, is_weight)), _) => self.by_parameter(t, l, i, is_weight),
                    (None, Some((t, l, is_gain))) => self.by_norm(t, l, i, is_gain),
                    (None, None) => self.by_log_std(i),
                };
                *d = slope.mean as f32;
                largest = largest.max(slope.size);
            }
            sizes.push(largest);
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
