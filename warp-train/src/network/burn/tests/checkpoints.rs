//! Tensors out and in, names and layouts, and a network of the user's own.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::*;

fn update(policy: &mut BurnPolicy, arrays: &Arrays) -> LossMetrics {
    let loss = Formula::A2c(A2cConfig::default());
    let metrics = policy.gradients(&arrays.minibatch(), &(&loss).into(), 2).unwrap();
    policy.step(&StepSizes::new(1e-2, 0.5)).unwrap();
    metrics
}

#[test]
fn a_loaded_policy_continues_bit_by_bit() {
    let config = config(&[8, 4], Activation::Tanh, true);
    let arrays = Arrays::new(300, 3, config.layout.head_sizes());
    let mut policy = BurnPolicy::new(&config, OptimiserConfig::default(), 1).unwrap();
    for _ in 0..3 {
        update(&mut policy, &arrays);
    }
    let saved = policy.tensors();
    let mut other = BurnPolicy::new(&config, OptimiserConfig::default(), 2).unwrap();
    assert_ne!(other.tensors(), saved);
    // The order of the tensors doesn't matter.
    let mut shuffled = saved.clone();
    shuffled.weights.reverse();
    other.load_tensors(&shuffled).unwrap();
    assert_eq!(other.tensors(), saved);
    assert_eq!(other.n_steps(), 3);
    for _ in 0..3 {
        assert_eq!(update(&mut policy, &arrays), update(&mut other, &arrays));
    }
    assert_eq!(other.tensors(), policy.tensors());
}

#[test]
fn names_and_shapes_are_torchs() {
    let names = |hidden: &[usize], shared: bool| -> Vec<(String, Vec<usize>)> {
        let config = config(hidden, Activation::Tanh, shared);
        let policy = BurnPolicy::new(&config, OptimiserConfig::default(), 1).unwrap();
        policy.tensors().weights.into_iter().map(|t| (t.name, t.shape)).collect()
    };
    let expect = |found: Vec<(String, Vec<usize>)>, expected: &[(&str, &[usize])]| {
        let expected: Vec<_> =
            expected.iter().map(|(name, shape)| (name.to_string(), shape.to_vec())).collect();
        assert_eq!(found, expected);
    };
    let heads = |width: usize| -> [(&str, Vec<usize>); 4] {
        [
            ("policy_head.weight", vec![5, width]),
            ("policy_head.bias", vec![5]),
            ("value_head.weight", vec![1, width]),
            ("value_head.bias", vec![1]),
        ]
    };
    let [a, b, c, d] = heads(4);
    let heads = [(a.0, &a.1[..]), (b.0, &b.1[..]), (c.0, &c.1[..]), (d.0, &d.1[..])];
    let trunk: [(&str, &[usize]); 4] = [
        ("trunk.0.weight", &[8, 3]),
        ("trunk.0.bias", &[8]),
        ("trunk.1.weight", &[4, 8]),
        ("trunk.1.bias", &[4]),
    ];
    expect(names(&[8, 4], true), &[&trunk[..], &heads[..]].concat());
    let separate: [(&str, &[usize]); 4] = [
        ("actor.0.weight", &[4, 3]),
        ("actor.0.bias", &[4]),
        ("critic.0.weight", &[4, 3]),
        ("critic.0.bias", &[4]),
    ];
    expect(names(&[4], false), &[&separate[..], &heads[..]].concat());
}

#[test]
fn deviations_are_named_parameters() {
    let names = |log_std| -> Vec<(String, Vec<usize>)> {
        let plain = config(&[4], Activation::Tanh, true);
        let config =
            NetworkConfig { layout: boxed(Bounding::Clip), log_std, log_std_init: 0.7, ..plain };
        let policy = BurnPolicy::new(&config, OptimiserConfig::default(), 1).unwrap();
        let weights = policy.tensors().weights;
        let (mut outputs, mut values) = ([0.0; 4], [0.0]);
        policy.forward(&[0.0; 3], 1, 1, &mut outputs, &mut values).unwrap();
        // Zero observations: what is left are the biases, and the deviation starts where it should.
        assert_eq!(outputs, [0.0, 0.0, 0.7, 0.7]);
        weights.into_iter().skip(6).map(|t| (t.name, t.shape)).collect()
    };
    assert_eq!(names(LogStd::StateIndependent), [("log_std".to_string(), vec![2])]);
    let head = ["log_std_head.weight", "log_std_head.bias"].map(str::to_string);
    let [weight, bias] = head;
    assert_eq!(names(LogStd::StateDependent), [(weight, vec![2, 4]), (bias, vec![2])]);
}

#[test]
fn wrong_tensors_are_errors_and_change_nothing() {
    let config = config(&[4], Activation::Tanh, false);
    let mut policy = BurnPolicy::new(&config, OptimiserConfig::default(), 1).unwrap();
    let saved = policy.tensors();
    let mut fails = |change: &dyn Fn(&mut PolicyTensors), words: &str| {
        let mut tensors = saved.clone();
        tensors.weights[0].data[0] += 1.0;
        change(&mut tensors);
        let error = policy.load_tensors(&tensors).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(policy.tensors(), saved);
    };
    fails(&|t| drop(t.weights.remove(1)), "\"actor.0.bias\" of shape [4] is missing; 7 tensors");
    fails(&|t| t.weights[0].shape = vec![3, 4], "has shape [3, 4] and 12 values");
    fails(&|t| t.optimizer.push(t.weights[0].clone()), "\"actor.0.weight\" is given, but");
    fails(&|t| t.optimizer[3].data.truncate(1), "and 1 values");
}

#[derive(Module, Debug)]
struct OwnNetwork {
    body: Linear,
    policy: Linear,
    value: Linear,
}

impl PolicyNetwork for OwnNetwork {
    fn forward(&self, observations: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let x = burn::tensor::activation::gelu(self.body.forward(observations));
        (self.policy.forward(x.clone()), self.value.forward(x))
    }
}

fn own_network(device: &Device, values: usize) -> OwnNetwork {
    OwnNetwork {
        body: LinearConfig::new(3, 8).init(device),
        policy: LinearConfig::new(8, 5).init(device),
        value: LinearConfig::new(8, values).init(device),
    }
}

#[test]
fn a_network_of_the_users_own_learns() {
    let device = Device::flex();
    let adam = OptimiserConfig::default();
    let network = own_network(&device, 1);
    let mut policy =
        BurnPolicy::from_network(network, 3, discrete(&[3, 2]), adam, &device).unwrap();
    assert_eq!(policy.n_parameters(), 3 * 8 + 8 + 8 * 5 + 5 + 8 + 1);
    let arrays = Arrays::new(64, 3, &[3, 2]);
    let loss = Formula::A2c(A2cConfig::default());
    let mut losses = Vec::new();
    for _ in 0..30 {
        losses.push(policy.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap().loss);
        policy.step(&StepSizes::new(1e-2, 0.5)).unwrap();
    }
    assert!(losses[29] < losses[0]);
    assert_eq!(policy.tensors().weights[0].name, "body.weight");
    assert_eq!(policy.tensors().weights[0].shape, [8, 3]);
}

#[test]
fn outputs_of_the_wrong_shape_are_an_error() {
    let device = Device::flex();
    let network = own_network(&device, 2);
    let policy = BurnPolicy::from_network(
        network,
        3,
        discrete(&[3, 2]),
        OptimiserConfig::default(),
        &device,
    )
    .unwrap();
    let error = policy.forward(&[0.0; 6], 2, 1, &mut [0.0; 10], &mut [0.0; 2]).unwrap_err();
    assert!(error.to_string().contains("values of shape [2, 2], but [2, 1]"), "{error}");
}
