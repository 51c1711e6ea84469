//! The network in f64, layer by layer: what it computes for a row, and what a change of one unit makes of that.

use crate::model::{Activation, LAYER_NORM_EPSILON, NamedTensor};

/// A linear layer; weights `[outputs, inputs]`.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) weight: Vec<f64>,
    pub(super) bias: Vec<f64>,
    pub(super) norm: Option<Norm>,
}

/// Layer norm behind a layer.
#[derive(Debug, Clone)]
pub(super) struct Norm {
    pub(super) name: String,
    pub(super) gain: Vec<f64>,
    pub(super) shift: Vec<f64>,
}

impl Norm {
    pub(super) fn unit(x: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        x.iter().map(|x| (x - mean) / (variance + f64::from(LAYER_NORM_EPSILON)).sqrt()).collect()
    }

    pub(super) fn apply(&self, x: &[f64]) -> Vec<f64> {
        let moved = self.gain.iter().zip(&self.shift);
        Self::unit(x).iter().zip(moved).map(|(x, (gain, shift))| x * gain + shift).collect()
    }
}

impl Layer {
    pub(super) fn find(weights: &[NamedTensor], name: &str) -> Option<Self> {
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

    pub(super) fn n_in(&self) -> usize {
        self.weight.len() / self.bias.len()
    }

    pub(super) fn forward(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks_exact(self.n_in());
        let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        rows.zip(&self.bias).map(|(row, bias)| bias + dot(row)).collect()
    }

    /// What is behind the layer's normalisation, if it has one.
    pub(super) fn normed(&self, raw: &[f64]) -> Vec<f64> {
        self.norm.as_ref().map_or_else(|| raw.to_vec(), |norm| norm.apply(raw))
    }

    /// Adds to the outputs what a change of one input makes.
    pub(super) fn add_change(&self, unit: usize, change: f64, outputs: &mut [f64]) {
        let column = self.weight[unit..].iter().step_by(self.n_in());
        outputs.iter_mut().zip(column).for_each(|(y, w)| *y += w * change);
    }
}

/// Hidden layers and the heads that read the last of them.
#[derive(Debug)]
pub(super) struct Tower {
    pub(super) hidden: Vec<Layer>,
    pub(super) heads: Vec<Layer>,
}

/// What a tower computed for one row.
#[derive(Debug)]
pub(super) struct Kept {
    /// Inputs of the first layer, then of the next, and so on; last: of the heads.
    pub(super) inputs: Vec<Vec<f64>>,
    /// What each hidden layer gave, before its normalisation if it has one.
    pub(super) raw: Vec<Vec<f64>>,
    /// What went into each activation.
    pub(super) sums: Vec<Vec<f64>>,
    pub(super) outputs: Vec<Vec<f64>>,
}

impl Tower {
    pub(super) fn forward(&self, activation: Activation, obs: &[f64]) -> Kept {
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
    pub(super) fn after(
        &self,
        l: usize,
        mut sums: Vec<f64>,
        activation: Activation,
    ) -> Vec<Vec<f64>> {
        for layer in &self.hidden[l + 1..] {
            sums.iter_mut().for_each(|x| *x = activate(activation, *x));
            sums = layer.normed(&layer.forward(&sums));
        }
        sums.iter_mut().for_each(|x| *x = activate(activation, *x));
        self.heads.iter().map(|head| head.forward(&sums)).collect()
    }

    /// The heads' outputs if `unit` of hidden layer `l` got `change` more before its activation.
    pub(super) fn behind(
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

pub(super) fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
    }
}
