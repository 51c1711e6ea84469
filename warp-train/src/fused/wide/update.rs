//! How a policy of the wide path learns from what prepare.rs makes of a rollout: minibatches, gradients, steps of the
//! optimiser; all as launches.

use super::args::{
    BeginMinibatchArgs, CheckKlArgs, DescendArgs, FactorsArgs, GatherArgs, LossesArgs, ReduceArgs,
    WideSamples,
};
use super::arrays::{LOSS_WORDS, SUM_BLOCKS};
use super::lanes;
use super::policy::{Rows, WidePolicy};
use super::shared::{FAULT_GRADIENT, FAULT_OUTPUT, OF_ADVANTAGES, SUMS, WideSettings, WideState};
use crate::algorithm::{PolicyFigures, PolicyMetrics};
use crate::engine::Progress;
use crate::error::PolicyError;
use crate::error::{Result, of_policy};
use crate::fused::objective::cells;
use warp_data::cuda::DeviceArray;
use warp_func::cuda::{DeviceStruct, KernelArgs, Launch, fork_join, programmatic_launch};

impl WidePolicy {
    /// Says what this iteration's update needs to know.
    pub(in super::super) fn push_settings(&self, progress: Progress) -> Result<()> {
        Ok(self.arrays.settings.push(&self.settings(progress).words())?)
    }

    /// What an update at `progress` needs to know.
    pub(super) fn settings(&self, progress: Progress) -> WideSettings {
        let (keys, at) = (&self.plan.config, progress.env_steps);
        let rate = keys.learning_rate.at(at);
        WideSettings {
            seed: progress.seed,
            learning_rate: rate,
            critic_learning_rate: keys
                .critic_learning_rate
                .as_ref()
                .map_or(rate, |rate| rate.at(at)),
            vf_coef: keys.vf_coef.at(at) as f32,
            ent_coef: keys.ent_coef.at(at) as f32,
            gamma: keys.gamma.at(at),
            gae_lambda: keys.gae_lambda.at(at) as f32,
            max_grad_norm: keys.max_grad_norm.at(at) as f32,
            cells: self
                .algorithm
                .as_ref()
                .map_or_else(Default::default, |algorithm| cells(&algorithm.objective(at))),
            iteration: progress.iteration as u32,
            shard: self.ranks.as_ref().map_or(0, |ranks| ranks.shard),
        }
    }

    /// Whether [`WidePolicy::learn`] starts nothing, which can't be recorded.
    pub(super) fn learns_nothing(&self) -> bool {
        let keys = &self.plan.config;
        !keys.to_train && !keys.norm_obs && !keys.norm_reward
    }

    /// Starts the whole update.
    pub(in super::super) fn learn(&self) -> Result<()> {
        self.prepare_all()?;
        self.learn_prepared()
    }

    /// Starts the update, once the rollout is prepared.
    pub(super) fn learn_prepared(&self) -> Result<()> {
        let works = [After::Figures, After::Minibatches];
        fork_join(&self.device, works.map(|work| move || self.go_on(work)))
    }

    /// Takes the minibatches of all epochs, one after the other.
    fn minibatches(&self) -> Result<()> {
        let passes = self.plan.passes();
        if !self.plan.config.to_train {
            return Ok(());
        }
        for epoch in 0..passes.epochs {
            let order = self.order(epoch, &passes)?;
            self.begin_epoch(order, Some(epoch).filter(|_| passes.shuffles))?;
            for part in 0..passes.minibatches {
                self.minibatch(order)?;
                let next = Some(part + 1).filter(|part| *part < passes.minibatches);
                self.pack_and_begin(next)?;
            }
            if passes.shuffles {
                self.check_kl()?;
            }
        }
        Ok(())
    }

    fn go_on(&self, work: After) -> Result<()> {
        match work {
            After::Figures => self.explain(),
            After::Minibatches => self.minibatches(),
        }
    }

    /// Ends the epochs where the policy has moved further than the key `target_kl` allows.
    fn check_kl(&self) -> Result<()> {
        let Some(target_kl) = self.plan.config.target_kl else { return Ok(()) };
        let args = CheckKlArgs { state: &self.arrays.state, target_kl };
        let launch = Launch { threads: 1, ..ONE_BLOCK };
        Ok(self.update.check_kl.launch(&launch, &[args.arg()])?)
    }

    /// Finds the moments of all minibatches' advantages, and makes the first one the one at hand; `shuffled` is the number
    /// of an epoch with an order of its own.
    pub(super) fn begin_epoch(&self, order: &DeviceArray, shuffled: Option<usize>) -> Result<()> {
        if self.plan.config.norm_adv && !self.takes_whole_rollouts() {
            self.sum_advantages(order, shuffled)?;
            self.of_all_ranks(&self.arrays.moments, |ranks| &ranks.moments)?;
        }
        self.begin_minibatch(0)
    }

    /// Makes minibatch `part` the one at hand, by the moments of its advantages.
    fn begin_minibatch(&self, part: usize) -> Result<()> {
        let a = &self.arrays;
        let (state, ns, ranks) = (&a.state, self.counts(), self.ranks.as_ref());
        let whole = self.takes_whole_rollouts();
        let args = BeginMinibatchArgs {
            state,
            part: part as u32,
            parts: match (whole, ranks) {
                (true, ranks) => ranks.map_or(&a.sums, |ranks| &ranks.sums),
                (false, ranks) => ranks.map_or(&a.moments, |ranks| &ranks.moments),
            },
            stride: if whole { SUMS as u32 } else { 2 },
            first: if whole { OF_ADVANTAGES } else { part * 2 * SUM_BLOCKS } as u32,
            rank_stride: if whole { a.sums.len() } else { a.moments.len() } as u32 / 2,
            normalise: i32::from(self.plan.config.norm_adv),
            ns,
        };
        Ok(self.update.begin_minibatch.launch(&ONE_BLOCK, &[args.arg()])?)
    }

    /// Packs the weights after a step, and makes the next minibatch of the epoch the one at hand, side by side.
    fn pack_and_begin(&self, next: Option<usize>) -> Result<()> {
        let begin = || {
            let Some(part) = next else { return Ok(()) };
            programmatic_launch(&self.device)?;
            self.begin_minibatch(part)
        };
        let works: [&dyn Fn() -> Result<()>; 2] = [&|| self.pack(), &begin];
        fork_join(&self.device, works)
    }

    /// One step of gradient descent on the minibatch at hand; weights are to be packed after it.
    pub(super) fn minibatch(&self, order: &DeviceArray) -> Result<()> {
        let s = &self.sizes;
        let mut loss_blocks = 0;
        for first in (0..s.chunks()).map(|chunk| chunk * s.chunk) {
            loss_blocks += match &self.fused {
                Some(towers) => self.fused_gradients(towers, order)?,
                None if self.tensor.is_empty() => self.gradients(first, order, loss_blocks)?,
                None => self.tensor_gradients(first, order, loss_blocks)?,
            };
        }
        self.descend(loss_blocks)
    }

    /// Sums the gradients up and makes a step along them.
    fn descend(&self, loss_blocks: usize) -> Result<()> {
        let (config, a) = (&self.plan.config, &self.arrays);
        let (n, state) = (self.network.n_parameters, &a.state);
        let (n_parameters, gradient, squares) = (n as u32, &a.gradient, &a.squares);
        let blocks = match &self.ranks {
            None => {
                let copies = self.sizes.copies as u32;
                self.reduce(&a.partial, copies, lanes_of_copies(copies))?
            }
            Some(ranks) => ranks.all_reduce(self, loss_blocks)?,
        };
        let args = FactorsArgs {
            settings: &a.settings,
            state,
            squares,
            blocks,
            losses: self.ranks.as_ref().map_or(&a.losses, |ranks| &ranks.losses),
            loss_blocks: loss_blocks as u32,
            loss_room: (a.losses.len() / LOSS_WORDS) as u32,
        };
        programmatic_launch(&self.device)?;
        self.update.factors.launch(&ONE_BLOCK, &[args.arg()])?;
        let args = DescendArgs {
            settings: &a.settings,
            state,
            gradient,
            n_parameters,
            epsilon: config.adam_eps as f32,
            weight_decay: config.weight_decay,
            parameters: &a.parameters,
            exp_avg: &a.exp_avg,
            exp_avg_sq: &a.exp_avg_sq,
        };
        programmatic_launch(&self.device)?;
        Ok(self.update.descend.launch(&Launch::over(n, 256), &[args.arg()])?)
    }

    /// Sums so many copies of the gradient, which `lanes` threads share, and divides by the number of samples; returns how many
    /// sums of squares it leaves.
    pub(super) fn reduce(&self, partial: &DeviceArray, copies: u32, lanes: u32) -> Result<u32> {
        let (a, n) = (&self.arrays, self.network.n_parameters);
        let (state, gradient, squares) = (&a.state, &a.gradient, &a.squares);
        let n_parameters = n as u32;
        let args = ReduceArgs { state, partial, copies, n_parameters, lanes, gradient, squares };
        let launch = Launch::over(n * lanes as usize, 256);
        self.update.reduce.launch(&launch, &[args.arg()])?;
        Ok(launch.blocks)
    }

    /// What the loss reads of samples.
    pub(super) fn samples(&self) -> WideSamples<'_> {
        let a = &self.arrays;
        WideSamples {
            masks: &a.masks,
            actions: &a.actions,
            raws: &a.raws,
            log_probs: &a.log_probs,
            values: &a.values,
            advantages: &a.advantages,
            returns: &a.returns,
            known: &a.known,
        }
    }

    /// Gradients of a chunk, layer by layer; returns how many blocks of loss sums it left.
    fn gradients(&self, first: usize, order: &DeviceArray, losses_at: usize) -> Result<usize> {
        let (a, rows) = (&self.arrays, self.sizes.chunk);
        let losses = LossesArgs {
            settings: &a.settings,
            state: &a.state,
            order,
            first: first as u32,
            rows: rows as u32,
            from: self.samples(),
            parameters: &a.parameters,
            outs: &a.outs,
            parts: &a.losses,
            parts_at: losses_at as u32,
        };
        if let Some(tiled) = &self.tiled {
            return self.tiled_gradients(tiled, first, losses);
        }
        let args = GatherArgs {
            state: &a.state,
            order,
            first: first as u32,
            rows: rows as u32,
            obs: &a.obs,
            gathered: &a.gathered,
        };
        let launch = Launch::over(rows * self.network.observation_width(), 256);
        self.update.gather.launch(&launch, &[args.arg()])?;
        self.layers(&Rows { x: &a.gathered, at: 0, sampled: true, first, rows })?;
        let launch = Launch::over(rows * lanes::lanes(&self.plan), 256);
        self.loss_kernels()?.losses.launch(&launch, &[losses.arg()])?;
        match &self.foreign {
            Some(foreign) => foreign.borrow_mut().backward(&a.outs, &a.partial, first > 0)?,
            None => self.backward(first)?,
        }
        Ok(launch.blocks as usize)
    }

    /// Waits for the update and says what it did, and what its rollout was like.
    pub(in super::super) fn figures(&self, progress: Progress) -> Result<PolicyFigures> {
        self.figures_of(&self.state()?, progress)
    }

    /// What an update that left `state` did, and what its rollout was like.
    pub(super) fn figures_of(
        &self,
        state: &WideState,
        progress: Progress,
    ) -> Result<PolicyFigures> {
        let keys = &self.plan.config;
        let metrics = self.metrics(state, progress)?;
        let figures = PolicyFigures::from(metrics);
        if !keys.to_train {
            return Ok(figures);
        }
        let mut more = vec![
            ("mean_value", state.mean_return - state.mean_advantage),
            ("mean_return", state.mean_return),
            ("mean_advantage", state.mean_advantage),
        ];
        let names = ["action_std_agents", "action_std_replicas", "action_std_steps"];
        more.extend(names.into_iter().zip(state.action_std));
        if state.max_reward >= state.min_reward {
            more.extend([
                ("mean_reward", state.mean_reward),
                ("max_reward", state.max_reward),
                ("min_reward", state.min_reward),
            ]);
        }
        if let Some([positive, negative]) = self.selected()? {
            more.extend([("positive_replicas", positive), ("negative_replicas", negative)]);
        }
        if let Some(rate) = &keys.critic_learning_rate {
            more.push(("critic_learning_rate", rate.at(progress.env_steps)));
        }
        if keys.target_kl.is_some() {
            more.push(("optimiser_steps", state.updates.into()));
        }
        Ok(figures.iter().chain(more).collect())
    }

    /// What an update did that left `state`.
    pub(super) fn metrics(&self, state: &WideState, progress: Progress) -> Result<PolicyMetrics> {
        let failed = |source| Err(of_policy(&self.plan.name)(source));
        if state.fault & FAULT_OUTPUT != 0 {
            return failed(PolicyError::NonFiniteOutput {
                output: "outputs",
                index: 0,
                value: f32::NAN,
            });
        }
        if state.fault & FAULT_GRADIENT != 0 {
            return failed(PolicyError::NonFiniteGradient { norm: state.norm });
        }
        let config = &self.plan.config;
        if !config.to_train {
            return Ok(PolicyMetrics::default());
        }
        let updates = f64::from(state.updates.max(1));
        let [policy_loss, value_loss, entropy, approx_kl, clip_fraction, grad_norm] =
            state.sums.map(|sum| sum / updates);
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
            explained_variance: state.explained_variance,
            grad_norm,
        })
    }
}

/// What follows when all ranks know what was prepared; neither touches what the other writes.
#[derive(Clone, Copy)]
enum After {
    /// What the host and later rollouts read.
    Figures,
    /// Learning.
    Minibatches,
}

/// How many threads add up a parameter's copies: each takes 16 or more, whose loads are under way at the same time.
fn lanes_of_copies(copies: u32) -> u32 {
    match copies {
        0..32 => 1,
        32..64 => 2,
        64..128 => 4,
        _ => 8,
    }
}

pub(super) const ONE_BLOCK: Launch =
    Launch { blocks: 1, threads: 256, shared_bytes: 0, cooperative: false };

pub(super) fn sum_blocks() -> Launch {
    Launch { blocks: SUM_BLOCKS as u32, ..ONE_BLOCK }
}
