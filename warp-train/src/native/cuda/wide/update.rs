//! How a policy of the wide path learns: advantages, minibatches, gradients, Adam; all as launches.

use super::arrays::SUM_BLOCKS;
use super::network::Layer;
use super::policy::{Rows, WidePolicy, all};
use crate::config::Algorithm;
use crate::error::{Result, of_policy};
use crate::learner::Progress;
use crate::metrics::PolicyMetrics;
use crate::policy_error::PolicyError;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{Arg, Launch};

/// Words of `WideState`: doubles first, two words each.
const NORM: usize = 4;
const SUMS: usize = 6;
const EXPLAINED: usize = 18;
pub(super) const SAMPLES: usize = 20;
const FAULT: usize = 23;
pub(super) const ADAM_STEPS: usize = 24;
const UPDATES: usize = 25;

impl WidePolicy {
    /// Says what this iteration's update needs to know.
    pub(super) fn push_settings(&self, progress: Progress) -> Result<()> {
        let keys = &self.plan.config;
        let (seed, rate) = (progress.seed, keys.learning_rate.at(progress.env_steps).to_bits());
        let vf_coef = keys.vf_coef.at(progress.env_steps) as f32;
        let ent_coef = keys.ent_coef.at(progress.env_steps) as f32;
        let words = [
            seed as u32,
            (seed >> 32) as u32,
            rate as u32,
            (rate >> 32) as u32,
            vf_coef.to_bits(),
            ent_coef.to_bits(),
            progress.iteration as u32,
            0,
        ];
        Ok(self.arrays.settings.push(&words)?)
    }

    /// Whether [`WidePolicy::learn`] starts nothing, which can't be recorded.
    pub(super) fn learns_nothing(&self) -> bool {
        let keys = &self.plan.config;
        !keys.to_train && !keys.norm_obs && !keys.norm_reward
    }

    /// Starts the whole update.
    pub(super) fn learn(&self) -> Result<()> {
        let (config, a) = (&self.plan.config, &self.arrays);
        self.normaliser.finish(self)?;
        if !config.to_train {
            return Ok(());
        }
        self.advantages()?;
        if config.algorithm == Algorithm::A2c {
            return self.minibatch(0, &a.order);
        }
        for epoch in 0..config.update_epochs {
            let args = [
                all(&a.settings),
                all(&a.state),
                Arg::U32(epoch as u32),
                all(&a.order),
                all(&a.shuffled),
            ];
            self.kit.launch("wide_shuffle", &Launch::over(self.sizes.cells, 256), &args)?;
            for part in 0..config.num_minibatches {
                self.minibatch(part, &a.shuffled)?;
            }
        }
        Ok(())
    }

    /// Advantages, returns, and which samples count.
    fn advantages(&self) -> Result<()> {
        let (config, a, s) = (&self.plan.config, &self.arrays, &self.sizes);
        let compat = config.compat_last_step && config.algorithm == Algorithm::A2c;
        let args = [
            Arg::U32(s.steps as u32),
            Arg::U32(s.rows as u32),
            all(&a.rewards),
            all(&a.values),
            all(&a.ended),
            all(&a.truncated_values),
            Arg::F32(config.gamma as f32),
            Arg::F32(config.gae_lambda as f32),
            Arg::I32(i32::from(compat)),
            all(&a.advantages),
            all(&a.returns),
        ];
        self.kit.launch("wide_gae", &Launch::over(s.rows, 64), &args)?;
        let blocks = s.cells.div_ceil(1024);
        let of_cells = Launch { blocks: blocks as u32, threads: 256, ..Launch::default() };
        let cells = Arg::U32(s.cells as u32);
        let args = [all(&a.weights), cells.clone(), all(&a.counts)];
        self.kit.launch("wide_count", &of_cells, &args)?;
        let args = [all(&a.counts), Arg::U32(blocks as u32), all(&a.state)];
        self.kit.launch("wide_places_of_blocks", &ONE_BLOCK, &args)?;
        let args = [all(&a.weights), cells, all(&a.counts), all(&a.order)];
        self.kit.launch("wide_compact", &of_cells, &args)?;
        let args = [all(&a.state), all(&a.order), all(&a.returns), all(&a.values), all(&a.sums)];
        self.kit.launch("wide_variances", &sum_blocks(), &args)?;
        let args = [all(&a.sums), Arg::U32(SUM_BLOCKS as u32), all(&a.state)];
        self.kit.launch("wide_explain", &ONE_BLOCK, &args)
    }

    /// One step of gradient descent.
    pub(super) fn minibatch(&self, part: usize, order: &DeviceArray) -> Result<()> {
        let (config, a, s) = (&self.plan.config, &self.arrays, &self.sizes);
        let number = Arg::U32(part as u32);
        let args = [all(&a.state), number.clone(), all(order), all(&a.advantages), all(&a.sums)];
        self.kit.launch("wide_advantages", &sum_blocks(), &args)?;
        let normalise = Arg::I32(i32::from(config.norm_adv));
        let args = [all(&a.state), number, all(&a.sums), Arg::U32(SUM_BLOCKS as u32), normalise];
        self.kit.launch("wide_begin_minibatch", &ONE_BLOCK, &args)?;
        let mut loss_blocks = 0;
        for first in (0..s.chunks()).map(|chunk| chunk * s.chunk) {
            loss_blocks += match &self.fused {
                Some(shape) => self.fused_gradients(shape, order)?,
                None if self.tensor.is_empty() => self.gradients(first, order, loss_blocks)?,
                None => self.tensor_gradients(first, order, loss_blocks)?,
            };
        }
        let n = self.network.n_parameters;
        let count = Arg::U32(n as u32);
        let args = [
            all(&a.state),
            all(&a.partial),
            Arg::U32(s.copies as u32),
            count.clone(),
            all(&a.gradient),
            all(&a.squares),
        ];
        self.kit.launch("wide_reduce", &Launch::over(n, 256), &args)?;
        let args = [
            all(&a.settings),
            all(&a.state),
            all(&a.squares),
            Arg::U32(n.div_ceil(256) as u32),
            all(&a.losses),
            Arg::U32(loss_blocks as u32),
            Arg::F32(config.max_grad_norm as f32),
        ];
        self.kit.launch("wide_factors", &ONE_BLOCK, &args)?;
        let args = [
            all(&a.state),
            all(&a.gradient),
            count,
            Arg::F32(config.adam_eps as f32),
            all(&a.parameters),
            all(&a.exp_avg),
            all(&a.exp_avg_sq),
        ];
        self.kit.launch("wide_adam", &Launch::over(n, 256), &args)?;
        self.pack()
    }

    /// What the loss reads of samples, as arguments.
    pub(super) fn samples(&self) -> [Arg; 7] {
        let a = &self.arrays;
        [&a.masks, &a.actions, &a.raws, &a.log_probs, &a.values, &a.advantages, &a.returns].map(all)
    }

    /// Gradients of a chunk in fp32; returns how many blocks of loss sums it left.
    fn gradients(&self, first: usize, order: &DeviceArray, losses_at: usize) -> Result<usize> {
        let (a, rows) = (&self.arrays, self.sizes.chunk);
        let width = self.network.observation_width();
        let chunk = [Arg::U32(first as u32), Arg::U32(rows as u32)];
        let [from, count] = chunk.clone();
        let args = [all(&a.state), all(order), from, count, all(&a.obs), all(&a.gathered)];
        self.kit.launch("wide_gather", &Launch::over(rows * width, 256), &args)?;
        self.layers(&Rows { x: &a.gathered, at: 0, sampled: true, first, rows })?;
        let [from, count] = chunk;
        let mut args = vec![all(&a.settings), all(&a.state), all(order), from, count];
        args.extend(self.samples());
        args.extend([all(&a.parameters), all(&a.outs), all(&a.losses), Arg::U32(losses_at as u32)]);
        self.kit.launch("wide_losses", &Launch::over(rows, 256), &args)?;
        if let Some(foreign) = &self.foreign {
            foreign.borrow_mut().backward(&a.outs, &a.partial, first > 0)?;
            return Ok(rows.div_ceil(256));
        }
        for t in 0..self.network.towers.len() {
            self.backward(t, first)?;
        }
        if let Some(range) = &self.network.log_std {
            // Not a layer: the sum over samples of the last columns before the value's.
            let of = Layer { n_in: 0, n_out: range.len(), weight: range.start };
            let column = self.network.n_outputs - range.len();
            let to = [column, self.out_row(), of.n_out, 0].map(|n| Arg::U32(n as u32));
            self.layer_weights((&a.outs, to), &a.gathered, &of, first)?;
        }
        Ok(rows.div_ceil(256))
    }

    /// Gradients of a chunk on tensor cores; returns how many blocks of loss sums it left.
    fn tensor_gradients(&self, first: usize, order: &DeviceArray, at: usize) -> Result<usize> {
        let (a, rows) = (&self.arrays, self.sizes.chunk);
        let mut blocks = 0;
        for tower in &self.tensor {
            let chunk = [Arg::U32(first as u32), Arg::U32(rows as u32)];
            let [from, count] = chunk.clone();
            let mut args =
                vec![all(&a.settings), all(&a.state), all(order), from, count, all(&a.obs)];
            args.extend(self.samples());
            let own = [&a.parameters, &tower.image, &tower.biases, &a.kept, &a.losses].map(all);
            args.extend(own);
            args.push(Arg::U32((at + blocks) as u32));
            let launch = self.two_tiles_a_block(rows, tower.shape.learn_bytes());
            tower.kit.launch("wide_tensor_learn", &launch, &args)?;
            blocks += launch.blocks as usize;
            let [from, count] = chunk;
            let copies = self.sizes.copies;
            let args = [
                all(&a.state),
                from,
                count,
                Arg::U32(copies as u32),
                all(&a.kept),
                all(&a.partial),
                Arg::U32(self.network.n_parameters as u32),
            ];
            let launch = Launch {
                blocks: (tower.shape.jobs() * copies) as u32,
                threads: 256,
                shared_bytes: tower.shape.weights_bytes() as u32,
                cooperative: false,
            };
            tower.kit.launch("wide_tensor_weights", &launch, &args)?;
        }
        Ok(blocks)
    }

    /// Waits for the update and says what it did.
    pub(super) fn metrics(&self, progress: Progress) -> Result<PolicyMetrics> {
        let words = self.arrays.state.pull::<u32>()?;
        let number = |i: usize| f64::from_bits(u64::from(words[i]) | u64::from(words[i + 1]) << 32);
        let failed = |source| Err(of_policy(&self.plan.name)(source));
        if words[FAULT] & 1 != 0 {
            return failed(PolicyError::NonFiniteOutput {
                output: "outputs",
                index: 0,
                value: f32::NAN,
            });
        }
        if words[FAULT] & 2 != 0 {
            return failed(PolicyError::NonFiniteGradient { norm: number(NORM) });
        }
        let config = &self.plan.config;
        if !config.to_train {
            return Ok(PolicyMetrics::default());
        }
        let updates = f64::from(words[UPDATES].max(1));
        let mean = |i: usize| number(SUMS + 2 * i) / updates;
        let [policy_loss, value_loss, entropy, approx_kl, clip_fraction, grad_norm] =
            std::array::from_fn(mean);
        let vf_coef = f64::from(config.vf_coef.at(progress.env_steps) as f32);
        let ent_coef = f64::from(config.ent_coef.at(progress.env_steps) as f32);
        Ok(PolicyMetrics {
            learning_rate: config.learning_rate.at(progress.env_steps),
            loss: policy_loss + vf_coef * value_loss - ent_coef * entropy,
            policy_loss,
            value_loss,
            entropy,
            approx_kl,
            clip_fraction,
            explained_variance: number(EXPLAINED),
            grad_norm,
        })
    }
}

const ONE_BLOCK: Launch = Launch { blocks: 1, threads: 256, shared_bytes: 0, cooperative: false };

fn sum_blocks() -> Launch {
    Launch { blocks: SUM_BLOCKS as u32, ..ONE_BLOCK }
}
