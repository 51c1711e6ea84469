//! Arrays in a state of few numbers, which the executor keeps in vectors: a drone in a gusty room.

use warp_core::{
    Actions, Draw, Env, EnvSpec, Kernel, Layout, LimitEnds, Observation, Result, Space, StepOut,
    TimeLimit, math,
};

warp_core::config! {
    /// Configuration of [`Drone`].
    pub(crate) struct DroneConfig {
        /// Half the width of the room.
        pub(crate) room: f64 = 1.0,
    }
}
warp_core::params! {
    /// What all drones share.
    pub(crate) struct DroneParams {
        /// Half the width of the room.
        room: f32,
    }
}
warp_core::state! {
    /// One drone.
    pub(crate) struct DroneState {
        /// Where it is.
        position: [f32; 3],
        /// Gusts so far.
        gusts: u32,
        /// Where it flies to.
        velocity: [f32; { AXES }],
    }
}

const AXES: usize = 3;
const THRUST: f32 = 0.05;

/// Flies until it hits a wall.
#[derive(Debug)]
pub(crate) struct Drone {
    params: DroneParams,
}

impl Env for Drone {
    const NAME: &'static str = "drone";
    const OBSERVATION_WIDTH: usize = 7;
    type Config = DroneConfig;
    type Params = DroneParams;
    type State = DroneState;

    fn new(config: &DroneConfig) -> Result<Self> {
        Ok(Self { params: DroneParams { room: config.room as f32 } })
    }

    fn spec(&self) -> EnvSpec {
        let limit = TimeLimit { steps: 40, ends: LimitEnds::Truncated };
        let (observation, action) = (Space::unbounded(7), Space::Discrete { n: 6 });
        EnvSpec::one_agent(Self::NAME, "pilot", observation, action, limit)
    }

    fn params(&self) -> &DroneParams {
        &self.params
    }

    fn kernel() -> Option<Kernel> {
        let (file, layout) = ("drone.cu", Layout::ThreadPerReplica);
        Some(Kernel { file, text: include_str!("drone.cu"), layout })
    }

    fn reset(&self, state: &mut DroneState, draw: &mut Draw) {
        let half = 0.5 * self.params.room;
        for axis in 0..AXES {
            state.position[axis] = draw.uniform_in(-half, half);
        }
        state.velocity = [0.0; 3];
        state.gusts = 0;
    }

    fn observe(&self, state: &DroneState, out: &mut Observation<'_>) {
        for axis in 0..state.position.len() {
            out.obs[0][axis] = state.position[axis];
            out.obs[0][AXES + axis] = state.velocity[axis];
        }
        out.obs[0][6] = length(&state.position);
    }

    fn step(
        &self,
        state: &mut DroneState,
        actions: &Actions<'_>,
        draw: &mut Draw,
        out: &mut StepOut<'_>,
    ) {
        let action = actions.discrete[0][0] as usize;
        push(&mut state.velocity, action / 2, if action & 1 == 0 { THRUST } else { -THRUST });
        if draw.uniform() < 0.1 {
            state.gusts += 1;
            state.velocity = gust(state.velocity, draw.uniform_in(0.9, 1.2));
        }
        let before = state.position;
        for axis in 0..AXES {
            state.position[axis] += state.velocity[axis];
        }
        out.reward[0][0] = length(&before) - length(&state.position);
        out.terminated = outside(&state.position, self.params.room);
    }
}

fn length(of: &[f32; 3]) -> f32 {
    math::sqrt(of[0] * of[0] + of[1] * of[1] + of[2] * of[2])
}

fn push(velocity: &mut [f32; AXES], axis: usize, by: f32) {
    velocity[axis] += by;
}

/// Turns and stretches a velocity.
fn gust(velocity: [f32; 3], by: f32) -> [f32; 3] {
    let [x, y, z] = velocity;
    [by * y, by * z, by * x]
}

fn outside(position: &[f32], room: f32) -> bool {
    let mut outside = false;
    for axis in 0..position.len() {
        outside |= position[axis].abs() > room;
    }
    outside
}
