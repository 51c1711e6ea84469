//! Small environments for the executor's tests, one per path through it: scalars with discrete and
//! with continuous actions, chance inside a step, small arrays, and rows with two groups, masks and death.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod board;
pub(crate) mod crowd;
pub(crate) mod drone;
pub(crate) mod pooled;
pub(crate) mod scalars;
pub(crate) mod swarm;

use warp_core::{Draw, Env, Purpose, Space};
use warp_func::{CpuVecEnv, GroupActionsMut, VecEnv, VecOptions};

/// Seed of every test that does not say otherwise.
pub(crate) const SEED: u64 = 41;

/// `n_envs` replicas over `threads` threads.
pub(crate) fn make<E: Env>(config: &E::Config, n_envs: usize, threads: usize) -> CpuVecEnv<E> {
    make_with(config, VecOptions { n_envs, threads, seed: SEED, ..VecOptions::default() })
}

/// Replicas run as `options` say.
pub(crate) fn make_with<E: Env>(config: &E::Config, options: VecOptions) -> CpuVecEnv<E> {
    CpuVecEnv::new(E::new(config).unwrap(), options).unwrap()
}

/// The actions of one agent at one step: a function of its global replica alone.
pub(crate) fn choose(space: &Space, replica: u32, agent: u32, step: u32) -> (Vec<i32>, Vec<f32>) {
    let mut draw = Draw::new(SEED, replica, step, Purpose::RandomAction).agent(agent);
    match space {
        Space::Box { low, high, .. } => {
            (vec![], low.iter().zip(high).map(|(l, h)| draw.uniform_in(*l, *h)).collect())
        }
        heads => {
            let sizes = heads.head_sizes();
            (sizes.iter().map(|n| draw.below(*n as u32) as i32).collect(), vec![])
        }
    }
}

/// Writes everyone's actions for this step.
pub(crate) fn act(envs: &mut dyn VecEnv, step: u32) {
    let (spec, options) = (envs.spec().clone(), envs.options().clone());
    for (g, group) in spec.groups.iter().enumerate() {
        let (mut discrete, mut continuous) = (vec![], vec![]);
        for replica in 0..options.n_envs as u32 {
            for agent in 0..group.n_agents {
                let number = (spec.first_agent(g) + agent) as u32;
                let global = options.first_replica + replica;
                let (heads, reals) = choose(&group.action, global, number, step);
                discrete.extend(heads);
                continuous.extend(reals);
            }
        }
        match envs.actions_mut(g).unwrap() {
            GroupActionsMut::Continuous(target) => target.copy_from_slice(&continuous),
            GroupActionsMut::Discrete(target) => target.copy_from_slice(&discrete),
        }
    }
}

/// Acts and steps `n` times, counting on from the run's step.
pub(crate) fn run(envs: &mut dyn VecEnv, n: u32) {
    for _ in 0..n {
        let step = envs.run_step();
        act(envs, step);
        envs.step().unwrap();
    }
}
