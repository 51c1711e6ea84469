//! Runs of few replicas: many iterations of many runs in one launch, a block per network.

use super::layout::{Places, pack_all, unpack_all};
use super::{EPISODE_FIGURES, GROUP_THREADS, Sizes, doubles, iterated, schedule, sizes, text};
use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::learner::{Iterated, LearnerState, Progress};
use warp_core::DType;
use warp_func::cuda::{Arg, Build, CudaVecEnv, DeviceArray, Function, Launch};

/// Iterations of one launch at most: what its schedule and its figures have room for.
pub(in super::super) const MOST_ITERATIONS: u64 = 64;

/// Some runs that differ in their seeds, weights and schedules, side by side on one device.
#[derive(Debug)]
pub(in super::super) struct SoloLearner {
    places: Places,
    configs: Vec<TrainConfig>,
    kernel: Function,
    launch: Launch,
    sizes: Sizes,
    parameters: [DeviceArray; 3],
    work: Work,
    /// Adam's steps made, the same in all runs.
    n_steps: u64,
}

#[derive(Debug)]
struct Work {
    seeds: DeviceArray,
    records: DeviceArray,
    schedule: DeviceArray,
    episodes: DeviceArray,
    state: DeviceArray,
    totals: DeviceArray,
    metrics: DeviceArray,
}

impl SoloLearner {
    /// Compiles for `envs`, which hold the replicas of all runs one after the other, and allocates
    /// everything; the runs begin with `states`.
    ///
    /// # Errors
    /// Text that does not compile, too little memory, or tensors that do not fit.
    pub(in super::super) fn new(
        configs: Vec<TrainConfig>,
        envs: &CudaVecEnv,
        states: &[LearnerState],
    ) -> Result<Self> {
        let (gpu, first) = (envs.gpu(), &configs[0]);
        let module =
            envs.kernels().compile(&text::solo_source(first, envs.text()), Build::Release)?;
        let sizes = sizes(gpu, &module.function("small_sizes")?)?;
        let places = Places::new(first);
        let n = configs.len();
        let array = |name: &str, dtype, shape: &[usize]| {
            Ok::<_, Error>(DeviceArray::zeros(gpu, name, dtype, shape)?)
        };
        let parameters = |name| array(name, DType::F32, &[n, places.total()]);
        let seeds: Vec<u32> = configs
            .iter()
            .flat_map(|config| [config.run.seed as u32, (config.run.seed >> 32) as u32])
            .collect();
        let (nets, replicas) = (places.n_nets(), first.run.num_envs);
        let rows = first.run.num_steps + 1 + text::cuts(first) as usize;
        let (epochs, minibatches) = text::updates(first);
        let most = MOST_ITERATIONS as usize;
        // Runs of one and the same schedule share it.
        let schedules = if Self::share_schedule(&configs) { 1 } else { n };
        let work = Work {
            seeds: DeviceArray::from_slice(gpu, "seeds", &[n, 2], &seeds)?,
            records: array("records", DType::U32, &[n, rows, replicas, 4 * sizes.record_units])?,
            schedule: array(
                "schedule",
                DType::F32,
                &[schedules, most, 2 + 2 * epochs * minibatches],
            )?,
            episodes: array("episodes", DType::F32, &[n, EPISODE_FIGURES, replicas])?,
            state: array("optimiser", DType::F32, &[n, nets, 3, sizes.own])?,
            totals: array("totals", DType::U32, &[n, nets, 2 * sizes.n_totals])?,
            metrics: array("metrics", DType::U32, &[n, most, 2 * sizes.n_metrics])?,
        };
        let launch = Launch {
            blocks: (n * nets) as u32,
            threads: GROUP_THREADS,
            shared_bytes: sizes.shared_bytes,
            cooperative: false,
        };
        let mut this = Self {
            places,
            kernel: module.function("small_solo")?,
            launch,
            sizes,
            parameters: [parameters("weights")?, parameters("exp_avg")?, parameters("exp_avg_sq")?],
            work,
            n_steps: 0,
            configs,
        };
        this.load(states)?;
        Ok(this)
    }

    fn share_schedule(configs: &[TrainConfig]) -> bool {
        let keys = |config: &TrainConfig| {
            let keys = &config.policies[0].config;
            (keys.learning_rate.clone(), keys.vf_coef.clone(), keys.ent_coef.clone())
        };
        configs.iter().all(|config| keys(config) == keys(&configs[0]))
    }

    /// Takes over the runs' weights and moments.
    ///
    /// # Errors
    /// Tensors that do not fit.
    pub(in super::super) fn load(&mut self, states: &[LearnerState]) -> Result<()> {
        let total = self.places.total();
        let mut packed = vec![Vec::new(); states.len()];
        each_run(&mut packed, |run, packed| {
            let policy = &self.configs[run].policies[0].name;
            *packed = pack_all(&self.places, policy, &states[run])?;
            Ok(())
        })?;
        let part = |kind: usize| -> Vec<f32> {
            packed.iter().flat_map(|p| &p[kind * total..(kind + 1) * total]).copied().collect()
        };
        let all = [part(0), part(1), part(2)];
        for (array, all) in self.parameters.iter().zip(&all) {
            array.push(all)?;
        }
        let steps = states.first().and_then(|state| state.optimizer_steps.first());
        self.n_steps = steps.map_or(0, |(_, steps)| *steps);
        Ok(())
    }

    /// Writes the runs' weights and moments into `states`, which have all tensors already.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(in super::super) fn store(&self, states: &mut [LearnerState]) -> Result<()> {
        let total = self.places.total();
        let arrays = self.parameters.iter().map(DeviceArray::pull::<f32>);
        let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
        each_run(states, |run, state| {
            let all: Vec<f32> =
                arrays.iter().flat_map(|a| &a[run * total..(run + 1) * total]).copied().collect();
            unpack_all(&self.places, &self.configs[run].policies[0].name, &all, state)?;
            state.optimizer_steps.iter_mut().for_each(|(_, steps)| *steps = self.n_steps);
            Ok(())
        })
    }

    /// Starts `n` iterations, at most [`MOST_ITERATIONS`], behind the `iteration` that are done; with
    /// `begins` episodes begin with them.
    ///
    /// # Errors
    /// A driver that refuses.
    pub(in super::super) fn start(
        &mut self,
        envs: &mut CudaVecEnv,
        iteration: u64,
        n: u64,
        begins: bool,
    ) -> Result<()> {
        let first = &self.configs[0];
        let n_schedules = self.work.schedule.shape()[0];
        let most = MOST_ITERATIONS as usize;
        let width = self.work.schedule.shape()[2];
        let mut rows = Vec::with_capacity(self.work.schedule.len());
        for config in &self.configs[..n_schedules] {
            let at = |i: u64| (iteration + i) * config.steps_per_iteration();
            let mut own = schedule(config, self.n_steps, n, at);
            own.resize(most * width, 0.0);
            rows.extend(own);
        }
        self.work.schedule.push(&rows)?;
        let numbers = [
            first.run.num_envs as u32,
            iteration as u32,
            n as u32,
            u32::from(begins),
            if n_schedules > 1 { most as u32 } else { 0 },
            most as u32,
        ];
        let bytes = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        let whole = |array: &DeviceArray| Arg::array(array, array.len());
        let [tables, arrays, world] = envs.args().clone();
        let [weights, moments, squares] = self.parameters.each_ref().map(whole);
        let w = &self.work;
        let mut args = vec![Arg::Struct("SoloRun", bytes), world, arrays, tables, whole(&w.seeds)];
        args.extend([weights, moments, squares, whole(&w.records), whole(&w.schedule)]);
        args.extend([&w.episodes, &w.state, &w.totals, &w.metrics].map(whole));
        self.kernel.launch(&self.launch, &args)?;
        envs.tick((n * first.run.num_steps as u64) as u32)?;
        let (epochs, minibatches) = text::updates(first);
        self.n_steps += n * (epochs * minibatches) as u64;
        Ok(())
    }

    /// Collects and learns `n` times from where `progress` says; for one run whose episodes have begun.
    ///
    /// # Errors
    /// A policy that diverged, or whatever went wrong on the device.
    pub(in super::super) fn run(
        &mut self,
        envs: &mut CudaVecEnv,
        progress: Progress,
        n: u64,
    ) -> Result<Vec<Iterated>> {
        let mut all = Vec::new();
        let steps = self.configs[0].steps_per_iteration();
        for first in (0..n).step_by(MOST_ITERATIONS as usize) {
            let part = (n - first).min(MOST_ITERATIONS);
            // A run of a fleet begins in the kernel, in the last bit not where the executor began.
            let begins = progress.iteration + first == 0;
            self.start(envs, progress.iteration + first, part, begins)?;
            let figures = self.figures()?;
            for i in 0..part {
                let env_steps = progress.env_steps + (first + i) * steps;
                all.push(self.iterated(&figures, (0, i as usize), env_steps)?);
            }
        }
        Ok(all)
    }

    /// The figures of the last launch, `n_metrics` per iteration and [`MOST_ITERATIONS`] rows per run.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(in super::super) fn figures(&self) -> Result<Vec<f64>> {
        doubles(&self.work.metrics)
    }

    /// What `figures` say of iteration `i` of the last launch of run `run`, which had done `env_steps`
    /// before it.
    ///
    /// # Errors
    /// A policy that diverged.
    pub(in super::super) fn iterated(
        &self,
        figures: &[f64],
        (run, i): (usize, usize),
        env_steps: u64,
    ) -> Result<Iterated> {
        let width = self.sizes.n_metrics;
        let at = (run * MOST_ITERATIONS as usize + i) * width;
        iterated(&figures[at..at + width], &self.configs[run], env_steps)
    }
}

/// Calls `work` with each run's number and item, on as many threads as the machine has.
fn each_run<T: Send>(
    items: &mut [T],
    work: impl Fn(usize, &mut T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(threads).max(1);
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
