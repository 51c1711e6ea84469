//! Running normalisation of observations and rewards, kept in f64 and saved with the checkpoint.
//!
//! What a rollout holds counts from the next rollout on for observations (all steps of a rollout are
//! seen through the same numbers, so a kernel may take them as constants, and old and new
//! log-probabilities are of the same inputs), and at once for rewards, which are only looked at when
//! the rollout is full. Batches are combined by Chan's formula, step by step in order, so nothing
//! depends on threads. The first rollout is seen through the observations that the environments begin
//! with (`run/begin.rs`), which count for next to nothing: the rollout holds them once more.

use crate::algorithm::{PolicyConfig, PolicyPlan, Schedule};
use crate::config::{Shards, Sharing};
use crate::engine::rollout::PolicyRollout;
use crate::error::{Error, Result};
pub use crate::model::Statistic;
use crate::world::World;

/// The bound to which normalised numbers are clipped, in both directions.
pub const CLIP: f32 = 10.0;
/// Added to a variance before its root is taken.
pub const EPSILON: f64 = 1e-8;
/// How many samples the observations before the first rollout count for.
pub const BEGINNING: f64 = 1e-4;

/// Mean and variance of some numbers, each by itself, over all samples seen.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningMoments {
    /// Number of samples.
    pub count: f64,
    /// Mean per number.
    pub mean: Vec<f64>,
    /// Variance (over `count`) per number.
    pub var: Vec<f64>,
}

impl RunningMoments {
    /// Moments of no samples yet, each of `width` numbers.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self { count: 0.0, mean: vec![0.0; width], var: vec![0.0; width] }
    }

    /// Takes in `samples`, row-major `[rows, width]`; rows of weight 0 are left out (an empty slice:
    /// none is).
    pub fn add(&mut self, samples: &[f32], weights: &[f32]) {
        let width = self.mean.len();
        let in_game = |row: usize| weights.get(row).is_none_or(|weight| *weight > 0.0);
        let rows = || samples.chunks_exact(width).enumerate().filter(|(row, _)| in_game(*row));
        let mut batch = Self::new(width);
        batch.count = rows().count() as f64;
        if batch.count == 0.0 {
            return;
        }
        for (_, row) in rows() {
            batch.mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        batch.mean.iter_mut().for_each(|sum| *sum /= batch.count);
        for (_, row) in rows() {
            for ((square, mean), x) in batch.var.iter_mut().zip(&batch.mean).zip(row) {
                *square += (f64::from(*x) - mean).powi(2);
            }
        }
        batch.var.iter_mut().for_each(|square| *square /= batch.count);
        self.merge(&batch);
    }

    /// Takes in all samples that `other` has seen (Chan, Golub & LeVeque, 1979).
    pub fn merge(&mut self, other: &Self) {
        let total = self.count + other.count;
        if other.count == 0.0 {
            return;
        }
        let (own, share) = (self.count / total, other.count / total);
        let moments = self.mean.iter_mut().zip(&mut self.var);
        for ((mean, var), (new_mean, new_var)) in moments.zip(other.mean.iter().zip(&other.var)) {
            let delta = new_mean - *mean;
            *mean += delta * share;
            *var = *var * own + new_var * share + delta * delta * own * share;
        }
        self.count = total;
    }

    /// These moments as what the first rollout is seen through: a number that is the same in all samples
    /// has the deviation 1, since nothing is known of it, and the samples count for [`BEGINNING`].
    #[must_use]
    pub fn as_beginning(mut self) -> Self {
        self.count = if self.count > 0.0 { BEGINNING } else { 0.0 };
        self.var.iter_mut().filter(|var| **var == 0.0).for_each(|var| *var = 1.0);
        self
    }

    /// Count, means and variances, one after the other.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        std::iter::once(self.count).chain(self.mean.iter().chain(&self.var).copied())
    }

    /// The reverse of [`RunningMoments::numbers`], f64 `[1 + 2 * width]`.
    pub(crate) fn of_numbers(numbers: &[f64], width: usize) -> Self {
        let (mean, var) = numbers[1..].split_at(width);
        Self { count: numbers[0], mean: mean.to_vec(), var: var.to_vec() }
    }

    /// Count, mean and variance as `<prefix>_count`, `<prefix>_mean` and `<prefix>_var`.
    pub(crate) fn save(&self, prefix: &str, into: &mut Vec<Statistic>) {
        let width = vec![self.mean.len()];
        let parts =
            [("count", vec![1], vec![self.count]), ("mean", width.clone(), self.mean.clone())];
        for (part, shape, data) in parts.into_iter().chain([("var", width, self.var.clone())]) {
            into.push(Statistic { name: format!("{prefix}_{part}"), shape, data });
        }
    }

    fn load(&mut self, prefix: &str, from: &mut Given<'_>) -> Result<()> {
        let width = self.mean.len();
        self.count = from.take(&format!("{prefix}_count"), 1)?[0];
        self.mean = from.take(&format!("{prefix}_mean"), width)?;
        self.var = from.take(&format!("{prefix}_var"), width)?;
        Ok(())
    }
}

/// Observations of one policy.
#[derive(Debug, Clone)]
struct ObsNormaliser {
    /// What counts for the rollout at hand.
    moments: RunningMoments,
    /// What the rollout at hand holds, by the shards that are here.
    pending: Vec<RunningMoments>,
    /// `moments` as mean and 1 / deviation.
    factors: Vec<(f32, f32)>,
}

impl ObsNormaliser {
    fn refresh(&mut self) {
        let moments = self.moments.mean.iter().zip(&self.moments.var);
        let factor =
            |(mean, var): (&f64, &f64)| (*mean as f32, (1.0 / (var + EPSILON).sqrt()) as f32);
        self.factors.clear();
        if self.moments.count > 0.0 {
            self.factors.extend(moments.map(factor));
        }
    }
}

/// Rewards of one policy.
#[derive(Debug, Clone)]
struct RewardNormaliser {
    gamma: Schedule,
    /// Of the discounted return.
    moments: RunningMoments,
    /// Moments of the discounted return in the rollout at hand, by the shards that are here, where there are several.
    pending: Vec<RunningMoments>,
    /// The discounted return of each row so far, `[n_rows]`.
    returns: Vec<f64>,
}

/// What one policy normalises.
#[derive(Debug, Clone)]
pub struct Normaliser {
    learns: bool,
    obs: Option<ObsNormaliser>,
    reward: Option<RewardNormaliser>,
    sharing: Sharing,
}

impl Normaliser {
    /// Normalisation by the keys `norm_obs` and `norm_reward` of `plan`, for observations of `width` numbers and
    /// `n_rows` rows (agents of all replicas of this rank).
    #[must_use]
    pub fn new(plan: &PolicyPlan, width: usize, n_rows: usize, sharing: Sharing) -> Self {
        let PolicyConfig { norm_obs, norm_reward, to_train, .. } = plan.config;
        let moments = RunningMoments::new(width);
        let pending = vec![moments.clone(); sharing.shards.here];
        let obs = ObsNormaliser { moments, pending, factors: Vec::new() };
        let reward = RewardNormaliser {
            gamma: plan.config.gamma.clone(),
            moments: RunningMoments::new(1),
            pending: vec![RunningMoments::new(1); sharing.shards.here],
            returns: vec![0.0; if norm_reward { n_rows } else { 0 }],
        };
        Self {
            learns: to_train,
            obs: norm_obs.then_some(obs),
            reward: norm_reward.then_some(reward),
            sharing,
        }
    }

    /// Whether [`Normaliser::apply`] does anything.
    #[must_use]
    pub fn changes_obs(&self) -> bool {
        self.obs.as_ref().is_some_and(|obs| !obs.factors.is_empty())
    }

    /// What observations are normalised by, number by number: the mean, and what the difference from it is multiplied
    /// by; then clipped to [`CLIP`]. `None` where they stay as they are.
    #[must_use]
    pub fn factors(&self) -> Option<&[(f32, f32)]> {
        self.obs.as_ref().map(|obs| &obs.factors[..]).filter(|factors| !factors.is_empty())
    }

    /// Normalises observations in place, f32 `[rows, width]`, and remembers nothing.
    pub fn apply(&self, obs: &mut [f32]) {
        let Some(normaliser) = self.obs.as_ref().filter(|n| !n.factors.is_empty()) else { return };
        for row in obs.chunks_exact_mut(normaliser.factors.len()) {
            for (x, (mean, scale)) in row.iter_mut().zip(&normaliser.factors) {
                // Not `clamp`: a NaN must stay one and be noticed.
                let y = (*x - mean) * scale;
                let y = if y > CLIP { CLIP } else { y };
                *x = if y < -CLIP { -CLIP } else { y };
            }
        }
    }

    /// Takes in a training step's observations, f32 `[rows, width]`, and normalises them in place.
    /// Rows of weight 0 do not count; an empty `weights`: all do.
    pub fn observe(&mut self, obs: &mut [f32], weights: &[f32]) {
        if let (Some(normaliser), true) = (&mut self.obs, self.learns) {
            let (shards, width) = (self.sharing.shards, normaliser.moments.mean.len());
            let n_rows = obs.len() / width;
            for (index, pending) in normaliser.pending.iter_mut().enumerate() {
                let rows = shards.rows(n_rows, index);
                let weights = weights.get(rows.clone()).unwrap_or(&[]);
                pending.add(&obs[rows.start * width..rows.end * width], weights);
            }
        }
        self.apply(obs);
    }

    /// Takes in the rewards of a full rollout, which began after `env_steps` environment steps, and normalises them in
    /// place; to be called once per rollout.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub fn rewards(&mut self, rollout: &mut PolicyRollout, env_steps: u64) -> Result<()> {
        let Sharing { world, shards } = &self.sharing;
        let Some(RewardNormaliser { gamma, moments, pending, returns }) = &mut self.reward else {
            return Ok(());
        };
        let (n_rows, gamma) = (returns.len(), gamma.at(env_steps));
        let mut discounted = vec![0.0; n_rows];
        let cells = rollout.rewards.chunks_exact(n_rows).zip(rollout.ended.chunks_exact(n_rows));
        for (t, (rewards, ended)) in cells.enumerate() {
            for (sum, reward) in returns.iter_mut().zip(rewards) {
                *sum = *sum * gamma + f64::from(*reward);
            }
            discounted.iter_mut().zip(&*returns).for_each(|(to, sum)| *to = *sum as f32);
            if self.learns {
                let weights = rollout.weights.get(t * n_rows..(t + 1) * n_rows).unwrap_or(&[]);
                add_by_shard(*shards, moments, pending, &discounted, weights);
            }
            for (sum, _) in returns.iter_mut().zip(ended).filter(|(_, ended)| **ended != 0) {
                *sum = 0.0;
            }
        }
        if !shards.is_one() {
            merge_all(world, "moments of rewards", moments, pending)?;
        }
        let scale = (1.0 / (moments.var[0] + EPSILON).sqrt()) as f32;
        for reward in &mut rollout.rewards {
            let scaled = *reward * scale;
            let scaled = if scaled > CLIP { CLIP } else { scaled };
            *reward = if scaled < -CLIP { -CLIP } else { scaled };
        }
        Ok(())
    }

    /// Lets the observations taken in count from now on; to be called when a rollout has been
    /// learned from.
    ///
    /// # Errors
    /// Ranks that have lost each other.
    pub fn finish_rollout(&mut self) -> Result<()> {
        if let Some(ObsNormaliser { moments, pending, .. }) = &mut self.obs {
            merge_all(&self.sharing.world, "moments of observations", moments, pending)?;
        }
        if let Some(normaliser) = &mut self.obs {
            normaliser.refresh();
        }
        Ok(())
    }

    /// `obs_count`, `obs_mean`, `obs_var`; `reward_count`, `reward_mean`, `reward_var` (of the
    /// discounted return) and `discounted_return` `[n_rows]`; those that are in use.
    #[must_use]
    pub fn state(&self) -> Vec<Statistic> {
        let mut statistics = Vec::new();
        if let Some(obs) = &self.obs {
            obs.moments.save("obs", &mut statistics);
        }
        if let Some(RewardNormaliser { moments, returns, .. }) = &self.reward {
            moments.save("reward", &mut statistics);
            let (name, shape) = ("discounted_return".into(), vec![returns.len()]);
            statistics.push(Statistic { name, shape, data: returns.clone() });
        }
        statistics
    }

    /// Takes over what [`Normaliser::state`] gave, bit by bit.
    ///
    /// # Errors
    /// A statistic that is missing, of another length, or not in use; then nothing has changed.
    pub fn load_state(&mut self, policy: &str, statistics: &[Statistic]) -> Result<()> {
        let mut new = self.clone();
        let mut given = Given { policy, left: statistics.iter().collect() };
        if let Some(obs) = &mut new.obs {
            obs.moments.load("obs", &mut given)?;
            obs.pending.fill(RunningMoments::new(obs.moments.mean.len()));
            obs.refresh();
        }
        if let Some(reward) = &mut new.reward {
            reward.moments.load("reward", &mut given)?;
            // Of all replicas; this rank has some of them.
            let n_rows = reward.returns.len() * self.sharing.world.size();
            let all = given.take("discounted_return", n_rows)?;
            reward.returns = all[self.sharing.world.share(n_rows)].to_vec();
        }
        if let Some(extra) = given.left.iter().min_by_key(|statistic| &statistic.name) {
            return Err(Error::Invalid(format!(
                "policy \"{policy}\": statistic \"{}\" is given, but the configuration normalises \
                 nothing that needs it",
                extra.name
            )));
        }
        *self = new;
        Ok(())
    }
}

/// Takes in numbers, one for each row, shard by shard; the only shard of a run at once.
fn add_by_shard(
    shards: Shards,
    moments: &mut RunningMoments,
    pending: &mut [RunningMoments],
    numbers: &[f32],
    weights: &[f32],
) {
    if shards.is_one() {
        return moments.add(numbers, weights);
    }
    for (index, pending) in pending.iter_mut().enumerate() {
        let rows = shards.rows(numbers.len(), index);
        pending.add(&numbers[rows.clone()], weights.get(rows).unwrap_or(&[]));
    }
}

/// Lets what is pending on all ranks count, in the order of shards.
fn merge_all(
    world: &World,
    what: &'static str,
    moments: &mut RunningMoments,
    pending: &mut [RunningMoments],
) -> Result<()> {
    let numbers: Vec<f64> = pending.iter().flat_map(RunningMoments::numbers).collect();
    let width = moments.mean.len();
    for numbers in world.all_gather_f64(what, &numbers)?.chunks_exact(1 + 2 * width) {
        moments.merge(&RunningMoments::of_numbers(numbers, width));
    }
    pending.fill(RunningMoments::new(width));
    Ok(())
}

/// Statistics that were given and not yet taken.
struct Given<'a> {
    policy: &'a str,
    left: Vec<&'a Statistic>,
}

impl Given<'_> {
    fn take(&mut self, name: &str, expected: usize) -> Result<Vec<f64>> {
        let policy = self.policy;
        let Some(at) = self.left.iter().position(|s| s.name == name) else {
            return Err(Error::Invalid(format!(
                "policy \"{policy}\": statistic \"{name}\" is missing"
            )));
        };
        let data = &self.left.remove(at).data;
        if data.len() == expected && data.iter().all(|x| x.is_finite()) {
            return Ok(data.clone());
        }
        Err(Error::Invalid(format!(
            "policy \"{policy}\": statistic \"{name}\" has {} numbers, expected {expected} finite ones",
            data.len()
        )))
    }
}
