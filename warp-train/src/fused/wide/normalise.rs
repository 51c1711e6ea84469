//! Running normalisation of one policy's observations and rewards on the device.

use super::args::{
    DiscountArgs, LearnReturnsArgs, MergeMomentsArgs, ObsMomentsArgs, ReturnMomentsArgs,
    ScaleRewardsArgs, SumObsArgs,
};
use super::arrays::Sizes;
use super::kernels::NormaliserKernels;
use super::policy::WidePolicy;
use super::shared::{WideDistances, WideMoments};
use crate::algorithm::PolicyPlan;
use crate::engine::collectives::Gathered;
use crate::error::Result;
use crate::fused::moments::{Moments, doubles, statistic, words};
use crate::model::Statistic;
use warp_core::DType::{F32, U32};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{DeviceStruct, DeviceValue, KernelArgs, Launch, Module};

/// Shares of a step's rows at most, and rows of one that are worth a block.
const MOST_SHARES: usize = 256;
const SHARE: usize = 64;
/// Threads that add up the shares of a number; a block has 256 (normalise.cu).
const MOMENT_LANES: usize = 32;

/// What a policy normalises by; arrays of moments are `[n, 3]` in f64.
#[derive(Debug)]
pub(super) struct WideNormaliser {
    kernels: NormaliserKernels,
    learns: bool,
    width: usize,
    shares: usize,
    n_ranks: usize,
    /// Mean and 1 / deviation per number, and whether they count: f32 `[2 width + 1]`.
    pub(super) factors: DeviceArray,
    /// Of observations: what counts, what the rollout at hand holds, its sums by shares of the rows.
    obs: Option<[DeviceArray; 3]>,
    reward: Option<Rewards>,
}

#[derive(Debug)]
struct Rewards {
    /// Of the discounted return: what counts, and of each step.
    moments: [DeviceArray; 2],
    /// The discounted return of each row so far, f64 `[rows]`.
    running: DeviceArray,
    /// f32 `[steps, rows]`.
    discounted: DeviceArray,
}

impl WideNormaliser {
    pub(super) fn new(
        device: &Device,
        module: &Module,
        plan: &PolicyPlan,
        width: usize,
        sizes: &Sizes,
        n_ranks: usize,
    ) -> Result<Self> {
        let keys = &plan.config;
        let make = |name: &str, words: usize| -> Result<DeviceArray> {
            Ok(DeviceArray::zeros(device, &format!("{}.{name}", plan.name), U32, &[words])?)
        };
        let shares = match sizes.obs_blocks {
            0 => sizes.rows.div_ceil(SHARE).clamp(1, MOST_SHARES),
            blocks => blocks,
        };
        let obs = || -> Result<[DeviceArray; 3]> {
            let moments = |n: usize| make("obs_moments", WideMoments::WORDS * width * n);
            let parts = make("obs_sums", WideDistances::WORDS * width * shares)?;
            Ok([moments(1)?, moments(1)?, parts])
        };
        let reward = || -> Result<Rewards> {
            let moments = |n: usize| make("reward_moments", WideMoments::WORDS * n);
            Ok(Rewards {
                moments: [moments(1)?, moments(sizes.steps)?],
                running: make("discounted_return", 2 * sizes.rows)?,
                discounted: DeviceArray::zeros(device, "discounted", F32, &[sizes.cells])?,
            })
        };
        Ok(Self {
            kernels: NormaliserKernels::of(module)?,
            learns: keys.to_train,
            width,
            shares,
            n_ranks,
            factors: DeviceArray::zeros(device, "factors", F32, &[2 * width + 1])?,
            obs: keys.norm_obs.then(obs).transpose()?,
            reward: keys.norm_reward.then(reward).transpose()?,
        })
    }

    /// Takes in what the agents see before a training step, unless the policy does while it acts.
    pub(super) fn sum_obs(&self, policy: &WidePolicy) -> Result<()> {
        let Some(parts) = self.sums().filter(|_| policy.sizes.obs_blocks == 0) else {
            return Ok(());
        };
        let blocks = self.width.div_ceil(32) * self.shares;
        let (rows, shares) = (policy.sizes.rows as u32, self.shares as u32);
        let args =
            SumObsArgs { places: &policy.places, rows, shares, factors: &self.factors, parts };
        Ok(self.kernels.sum_obs.launch(&Launch::over(blocks * 256, 256), &[args.arg()])?)
    }

    /// Sums of what the rollout at hand holds, if they are taken.
    pub(super) fn sums(&self) -> Option<&DeviceArray> {
        self.obs.as_ref().filter(|_| self.learns).map(|[_, _, parts]| parts)
    }

    /// Makes moments of what the rollout at hand held.
    fn obs_moments(&self, parts: &DeviceArray, pending: &DeviceArray) -> Result<()> {
        let shares = self.shares as u32;
        let args = ObsMomentsArgs { parts, shares, factors: &self.factors, pending };
        let launch = Launch::over(self.width * MOMENT_LANES, 256);
        Ok(self.kernels.obs_moments.launch(&launch, &[args.arg()])?)
    }

    /// When the rollout is full: normalises its rewards.
    pub(super) fn finish_rewards(&self, policy: &WidePolicy) -> Result<()> {
        self.reward.as_ref().map_or(Ok(()), |reward| self.rewards(reward, policy))
    }

    /// When the rollout is full: makes moments of its observations, if they are to count.
    pub(super) fn finish_observations(&self) -> Result<()> {
        match &self.obs {
            Some([_, pending, parts]) if self.learns => self.obs_moments(parts, pending),
            _ => Ok(()),
        }
    }

    /// What the rollout at hand held, if observations are normalised.
    pub(super) fn pending(&self) -> Option<&DeviceArray> {
        self.obs.as_ref().map(|[_, pending, _]| pending)
    }

    /// Lets that count, from all ranks, once it is known.
    pub(super) fn count_pending(&self, held: &DeviceArray) -> Result<()> {
        self.pending().map_or(Ok(()), |pending| self.merge_moments(pending, held))
    }

    /// Lets what is `held` on all ranks count, and forgets what is pending here.
    fn merge_moments(&self, pending: &DeviceArray, held: &DeviceArray) -> Result<()> {
        let Some([moments, ..]) = &self.obs else { return Ok(()) };
        let args = MergeMomentsArgs { held, moments, pending, factors: &self.factors };
        Ok(self.kernels.merge_moments.launch(&Launch::over(self.width, 64), &[args.arg()])?)
    }

    /// Makes factors of what counts already.
    fn count_none(&self, pending: &DeviceArray) -> Result<()> {
        // As many as all ranks could hold: zeros.
        let none = vec![0_u32; self.n_ranks * pending.len()];
        let none = DeviceArray::from_slice(pending.device(), "none", &[none.len()], &none)?;
        self.merge_moments(pending, &none)?;
        Ok(pending.device().synchronize()?)
    }

    fn rewards(&self, reward: &Rewards, policy: &WidePolicy) -> Result<()> {
        let (a, s, kernels) = (&policy.arrays, &policy.sizes, &self.kernels);
        let [moments, steps] = &reward.moments;
        let (rows, discounted) = (s.rows as u32, &reward.discounted);
        let args = DiscountArgs {
            steps: s.steps as u32,
            rows,
            rewards: &a.rewards,
            ended: &a.ended,
            settings: &a.settings,
            running: &reward.running,
            discounted,
        };
        kernels.discount.launch(&Launch::over(s.rows, 64), &[args.arg()])?;
        if self.learns {
            let args = ReturnMomentsArgs { rows, discounted, weights: &a.weights, steps };
            let launch = Launch { blocks: s.steps as u32, threads: 256, ..Launch::default() };
            kernels.return_moments.launch(&launch, &[args.arg()])?;
            let launch = Launch { blocks: 1, threads: 1, ..Launch::default() };
            let learn = |steps, n, anew, moments| {
                let args = LearnReturnsArgs { steps, n, anew, moments };
                kernels.learn_returns.launch(&launch, &[args.arg()])
            };
            match &policy.ranks {
                None => learn(steps, s.steps as u32, 0, moments)?,
                Some(ranks) => {
                    learn(steps, s.steps as u32, 1, &ranks.returns)?;
                    let all = &ranks.all_returns;
                    ranks.gather(&[Gathered { own: &ranks.returns, all }])?;
                    learn(all, ranks.size(), 0, moments)?;
                }
            }
        }
        let args = ScaleRewardsArgs { n: s.cells as u64, moments, rewards: &a.rewards };
        Ok(kernels.scale_rewards.launch(&Launch::over(s.cells, 256), &[args.arg()])?)
    }

    /// As [`crate::engine::rollout::normalise::Normaliser::state`].
    pub(super) fn state(&self) -> Result<Vec<Statistic>> {
        let mut statistics = Vec::new();
        let reward = self.reward.as_ref().map(|reward| &reward.moments[0]);
        let of = [("obs", self.obs.as_ref().map(|obs| &obs[0])), ("reward", reward)];
        for (prefix, moments) in of.into_iter().filter_map(|(p, m)| Some((p, m?))) {
            let words = moments.pull::<u32>()?;
            let each = words.chunks_exact(WideMoments::WORDS).map(WideMoments::take);
            let each = each.map(|WideMoments { count, mean, var }| Moments { count, mean, var });
            Moments::save(&each.collect::<Vec<_>>(), prefix, &mut statistics);
        }
        if let Some(reward) = &self.reward {
            let data = doubles(&reward.running.pull::<u32>()?);
            let (name, shape) = ("discounted_return".into(), vec![data.len()]);
            statistics.push(Statistic { name, shape, data });
        }
        Ok(statistics)
    }

    /// Takes over what [`WideNormaliser::state`] gave.
    pub(super) fn load_state(&self, policy: &str, statistics: &[Statistic]) -> Result<()> {
        let load = |prefix: &str, array: &DeviceArray, n: usize| -> Result<()> {
            let moments = Moments::load(policy, statistics, prefix, n)?.into_iter();
            let moments =
                moments.map(|Moments { count, mean, var }| WideMoments { count, mean, var });
            Ok(array.push(&moments.flat_map(|moments| moments.words()).collect::<Vec<_>>())?)
        };
        if let Some([moments, pending, parts]) = &self.obs {
            load("obs", moments, self.width)?;
            pending.push(&vec![0u32; pending.len()])?;
            parts.push(&vec![0u32; parts.len()])?;
            self.count_none(pending)?;
        }
        if let Some(reward) = &self.reward {
            load("reward", &reward.moments[0], 1)?;
            let n = reward.running.len() / 2;
            let running = statistic(policy, statistics, "discounted_return", n)?;
            reward.running.push(&words(running))?;
        }
        Ok(())
    }
}
