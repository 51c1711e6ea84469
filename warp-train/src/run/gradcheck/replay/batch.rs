//! What an update is fed: transitions that the environment really made, under actions at random.

use super::networks::{Networks, wide};
use super::objective::{Objective, Row};
use crate::algorithm::{ColumnId, Plan, PolicyPlan, Rows};
use crate::config::TrainConfig;
use crate::engine::cpu::Place;
use crate::engine::off_policy;
use crate::engine::{EngineState, Progress};
use crate::error::{Error, Result};
use crate::memory::TERMINATED;
use crate::model::{LearnerState, NamedTensor};
use warp_core::{Draw, Purpose};
use warp_func::Registry;

/// Steps of all replicas that rows are chosen from: of wide networks few are far from every bend.
const STEPS: usize = 960;
/// Deviation of what is added to each weight, so that targets differ from what they follow.
const SHIFT: f32 = 0.1;

/// Makes the memories of `config` large enough, and its learning late enough, for what is collected.
pub(super) fn fit_memory(config: &mut TrainConfig) {
    for index in 0..config.policies.len() {
        let agents = config.policies[index].n_agents();
        let keys = &mut config.policies[index].config;
        keys.buffer_size = (STEPS + config.run.num_steps) * config.run.num_envs * agents;
        keys.learning_starts = u64::MAX;
    }
}

/// What learners know that have acted at random for a while.
pub(super) fn collect(config: &TrainConfig, registry: &Registry) -> Result<LearnerState> {
    let entry = registry.get(&config.run.env_id)?;
    let mut envs = entry.make(&config.env, &config.vec_options())?;
    let mut learner = crate::run::learner::native::learner(config, 1)?;
    let progress = Progress { iteration: 0, env_steps: 0, seed: config.run.seed };
    learner.iterate(&mut *envs, progress, STEPS.div_ceil(config.run.num_steps) as u64)?;
    Ok(learner.state())
}

/// One policy's transitions and the weights at which gradients are taken.
pub(super) struct Pool {
    /// The initial ones, moved at random.
    pub(super) weights: Vec<NamedTensor>,
    rows: Vec<Row>,
}

impl Pool {
    /// Of what a learner knows.
    pub(super) fn of(policy: &PolicyPlan, seen: &LearnerState, seed: u64) -> Self {
        let EngineState { mut weights, numbers, flags, .. } = off_policy::load(&policy.name, seen);
        for (number, tensor) in weights.iter_mut().enumerate() {
            let mut draw = Draw::new(seed, number as u32, 0, Purpose::Initialise);
            tensor.data.iter_mut().for_each(|x| *x += SHIFT * draw.normal());
        }
        let number = |name: &str| numbers.iter().find(|tensor| tensor.name == name);
        let rows_of = |name: &str| -> Vec<Vec<f64>> {
            let Some(tensor) = number(name) else { return Vec::new() };
            let width = tensor.shape.last().copied().unwrap_or(1);
            tensor.data.chunks(width).map(wide).collect()
        };
        let flags_of = |name: &str| -> Vec<Vec<bool>> {
            let Some(bytes) = flags.iter().find(|bytes| bytes.name == name) else {
                return Vec::new();
            };
            let width = bytes.shape.last().copied().unwrap_or(1);
            let allowed = |row: &[u8]| row.iter().map(|flag| *flag > 0).collect();
            bytes.data.chunks(width).map(allowed).collect()
        };
        let (obs, next_obs) = (rows_of("replay.obs"), rows_of("replay.next_obs"));
        let (action, reward) = (rows_of("replay.action"), rows_of("replay.reward"));
        let (mask, next_mask) = (flags_of("replay.mask"), flags_of("replay.next_mask"));
        let flag = |name: &str, i: usize| {
            flags.iter().find(|bytes| bytes.name == name).map_or(0, |bytes| bytes.data[i])
        };
        let gamma = f64::from(policy.config.gamma.at(0) as f32);
        let row = |i: usize| Row {
            obs: obs[i].clone(),
            action: action[i].clone(),
            reward: reward[i][0],
            discount: if flag("replay.ends", i) == TERMINATED { 0.0 } else { gamma },
            next_obs: next_obs[i].clone(),
            mask: mask.get(i).cloned().unwrap_or_default(),
            next_mask: next_mask.get(i).cloned().unwrap_or_default(),
            ..Row::default()
        };
        let in_game = (0..obs.len()).filter(|i| flag("replay.alive", *i) > 0);
        Self { weights, rows: in_game.map(row).collect() }
    }
}

/// The rows that gradients are taken on.
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
}

impl Batch {
    /// Rows that all lie further than `near` from a point at which an objective bends or jumps.
    ///
    /// # Errors
    /// There are no such transitions.
    pub(super) fn choose(
        policy: &PolicyPlan,
        (plan, place): (&Plan, &Place),
        (networks, objectives): (&Networks, &[&Objective]),
        pool: &Pool,
        near: f64,
    ) -> Result<Self> {
        let (n, keys) = (plan.batch_size, &policy.config);
        let is_smooth = |row: &Row| {
            objectives.iter().all(|objective| {
                let (given, [_, to_jump]) =
                    networks.watch(|| (objective.given)(keys, networks, row));
                let loss = || (objective.loss)(keys, networks, row, &given);
                let (_, [to_bend, _]) = networks.watch(loss);
                to_jump.min(to_bend) > near
            })
        };
        let choose = |i: usize| {
            let drawn = |column: &str| noise(plan, place, 0, column, i);
            let (noise, next_noise) = (drawn("sampled_action"), drawn("next_action"));
            let weight = 0.5 + 0.125 * (i % 5) as f64;
            let first = i * pool.rows.len() / n;
            let candidates = pool.rows[first..].iter().chain(&pool.rows[..first]);
            let found = candidates.map(|row| Row {
                weight,
                noise: noise.clone(),
                next_noise: next_noise.clone(),
                ..row.clone()
            });
            found.into_iter().find(is_smooth).ok_or_else(|| {
                Error::Invalid(format!(
                    "policy \"{}\": all {} transitions are within {near} of a point at which the \
                     loss is not differentiable; use smaller networks or activation = \"tanh\"",
                    policy.name,
                    pool.rows.len()
                ))
            })
        };
        Ok(Self { rows: (0..n).map(choose).collect::<Result<_>>()? })
    }

    /// The plan's columns of a batch, as the memory would fill them.
    pub(super) fn columns(&self, plan: &Plan) -> Vec<(ColumnId, Vec<f32>)> {
        let replay = &plan.replay;
        let column = |id: ColumnId, of: &dyn Fn(&Row) -> Vec<f64>| {
            (id, self.rows.iter().flat_map(of).map(|x| x as f32).collect())
        };
        let flags = |mask: &[bool]| mask.iter().map(|flag| f64::from(u8::from(*flag))).collect();
        let mut columns = vec![
            column(replay.obs, &|row| row.obs.clone()),
            column(replay.action, &|row| row.action.clone()),
            column(replay.reward, &|row| vec![row.reward]),
            column(replay.discount, &|row| vec![row.discount]),
            column(replay.next_obs, &|row| row.next_obs.clone()),
            column(replay.weight, &|row| vec![row.weight]),
        ];
        columns.extend(replay.mask.map(|id| column(id, &|row| flags(&row.mask))));
        columns.extend(replay.next_mask.map(|id| column(id, &|row| flags(&row.next_mask))));
        columns
    }
}

/// The normal numbers that update number `update` draws in row `row` for what it writes into `column`, one
/// per element; none if nothing is drawn there.
pub(crate) fn noise(plan: &Plan, place: &Place, update: u64, column: &str, row: usize) -> Vec<f64> {
    let Some(id) = plan.columns.iter().position(|c| c.name == column) else { return Vec::new() };
    let draws = |rows: &Rows| rows.function.draws && rows.writes.contains(&ColumnId(id));
    let Some(index) = plan.rows.iter().position(draws) else { return Vec::new() };
    let agent = (place.policy as u32) << 16 | index as u32;
    let mut draw = Draw::new(place.seed, row as u32, update as u32, Purpose::Learn).agent(agent);
    (0..plan.columns[id].width).map(|_| f64::from(draw.normal())).collect()
}
