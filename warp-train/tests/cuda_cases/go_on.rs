//! Runs that go on from a checkpoint, on one GPU or on several.

use super::{Result, config, registry, sorted};
use libtest_mimic::Failed;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use warp_func::cuda::{Build, Device, Kernels};
use warp_train::config::TrainConfig;
use warp_train::learner::LearnerState;
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

/// Iterations of a run on so many GPUs, of which the first rank says what a checkpoint would hold.
fn trained(config: &TrainConfig, ranks: usize, n: u64, from: Option<&Path>) -> Result<Snapshot> {
    let work = |rank: usize, link| -> Result<Option<Snapshot>> {
        let world = World::new(rank, ranks, link).waiting(Duration::from_secs(10));
        let config = config.clone().on_rank(world)?;
        let kernels = Kernels::new(&Device::open(rank)?);
        let registry = registry().on_gpu(&kernels, Build::Parity);
        let learner = Box::new(CudaLearner::new(&config, 1)?);
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
    let (config, folder) = (config(keys)?, Folder::new());
    let save = |name: &str, seen: &Snapshot| checkpoint::save(&folder.0.join(name), seen);
    let half = save("half", &trained(&config, ranks, 2, None)?)?;
    let found = save("found", &trained(&config, ranks, 2, Some(&half))?)?;
    let whole = save("whole", &trained(&config, ranks, 4, None)?)?;
    let read = |path| Ok::<_, Failed>(sorted(Checkpoint::open(path)?.learner));
    match differing(&read(&found)?, &read(&whole)?) {
        names if names.is_empty() => Ok(()),
        names => {
            Err(format!("a run that was resumed gave other bits: {}", names.join(", ")).into())
        }
    }
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
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
