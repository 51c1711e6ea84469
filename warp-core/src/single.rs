//! One replica of an environment, stepped by itself: for learning the interface, for tests, and for
//! [`check_env`](crate::check_env). Thousands of replicas are `warp-func`'s business.

use crate::draw::{Draw, Purpose};
use crate::env::{Actions, Env, Groups, MAX_GROUPS, Observation, StepOut, field_len};
use crate::error::{Error, Result};
use crate::space::Space;
use crate::spec::{EnvSpec, LimitEnds};
use crate::state::{Bits, DType, FieldSource, Record, State};
use std::sync::Arc;

/// One replica with everything that belongs to it.
#[derive(Debug)]
pub struct Single<E: Env> {
    env: Arc<E>,
    spec: EnvSpec,
    seed: u64,
    replica: u32,
    run_step: u32,
    timestep: u32,
    fields: Vec<FieldData>,
    obs: Vec<Vec<f32>>,
    action_mask: Vec<Vec<u8>>,
    global: Vec<f32>,
    reward: Vec<Vec<f32>>,
    alive: Vec<Vec<u8>>,
    statistics: Vec<f32>,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The game is over.
    pub terminated: bool,
    /// The time limit cut the episode.
    pub truncated: bool,
}

/// The actions of one group: discrete heads or real numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupAction {
    /// i32 `[n_agents, n_heads]`.
    Discrete(Vec<i32>),
    /// f32 `[n_agents, dim]`.
    Continuous(Vec<f32>),
}

#[derive(Debug, Clone)]
enum FieldData {
    F32(Vec<f32>),
    I32(Vec<i32>),
    U32(Vec<u32>),
}

impl<E: Env> Single<E> {
    /// A replica at the start of its first episode.
    ///
    /// # Errors
    /// A spec that contradicts itself.
    pub fn new(env: impl Into<Arc<E>>, seed: u64) -> Result<Self> {
        Self::replica(env, seed, 0)
    }

    /// As [`Single::new`], with the random numbers of replica number `replica` of a run.
    ///
    /// # Errors
    /// A spec that contradicts itself.
    pub fn replica(env: impl Into<Arc<E>>, seed: u64, replica: u32) -> Result<Self> {
        let env = env.into();
        let spec = env.spec();
        spec.validate()?;
        let new_field = |field: &crate::Field| {
            let n = field_len(&*env, field)?;
            Ok(match field.dtype {
                DType::F32 => FieldData::F32(vec![0.0; n]),
                DType::I32 => FieldData::I32(vec![0; n]),
                _ => FieldData::U32(vec![0; n]),
            })
        };
        let fields = E::State::FIELDS.iter().map(new_field).collect::<Result<Vec<_>>>()?;
        let groups = || spec.groups.iter();
        let mut single = Self {
            obs: groups().map(|g| vec![0.0; g.n_agents * g.observation_width()]).collect(),
            action_mask: groups().map(|g| vec![1; g.n_agents * g.mask_width()]).collect(),
            global: vec![0.0; spec.global_observation.as_ref().map_or(0, |s| s.flatten().width)],
            reward: groups().map(|g| vec![0.0; g.n_agents]).collect(),
            alive: groups().map(|g| vec![1; if g.mortal { g.n_agents } else { 0 }]).collect(),
            statistics: vec![0.0; spec.statistics.len()],
            env,
            spec,
            seed,
            replica,
            run_step: 0,
            timestep: 0,
            fields,
        };
        single.reset();
        Ok(single)
    }

    /// Starts a new episode.
    pub fn reset(&mut self) {
        let mut draw = Draw::new(self.seed, self.replica, self.run_step, Purpose::Reset);
        self.timestep = 0;
        self.statistics.fill(0.0);
        self.alive.iter_mut().for_each(|a| a.fill(1));
        let Self { env, fields, .. } = self;
        with_view::<E>(fields, |view| env.reset(view, &mut draw));
        self.observe();
    }

    /// Moves by one step; does not reset. `actions` has one entry per group.
    ///
    /// # Errors
    /// Actions of the wrong kind, number or range, with the value.
    pub fn step(&mut self, actions: &[GroupAction]) -> Result<Ended> {
        self.check_actions(actions)?;
        self.run_step += 1;
        self.timestep += 1;
        let mut draw = Draw::new(self.seed, self.replica, self.run_step, Purpose::Step);
        let mut given = Actions::default();
        for (g, action) in actions.iter().enumerate() {
            match action {
                GroupAction::Discrete(heads) => given.discrete[g] = heads,
                GroupAction::Continuous(values) => given.continuous[g] = values,
            }
        }
        self.reward.iter_mut().for_each(|r| r.fill(0.0));
        let Self { env, fields, reward, alive, statistics, .. } = self;
        let mut out = StepOut {
            reward: per_group(reward),
            alive: per_group(alive),
            terminated: false,
            statistics,
        };
        with_view::<E>(fields, |view| env.step(view, &given, &mut draw, &mut out));
        let mut ended = Ended { terminated: out.terminated, truncated: false };
        self.observe();
        if self.timestep >= self.spec.time_limit.steps && !ended.terminated {
            match self.spec.time_limit.ends {
                LimitEnds::Truncated => ended.truncated = true,
                LimitEnds::Terminated => ended.terminated = true,
            }
        }
        Ok(ended)
    }

    fn observe(&mut self) {
        // What a body forgets to write must be seen as such, not as the last step's value.
        self.obs.iter_mut().for_each(|o| o.fill(f32::NAN));
        self.action_mask.iter_mut().for_each(|m| m.fill(u8::MAX));
        let Self { env, fields, obs, action_mask, global, .. } = self;
        let mut out =
            Observation { obs: per_group(obs), action_mask: per_group(action_mask), global };
        with_view::<E>(fields, |view| env.observe(view, &mut out));
    }

    fn check_actions(&self, actions: &[GroupAction]) -> Result<()> {
        let fail = |reason: String| {
            Err(Error::InvalidValue {
                key: "actions".into(),
                value: format!("{actions:?}"),
                reason,
            })
        };
        if actions.len() != self.spec.groups.len() {
            return fail(format!(
                "one entry per group is needed, that is {}",
                self.spec.groups.len()
            ));
        }
        for (group, action) in self.spec.groups.iter().zip(actions) {
            let width = group.n_agents * group.action.action_width();
            let fits = match action {
                GroupAction::Discrete(heads) => {
                    let sizes = group.action.head_sizes();
                    let inside = |(a, n): (&i32, &usize)| *a >= 0 && (*a as usize) < *n;
                    let mut pairs = heads.iter().zip(sizes.iter().cycle());
                    !sizes.is_empty() && heads.len() == width && pairs.all(inside)
                }
                GroupAction::Continuous(values) => {
                    matches!(group.action, Space::Box { .. }) && values.len() == width
                }
            };
            if !fits {
                let (name, n) = (&group.name, group.n_agents);
                return fail(format!("group \"{name}\" takes {n} x {}", group.action));
            }
        }
        Ok(())
    }

    /// The environment.
    #[must_use]
    pub fn env(&self) -> &E {
        &self.env
    }

    /// The environment, to be held beside the replica.
    pub(crate) fn shared(&self) -> Arc<E> {
        Arc::clone(&self.env)
    }

    /// Its spec.
    #[must_use]
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Steps since the episode began.
    #[must_use]
    pub fn timestep(&self) -> u32 {
        self.timestep
    }

    /// Observation of `group`, f32 `[n_agents, width]`.
    #[must_use]
    pub fn obs(&self, group: usize) -> &[f32] {
        &self.obs[group]
    }

    /// Action mask of `group`, u8 `[n_agents, sum of head sizes]`; empty without a mask.
    #[must_use]
    pub fn action_mask(&self, group: usize) -> &[u8] {
        &self.action_mask[group]
    }

    /// Reward of `group` in the last step, f32 `[n_agents]`.
    #[must_use]
    pub fn reward(&self, group: usize) -> &[f32] {
        &self.reward[group]
    }

    /// Which agents of `group` are still in the game, u8 `[n_agents]`; empty for an immortal group.
    #[must_use]
    pub fn alive(&self, group: usize) -> &[u8] {
        &self.alive[group]
    }

    /// Episode statistics so far, in the order of the spec.
    #[must_use]
    pub fn statistics(&self) -> &[f32] {
        &self.statistics
    }

    /// The bits of every state element, field after field.
    #[must_use]
    pub fn state_bits(&self) -> Vec<u32> {
        let bits = |field: &FieldData| match field {
            FieldData::F32(v) => v.iter().map(|x| x.bits()).collect::<Vec<_>>(),
            FieldData::I32(v) => v.iter().map(|x| x.bits()).collect(),
            FieldData::U32(v) => v.clone(),
        };
        self.fields.iter().flat_map(bits).collect()
    }

    /// Overwrites the state with `bits`, as [`Single::state_bits`] gives them, and observes it.
    ///
    /// # Errors
    /// A number of elements that is not the state's.
    pub fn set_state_bits(&mut self, bits: &[u32]) -> Result<()> {
        let expected = self.state_bits().len();
        if bits.len() != expected {
            let reason = format!("the state has {expected} elements");
            return Err(Error::invalid("state", format!("{} elements", bits.len()), reason));
        }
        self.set_state_bits_unobserved(bits);
        self.observe();
        Ok(())
    }

    /// As [`Single::set_state_bits`], for bits that need not be a state at all.
    pub(crate) fn set_state_bits_unobserved(&mut self, bits: &[u32]) {
        let mut bits = bits.iter();
        let mut next = || bits.next().copied().unwrap_or(0);
        for field in &mut self.fields {
            match field {
                FieldData::F32(v) => v.iter_mut().for_each(|x| *x = Bits::from_bits(next())),
                FieldData::I32(v) => v.iter_mut().for_each(|x| *x = Bits::from_bits(next())),
                FieldData::U32(v) => v.iter_mut().for_each(|x| *x = next()),
            }
        }
    }

    /// The number of this replica in its run.
    #[must_use]
    pub fn replica_index(&self) -> u32 {
        self.replica
    }

    /// Changes the state directly, then recomputes the observation.
    pub fn edit(&mut self, change: impl FnOnce(&mut crate::View<'_, E>)) {
        with_view::<E>(&mut self.fields, change);
        self.observe();
    }
}

/// One mutable slice per group, empty beyond the last group.
fn per_group<T>(rows: &mut [Vec<T>]) -> Groups<&mut [T]> {
    let mut rows = rows.iter_mut();
    [(); MAX_GROUPS].map(|()| rows.next().map_or(&mut [][..], |row| row.as_mut_slice()))
}

fn with_view<E: Env>(fields: &mut [FieldData], work: impl FnOnce(&mut crate::View<'_, E>)) {
    let saved: Vec<u32> = {
        let mut view = E::State::view(&mut FieldIter(fields.iter_mut()));
        work(&mut view);
        let mut saved = Vec::new();
        E::State::save(&view, |_, bits| saved.push(bits));
        saved
    };
    for (field, bits) in fields.iter_mut().zip(saved) {
        match field {
            FieldData::F32(v) => v[0] = f32::from_bits(bits),
            FieldData::I32(v) => v[0] = <i32 as Bits>::from_bits(bits),
            FieldData::U32(v) => v[0] = bits,
        }
    }
}

/// Hands out the fields in order.
struct FieldIter<'a>(std::slice::IterMut<'a, FieldData>);

impl<'a> FieldIter<'a> {
    fn next_as<T: Bits>(&mut self) -> &'a mut [T] {
        let any: Option<&'a mut dyn std::any::Any> = self.0.next().map(|field| match field {
            FieldData::F32(v) => v as &mut dyn std::any::Any,
            FieldData::I32(v) => v,
            FieldData::U32(v) => v,
        });
        // The table and the view come from the same declaration, so the types always agree.
        any.and_then(|v| v.downcast_mut::<Vec<T>>()).map_or(&mut [], Vec::as_mut_slice)
    }
}

impl<'a> FieldSource<'a> for FieldIter<'a> {
    fn bits(&mut self) -> u32 {
        match self.0.next() {
            Some(FieldData::F32(v)) => v[0].bits(),
            Some(FieldData::I32(v)) => v[0].bits(),
            Some(FieldData::U32(v)) => v[0],
            None => 0,
        }
    }
    fn scalar<T: Bits>(&mut self) -> &'a mut T {
        &mut self.next_as()[0]
    }
    fn row<T: Bits>(&mut self) -> &'a mut [T] {
        self.next_as()
    }
}
