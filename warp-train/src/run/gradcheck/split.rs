//! The gradient of several ranks, threads here: each computes that of its part of the rows, and they are summed as
//! in a run.

use super::{Formula, GradientSource, load_without_moments, step_and_read};
use crate::config::{Shards, Sharing, TrainConfig};
use crate::engine::rollout::share_gradients;
use crate::error::{Error, Result};
use crate::loss::{LossMetrics, Minibatch};
use crate::model::NamedTensor;
use crate::network::TrainablePolicy;
use crate::run::learner::NativeLearner;
use crate::world::{LINK_TIMEOUT, World, on_threads, threads};
use warp_sample::ActionLayout;

/// Native learners, one for each rank.
#[derive(Debug)]
pub struct SplitGradients {
    ranks: Vec<NativeLearner>,
    /// By policy.
    layouts: Vec<ActionLayout>,
}

impl SplitGradients {
    /// Native learners of `n_ranks` ranks for the policies of `config`.
    ///
    /// # Errors
    /// A network that can't be made.
    pub fn new(config: &TrainConfig, n_ranks: usize) -> Result<Self> {
        let ranks = (0..n_ranks.max(1)).map(|_| NativeLearner::new(config, 1));
        let layouts = config.policies.iter().map(|plan| plan.layout.clone()).collect();
        Ok(Self { ranks: ranks.collect::<Result<_>>()?, layouts })
    }
}

impl GradientSource for SplitGradients {
    fn backend(&self) -> &'static str {
        "ranks"
    }

    fn gradient(
        &mut self,
        policy: usize,
        weights: &[NamedTensor],
        minibatch: &Minibatch<'_>,
        loss: &Formula,
    ) -> Result<(LossMetrics, Vec<NamedTensor>)> {
        let (n_rows, n_ranks) = (minibatch.n_rows(), self.ranks.len());
        if n_rows < n_ranks {
            return Err(Error::Invalid(format!("{n_ranks} ranks can't share {n_rows} rows")));
        }
        let layout = &self.layouts[policy];
        let whole = Some(minibatch.total_weight());
        let part = |rank: usize| {
            let rows = n_rows * rank / n_ranks..n_rows * (rank + 1) / n_ranks;
            let width = minibatch.observations.len() / n_rows;
            Minibatch { whole, ..minibatch.rows(rows, width, layout) }
        };
        let ranks = self.ranks.iter_mut().zip(threads(n_ranks, LINK_TIMEOUT)).enumerate();
        let ranks = ranks.map(|(rank, (learner, link))| {
            let world = World::new(rank, n_ranks, link);
            let part = part(rank);
            move || of_rank(learner, policy, weights, &part, loss, world)
        });
        same_on_all(on_threads(ranks)?)
    }
}

/// What all ranks came to, which have the same gradient.
///
/// # Errors
/// They have not.
pub(super) fn same_on_all(
    mut found: Vec<(LossMetrics, Vec<NamedTensor>)>,
) -> Result<(LossMetrics, Vec<NamedTensor>)> {
    if found.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        return Err(Error::Invalid("ranks follow different gradients".into()));
    }
    Ok(found.swap_remove(0))
}

/// What a rank with a part of the rows comes to: figures and the gradient of all ranks together.
fn of_rank(
    learner: &mut NativeLearner,
    policy: usize,
    weights: &[NamedTensor],
    part: &Minibatch<'_>,
    loss: &Formula,
    world: World,
) -> Result<(LossMetrics, Vec<NamedTensor>)> {
    let policy = learner.policy_mut(policy)?;
    load_without_moments(policy, weights)?;
    let metrics = policy.gradients(part, &loss.into())?;
    let shards = Shards { first: world.rank(), here: 1, total: world.size() };
    let sharing = Sharing { world, shards };
    let own = policy.gradient().map(<[f32]>::to_vec);
    let own = own.ok_or_else(|| Error::Invalid("a network does not show its gradient".into()))?;
    share_gradients(policy, &own, &sharing)?;
    let figures = sharing.world.all_gather_f64("figures of a loss", &metrics.numbers())?;
    let sum =
        figures.as_chunks().0.iter().fold([0.0; 6], |sum: [f64; 6], seen: &[f64; 6]| {
            std::array::from_fn(|i| sum[i] + seen[i])
        });
    Ok((LossMetrics::of_numbers(sum), step_and_read(policy, weights)?))
}
