//! Catalysis: an atom, or two, find the way from reactant to product on a grid of energies.
//!
//! Rules of WarpDrive's `SingleAgentOneAtomChemSearch` and `SingleAgentTwoAtomChemSearch` (version
//! 2.7.1; Lan, Wang and An, Nature Communications 15, 6281, 2024, who search for reaction paths of
//! ammonia synthesis on an iron surface). [`Catalysis`] moves one atom, [`CatalysisTwoAtoms`] two.
//!
//! **Environment**: cells (x, y, z), periodic in x and y. Only a slab of layers, `z_slab_lower` up to
//! but without `z_slab_upper`, has energies: those of `grid`, or of a built-in surface
//! (`surface.rs`).
//!
//! **Actions**: one atom `Discrete(6)`: 0 x + 1, 1 x - 1, 2 y + 1, 3 y - 1, 4 z + 1, 5 z - 1. Two
//! atoms `MultiDiscrete[2, 6]`: which atom, and how it moves. Where start and goal lie in different
//! layers, and always for two atoms, a move out of the slab is undone. Otherwise the atom may leave
//! the slab and walk back.
//!
//! **Reward**: (`ienergy` - energy of the new cell) / `max_denergy`, kept between `min_reward` and 0;
//! a move out of the slab, undone or not, and every step outside it count as -1, kept likewise. On
//! reaching the goal `terminate_reward` is added.
//!
//! **The end**: terminated at the goal, truncated after `episode_length` steps. Episodes start at
//! `initial_state`, all alike, but for the share `exploring_starts` of them, which starts anywhere in
//! the slab: hardly any episode of a policy that has learned nothing finds the goal from far away.
//!
//! **Observation** with a atoms, f32 `[4 a]`: x / nx, y / ny, z / nz of each atom, then for each atom
//! its distance from its goal, in cells and straight through, over that of its start.
//!
//! **Unphysical energies**: in a published grid for two atoms 944 cells lie below the reference, down
//! to -2e11 eV: calculations that failed. In the original they cost nothing, so a policy that seeks
//! out errors does best; with `unphysical = "clamp"`, the default for two atoms, they cost the most.
//!
//! **Deviations**: an atom whose start is its goal has its distance itself in the place of a
//! division by zero, and the slab may touch neither end of z, where the original loses the atom.
//!
//! [`Landscape::optimum`] computes the best that a policy can reach.

mod config;
mod landscape;
mod optimum;
mod rewards;
mod step;
mod surface;
mod two_atoms;

pub use config::{CatalysisConfig, Preset, Setting, Unphysical};
pub use landscape::Landscape;
pub use optimum::Optimum;
pub use two_atoms::{CatalysisTwoAtoms, CatalysisTwoAtomsParams, CatalysisTwoAtomsState};

use rewards::{Rewards, Tables};
use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, LimitEnds, Observation, Result, Space, StepOut,
    Table, TableData, TimeLimit,
};

warp_core::params! {
    /// What all replicas share.
    pub struct CatalysisParams {
        /// Cells along x.
        nx: i32,
        /// Cells along y.
        ny: i32,
        /// Cells along z.
        nz: i32,
        /// The lowest layer of the slab.
        z_lower: i32,
        /// The layer above the slab.
        z_upper: i32,
        /// Layers of the slab.
        layers: i32,
        /// 1: a move out of the slab is undone.
        holds_back: i32,
        /// Start.
        start_x: i32,
        /// Start.
        start_y: i32,
        /// Start.
        start_z: i32,
        /// Goal.
        goal_x: i32,
        /// Goal.
        goal_y: i32,
        /// Goal.
        goal_z: i32,
        /// Share of the episodes that start anywhere in the slab.
        exploring_starts: f32,
        /// Reward of a step that ends, or would have ended, outside the slab.
        outside_reward: f32,
        /// What reaching the goal adds.
        terminate_reward: f32,
        /// 1 / `nx`.
        scale_x: f32,
        /// 1 / `ny`.
        scale_y: f32,
        /// 1 / `nz`.
        scale_z: f32,
        /// Distance of the start from the goal, in cells.
        start_distance: f32,
    }
}

warp_core::state! {
    /// Where the atom is.
    pub struct CatalysisState {
        /// Cell along x, 0 to nx - 1.
        x: i32,
        /// Cell along y, 0 to ny - 1.
        y: i32,
        /// Cell along z, 0 to nz - 1.
        z: i32,
    }
}

/// The environment with one atom.
#[derive(Debug, Clone)]
pub struct Catalysis {
    episode_length: u32,
    params: CatalysisParams,
    tables: Tables,
}

impl Env for Catalysis {
    const NAME: &'static str = "catalysis";
    const OBSERVATION_WIDTH: usize = 4;
    type Config = CatalysisConfig;
    type Params = CatalysisParams;
    type State = CatalysisState;

    fn new(config: &CatalysisConfig) -> Result<Self> {
        let landscape = Landscape::open(config, 1)?;
        let setting = &landscape.setting;
        let ([nx, ny, nz], (z_lower, z_upper)) = (setting.cells, setting.slab);
        let ([start_x, start_y, start_z], [goal_x, goal_y, goal_z]) =
            (cell(&setting.initial, 0), cell(&setting.goal, 0));
        let params = CatalysisParams {
            nx,
            ny,
            nz,
            z_lower,
            z_upper,
            layers: z_upper - z_lower,
            holds_back: i32::from(setting.holds_back()),
            start_x,
            start_y,
            start_z,
            goal_x,
            goal_y,
            goal_z,
            exploring_starts: setting.exploring_starts,
            outside_reward: landscape.reward(setting.max_denergy) as f32,
            terminate_reward: setting.terminate_reward as f32,
            scale_x: 1.0 / nx as f32,
            scale_y: 1.0 / ny as f32,
            scale_z: 1.0 / nz as f32,
            start_distance: start_distance(setting, 0),
        };
        let tables = Tables { rewards: Rewards::of(&landscape) };
        Ok(Self { episode_length: setting.episode_length, params, tables })
    }

    fn spec(&self) -> EnvSpec {
        spec(Self::NAME, "atom", Space::Discrete { n: 6 }, 1, self.episode_length)
    }

    fn params(&self) -> &CatalysisParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        vec![table(&self.tables.rewards)]
    }

    fn kernel() -> Option<Kernel> {
        Some(Kernel {
            file: "catalysis/step.cu",
            text: include_str!("step.cu"),
            layout: Layout::ThreadPerReplica,
        })
    }

    #[inline(always)]
    fn reset(&self, state: &mut CatalysisState, draw: &mut Draw) {
        step::reset(&self.params, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &CatalysisState, out: &mut Observation<'_>) {
        step::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut CatalysisState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, &self.tables, state, actions, out);
    }
}

/// What both environments look like from outside, but for name and actions.
fn spec(name: &str, group: &str, action: Space, n_atoms: usize, steps: u32) -> EnvSpec {
    let high = [vec![1.0; 3 * n_atoms], vec![f32::INFINITY; n_atoms]].concat();
    let observation = Space::Box { low: vec![0.0; 4 * n_atoms], high, shape: vec![4 * n_atoms] };
    let time_limit = TimeLimit { steps, ends: LimitEnds::Truncated };
    EnvSpec::one_agent(name, group, observation, action, time_limit)
}

/// The rewards as the one table of either environment.
fn table(rewards: &Rewards) -> Table<'_> {
    let cells = rewards.cells();
    Table { name: "rewards", shape: vec![cells.len()], data: TableData::F32(cells) }
}

/// Where atom number `atom` is in `state`.
fn cell(state: &[i32], atom: usize) -> [i32; 3] {
    [state[3 * atom], state[3 * atom + 1], state[3 * atom + 2]]
}

/// Distance of an atom's start from its goal, in cells; 1 where they are the same.
fn start_distance(setting: &Setting, atom: usize) -> f32 {
    let (from, to) = (cell(&setting.initial, atom), cell(&setting.goal, atom));
    let square: i32 = from.iter().zip(to).map(|(from, to)| (from - to) * (from - to)).sum();
    warp_core::math::sqrt(square.max(1) as f32)
}
