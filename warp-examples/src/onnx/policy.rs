//! The nodes of a policy: normalisation, perceptrons, and what their outputs mean.

use super::graph::Builder;
use super::proto::{BOOL, FLOAT, INT64};
use anyhow::{Context, Result, bail};
use warp_sample::{ActionLayout, Bounding, CategoricalLayout, GaussianLayout};
use warp_train::algorithm::{Learns, PolicyPlan};
use warp_train::model::{Activation, LAYER_NORM_EPSILON, NamedTensor};
use warp_train::normalise::CLIP;
use warp_train::{Learner, TrainConfig};

/// A file, and what goes in and comes out of it.
#[derive(Debug, Clone)]
pub struct Exported {
    /// The file.
    pub bytes: Vec<u8>,
    /// Inputs and outputs with their types and shapes, in words.
    pub about: String,
}

/// Policy number `policy` of a run, as `learner` has it.
///
/// # Errors
/// A network or an algorithm of a program's own, of which only the program knows what it computes.
pub fn export(config: &TrainConfig, learner: &mut dyn Learner, policy: usize) -> Result<Exported> {
    let plan = &config.policies[policy];
    if let Some(network) = &plan.config.network {
        bail!("policy \"{}\" has the network \"{network}\", which a program added", plan.name);
    }
    let (tensors, _, _) = learner.state().of_policy(&plan.name);
    let mut graph = Builder::default();
    let width = plan.group(&config.spec).observation_width();
    let mut about = vec![format!("in: obs f32 [n, {width}]")];
    let obs = graph.input("obs", FLOAT, width);
    let factors = learner.normaliser(policy)?.and_then(|normaliser| normaliser.factors());
    let x = match factors {
        Some(factors) => normalised(&mut graph, &obs, factors),
        None => obs,
    };
    let mut network = Network { graph: &mut graph, tensors: &tensors, plan };
    let outputs = match plan.algorithm.learns {
        Learns::FromRollouts(_) => network.actor_critic(&x)?,
        Learns::FromReplay(make) => {
            let planned = make(plan, &config.spec)?.plan;
            let made = planned.greedy.outputs.map(|function| function.name);
            network.acting_model(&x, &planned.acting_model().name, made)?
        }
    };
    match &plan.layout {
        ActionLayout::Discrete(heads) => {
            let mask_width = plan.group(&config.spec).mask_width();
            discrete(&mut graph, &outputs, heads, mask_width, &mut about);
        }
        ActionLayout::Continuous(elements) => {
            continuous(&mut graph, &outputs, elements, &mut about)
        }
    }
    if let Some(value) = &outputs.value {
        let axes = graph.integers("value_axes", &[1]);
        let value = graph.add("Squeeze", &[value, &axes], "value_flat", &[]);
        graph.output(&value, "value", FLOAT, None);
        about.push("value f32 [n]".into());
    }
    let properties = [
        ("env_id", config.run.env_id.clone()),
        ("algorithm", plan.algorithm.name.to_string()),
        ("policy", plan.name.clone()),
    ];
    Ok(Exported { bytes: graph.file(&plan.name, &properties), about: about.join(", ") })
}

/// Names of what a network gives.
struct Outputs {
    /// Logits, or means.
    policy: String,
    /// Log standard deviations, where they are not next to nothing.
    log_std: Option<String>,
    value: Option<String>,
}

/// A policy's networks on their way into a graph.
struct Network<'a> {
    graph: &'a mut Builder,
    tensors: &'a [NamedTensor],
    plan: &'a PolicyPlan,
}

impl Network<'_> {
    fn find(&self, name: &str) -> Option<&NamedTensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Layer `name` over `x`.
    fn linear(&mut self, x: &str, name: &str) -> Result<String> {
        let missing = || format!("policy \"{}\" has no layer \"{name}\"", self.plan.name);
        let find = |part: &str| self.find(&format!("{name}.{part}")).with_context(missing);
        let (weight, bias) = (find("weight")?.clone(), find("bias")?.clone());
        let weight = self.graph.floats(&weight.name, &weight.shape, &weight.data);
        let bias = self.graph.floats(&bias.name, &bias.shape, &bias.data);
        Ok(self.graph.add("Gemm", &[x, &weight, &bias], name, &[("transB", 1)]))
    }

    /// Layer norm `name` over `x`.
    fn layer_norm(&mut self, x: &str, name: &str) -> Result<String> {
        let missing = || format!("policy \"{}\" has no normalisation \"{name}\"", self.plan.name);
        let find = |part: &str| self.find(&format!("{name}.{part}")).with_context(missing);
        let (gain, shift) = (find("weight")?.clone(), find("bias")?.clone());
        let graph = &mut *self.graph;
        let axes = graph.integers(&format!("{name}.axes"), &[1]);
        let n = graph.floats(&format!("{name}.width"), &[1], &[gain.data.len() as f32]);
        let epsilon = graph.floats(&format!("{name}.epsilon"), &[1], &[LAYER_NORM_EPSILON]);
        let gain = graph.floats(&gain.name, &gain.shape, &gain.data);
        let shift = graph.floats(&shift.name, &shift.shape, &shift.data);
        let mut add = |operator: &str, inputs: &[&str], part: &str| {
            graph.add(operator, inputs, &format!("{name}.{part}"), &[])
        };
        let sum = add("ReduceSum", &[x, &axes], "sum");
        let mean = add("Div", &[&sum, &n], "mean");
        let centred = add("Sub", &[x, &mean], "centred");
        let squares = add("Mul", &[&centred, &centred], "squares");
        let sum = add("ReduceSum", &[&squares, &axes], "sum_of_squares");
        let variance = add("Div", &[&sum, &n], "variance");
        let variance = add("Add", &[&variance, &epsilon], "variance_and_epsilon");
        let deviation = add("Sqrt", &[&variance], "deviation");
        let unit = add("Div", &[&centred, &deviation], "unit");
        let scaled = add("Mul", &[&unit, &gain], "scaled");
        Ok(add("Add", &[&scaled, &shift], "normalised"))
    }

    /// The hidden layers `prefix.0`, `prefix.1` and so on over `x`.
    fn hidden(&mut self, x: &str, prefix: &str) -> Result<String> {
        let function = match self.plan.config.activation {
            Activation::Tanh => "Tanh",
            Activation::Relu => "Relu",
        };
        let mut x = x.to_string();
        for layer in 0.. {
            let name = format!("{prefix}.{layer}");
            if self.find(&format!("{name}.weight")).is_none() {
                break;
            }
            let mut sums = self.linear(&x, &name)?;
            // `actor_norm.0` behind `actor.0`; `q.norm.0` behind `q.0`.
            for norm in [format!("{prefix}_norm.{layer}"), format!("{prefix}.norm.{layer}")] {
                if self.find(&format!("{norm}.weight")).is_some() {
                    sums = self.layer_norm(&sums, &norm)?;
                }
            }
            x = self.graph.add(function, &[&sums], &format!("{name}.activated"), &[]);
        }
        Ok(x)
    }

    /// What an algorithm that learns from rollouts acts by.
    fn actor_critic(&mut self, x: &str) -> Result<Outputs> {
        let shared = self.find("trunk.0.weight").is_some();
        let actor = self.hidden(x, if shared { "trunk" } else { "actor" })?;
        let critic = if shared { actor.clone() } else { self.hidden(x, "critic")? };
        let policy = self.linear(&actor, "policy_head")?;
        let log_std = match self.find("log_std").cloned() {
            Some(tensor) => {
                // As many rows as there are means.
                let zero = self.graph.floats("zero", &[1], &[0.0]);
                let zeros = self.graph.add("Mul", &[&policy, &zero], "zeros", &[]);
                let own = self.graph.floats("log_std_parameter", &tensor.shape, &tensor.data);
                Some(self.graph.add("Add", &[&zeros, &own], "log_std_rows", &[]))
            }
            None if self.find("log_std_head.weight").is_some() => {
                Some(self.linear(&actor, "log_std_head")?)
            }
            None => None,
        };
        let value = Some(self.linear(&critic, "value_head")?);
        Ok(Outputs { policy, log_std, value })
    }

    /// What an algorithm that learns from a replay memory acts by: `model`, whose outputs `made` turns into
    /// what the actions' layout reads.
    fn acting_model(&mut self, x: &str, model: &str, made: Option<&str>) -> Result<Outputs> {
        let hidden = self.hidden(x, model)?;
        let output = self.linear(&hidden, &format!("{model}.head"))?;
        let alone = |policy| Outputs { policy, log_std: None, value: None };
        let dim = self.plan.layout.action_width();
        match (made, &self.plan.layout) {
            (None, ActionLayout::Discrete(_)) | (Some("outputs"), ActionLayout::Continuous(_)) => {
                Ok(alone(output))
            }
            (None, ActionLayout::Continuous(_)) => {
                let mean = columns(self.graph, &output, 0..dim, "mean_part");
                let log_std = columns(self.graph, &output, dim..2 * dim, "log_std_part");
                Ok(Outputs { log_std: Some(log_std), ..alone(mean) })
            }
            (Some("duel"), ActionLayout::Discrete(heads)) => {
                let state = columns(self.graph, &output, 0..1, "state_value");
                let of = columns(self.graph, &output, 1..1 + heads.width(), "action_advantages");
                let mean = self.graph.integers("advantage_axes", &[1]);
                let sum = self.graph.add("ReduceSum", &[&of, &mean], "advantage_sum", &[]);
                let n = self.graph.floats("n_actions", &[1], &[heads.width() as f32]);
                let mean = self.graph.add("Div", &[&sum, &n], "advantage_mean", &[]);
                let q = self.graph.add("Add", &[&state, &of], "q_with_mean", &[]);
                Ok(alone(self.graph.add("Sub", &[&q, &mean], "q", &[])))
            }
            (made, _) => bail!(
                "policy \"{}\" of {} uses {}, which cannot be exported to ONNX",
                self.plan.name,
                self.plan.algorithm.name,
                made.unwrap_or("a network of its own")
            ),
        }
    }
}

/// `(x - mean) * scale`, cut off.
fn normalised(graph: &mut Builder, x: &str, factors: &[(f32, f32)]) -> String {
    let (means, scales): (Vec<f32>, Vec<f32>) = factors.iter().copied().unzip();
    let means = graph.floats("obs_mean", &[means.len()], &means);
    let scales = graph.floats("obs_scale", &[scales.len()], &scales);
    let centred = graph.add("Sub", &[x, &means], "obs_centred", &[]);
    let scaled = graph.add("Mul", &[&centred, &scales], "obs_scaled", &[]);
    clipped(graph, &scaled, [-CLIP, CLIP], "obs_normalised")
}

fn clipped(graph: &mut Builder, x: &str, [low, high]: [f32; 2], name: &str) -> String {
    let low = graph.floats(&format!("{name}_low"), &[], &[low]);
    let high = graph.floats(&format!("{name}_high"), &[], &[high]);
    graph.add("Clip", &[x, &low, &high], name, &[])
}

/// Some columns of `x`.
fn columns(graph: &mut Builder, x: &str, range: std::ops::Range<usize>, name: &str) -> String {
    let mut bound = |part: &str, at: usize| graph.integers(&format!("{name}_{part}"), &[at as i64]);
    let (starts, ends, axes) =
        (bound("starts", range.start), bound("ends", range.end), bound("axes", 1));
    graph.add("Slice", &[x, &starts, &ends, &axes], name, &[])
}

/// Logits with masks, and the likeliest choice of each head.
fn discrete(
    graph: &mut Builder,
    outputs: &Outputs,
    heads: &CategoricalLayout,
    mask_width: usize,
    about: &mut Vec<String>,
) {
    let mut logits = outputs.policy.clone();
    if mask_width > 0 {
        let mask = graph.input("action_mask", BOOL, mask_width);
        let never = graph.floats("never", &[1], &[f32::MIN]);
        logits = graph.add("Where", &[&mask, &logits, &never], "masked_logits", &[]);
        about.push(format!("action_mask bool [n, {mask_width}]"));
    }
    let mut first = 0;
    let mut choices = Vec::new();
    for (head, size) in heads.sizes().iter().enumerate() {
        let own = columns(graph, &logits, first..first + size, &format!("head_{head}"));
        let attributes = [("axis", 1), ("keepdims", 1)];
        choices.push(graph.add("ArgMax", &[&own], &format!("choice_{head}"), &attributes));
        first += size;
    }
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    let action = graph.add("Concat", &choices, "choices", &[("axis", 1)]);
    graph.output(&action, "action", INT64, Some(heads.n_heads()));
    graph.output(&logits, "logits", FLOAT, Some(heads.width()));
    about.push(format!("out: action i64 [n, {}]", heads.n_heads()));
    about.push(format!("logits f32 [n, {}]", heads.width()));
}

/// Means, log standard deviations within their range, and the mean brought within the bounds.
fn continuous(
    graph: &mut Builder,
    outputs: &Outputs,
    elements: &GaussianLayout,
    about: &mut Vec<String>,
) {
    let dim = elements.dim();
    let column = |place: usize| -> Vec<f32> {
        (0..dim).map(|element| elements.constants(element)[place]).collect()
    };
    let mut vector = |name: &str, place: usize| graph.floats(name, &[dim], &column(place));
    let action = match elements.bounding() {
        Bounding::Clip => {
            let (low, high) = (vector("action_low", 0), vector("action_high", 1));
            let raised = graph.add("Max", &[&outputs.policy, &low], "action_raised", &[]);
            graph.add("Min", &[&raised, &high], "action_clipped", &[])
        }
        Bounding::Squash => {
            let (centre, half) = (vector("action_centre", 2), vector("action_half_range", 3));
            let share = graph.add("Tanh", &[&outputs.policy], "action_share", &[]);
            let off = graph.add("Mul", &[&share, &half], "action_off_centre", &[]);
            graph.add("Add", &[&off, &centre], "action_squashed", &[])
        }
    };
    graph.output(&action, "action", FLOAT, Some(dim));
    graph.output(&outputs.policy, "mean", FLOAT, Some(dim));
    about.push(format!("out: action f32 [n, {dim}]"));
    about.push(format!("mean f32 [n, {dim}]"));
    if let Some(log_std) = &outputs.log_std {
        let (low, high) = elements.log_std_range();
        let log_std = clipped(graph, log_std, [low, high], "log_std_within");
        graph.output(&log_std, "log_std", FLOAT, Some(dim));
        about.push(format!("log_std f32 [n, {dim}]"));
    }
}
