//! The contract between an environment and whatever runs it.
//!
//! An author writes one value (parameters and tables, checked in [`Env::new`]) and four pure functions: `spec`,
//! `reset`, `observe`, `step`. The last three use no clock, no global, no I/O, no allocation and return no
//! error: all random numbers come from the [`Draw`] that they are given, and all results go into slices that
//! nothing else writes.

use crate::config::Config;
use crate::draw::Draw;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::spec::EnvSpec;
pub use crate::spec::MAX_GROUPS;
use crate::state::{Scalars, State};

/// One value per group, indexed by the group's number in the spec.
pub type Groups<T> = [T; MAX_GROUPS];

/// A replica's state as a body sees it.
pub type View<'a, E> = <<E as Env>::State as State>::View<'a>;

/// The actions of one replica; slices of groups with the other kind of action are empty.
#[derive(Debug, Default)]
pub struct Actions<'a> {
    /// Discrete heads, i32 `[n_agents, n_heads]` per group, each within its head's size.
    pub discrete: Groups<&'a [i32]>,
    /// Box actions, f32 `[n_agents, dim]` per group.
    pub continuous: Groups<&'a [f32]>,
}

/// Where a body writes the outcome of a step.
#[derive(Debug)]
pub struct StepOut<'a> {
    /// Reward, f32 `[n_agents]` per group; arrives as zeros, and stays 0 for agents that had left before.
    pub reward: Groups<&'a mut [f32]>,
    /// Whether each agent is still in the game after this step, u8 `[n_agents]` per mortal group
    /// (empty for the others); arrives as it was after the last step. Only 1 to 0 is allowed: executors
    /// rely on it without checking, and [`check_env`](crate::check_env) refuses other values, agents that come
    /// back, and rewards of agents that had left before the step, which returns would count.
    pub alive: Groups<&'a mut [u8]>,
    /// Whether the game is over for everyone; arrives as `false`.
    pub terminated: bool,
    /// Episode statistics, f32 in the order of the spec; kept over the episode, zero at its start.
    pub statistics: &'a mut [f32],
}

/// Where a body writes what the agents observe. Every element must be written, every time.
#[derive(Debug)]
pub struct Observation<'a> {
    /// Observation, f32 `[n_agents, width]` per group.
    pub obs: Groups<&'a mut [f32]>,
    /// Which actions are allowed (1) or not (0), u8 `[n_agents, sum of head sizes]` per group with a
    /// mask (empty for the others). At least one per head must be allowed.
    pub action_mask: Groups<&'a mut [u8]>,
    /// What a centralised critic sees, f32; empty if the spec has none.
    pub global: &'a mut [f32],
}

/// What is wrong with a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field.
    pub field: &'static str,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub reason: String,
}

/// A named read-only array that all replicas share.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<'a> {
    /// Its name, in Rust and in C.
    pub name: &'static str,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub data: TableData<'a>,
}

impl<'a> Table<'a> {
    /// A row of floats.
    #[must_use]
    pub fn f32(name: &'static str, data: &'a [f32]) -> Self {
        Table { name, shape: vec![data.len()], data: TableData::F32(data) }
    }

    /// A row of integers.
    #[must_use]
    pub fn i32(name: &'static str, data: &'a [i32]) -> Self {
        Table { name, shape: vec![data.len()], data: TableData::I32(data) }
    }
}

/// The elements of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TableData<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 32-bit integers.
    I32(&'a [i32]),
}

/// An environment.
pub trait Env: Send + Sync + Sized + 'static {
    /// The name it is registered under.
    const NAME: &'static str;
    /// Other names that it answers to, such as Gymnasium's for the same rules.
    const ALIASES: &'static [&'static str] = &[];
    /// A notice for users who train in it, in one line; `warp train` prints it once.
    const NOTICE: Option<&'static str> = None;
    /// For a state of scalars with one group of one agent: the width of its observation, which lets
    /// the executor keep many replicas in vector registers. 0: known at run time only. Executors refuse a width
    /// that the spec contradicts.
    const OBSERVATION_WIDTH: usize = 0;
    /// Its configuration.
    type Config: Config;
    /// Scalars that all replicas share, computed from the configuration.
    type Params: Scalars + Clone + std::fmt::Debug + Send + Sync;
    /// The state of one replica.
    type State: State;

    /// Checks the configuration and loads what the environment needs; the only place for I/O.
    ///
    /// # Errors
    /// A key whose value is out of range, with the value.
    fn new(config: &Self::Config) -> Result<Self>;

    /// The environment's interface: groups, spaces, time limit and statistics.
    fn spec(&self) -> EnvSpec;

    /// The shared scalars.
    fn params(&self) -> &Self::Params;

    /// The shared arrays.
    fn tables(&self) -> Vec<Table<'_>> {
        Vec::new()
    }

    /// The sizes of the state's symbolic dimensions.
    fn dims(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// The CUDA body; `None`: this environment runs on the CPU only.
    fn kernel() -> Option<Kernel> {
        None
    }

    /// Resets a replica to the start of an episode. Every field must be written.
    fn reset(&self, state: &mut View<'_, Self>, draw: &mut Draw);

    /// Writes what the agents see: a function of the state alone.
    fn observe(&self, state: &View<'_, Self>, out: &mut Observation<'_>);

    /// The observation of a single agent with a `Space::Discrete`, with or without a mask, as the number that
    /// [`Env::observe`] writes one-hot; `None`: callers derive it from the one-hot form.
    #[inline(always)]
    fn number(&self, state: &View<'_, Self>) -> Option<i32> {
        let _ = state;
        None
    }

    /// The mask that belongs to [`Env::number`], as [`Env::observe`] writes it; not asked for without one.
    #[inline(always)]
    fn number_mask(&self, state: &View<'_, Self>, mask: &mut [u8]) {
        let _ = (state, mask);
    }

    /// Why a state that was written from outside cannot be stepped, such as a number that is out of range as an
    /// index; `None`: it can. That numbers are finite and [`Env::number`] is one of the space's is checked
    /// without it.
    fn fault(&self, state: &View<'_, Self>) -> Option<Fault> {
        let _ = state;
        None
    }

    /// The probability of each kind of outcome of a step, for environments whose steps have few; none: unknown.
    fn chances(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Which of [`Env::chances`] a step with these `actions` and this `draw` is; called if there are several.
    #[inline(always)]
    fn chance(&self, actions: &Actions<'_>, draw: &mut Draw) -> usize {
        let _ = (actions, draw);
        0
    }

    /// Steps a replica.
    fn step(
        &self,
        state: &mut View<'_, Self>,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    );
}

impl EnvSpec {
    /// The spec of `env`, checked: it does not contradict itself nor what is compiled in.
    ///
    /// # Errors
    /// A sentence with the offending value.
    pub fn of<E: Env>(env: &E) -> Result<Self> {
        let spec = env.spec();
        spec.validate()?;
        spec.check_width(E::OBSERVATION_WIDTH, E::State::SCALARS)?;
        Ok(spec)
    }
}
