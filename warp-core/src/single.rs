//! One replica of an environment, stepped by itself: for learning the interface, for tests, and for
//! [`check_env`](crate::check_env). Thousands of replicas are `warp-func`'s business.

pub use crate::actions::{Ended, GroupAction};
use crate::env::{Env, Observation, StepOut};
use crate::error::{Error, Result};
use crate::replica::{FieldData, FieldIter, Replica, given, per_group, put_scalars};
use crate::spec::EnvSpec;
use crate::state::{Record, State};
use std::sync::Arc;

/// One replica with everything that belongs to it.
#[derive(Debug)]
pub struct Single<E: Env> {
    env: Arc<E>,
    replica: Replica,
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
        Self::of(env.into(), seed, replica)
    }

    fn of(env: Arc<E>, seed: u64, replica: u32) -> Result<Self> {
        let replica = Replica::new(env.spec(), &env.dims(), E::State::FIELDS, seed, replica)?;
        let mut single = Self { env, replica };
        single.reset();
        Ok(single)
    }

    /// Starts a new episode.
    pub fn reset(&mut self) {
        let mut draw = self.replica.begin_episode();
        let Self { env, replica } = self;
        with_view::<E>(&mut replica.fields, &mut |view| env.reset(view, &mut draw));
        self.observe();
    }

    /// Moves by one step; does not reset. `actions` has one entry per group.
    ///
    /// # Errors
    /// Actions of the wrong kind, number or range, with the value.
    pub fn step(&mut self, actions: &[GroupAction]) -> Result<Ended> {
        let mut draw = self.replica.begin_step(actions)?;
        let given = given(actions);
        let Self { env, replica } = self;
        let Replica { fields, reward, alive, statistics, .. } = replica;
        let mut out = StepOut {
            reward: per_group(reward),
            alive: per_group(alive),
            terminated: false,
            statistics,
        };
        with_view::<E>(fields, &mut |view| env.step(view, &given, &mut draw, &mut out));
        let terminated = out.terminated;
        self.observe();
        Ok(self.replica.ended(terminated))
    }

    fn observe(&mut self) {
        self.replica.forget_observations();
        let Self { env, replica } = self;
        let Replica { fields, obs, action_mask, global, .. } = replica;
        let mut out =
            Observation { obs: per_group(obs), action_mask: per_group(action_mask), global };
        with_view::<E>(fields, &mut |view| env.observe(view, &mut out));
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
        &self.replica.spec
    }

    /// Steps since the episode began.
    #[must_use]
    pub fn timestep(&self) -> u32 {
        self.replica.timestep
    }

    /// Observation of `group`, f32 `[n_agents, width]`.
    #[must_use]
    pub fn obs(&self, group: usize) -> &[f32] {
        &self.replica.obs[group]
    }

    /// Action mask of `group`, u8 `[n_agents, sum of head sizes]`; empty without a mask.
    #[must_use]
    pub fn action_mask(&self, group: usize) -> &[u8] {
        &self.replica.action_mask[group]
    }

    /// Reward of `group` in the last step, f32 `[n_agents]`.
    #[must_use]
    pub fn reward(&self, group: usize) -> &[f32] {
        &self.replica.reward[group]
    }

    /// Which agents of `group` are still in the game, u8 `[n_agents]`; empty for an immortal group.
    #[must_use]
    pub fn alive(&self, group: usize) -> &[u8] {
        &self.replica.alive[group]
    }

    /// Episode statistics so far, in the order of the spec.
    #[must_use]
    pub fn statistics(&self) -> &[f32] {
        &self.replica.statistics
    }

    /// The bits of every state element, field after field.
    #[must_use]
    pub fn state_bits(&self) -> Vec<u32> {
        self.replica.state_bits()
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
        self.replica.set_state_bits(bits);
        self.observe();
        Ok(())
    }

    /// All that belongs to it but the environment.
    pub(crate) fn data(&self) -> &Replica {
        &self.replica
    }

    /// All that belongs to it but the environment, to be written without being observed.
    pub(crate) fn data_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    /// The number of this replica in its run.
    #[must_use]
    pub fn replica_index(&self) -> u32 {
        self.replica.index
    }

    /// Changes the state directly, then recomputes the observation.
    pub fn edit(&mut self, change: impl FnOnce(&mut crate::View<'_, E>)) {
        let mut change = Some(change);
        let mut once = |view: &mut crate::View<'_, E>| {
            if let Some(change) = change.take() {
                change(view);
            }
        };
        with_view::<E>(&mut self.replica.fields, &mut once);
        self.observe();
    }
}

/// `work` is a trait object, so that this is compiled once per environment and not once per closure.
fn with_view<E: Env>(fields: &mut [FieldData], work: &mut dyn FnMut(&mut crate::View<'_, E>)) {
    let mut saved = Vec::new();
    {
        let mut view = E::State::view(&mut FieldIter(fields.iter_mut()));
        work(&mut view);
        E::State::save(&view, |_, bits| saved.push(bits));
    }
    put_scalars(fields, saved);
}
