//! CUDA bodies without a GPU: compiled by the host's C++ compiler and held against the Rust body.
//!
//! The code that NVRTC compiles for a GPU is also valid C++ behind a small shim, so a machine with
//! just a C++ compiler can find where the two bodies of an environment differ. Both run freely from
//! equal start states with the same random actions, including resets, and after every step all
//! arrays are compared. A body for teams can also be run by several threads of the host.

mod compiler;
mod program;

pub use compiler::Compiler;

use crate::blueprint::Blueprint;
use crate::check::random_actions;
use crate::error::{Error, Result};
use crate::parity::{Parity, bits};
use crate::registry::Entry;
use crate::vec_env::{VecEnv, VecOptions};
use program::Program;
use std::path::Path;
use warp_core::toml::Table;

/// How an environment's CUDA code is run on the host.
#[derive(Debug, Clone)]
pub struct HostBuild<'a> {
    /// Compiles it.
    pub compiler: &'a Compiler,
    /// Threads that step a replica together, 1 to 32; more than 1 for bodies of teams only.
    pub team: usize,
    /// Where the source and the program are written.
    pub folder: &'a Path,
}

/// Steps an environment by its Rust body and by its CUDA body on the host, `steps` times.
///
/// # Errors
/// No CUDA body, one that does not compile, or an environment that can't be made.
pub fn compare(
    entry: &Entry,
    config: &Table,
    options: &VecOptions,
    build: &HostBuild<'_>,
    steps: u32,
) -> Result<Parity> {
    let entry = entry.on_host();
    let blueprint = entry.blueprint(config)?;
    let mut cpu = entry.make(config, options)?;
    let mut twin = Program::start(&blueprint, options, build)?;
    let mut parity = Parity::new(steps);
    for step in 0..=steps {
        if step > 0 {
            random_actions(&mut *cpu, options.seed, step)?;
            twin.act(&actions(&*cpu))?;
            cpu.step()?;
        }
        take(&mut parity, step, &*cpu, &mut twin, &blueprint)?;
        parity.episodes += cpu.take_episodes().count;
    }
    Ok(parity)
}

/// The actions of all groups, one word per element.
fn actions(envs: &dyn VecEnv) -> Vec<u32> {
    envs.ids().action.iter().flat_map(|id| bits(envs, *id)).collect()
}

/// Compares all arrays that the program writes after a step.
fn take(
    parity: &mut Parity,
    step: u32,
    cpu: &dyn VecEnv,
    twin: &mut Program,
    blueprint: &Blueprint,
) -> Result<()> {
    let mut arrays = std::collections::HashMap::new();
    for name in written(blueprint) {
        if let Ok(id) = cpu.store().id(&name) {
            let mut words = twin.read(cpu.store().array(id).len())?;
            if name.starts_with("final_") {
                forget_running(&mut words, cpu, id);
            }
            arrays.insert(id, words);
        }
    }
    parity.take(step, cpu, 0.0, |id| arrays.remove(&id));
    Ok(())
}

/// What an episode ended with means nothing while it runs: those rows count as equal.
fn forget_running(words: &mut [u32], cpu: &dyn VecEnv, id: warp_data::ArrayId) {
    let (cpu_words, ids) = (bits(cpu, id), cpu.ids());
    let row_len = cpu.store().array(id).row_len();
    let ended = bits(cpu, ids.terminated).into_iter().zip(bits(cpu, ids.truncated));
    for (replica, (terminated, truncated)) in ended.enumerate() {
        if terminated + truncated == 0 {
            let row = replica * row_len..(replica + 1) * row_len;
            words[row.clone()].copy_from_slice(&cpu_words[row]);
        }
    }
}

/// What the program writes of each group, in its order.
const KINDS: [&str; 8] = [
    "obs",
    "final_obs",
    "action_mask",
    "final_action_mask",
    "reward",
    "alive",
    "agent_terminated",
    "episode_return",
];

/// The names of the arrays that the program writes, in its order.
fn written(blueprint: &Blueprint) -> Vec<String> {
    let mut names: Vec<String> = blueprint.fields.iter().map(|f| f.name.to_string()).collect();
    for group in &blueprint.spec.groups {
        names.extend(KINDS.map(|kind| format!("{kind}.{}", group.name)));
    }
    let shared = ["terminated", "truncated", "episode_length", "statistic", "final_statistic"];
    names.extend(shared.map(String::from));
    names.push("global_obs".into());
    names
}

/// What went wrong on the host, as this crate's error.
fn failed(blueprint: &Blueprint, reason: impl std::fmt::Display) -> Error {
    Error::Host { env: blueprint.name.into(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vec_env::ArrayIds;
    use warp_core::{EnvSpec, LimitEnds, Space, TimeLimit};

    #[test]
    fn every_array_but_the_actions_is_compared() {
        let limit = TimeLimit { steps: 9, ends: LimitEnds::Truncated };
        let seen = Space::Dict(vec![
            ("action_mask".into(), Space::boxed(0.0, 1.0, &[2])),
            ("place".into(), Space::unbounded(1)),
        ]);
        let mut spec = EnvSpec::one_agent("toy", "one", seen, Space::Discrete { n: 2 }, limit);
        spec.groups[0].mortal = true;
        spec.statistics = vec!["score".into()];
        spec.global_observation = Some(Space::unbounded(1));
        let (plan, _) = ArrayIds::declare(&spec, 1, &[]).unwrap();
        let blueprint = Blueprint { name: "toy", spec, fields: vec![], tables: vec![], body: None };
        let written = written(&blueprint);
        for (name, ..) in plan.entries() {
            assert!(name.starts_with("action.") || written.contains(name), "{name}");
        }
    }
}
