//! What the host gives kernels and reads of them per iteration: coefficients, and figures.

use super::run_sizes;
use super::shared::{Figures, Settings, StepFactors};
use crate::algorithm::{PolicyConfig, PolicyFigures, PolicyMetrics, PolicyPlan, Schedule};
use crate::config::TrainConfig;
use crate::engine::Iterated;
use crate::error::PolicyError;
use crate::error::{Error, Result};
use crate::fused::objective::{MOST_CELLS, cells};
use crate::optimiser::{OptimiserConfig, UpdateRule};
use crate::world::World;
use warp_core::EnvSpec;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceStruct, DeviceValue};
use warp_func::{EpisodeTotals, Spread};

/// What the kernels' figures say of an iteration of a run of one policy.
///
/// # Errors
/// A policy that diverged.
pub(super) fn iterated(row: &Figures, config: &TrainConfig, env_steps: u64) -> Result<Iterated> {
    let samples = config.steps_per_iteration() as f64;
    let policy = policy_figures(row, &config.policies[0], samples, env_steps)?;
    let (sum, min, max) = (row.episode_lengths, -row.minus_shortest, row.longest);
    let lengths = Spread { sum, min, max };
    let (sum, min, max) = (row.episode_returns, -row.minus_smallest, row.largest);
    let returns = Spread { sum, min, max };
    let episodes = EpisodeTotals {
        count: row.n_episodes as u64,
        length: spread(row.n_episodes, lengths),
        returns: vec![spread(row.n_episodes, returns)],
        statistics: Vec::new(),
    };
    Ok(Iterated { episodes, policies: vec![policy], phases: None })
}

/// The figures of all ranks, iteration by iteration: sums and what is largest of all; norms are the same on each.
///
/// # Errors
/// Ranks that have lost each other.
pub(super) fn of_all_ranks(world: &World, mut rows: Vec<Figures>) -> Result<Vec<Figures>> {
    if world.is_alone() {
        return Ok(rows);
    }
    let mut words = Vec::new();
    rows.iter().for_each(|row| row.put(&mut words));
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    let parts = world.all_gather("figures", &bytes)?;
    let of = |part: &Vec<u8>| -> Vec<Figures> {
        let words = part.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        figures(&words.collect::<Vec<u32>>())
    };
    let mut parts = parts.iter().map(of);
    rows = parts.next().unwrap_or_default();
    for part in parts {
        rows.iter_mut().zip(&part).for_each(|(sum, row)| add(sum, row));
    }
    Ok(rows)
}

/// Takes in what another rank says of the same iteration.
fn add(sum: &mut Figures, row: &Figures) {
    for (sum, x) in [
        (&mut sum.returns, row.returns),
        (&mut sum.returns_squared, row.returns_squared),
        (&mut sum.residuals, row.residuals),
        (&mut sum.residuals_squared, row.residuals_squared),
        (&mut sum.n_episodes, row.n_episodes),
        (&mut sum.episode_lengths, row.episode_lengths),
        (&mut sum.episode_returns, row.episode_returns),
        (&mut sum.policy_loss, row.policy_loss),
        (&mut sum.value_loss, row.value_loss),
        (&mut sum.entropy, row.entropy),
        (&mut sum.approx_kl, row.approx_kl),
        (&mut sum.clip_fraction, row.clip_fraction),
    ] {
        *sum += x;
    }
    for (most, x) in [
        (&mut sum.longest, row.longest),
        (&mut sum.largest, row.largest),
        (&mut sum.minus_shortest, row.minus_shortest),
        (&mut sum.minus_smallest, row.minus_smallest),
        (&mut sum.non_finite, row.non_finite),
    ] {
        *most = most.max(x);
    }
}

/// `of` these numbers, if there are any.
pub(super) fn spread(count: f64, of: Spread) -> Spread {
    if count > 0.0 { of } else { Spread::default() }
}

/// As [`policy_metrics`], with means of the rollout.
///
/// # Errors
/// A policy that diverged.
pub(super) fn policy_figures(
    row: &Figures,
    plan: &PolicyPlan,
    samples: f64,
    env_steps: u64,
) -> Result<PolicyFigures> {
    let metrics = PolicyFigures::from(policy_metrics(row, plan, samples, env_steps)?);
    let (returns, residuals) = (row.returns / samples, row.residuals / samples);
    let means = [
        ("mean_value", returns - residuals),
        ("mean_return", returns),
        ("mean_advantage", residuals),
    ];
    let rate = plan.config.critic_learning_rate.as_ref();
    let rate = rate.map(|rate| ("critic_learning_rate", rate.at(env_steps)));
    let steps = plan.config.target_kl.map(|_| ("optimiser_steps", row.n_updates));
    Ok(metrics.iter().chain(means).chain(rate).chain(steps).collect())
}

/// What an update's figures say of the policy `plan`, which has `samples` in a rollout.
///
/// # Errors
/// A policy that diverged.
pub(super) fn policy_metrics(
    row: &Figures,
    plan: &PolicyPlan,
    samples: f64,
    env_steps: u64,
) -> Result<PolicyMetrics> {
    let keys = &plan.config;
    if row.non_finite != 0.0 {
        let reason = PolicyError::NonFiniteGradient { norm: row.grad_norm };
        return Err(Error::Policy { policy: plan.name.clone(), reason });
    }
    let variance = |sum: f64, squares: f64| squares / samples - (sum / samples).powi(2);
    let all = variance(row.returns, row.returns_squared);
    let residuals = variance(row.residuals, row.residuals_squared);
    let (vf_coef, ent_coef) = (keys.vf_coef.at(env_steps), keys.ent_coef.at(env_steps));
    Ok(PolicyMetrics {
        learning_rate: keys.learning_rate.at(env_steps),
        loss: row.policy_loss + vf_coef * row.value_loss - ent_coef * row.entropy,
        policy_loss: row.policy_loss,
        value_loss: row.value_loss,
        entropy: row.entropy,
        approx_kl: row.approx_kl,
        clip_fraction: row.clip_fraction,
        grad_norm: row.grad_norm,
        explained_variance: if all > 0.0 { 1.0 - residuals / all } else { 0.0 },
    })
}

/// Coefficients of the `n` iterations from `at(0)` on for a run of one policy; see [`schedule_of`].
pub(super) fn schedule(
    config: &TrainConfig,
    done: u64,
    n: u64,
    at: impl Fn(u64) -> u64,
) -> Vec<u32> {
    schedule_of(config, 0, done, n, at)
}

/// The learning rates of a policy: of all its parameters, or of the policy's and of the value's network.
fn rates(keys: &PolicyConfig) -> impl Iterator<Item = &Schedule> {
    std::iter::once(&keys.learning_rate).chain(&keys.critic_learning_rate)
}

/// Words of a `Schedule` of order.cuh for policy `index`.
pub(super) fn schedule_width(config: &TrainConfig, index: usize) -> usize {
    let keys = &config.policies[index].config;
    let factors = run_sizes::n_updates(config, index) * StepFactors::WORDS;
    Settings::WORDS + rates(keys).count() * (factors + usize::from(run_sizes::decays(keys)))
}

/// The objective's coefficients after so many steps, for which [`super::refusal`] has seen to it that there
/// is room.
fn cells_at(plan: &PolicyPlan, spec: &EnvSpec, env_steps: u64) -> [f32; MOST_CELLS] {
    let known = plan.rollouts.as_ref().map(|rollouts| cells(&rollouts.objective));
    let changed = plan.config.clip_coef.changes().then(|| plan.on_policy(spec).ok()).flatten();
    let changed = changed.map(|algorithm| cells(&algorithm.objective(env_steps)));
    changed.or(known).unwrap_or_default()
}

/// What policy `index` learns with in the `n` iterations from `at(0)` on, a `Schedule` each. The optimiser has
/// made `done` steps. Where epochs may end early, the kernel corrects the learning rate by the steps made until then.
pub(super) fn schedule_of(
    config: &TrainConfig,
    index: usize,
    done: u64,
    n: u64,
    at: impl Fn(u64) -> u64,
) -> Vec<u32> {
    let plan = &config.policies[index];
    let keys = &plan.config;
    let updates = run_sizes::n_updates(config, index) as u64;
    let mut words = Vec::new();
    for i in 0..n {
        let settings = Settings {
            vf_coef: keys.vf_coef.at(at(i)) as f32,
            ent_coef: keys.ent_coef.at(at(i)) as f32,
            gamma: keys.gamma.at(at(i)) as f32,
            gae_lambda: keys.gae_lambda.at(at(i)) as f32,
            cells: cells_at(plan, &config.spec, at(i)),
            max_grad_norm: keys.max_grad_norm.at(at(i)) as f32,
            adam_eps: keys.adam_eps as f32,
        };
        settings.put(&mut words);
        for rate in rates(keys) {
            let first = done + i * updates + 1;
            for step in first..first + updates {
                let factors = match run_sizes::may_end_early(plan) {
                    false => step_factors(&plan.optimiser_config(), rate.at(at(i)), step),
                    true => uncorrected(rate.at(at(i))),
                };
                factors.put(&mut words);
            }
        }
        if run_sizes::decays(keys) {
            let keep = |rate: &Schedule| 1.0 - rate.at(at(i)) * keys.weight_decay;
            words.extend(rates(keys).map(|rate| (keep(rate) as f32).to_bits()));
        }
    }
    words
}

/// Factors of step number `step`, from 1, of this size.
fn step_factors(optimiser: &OptimiserConfig, learning_rate: f64, step: u64) -> StepFactors {
    let t = step as f64;
    match optimiser.rule {
        UpdateRule::Adam => StepFactors {
            step_size: (learning_rate / (1.0 - optimiser.beta_1.powf(t))) as f32,
            inverse_bias_correction2_sqrt: (1.0 / (1.0 - optimiser.beta_2.powf(t)).sqrt()) as f32,
        },
        UpdateRule::RmsProp => uncorrected(learning_rate),
    }
}

/// The factors without the correction of moments that began with zeros.
fn uncorrected(learning_rate: f64) -> StepFactors {
    StepFactors { step_size: learning_rate as f32, inverse_bias_correction2_sqrt: 1.0 }
}

/// The figures that a kernel wrote, one after the other.
pub(super) fn figures(words: &[u32]) -> Vec<Figures> {
    words.chunks_exact(Figures::WORDS).map(Figures::take).collect()
}

/// Doubles that a kernel wrote.
pub(super) fn doubles(array: &DeviceArray) -> Result<Vec<f64>> {
    Ok(array.pull::<u32>()?.chunks_exact(2).map(f64::take).collect())
}
