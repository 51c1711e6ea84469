//! Losses of algorithms that learn from a replay memory, as burn tensors that burn derives by itself,
//! against what the native engine's row functions and passes make of the same batch.

use crate::algorithm::PolicyConfig;
use crate::config::TrainConfig;
use crate::model::{Activation, NamedTensor};
use crate::run::gradcheck::replay::{FedUpdate, Row, fed_update, part_of};
use crate::run::gradcheck::{CheckBatch, CheckOptions};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor, TensorData};

/// As between burn and the native learner's other losses.
const BOUND: f32 = 2e-4;

/// Layers as leaves that gradients belong to.
struct Network {
    /// Weights `[outputs, inputs]`, biases `[1, outputs]`.
    layers: Vec<[Tensor<2>; 2]>,
    activation: Activation,
}

impl Network {
    fn apply(&self, mut x: Tensor<2>) -> Tensor<2> {
        for (i, [weight, bias]) in self.layers.iter().enumerate() {
            x = x.matmul(weight.clone().transpose()) + bias.clone();
            x = if i + 1 < self.layers.len() { self.activation.apply(x) } else { x };
        }
        x
    }
}

/// An update's batch and networks.
struct Update {
    fed: FedUpdate,
    keys: PolicyConfig,
}

/// What an optimiser moves, and the loss that it makes smaller.
type Loss = (&'static [&'static str], Tensor<1>);

const TWINS: [&str; 2] = ["critic_1", "critic_2"];

impl Update {
    fn new(keys: &str) -> Self {
        let registry = warp_envs::registry();
        let config = TrainConfig::resolve(&keys.parse().unwrap(), &registry).unwrap();
        let options = CheckOptions { rows: 40, seed: 5 };
        let config = CheckBatch::shorten(config, options.rows);
        let fed = fed_update(&config, &registry, options).unwrap();
        Self { fed, keys: config.policies[0].config.clone() }
    }

    fn network(&self, model: &str) -> Network {
        let own = self.fed.weights.iter().filter(|tensor| part_of(tensor, model).is_some());
        let leaf = |t: &&NamedTensor| {
            let shape = [t.data.len() / t.shape.last().unwrap().max(&1), *t.shape.last().unwrap()];
            matrix(t.data.clone(), shape).require_grad()
        };
        let own: Vec<&NamedTensor> = own.collect();
        let layers = own.chunks(2).map(|pair| [leaf(&pair[0]), leaf(&pair[1])]).collect();
        Network { layers, activation: self.keys.activation }
    }

    fn column(&self, of: impl Fn(&Row) -> Vec<f64>) -> Tensor<2> {
        let numbers: Vec<f32> = self.fed.rows.iter().flat_map(of).map(|x| x as f32).collect();
        let n = self.fed.rows.len();
        let width = numbers.len() / n;
        matrix(numbers, [n, width])
    }

    fn obs(&self) -> Tensor<2> {
        self.column(|row| row.obs.clone())
    }

    fn next_obs(&self) -> Tensor<2> {
        self.column(|row| row.next_obs.clone())
    }

    fn action(&self) -> Tensor<2> {
        self.column(|row| row.action.clone())
    }

    /// r + gamma `next`, a constant.
    fn target(&self, next: Tensor<2>) -> Tensor<2> {
        (self.column(|row| vec![row.reward]) + self.column(|row| vec![row.discount]) * next)
            .detach()
    }

    fn weighted(&self, losses: Tensor<2>) -> Tensor<1> {
        (self.column(|row| vec![row.weight]) * losses).mean()
    }

    /// Of rows of values, that of the choice taken.
    fn taken(&self, values: Tensor<2>) -> Tensor<2> {
        let n = values.dims()[1];
        let is_taken = |row: &Row, i: usize| f64::from(u8::from(row.action[0] as usize == i));
        let taken = self.column(|row| (0..n).map(|i| is_taken(row, i)).collect());
        (taken * values).sum_dim(1)
    }

    fn log_alpha(&self, temperature: &Network) -> Tensor<2> {
        temperature.layers[0][1].clone()
    }

    /// Compares the gradients of `losses`, of which `networks` have the leaves.
    fn compare(&self, networks: &[(&'static str, Network)], losses: Vec<Loss>) {
        let mut n_compared = 0;
        for (models, loss) in losses {
            let gradients = loss.backward();
            for (name, network) in networks.iter().filter(|(name, _)| models.contains(name)) {
                let own = |t: &&NamedTensor| part_of(t, name).is_some() && !t.data.is_empty();
                let leaves = network.layers.iter().flatten().filter(|leaf| leaf.dims()[1] > 0);
                for (tensor, leaf) in self.fed.gradients.iter().filter(own).zip(leaves) {
                    let found = leaf.grad(&gradients).unwrap().into_data();
                    let found = found.as_slice::<f32>().unwrap();
                    let scale = found.iter().fold(1e-3_f32, |scale, x| scale.max(x.abs()));
                    assert_eq!(found.len(), tensor.data.len());
                    for (a, b) in found.iter().zip(&tensor.data) {
                        let name = &tensor.name;
                        assert!((a - b).abs() < BOUND * scale, "{name}: {a} and {b}, {scale}");
                    }
                    assert!(found.iter().any(|x| *x != 0.0), "{}", tensor.name);
                    n_compared += 1;
                }
            }
        }
        let filled = self.fed.gradients.iter().filter(|tensor| !tensor.data.is_empty());
        assert_eq!(n_compared, filled.count());
    }
}

fn matrix(numbers: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(numbers, shape), &Device::flex().autodiff())
}

fn beside(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    Tensor::cat(vec![a, b], 1)
}

#[test]
fn dqn_is_burns() {
    for keys in ["double = true", "dueling = true\ndouble = false\nactivation = \"tanh\""] {
        let keys = format!("env_id = \"acrobot\"\nalgorithm = \"dqn\"\nhidden = [9, 6]\n{keys}");
        let update = Update::new(&keys);
        let (q, target) = (update.network("q"), update.network("q_target"));
        let values = |network: &Network, obs: Tensor<2>| {
            let output = network.apply(obs);
            if !update.keys.dueling {
                return output;
            }
            let [rows, width] = output.dims();
            let advantages = output.clone().slice([0..rows, 1..width]);
            output.slice([0..rows, 0..1]) + advantages.clone() - advantages.mean_dim(1)
        };
        let next = values(&target, update.next_obs());
        let own = values(&q, update.next_obs());
        let best = if update.keys.double { own } else { next.clone() }.argmax(1);
        let error = update.taken(values(&q, update.obs())) - update.target(next.gather(1, best));
        let (size, near) = (error.clone().abs(), error.abs().clamp_max(1.0));
        // Half the square up to 1, then straight on.
        let huber = near.clone().powi_scalar(2) * 0.5 + size - near;
        let loss = update.weighted(huber);
        update.compare(&[("q", q)], vec![(&["q"], loss)]);
    }
}

#[test]
fn ddpg_is_burns() {
    let update = Update::new("env_id = \"pendulum\"\nalgorithm = \"ddpg\"\nhidden = [8, 6]");
    let [actor, actor_target, critic, critic_target] =
        ["actor", "actor_target", "critic", "critic_target"].map(|name| update.network(name));
    let next = actor_target.apply(update.next_obs()).tanh();
    let target = update.target(critic_target.apply(beside(update.next_obs(), next)));
    let error = critic.apply(beside(update.obs(), update.action())) - target;
    let critic_loss = update.weighted(error.powi_scalar(2));
    let acted = actor.apply(update.obs()).tanh();
    let actor_loss = -critic.apply(beside(update.obs(), acted)).mean();
    let losses: Vec<Loss> = vec![(&["critic"], critic_loss), (&["actor"], actor_loss)];
    update.compare(&[("critic", critic), ("actor", actor)], losses);
}

#[test]
fn td3_is_burns() {
    let update = Update::new(
        "env_id = \"pendulum\"\nalgorithm = \"td3\"\nhidden = [8, 6]\nactivation = \"tanh\"\n\
         target_noise = 0.6",
    );
    let (actor, actor_target) = (update.network("actor"), update.network("actor_target"));
    let critics = TWINS.map(|name| update.network(name));
    let targets = TWINS.map(|name| update.network(&format!("{name}_target")));
    let (std, most) = (update.keys.target_noise, update.keys.target_noise_clip);
    let noise = (update.column(|row| row.next_noise.clone()) * std).clamp(-most, most);
    let next = (actor_target.apply(update.next_obs()).tanh() + noise).clamp(-1.0, 1.0);
    let next = beside(update.next_obs(), next);
    let [a, b] = targets.map(|critic| critic.apply(next.clone()));
    let target = update.target(a.min_pair(b));
    let now = beside(update.obs(), update.action());
    let square = |critic: &Network| (critic.apply(now.clone()) - target.clone()).powi_scalar(2);
    let critic_loss = update.weighted(square(&critics[0]) + square(&critics[1]));
    let acted = actor.apply(update.obs()).tanh();
    let actor_loss = -critics[0].apply(beside(update.obs(), acted)).mean();
    let [critic_1, critic_2] = critics;
    let networks = [("critic_1", critic_1), ("critic_2", critic_2), ("actor", actor)];
    update.compare(&networks, vec![(&TWINS, critic_loss), (&["actor"], actor_loss)]);
}

#[test]
fn sac_is_burns() {
    for keys in ["", "activation = \"tanh\"\nlog_std_min = -0.2\nlog_std_max = 0.1"] {
        let keys = format!("env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = [8, 6]\n{keys}");
        let update = Update::new(&keys);
        let (actor, temperature) = (update.network("actor"), update.network("temperature"));
        let critics = TWINS.map(|name| update.network(name));
        let targets = TWINS.map(|name| update.network(&format!("{name}_target")));
        let (low, high) = (update.keys.log_std_min, update.keys.log_std_max);
        // An action and its log-probability.
        let draw = |obs: Tensor<2>, noise: Tensor<2>| {
            let output = actor.apply(obs);
            let [rows, width] = output.dims();
            let means = output.clone().slice([0..rows, 0..width / 2]);
            let log_std = output.slice([0..rows, width / 2..width]).clamp(low, high);
            let action = (means + log_std.clone().exp() * noise.clone()).tanh();
            let normal = noise.powi_scalar(2) * -0.5 - log_std - 0.5 * std::f64::consts::TAU.ln();
            let slope = (-action.clone().powi_scalar(2) + 1.0).log();
            (action, (normal - slope).sum_dim(1))
        };
        let value = |critics: &[Network; 2], obs: Tensor<2>, action: Tensor<2>| {
            let x = beside(obs, action);
            critics[0].apply(x.clone()).min_pair(critics[1].apply(x))
        };
        let log_alpha = update.log_alpha(&temperature);
        let alpha = log_alpha.clone().exp().detach();
        let (next, next_log_prob) =
            draw(update.next_obs(), update.column(|row| row.next_noise.clone()));
        let next = value(&targets, update.next_obs(), next) - alpha.clone() * next_log_prob;
        let target = update.target(next);
        let now = beside(update.obs(), update.action());
        let square = |critic: &Network| (critic.apply(now.clone()) - target.clone()).powi_scalar(2);
        let critic_loss = update.weighted((square(&critics[0]) + square(&critics[1])) * 0.5);
        let (acted, log_prob) = draw(update.obs(), update.column(|row| row.noise.clone()));
        let q = value(&critics, update.obs(), acted);
        let actor_loss = (alpha * log_prob.clone() - q).mean();
        // The entropy aimed at is minus one, the number of elements.
        let temperature_loss = -(log_alpha * (log_prob - 1.0).detach()).mean();
        let [critic_1, critic_2] = critics;
        let losses: Vec<Loss> = vec![
            (&TWINS, critic_loss),
            (&["actor"], actor_loss),
            (&["temperature"], temperature_loss),
        ];
        let networks = [
            ("critic_1", critic_1),
            ("critic_2", critic_2),
            ("actor", actor),
            ("temperature", temperature),
        ];
        update.compare(&networks, losses);
    }
}

#[test]
fn sac_for_choices_is_burns() {
    let update = Update::new("env_id = \"acrobot\"\nalgorithm = \"sac\"\nhidden = [8, 6]");
    let (actor, temperature) = (update.network("actor"), update.network("temperature"));
    let critics = TWINS.map(|name| update.network(name));
    let targets = TWINS.map(|name| update.network(&format!("{name}_target")));
    let value = |critics: &[Network; 2], obs: Tensor<2>| {
        critics[0].apply(obs.clone()).min_pair(critics[1].apply(obs))
    };
    let log_alpha = update.log_alpha(&temperature);
    let alpha = log_alpha.clone().exp().detach();
    let log_p = log_softmax(actor.apply(update.next_obs()), 1);
    let soft = value(&targets, update.next_obs()) - alpha.clone() * log_p.clone();
    let target = update.target((log_p.exp() * soft).sum_dim(1));
    let square = |critic: &Network| {
        (update.taken(critic.apply(update.obs())) - target.clone()).powi_scalar(2)
    };
    let critic_loss = update.weighted((square(&critics[0]) + square(&critics[1])) * 0.5);
    let log_p = log_softmax(actor.apply(update.obs()), 1);
    let q = value(&critics, update.obs()).detach();
    let actor_loss = (log_p.clone().exp() * (alpha * log_p.clone() - q)).sum_dim(1).mean();
    let entropy = -(log_p.clone().exp() * log_p).sum_dim(1);
    let aim = 0.98 * 3.0_f64.ln();
    let temperature_loss = (log_alpha * (entropy - aim).detach()).mean();
    let [critic_1, critic_2] = critics;
    let losses: Vec<Loss> =
        vec![(&TWINS, critic_loss), (&["actor"], actor_loss), (&["temperature"], temperature_loss)];
    let networks = [
        ("critic_1", critic_1),
        ("critic_2", critic_2),
        ("actor", actor),
        ("temperature", temperature),
    ];
    update.compare(&networks, losses);
}
