//! Independent replicas, each with its own seed, random-number counter and episode.
//!
//! The training executor steps all replicas at once, and the random numbers of a replica depend on its index and on
//! the step of the run. Here any of them may be stepped, in any order, and each behaves as it would on its own:
//! replica i of seed s equals a single replica of seed s + i, bit for bit. `plan` declares what a replica's future
//! depends on, `actions` has orders and checks them, `batch` is what a step shows, `runner` moves some replicas, `tile`
//! many at once in vector registers; `queue` lets them move by themselves.
#![expect(unsafe_code, reason = "threads move disjoint replicas of shared arrays")]

mod actions;
mod batch;
mod options;
mod plan;
pub mod queue;
mod runner;
mod tile;

pub use actions::Orders;
pub use batch::Batch;
pub use options::{AutoReset, ReplicaOptions};
pub use queue::ReplicaQueue;

use crate::error::{Error, Result};
use crate::executor::starts::fields;
use crate::pool::StateField;
use crate::thread_pool::{ThreadPool, thread_count};
use plan::{Phase, ReplicaIds};
use runner::{Mover, Part, Runner};
use std::sync::Arc;
use std::time::Instant;
use warp_core::{Env, EnvSpec, Fault};
use warp_data::{Store, StoreMut};

/// Work for which waking another thread pays, ns.
const WORTH_A_THREAD: f64 = 50_000.0;
/// Rows that are worked on by one thread: whole tiles.
const CHUNK: usize = 64;

/// Makes what moves replicas of one environment.
type MakeMover = Box<dyn FnOnce(EnvSpec, &ReplicaOptions, &Store, &ReplicaIds) -> Arc<dyn Mover>>;

/// Which replicas they are, wherever they are moved to in memory.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<dyn Mover>);

/// Replicas of one environment on the host, each with a seed and an episode of its own.
///
/// A replica that is new, or whose episode has ended (unless [`AutoReset::SameStep`] has begun the next one
/// already), begins an episode instead of a step: its reward is 0, and it is 0 steps into its episode.
///
/// A random number depends on the replica's seed and on its number of steps and resets since it got that seed.
#[derive(Debug)]
pub struct Replicas {
    mover: Arc<dyn Mover>,
    options: ReplicaOptions,
    store: Store,
    ids: ReplicaIds,
    thread_pool: ThreadPool,
    /// Threads of the thread pool at most: the system is asked once, since its answer takes long.
    threads: usize,
    /// What moving one replica took of late, ns.
    cost: f64,
    /// A flag per replica, all 0 between calls.
    seen: Vec<u8>,
}

impl Replicas {
    /// New replicas: each begins its first episode when it is first stepped.
    ///
    /// # Errors
    /// Options out of range, a spec that contradicts itself, or too little memory.
    pub fn new<E: Env>(env: E, options: ReplicaOptions) -> Result<Self> {
        options.check()?;
        let spec = EnvSpec::of(&env)?;
        let fields = fields(&env)?;
        let mover: MakeMover = Box::new(|spec, options, store, ids| {
            Arc::new(Runner::new(env, spec, options, store, ids))
        });
        Self::moved_by(spec, &fields, options, mover)
    }

    /// Replicas with states of these fields, and what moves them.
    fn moved_by(
        mut spec: EnvSpec,
        fields: &[StateField],
        options: ReplicaOptions,
        mover: MakeMover,
    ) -> Result<Self> {
        let n = options.seeds.len();
        if let Some(steps) = options.max_episode_steps {
            spec.time_limit.steps = steps;
        }
        let (plan, ids) = plan::plan(fields, &spec, n)?;
        let mut store = plan.allocate()?;
        for (id, seed) in options.seeds.iter().enumerate() {
            ids.seed(&mut store.edit(), id, *seed);
        }
        let mover = mover(spec, &options, &store, &ids);
        // A thread pool is as large as there can be work for.
        let threads = thread_count(options.threads).min(n.div_ceil(CHUNK));
        let cores = options.clone();
        // The caller's thread is where the caller has put it.
        let start = move |index: usize| cores.core_of(index - 1).into_iter().for_each(options::pin);
        let thread_pool = ThreadPool::starting(threads, start);
        Ok(Self { mover, options, store, ids, thread_pool, threads, cost: 0.0, seen: vec![0; n] })
    }

    /// One replica seen from outside, with the time limit of the options.
    #[must_use]
    pub fn spec(&self) -> &EnvSpec {
        self.mover.spec()
    }

    /// How they are run, with the seeds that they have now.
    #[must_use]
    pub fn options(&self) -> &ReplicaOptions {
        &self.options
    }

    /// How likely each kind of outcome is; see [`Env::chances`].
    #[must_use]
    pub fn chances(&self) -> &[f64] {
        self.mover.chances()
    }

    /// Whether observations are numbers, i32 `[rows, 1]`, and not f32 `[rows, n_agents, width]`.
    #[must_use]
    pub fn numbered(&self) -> bool {
        self.mover.layout().numbered
    }

    /// Room for what `rows` replicas show.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new_batch(&self, rows: usize) -> Result<Batch> {
        Batch::new(self.mover.spec(), self.mover.layout(), rows)
    }

    /// Moves the replicas of `orders`; row k of `batch` is what the k-th shows.
    ///
    /// # Errors
    /// An index of a replica that does not exist or occurs twice, too small a batch, an action outside its space
    /// that would be used, or a replica whose episode has ended and is not reset automatically; then nothing has
    /// moved.
    pub fn step(&mut self, orders: &mut Orders, batch: &mut Batch) -> Result<()> {
        self.check_batch(orders.ids.len(), batch)?;
        self.check_orders(orders)?;
        let (mover, orders, out) = (&*self.mover, &*orders, batch.columns());
        let chunks = chunks(self.threads, self.cost, orders.ids.len());
        let began = Instant::now();
        self.thread_pool.run(chunks.number, &|task| {
            let rows = task * chunks.size..orders.ids.len().min((task + 1) * chunks.size);
            let part = Part { orders, to: rows.start, rows, out };
            // SAFETY: `&mut self` keeps everyone else from the replicas, `&mut batch` from its rows, which are
            // of this environment and enough; every task has rows of its own, and no replica is there twice.
            unsafe { mover.advance(&part) };
        });
        self.measure(began, orders.ids.len(), chunks);
        Ok(())
    }

    /// Shows replicas as they are, without a step: no reward, no flag.
    ///
    /// # Errors
    /// As [`Replicas::step`], for numbers and batch.
    pub fn show(&mut self, ids: &[u32], batch: &mut Batch) -> Result<()> {
        self.check_batch(ids.len(), batch)?;
        self.check_ids(ids)?;
        for (row, id) in ids.iter().enumerate() {
            // SAFETY: as in `step`.
            unsafe { self.mover.show(*id as usize, batch.columns(), row) };
        }
        Ok(())
    }

    /// Makes these replicas begin an episode when they are next stepped.
    ///
    /// # Errors
    /// A replica that does not exist.
    pub fn mark_new(&mut self, ids: &[u32]) -> Result<()> {
        self.set_phases(ids, Phase::New)
    }

    /// Says that an episode is on in these replicas: after their states were written from outside.
    ///
    /// # Errors
    /// A replica that does not exist.
    pub fn mark_running(&mut self, ids: &[u32]) -> Result<()> {
        self.set_phases(ids, Phase::Running)
    }

    /// Whether the states of these replicas may be stepped: for states that were written from outside.
    ///
    /// # Errors
    /// A number that is not finite, an observation outside the space, an invalid phase or flag, or a fault found by
    /// the environment.
    pub fn check_state(&mut self, ids: &[u32]) -> Result<()> {
        let wrong = |option, value: String, reason: &str| {
            Err(Error::InvalidOption { option, value, reason: reason.into() })
        };
        for array in &self.ids.state {
            let array = (self.store.array(*array), *array);
            if array.0.dtype() == warp_core::DType::F32 {
                let (row, values) = (array.0.row_len(), self.store.slice::<f32>(array.1));
                let own = |id: &u32| &values[*id as usize * row..][..row];
                if let Some(value) = ids.iter().flat_map(own).find(|value| !value.is_finite()) {
                    return wrong("state", value.to_string(), "a state holds finite numbers");
                }
            }
        }
        for alive in self.ids.alive.iter().flatten() {
            let (row, flags) = (self.store.array(*alive).row_len(), self.store.slice::<u8>(*alive));
            let own = |id: &u32| &flags[*id as usize * row..][..row];
            if let Some(flag) = ids.iter().flat_map(own).find(|flag| **flag > 1) {
                let reason = "an agent is in the game (1) or is not (0)";
                return wrong("replica.alive", flag.to_string(), reason);
            }
        }
        let phases = self.store.slice::<u8>(self.ids.phase);
        for id in ids {
            let phase = phases[*id as usize];
            if phase > Phase::Ended as u8 {
                return wrong(
                    "replica.phase",
                    phase.to_string(),
                    "it is 0 (new), 1 (running) or 2 (ended)",
                );
            }
            // Of new ones, too, which can be shown.
            // SAFETY: as in `step`; no reference into the state is held, which a view may write to.
            let fault = unsafe { self.mover.fault(*id as usize) };
            if let Some(Fault { field, value, reason }) = fault {
                return wrong(field, value, &reason);
            }
            // SAFETY: as above.
            if let Some(number) = unsafe { self.mover.number(*id as usize) } {
                let n = self.spec().groups[0].observation_width();
                if usize::try_from(number).map_or(true, |number| number >= n) {
                    let reason = format!("states are numbered from 0 to {}", n - 1);
                    return wrong("state", number.to_string(), &reason);
                }
            }
        }
        Ok(())
    }

    /// Gives a replica a new seed, and makes it begin an episode when it is next stepped.
    ///
    /// # Errors
    /// A replica that does not exist.
    pub fn seed(&mut self, id: u32, seed: u64) -> Result<()> {
        self.check_ids(&[id])?;
        self.options.seeds[id as usize] = seed;
        self.ids.seed(&mut self.store.edit(), id as usize, seed);
        Ok(())
    }

    /// The seeds of the options become those of the state: after that was written from outside.
    pub fn take_over_seeds(&mut self) {
        let low = self.store.slice::<u32>(self.ids.seed_low);
        let high = self.store.slice::<u32>(self.ids.seed_high);
        let halves = low.iter().zip(high);
        let seeds = halves.map(|(low, high)| u64::from(*low) | u64::from(*high) << 32);
        self.options.seeds = seeds.collect();
    }

    /// Everything that the replicas' futures depend on, a row per replica: the fields of the state under their own
    /// names, and additional state as `replica.seed_low`, `replica.event` and so on.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What [`Replicas::store`] gives, to be changed. Whatever is written must be a state of the environment.
    pub fn store_mut(&mut self) -> StoreMut<'_> {
        self.store.edit()
    }

    fn set_phases(&mut self, ids: &[u32], phase: Phase) -> Result<()> {
        self.check_ids(ids)?;
        for id in ids {
            // SAFETY: as in `step`; of replicas that are under way in a queue nobody asks for it.
            unsafe { self.mover.set_phase(*id as usize, phase) };
        }
        Ok(())
    }

    /// Whether [`Replicas::step`] would refuse `orders`: for callers that collect them.
    ///
    /// # Errors
    /// As [`Replicas::step`].
    pub fn check(&mut self, orders: &mut Orders) -> Result<()> {
        self.check_orders(orders)
    }

    /// Checks that the replicas of `orders` exist, each once, may be moved and can follow their actions. Of
    /// others nothing is read.
    fn check_orders(&mut self, orders: &mut Orders) -> Result<()> {
        self.check_ids(&orders.ids)?;
        // SAFETY: as in `step`; a queue asks for replicas that are not under way.
        unsafe {
            self.check_ended(&orders.ids)?;
            self.mover.check_actions(orders)
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity(Arc::clone(&self.mover))
    }

    /// Checks that they are the ones that had this identity, and not others that were put in their place.
    pub(crate) fn check_identity(&self, identity: &Identity) -> Result<()> {
        match std::ptr::addr_eq(Arc::as_ptr(&self.mover), Arc::as_ptr(&identity.0)) {
            true => Ok(()),
            false => Err(Error::Exchanged),
        }
    }

    fn check_batch(&self, rows: usize, batch: &Batch) -> Result<()> {
        if batch.rows() >= rows && batch.is_of(self.mover.spec()) {
            return Ok(());
        }
        let reason = format!("a batch of {rows} rows or more, made by these replicas, is needed");
        Err(Error::InvalidOption { option: "batch", value: batch.rows().to_string(), reason })
    }

    /// Checks that these replicas exist, each once.
    pub(crate) fn check_ids(&mut self, ids: &[u32]) -> Result<()> {
        let n = self.seen.len();
        let wrong = |id: u32, reason: String| {
            Err(Error::InvalidOption { option: "env_id", value: id.to_string(), reason })
        };
        if let Some(id) = ids.iter().find(|id| **id as usize >= n) {
            return wrong(*id, format!("environments are numbered from 0 to {}", n - 1));
        }
        // All of them in order is by far the most frequent.
        if ids.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(());
        }
        let seen = &mut self.seen;
        let twice = ids.iter().find(|id| std::mem::replace(&mut seen[**id as usize], 1) == 1);
        ids.iter().for_each(|id| seen[*id as usize] = 0);
        match twice {
            Some(id) => wrong(*id, "an environment may occur only once in a batch".into()),
            None => Ok(()),
        }
    }

    /// # Safety
    /// As [`Mover::advance`].
    unsafe fn check_ended(&self, ids: &[u32]) -> Result<()> {
        if self.options.auto_reset != AutoReset::Disabled {
            return Ok(());
        }
        // SAFETY: as this function's.
        let ended = |id: &&u32| unsafe { self.mover.has_ended(**id as usize) };
        match ids.iter().find(ended) {
            Some(id) => Err(Error::Ended { replica: *id as usize }),
            None => Ok(()),
        }
    }

    fn measure(&mut self, began: Instant, rows: usize, chunks: Chunks) {
        let threads = if chunks.number > 1 { self.threads.min(chunks.number) } else { 1 };
        let took = began.elapsed().as_nanos() as f64 * threads as f64 / rows.max(1) as f64;
        // What a call took while the system had other things to do must not last.
        self.cost = if self.cost == 0.0 { took } else { self.cost.min(took) * 0.9 + took * 0.1 };
    }
}

/// How rows are shared among threads.
#[derive(Debug, Clone, Copy)]
struct Chunks {
    size: usize,
    number: usize,
}

/// How `rows` rows of `cost` ns each are shared: not at all where waking a thread costs more.
fn chunks(most: usize, cost: f64, rows: usize) -> Chunks {
    let threads = ((cost * rows as f64 / WORTH_A_THREAD) as usize).min(most);
    let wanted = if threads > 1 { threads * 4 } else { 1 };
    let size = rows.div_ceil(wanted).next_multiple_of(CHUNK).max(1);
    Chunks { size, number: rows.div_ceil(size) }
}
