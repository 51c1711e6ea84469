//! Runs that go on from a checkpoint, on one GPU or on several.

use super::{Result, config, distance, registry, sorted};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use warp_func::cuda::{Build, Device, Kernels};
use warp_train::config::TrainConfig;
use warp_train::learner::{Learner, LearnerState};
use warp_train::native;
use warp_train::native::cuda::CudaLearner;
use warp_train::run::Snapshot;
use warp_train::world::{World, threads};
use warp_train::{Checkpoint, Trainer, checkpoint};

/// The names of what differs, most of all first.
fn differing(one: &LearnerState, other: &LearnerState) -> Vec<String> {
    let mut names = Vec::new();
    let pairs = [(&one.weights, &other.weights), (&one.optimizer, &other.optimizer)];
    for (one, other) in pairs.into_iter().chain([(&one.numbers, &other.numbers)]) {
        names.extend(one.iter().zip(other).filter_map(|(one, other)| {
            let differ =
                one.data.iter().zip(&other.data).filter(|(a, b)| a.to_bits() != b.to_bits());
            (one != other)
                .then(|| format!("{} {:?} ({} numbers)", one.name, one.shape, differ.count()))
        }));
    }
    let flags = one.flags.iter().zip(&other.flags).filter(|(one, other)| one != other);
    names.extend(flags.map(|(one, _)| one.name.clone()));
    let statistics =
        one.statistics.iter().zip(&other.statistics).filter(|(one, other)| one != other);
    names.extend(statistics.map(|(one, other)| format!("{one:?} and {other:?}")));
    if names.is_empty() && one != other {
        names.push(format!("{:?} and {:?}", one.optimizer_steps, other.optimizer_steps));
    }
    names
}

/// What a run is trained by.
#[derive(Debug, Clone, Copy)]
enum On {
    Gpus(usize),
    Cpu,
}

/// Iterations of a run, of which the first rank says what a checkpoint would hold.
fn trained(config: &TrainConfig, on: On, n: u64, from: Option<&Path>) -> Result<Snapshot> {
    let ranks = if let On::Gpus(ranks) = on { ranks } else { 1 };
    let work = |rank: usize, link| -> Result<Option<Snapshot>> {
        let world = World::new(rank, ranks, link).waiting(Duration::from_secs(10));
        let config = config.clone().on_rank(world)?;
        let (registry, learner): (_, Box<dyn Learner>) = match on {
            On::Gpus(_) => {
                let kernels = Kernels::new(&Device::open(rank)?);
                let registry = registry().on_gpu(&kernels, Build::Parity);
                (registry, Box::new(CudaLearner::new(&config, 1)?))
            }
            On::Cpu => (registry(), native::learner(&config, 1)?),
        };
        let mut trainer = Trainer::new(config, &registry, learner, 1)?;
        if let Some(path) = from {
            trainer.restore(&Checkpoint::open(path)?)?;
        }
        trainer.iterate_times(n)?;
        trainer.sync()?;
        Ok((rank == 0)
            .then(|| trainer.snapshot().map(|snapshot| (*snapshot).clone()))
            .transpose()?)
    };
    std::thread::scope(|scope| {
        let links = threads(ranks, Duration::from_secs(60)).into_iter().enumerate();
        let ranks: Vec<_> =
            links.map(|(rank, link)| scope.spawn(move || work(rank, link))).collect();
        let mut seen = Vec::new();
        for rank in ranks {
            seen.extend(rank.join().map_err(|_| "a rank panicked")??);
        }
        Ok(seen.pop().ok_or("no rank has the whole run")?)
    })
}

/// Two and two iterations of so many ranks are four, with a checkpoint of all ranks between them.
pub(crate) fn go_on(keys: &str, ranks: usize) -> Result<()> {
    let (config, folder, on) = (config(keys)?, Folder::new(), On::Gpus(ranks));
    let half = folder.save("half", &trained(&config, on, 2, None)?)?;
    let found = folder.save("found", &trained(&config, on, 2, Some(&half))?)?;
    let whole = folder.save("whole", &trained(&config, on, 4, None)?)?;
    match differing(&read(&found)?, &read(&whole)?) {
        names if names.is_empty() => Ok(()),
        names => {
            Err(format!("a run that was resumed gave other bits: {}", names.join(", ")).into())
        }
    }
}

/// One GPU goes on from a checkpoint of `ranks`, and so does the CPU: replay memories are those that were, and
/// gradients near those of the ranks that go on, within bounds for the one and the other.
pub(crate) fn go_on_elsewhere(
    config: &TrainConfig,
    ranks: usize,
    [on_gpu, on_cpu]: [f64; 2],
) -> Result<()> {
    let folder = Folder::new();
    let half = folder.save("half", &trained(config, On::Gpus(ranks), 2, None)?)?;
    let next = |name: &str, on: On| -> Result<LearnerState> {
        read(&folder.save(name, &trained(config, on, 1, Some(&half))?)?)
    };
    let (before, expected) = (read(&half)?, next("expected", On::Gpus(ranks))?);
    for (on, bound) in [(On::Gpus(1), on_gpu), (On::Cpu, on_cpu)] {
        let found = next(&format!("{on:?}"), on)?;
        keeps_memories(&found, &before).map_err(|e| format!("{on:?}: {e}"))?;
        let apart = distance(&found, &expected)?;
        println!("{apart:.2e} on {on:?}, {:?} shards of {ranks} ranks", config.run.shards);
        // False for what is no number.
        let fits = apart <= bound;
        if !fits {
            return Err(format!("on {on:?} gradients differ by {apart:e}").into());
        }
    }
    Ok(())
}

/// What replay memories with room for more held `before` is still there.
fn keeps_memories(found: &LearnerState, before: &LearnerState) -> std::result::Result<(), String> {
    let numbers = found.numbers.iter().zip(&before.numbers);
    let is_ring = |name: &str| name.contains("replay.") && !name.contains("priority");
    for (found, before) in numbers.filter(|(found, _)| is_ring(&found.name)) {
        if found.name != before.name || !found.data.starts_with(&before.data) {
            return Err(format!("{} is not what it was", before.name));
        }
    }
    let mut flags = found.flags.iter().zip(&before.flags);
    match flags.find(|(found, before)| !found.data.starts_with(&before.data)) {
        Some((_, before)) => Err(format!("{} is not what it was", before.name)),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<LearnerState> {
    Ok(sorted(Checkpoint::open(path)?.learner))
}

/// A folder of this test that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("warp-cuda-ranks-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// Where a checkpoint of `seen` is now.
    fn save(&self, name: &str, seen: &Snapshot) -> Result<PathBuf> {
        Ok(checkpoint::save(&self.0.join(name), seen)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
