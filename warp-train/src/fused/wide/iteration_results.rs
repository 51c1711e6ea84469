//! What iterations leave to be read, kept on the device until many of them are over, and what they learn with, given to
//! it before they begin: so the host waits once for all, and GPUs that learn together do not wait for each other's hosts.

use super::args::NextIterationArgs;
use super::policy::WidePolicy;
use super::shared::{WideSettings, WideState};
use crate::engine::Progress;
use crate::error::Result;
use crate::fused::MOST_ITERATIONS;
use warp_core::DType::U32;
use warp_data::cuda::DeviceArray;
use warp_func::EpisodeTotals;
use warp_func::cuda::{CudaVecEnv, DeviceStruct, DeviceValue, KernelArgs, Launch};

/// Results of up to [`MOST_ITERATIONS`] iterations.
#[derive(Debug)]
pub(super) struct IterationResults {
    /// Where each policy's state lies, and where its settings do.
    states: DeviceArray,
    settings: DeviceArray,
    /// The settings of each policy in the iteration behind each.
    planned: DeviceArray,
    /// Of each iteration every policy's state, then the totals of its episodes.
    results: DeviceArray,
    /// How many of them the device has taken, u32 `[1]`.
    taken: DeviceArray,
    n_policies: usize,
}

/// What an iteration left.
pub(super) struct IterationResult {
    /// Of each policy.
    pub(super) states: Vec<WideState>,
    pub(super) episodes: EpisodeTotals,
}

impl IterationResults {
    pub(super) fn new(policies: &[WidePolicy], envs: &CudaVecEnv) -> Result<Self> {
        let (device, n_policies) = (envs.gpu(), policies.len());
        let most = MOST_ITERATIONS as usize;
        let addresses = |name: &str, of: fn(&WidePolicy) -> &DeviceArray| {
            let arrays: Vec<_> = policies.iter().map(|policy| Some(of(policy))).collect();
            DeviceArray::addresses(device, name, &arrays)
        };
        let width = n_policies * WideState::WORDS + envs.totals_array().len();
        let planned = [most, n_policies * WideSettings::WORDS];
        Ok(Self {
            states: addresses("states", |policy| &policy.arrays.state)?,
            settings: addresses("settings", |policy| &policy.arrays.settings)?,
            planned: DeviceArray::zeros(device, "planned settings", U32, &planned)?,
            results: DeviceArray::zeros(device, "results", U32, &[most, width])?,
            taken: DeviceArray::zeros(device, "results taken", U32, &[1])?,
            n_policies,
        })
    }

    /// Says what the `n` iterations from `progress` on learn with, which are of so many environment steps each.
    pub(super) fn plan(
        &self,
        policies: &[WidePolicy],
        progress: Progress,
        n: u64,
        steps: u64,
    ) -> Result<()> {
        policies.iter().try_for_each(|policy| policy.push_settings(progress))?;
        let behind = (1..=n).map(|i| progress.after(i, steps));
        let words: Vec<u32> = behind
            .flat_map(|at| policies.iter().flat_map(move |policy| policy.settings(at).words()))
            .collect();
        self.taken.push(&[0_u32])?;
        Ok(self.planned.first(words.len()).push(&words)?)
    }

    /// Ends one of those iterations, whose episodes have been summed.
    pub(super) fn next_iteration(&self, policies: &[WidePolicy], envs: &CudaVecEnv) -> Result<()> {
        let Some(first) = policies.first() else { return Ok(()) };
        let totals = envs.totals_array();
        let args = NextIterationArgs {
            states: &self.states,
            settings: &self.settings,
            n_policies: self.n_policies as u32,
            totals,
            n_totals: totals.len() as u32,
            taken: &self.taken,
            planned: &self.planned,
            results: &self.results,
        };
        let launch = Launch { blocks: 1, threads: 256, ..Launch::default() };
        Ok(first.kernels.next_iteration.launch(&launch, &[args.arg()])?)
    }

    /// Waits for the first `n` iterations and says what each left.
    pub(super) fn read(&self, envs: &CudaVecEnv, n: u64) -> Result<Vec<IterationResult>> {
        let of_states = self.n_policies * WideState::WORDS;
        let width = of_states + envs.totals_array().len();
        let words = self.results.first(n as usize * width).pull::<u32>()?;
        let result = |row: &[u32]| IterationResult {
            states: row[..of_states].chunks(WideState::WORDS).map(WideState::take).collect(),
            episodes: envs.read_totals(&row[of_states..]),
        };
        Ok(words.chunks(width).map(result).collect())
    }
}
