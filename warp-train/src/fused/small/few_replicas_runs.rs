//! The runs of a launch of `few_replicas.rs` on the host: as the device takes them on, and what it says of them.

use super::iterated;
use super::layout::Places;
use super::normalise::{Normalised, Packed};
use super::readback::{Readback, words};
use super::shared::Figures;
use crate::config::TrainConfig;
use crate::engine::Iterated;
use crate::error::{Error, Result};
use crate::model::{LearnerState, NamedTensor};
use warp_func::cuda::{DeviceStruct, DeviceValue};

/// Iterations of one launch at most: what its schedule and its figures have room for.
pub(crate) const MOST_ITERATIONS: u64 = 256;

/// Which runs a launch has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    pub(super) seeds: Vec<u64>,
    /// One each, or that of the first where all have the same schedule.
    pub(super) configs: Vec<TrainConfig>,
}

impl Runs {
    /// The runs of `configs`, where a learner has room for so many `schedules`.
    pub(crate) fn new<'a>(
        configs: impl Iterator<Item = &'a TrainConfig> + Clone,
        schedules: usize,
    ) -> Self {
        Self {
            seeds: configs.clone().map(|config| config.run.seed).collect(),
            configs: configs.take(schedules).cloned().collect(),
        }
    }

    /// The configuration of run number `run`, but for its seed.
    fn config(&self, run: usize) -> &TrainConfig {
        self.configs.get(run).unwrap_or(&self.configs[0])
    }
}

/// Runs as a device takes them on.
#[derive(Debug)]
pub(crate) struct PackedRuns {
    pub(super) runs: Runs,
    /// With zeros behind those of the last run.
    pub(super) weights: Vec<f32>,
    /// Both of Adam's moments, laid out as the weights are; nothing where all are zeros.
    pub(super) moments: Option<[Vec<f32>; 2]>,
    pub(super) normalisers: Packed,
    pub(super) n_steps: u64,
}

impl PackedRuns {
    /// `runs`, which begin with `states`, without moments or all with them, for a learner with this room.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(crate) fn new(runs: Runs, states: &[LearnerState], room: usize) -> Result<Self> {
        let places = Places::new(&runs.configs[0]);
        let policy = &runs.configs[0].policies[0].name;
        let pack = |tensors: &(dyn Fn(&LearnerState) -> &[NamedTensor] + Sync), suffix: &str| {
            let mut packed = vec![0.0; room * places.total()];
            let mut of_runs: Vec<_> =
                packed.chunks_mut(places.total()).take(states.len()).collect();
            each_run(&mut of_runs, |run, packed| {
                places.pack(policy, tensors(&states[run]), suffix, packed)
            })?;
            Ok::<_, Error>(packed)
        };
        let optimizer = |suffix| pack(&|state| &state.optimizer, suffix);
        let moments = states.iter().any(|state| !state.optimizer.is_empty());
        let moments =
            moments.then(|| Ok::<_, Error>([optimizer(".exp_avg")?, optimizer(".exp_avg_sq")?]));
        let mut normalisers = Packed::default();
        for (run, state) in states.iter().enumerate() {
            normalisers.extend(&normalised(runs.config(run)).pack(policy, state)?);
        }
        let steps = states.first().and_then(|state| state.optimizer_steps.first());
        Ok(Self {
            weights: pack(&|state| &state.weights, "")?,
            moments: moments.transpose()?,
            normalisers,
            n_steps: steps.map_or(0, |(_, steps)| *steps),
            runs,
        })
    }
}

/// What a launch says of its runs' iterations, on its way.
#[derive(Debug)]
pub(crate) struct FewReplicasFigures(pub(super) Readback);

impl FewReplicasFigures {
    /// Waits until the launch is done and gives its figures.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(crate) fn wait(&self) -> Result<FewReplicasRows<'_>> {
        Ok(FewReplicasRows(self.0.wait()?.remove(0)))
    }
}

/// Figures of a launch on the host: [`Figures`], [`MOST_ITERATIONS`] of them per run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FewReplicasRows<'a>(&'a [u8]);

impl FewReplicasRows<'_> {
    /// What iteration `i` of the launch gave in its run number `run`, which has this configuration and had
    /// done `env_steps` before it.
    ///
    /// # Errors
    /// A policy that diverged.
    pub(crate) fn iterated(
        &self,
        config: &TrainConfig,
        run: usize,
        i: usize,
        env_steps: u64,
    ) -> Result<Iterated> {
        let at = (run * MOST_ITERATIONS as usize + i) * Figures::WORDS;
        let row = words::<{ Figures::WORDS }>(&self.0[4 * at..]);
        iterated(&Figures::take(&row), config, env_steps)
    }
}

/// Weights of some runs, moments if they were asked for, and what they normalise by.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(super) places: Places,
    /// Weights, then both moments.
    pub(super) arrays: Readback,
    pub(super) normalised: Normalised,
    pub(super) normalisers: Packed,
    pub(super) n_steps: u64,
}

impl Trained {
    /// Writes them into the states of runs of `policy`, which have all tensors already.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(crate) fn store(&self, policy: &str, states: &mut [LearnerState]) -> Result<()> {
        let (total, arrays) = (self.places.total(), self.arrays.wait()?);
        each_run(states, |run, state| {
            for (array, suffix) in arrays.iter().zip(["", ".exp_avg", ".exp_avg_sq"]) {
                let tensors = match suffix {
                    "" => &mut state.weights,
                    _ => &mut state.optimizer,
                };
                let own = array[4 * run * total..][..4 * total].as_chunks::<4>().0;
                let packed: Vec<f32> = own.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
                self.places.unpack(policy, &packed, tensors, suffix)?;
            }
            state.optimizer_steps.iter_mut().for_each(|(_, steps)| *steps = self.n_steps);
            self.normalised.store(&self.normalisers, run, policy, state);
            Ok(())
        })
    }
}

/// What a run of `config` normalises.
pub(super) fn normalised(config: &TrainConfig) -> Normalised {
    let plan = &config.policies[0];
    Normalised::new(plan, plan.group(&config.spec).observation_width(), config.n_envs())
}

/// Threads that work on the runs of a launch, at most: several GPUs' are prepared at a time.
const WORKERS: usize = 8;

/// Calls `work` with each run's number and item, on several threads.
pub(super) fn each_run<T: Send>(
    items: &mut [T],
    work: impl Fn(usize, &mut T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(threads.min(WORKERS)).max(1);
    let part = |first: usize, items: &mut [T]| {
        items.iter_mut().enumerate().try_for_each(|(i, item)| work(first + i, item))
    };
    if items.len() <= share {
        return part(0, items);
    }
    std::thread::scope(|scope| {
        let parts = items.chunks_mut(share).enumerate();
        let workers: Vec<_> =
            parts.map(|(n, items)| scope.spawn(move || part(n * share, items))).collect();
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended
                .unwrap_or_else(|_| Err(Error::Invalid("a thread of the fleet ended early".into())))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_worked_on_once_and_the_first_error_is_told() {
        for n in [0, 1, 3, 100] {
            let mut items = vec![0; n];
            each_run(&mut items, |run, item| {
                *item += run + 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(items, (1..=n).collect::<Vec<_>>());
        }
        let failed = each_run(&mut [0; 50], |run, _| match run {
            7 => Err(Error::Invalid("seven".into())),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "seven");
    }
}
