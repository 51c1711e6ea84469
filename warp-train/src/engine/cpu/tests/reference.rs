//! What an update changes, in f64: models, moments and counters, with slow and plain optimisation.

use super::fixture::Fixture;
use crate::algorithm::{PolicyConfig, Variant};
use crate::model::NamedTensor;
use crate::optimiser::UpdateRule;
use crate::run::gradcheck::replay::{Networks, Row, objectives, part_of, wide};
use std::collections::BTreeMap;

/// How far a parameter is moved for its difference: relu's bends are seldom within it.
const REACH: f64 = 1e-6;
/// How much a moment may differ, as a share of itself and of the largest of its model.
const OF_ITSELF: f64 = 1e-5;
const OF_LARGEST: f64 = 1e-6;
/// How much a parameter may differ, as a share of the learning rate.
const OF_RATE: f64 = 1e-4;
/// Gradients below this share of the model's largest are tiny: Adam divides by them, and their f32's last
/// digits are left of many that cancelled.
const TINY: f64 = 1e-3;

/// Adam's moments of a model.
#[derive(Debug, Clone)]
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
}

/// All that an update changes.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    networks: Networks,
    moments: BTreeMap<String, Moments>,
    n_steps: BTreeMap<String, u64>,
    keys: PolicyConfig,
}

impl Reference {
    /// The state of a fixture's engine.
    pub(super) fn of(fixture: &Fixture) -> Self {
        let state = fixture.engine.state();
        let keys = fixture.policy.config.clone();
        let models = &fixture.engine.plan().models;
        let names = models.iter().map(|model| model.name.as_str());
        let networks = Networks::read(&state.weights, names, keys.activation);
        let mut moments = BTreeMap::new();
        for model in models {
            assert!(!networks.parameters(&model.name).is_empty(), "there is no {}", model.name);
            if model.target_of.is_none() {
                let first = flat(&state.moments, &model.name, ".exp_avg");
                let second = flat(&state.moments, &model.name, ".exp_avg_sq");
                moments.insert(model.name.clone(), Moments { first, second });
            }
        }
        Self { networks, moments, n_steps: state.steps.into_iter().collect(), keys }
    }

    /// The update of `variant` that the fixture's engine has just made: the last variant is a whole update, one
    /// before it moves the first optimiser's models alone.
    pub(super) fn update(&mut self, fixture: &Fixture, variant: Variant) {
        let (rows, before) = (fixture.batch(), self.networks.clone());
        let whole = variant.0 + 1 == fixture.algorithm.n_variants();
        let objectives = objectives(fixture.engine.plan());
        assert!(!objectives.is_empty());
        for objective in objectives.into_iter().take(if whole { usize::MAX } else { 1 }) {
            let keys = self.keys.clone();
            let given = |row: &Row| (objective.given)(&keys, &before, row);
            let given: Vec<Vec<f64>> = rows.iter().map(given).collect();
            // The critics of an actor are those of after their step.
            self.descend(objective.name, objective.models, |networks| {
                let loss = |i: usize| (objective.loss)(&keys, networks, &rows[i], &given[i]);
                (0..rows.len()).map(loss).sum::<f64>() / rows.len() as f64
            });
        }
        let follows = |model: &&crate::algorithm::Model| whole && model.target_of.is_some();
        for model in fixture.engine.plan().models.iter().filter(follows) {
            self.follow(&model.name);
        }
    }

    /// One step of the optimiser that makes `loss`, a function of the networks, smaller by moving `models`.
    fn descend(&mut self, optimiser: &str, models: &[&str], loss: impl Fn(&Networks) -> f64) {
        let gradients: Vec<Vec<f64>> =
            models.iter().map(|model| gradient(&self.networks, model, &loss)).collect();
        let norm = gradients.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        let limit = self.keys.max_grad_norm.at(0);
        // As torch.nn.utils.clip_grad_norm_ does it.
        let scale = if limit > 0.0 { (limit / (norm + 1e-6)).min(1.0) } else { 1.0 };
        let n_steps = self.n_steps.get_mut(optimiser).unwrap();
        *n_steps += 1;
        let (rate, epsilon) = (self.keys.learning_rate.at(0), self.keys.adam_eps);
        // A temperature is no weight.
        let decay = if optimiser == "temperature" { 0.0 } else { self.keys.weight_decay };
        let is_adam = self.keys.optimiser == UpdateRule::Adam;
        let [correction_1, correction_2] = [0.9_f64, 0.999].map(|b| 1.0 - b.powf(*n_steps as f64));
        for (model, gradient) in models.iter().zip(gradients) {
            let Moments { first, second } = self.moments.get_mut(*model).unwrap();
            let mut parameters = self.networks.parameters(model);
            for (i, p) in parameters.iter_mut().enumerate() {
                let g = scale * gradient[i];
                *p -= rate * decay * *p;
                if !is_adam {
                    second[i] = 0.99 * second[i] + 0.01 * g * g;
                    *p -= rate * g / (second[i].sqrt() + epsilon);
                    continue;
                }
                first[i] = 0.9 * first[i] + 0.1 * g;
                second[i] = 0.999 * second[i] + 0.001 * g * g;
                let denominator = (second[i] / correction_2).sqrt() + epsilon;
                *p -= rate * (first[i] / correction_1) / denominator;
            }
            self.networks.set_parameters(model, &parameters);
        }
    }

    /// Moves a target by the share tau towards its model.
    fn follow(&mut self, target: &str) {
        let source = self.networks.parameters(target.strip_suffix("_target").unwrap());
        let tau = self.keys.tau;
        let pairs = self.networks.parameters(target).into_iter().zip(source);
        let moved: Vec<f64> = pairs.map(|(t, s)| tau * s + (1.0 - tau) * t).collect();
        self.networks.set_parameters(target, &moved);
    }

    /// Expects that an engine's state is this one, but for the rounding of f32.
    pub(super) fn compare(&self, found: &Self) {
        assert_eq!(self.n_steps, found.n_steps);
        for (name, expected) in &self.moments {
            let moments = &found.moments[name];
            close(&format!("first moments of {name}"), &expected.first, &moments.first);
            close(&format!("second moments of {name}"), &expected.second, &moments.second);
        }
        let rate = self.keys.learning_rate.at(0);
        for (source, suffix) in self.moments.keys().flat_map(|name| [(name, ""), (name, "_target")])
        {
            let name = format!("{source}{suffix}");
            let (expected, found) =
                (self.networks.parameters(&name), found.networks.parameters(&name));
            if expected.is_empty() && !suffix.is_empty() {
                continue;
            }
            let second = &self.moments[source].second;
            let tiny = TINY * TINY * largest(second);
            let mut n_compared = 0;
            for (i, (x, y)) in expected.iter().zip(&found).enumerate() {
                let tiny = second[i] > 0.0 && second[i] < tiny;
                n_compared += usize::from(!tiny);
                let most = if tiny { 2.0 * rate } else { OF_RATE * rate };
                let what = format!("parameter {i} of {name} is {y}, expected {x}");
                assert!((x - y).abs() <= most, "{what}");
            }
            assert!(3 * n_compared > 2 * expected.len(), "{name}: most gradients are tiny");
        }
    }
}

/// What a model's tensors with `suffix` behind their names hold.
fn flat(tensors: &[NamedTensor], model: &str, suffix: &str) -> Vec<f64> {
    let own = tensors
        .iter()
        .filter(|tensor| part_of(tensor, model).is_some_and(|part| part.ends_with(suffix)));
    own.flat_map(|tensor| wide(&tensor.data)).collect()
}

/// The derivatives of `loss` by the parameters of `model`.
fn gradient(networks: &Networks, model: &str, loss: impl Fn(&Networks) -> f64) -> Vec<f64> {
    let parameters = networks.parameters(model);
    let mut moved = networks.clone();
    let mut at = |i: usize, by: f64| {
        let mut parameters = parameters.clone();
        parameters[i] += by;
        moved.set_parameters(model, &parameters);
        loss(&moved)
    };
    let slope = |i: usize| (at(i, REACH) - at(i, -REACH)) / (2.0 * REACH);
    (0..parameters.len()).map(slope).collect()
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()))
}

fn close(what: &str, expected: &[f64], found: &[f64]) {
    assert_eq!(expected.len(), found.len(), "{what}");
    let largest = largest(expected);
    assert!(largest > 0.0 || found.iter().all(|x| *x == 0.0), "{what}");
    for (i, (x, y)) in expected.iter().zip(found).enumerate() {
        let most = OF_ITSELF * x.abs() + OF_LARGEST * largest;
        assert!((x - y).abs() <= most, "{what}: number {i} is {y}, expected {x}");
    }
}
