//! The content of a checkpoint, put together from all ranks: rows in the order of replicas, weights as every rank
//! has them.

use super::encoding::encode;
use super::env_state::EnvState;
use crate::digest::digest;
use crate::error::{Error, Result};
use crate::model::{LearnerState, NamedArray, Statistic};
use crate::world::{PATIENCE, World};
use warp_func::VecEnv;

/// Bytes that ranks say at a time: a memory as a whole could take longer than they wait for each other.
const PIECE: usize = 64 << 20;
/// Statistics with a number for each row.
const OF_ROWS: &str = ".discounted_return";

/// Counters that a checkpoint keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// The environment's name.
    pub env_id: String,
    /// The run's seed.
    pub seed: u64,
    /// Iterations done.
    pub iteration: u64,
    /// Environment steps done.
    pub env_steps: u64,
}

/// A run at one of its steps, whole.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) counters: Counters,
    pub(crate) learner: LearnerState,
    pub(crate) envs: EnvState,
    pub(crate) run_step: u32,
}

impl Snapshot {
    /// The snapshot of a run of one rank, whose environments the host knows as they are.
    #[must_use]
    pub fn of(counters: &Counters, learner: LearnerState, envs: &dyn VecEnv) -> Self {
        let (counters, run_step) = (counters.clone(), envs.run_step());
        Self { counters, learner, envs: EnvState::of(envs), run_step }
    }

    /// What the ranks of `world` have, each its own part; nothing on ranks other than the first.
    ///
    /// # Errors
    /// Weights that are not the same on all ranks, or ranks that have lost each other.
    pub(crate) fn gather(world: &World, part: Self) -> Result<Option<Self>> {
        if world.is_alone() {
            return Ok(Some(part));
        }
        check_equal(world, &part)?;
        let mut learner = learner(world, part.learner)?;
        let numbers = std::mem::take(&mut learner.numbers).into_iter().map(|numbers| {
            let bytes: Vec<u8> = numbers.data.iter().flat_map(|x| x.to_le_bytes()).collect();
            let parts = in_pieces(world, "replay memories", &bytes)?;
            Ok(joined(numbers, parts.iter().map(|bytes| f32s(bytes)).collect()))
        });
        learner.numbers = numbers.collect::<Result<_>>()?;
        let flags = std::mem::take(&mut learner.flags).into_iter().map(|flags| {
            let parts = in_pieces(world, "flags of replay memories", &flags.data)?;
            Ok(joined(flags, parts))
        });
        learner.flags = flags.collect::<Result<_>>()?;
        let mut envs = Vec::new();
        for (name, tensor) in &*part.envs.arrays()? {
            let parts = world.gather_to_first("replicas", tensor.bytes())?;
            envs.push((name.clone(), tensor.of_parts(&parts)));
        }
        let envs = EnvState::Here(envs);
        Ok(world.is_first().then_some(Self { learner, envs, ..part }))
    }
}

/// What each rank says, however long that is; nothing on ranks other than the first.
fn in_pieces(world: &World, what: &'static str, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut whole = Vec::new();
    for piece in mine.chunks(PIECE) {
        let parts = world.gather_to_first(what, piece)?;
        whole.resize_with(parts.len(), Vec::new);
        whole.iter_mut().zip(parts).for_each(|(whole, part)| whole.extend(part));
    }
    Ok(whole)
}

/// The rows of all ranks, of which `own` has the first, behind each other.
fn joined<T: Copy>(own: NamedArray<T>, parts: Vec<Vec<T>>) -> NamedArray<T> {
    let others: Vec<&[T]> = parts.iter().skip(1).map(|part| &part[..]).collect();
    own.with_rows_of(&others)
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// A learner's state with the rows of all ranks, but for replay memories.
///
/// # Errors
/// Ranks that have lost each other.
pub(crate) fn learner(world: &World, mut state: LearnerState) -> Result<LearnerState> {
    if world.is_alone() {
        return Ok(state);
    }
    for Statistic { name, shape, data } in &mut state.statistics {
        if name.ends_with(OF_ROWS) {
            *data = world.all_gather_f64("discounted returns", data)?;
            *shape = vec![data.len()];
        }
    }
    Ok(state)
}

/// This rank's part of a state with the rows of all ranks.
#[cfg(feature = "cuda")]
pub(crate) fn part(world: &World, state: &LearnerState) -> LearnerState {
    let mut state = state.clone();
    if world.is_alone() {
        return state;
    }
    for Statistic { name, shape, data } in &mut state.statistics {
        if name.ends_with(OF_ROWS) {
            *data = data[world.share(data.len())].to_vec();
            *shape = vec![data.len()];
        }
    }
    let (rank, size) = (world.rank(), world.size());
    state.numbers.iter_mut().for_each(|array| *array = array.part(rank, size));
    state.flags.iter_mut().for_each(|array| *array = array.part(rank, size));
    state
}

/// Checks that all ranks have the same weights and moments.
fn check_equal(world: &World, part: &Snapshot) -> Result<()> {
    let Snapshot { learner, counters, .. } = part;
    let mut bytes = encode(&learner.weights, &[])?;
    bytes.extend(encode(&learner.optimizer, &[])?);
    // The first rank may come later: it evaluated or wrote.
    let mine = digest(&bytes);
    let digests = world.all_gather_within("digests of weights", mine.as_bytes(), PATIENCE)?;
    match digests.iter().position(|digest| *digest != digests[0]) {
        None => Ok(()),
        Some(rank) => {
            let reason = format!(
                "rank {rank} has other weights than rank 0, which rounding cannot explain; the \
                 last checkpoint is good"
            );
            Err(Error::Broken { step: counters.env_steps, reason })
        }
    }
}
