//! Gradients of algorithms that learn from a replay memory against finite differences: every parameter that an
//! update moves.
//!
//! `objective` and the files of formulas define what each optimiser minimises, from the papers; `networks`
//! has plain perceptrons, `truth` central differences. `batch` is what an update is fed: transitions of the
//! environment, each far enough from points without a derivative. An engine takes part as a [`Probe`]: it
//! makes one whole update with a learning rate of 0, and its gradients are read from Adam's moments. The
//! same formulas hold whole updates in the tests of `engine/cpu`.

mod batch;
#[cfg(feature = "cuda")]
mod cuda;
mod deterministic;
mod dqn;
mod networks;
mod objective;
mod probe;
mod sac;
mod sac_discrete;
#[cfg(test)]
mod tests;
mod truth;
mod value_distribution;

use super::kinks::{HALF_NEAR, NEAR};
use super::{BOUND, CheckOptions, Comparison, Gradient, Labels, Rows, from_moments, pairs};
use crate::algorithm::{ColumnId, Plan, Planned, PolicyPlan, Schedule, Variant};
use crate::config::{Sharing, TrainConfig};
use crate::engine::EngineState;
use crate::engine::cpu::{CpuEngine, Place};
use crate::engine::off_policy::planned;
use crate::error::{Error, Result};
use crate::loss::row::RowFunction;
use crate::model::NamedTensor;
use batch::{Batch, Pool};
pub(crate) use networks::{Networks, part_of};
use objective::Objective;
use probe::Fed;
pub(crate) use probe::Probe;
use truth::Truth;
use warp_func::Registry;

#[cfg(test)]
pub(crate) use {batch::noise, networks::wide, objective::Row};

/// A whole update on a processor: what it was fed, the weights, and their gradients, targets left out.
#[cfg(all(test, feature = "burn"))]
pub(crate) struct FedUpdate {
    pub(crate) rows: Vec<Row>,
    pub(crate) weights: Vec<NamedTensor>,
    pub(crate) gradients: Vec<NamedTensor>,
}

/// An update of the first policy of `config`.
#[cfg(all(test, feature = "burn"))]
pub(crate) fn fed_update(
    config: &TrainConfig,
    registry: &Registry,
    options: CheckOptions,
) -> Result<FedUpdate> {
    let config = prepared(config, options)?;
    let seen = batch::collect(&config, registry)?;
    let pool = Pool::of(&config.policies[0], &seen, options.seed);
    let engine = on_processor(&config, 0)?;
    let learns = |t: &&NamedTensor| {
        let models = engine.plan().models.iter().filter(|model| model.target_of.is_none());
        models.into_iter().any(|model| part_of(t, &model.name).is_some())
    };
    let moved: Vec<NamedTensor> = pool.weights.iter().filter(learns).cloned().collect();
    let (batch, states) = update(&config, 0, &pool, &mut [Box::new(engine)])?;
    let gradients = from_moments(&moved, &states[0].moments)?;
    Ok(FedUpdate { rows: batch.rows, weights: pool.weights, gradients })
}

/// Compares the gradients of the engine on the processor with finite differences: every parameter that
/// the policies of `config`, which learn from replay memories, move in an update.
///
/// # Errors
/// An algorithm whose formula is not known, an environment that can't be stepped, or networks for which
/// every transition is close to a point without a derivative.
pub fn compare_replay(
    config: &TrainConfig,
    registry: &Registry,
    options: CheckOptions,
) -> Result<Vec<Comparison>> {
    compare_beside(config, registry, options, &|_, _| Ok(Vec::new()))
}

/// As [`compare_replay`], beside the processor with the engine on a GPU: in f32 and, where networks are not too wide
/// for it, in half precision.
///
/// # Errors
/// As [`compare_replay`]; or an error of the device.
#[cfg(feature = "cuda")]
pub fn compare_replay_on(
    config: &TrainConfig,
    registry: &Registry,
    options: CheckOptions,
    kernels: &warp_func::cuda::Kernels,
) -> Result<Vec<Comparison>> {
    let on_gpu = |config: &TrainConfig, index| cuda::probes(config, registry, index, kernels);
    compare_beside(config, registry, options, &on_gpu)
}

/// Engines of policy number `index`.
type MakeProbes<'a> = &'a dyn Fn(&TrainConfig, usize) -> Result<Vec<Box<dyn Probe>>>;

fn compare_beside(
    config: &TrainConfig,
    registry: &Registry,
    options: CheckOptions,
    beside: MakeProbes<'_>,
) -> Result<Vec<Comparison>> {
    let config = prepared(config, options)?;
    let seen = batch::collect(&config, registry)?;
    let mut found = Vec::new();
    for (index, policy) in config.policies.iter().enumerate() {
        let pool = Pool::of(policy, &seen, options.seed);
        let mut probes: Vec<Box<dyn Probe>> = vec![Box::new(on_processor(&config, index)?)];
        probes.extend(beside(&config, index)?);
        found.extend(compare_policy(&config, index, &pool, &mut probes)?);
    }
    Ok(found)
}

/// The run that is short enough, and whose updates leave the parameters where they are.
fn prepared(config: &TrainConfig, options: CheckOptions) -> Result<TrainConfig> {
    if options.rows == 0 {
        return Err(Error::Invalid("rows = 0: at least one is needed".into()));
    }
    for policy in &config.policies {
        planned(config, policy)?;
    }
    let mut config = config.clone();
    for PolicyPlan { config: keys, .. } in &mut config.policies {
        keys.learning_rate = Schedule::constant(0.0);
        keys.critic_learning_rate = None;
        (keys.max_grad_norm, keys.batch_size) = (Schedule::constant(0.0), options.rows);
        (keys.to_train, keys.prioritised) = (true, false);
    }
    batch::fit_memory(&mut config);
    Ok(config)
}

fn place(config: &TrainConfig, index: usize) -> Place {
    let n_agents = config.policies[index].n_agents();
    let n_rows = config.run.num_envs * n_agents;
    let (seed, policy, first_agent, first_replica) = (config.run.seed, index, 0, 0);
    Place { seed, policy, n_rows, n_agents, first_agent, first_replica }
}

fn on_processor(config: &TrainConfig, index: usize) -> Result<CpuEngine> {
    let policy = &config.policies[index];
    let Planned { plan, .. } = planned(config, policy)?;
    CpuEngine::new(plan, place(config, index), &Sharing::default(), policy.config.activation, 1)
}

/// One whole update of each engine, all fed the same batch; what it has left.
fn update(
    config: &TrainConfig,
    index: usize,
    pool: &Pool,
    probes: &mut [Box<dyn Probe>],
) -> Result<(Batch, Vec<EngineState>)> {
    let policy = &config.policies[index];
    let Planned { plan, algorithm } = planned(config, policy)?;
    let networks = networks(policy, &plan, pool);
    let near = if probes.iter().any(|probe| probe.bound() > BOUND) { HALF_NEAR } else { NEAR };
    let (place, objectives) = (place(config, index), objectives(&plan));
    let batch = Batch::choose(policy, (&plan, &place), (&networks, &objectives), pool, near)?;
    let columns = batch.columns(&plan);
    let whole = Variant(algorithm.n_variants() - 1);
    let updated = |probe: &mut Box<dyn Probe>| {
        probe.begin(&pool.weights)?;
        algorithm.update(&mut Fed { probe: &mut **probe, columns: &columns }, whole)?;
        probe.state()
    };
    let states: Result<Vec<_>> = probes.iter_mut().map(updated).collect();
    Ok((batch, states?))
}

/// The objectives of a plan, which is known by the row function of its loss.
pub(crate) fn objectives(plan: &Plan) -> Vec<&'static Objective> {
    use crate::loss;
    let known: [(&RowFunction, &'static [Objective]); 6] = [
        (&loss::dqn::LOSS, &dqn::OBJECTIVES),
        (&loss::deterministic::CRITIC_LOSS, &deterministic::DDPG),
        (&loss::deterministic::TWIN_CRITIC_LOSS, &deterministic::TD3),
        (&loss::value_distribution::TWIN_CRITIC_LOSS, &value_distribution::TD3),
        (&loss::sac::CRITIC_LOSS, &sac::OBJECTIVES),
        (&loss::sac_discrete::CRITIC_LOSS, &sac_discrete::OBJECTIVES),
    ];
    let uses = |function: &RowFunction| plan.rows.iter().any(|rows| rows.function == function);
    let found = known.into_iter().find(|(function, _)| uses(function));
    // A temperature that is given is not learned.
    let learned = |objective: &&Objective| plan.optimisers.iter().any(|o| o.name == objective.name);
    found.map_or(Vec::new(), |(_, objectives)| objectives.iter().filter(learned).collect())
}

fn networks(policy: &PolicyPlan, plan: &Plan, pool: &Pool) -> Networks {
    let names = plan.models.iter().map(|model| model.name.as_str());
    Networks::read(&pool.weights, names, policy.config.activation)
}

fn compare_policy(
    config: &TrainConfig,
    index: usize,
    pool: &Pool,
    probes: &mut [Box<dyn Probe>],
) -> Result<Vec<Comparison>> {
    let policy = &config.policies[index];
    let Planned { plan, .. } = planned(config, policy)?;
    let objectives = objectives(&plan);
    if objectives.is_empty() {
        return Err(Error::Invalid(format!(
            "policy \"{}\": there is no formula that {}'s gradients could be compared with",
            policy.name, policy.algorithm.name
        )));
    }
    let networks = networks(policy, &plan, pool);
    let (batch, states) = update(config, index, pool, probes)?;
    let mut found = Vec::new();
    for objective in objectives {
        let owned = |tensor: &&NamedTensor| {
            objective.models.iter().any(|model| part_of(tensor, model).is_some())
        };
        let weights: Vec<NamedTensor> = pool.weights.iter().filter(owned).cloned().collect();
        let truth = Truth::of(objective, &policy.config, &networks, (&batch.rows, &weights));
        let of_probe = |(probe, state): (&dyn Probe, &EngineState)| {
            let column = plan.columns.iter().position(|c| Some(&*c.name) == objective.column);
            let losses = column.map(|at| probe.column(ColumnId(at)));
            let mean = |losses: Vec<f32>| {
                losses.iter().map(|x| f64::from(*x)).sum::<f64>() / losses.len() as f64
            };
            Ok(Gradient {
                backend: probe.backend(),
                bound: probe.bound(),
                loss: losses.transpose()?.map(mean),
                tensors: from_moments(&weights, &state.moments)?,
            })
        };
        let gradients: Result<Vec<_>> =
            probes.iter().map(|probe| &**probe).zip(&states).map(of_probe).collect();
        let rows = Rows { compared: batch.rows.len(), left_out: 0 };
        let labels = Labels { policy: &policy.name, loss: objective.name, rows };
        pairs(gradients?, truth.gradient, &labels, &truth.sizes, &mut found);
    }
    Ok(found)
}
