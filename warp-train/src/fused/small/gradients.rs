//! The gradient that the small kernels give for a minibatch that comes from the host.
//!
//! Each sample is an agent whose rollout is one step, the last of its episode: its reward is then the
//! target. Values and advantages are the kernels' own.

use super::figures::policy_metrics;
use super::shared::{ROW_ENDED, ROW_MASK_AT, Row};
use super::{SmallLearner, run_sizes, text};
use crate::algorithm::{PolicyMetrics, PolicyPlan};
use crate::config::TrainConfig;
use crate::engine::Progress;
use crate::engine::collectives::RankConnector;
use crate::error::Result;
use crate::fused::gradients::Given;
use crate::fused::halves;
use crate::fused::policy_number::PolicyNumber;
use crate::loss::Minibatch;
use crate::loss::actions::ActionsRef;
use crate::model::LearnerState;
use crate::model::NamedTensor;
use crate::model::from_moments;
use warp_func::cuda::{Build, CudaVecEnv, DeviceValue};

impl SmallLearner {
    /// Policy number `index` of `config`, to be asked for gradients: it has an agent per sample, one
    /// step, one minibatch, nothing clipped, and a step size of 0.
    ///
    /// # Errors
    /// Text that does not compile, or too little memory.
    pub(in super::super) fn for_gradients(
        config: &TrainConfig,
        index: usize,
        envs: &CudaVecEnv,
    ) -> Result<Self> {
        let source = text::update_source(config, index, envs.text());
        let module = envs.kernels().compile(&source, Build::Release)?;
        let connector = RankConnector::new(envs.gpu(), &config.world);
        Self::of_policy(config, PolicyNumber { index, first_agent: 0 }, &connector, &module, 1)
    }

    /// The figures and the gradient of the loss over `given` at `weights`; for what
    /// [`SmallLearner::for_gradients`] made of the same configuration.
    ///
    /// # Errors
    /// Tensors that do not fit, or a gradient that is not finite.
    pub(in super::super) fn gradient_of(
        &mut self,
        config: &TrainConfig,
        weights: &[NamedTensor],
        given: &Given<'_>,
    ) -> Result<(PolicyMetrics, Vec<NamedTensor>)> {
        let mut state = LearnerState::default();
        let moments = |suffix: &str| {
            let zeros = |weight: &NamedTensor| NamedTensor {
                name: format!("{}{suffix}", weight.name),
                data: vec![0.0; weight.data.len()],
                shape: weight.shape.clone(),
            };
            weights.iter().map(zeros).collect::<Vec<_>>()
        };
        let optimizer = [moments(".exp_avg"), moments(".exp_avg_sq")].concat();
        state.add_policy(&self.policy, weights.to_vec(), optimizer, 0);
        self.load(&state)?;
        let plan = &config.policies[self.index];
        let width = plan.group(&config.spec).observation_width();
        let records = records(width, plan, given);
        let records = laid_out(records, run_sizes::apart(config), self.arrays.records.len());
        self.arrays.records.push(&records)?;
        let progress = Progress { iteration: 0, env_steps: 0, seed: 0 };
        self.begin(config, progress, 1)?;
        // As after a rollout.
        self.arrays.barrier.push(&[0u32])?;
        // While a kernel waits for another rank, nobody is to load or allocate anything.
        config.world.barrier("a minibatch")?;
        self.learn(self.place(config, progress, 0))?;
        let figures = self.figures(config, 1)?;
        let samples = config.world.size() * given.order.len();
        let metrics = policy_metrics(&figures[0], plan, samples as f64, 0)?;
        self.store(&mut state)?;
        let (_, moments, _) = state.of_policy(&self.policy);
        Ok((metrics, from_moments(weights, &moments)?))
    }
}

fn padded<T: Clone + Default>(mut numbers: Vec<T>, n: usize) -> Vec<T> {
    numbers.resize(n, T::default());
    numbers
}

/// All words of `records`, `n` of them: of each row the observation and then the rest, or, if they are kept `apart`, all
/// observations before the rest of any (see `rest_at` of order.cuh). Rows that are not given are zeros.
fn laid_out(records: Records, apart: bool, n: usize) -> Vec<u32> {
    let Records { observations: seen, rest } = records;
    if apart {
        let n_rows = n / (seen.width + rest.width);
        let mut words = padded(seen.words, n_rows * seen.width);
        words.extend(rest.words);
        return padded(words, n);
    }
    let rows = seen.words.chunks(seen.width).zip(rest.words.chunks(rest.width));
    padded(rows.flat_map(|(seen, rest)| [seen, rest].concat()).collect(), n)
}

/// Rows of `width` words each.
#[derive(Debug)]
struct Rows {
    words: Vec<u32>,
    width: usize,
}

/// Samples as a rollout stores them.
#[derive(Debug)]
struct Records {
    /// Observations and a one, as halves.
    observations: Rows,
    /// Of each a `Row` and raw actions.
    rest: Rows,
}

/// The samples with observations of so many numbers.
fn records(width: usize, plan: &PolicyPlan, given: &Given<'_>) -> Records {
    let Minibatch { observations, log_probs, returns, values, .. } = given.minibatch;
    let PolicyPlan { layout, config: keys, .. } = plan;
    let (n_actions, n_mask) = (layout.action_width(), layout.mask_width());
    let (mut all_seen, mut rest) = (Vec::new(), Vec::new());
    for row in given.order.iter().map(|row| *row as usize) {
        let seen = observations[row * width..(row + 1) * width].iter().chain(&[1.0]);
        let mut seen: Vec<u16> = seen.map(|x| halves::bits(keys.precision, *x)).collect();
        seen.resize(seen.len().next_multiple_of(8), 0);
        all_seen.extend(seen.chunks(2).map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16));
        let mut what = ROW_ENDED;
        let mut raw = Vec::new();
        match given.minibatch.actions.rows(row..row + 1, n_actions) {
            ActionsRef::Discrete(choices) => {
                let bits = choices.iter().enumerate().map(|(head, c)| (*c as u32) << (4 * head));
                what |= bits.fold(0, |all, bits| all | bits);
            }
            ActionsRef::Continuous(numbers) => raw.extend(numbers.iter().map(|x| x.to_bits())),
        }
        let mask = given.minibatch.action_mask.map(|mask| &mask[row * n_mask..(row + 1) * n_mask]);
        let allowed = mask.unwrap_or(&[]).iter().enumerate().filter(|(_, allowed)| **allowed != 0);
        what |= allowed.fold(0, |all, (i, _)| all | 1 << (ROW_MASK_AT as usize + i));
        // What the row's agent got is its target.
        let (log_prob, value, advantage) = (log_probs[row], values[row], returns[row]);
        Row { what, log_prob, value, advantage }.put(&mut rest);
        let n_raw = raw.len().next_multiple_of(4);
        rest.extend(padded(raw, n_raw));
    }
    let n = given.order.len().max(1);
    let rows = |words: Vec<u32>| Rows { width: words.len() / n, words };
    Records { observations: rows(all_seen), rest: rows(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_whole_or_apart() {
        let rows = || {
            let observations = Rows { words: vec![1, 2, 3, 4], width: 2 };
            Records { observations, rest: Rows { words: vec![5, 6], width: 1 } }
        };
        assert_eq!(laid_out(rows(), false, 9), [1, 2, 5, 3, 4, 6, 0, 0, 0]);
        assert_eq!(laid_out(rows(), true, 9), [1, 2, 3, 4, 0, 0, 5, 6, 0]);
    }
}
