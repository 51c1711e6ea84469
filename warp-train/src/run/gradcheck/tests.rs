//! Networks and actions of every kind pass; a gradient that is wrong, however little, does not.

use super::*;
use crate::algorithm::table::ALGORITHMS;
use crate::loss::actions::Actions;
#[cfg(feature = "burn")]
use crate::run::learner::BurnLearner;
use crate::run::learner::Learner;
use crate::run::learner::NativeLearner;

fn config(keys: &str) -> TrainConfig {
    let config = TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap();
    CheckBatch::shorten(config, OPTIONS.rows)
}

const OPTIONS: CheckOptions = CheckOptions { rows: 40, seed: 3 };

fn batches(config: &TrainConfig) -> Vec<CheckBatch> {
    collected(config, OPTIONS)
}

fn collected(config: &TrainConfig, options: CheckOptions) -> Vec<CheckBatch> {
    let mut learner = NativeLearner::new(config, 1).unwrap();
    CheckBatch::collect(config, &warp_envs::registry(), &mut learner, options).unwrap()
}

fn compared(config: &TrainConfig, batches: &[CheckBatch]) -> Vec<Comparison> {
    let mut native = NativeLearner::new(config, 1).unwrap();
    let mut ranks = SplitGradients::new(config, 3).unwrap();
    let mut sources: Vec<&mut dyn GradientSource> = vec![&mut native, &mut ranks];
    #[cfg(feature = "burn")]
    let mut burn = BurnLearner::new(config, 1).unwrap();
    #[cfg(feature = "burn")]
    sources.push(&mut burn);
    compare(config, batches, &mut sources).unwrap()
}

fn check(keys: &str) {
    let config = config(keys);
    let found = compared(&config, &batches(&config));
    assert!(found.iter().all(Comparison::passed), "{keys}: {found:#?}");
    let pairs = [
        ("native", "differences"),
        ("native", "ranks"),
        ("ranks", "differences"),
        #[cfg(feature = "burn")]
        ("native", "burn"),
        #[cfg(feature = "burn")]
        ("burn", "differences"),
    ];
    for (backend, against) in pairs {
        assert!(found.iter().any(|c| c.backend == backend && c.against == against));
    }
    // No comparison of nothing with nothing.
    let of_weights = |c: &&Comparison| c.tensor.ends_with("weight") && c.against == "differences";
    assert!(found.iter().filter(of_weights).any(|c| c.error > 0.0), "{keys}");
}

#[test]
fn every_algorithm_that_learns_from_rollouts_has_a_formula() {
    let plan = &config("env_id = \"cartpole\"").policies[0];
    let known: Vec<_> = losses(plan).iter().map(|(algorithm, _)| *algorithm).collect();
    let entries = ALGORITHMS.iter().filter(|entry| !entry.is_off_policy());
    assert_eq!(entries.map(|entry| entry.name).collect::<Vec<_>>(), known);
    for entry in ALGORITHMS {
        let plan = PolicyPlan { algorithm: entry, ..plan.clone() };
        assert_eq!(knows_loss(&plan), !entry.is_off_policy(), "{}", entry.name);
    }
}

#[test]
fn separate_and_shared_networks_pass() {
    check("env_id = \"cartpole\"\nhidden = [16, 12]");
    check("env_id = \"cartpole\"\nhidden = [9, 7, 5]\nshared_trunk = true\nactivation = \"relu\"");
    check("env_id = \"acrobot\"\nhidden = []\nclip_vloss = false\nnorm_obs = true");
}

#[test]
fn normalised_layers_pass() {
    check("env_id = \"cartpole\"\nhidden = [16, 12]\nlayer_norm = true");
    check(
        "env_id = \"acrobot\"\nhidden = [9, 7, 5]\nshared_trunk = true\nactivation = \"relu\"\n\
         layer_norm = true\nalgorithm = \"a2c\"",
    );
    check("env_id = \"pendulum\"\nhidden = [6]\nlog_std = \"state_dependent\"\nlayer_norm = true");
}

#[test]
fn continuous_actions_pass() {
    check("env_id = \"pendulum\"\nhidden = [11]\naction_distribution = \"squashed\"");
    check(
        "env_id = \"pendulum\"\nhidden = [8, 8]\nshared_trunk = true\n\
         log_std = \"state_dependent\"",
    );
    check(
        "env_id = \"pendulum\"\nhidden = [6]\nlog_std = \"state_dependent\"\n\
         action_distribution = \"squashed\"",
    );
}

#[test]
fn several_policies_with_several_heads_and_agents_that_leave_pass() {
    check(
        "env_id = \"tag_continuous\"\nhidden = [10]\n[env]\nnum_taggers = 2\nnum_runners = 4\n\
         tagging_distance = 0.2\nepisode_length = 15",
    );
}

#[test]
fn masked_choices_pass() {
    let config = config(
        "env_id = \"tag_continuous\"\nhidden = [8]\n[env]\nnum_taggers = 1\nnum_runners = 2",
    );
    let mut batches = batches(&config);
    for (batch, plan) in batches.iter_mut().zip(&config.policies) {
        let Actions::Discrete(actions) = &batch.actions else { panic!("two discrete heads") };
        let sizes = plan.layout.head_sizes();
        for (at, action) in actions.iter().enumerate() {
            let size = sizes[at % sizes.len()] as i32;
            let allowed = (0..size).map(|j| u8::from(j == *action || (j + at as i32) % 3 != 0));
            batch.action_mask.extend(allowed);
        }
    }
    let masked = compared(&config, &batches);
    assert!(masked.iter().all(Comparison::passed), "{masked:#?}");
}

#[test]
fn more_ranks_than_rows_are_refused() {
    let config = config("env_id = \"cartpole\"\nhidden = [8]");
    let mut ranks = SplitGradients::new(&config, 41).unwrap();
    let error = compare(&config, &batches(&config), &mut [&mut ranks]).unwrap_err().to_string();
    assert!(error.starts_with("41 ranks can't share "), "{error}");
}

/// A backend that is wrong in one element, by a factor; whether it calls itself half.
struct Wrong(NativeLearner, f32, bool);

impl GradientSource for Wrong {
    fn backend(&self) -> &'static str {
        "wrong"
    }

    fn is_half(&self) -> bool {
        self.2
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        let (metrics, mut gradient) = self.0.gradient(policy, weights, minibatch, loss)?;
        let bias = gradient.iter_mut().find(|tensor| tensor.name == "policy_head.bias").unwrap();
        bias.data[0] *= self.1;
        Ok((metrics, gradient))
    }
}

#[test]
fn a_wrong_gradient_is_found_where_it_is() {
    let config = config("env_id = \"cartpole\"\nhidden = [8]");
    let batches = batches(&config);
    let mut found = Vec::new();
    for (factor, half) in [(1.001, false), (1.1, true)] {
        let mut wrong = Wrong(NativeLearner::new(&config, 1).unwrap(), factor, half);
        found = compare(&config, &batches, &mut [&mut wrong]).unwrap();
        let failed: Vec<&str> =
            found.iter().filter(|c| !c.passed()).map(|c| c.tensor.as_str()).collect();
        assert_eq!(failed, ["policy_head.bias", "policy_head.bias"], "{factor}");
    }
    let nan = Comparison { error: f64::NAN, ..found[0].clone() };
    assert!(!nan.passed());
}

/// A backend that rounds weights and observations to the eleven bits of a half, or the eight of bf16.
struct Rounded {
    learner: NativeLearner,
    is_bf16: bool,
}

impl Rounded {
    fn new(config: &TrainConfig, is_bf16: bool) -> Self {
        Self { learner: NativeLearner::new(config, 1).unwrap(), is_bf16 }
    }

    fn rounded(&self, numbers: &[f32]) -> Vec<f32> {
        let dropped = if self.is_bf16 { 16 } else { 13 };
        let half = 1 << (dropped - 1);
        let one = |x: &f32| f32::from_bits((x.to_bits() + half) >> dropped << dropped);
        numbers.iter().map(one).collect()
    }
}

impl GradientSource for Rounded {
    fn backend(&self) -> &'static str {
        "rounded"
    }

    fn is_half(&self) -> bool {
        true
    }

    fn is_bf16(&self) -> bool {
        self.is_bf16
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        let of = |t: &NamedTensor| NamedTensor { data: self.rounded(&t.data), ..t.clone() };
        let weights: Vec<_> = weights.iter().map(of).collect();
        let observations = self.rounded(minibatch.observations);
        let minibatch = Minibatch { observations: &observations, ..*minibatch };
        self.learner.gradient(policy, &weights, &minibatch, loss)
    }
}

/// The value's gradients nearly cancel in tag_gridworld, where most observations are alike.
#[test]
fn half_precision_is_held_against_a_looser_bound_and_what_cancels_is_no_excuse() {
    for keys in ["env_id = \"cartpole\"", "env_id = \"tag_gridworld\"\nhidden = [32, 32]"] {
        let config = config(keys);
        let batches = batches(&config);
        let mut native = NativeLearner::new(&config, 1).unwrap();
        let mut half = Rounded::new(&config, false);
        let found = compare(&config, &batches, &mut [&mut native, &mut half]).unwrap();
        let worst = |backend: &str| {
            let of = found.iter().filter(|c| c.backend == backend && c.against == "differences");
            of.fold(0.0f64, |worst, c| worst.max(c.error))
        };
        assert!(found.iter().all(Comparison::passed), "{keys}: {found:#?}");
        assert!(worst("native") <= BOUND && worst("rounded") > BOUND, "{keys}: {found:#?}");
    }
}

#[test]
fn rows_are_left_out_where_rounding_may_move_a_relu_across_its_kink() {
    let config = config("env_id = \"pendulum\"\nactivation = \"relu\"\nhidden = [64, 64]");
    let batches = batches(&config);
    for (is_bf16, least) in [(false, 25), (true, 10)] {
        let mut half = Rounded::new(&config, is_bf16);
        let found = compare(&config, &batches, &mut [&mut half]).unwrap();
        assert!(found.iter().all(Comparison::passed), "{found:#?}");
        let Rows { compared, left_out } = found[0].rows;
        assert!(compared >= least && left_out > 0, "{compared} and {left_out}");
    }
    // Among the others, bf16 does move some.
    let sources: &mut [&mut dyn GradientSource] = &mut [&mut Rounded::new(&config, true)];
    let margin = Margin { rounding: None, ..margin(sources) };
    let found = compare_beyond(margin, &config, &batches, sources).unwrap();
    assert!(!found.iter().all(Comparison::passed), "{found:#?}");
}

#[test]
fn a_batch_has_as_many_rows_as_are_asked_for() {
    let config = config("env_id = \"tag_continuous\"\nhidden = [8]\n[env]\nnum_taggers = 1");
    for rows in [1, 40, 145, 1000] {
        let batches =
            collected(&CheckBatch::shorten(config.clone(), rows), CheckOptions { rows, seed: 3 });
        assert!(
            batches.len() == 2 && batches.iter().all(|batch| batch.returns.len() == rows),
            "{rows}"
        );
    }
}

#[test]
fn gradients_of_zero_are_refused() {
    let config = config("env_id = \"pendulum\"\nhidden = [8]\nvf_coef = 0\nent_coef = 0");
    let mut batches = batches(&config);
    batches[0].advantages.fill(0.0);
    let mut native = NativeLearner::new(&config, 1).unwrap();
    let error = compare(&config, &batches, &mut [&mut native]).unwrap_err().to_string();
    assert!(error.contains("ppo's gradient over") && error.contains("rows is 0"), "{error}");
}

#[test]
fn own_values_are_the_networks() {
    for keys in ["env_id = \"cartpole\"", "env_id = \"pendulum\"\nshared_trunk = true"] {
        let config = config(keys);
        let batch = batches(&config).remove(0);
        let own = batch.with_own_values(&config.policies[0]).unwrap();
        let mut native = NativeLearner::new(&config, 1).unwrap();
        let mut state = crate::model::LearnerState::default();
        let policy = &config.policies[0].name;
        state.add_policy(policy, batch.weights.clone(), Vec::new(), 0);
        native.load_state(&state).unwrap();
        let n = batch.returns.len();
        let mut outputs = vec![0.0; n * config.policies[0].layout.output_width()];
        let mut values = vec![0.0; n];
        native.forward(0, &batch.obs, n, &mut outputs, &mut values).unwrap();
        for (row, (a, b)) in own.values.iter().zip(&values).enumerate() {
            assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{keys}, row {row}: {a} and {b}");
            let target = own.values[row] + own.advantages[row];
            assert!((target - own.returns[row]).abs() < 1e-5 * (1.0 + target.abs()));
        }
    }
}

#[test]
fn a_scene_of_nothing_but_kinks_is_refused() {
    let config = config("env_id = \"cartpole\"\nhidden = [8]");
    let mut batches = batches(&config);
    batches[0].sample_weights.fill(0.0);
    let mut native = NativeLearner::new(&config, 1).unwrap();
    let error = compare(&config, &batches, &mut [&mut native]).unwrap_err().to_string();
    assert!(error.contains("none of 40 rows") && error.contains("use more rows"), "{error}");
}
