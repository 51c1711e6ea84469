//! Two atoms on one grid, moved one at a time. The rules stand with [`super::Catalysis`].

mod step;

use super::rewards::{Rewards, Tables};
use super::{CatalysisConfig, Landscape, cell, spec, start_distance, table};
use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, Observation, Result, Space, StepOut, Table,
};

warp_core::params! {
    /// What all replicas share.
    pub struct CatalysisTwoAtomsParams {
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
        /// Start of the first atom.
        start_x1: i32,
        /// Start of the first atom.
        start_y1: i32,
        /// Start of the first atom.
        start_z1: i32,
        /// Start of the second atom.
        start_x2: i32,
        /// Start of the second atom.
        start_y2: i32,
        /// Start of the second atom.
        start_z2: i32,
        /// Goal of the first atom.
        goal_x1: i32,
        /// Goal of the first atom.
        goal_y1: i32,
        /// Goal of the first atom.
        goal_z1: i32,
        /// Goal of the second atom.
        goal_x2: i32,
        /// Goal of the second atom.
        goal_y2: i32,
        /// Goal of the second atom.
        goal_z2: i32,
        /// Share of the episodes that start anywhere in the slab.
        exploring_starts: f32,
        /// Reward of a step that would have ended outside the slab.
        outside_reward: f32,
        /// What reaching the goal adds.
        terminate_reward: f32,
        /// 1 / `nx`.
        scale_x: f32,
        /// 1 / `ny`.
        scale_y: f32,
        /// 1 / `nz`.
        scale_z: f32,
        /// Distance of the first atom's start from its goal, in cells; 1 where they are the same.
        start_distance1: f32,
        /// Distance of the second atom's start from its goal, in cells; 1 where they are the same.
        start_distance2: f32,
    }
}

warp_core::state! {
    /// Where the atoms are.
    pub struct CatalysisTwoAtomsState {
        /// Cell of the first atom along x, 0 to nx - 1.
        x1: i32,
        /// Cell of the first atom along y, 0 to ny - 1.
        y1: i32,
        /// Cell of the first atom along z, within the slab.
        z1: i32,
        /// Cell of the second atom along x, 0 to nx - 1.
        x2: i32,
        /// Cell of the second atom along y, 0 to ny - 1.
        y2: i32,
        /// Cell of the second atom along z, within the slab.
        z2: i32,
    }
}

/// The environment with two atoms.
#[derive(Debug, Clone)]
pub struct CatalysisTwoAtoms {
    episode_length: u32,
    params: CatalysisTwoAtomsParams,
    tables: Tables,
}

impl Env for CatalysisTwoAtoms {
    const NAME: &'static str = "catalysis_two_atoms";
    type Config = CatalysisConfig;
    type Params = CatalysisTwoAtomsParams;
    type State = CatalysisTwoAtomsState;

    fn new(config: &CatalysisConfig) -> Result<Self> {
        let landscape = Landscape::open(config, 2)?;
        let setting = &landscape.setting;
        let ([nx, ny, nz], (z_lower, z_upper)) = (setting.cells, setting.slab);
        let (start, goal) = (&setting.initial, &setting.goal);
        let ([start_x1, start_y1, start_z1], [start_x2, start_y2, start_z2]) =
            (cell(start, 0), cell(start, 1));
        let ([goal_x1, goal_y1, goal_z1], [goal_x2, goal_y2, goal_z2]) =
            (cell(goal, 0), cell(goal, 1));
        let params = CatalysisTwoAtomsParams {
            nx,
            ny,
            nz,
            z_lower,
            z_upper,
            layers: z_upper - z_lower,
            start_x1,
            start_y1,
            start_z1,
            start_x2,
            start_y2,
            start_z2,
            goal_x1,
            goal_y1,
            goal_z1,
            goal_x2,
            goal_y2,
            goal_z2,
            exploring_starts: setting.exploring_starts,
            outside_reward: landscape.reward(setting.max_denergy) as f32,
            terminate_reward: setting.terminate_reward as f32,
            scale_x: 1.0 / nx as f32,
            scale_y: 1.0 / ny as f32,
            scale_z: 1.0 / nz as f32,
            start_distance1: start_distance(setting, 0),
            start_distance2: start_distance(setting, 1),
        };
        let tables = Tables { rewards: Rewards::of(&landscape) };
        Ok(Self { episode_length: setting.episode_length, params, tables })
    }

    fn spec(&self) -> EnvSpec {
        let action = Space::MultiDiscrete { sizes: vec![2, 6] };
        spec(Self::NAME, "atoms", action, 2, self.episode_length)
    }

    fn params(&self) -> &CatalysisTwoAtomsParams {
        &self.params
    }

    fn tables(&self) -> Vec<Table<'_>> {
        vec![table(&self.tables.rewards)]
    }

    fn kernel() -> Option<Kernel> {
        Some(Kernel {
            file: "catalysis/two_atoms/step.cu",
            text: include_str!("step.cu"),
            layout: Layout::ThreadPerReplica,
        })
    }

    #[inline(always)]
    fn reset(&self, state: &mut CatalysisTwoAtomsState, draw: &mut Draw) {
        step::reset(&self.params, state, draw);
    }

    #[inline(always)]
    fn observe(&self, state: &CatalysisTwoAtomsState, out: &mut Observation<'_>) {
        step::observe(&self.params, state, out);
    }

    #[inline(always)]
    fn step(
        &self,
        state: &mut CatalysisTwoAtomsState,
        actions: &Actions<'_>,
        _draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        step::step(&self.params, &self.tables, state, actions, out);
    }
}
