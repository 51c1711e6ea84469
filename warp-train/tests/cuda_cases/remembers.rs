//! What is in a replay memory.

use super::{Case, Result, config, envs_on_gpu, progress, registry};
use libtest_mimic::Trial;
use warp_train::learner::Learner;
use warp_train::native::cuda::CudaLearner;

/// Runs that only remember.
const REMEMBERS: [Case; 2] = [
    (
        "masks, episodes that are cut",
        "env_id = \"taxi\"\nalgorithm = \"dqn\"\nnum_envs = 40\nnum_steps = 32\nlearning_starts = 100000\n\
         [env]\nepisode_length = 7",
    ),
    (
        "masks of two groups",
        "env_id = \"covid19\"\nalgorithm = \"dqn\"\nnum_envs = 3\nnum_steps = 32\n\
         learning_starts = 100000\nbuffer_size = 30000\n[policy.governor]\n[policy.planner]",
    ),
];

/// What is to hold of each; ignored without a GPU.
pub(crate) fn trials(ignored: bool) -> impl Iterator<Item = Trial> {
    REMEMBERS.into_iter().map(move |(name, keys)| {
        let name = format!("cuda_off_policy_remembers_as_the_cpu: {name}");
        Trial::test(name, || remembers_the_same(keys)).with_ignored_flag(ignored)
    })
}

/// A memory has the same bits on a GPU as on the CPU, if its run takes no action by its weights.
fn remembers_the_same(keys: &str) -> Result<()> {
    let config = config(keys)?;
    let registry = registry();
    let mut envs = registry.get(&config.run.env_id)?.make(&config.env, &config.vec_options())?;
    let mut cpu = warp_train::native::learner(&config, 1)?;
    cpu.iterate(&mut *envs, progress(&config, 0), 3)?;
    let mut gpu = CudaLearner::new(&config, 1)?;
    gpu.iterate(&mut *envs_on_gpu(&config)?, progress(&config, 0), 3)?;
    let [expected, found] = [cpu.state(), gpu.state()];
    if found.flags.is_empty() {
        return Err("nothing is remembered".into());
    }
    for array in &found.flags {
        let same = expected.flags.iter().any(|other| other == array);
        same.then_some(()).ok_or_else(|| format!("{} differs", array.name))?;
    }
    for array in &found.numbers {
        let same = expected.numbers.iter().any(|other| other == array);
        same.then_some(()).ok_or_else(|| format!("{} differs", array.name))?;
    }
    Ok(())
}
