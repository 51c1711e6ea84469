//! A step of an optimiser over its models, and targets that follow.

use super::CpuEngine;
use super::model::CpuModel;
use crate::algorithm::{self, ModelId, OptimiserId};
use crate::config::Sharing;
use crate::error::{Result, of_policy};
use crate::network::native::wide::add_rows;
use crate::optimiser::{Moved, Optimiser, limit, squared_norm};
use crate::vectors::{self, Work};
use std::sync::Mutex;

/// Parameters that a thread takes at a time.
const CHUNK: usize = 16 << 10;

/// An optimiser's step count and its moments, model by model.
#[derive(Debug)]
pub(super) struct Moments {
    pub(super) optimiser: Optimiser,
    pub(super) exp_avg: Vec<Vec<f32>>,
    pub(super) exp_avg_sq: Vec<Vec<f32>>,
}

impl Moments {
    pub(super) fn new(plan: &algorithm::Optimiser, models: &[CpuModel]) -> Result<Self> {
        let zeros = |id: &ModelId| vec![0.0; models[id.0].parameters.len()];
        Ok(Self {
            optimiser: Optimiser::new(plan.config, 0).map_err(of_policy(&plan.name))?,
            exp_avg: plan.models.iter().map(zeros).collect(),
            exp_avg_sq: plan.models.iter().map(zeros).collect(),
        })
    }
}

impl CpuEngine {
    /// Sums the gradients of an optimiser's models over the shards of all ranks, in their order.
    fn sum_shards(&mut self, id: OptimiserId) -> Result<()> {
        let Self { models, plan, sharing: Sharing { world, shards }, .. } = self;
        let ids = &plan.optimisers[id.0].models;
        let mut here = Vec::new();
        for shard in 0..shards.here {
            ids.iter().for_each(|id| here.extend_from_slice(models[id.0].gradient_of(shard)));
        }
        let all = world.all_gather_f32("gradients", &here)?;
        let mut parts = all.chunks_exact(here.len() / shards.here);
        let mut sum = parts.next().unwrap_or_default().to_vec();
        parts.for_each(|part| add_rows(&mut sum, part));
        let mut rest = &sum[..];
        for id in ids {
            let gradients = &mut models[id.0].gradients;
            let (own, others) = rest.split_at(gradients.len());
            gradients.copy_from_slice(own);
            rest = others;
        }
        Ok(())
    }

    /// Means of the norms of gradients since the last call, before clipping; only of optimisers that made a step.
    pub(super) fn take_grad_norms(&mut self) -> impl Iterator<Item = (&'static str, f64)> {
        let sums = self.plan.optimisers.iter().zip(&mut self.grad_norms);
        sums.filter_map(|(optimiser, sum)| {
            let (sum, steps) = std::mem::take(sum);
            let name = norm_name(&optimiser.name).filter(|_| steps > 0)?;
            Some((name, sum / steps as f64))
        })
    }

    pub(super) fn run_step_of(&mut self, id: OptimiserId) -> Result<()> {
        if !self.sharing.shards.is_one() {
            self.sum_shards(id)?;
        }
        let optimiser = &self.plan.optimisers[id.0];
        let of = |id: &ModelId| squared_norm(&self.models[id.0].gradients);
        let norm = optimiser.models.iter().map(of).sum::<f64>().sqrt();
        let (sum, steps) = &mut self.grad_norms[id.0];
        (*sum, *steps) = (*sum + norm, *steps + 1);
        let rate = f64::from(self.cells[optimiser.learning_rate.0]);
        let Moments { optimiser: state, exp_avg, exp_avg_sq } = &mut self.moments[id.0];
        let prepared = state
            .begin(norm, limit(optimiser.max_grad_norm))
            .map_err(of_policy(&optimiser.name))?;
        let step = prepared.of(rate);
        let models = self.models.iter_mut().enumerate();
        let own = models.filter(|(index, _)| optimiser.models.iter().any(|id| id.0 == *index));
        let mut own: Vec<&mut CpuModel> = own.map(|(_, model)| model).collect();
        // Models of one optimiser are declared in the order of their ids.
        let jobs: Vec<_> = own
            .iter_mut()
            .zip(exp_avg.iter_mut().zip(exp_avg_sq))
            .flat_map(|(model, (exp_avg, exp_avg_sq))| {
                let CpuModel { parameters, gradients, .. } = &mut **model;
                let moments = exp_avg.chunks_mut(CHUNK).zip(exp_avg_sq.chunks_mut(CHUNK));
                parameters.chunks_mut(CHUNK).zip(gradients.chunks(CHUNK)).zip(moments)
            })
            .map(|((parameters, gradients), (exp_avg, exp_avg_sq))| {
                Mutex::new(Moved { parameters, gradients, exp_avg, exp_avg_sq })
            })
            .collect();
        self.thread_pool.run(jobs.len(), &|job| {
            let Ok(mut job) = jobs[job].lock() else { return };
            let Moved { parameters, gradients, exp_avg, exp_avg_sq } = &mut *job;
            step.apply(Moved { parameters, gradients, exp_avg, exp_avg_sq });
        });
        drop(jobs);
        let own: Vec<_> = own.into_iter().map(Mutex::new).collect();
        self.thread_pool.run(own.len(), &|model| {
            if let Ok(mut model) = own[model].lock() {
                model.transpose();
            }
        });
        Ok(())
    }

    pub(super) fn run_blend(&mut self, targets: &[ModelId], tau: f32) {
        let mut taken: Vec<Vec<f32>> =
            targets.iter().map(|id| std::mem::take(&mut self.models[id.0].parameters)).collect();
        let Self { thread_pool, models, plan, .. } = self;
        let source = |target: &ModelId| {
            plan.models[target.0].target_of.map_or(&[][..], |source| &models[source.0].parameters)
        };
        let jobs: Vec<_> = targets
            .iter()
            .zip(&mut taken)
            .flat_map(|(id, target)| target.chunks_mut(CHUNK).zip(source(id).chunks(CHUNK)))
            .map(|(target, source)| Mutex::new(PolyakUpdate { target, source, tau }))
            .collect();
        thread_pool.run(jobs.len(), &|job| {
            let Ok(mut job) = jobs[job].lock() else { return };
            let PolyakUpdate { target, source, tau } = &mut *job;
            vectors::run(PolyakUpdate { target, source, tau: *tau });
        });
        drop(jobs);
        for (id, parameters) in targets.iter().zip(taken) {
            self.models[id.0].parameters = parameters;
        }
    }
}

/// What metrics call the norm of an optimiser's gradients, if they show it.
fn norm_name(optimiser: &str) -> Option<&'static str> {
    match optimiser {
        "q" => Some("grad_norm"),
        "actor" => Some("actor_grad_norm"),
        "critic" | "critics" => Some("critic_grad_norm"),
        _ => None,
    }
}

/// Moves a target by the share `tau` towards its source.
struct PolyakUpdate<'a> {
    target: &'a mut [f32],
    source: &'a [f32],
    tau: f32,
}

impl Work for PolyakUpdate<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let pairs = self.target.iter_mut().zip(self.source);
        pairs.for_each(|(target, source)| *target += self.tau * (source - *target));
    }
}
