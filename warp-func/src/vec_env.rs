//! Many replicas as one thing: what trainers, benchmarks and replays see of an environment.
//!
//! A [`VecEnv`] owns a store with an array per state field and per input and output. Actions are written into
//! their arrays, [`VecEnv::step`] steps every replica, and results are read from theirs.

use crate::episodes::EpisodeTotals;
use crate::error::{Error, Result};
use crate::group_actions::GroupActionsMut;
use crate::pool::PoolSource;
use warp_core::EnvSpec;
use warp_data::{ArrayId, Store, StoreMut};

/// How replicas are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VecOptions {
    /// Number of replicas, at least 1.
    pub n_envs: usize,
    /// Seed of the environments' random numbers.
    pub seed: u64,
    /// Threads that step them; 0: one per core. Results do not depend on it.
    pub threads: usize,
    /// The global index of the first replica, so that N devices use the same random numbers as one.
    pub first_replica: u32,
    /// Number of equal parts of the replicas whose episodes are counted separately
    /// ([`VecEnv::take_episodes_of_parts`]), so that sums do not depend on what else is stepped here.
    pub parts: usize,
    /// Whether a replica whose episode ends is reset in the same step.
    pub auto_reset: bool,
    /// Where episodes start.
    pub start: Start,
    /// The rows that [`Start::Pool`] chooses from; otherwise not used.
    pub pool: PoolSource,
    /// Seed of the fixed start and of a generated pool's rows; none: `seed`. This lets replicas that differ
    /// only in `seed` begin in the same states.
    pub start_seed: Option<u64>,
}

warp_core::choices! {
    /// Where episodes start.
    pub enum Start {
        /// A fresh draw for every replica and episode.
        Fresh = "fresh",
        /// One and the same start for all of them, drawn from the seed.
        Fixed = "fixed",
        /// A row of a reset pool, drawn for every replica and episode.
        Pool = "pool",
    }
}

impl VecOptions {
    /// Checks that replicas can be numbered.
    pub(crate) fn check(&self) -> Result<()> {
        let (first, n_envs) = (self.first_replica as usize, self.n_envs);
        let invalid = |reason: &str| {
            let (value, reason) = (n_envs.to_string(), reason.into());
            Err(Error::InvalidOption { option: "num_envs", value, reason })
        };
        if n_envs == 0 {
            return invalid("at least one replica is needed");
        }
        if self.parts == 0 || !n_envs.is_multiple_of(self.parts) {
            return invalid(&format!("they can't be divided into {} equal parts", self.parts));
        }
        if first.checked_add(n_envs).is_none_or(|end| end > u32::MAX as usize) {
            return invalid("replicas are numbered with 32 bits");
        }
        Ok(())
    }
}

impl Default for VecOptions {
    fn default() -> Self {
        Self {
            n_envs: 1,
            seed: 0,
            threads: 1,
            first_replica: 0,
            parts: 1,
            auto_reset: true,
            start: Start::Fresh,
            pool: PoolSource::default(),
            start_seed: None,
        }
    }
}

/// The numbers of the arrays that every environment has. Indexed by group where there is one per
/// group; `None` where a group or an environment has no such array.
#[derive(Debug, Clone)]
pub struct ArrayIds {
    /// The state: one array per field, `[n_envs, dims...]`, called as the field.
    pub state: Vec<ArrayId>,
    /// `obs.<group>`: observation, f32 `[n_envs, n_agents, width]`.
    pub obs: Vec<ArrayId>,
    /// `final_obs.<group>`: last observation of the episode that ended in this step, same shape;
    /// valid where `terminated` or `truncated` is set.
    pub final_obs: Vec<ArrayId>,
    /// `action_mask.<group>`: allowed actions, u8 `[n_envs, n_agents, sum of head sizes]`.
    pub action_mask: Vec<Option<ArrayId>>,
    /// `final_action_mask.<group>`: what the agents could have done after `final_obs`, same shape; valid
    /// where `truncated` is set.
    pub final_action_mask: Vec<Option<ArrayId>>,
    /// `action.<group>`: i32 `[n_envs, n_agents, n_heads]` or f32 `[n_envs, n_agents, dim]`.
    pub action: Vec<ArrayId>,
    /// `reward.<group>`: f32 `[n_envs, n_agents]`.
    pub reward: Vec<ArrayId>,
    /// `alive.<group>`: which agents act in the next step, u8 `[n_envs, n_agents]`; mortal groups only.
    pub alive: Vec<Option<ArrayId>>,
    /// `agent_terminated.<group>`: whose episode ended in this step, by leaving or with the
    /// replica's termination, u8 `[n_envs, n_agents]`; mortal groups only.
    pub agent_terminated: Vec<Option<ArrayId>>,
    /// `episode_return.<group>`: sum of the group's rewards since the episode began, f32 `[n_envs]`.
    pub episode_return: Vec<ArrayId>,
    /// `terminated`: the game is over, u8 `[n_envs]`.
    pub terminated: ArrayId,
    /// `truncated`: the time limit ended the episode, u8 `[n_envs]`; never set together with `terminated`.
    pub truncated: ArrayId,
    /// `episode_length`: steps since the episode began, u32 `[n_envs]`.
    pub episode_length: ArrayId,
    /// `statistic`: episode statistics so far, f32 `[n_envs, n_statistics]`.
    pub statistic: Option<ArrayId>,
    /// `final_statistic`: statistics of the episode that ended in this step, same shape; valid where
    /// `terminated` or `truncated` is set.
    pub final_statistic: Option<ArrayId>,
    /// `global_obs`: what a centralised critic sees, f32 `[n_envs, width]`.
    pub global_obs: Option<ArrayId>,
    /// `pool.<field>`: the reset pool, one array per state field, `[rows, dims...]`; empty unless
    /// episodes start from one.
    pub pool: Vec<ArrayId>,
}

impl ArrayIds {
    /// The arrays that a checkpoint must contain; all others follow from them (and the reset pool from its
    /// seed or its source).
    pub fn persistent(&self) -> impl Iterator<Item = ArrayId> {
        let fixed = [Some(self.episode_length), self.statistic];
        let grouped =
            self.episode_return.iter().copied().chain(self.alive.iter().flatten().copied());
        self.state.iter().copied().chain(fixed.into_iter().flatten()).chain(grouped)
    }

    /// What trainers read and write, by name; one that ends with a dot has an array per group, called after it.
    pub(crate) fn kinds(&self) -> [(&'static str, Vec<Option<ArrayId>>); 15] {
        let all = |ids: &[ArrayId]| ids.iter().copied().map(Some).collect();
        [
            ("obs.", all(&self.obs)),
            ("final_obs.", all(&self.final_obs)),
            ("action_mask.", self.action_mask.clone()),
            ("final_action_mask.", self.final_action_mask.clone()),
            ("action.", all(&self.action)),
            ("reward.", all(&self.reward)),
            ("alive.", self.alive.clone()),
            ("agent_terminated.", self.agent_terminated.clone()),
            ("episode_return.", all(&self.episode_return)),
            ("terminated", vec![Some(self.terminated)]),
            ("truncated", vec![Some(self.truncated)]),
            ("episode_length", vec![Some(self.episode_length)]),
            ("statistic", vec![self.statistic]),
            ("final_statistic", vec![self.final_statistic]),
            ("global_obs", vec![self.global_obs]),
        ]
    }
}

/// Many replicas of an environment.
pub trait VecEnv: Send {
    /// One replica seen from outside.
    fn spec(&self) -> &EnvSpec;
    /// How the replicas are run.
    fn options(&self) -> &VecOptions;
    /// All arrays.
    fn store(&self) -> &Store;
    /// The numbers of all arrays, to be changed. The arrays themselves stay the executor's.
    fn store_mut(&mut self) -> StoreMut<'_>;
    /// The numbers of the common arrays.
    fn ids(&self) -> &ArrayIds;

    /// The actions of group `group`, to be written before the next step. A device gets these alone,
    /// where after [`VecEnv::store_mut`] it has to get everything.
    ///
    /// # Errors
    /// Whatever went wrong on a device. On the host nothing can.
    ///
    /// # Panics
    /// If there is no such group.
    fn actions_mut(&mut self, group: usize) -> Result<GroupActionsMut<'_>> {
        let id = self.ids().action[group];
        Ok(GroupActionsMut::of(self.store_mut(), id))
    }

    /// Starts a new episode in every replica.
    ///
    /// # Errors
    /// Whatever went wrong on a device. On the host nothing can.
    fn reset(&mut self) -> Result<()>;

    /// Moves every replica by one step with the actions in `action.<group>`.
    ///
    /// # Errors
    /// The first discrete action that lies outside its space or real number that is not finite;
    /// nothing has moved then. What a number beyond a Box's bounds means is the environment's
    /// matter.
    fn step(&mut self) -> Result<()>;

    /// Writes the observations anew, after the state was changed from outside.
    ///
    /// # Errors
    /// As [`VecEnv::reset`].
    fn observe(&mut self) -> Result<()>;

    /// Steps since the run began; part of what every draw depends on.
    fn run_step(&self) -> u32;

    /// Continues a run at this step.
    fn set_run_step(&mut self, step: u32);

    /// What is known of the episodes that ended since the last call.
    fn take_episodes(&mut self) -> EpisodeTotals;

    /// What is known of the episodes that ended since the last call, for each part ([`VecOptions::parts`]); one part
    /// where they are not counted apart.
    fn take_episodes_of_parts(&mut self) -> Vec<EpisodeTotals> {
        vec![self.take_episodes()]
    }

    /// Brings the store up to date with a device that has worked without it. Nothing on the host.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// The executor on a GPU, if this is one, for learners and benchmarks that work there: its arrays, the
    /// text and the arguments of its kernels, its counter of steps. A type and no trait: there is one such
    /// executor, and a learner's kernels call the body that it compiled.
    #[cfg(feature = "cuda")]
    fn as_cuda(&mut self) -> Option<&mut crate::cuda::CudaVecEnv> {
        None
    }

    /// Environments whose arrays lie on a GPU, if these are such: that executor, or what something else moves
    /// there.
    #[cfg(feature = "cuda")]
    fn as_device(&mut self) -> Option<&mut dyn crate::cuda::DeviceEnvs> {
        None
    }
}
