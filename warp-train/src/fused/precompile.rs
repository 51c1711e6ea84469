//! All that a run has compiled, known before anything of it is made: environment and policies compile side by side
//! while the host initialises weights and the GPU takes its arrays.

use super::halves::is_exact;
use super::wide::{Machine, NetworkBackend, WideText};
use super::{OnDevice, Path, mixed, small};
use crate::config::TrainConfig;
use crate::engine::cuda;
use crate::error::Result;
use std::cmp::Reverse;
use warp_func::Registry;
use warp_func::cuda::{Build, DeviceInfo, EnvKernels, ExecutorPart, Kernels, Source, env_kernels};

/// A translation unit and how exact it is.
type Unit = (Source, Build);

/// Units that take long, the longest first, and of several with one name the one with the longest text. The compiler
/// reads one text at a time, whatever the threads, and these are not to wait until it has read all others.
const LONG: [&str; 6] = [
    "program.cu",
    "small_few_replicas.cu",
    "small_update.cu",
    "wide.cu",
    "wide_tiled.cu",
    "wide_fused.cu",
];

/// Lets `kernels` begin to compile what `config` needs in environments of `registry`, and returns at once. What a
/// run does, and how, does not depend on it: the same texts are asked for later, and what is wrong with one is an
/// error then.
///
/// # Errors
/// An environment, network or algorithm that can't be built.
pub fn precompile(config: &TrainConfig, registry: &Registry, kernels: &Kernels) -> Result<()> {
    let entry = registry.get(&config.run.env_id)?;
    // Ranks compile one after the other, and the others find what the first has kept. Policies in a league are
    // learners of their own.
    if entry.kernel.is_none() || !config.world.is_alone() || config.league.is_some() {
        return Ok(());
    }
    let env = env_kernels(&entry.blueprint(&config.env)?)?;
    kernels.begin(units(config, &env, kernels.device().info())?);
    Ok(())
}

/// The translation units that a run of `config` alone on a GPU like `info` has compiled in environments with the
/// code `env`, in the order in which to begin with them.
///
/// # Errors
/// As [`precompile`].
pub fn units(config: &TrainConfig, env: &EnvKernels, info: &DeviceInfo) -> Result<Vec<Unit>> {
    let executor = ExecutorPart::FIRST.map(|part| (env.executor(part), Build::Parity));
    let own = match OnDevice::path_of(config, env, info) {
        Path::Small => released(small::run_sources(config, env).into()),
        Path::FewReplicas => {
            released(vec![small::fleet_source(config, env, 1, info.n_multiprocessors)])
        }
        Path::Team => released(small::team_sources(config, env)),
        Path::Wide => {
            let backend = NetworkBackend { tensor_cores: !is_exact(config), foreign: None };
            let texts = WideText::of_all(config, Machine::of(info), backend, Some(env))?;
            let units = texts.iter().flat_map(WideText::units);
            units.map(|(unit, build)| (unit.clone(), build)).collect()
        }
        Path::OffPolicy => cuda::sources(config, cuda::Machine::of(info))?,
        Path::Mixed => mixed::units(config, info)?,
    };
    let mut units: Vec<_> = executor.into_iter().chain(own).collect();
    let rank = |name: &str| LONG.iter().position(|long| *long == name).unwrap_or(LONG.len());
    units.sort_by_key(|(unit, _)| (rank(&unit.name), Reverse(unit.text.len())));
    Ok(units)
}

/// The translation units that off-policy policies of `config` compile for an H200 shared by `runs`.
///
/// # Errors
/// Policies that an algorithm does not take.
pub fn off_policy_sources(config: &TrainConfig, runs: usize) -> Result<Vec<Unit>> {
    cuda::sources(config, cuda::H200.shared_by(runs))
}

/// All units of a fleet, of which `runs` runs like that of `config` share a launch.
pub(crate) fn fleet_units(
    config: &TrainConfig,
    env: &EnvKernels,
    runs: usize,
    info: &DeviceInfo,
) -> Vec<Unit> {
    let executor = ExecutorPart::FIRST.map(|part| (env.executor(part), Build::Parity));
    let own = small::fleet_source(config, env, runs, info.n_multiprocessors);
    std::iter::once((own, Build::Release)).chain(executor).collect()
}

fn released(sources: Vec<Source>) -> Vec<Unit> {
    sources.into_iter().map(|source| (source, Build::Release)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products of compute capability 9 alone are in no text for another GPU.
    #[test]
    fn other_gpus_have_kernels_of_their_own() {
        let gpu = |capability| DeviceInfo {
            ordinal: 0,
            name: String::new(),
            uuid: String::new(),
            driver: (13, 0),
            capability,
            n_multiprocessors: 84,
            total_bytes: 24 << 30,
            shared_per_block: 99 << 10,
            shared_per_multiprocessor: 100 << 10,
            l2_bytes: 6 << 20,
        };
        let registry = warp_envs::registry();
        let cases = [
            ("env_id = \"cartpole\"", true),
            ("env_id = \"tag_gridworld\"", true),
            ("env_id = \"covid19\"", true),
            ("env_id = \"pendulum\"\nalgorithm = \"sac\"", false),
        ];
        for (keys, has_newest) in cases {
            let config = TrainConfig::resolve(&keys.parse().unwrap(), &registry).unwrap();
            let entry = registry.get(&config.run.env_id).unwrap();
            let env = env_kernels(&entry.blueprint(&config.env).unwrap()).unwrap();
            let is_newest = |capability| {
                let units = units(&config, &env, &gpu(capability)).unwrap();
                units.iter().any(|(source, _)| {
                    let headers = source.headers.iter().map(|(_, text)| text);
                    headers.chain([&source.text]).any(|text| text.contains("wgmma"))
                })
            };
            assert_eq!(is_newest((9, 0)), has_newest, "{keys}");
            for capability in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
                assert!(!is_newest(capability), "{keys} on {capability:?}");
            }
        }
    }
}
