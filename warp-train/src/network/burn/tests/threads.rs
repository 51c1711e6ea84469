//! The number of threads changes no bit.

use super::*;

fn train(threads: usize, activation: Activation) -> (PolicyTensors, Vec<LossMetrics>, Vec<f32>) {
    let config = config(&[16, 8], activation, false);
    let arrays = Arrays::new(1500, 3, config.layout.head_sizes());
    let mut policy = BurnPolicy::new(&config, OptimiserConfig::default(), 5).unwrap();
    let loss = Formula::Ppo(PpoConfig::default());
    let mut metrics = Vec::new();
    for _ in 0..20 {
        metrics.push(policy.gradients(&arrays.minibatch(), &(&loss).into(), threads).unwrap());
        policy.step(&StepSizes::new(1e-2, 0.5)).unwrap();
    }
    let (mut logits, mut values) = (vec![0.0; 1500 * 5], vec![0.0; 1500]);
    policy.forward(&arrays.observations, 1500, threads, &mut logits, &mut values).unwrap();
    logits.extend(values);
    (policy.tensors(), metrics, logits)
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for activation in [Activation::Tanh, Activation::Relu] {
        let alone = train(1, activation);
        assert!(alone.1[19].loss < alone.1[0].loss, "training should lower the loss");
        for threads in [2, 3, 7] {
            assert!(train(threads, activation) == alone, "{threads} threads differ from one");
        }
    }
}

#[test]
fn policies_may_train_at_the_same_time() {
    let alone = train(2, Activation::Tanh);
    let all = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..3).map(|_| scope.spawn(|| train(2, Activation::Tanh))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(all.iter().all(|result| *result == alone));
}
