//! Gradients of the losses against central finite differences of the f64 reference.

use super::reference::{Reference, gaussian};
use super::*;

/// Loads weights larger than the initial ones, so that ratios and values get clipped; no bias is
/// exactly zero, where a rectifier has a kink.
fn policy(config: &NetworkConfig) -> BurnPolicy {
    let mut policy = BurnPolicy::new(config, OptimiserConfig::default(), 3).unwrap();
    let mut tensors = policy.tensors();
    for tensor in &mut tensors.weights {
        let discrete = !config.layout.head_sizes().is_empty();
        let gain = if discrete && tensor.name.starts_with("policy_head") { 60.0 } else { 1.0 };
        for (i, value) in tensor.data.iter_mut().enumerate() {
            *value = *value * gain + 0.05 * ((i * 37 % 11) as f32 - 4.7);
        }
    }
    policy.load_tensors(&tensors).unwrap();
    policy
}

fn set(arrays: &mut Arrays, at: usize, action: i32) {
    let Actions::Discrete(actions) = &mut arrays.actions else { unreachable!() };
    actions[at] = action;
}

/// The gradient buffer under the names and in the layout of the tensors: one plain Adam step with
/// fresh moments leaves a tenth of the gradient in `exp_avg`.
fn named_gradients(policy: &mut BurnPolicy) -> Vec<NamedTensor> {
    policy.step(&StepSizes::new(0.0, f64::INFINITY)).unwrap();
    let tensors = policy.tensors().optimizer;
    tensors.into_iter().filter(|tensor| tensor.name.ends_with(".exp_avg")).collect()
}

fn check(config: &NetworkConfig, loss: &Formula) {
    let mut arrays = match &config.layout {
        ActionLayout::Discrete(heads) => Arrays::new(37, config.observation_width, heads.sizes()),
        ActionLayout::Continuous(_) => Arrays::continuous(37, config.observation_width, 2),
    };
    let mut policy = policy(config);
    let mut reference = Reference::new(config, &policy.tensors());
    if let (ActionLayout::Continuous(elements), Actions::Continuous(raw)) =
        (&config.layout, &arrays.actions)
    {
        // Around the present ones, or all ratios lie outside the clipping range.
        for (i, log_prob) in arrays.log_probs.iter_mut().enumerate() {
            let (outputs, _) = reference.forward(&arrays.observations[i * 3..][..3]);
            let (now, _) = gaussian(&outputs, &raw[i * 2..][..2], elements.bounding());
            *log_prob = now as f32 + 0.17 * ((i % 7) as f32 - 3.0);
        }
    }
    let metrics = policy.gradients(&arrays.minibatch(), &loss.into(), 2).unwrap();
    let truth = reference.loss(&arrays, loss);
    assert!((metrics.loss - truth).abs() < 1e-5, "loss {} instead of {truth}", metrics.loss);
    if matches!(loss, Formula::Ppo(_)) {
        assert!((0.2..0.98).contains(&metrics.clip_fraction), "{metrics:?}");
        assert!(metrics.approx_kl > 0.0);
    }
    let step = 1e-6;
    for gradient in named_gradients(&mut policy) {
        let name = gradient.name.trim_end_matches(".exp_avg");
        let at = reference.weights.iter().position(|(n, _)| n == name).unwrap();
        for (i, &tenth) in gradient.data.iter().enumerate() {
            let mut shifted = |by: f64| {
                reference.weights[at].1[i] += by;
                let loss = reference.loss(&arrays, loss);
                reference.weights[at].1[i] -= by;
                loss
            };
            let expected = (shifted(step) - shifted(-step)) / (2.0 * step);
            let found = f64::from(tenth) * 10.0;
            assert!(
                (found - expected).abs() < 2e-5 + 1e-4 * expected.abs(),
                "{name}[{i}]: {found} instead of {expected}"
            );
        }
    }
}

#[test]
fn ppo_matches_finite_differences() {
    let clipped = Formula::Ppo(PpoConfig { ent_coef: 0.1, ..PpoConfig::default() });
    let plain = Formula::Ppo(PpoConfig { clip_vloss: false, ..PpoConfig::default() });
    check(&config(&[6, 5], Activation::Tanh, false), &clipped);
    check(&config(&[6], Activation::Tanh, true), &plain);
    check(&config(&[], Activation::Tanh, false), &clipped);
}

#[test]
fn a2c_matches_finite_differences() {
    let loss = Formula::A2c(A2cConfig { ent_coef: 0.1, ..A2cConfig::default() });
    check(&config(&[6, 5], Activation::Relu, false), &loss);
    check(&config(&[6, 5], Activation::Tanh, true), &loss);
}

#[test]
fn continuous_actions_match_finite_differences() {
    let ppo = Formula::Ppo(PpoConfig { ent_coef: 0.1, ..PpoConfig::default() });
    let a2c = Formula::A2c(A2cConfig { ent_coef: 0.1, ..A2cConfig::default() });
    for bounding in [Bounding::Clip, Bounding::Squash] {
        for log_std in [LogStd::StateIndependent, LogStd::StateDependent] {
            let shared = log_std == LogStd::StateDependent;
            let config = config(&[6, 5], Activation::Tanh, shared);
            let config =
                NetworkConfig { layout: boxed(bounding), log_std, log_std_init: -0.3, ..config };
            check(&config, &ppo);
            check(&config, &a2c);
        }
    }
}

#[test]
fn forward_matches_the_reference() {
    let config = config(&[6, 5], Activation::Tanh, false);
    let (policy, n) = (policy(&config), 9);
    let arrays = Arrays::new(n, 3, config.layout.head_sizes());
    let (mut logits, mut values) = (vec![0.0; n * 5], vec![0.0; n]);
    policy.forward(&arrays.observations, n, 1, &mut logits, &mut values).unwrap();
    let reference = Reference::new(&config, &policy.tensors());
    for i in 0..n {
        let (expected, value) = reference.forward(&arrays.observations[i * 3..][..3]);
        assert!((f64::from(values[i]) - value).abs() < 1e-5);
        for (found, expected) in logits[i * 5..].iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5);
        }
    }
}

#[test]
fn rows_of_weight_zero_may_hold_anything() {
    let config = config(&[4], Activation::Tanh, false);
    let loss = Formula::Ppo(PpoConfig::default());
    let mut arrays = Arrays::new(9, 3, config.layout.head_sizes());
    let mut clean = policy(&config);
    let expected = clean.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap();
    for i in [2, 5, 8] {
        arrays.advantages[i] = f32::NAN;
        arrays.returns[i] = f32::INFINITY;
        set(&mut arrays, i * 2, -7);
        arrays.action_mask[i * 5..][..5].fill(0);
    }
    let mut dirty = policy(&config);
    assert_eq!(dirty.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap(), expected);
    assert_eq!(dirty.gradient_buffer_mut(), clean.gradient_buffer_mut());
    arrays.weights.fill(0.0);
    let none = dirty.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap();
    assert_eq!(none, LossMetrics::default());
    assert!(dirty.gradient_buffer_mut().iter().all(|&g| g == 0.0));
}

#[test]
fn wrong_input_is_an_error() {
    let config = config(&[4], Activation::Tanh, false);
    let mut policy = policy(&config);
    let loss = Formula::Ppo(PpoConfig::default());
    let mut arrays = Arrays::new(4, 3, config.layout.head_sizes());
    arrays.action_mask.fill(1);
    set(&mut arrays, 3, 2);
    let error = policy.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap_err();
    assert!(error.to_string().contains("row 1 has action 2 for head 1"), "{error}");
    set(&mut arrays, 3, 1);
    arrays.weights[3] = -1.0;
    let error = policy.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap_err();
    assert_eq!(error, PolicyError::InvalidWeight { row: 3, weight: -1.0 });
    arrays.weights[3] = 1.0;
    arrays.observations.pop();
    let error = policy.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap_err();
    assert!(error.to_string().contains("\"observations\" has 11 elements"), "{error}");
    let mut arrays = Arrays::new(4, 3, config.layout.head_sizes());
    arrays.observations[0] = f32::NAN;
    let error = policy.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap_err();
    assert!(
        matches!(error, PolicyError::NonFiniteOutput { output: "policy outputs", .. }),
        "{error}"
    );
    let mut arrays = Arrays::new(4, 3, config.layout.head_sizes());
    arrays.advantages[0] = f32::NAN;
    policy.gradients(&arrays.minibatch(), &(&loss).into(), 1).unwrap();
    assert!(matches!(
        policy.step(&StepSizes::new(1e-3, 0.5)),
        Err(PolicyError::NonFiniteGradient { .. })
    ));
    let not_a_number = PpoConfig { clip_coef: f32::NAN, ..PpoConfig::default() };
    assert!(policy.gradients(&arrays.minibatch(), &not_a_number.into(), 1).is_err());
    let empty = NetworkConfig { observation_width: 0, ..config };
    assert!(BurnPolicy::new(&empty, OptimiserConfig::default(), 1).is_err());
}
