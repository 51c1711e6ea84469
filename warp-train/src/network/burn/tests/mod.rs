//! The policy as a whole: gradients against finite differences, threads, checkpoints, own networks.

mod checkpoints;
mod gradients;
mod off_policy;
mod reference;
mod threads;

use super::*;
use crate::error::PolicyError;
use crate::loss::a2c::A2cConfig;
use crate::loss::actions::Actions;
use crate::loss::ppo::PpoConfig;
use crate::loss::{LossMetrics, Minibatch};
use crate::model::{Activation, NamedTensor, NetworkConfig, PolicyTensors};
use crate::model::{Init, LogStd};
use crate::network::StepSizes;
use crate::optimiser::OptimiserConfig;
use crate::run::gradcheck::Formula;
use warp_sample::{ActionLayout, Bounding, CategoricalLayout, GaussianLayout};

/// A minibatch's arrays, made from a small generator of our own.
struct Arrays {
    observations: Vec<f32>,
    actions: Actions,
    log_probs: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    values: Vec<f32>,
    weights: Vec<f32>,
    action_mask: Vec<u8>,
}

impl Arrays {
    /// `n` rows for observations of `width` numbers; every third row weighs 0.
    fn new(n: usize, width: usize, head_sizes: &[usize]) -> Self {
        let mut state = 12_345_u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let actions: Vec<i32> =
            (0..n).flat_map(|_| head_sizes).map(|&size| (draw() * size as f32) as i32).collect();
        let mut action_mask = Vec::new();
        for row in actions.chunks(head_sizes.len()) {
            for (&action, &size) in row.iter().zip(head_sizes) {
                let allowed = |j: usize| j == action as usize || draw() < 0.7;
                action_mask.extend((0..size).map(allowed).map(u8::from));
            }
        }
        Self {
            observations: (0..n * width).map(|_| draw() * 4.0 - 2.0).collect(),
            log_probs: (0..n).map(|_| -1.5 + draw()).collect(),
            advantages: (0..n).map(|_| draw() * 4.0 - 2.0).collect(),
            returns: (0..n).map(|_| draw() * 2.0 - 1.0).collect(),
            values: (0..n).map(|_| draw() * 2.0 - 1.0).collect(),
            weights: (0..n).map(|i| if i % 3 == 2 { 0.0 } else { 0.5 + draw() }).collect(),
            actions: Actions::Discrete(actions),
            action_mask,
        }
    }

    /// The same with raw samples of `dim` elements and no mask.
    fn continuous(n: usize, width: usize, dim: usize) -> Self {
        let mut arrays = Self::new(n, width, &[1]);
        let raw = (0..n * dim).map(|i| (i * 29 % 23) as f32 / 8.0 - 1.4);
        arrays.actions = Actions::Continuous(raw.collect());
        arrays.action_mask.clear();
        arrays
    }

    fn minibatch(&self) -> Minibatch<'_> {
        Minibatch {
            observations: &self.observations,
            actions: self.actions.view(),
            log_probs: &self.log_probs,
            advantages: &self.advantages,
            returns: &self.returns,
            values: &self.values,
            whole: None,
            weights: Some(&self.weights),
            action_mask: (!self.action_mask.is_empty()).then_some(&*self.action_mask),
        }
    }
}

fn config(hidden: &[usize], activation: Activation, shared_trunk: bool) -> NetworkConfig {
    NetworkConfig {
        observation_width: 3,
        layout: discrete(&[3, 2]),
        hidden: hidden.to_vec(),
        activation,
        layer_norm: false,
        shared_trunk,
        init: Init::Orthogonal,
        log_std: LogStd::StateIndependent,
        log_std_init: 0.0,
    }
}

/// Half of the range of each element of [`boxed`].
const HALF_RANGE: [f32; 2] = [2.0, 0.5];

fn boxed(bounding: Bounding) -> ActionLayout {
    ActionLayout::Continuous(GaussianLayout::new(&[-2.0, 0.0], &[2.0, 1.0], bounding).unwrap())
}

fn discrete(sizes: &[usize]) -> ActionLayout {
    ActionLayout::Discrete(CategoricalLayout::new(sizes).unwrap())
}
