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

/// A mask that forbids everything ends a run on a GPU, too.
pub(crate) fn refuses_to_forbid_everything() -> Result<()> {
    let config = config(REMEMBERS[0].1)?;
    let mut envs = envs_on_gpu(&config)?;
    let mask = envs.ids().action_mask[0].ok_or("taxi has no mask")?;
    // Only on the device: what the host writes into the store is seen anew.
    let device = envs.as_cuda().ok_or("the environments are not on a GPU")?.arrays().array(mask);
    let mut allowed = device.pull::<u8>()?;
    allowed[12..18].fill(0);
    device.push(&allowed)?;
    let done = CudaLearner::new(&config, 1)?.iterate(&mut *envs, progress(&config, 0), 1);
    match done {
        Err(error) if error.to_string().starts_with("row 2 ") => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
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
