//! Gradients of given minibatches on a GPU, for `gradcheck`: the kernels that a run would use, fed from
//! the host.

use super::carried;
use super::halves;
use super::policy_number::PolicyNumber;
use super::small::{SmallLearner, refusal};
use super::wide::{Machine, NetworkBackend, WidePolicy, WideText};
use crate::algorithm::PolicyMetrics;
use crate::algorithm::Rollouts;
use crate::algorithm::Schedule;
use crate::algorithm::{Advantages, MinibatchSchedule};
use crate::config::TrainConfig;
use crate::engine::collectives::RankConnector;
use crate::error::{Error, Result, of_policy};
use crate::loss::{Loss, LossMetrics, Minibatch};
use crate::model::NamedTensor;
use crate::network::foreign::MakeForeign;
use crate::world::World;
use std::fmt::{Debug, Formatter};
use warp_func::cuda::{Build, CudaVecEnv, Kernels};
use warp_func::{Registry, VecEnv};

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Products {
    /// The kernels for every network, in f32.
    Single,
    /// The kernels for every network, with half-precision operands where a run with `precision = "fp16"` has them,
    /// or bf16 where the configuration says so.
    Half,
    /// The kernels for small networks, with half-precision operands. Old values and advantages are
    /// their own, so they are compared on [`crate::run::gradcheck::CheckBatch::with_own_values`].
    Small,
}

/// The native learner's gradients on a GPU.
pub struct CudaGradients {
    config: TrainConfig,
    /// For their text and their arrays' addresses; they are not stepped.
    envs: Box<dyn VecEnv>,
    products: Products,
    /// Makes networks that a tensor library runs, if that is what is asked for.
    foreign: Option<MakeForeign>,
    /// The ranks that share the samples, and sum their gradients as those of a run do.
    world: World,
}

/// A minibatch as kernels take it: rows by number, each as often as its weight says.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) minibatch: &'a Minibatch<'a>,
    pub(super) order: Vec<u32>,
}

impl CudaGradients {
    /// For the policies of `config`, compiled by `kernels`; nothing if they are not small enough for
    /// [`Products::Small`].
    ///
    /// # Errors
    /// An environment that can't be made on the GPU.
    pub fn new(
        config: &TrainConfig,
        registry: &Registry,
        kernels: &Kernels,
        products: Products,
    ) -> Result<Option<Self>> {
        let entry = registry.get(&config.run.env_id)?;
        let options = config.vec_options();
        let mut envs = entry.make_cuda(&config.env, &options, kernels, Build::Parity)?;
        let takes =
            |envs: &mut CudaVecEnv| refusal(config, envs.text(), envs.gpu().info()).is_none();
        let small = envs.as_cuda().is_some_and(takes);
        if products == Products::Small && !small {
            return Ok(None);
        }
        let (config, world) = (config.clone(), World::default());
        Ok(Some(Self { config, envs, products, foreign: None, world }))
    }

    /// These gradients on one of several ranks, which are all to be asked for a gradient at the same time.
    pub(super) fn on_rank(self, world: World) -> Self {
        Self { world, ..self }
    }

    /// The ranks that share its samples.
    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// Its GPU, in words.
    pub(super) fn model(&mut self) -> String {
        self.envs.as_cuda().map_or_else(String::new, |envs| envs.gpu().info().model())
    }

    /// For the policies of `config` in f32, with networks that `foreign` makes.
    ///
    /// # Errors
    /// As [`CudaGradients::new`].
    #[cfg(feature = "tch")]
    pub(crate) fn of_networks(
        config: &TrainConfig,
        registry: &Registry,
        kernels: &Kernels,
        foreign: MakeForeign,
    ) -> Result<Option<Self>> {
        let made = Self::new(config, registry, kernels, Products::Single)?;
        Ok(made.map(|made| Self { foreign: Some(foreign), ..made }))
    }

    /// The run that learns once, by `loss`, from samples of policy number `policy`, and stays where it
    /// is.
    fn config_for(&self, policy: usize, loss: Loss, given: &Given<'_>) -> TrainConfig {
        let mut config = self.config.clone();
        let agents = config.policies[policy].n_agents();
        let (samples, rows) = (given.order.len(), given.minibatch.n_rows());
        let n_ranks = self.world.size();
        (config.run.num_envs, config.run.num_steps) = match self.products {
            Products::Small => (n_ranks * samples / agents, 1),
            _ => (n_ranks, samples.max(rows).div_ceil(agents)),
        };
        // The samples are of one minibatch, and of no shard but a rank's.
        config.run.shards = (n_ranks > 1).then_some(n_ranks);
        config.world = self.world.clone();
        let keys = &mut config.policies[policy].config;
        let Loss { objective, vf_coef, ent_coef } = loss;
        keys.vf_coef = Schedule::constant(f64::from(vf_coef));
        keys.ent_coef = Schedule::constant(f64::from(ent_coef));
        keys.learning_rate = Schedule::constant(0.0);
        (keys.norm_adv, keys.norm_obs, keys.norm_reward) = (false, false, false);
        (keys.to_train, keys.max_grad_norm) = (true, Schedule::constant(0.0));
        let (advantages, passes) = (Advantages::Gae, Some(MinibatchSchedule::ONE));
        config.policies[policy].rollouts = Some(Rollouts { objective, advantages, passes });
        config
    }

    fn compute(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        given: &Given<'_>,
        loss: Loss,
    ) -> Result<(PolicyMetrics, Vec<NamedTensor>)> {
        let config = self.config_for(policy, loss, given);
        let Some(envs) = self.envs.as_cuda() else {
            return Err(Error::Invalid("gradients on a GPU need environments there".into()));
        };
        if self.products == Products::Small {
            let config = if config.world.is_alone() { config } else { carried(&config, envs)? };
            let mut small = SmallLearner::for_gradients(&config, policy, envs)?;
            return small.gradient_of(&config, weights, given);
        }
        let kernels = envs.kernels().clone();
        let (tensor_cores, foreign) = (self.products == Products::Half, self.foreign);
        let backend = NetworkBackend { tensor_cores, foreign };
        let (number, machine) =
            (PolicyNumber { index: policy, first_agent: 0 }, Machine::of(envs.gpu().info()));
        let text = WideText::new(&config, number, machine, backend, None)?;
        let units: Vec<_> = text.units().collect();
        config.world.first_then_others("compiled kernels", || kernels.compile_all(&units))??;
        let connector = RankConnector::new(envs.gpu(), &config.world);
        let mut policy =
            WidePolicy::new(&config, policy, text, &kernels, envs, &connector, foreign)?;
        policy.gradient_of(weights, given)
    }
}

impl CudaGradients {
    /// What it is called.
    pub(crate) fn backend(&self) -> &'static str {
        let is_bf16 = self.is_bf16();
        if !self.world.is_alone() {
            return match self.products {
                Products::Single => "ranks fp32",
                Products::Half if is_bf16 => "ranks bf16",
                Products::Half => "ranks fp16",
                Products::Small if is_bf16 => "ranks small bf16",
                Products::Small => "ranks small",
            };
        }
        match self.products {
            _ if self.foreign.is_some() => "burn-tch",
            Products::Single => "cuda fp32",
            Products::Half if is_bf16 => "cuda bf16",
            Products::Half => "cuda fp16",
            Products::Small if is_bf16 => "cuda small bf16",
            Products::Small => "cuda small",
        }
    }

    /// Whether its half-precision operands are bf16 in some policy, which decides over the bound of all.
    pub(crate) fn is_bf16(&self) -> bool {
        self.is_half()
            && self.config.policies.iter().any(|plan| halves::are_bf16(plan.config.precision))
    }

    /// Whether its products have half-precision operands.
    pub(crate) fn is_half(&self) -> bool {
        self.products != Products::Single
    }

    /// The loss over `minibatch` with weights `weights` in policy number `policy`, and its gradient.
    ///
    /// # Errors
    /// Weights or arrays that do not fit, or a gradient that is not finite.
    pub(crate) fn of_minibatch(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: Loss,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        let plan = self.config.policies.get(policy).ok_or_else(|| {
            let n = self.config.policies.len();
            Error::Invalid(format!("there are {n} policies, not {}", policy + 1))
        })?;
        let group = plan.group(&self.config.spec);
        let (width, masked) = (group.observation_width(), group.mask_width() > 0);
        if minibatch.action_mask.is_some() && !masked {
            return Err(Error::Invalid(format!(
                "the minibatch has an action mask, the group \"{}\" has none on the GPU",
                group.name
            )));
        }
        let checked = minibatch.check(width, &plan.layout, &loss);
        checked.map_err(of_policy(&plan.name))?;
        let mut order = share(&order(minibatch)?, &self.world);
        if self.products == Products::Small {
            // They learn from all agents of all replicas; as often one as the other.
            order = order.repeat(plan.n_agents());
        }
        let given = Given { minibatch, order };
        let (seen, gradient) = self.compute(policy, weights, &given, loss)?;
        let metrics = LossMetrics {
            loss: seen.loss,
            policy_loss: seen.policy_loss,
            value_loss: seen.value_loss,
            entropy: seen.entropy,
            approx_kl: seen.approx_kl,
            clip_fraction: seen.clip_fraction,
        };
        let of = |weight: &NamedTensor| {
            let tensor = gradient.iter().find(|tensor| tensor.name == weight.name);
            tensor.cloned().ok_or_else(|| {
                Error::Invalid(format!("tensor \"{}\" has no gradient on the GPU", weight.name))
            })
        };
        Ok((metrics, weights.iter().map(of).collect::<Result<_>>()?))
    }
}

impl Debug for CudaGradients {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let env = &self.config.run.env_id;
        f.debug_struct("CudaGradients").field("env", env).field("products", &self.products).finish()
    }
}

/// This rank's samples. All ranks have as many: together they have each of `order` as often as there are ranks, which
/// leaves the mean as it is.
fn share(order: &[u32], world: &World) -> Vec<u32> {
    let n_ranks = world.size();
    world.share(n_ranks * order.len()).map(|sample| order[sample / n_ranks]).collect()
}

/// Each row as often as its weight has eighths, since kernels count samples and do not weigh them.
fn order(minibatch: &Minibatch<'_>) -> Result<Vec<u32>> {
    let mut order = Vec::new();
    for row in 0..minibatch.n_rows() {
        let weight = minibatch.weights.map_or(1.0, |weights| weights[row]);
        let eighths = 8.0 * weight;
        if eighths.fract() != 0.0 || eighths > 1024.0 {
            return Err(Error::Invalid(format!(
                "the weight of row {row} is {weight}; a GPU takes eighths up to 128"
            )));
        }
        order.extend(std::iter::repeat_n(row as u32, eighths as usize));
    }
    match order.is_empty() {
        true => Err(Error::Invalid("no row of the minibatch counts".into())),
        false => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::threads;

    #[test]
    fn ranks_have_as_many_samples_and_together_all_of_them() {
        let order = [4, 4, 7, 9, 11];
        assert_eq!(share(&order, &World::default()), order);
        let links = threads(3, std::time::Duration::from_secs(1));
        let of = |(rank, link)| share(&order, &World::new(rank, 3, link));
        let shares: Vec<Vec<u32>> = links.into_iter().enumerate().map(of).collect();
        assert_eq!(shares, [[4, 4, 4, 4, 4], [4, 7, 7, 7, 9], [9, 9, 11, 11, 11]]);
    }

    #[test]
    fn rows_come_as_often_as_their_weight_says() {
        let of = |weights: &'static [f32]| Minibatch {
            observations: &[],
            actions: crate::loss::actions::ActionsRef::Discrete(&[]),
            log_probs: &[],
            advantages: &[],
            returns: &[0.0; 3],
            values: &[],
            whole: None,
            weights: Some(weights),
            action_mask: None,
        };
        assert_eq!(order(&of(&[0.25, 0.0, 0.125])).unwrap(), [0, 0, 2]);
        let error = order(&of(&[0.3, 0.0, 0.0])).unwrap_err().to_string();
        assert!(error.contains("row 0 is 0.3"), "{error}");
        assert!(order(&of(&[0.0; 3])).is_err());
    }
}
