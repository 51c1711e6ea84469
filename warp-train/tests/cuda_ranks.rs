//! Several GPUs that learn together: the same weights on all of them, the same bits again, near the CPU's ranks, and
//! one GPU that goes on with their shards.
//!
//! What needs two GPUs is ignored without them; the kernels' text is compiled wherever there is a compiler. Where there
//! are more than two, the runs are also of all of them.

mod cuda_cases;

use cuda_cases::go_on::{go_on, go_on_elsewhere};
use cuda_cases::normed::NORMED_SMALL;
use cuda_cases::replay::REPLAY;
use cuda_cases::small::compiles_on;
use cuda_cases::{
    Case, Done, NEAR, NEAR_IN_MINIBATCHES, Result, config, near, no_compiler, no_device, on_cpu,
    on_gpu, on_gpu_number, registry,
};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;
use warp_func::cuda::{Device, Source, env_kernels, machine_code};
use warp_train::config::{Precision, TrainConfig};
use warp_train::learner::{Learner, LearnerState};
use warp_train::native::NativeLearner;
use warp_train::native::cuda::{CudaLearner, off_policy_sources, units, wide_sources};
use warp_train::world::{Carrier, World, threads};

/// Runs with an even number of replicas: a name and keys.
const CASES: [Case; 9] = [
    (
        "ppo, truncations",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 2\n\
         [env]\nepisode_length = 9",
    ),
    (
        "ppo, minibatches",
        "env_id = \"cartpole\"\nnum_envs = 256\nnum_steps = 32\nnum_minibatches = 4\nupdate_epochs = 4",
    ),
    (
        "a2c, relu, shared trunk",
        "env_id = \"cartpole\"\nnum_envs = 40\nnum_steps = 10\nalgorithm = \"a2c\"\nhidden = [32, 32]\n\
         activation = \"relu\"\nshared_trunk = true",
    ),
    (
        "three choices, layers of 128",
        "env_id = \"acrobot\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 1\nmax_grad_norm = 0\nnorm_obs = false",
    ),
    (
        "sixteen numbers, layers of 128",
        "env_id = \"frozen_lake\"\nnum_envs = 24\nnum_steps = 12\nhidden = [128, 128]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = false",
    ),
    (
        "gaussian",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = false\nnorm_reward = false",
    ),
    (
        "many replicas, two blocks a multiprocessor",
        "env_id = \"cartpole\"\nnum_envs = 32768\nnum_steps = 16\nnum_minibatches = 2\nupdate_epochs = 2",
    ),
    (
        "a2c, several agents, one policy for two groups",
        "env_id = \"tag_gridworld\"\nnum_envs = 48\nnum_steps = 30\nalgorithm = \"a2c\"\n\
         hidden = [32, 32]\nactivation = \"relu\"\nshared_trunk = true\n[env]\nnum_taggers = 4\n\
         grid_length = 5\nepisode_length = 12\n[policy.all]\ngroups = [\"tagger\", \"runner\"]",
    ),
    (
        "ppo, several agents, a policy per group",
        "env_id = \"tag_gridworld\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\n\
         update_epochs = 2\n[env]\nnum_taggers = 3\ngrid_length = 4\nepisode_length = 7",
    ),
];
/// Runs that no fast path takes: through NCCL.
const WIDE: [Case; 7] = [
    (
        "wide, ppo, minibatches",
        "env_id = \"cartpole\"\nnum_envs = 256\nnum_steps = 32\nnum_minibatches = 4\nupdate_epochs = 2\n\
         hidden = [256, 256]",
    ),
    (
        "wide, ppo, truncations, fp32",
        "env_id = \"cartpole\"\nnum_envs = 24\nnum_steps = 20\nnum_minibatches = 1\nupdate_epochs = 2\n\
         hidden = [40, 24]\nprecision = \"fp32\"\n[env]\nepisode_length = 9",
    ),
    (
        "wide, mortal agents",
        "env_id = \"tag_continuous\"\nnum_envs = 6\nnum_steps = 9\nalgorithm = \"a2c\"\n\
         hidden = [64, 64]\n[env]\nnum_taggers = 3\nnum_runners = 8\ntagging_distance = 0.1",
    ),
    (
        "wide, normalised",
        "env_id = \"pendulum\"\nnum_envs = 24\nnum_steps = 12\nhidden = [64, 64]\nnum_minibatches = 1\n\
         update_epochs = 1\nnorm_obs = true\nnorm_reward = true",
    ),
    (
        "wide, layer by layer",
        "env_id = \"acrobot\"\nnum_envs = 16\nnum_steps = 10\nhidden = [512, 512, 512]\nnum_minibatches = 1\n\
         update_epochs = 1",
    ),
    (
        "wide, layer by layer, layer norm",
        "env_id = \"acrobot\"\nnum_envs = 16\nnum_steps = 10\nhidden = [512, 300]\nlayer_norm = true\n\
         num_minibatches = 1\nupdate_epochs = 1",
    ),
    (
        "wide, masks, a policy that does not learn",
        "env_id = \"covid19\"\nnum_envs = 4\nnum_steps = 6\nhidden = [64]\nalgorithm = \"a2c\"\n\
         [policy.planner]\nto_train = false\n[policy.governor]\nhidden = [128, 64]",
    ),
];
/// Runs whose gradients are more than 16 MiB of both ranks: NCCL sums them.
const LARGE: Case = (
    "wide, large gradients",
    "env_id = \"acrobot\"\nnum_envs = 16\nnum_steps = 10\nhidden = [1024, 1024, 1024]\nnum_minibatches = 1\n\
     update_epochs = 1",
);
const LARGE_REPLAY: Case = (
    "replay, large gradients",
    "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 2\nnum_steps = 4\nlearning_starts = 8\n\
     hidden = [1024, 1024, 1024]\nbatch_size = 64",
);
/// Taggers that learn from rollouts beside runners that learn from a replay memory.
const MIXED: Case = (
    "a2c beside dqn",
    "env_id = \"tag_gridworld\"\nalgorithm = \"a2c\"\nnum_envs = 6\nnum_steps = 4\nhidden = [48, 48]\n\
     [policy.tagger]\ngroups = [\"tagger\"]\n\
     [policy.runner]\ngroups = [\"runner\"]\nalgorithm = \"dqn\"\nlearning_starts = 24\ntrain_freq = 2",
);
const RANKS: usize = 2;

/// Kernels wait for those of another GPU, so nothing else may hold that GPU up meanwhile: runs take turns.
static GPUS: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    let (no_compiler, few) = (no_compiler(), too_few_devices());
    if let Some(reason) = &few {
        println!("what needs several GPUs is ignored: {reason}");
    }
    let no_nccl = few.is_some() || warp_data::cuda::nccl_version().is_err();
    let mut trials = Vec::new();
    let without = |trial: Trial| trial.with_ignored_flag(no_compiler.is_some());
    let small = CASES.into_iter().chain([NORMED_SMALL[0]]);
    for (case, compiles) in small
        .map(|case| (case, compiles_for_ranks as Test))
        .chain(WIDE.map(|case| (case, wide_compiles_for_ranks as Test)))
    {
        let trial = |test: &str, run: Test, ignored| on_gpus(test, case, run, ignored);
        trials.push(without(named("ranks_compile", case, compiles)));
        trials.push(trial("cuda_ranks_are_equal_and_repeat", equal_and_repeats, few.is_some()));
        trials.push(trial("cuda_ranks_are_near_the_cpus", near_the_cpus, few.is_some()));
        trials.push(trial("cuda_ranks_through_nccl_have_the_same_bits", links_are_equal, no_nccl));
        trials.push(trial("cuda_ranks_go_on_on_one_gpu", goes_on_on_one, few.is_some()));
    }
    for case in REPLAY {
        trials.push(without(named("ranks_compile: replay", case, replay_compiles_for_ranks)));
    }
    for case in REPLAY.into_iter().chain([MIXED]) {
        let trial = |test: &str, run: Test, ignored| {
            on_gpus(&format!("{test}: replay"), case, run, ignored)
        };
        trials.push(trial("cuda_ranks_are_equal_and_repeat", equal_and_repeats, few.is_some()));
        trials.push(trial("cuda_ranks_are_near_the_cpus", replay_near_the_cpus, few.is_some()));
        trials.push(trial("cuda_ranks_go_on", goes_on, few.is_some()));
        trials.push(trial("cuda_ranks_go_on_alone", goes_on_alone, few.is_some()));
        trials.push(trial("cuda_ranks_go_on_elsewhere", goes_on_elsewhere, few.is_some()));
        trials.push(trial("cuda_ranks_through_nccl_have_the_same_bits", links_are_equal, no_nccl));
    }
    trials.extend(large(no_compiler.is_some(), no_nccl));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What is done with a case's keys.
type Test = fn(&str) -> Result<()>;

fn named(
    test: &str,
    (name, keys): Case,
    run: impl Fn(&str) -> Result<()> + Send + 'static,
) -> Trial {
    Trial::test(format!("{test}: {name}"), move || run(keys))
}

/// A test that has the GPUs for itself, and has its kernels compiled before.
fn on_gpus(test: &str, case: Case, run: Test, ignored: bool) -> Trial {
    let run = move |keys: &str| {
        precompile(keys)?;
        let _alone = GPUS.lock();
        run(keys)
    };
    named(test, case, run).with_ignored_flag(ignored)
}

/// What is to hold where NCCL sums gradients: all but the order of sums, which is NCCL's.
fn large(no_compiler: bool, no_nccl: bool) -> Vec<Trial> {
    let trial = |test: &str, case, run: Test| on_gpus(test, case, run, no_nccl);
    let compiles =
        |case, run: Test| named("ranks_compile", case, run).with_ignored_flag(no_compiler);
    vec![
        compiles(LARGE, wide_compiles_for_ranks),
        trial("cuda_ranks_are_equal_and_repeat", LARGE, equal_and_repeats),
        trial("cuda_ranks_are_near_the_cpus", LARGE, near_the_cpus),
        trial("cuda_ranks_go_on_on_one_gpu", LARGE, goes_on_on_one),
        compiles(LARGE_REPLAY, replay_compiles_for_ranks),
        trial("cuda_ranks_are_equal_and_repeat", LARGE_REPLAY, equal_and_repeats),
        trial("cuda_ranks_are_near_the_cpus", LARGE_REPLAY, replay_near_the_cpus),
        trial("cuda_ranks_go_on_elsewhere", LARGE_REPLAY, goes_on_elsewhere),
    ]
}

/// Why several ranks can't be run here.
fn too_few_devices() -> Option<String> {
    no_device().or_else(|| Device::open(RANKS - 1).err().map(|error| error.to_string()))
}

/// Numbers of ranks to run: two, and as many as there are GPUs.
fn numbers() -> Vec<usize> {
    let all = (RANKS..64).take_while(|n| Device::open(*n).is_ok()).last().map_or(RANKS, |n| n + 1);
    if all > RANKS { vec![RANKS, all] } else { vec![RANKS] }
}

/// The same run of so many shards, and of as many replicas as these can have.
fn of_shards(mut config: TrainConfig, shards: usize) -> TrainConfig {
    config.run.num_envs = config.run.num_envs.next_multiple_of(shards);
    config.run.shards = Some(shards);
    config
}

/// A case, which is of two ranks, with as many replicas for each of `ranks`.
fn of_ranks(keys: &str, ranks: usize) -> Result<TrainConfig> {
    let two = config(keys)?;
    let n_envs = two.run.num_envs / RANKS * ranks;
    config(
        &keys.replace(&format!("num_envs = {}", two.run.num_envs), &format!("num_envs = {n_envs}")),
    )
}

fn compiles_for_ranks(keys: &str) -> Result<()> {
    for (size, carrier) in [(2, Carrier::Nccl), (8, Carrier::Peers)] {
        let link = threads(size, Duration::from_secs(1)).swap_remove(0);
        let world = World::new(0, size, link).carried_by(carrier);
        compiles_on(&config(keys)?.on_rank(world)?, 1)?;
    }
    let link = threads(RANKS, Duration::from_secs(1)).swap_remove(0);
    let world = World::new(0, RANKS, link).carried_by(Carrier::Peers);
    compiles_on(&of_shards(config(keys)?, 2 * RANKS).on_rank(world)?, 1)
}

fn wide_compiles_for_ranks(keys: &str) -> Result<()> {
    for config in [config(keys)?, of_shards(config(keys)?, 2 * RANKS)] {
        let link = threads(RANKS, Duration::from_secs(1)).swap_remove(0);
        let config = config.on_rank(World::new(0, RANKS, link))?;
        let texts = wide_sources(&config, None)?;
        let kernel = |source: &Source| source.text.contains("void all_gather(");
        if texts.iter().filter(|(source, _)| kernel(source)).count() != config.policies.len() {
            return Err("each policy needs a kernel that gathers".into());
        }
        for (source, build) in texts.iter().filter(|(source, _)| kernel(source)) {
            cuda_cases::texts::check(source, *build)?;
        }
    }
    Ok(())
}

/// Keeps the machine code of what a case runs on Hopper GPUs, while another case has them.
fn precompile(keys: &str) -> Result<()> {
    let gpu = Device::open(0)?;
    for carrier in [Carrier::Peers, Carrier::Nccl] {
        let link = threads(RANKS, Duration::from_secs(1)).swap_remove(0);
        let world = World::new(0, RANKS, link).carried_by(carrier);
        let config = config(keys)?.on_rank(world)?;
        let blueprint = registry().get(&config.run.env_id)?.blueprint(&config.env)?;
        for (source, build) in units(&config, &env_kernels(&blueprint)?, gpu.info())? {
            machine_code(&source, build, "sm_90a")?;
        }
    }
    Ok(())
}

/// Ranks, and what carries their sums.
#[derive(Clone, Copy)]
struct Of {
    ranks: usize,
    carrier: Carrier,
}

/// `n` iterations on every rank.
fn on_ranks(config: &TrainConfig, n: u64, of: Of) -> Result<Vec<Done>> {
    on_ranks_from(None, config, n, of)
}

/// `n` iterations on every rank behind those that left a state, if some did.
fn on_ranks_from(
    before: Option<&Before>,
    config: &TrainConfig,
    n: u64,
    Of { ranks, carrier }: Of,
) -> Result<Vec<Done>> {
    let work = |rank: usize, link| -> Result<Done> {
        let world = World::new(rank, ranks, link).waiting(Duration::from_secs(10));
        let world = world.carried_by(carrier);
        let config = config.clone().on_rank(world)?;
        let mut learner = CudaLearner::new(&config, 1)?;
        before.map_or(Ok(()), |before| learner.load_state(&before.state))?;
        on_gpu_number(rank, &config, &mut learner, before.map_or(0, |before| before.n), n)
    };
    std::thread::scope(|scope| {
        let links = threads(ranks, Duration::from_secs(60)).into_iter().enumerate();
        let ranks: Vec<_> =
            links.map(|(rank, link)| scope.spawn(move || work(rank, link))).collect();
        ranks.into_iter().map(|rank| rank.join().map_err(|_| "a rank panicked")?).collect()
    })
}

fn bits(state: &LearnerState) -> Vec<(String, Vec<u32>)> {
    let tensors = state.weights.iter().chain(&state.optimizer);
    tensors.map(|t| (t.name.clone(), t.data.iter().map(|x| x.to_bits()).collect())).collect()
}

/// What differs first between two runs if not all is the same, in words: figures by their iteration, then tensors.
fn difference(a: &Done, b: &Done) -> Option<String> {
    if bits(&a.state) == bits(&b.state) && a.seen == b.seen {
        return None;
    }
    let figures = a.seen.iter().zip(&b.seen).enumerate().find_map(|(i, (a, b))| {
        let (name, x) = a.iter().find(|(name, x)| b.get(name) != Some(*x))?;
        Some(format!("{name} of iteration {i} is {x:?} and {:?}", b.get(name)))
    });
    let tensors = bits(&a.state).into_iter().zip(bits(&b.state)).find_map(|((name, a), (_, b))| {
        let others = a.iter().zip(&b).filter(|(x, y)| x != y).count();
        let first = a.iter().zip(&b).position(|(x, y)| x != y)?;
        let [x, y] = [a[first], b[first]].map(f32::from_bits);
        Some(format!("{name}: {others} of {} differ, number {first} is {x:e} and {y:e}", a.len()))
    });
    Some(figures.into_iter().chain(tensors).collect::<Vec<_>>().join("; "))
}

fn equal_and_repeats(keys: &str) -> Result<()> {
    for ranks in numbers() {
        let (config, of) = (of_ranks(keys, ranks)?, Of { ranks, carrier: Carrier::Suited });
        let first = on_ranks(&config, 5, of)?;
        let again = on_ranks(&config, 5, of)?;
        if first.iter().any(|done| bits(&done.state) != bits(&first[0].state)) {
            return Err(format!("{ranks} ranks have different weights").into());
        }
        if let Some(what) = difference(&first[0], &again[0]) {
            return Err(format!("the same run of {ranks} ranks gives other bits: {what}").into());
        }
    }
    Ok(())
}

/// Sums have the order of ranks, whatever carries them.
fn links_are_equal(keys: &str) -> Result<()> {
    for ranks in numbers() {
        let config = of_ranks(keys, ranks)?;
        let [peers, nccl] = [Carrier::Peers, Carrier::Nccl]
            .map(|carrier| on_ranks(&config, 5, Of { ranks, carrier }));
        let (peers, nccl) = (peers?, nccl?);
        if let Some(what) = difference(&peers[0], &nccl[0]) {
            return Err(format!("{ranks} ranks have other bits through NCCL: {what}").into());
        }
    }
    Ok(())
}

/// What `n` iterations left.
struct Before {
    n: u64,
    state: LearnerState,
}

impl Before {
    /// The state of a whole run: discounted returns are of each rank's rows, and all else is the same on all.
    fn of_all(n: u64, done: &[Done]) -> Self {
        let mut state = done[0].state.clone();
        for (at, statistic) in state.statistics.iter_mut().enumerate() {
            if statistic.name.ends_with("discounted_return") {
                let parts = done.iter().flat_map(|done| &done.state.statistics[at].data);
                statistic.data = parts.copied().collect();
                statistic.shape = vec![statistic.data.len()];
            }
        }
        Self { n, state }
    }
}

/// One GPU goes on from what several have left, with their minibatches.
fn goes_on_on_one(keys: &str) -> Result<()> {
    for ranks in numbers() {
        for shards in [ranks, 2 * ranks] {
            let config = of_shards(of_ranks(keys, ranks)?, shards);
            let of = Of { ranks, carrier: Carrier::Suited };
            let before = Before::of_all(2, &on_ranks(&config, 2, of)?);
            let expected = on_ranks_from(Some(&before), &config, 1, of)?.swap_remove(0);
            let mut one = CudaLearner::new(&config, 1)?;
            one.load_state(&before.state)?;
            let found = on_gpu(&config, &mut one, before.n, 1)?;
            let distance = near(&found, &expected, NEAR)?;
            println!("{distance:.2e}, {shards} shards of {ranks} ranks");
        }
    }
    Ok(())
}

fn near_the_cpus(keys: &str) -> Result<()> {
    for ranks in numbers() {
        let config = of_ranks(keys, ranks)?;
        let of = Of { ranks, carrier: Carrier::Suited };
        let found = on_ranks(&config, 1, of)?.swap_remove(0);
        let mut alone = config;
        alone.run.shards = Some(ranks);
        let expected = on_cpu(&alone, &mut NativeLearner::new(&alone, 1)?, 0, 1)?;
        let one = alone.policies[0].config.num_minibatches == 1;
        let bounds = if one { NEAR } else { NEAR_IN_MINIBATCHES };
        let distance = near(&found, &expected, bounds)?;
        println!("{distance:.2e}, {ranks} ranks: {}", keys.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// With a shard for each rank, and with two.
fn replay_compiles_for_ranks(keys: &str) -> Result<()> {
    for config in [config(keys)?, of_shards(config(keys)?, 2 * RANKS)] {
        let link = threads(RANKS, Duration::from_secs(1)).swap_remove(1);
        let config = config.on_rank(World::new(1, RANKS, link))?;
        for (source, build) in off_policy_sources(&config, 1)? {
            cuda_cases::texts::check(&source, build)?;
        }
    }
    Ok(())
}

/// How far runs with replay memories may be from the CPU's after three iterations: as far as those of one GPU.
fn replay_bounds(config: &TrainConfig) -> (f64, f64) {
    match config.policies[0].config.precision {
        Precision::Single => (1e-4, 1e-4),
        _ => (0.02, 1.0),
    }
}

/// With a shard for each rank, and with two.
fn replay_near_the_cpus(keys: &str) -> Result<()> {
    for ranks in numbers() {
        for shards in [ranks, 2 * ranks] {
            let config = of_shards(of_ranks(keys, ranks)?, shards);
            let of = Of { ranks, carrier: Carrier::Suited };
            let found = on_ranks(&config, 3, of)?.swap_remove(0);
            let expected = on_cpu(&config, &mut *warp_train::native::learner(&config, 1)?, 0, 3)?;
            let distance = near(&found, &expected, replay_bounds(&config))?;
            let keys = keys.lines().next().unwrap_or_default();
            println!("{distance:.2e}, {shards} shards of {ranks} ranks: {keys}");
        }
    }
    Ok(())
}

/// From a checkpoint of two GPUs one goes on, and so does the CPU, whose products are more exact.
fn goes_on_elsewhere(keys: &str) -> Result<()> {
    for shards in [RANKS, 2 * RANKS] {
        let config = of_shards(config(keys)?, shards);
        let (of_cpu, _) = replay_bounds(&config);
        go_on_elsewhere(&config, RANKS, [1e-4, of_cpu])?;
    }
    Ok(())
}

/// Two and two iterations are four, with a checkpoint of all ranks between them.
fn goes_on(keys: &str) -> Result<()> {
    go_on(keys, RANKS)
}

/// The same of one rank.
fn goes_on_alone(keys: &str) -> Result<()> {
    go_on(keys, 1)
}
