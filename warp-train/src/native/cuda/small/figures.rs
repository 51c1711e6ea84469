//! What the host gives kernels and reads of them per iteration: coefficients, and figures.

use super::text;
use crate::config::{PolicyPlan, TrainConfig};
use crate::error::{Error, Result};
use crate::learner::Iterated;
use crate::metrics::PolicyMetrics;
use crate::policy_error::PolicyError;
use warp_data::cuda::DeviceArray;
use warp_func::{EpisodeTotals, Spread};

/// What a row of the kernels' figures says of an iteration of a run of one policy.
///
/// # Errors
/// A policy that diverged.
pub(super) fn iterated(row: &[f64], config: &TrainConfig, env_steps: u64) -> Result<Iterated> {
    let samples = config.steps_per_iteration() as f64;
    let policy = policy_metrics(row, &config.policies[0], samples, env_steps)?;
    let [lengths, returns] = [0, 1].map(|i| (row[5 + i], -row[9 + i], row[7 + i]));
    let episodes = EpisodeTotals {
        count: row[4] as u64,
        length: spread(row[4], lengths),
        returns: vec![spread(row[4], returns)],
        statistics: Vec::new(),
    };
    Ok(Iterated { episodes, policies: vec![policy.into()] })
}

/// Sum, least and largest of `count` numbers.
pub(super) fn spread(count: f64, (sum, min, max): (f64, f64, f64)) -> Spread {
    if count > 0.0 { Spread { sum, min, max } } else { Spread::default() }
}

/// What a row of an update's figures says of the policy `plan`, which has `samples` in a rollout.
///
/// # Errors
/// A policy that diverged.
pub(super) fn policy_metrics(
    row: &[f64],
    plan: &PolicyPlan,
    samples: f64,
    env_steps: u64,
) -> Result<PolicyMetrics> {
    let keys = &plan.config;
    if row[17] != 0.0 {
        let source = PolicyError::NonFiniteGradient { norm: row[16] };
        return Err(Error::Policy { policy: plan.name.clone(), source });
    }
    let variance = |sum: f64, squares: f64| squares / samples - (sum / samples).powi(2);
    let (all, missed) = (variance(row[0], row[1]), variance(row[2], row[3]));
    let (vf_coef, ent_coef) = (keys.vf_coef.at(env_steps), keys.ent_coef.at(env_steps));
    Ok(PolicyMetrics {
        learning_rate: keys.learning_rate.at(env_steps),
        loss: row[11] + vf_coef * row[12] - ent_coef * row[13],
        policy_loss: row[11],
        value_loss: row[12],
        entropy: row[13],
        approx_kl: row[14],
        clip_fraction: row[15],
        grad_norm: row[16],
        explained_variance: if all > 0.0 { 1.0 - missed / all } else { 0.0 },
    })
}

/// Coefficients of the `n` iterations from `at(0)` on for a run of one policy; see [`schedule_of`].
pub(super) fn schedule(
    config: &TrainConfig,
    done: u64,
    n: u64,
    at: impl Fn(u64) -> u64,
) -> Vec<f32> {
    schedule_of(config, 0, (done, n), at)
}

/// Numbers of a `Schedule` of order.cuh with so many minibatches.
pub(super) fn schedule_width(updates: usize) -> usize {
    7 + 2 * updates
}

/// What policy `index` learns with in the `n` iterations from `at(0)` on, a `Schedule` each. Adam has made
/// `done` steps.
pub(super) fn schedule_of(
    config: &TrainConfig,
    index: usize,
    (done, n): (u64, u64),
    at: impl Fn(u64) -> u64,
) -> Vec<f32> {
    let keys = &config.policies[index].config;
    let (epochs, minibatches) = text::updates_of(config, index);
    let constants =
        [keys.gamma, keys.gae_lambda, keys.clip_coef, keys.max_grad_norm, keys.adam_eps];
    let (mut rows, mut step) = (Vec::new(), done);
    for i in 0..n {
        let learning_rate = keys.learning_rate.at(at(i));
        rows.extend([keys.vf_coef.at(at(i)), keys.ent_coef.at(at(i))].map(|x| x as f32));
        rows.extend(constants.map(|x| x as f32));
        for _ in 0..epochs * minibatches {
            step += 1;
            let t = step as f64;
            rows.push((learning_rate / (1.0 - 0.9_f64.powf(t))) as f32);
            rows.push((1.0 / (1.0 - 0.999_f64.powf(t)).sqrt()) as f32);
        }
    }
    rows
}

/// Doubles that a kernel wrote.
pub(super) fn doubles(array: &DeviceArray) -> Result<Vec<f64>> {
    Ok(as_doubles(&array.pull::<u32>()?))
}

/// Two words each, the low one first.
pub(super) fn as_doubles(words: &[u32]) -> Vec<f64> {
    let number = |word: &[u32]| f64::from_bits(u64::from(word[0]) | u64::from(word[1]) << 32);
    words.chunks_exact(2).map(number).collect()
}
