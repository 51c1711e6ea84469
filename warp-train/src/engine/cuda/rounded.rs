//! A pass's derivatives with operands rounded to half precision, as on the GPU, on a processor.
//!
//! Rounding moves units of relu that are near 0 from one side to the other, and with them whole derivatives. What is
//! compared with these numbers differs from them by the order of sums only.

use crate::algorithm::{ColumnId, Gradients, ModelId, PassId};
use crate::engine::cpu::CpuEngine;
use crate::error::{Error, Result};
use crate::model::{
    Activation, Half, LAYER_NORM_EPSILON, LayerShape, NamedTensor, Perceptron, transpose,
};
use std::collections::BTreeMap;

/// The largest number of fp16.
const LARGEST_FP16: f32 = 65504.0;

/// How operands are rounded and products summed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounding {
    /// Of the forward pass: to bf16, or to fp16; those of the backward pass are bf16.
    operand: fn(f32) -> f32,
    dot: fn(&[f32], &[f32]) -> f32,
}

/// Derivatives by all that a pass reads.
#[derive(Debug)]
struct Derivatives {
    /// By its model's parameters, under their names.
    parameters: Vec<NamedTensor>,
    /// By its inputs, `[rows, inputs]`.
    inputs: Vec<f32>,
}

/// A layer's weights `[outputs, inputs]` and biases, and how its outputs are normalised, if they are.
struct Layer {
    shape: LayerShape,
    name: String,
    weight: Vec<f32>,
    bias: Vec<f32>,
    norm: Option<Norm>,
}

struct Norm {
    name: String,
    gain: Vec<f32>,
    shift: Vec<f32>,
}

/// What a normalisation keeps of its rows for the backward pass.
struct KeptNorm {
    /// Mean 0 and deviation 1, `[rows, width]`.
    unit: Vec<f32>,
    /// One over the deviation, `[rows]`.
    inverse: Vec<f32>,
}

/// What a pass keeps of a layer for its backward pass.
struct Kept {
    /// What the layer reads, in bf16.
    x: Vec<f32>,
    /// Slopes of the hidden outputs that it reads; none of a first layer.
    slopes: Vec<f32>,
    /// Of the normalisation that they come from, if there is one.
    norm: Option<KeptNorm>,
}

/// The nearest number in bf16.
fn bf16(x: f32) -> f32 {
    Half::Bf16.nearest(x.into()) as f32
}

/// The nearest finite number in fp16.
fn fp16(x: f32) -> f32 {
    (Half::Fp16.nearest(x.into()) as f32).clamp(-LARGEST_FP16, LARGEST_FP16)
}

fn rounded(numbers: &[f32], to: fn(f32) -> f32) -> Vec<f32> {
    numbers.iter().map(|x| to(*x)).collect()
}

impl Rounding {
    pub(super) fn new(is_bf16: bool) -> Self {
        Self { operand: if is_bf16 { bf16 } else { fp16 }, dot }
    }

    /// Puts derivatives with rounded operands in place of those that `cpu` has just found for `passes`.
    pub(super) fn replace(
        self,
        cpu: &mut CpuEngine,
        passes: &[PassId],
        want: Gradients,
    ) -> Result<()> {
        let mut gradients: BTreeMap<ModelId, Vec<NamedTensor>> = BTreeMap::new();
        for id in passes {
            let found = self.derivatives(cpu, *id);
            if want == Gradients::OfInput {
                replace_input(cpu, *id, &found.inputs);
                continue;
            }
            // Passes of one model add up.
            let sums = gradients.entry(cpu.plan().passes[id.0].model).or_default();
            for (at, tensor) in found.parameters.into_iter().enumerate() {
                match sums.get_mut(at) {
                    Some(sum) => sum.data.iter_mut().zip(&tensor.data).for_each(|(a, b)| *a += b),
                    None => sums.push(tensor),
                }
            }
        }
        gradients
            .iter()
            .try_for_each(|(id, gradient)| cpu.set_gradient(*id, gradient).map_err(Error::Invalid))
    }

    fn derivatives(self, cpu: &CpuEngine, id: PassId) -> Derivatives {
        let plan = cpu.plan();
        let pass = &plan.passes[id.0];
        let network = &plan.models[pass.model.0].network;
        let name = &plan.models[pass.model.0].name;
        let layers = layers(cpu, name, network);
        let column = |id: &ColumnId| (cpu.column(*id), plan.columns[id.0].width);
        let inputs: Vec<_> = pass.inputs.iter().map(column).collect();
        let rows = cpu.column(pass.output).len() / network.outputs;
        let row = |row: usize| inputs.iter().flat_map(move |(x, n)| &x[row * n..(row + 1) * n]);
        let x = (0..rows).flat_map(row).copied().collect();
        let kept = self.forward(&layers, x, network.activation);
        let d_output = pass.back.as_ref().map_or(&[][..], |back| cpu.column(back.d_output));
        self.backward(&layers, &kept, rounded(d_output, bf16))
    }

    /// Runs all layers but the last.
    fn forward(self, layers: &[Layer], mut x: Vec<f32>, activation: Activation) -> Vec<Kept> {
        let Self { operand, dot } = self;
        let mut kept: Vec<Kept> = Vec::new();
        let mut norm = None;
        for (l, Layer { shape, weight, bias, norm: next, .. }) in layers.iter().enumerate() {
            let of_relu = |y: &f32| f32::from(u8::from(*y > 0.0));
            let slopes = match (l, activation, &norm) {
                (0, ..) => Vec::new(),
                (_, Activation::Relu, _) => x.iter().map(of_relu).collect(),
                (_, _, Some(_)) => x.iter().map(|y| 1.0 - y * y).collect(),
                (_, Activation::Tanh, _) => x.iter().map(|y| 1.0 - bf16(*y) * bf16(*y)).collect(),
            };
            kept.push(Kept { x: rounded(&x, bf16), slopes, norm: norm.take() });
            if l + 1 == layers.len() {
                break;
            }
            let (weight, read) = (rounded(weight, operand), rounded(&x, operand));
            x = read
                .chunks(shape.inputs)
                .flat_map(|row| weight.chunks(shape.inputs).zip(bias).map(|(w, b)| dot(w, row) + b))
                .collect();
            norm = next.as_ref().map(|next| self.normalise(next, &mut x));
            x.iter_mut().for_each(|sum| {
                *sum = match activation {
                    Activation::Relu => sum.max(0.0),
                    Activation::Tanh => warp_core::math::tanh(*sum),
                }
            });
        }
        kept
    }

    /// Normalises sums.
    fn normalise(self, Norm { gain, shift, .. }: &Norm, sums: &mut [f32]) -> KeptNorm {
        let operand = self.operand;
        let mut kept = KeptNorm { unit: Vec::new(), inverse: Vec::new() };
        for row in sums.chunks_mut(gain.len()) {
            row.iter_mut().for_each(|x| *x = operand(*x));
            let mean = mean(row.iter().copied());
            let variance = mean_of_squares(row.iter().map(|x| x - mean));
            let inverse = 1.0 / (variance + LAYER_NORM_EPSILON).sqrt();
            kept.inverse.push(inverse);
            for ((x, gain), shift) in row.iter_mut().zip(gain).zip(shift) {
                let unit = operand((*x - mean) * inverse);
                kept.unit.push(unit);
                *x = unit * gain + shift;
            }
        }
        kept
    }

    /// From derivatives `d` by what a normalisation gave to those by sums, in place; those by gains and shifts.
    fn normalise_back(self, norm: &Norm, kept: &KeptNorm, d: &mut [f32]) -> [NamedTensor; 2] {
        let Norm { name, gain, .. } = norm;
        let width = gain.len();
        let (mut gains, mut shifts) = (vec![0.0_f64; width], vec![0.0_f64; width]);
        let rows = d.chunks_mut(width).zip(kept.unit.chunks(width)).zip(&kept.inverse);
        for ((d, unit), inverse) in rows {
            for (i, (d, unit)) in d.iter_mut().zip(unit).enumerate() {
                gains[i] += f64::from(bf16(*d * unit));
                shifts[i] += f64::from(bf16(*d));
                *d *= gain[i];
            }
            let sum = mean(d.iter().copied());
            let along = mean(d.iter().zip(unit).map(|(d, unit)| d * unit));
            for (d, unit) in d.iter_mut().zip(unit) {
                *d = bf16(inverse * (*d - sum - unit * along));
            }
        }
        [("weight", gains), ("bias", shifts)].map(|(part, sums)| NamedTensor {
            name: format!("{name}.{part}"),
            shape: vec![width],
            data: sums.into_iter().map(|sum| sum as f32).collect(),
        })
    }

    /// From derivatives `d` by the outputs to those by all parameters and inputs.
    fn backward(self, layers: &[Layer], kept: &[Kept], mut d: Vec<f32>) -> Derivatives {
        let dot = self.dot;
        let mut parameters = Vec::new();
        for (l, (layer, kept)) in layers.iter().zip(kept).enumerate().rev() {
            let (Layer { shape, name, weight, .. }, Kept { x, slopes, norm }) = (layer, kept);
            let LayerShape { inputs, outputs } = *shape;
            let tensor = |part: &str, shape: &[usize], data| NamedTensor {
                name: format!("{name}.{part}"),
                shape: shape.into(),
                data,
            };
            let rows = d.len() / outputs;
            let turned = transpose(&d, rows, outputs);
            let bias =
                turned.chunks(rows).map(|d| d.iter().map(|d| f64::from(*d)).sum::<f64>() as f32);
            parameters.push(tensor("bias", &[outputs], bias.collect()));
            let x = transpose(x, rows, inputs);
            let by_weight = turned.chunks(rows).flat_map(|d| x.chunks(rows).map(|x| dot(d, x)));
            parameters.push(tensor("weight", &[outputs, inputs], by_weight.collect()));
            let weight = transpose(&rounded(weight, bf16), outputs, inputs);
            let back = d.chunks(outputs).flat_map(|d| weight.chunks(outputs).map(|w| dot(d, w)));
            d = match (slopes.is_empty(), norm) {
                (true, _) => back.collect(),
                (_, None) => back.zip(slopes).map(|(d, slope)| bf16(d * slope)).collect(),
                (_, Some(_)) => back.zip(slopes).map(|(d, slope)| bf16(d) * slope).collect(),
            };
            let below = l.checked_sub(1).and_then(|below| layers[below].norm.as_ref());
            if let (Some(below), Some(kept)) = (below, norm) {
                parameters.extend(self.normalise_back(below, kept, &mut d));
            }
        }
        Derivatives { parameters, inputs: d }
    }
}

/// Puts derivatives by all of a pass's inputs where those by one of them belong.
fn replace_input(cpu: &mut CpuEngine, id: PassId, by_inputs: &[f32]) {
    let plan = cpu.plan();
    let pass = &plan.passes[id.0];
    let Some(to) = pass.back.as_ref().and_then(|back| back.d_input) else { return };
    let width = |id: &ColumnId| plan.columns[id.0].width;
    let first: usize = pass.inputs[..to.input].iter().map(width).sum();
    let (width, all) = (width(&to.column), pass.inputs.iter().map(width).sum());
    let rows = by_inputs.chunks(all).flat_map(|row| &row[first..first + width]);
    let column: Vec<f32> = rows.copied().collect();
    cpu.column_mut(to.column).copy_from_slice(&column);
}

fn mean(numbers: impl ExactSizeIterator<Item = f32>) -> f32 {
    let n = numbers.len() as f64;
    (numbers.map(f64::from).sum::<f64>() / n) as f32
}

fn mean_of_squares(numbers: impl ExactSizeIterator<Item = f32>) -> f32 {
    mean(numbers.map(|x| x * x))
}

fn layers(cpu: &CpuEngine, model: &str, network: &Perceptron) -> Vec<Layer> {
    let weights = cpu.state().weights;
    let find = |name: String| {
        let found = weights.iter().find(|tensor| tensor.name == name);
        found.map_or(Vec::new(), |tensor| tensor.data.clone())
    };
    let named = |name: &str| [find(format!("{name}.weight")), find(format!("{name}.bias"))];
    let layer = |(l, shape)| {
        let name = format!("{model}.{}", network.layer_name(l));
        let [weight, bias] = named(&name);
        let norm = network.norms().get(l).map(|_| {
            let name = format!("{model}.norm.{l}");
            let [gain, shift] = named(&name);
            Norm { name, gain, shift }
        });
        Layer { shape, name, weight, bias, norm }
    };
    network.layers().enumerate().map(layer).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::super::check::{apart, fill};
    use super::*;
    use crate::algorithm::{CellId, Engine, FigureId, OptimiserId, Planned, RowsId, Variant};
    use crate::config::{Sharing, TrainConfig};
    use crate::engine::off_policy::planned;

    /// What one engine does, compared with another whose derivatives are replaced.
    struct Two {
        plain: CpuEngine,
        other: CpuEngine,
        /// How those of both are rounded, if they are.
        roundings: [Option<Rounding>; 2],
        /// The largest relative difference of moments.
        most: f64,
    }

    fn both(two: &mut Two, mut of: impl FnMut(&mut CpuEngine) -> Result<()>) -> Result<()> {
        of(&mut two.plain)?;
        of(&mut two.other)
    }

    impl Engine for Two {
        fn sample(&mut self) -> Result<()> {
            both(self, |cpu| cpu.sample())
        }
        fn forward(&mut self, passes: &[PassId]) -> Result<()> {
            both(self, |cpu| cpu.forward(passes))
        }
        fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
            both(self, |cpu| cpu.backward(passes, want))?;
            for (cpu, rounding) in
                [&mut self.plain, &mut self.other].into_iter().zip(self.roundings)
            {
                rounding.map_or(Ok(()), |rounding| rounding.replace(cpu, passes, want))?;
            }
            Ok(())
        }
        fn rows(&mut self, rows: RowsId) -> Result<()> {
            both(self, |cpu| cpu.rows(rows))
        }
        fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
            both(self, |cpu| cpu.step(optimiser))?;
            let state = self.plain.state();
            for (found, expected) in self.other.state().moments.iter().zip(&state.moments) {
                self.most = self.most.max(apart(&found.data, &expected.data));
            }
            self.other.load(&state).map_err(Error::Invalid)
        }
        fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
            both(self, |cpu| cpu.polyak_update(targets, tau))
        }
        fn figures(&mut self, _: &[FigureId]) -> Result<()> {
            Ok(())
        }
    }

    /// The largest difference of moments in an update where derivatives are rounded in two ways.
    fn moments_apart(keys: &str, roundings: [Option<Rounding>; 2]) -> f64 {
        let table = format!("{keys}\nlearning_starts = 0").parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        let policy = &config.policies[0];
        let Setting { place, agents, .. } = Setting::new(&config, (0, 0));
        let engine = || {
            let Planned { plan, .. } = planned(&config, policy).unwrap();
            let activation = policy.config.activation;
            let mut cpu = CpuEngine::new(plan, place, &Sharing::default(), activation, 1).unwrap();
            fill(&mut cpu, place.n_rows, &agents);
            cpu.set_cells(0, false);
            cpu
        };
        let mut two = Two { plain: engine(), other: engine(), roundings, most: 0.0 };
        let Planned { algorithm, .. } = planned(&config, policy).unwrap();
        algorithm.update(&mut two, Variant(0)).unwrap();
        two.most
    }

    /// A sum in another order, of the kind that a GPU has.
    fn dot_in_singles(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).rev().map(|(a, b)| a * b).sum()
    }

    const DUELING: &str = "env_id = \"tag_gridworld\"\nalgorithm = \"dqn\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48, 48]\n\
                           prioritised = true\ndueling = true\nn_step = 2\n\
                           [policy.all]\ngroups = [\"tagger\", \"runner\"]";
    const SAC: &str = "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 2\nnum_steps = 8";
    const NORMED: &str = "env_id = \"pendulum\"\nalgorithm = \"td3\"\nnum_envs = 2\nnum_steps = 8\nlayer_norm = true";

    #[test]
    fn the_order_of_sums_matters_less_than_rounding() {
        for keys in [DUELING, SAC, NORMED] {
            for is_bf16 in [false, true] {
                let rounding = Rounding::new(is_bf16);
                let other = Rounding { dot: dot_in_singles, ..rounding };
                let by_rounding = moments_apart(keys, [None, Some(rounding)]);
                let by_order = moments_apart(keys, [Some(rounding), Some(other)]);
                println!("bf16 {is_bf16}: rounding {by_rounding:.4}, order {by_order:.1e}");
                assert!(by_order < 0.01 && by_order < by_rounding);
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        assert_eq!([1.0, 1.003, 3.01, -0.1].map(bf16), [1.0, 1.0, 3.015_625, -0.100_097_656]);
        assert_eq!([1.0, 1.0004, 1.0006, 1e5].map(fp16), [1.0, 1.0, 1.000_976_6, 65504.0]);
        // Halves go to the even one; the smallest number is 2^-24.
        assert_eq!([1.000_488_3, 1.001_464_8].map(fp16), [1.0, 1.001_953_1]);
        assert_eq!([2.0_f32.powi(-24), 2.0_f32.powi(-26)].map(fp16), [2.0_f32.powi(-24), 0.0]);
    }
}
