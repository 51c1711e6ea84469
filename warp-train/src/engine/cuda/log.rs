//! What iterations of a group of runs leave on the device, until the host looks.

use super::group::Group;
use super::member::Member;
use crate::config::TrainConfig;
use crate::engine::{Iterated, Progress, episodes};
use crate::error::Result;
use warp_core::DType::U32;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::CudaVecEnv;

/// A row for each iteration, with the numbers of one run after the other.
pub(super) struct Log {
    /// Sums of figures, by policy.
    figures: Vec<DeviceArray>,
    /// Totals over ended episodes.
    episodes: DeviceArray,
}

impl Log {
    /// Room for `n` iterations.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(group: &Group, envs: &[&mut CudaVecEnv], n: usize) -> Result<Self> {
        let rows =
            |array: &DeviceArray| DeviceArray::zeros(array.device(), "log", U32, &[n, array.len()]);
        let figures = group.members.iter().map(|member| rows(member.figures_array()));
        let figures = figures.collect::<warp_data::Result<_>>()?;
        Ok(Self { figures, episodes: rows(totals(group, &*envs[0]))? })
    }

    /// Keeps what iteration `i` left.
    ///
    /// # Errors
    /// A driver that refuses.
    pub(super) fn note(&self, i: usize, group: &Group, envs: &mut [&mut CudaVecEnv]) -> Result<()> {
        let keep = |log: &DeviceArray, from: &DeviceArray| {
            log.copy_part(i * from.len(), from, 0..from.len())
        };
        for (member, figures) in group.members.iter().zip(&self.figures) {
            keep(figures, member.figures_array())?;
        }
        match &group.together {
            Some(together) => together.device_totals()?,
            None => envs[0].device_totals()?,
        }
        Ok(keep(&self.episodes, totals(group, &*envs[0]))?)
    }

    /// The iterations of each run, which began at `progress`, or why a run diverged.
    ///
    /// # Errors
    /// Whatever went wrong on the device.
    pub(super) fn read(
        &self,
        group: &Group,
        envs: &[&mut CudaVecEnv],
        config: &TrainConfig,
        progress: Progress,
    ) -> Result<Vec<Result<Vec<Iterated>>>> {
        let members = || group.members.iter();
        let episodes = self.episodes.pull::<u32>()?;
        let sums = |(member, log): (&Member, &DeviceArray)| member.sum_figures(&log.pull::<u32>()?);
        let figures = members().zip(&self.figures).map(sums).collect::<Result<Vec<_>>>()?;
        let (n, n_runs) = (self.episodes.shape()[0], envs.len());
        let iteration = |run: usize, i: usize| {
            // Part number `at` of `n` that are as long as each other.
            fn part<T>(all: &[T], n: usize, at: usize) -> &[T] {
                &all[at * (all.len() / n)..][..all.len() / n]
            }
            let (parts, at) = (n * n_runs, i * n_runs + run);
            let env_steps = progress.env_steps + i as u64 * config.steps_per_iteration();
            let policy = |(member, sums): (&Member, &Vec<f64>)| {
                member.read_figures(part(sums, parts, at), env_steps)
            };
            Iterated {
                episodes: envs[run].read_totals(part(&episodes, parts, at)),
                policies: members().zip(&figures).map(policy).collect(),
                phases: None,
            }
        };
        let run = |run: usize| {
            for member in members() {
                if let Err(error) = member.check(run)? {
                    return Ok(Err(error));
                }
            }
            let mut done: Vec<_> = (0..n).map(|i| iteration(run, i)).collect();
            episodes::sum_in(&mut done, &config.sharing())?;
            Ok(Ok(done))
        };
        (0..n_runs).map(run).collect()
    }
}

/// Totals over ended episodes of one run after the other.
fn totals<'a>(group: &'a Group, envs: &'a CudaVecEnv) -> &'a DeviceArray {
    group.together.as_ref().map_or_else(|| envs.totals_array(), |together| together.totals_array())
}
