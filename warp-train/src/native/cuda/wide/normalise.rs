//! Running normalisation of one policy's observations and rewards on the device.

use super::arrays::Sizes;
use super::policy::{Kit, WidePolicy, all};
use crate::config::PolicyPlan;
use crate::error::{Error, Result};
use crate::normalise::Statistic;
use warp_core::DType::{F32, U32};
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{Arg, Launch, Module};

/// 32-bit words of a `WideMoments`: count, mean, variance as f64.
const MOMENTS_WORDS: usize = 6;
/// Shares of a step's rows at most.
const MOST_SHARES: usize = 64;

const KERNELS: [&str; 7] = [
    "wide_look",
    "wide_remember",
    "wide_count_in",
    "wide_discount",
    "wide_return_moments",
    "wide_learn_returns",
    "wide_scale_rewards",
];

/// What a policy normalises by; arrays of moments are `[n, 3]` in f64.
#[derive(Debug)]
pub(super) struct WideNormaliser {
    kit: Kit,
    learns: bool,
    width: usize,
    shares: usize,
    /// Mean and 1 / deviation per number, and whether they count: f32 `[2 width + 1]`.
    pub(super) factors: DeviceArray,
    /// Of observations: what counts, what the rollout at hand holds, a step's shares.
    obs: Option<[DeviceArray; 3]>,
    reward: Option<Rewards>,
}

#[derive(Debug)]
struct Rewards {
    gamma: f64,
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
        (width, sizes): (usize, &Sizes),
    ) -> Result<Self> {
        let keys = &plan.config;
        let make = |name: &str, words: usize| -> Result<DeviceArray> {
            Ok(DeviceArray::zeros(device, &format!("{}.{name}", plan.name), U32, &[words])?)
        };
        let shares = sizes.rows.div_ceil(256).clamp(1, MOST_SHARES);
        let obs = || -> Result<[DeviceArray; 3]> {
            let moments = |n: usize| make("obs_moments", MOMENTS_WORDS * width * n);
            Ok([moments(1)?, moments(1)?, moments(shares)?])
        };
        let reward = || -> Result<Rewards> {
            let moments = |n: usize| make("reward_moments", MOMENTS_WORDS * n);
            Ok(Rewards {
                gamma: keys.gamma,
                moments: [moments(1)?, moments(sizes.steps)?],
                running: make("discounted_return", 2 * sizes.rows)?,
                discounted: DeviceArray::zeros(device, "discounted", F32, &[sizes.cells])?,
            })
        };
        Ok(Self {
            kit: Kit::new(&[(module, &KERNELS)])?,
            learns: keys.to_train,
            width,
            shares,
            factors: DeviceArray::zeros(device, "factors", F32, &[2 * width + 1])?,
            obs: keys.norm_obs.then(obs).transpose()?,
            reward: keys.norm_reward.then(reward).transpose()?,
        })
    }

    /// Takes in what the agents see before a training step.
    pub(super) fn look(&self, policy: &WidePolicy) -> Result<()> {
        let (Some([_, pending, parts]), true) = (&self.obs, self.learns) else { return Ok(()) };
        let blocks = self.width.div_ceil(32) * self.shares;
        let (rows, shares) = (Arg::U32(policy.sizes.rows as u32), Arg::U32(self.shares as u32));
        let args = [all(&policy.places), rows, shares.clone(), all(parts)];
        self.kit.launch("wide_look", &Launch::over(blocks * 256, 256), &args)?;
        let args = [all(parts), shares, all(pending)];
        self.kit.launch("wide_remember", &Launch::over(self.width, 64), &args)
    }

    /// When the rollout is full: normalises its rewards, and lets its observations count.
    pub(super) fn finish(&self, policy: &WidePolicy) -> Result<()> {
        if let Some(reward) = &self.reward {
            self.rewards(reward, policy)?;
        }
        match &self.obs {
            Some([_, pending, _]) => self.count_in(pending),
            None => Ok(()),
        }
    }

    fn count_in(&self, pending: &DeviceArray) -> Result<()> {
        let Some([moments, ..]) = &self.obs else { return Ok(()) };
        let args = [all(moments), all(pending), all(&self.factors)];
        self.kit.launch("wide_count_in", &Launch::over(self.width, 64), &args)
    }

    fn rewards(&self, reward: &Rewards, policy: &WidePolicy) -> Result<()> {
        let (a, s) = (&policy.arrays, &policy.sizes);
        let [moments, steps] = &reward.moments;
        let rows = Arg::U32(s.rows as u32);
        let args = [
            Arg::U32(s.steps as u32),
            rows.clone(),
            all(&a.rewards),
            all(&a.ended),
            Arg::U64(reward.gamma.to_bits()),
            all(&reward.running),
            all(&reward.discounted),
        ];
        self.kit.launch("wide_discount", &Launch::over(s.rows, 64), &args)?;
        if self.learns {
            let args = [rows, all(&reward.discounted), all(&a.weights), all(steps)];
            let launch = Launch { blocks: s.steps as u32, threads: 256, ..Launch::default() };
            self.kit.launch("wide_return_moments", &launch, &args)?;
            let args = [all(steps), Arg::U32(s.steps as u32), all(moments)];
            let launch = Launch { blocks: 1, threads: 1, ..Launch::default() };
            self.kit.launch("wide_learn_returns", &launch, &args)?;
        }
        let args = [Arg::U64(s.cells as u64), all(moments), all(&a.rewards)];
        self.kit.launch("wide_scale_rewards", &Launch::over(s.cells, 256), &args)
    }

    /// As [`crate::normalise::Normaliser::state`].
    pub(super) fn state(&self) -> Result<Vec<Statistic>> {
        let mut statistics = Vec::new();
        let mut add = |name: String, data: Vec<f64>| {
            statistics.push(Statistic { name, shape: vec![data.len()], data });
        };
        let reward = self.reward.as_ref().map(|reward| &reward.moments[0]);
        let of = [("obs", self.obs.as_ref().map(|obs| &obs[0])), ("reward", reward)];
        for (prefix, moments) in of.into_iter().filter_map(|(p, m)| Some((p, m?))) {
            let numbers = doubles(&moments.pull::<u32>()?);
            let each = |k: usize| numbers.iter().skip(k).step_by(3).copied().collect::<Vec<_>>();
            add(format!("{prefix}_count"), vec![numbers[0]]);
            add(format!("{prefix}_mean"), each(1));
            add(format!("{prefix}_var"), each(2));
        }
        if let Some(reward) = &self.reward {
            add("discounted_return".into(), doubles(&reward.running.pull::<u32>()?));
        }
        Ok(statistics)
    }

    /// Takes over what [`WideNormaliser::state`] gave.
    pub(super) fn load_state(&self, policy: &str, statistics: &[Statistic]) -> Result<()> {
        let take = |name: String, n: usize| {
            let found = statistics.iter().find(|statistic| statistic.name == name);
            let data = found.map(|statistic| &statistic.data).filter(|data| data.len() == n);
            data.ok_or_else(|| {
                Error::Invalid(format!(
                    "policy \"{policy}\": statistic \"{name}\" of {n} numbers is missing"
                ))
            })
        };
        let load = |prefix: &str, array: &DeviceArray, n: usize| -> Result<()> {
            let count = take(format!("{prefix}_count"), 1)?[0];
            let (mean, var) =
                (take(format!("{prefix}_mean"), n)?, take(format!("{prefix}_var"), n)?);
            let moments = mean.iter().zip(var).flat_map(|(mean, var)| [count, *mean, *var]);
            Ok(array.push(&words(moments))?)
        };
        if let Some([moments, pending, _]) = &self.obs {
            load("obs", moments, self.width)?;
            pending.push(&vec![0u32; pending.len()])?;
            self.count_in(pending)?;
        }
        if let Some(reward) = &self.reward {
            load("reward", &reward.moments[0], 1)?;
            let running = take("discounted_return".into(), reward.running.len() / 2)?;
            reward.running.push(&words(running.iter().copied()))?;
        }
        Ok(())
    }
}

fn doubles(words: &[u32]) -> Vec<f64> {
    let double = |pair: &[u32]| f64::from_bits(u64::from(pair[0]) | u64::from(pair[1]) << 32);
    words.chunks_exact(2).map(double).collect()
}

fn words(doubles: impl Iterator<Item = f64>) -> Vec<u32> {
    doubles.map(f64::to_bits).flat_map(|bits| [bits as u32, (bits >> 32) as u32]).collect()
}
