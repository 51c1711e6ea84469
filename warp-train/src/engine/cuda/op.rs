//! What an engine does for an algorithm, piece by piece, and what each piece reads and writes.

use super::ranks::Exchanged;
use crate::algorithm::{
    CellId, ColumnId, FigureId, Gradients, ModelId, OptimiserId, PassId, Plan, RowsId, RowsOf,
};
use crate::error::Result;

/// A piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// Loads what agents see into the acting columns.
    LoadObservations,
    /// Hands actions to the environments.
    WriteActions,
    /// Makes place for a step in the replay memory.
    AdvanceRing,
    /// Keeps what came of a step.
    Store,
    /// Keeps what came of a step, in every block that needs the step at once, and in the last block.
    StoreIfDrawn,
    /// Notes whose episodes end with a step that is not kept.
    NoteEnds,
    /// Gives the transitions of a stored step their first priorities.
    AddPriorities,
    /// Samples a batch by priorities.
    SampleByPriority,
    /// Samples a batch uniformly, or gathers what was sampled by priorities.
    Sample,
    /// Runs passes, which keep what the backward pass to the target needs.
    Forward(Vec<PassId>, BackwardTarget),
    /// Goes back through passes, down to the target.
    Backward(Vec<PassId>, BackwardTarget),
    /// Sums the gradients of the passes' models, in shares.
    WeightGradients(Vec<PassId>),
    /// Adds the shares up.
    Gather(Vec<PassId>),
    /// Counts an optimiser's step.
    Count(OptimiserId),
    /// Makes it.
    Descend(OptimiserId),
    /// Sums the gradients of an optimiser's models and makes its step at once, and its targets follow.
    Learn(Vec<PassId>, OptimiserId, Vec<Follow>),
    /// Applies a row function.
    Rows(RowsId),
    /// Packs weights that the host has set.
    Pack(Vec<ModelId>),
    /// Moves targets.
    PolyakUpdate(Vec<ModelId>, CellId),
    /// Takes means.
    Figures(Vec<FigureId>),
    /// Makes new priorities from errors.
    UpdatePriorities,
    /// Gathers what all ranks exchange: the end of a program.
    Exchange(Exchanged),
    /// Adds the gradients of an optimiser's models up over ranks.
    Sum(OptimiserId),
    /// Takes the statistics of the priorities here.
    PriorityStats,
    /// Makes importance weights from the statistics of all ranks and shards.
    ImportanceWeights,
    /// Raises the largest priority to that of all ranks and shards.
    RaiseMaxPriority,
    /// Counts an update.
    Advance,
}

/// A target that moves as soon as its model has made its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Follow {
    pub(super) target: ModelId,
    pub(super) tau: CellId,
}

/// How far derivatives go: [`Gradients`], which can't be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BackwardTarget {
    Parameters,
    /// To parameters that [`Op::Learn`] takes all for a step: less needs to be kept.
    ParametersForStep,
    Input,
}

/// Which threads do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Each row needs what belongs to it alone.
    Rows(RowsOf),
    /// All blocks share the work, which needs all rows.
    Everywhere,
    /// One thread, anywhere.
    Anywhere,
}

/// What a piece of work reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Column(ColumnId),
    Parameters(ModelId),
    Gradient(ModelId),
    Kept(PassId),
    Deltas(PassId),
    Step(OptimiserId),
    Figure(FigureId),
    World,
    Alive,
    Ring,
    RingPlace,
    Priorities,
    Sampled,
    PriorityStats,
    MaxPriorityOfRanks,
    Updates,
}

/// All that a piece of work reads and writes.
#[derive(Debug, Default)]
struct Access {
    reads: Vec<Resource>,
    writes: Vec<Resource>,
}

impl Op {
    pub(super) fn scope(&self, plan: &Plan) -> Scope {
        let rows_of = |column: ColumnId| Scope::Rows(plan.columns[column.0].rows);
        match self {
            Self::LoadObservations | Self::WriteActions | Self::Store | Self::NoteEnds => {
                Scope::Rows(RowsOf::Acting)
            }
            Self::Sample | Self::StoreIfDrawn => Scope::Rows(RowsOf::Batch),
            Self::Forward(passes, _) | Self::Backward(passes, _) => {
                rows_of(plan.passes[passes[0].0].output)
            }
            Self::Rows(id) => rows_of(plan.rows[id.0].writes[0]),
            Self::AdvanceRing | Self::Count(_) | Self::Advance | Self::RaiseMaxPriority => {
                Scope::Anywhere
            }
            Self::AddPriorities
            | Self::SampleByPriority
            | Self::UpdatePriorities
            | Self::Exchange(_)
            | Self::Sum(_)
            | Self::PriorityStats
            | Self::ImportanceWeights
            | Self::WeightGradients(_)
            | Self::Gather(_)
            | Self::Descend(_)
            | Self::Learn(..)
            | Self::Pack(_)
            | Self::PolyakUpdate(..)
            | Self::Figures(_) => Scope::Everywhere,
        }
    }

    /// Checks that passes have the gradients that this needs.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        match self {
            Self::WeightGradients(passes) => plan.check_backward(passes, Gradients::OfParameters),
            Self::Backward(passes, BackwardTarget::Input) => {
                plan.check_backward(passes, Gradients::OfInput)
            }
            _ => Ok(()),
        }
    }

    /// Whether one of the two must be done before the other.
    pub(super) fn conflicts(&self, other: &Self, plan: &Plan) -> bool {
        let (a, b) = (self.access(plan), other.access(plan));
        let meet = |x: &[Resource], y: &[Resource]| x.iter().any(|resource| y.contains(resource));
        meet(&a.writes, &b.writes) || meet(&a.writes, &b.reads) || meet(&a.reads, &b.writes)
    }

    /// Whether it writes what the other reads or writes.
    pub(super) fn overwrites(&self, other: &Self, plan: &Plan) -> bool {
        let Access { reads, writes } = other.access(plan);
        let own = self.access(plan).writes;
        own.iter().any(|resource| reads.contains(resource) || writes.contains(resource))
    }

    /// Whether several blocks can do it at the same time: they write the same.
    pub(super) fn can_repeat(&self, plan: &Plan) -> bool {
        let Access { reads, writes } = self.access(plan);
        let repeatable = match self {
            Self::Rows(id) => plan.rows[id.0].function.repeatable,
            _ => true,
        };
        repeatable && !writes.iter().any(|resource| reads.contains(resource))
    }

    /// Parts that blocks of a team have of it, each of a block or of as many as share a pass: one for each pass.
    pub(super) fn n_parts(&self) -> usize {
        match self {
            Self::Forward(passes, _) | Self::Backward(passes, _) => passes.len(),
            _ => 1,
        }
    }

    /// What it reads and writes.
    fn access(&self, plan: &Plan) -> Access {
        let (acting, replay) = (&plan.acting, &plan.replay);
        let columns =
            |ids: &[ColumnId]| ids.iter().map(|id| Resource::Column(*id)).collect::<Vec<_>>();
        let mask = |column: Option<ColumnId>| column.map(Resource::Column);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match self {
            Self::LoadObservations => {
                reads.push(Resource::World);
                writes.extend([Resource::Column(acting.obs), Resource::Alive]);
                writes.extend(mask(acting.mask));
            }
            Self::WriteActions => {
                reads.push(Resource::Column(acting.env_action));
                writes.push(Resource::World);
            }
            Self::AdvanceRing => writes.push(Resource::RingPlace),
            Self::Store | Self::StoreIfDrawn => {
                reads.extend([Resource::World, Resource::Alive, Resource::RingPlace]);
                reads.extend(columns(&[acting.obs, acting.action]));
                reads.extend(mask(acting.mask));
                writes.extend([Resource::Ring, Resource::Column(acting.begins)]);
            }
            Self::NoteEnds => {
                reads.push(Resource::World);
                writes.push(Resource::Column(acting.begins));
            }
            Self::Sample => {
                reads.extend([
                    Resource::Ring,
                    Resource::RingPlace,
                    Resource::Updates,
                    Resource::Sampled,
                ]);
                let of = [replay.obs, replay.action, replay.reward, replay.discount];
                writes.extend(columns(&of));
                writes.extend(columns(&[replay.next_obs, replay.weight]));
                writes.extend(mask(replay.mask).into_iter().chain(mask(replay.next_mask)));
            }
            Self::AddPriorities | Self::SampleByPriority | Self::UpdatePriorities => {
                return self.priority_access(plan);
            }
            Self::Rows(id) => {
                let rows = &plan.rows[id.0];
                reads.extend(columns(&rows.reads));
                reads.push(Resource::Updates);
                writes.extend(columns(&rows.writes));
            }
            Self::Count(id) => writes.push(Resource::Step(*id)),
            Self::Figures(figures) => {
                reads.extend(figures.iter().map(|id| Resource::Column(plan.figures[id.0].column)));
                writes.extend(figures.iter().map(|id| Resource::Figure(*id)));
            }
            Self::Advance => writes.push(Resource::Updates),
            Self::Exchange(_)
            | Self::Sum(_)
            | Self::PriorityStats
            | Self::ImportanceWeights
            | Self::RaiseMaxPriority => {
                return self.rank_access(plan);
            }
            _ => return self.model_access(plan),
        }
        Access { reads, writes }
    }

    /// What operations access that change priorities, or sample by them.
    fn priority_access(&self, plan: &Plan) -> Access {
        let replay = &plan.replay;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match self {
            Self::AddPriorities => {
                reads.extend([Resource::Ring, Resource::RingPlace]);
                writes.push(Resource::Priorities);
            }
            Self::SampleByPriority => {
                reads.extend([
                    Resource::Ring,
                    Resource::RingPlace,
                    Resource::Updates,
                    Resource::Priorities,
                ]);
                writes.extend([Resource::Sampled, Resource::Column(replay.weight)]);
            }
            Self::UpdatePriorities => {
                reads.extend([Resource::Ring, Resource::Sampled, Resource::Column(replay.error)]);
                writes.push(Resource::Priorities);
            }
            _ => {}
        }
        Access { reads, writes }
    }

    /// What operations of several ranks access.
    fn rank_access(&self, plan: &Plan) -> Access {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match self {
            Self::Exchange(Exchanged::Gradient(id)) | Self::Sum(id) => {
                let models = &plan.optimisers[id.0].models;
                writes.extend(models.iter().map(|id| Resource::Gradient(*id)));
            }
            Self::PriorityStats => {
                reads.extend([Resource::Sampled, Resource::Priorities]);
                writes.push(Resource::PriorityStats);
            }
            Self::Exchange(Exchanged::PriorityStats) => writes.push(Resource::PriorityStats),
            Self::ImportanceWeights => {
                reads.extend([
                    Resource::Ring,
                    Resource::Sampled,
                    Resource::Priorities,
                    Resource::PriorityStats,
                ]);
                writes.push(Resource::Column(plan.replay.weight));
            }
            Self::Exchange(Exchanged::MaxPriority) => {
                reads.push(Resource::Priorities);
                writes.push(Resource::MaxPriorityOfRanks);
            }
            Self::RaiseMaxPriority => {
                reads.push(Resource::MaxPriorityOfRanks);
                writes.push(Resource::Priorities);
            }
            _ => {}
        }
        Access { reads, writes }
    }

    fn model_access(&self, plan: &Plan) -> Access {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let model = |pass: &PassId| plan.passes[pass.0].model;
        match self {
            Self::Forward(passes, _) => {
                for pass in passes {
                    reads.extend(plan.passes[pass.0].inputs.iter().map(|id| Resource::Column(*id)));
                    reads.push(Resource::Parameters(model(pass)));
                    writes.push(Resource::Column(plan.passes[pass.0].output));
                    writes.push(Resource::Kept(*pass));
                }
            }
            Self::Backward(passes, target) => {
                for pass in passes {
                    reads.extend([Resource::Kept(*pass), Resource::Parameters(model(pass))]);
                    writes.push(Resource::Deltas(*pass));
                    let Some(back) = &plan.passes[pass.0].back else { continue };
                    reads.push(Resource::Column(back.d_output));
                    let to = back.d_input.filter(|_| *target == BackwardTarget::Input);
                    writes.extend(to.map(|to| Resource::Column(to.column)));
                }
            }
            Self::WeightGradients(passes) | Self::Learn(passes, ..) => {
                for pass in passes {
                    reads.extend([Resource::Kept(*pass), Resource::Deltas(*pass)]);
                    writes.push(Resource::Gradient(model(pass)));
                }
            }
            Self::Gather(passes) => {
                writes.extend(passes.iter().map(|pass| Resource::Gradient(model(pass))));
            }
            Self::Pack(models) => writes.extend(models.iter().map(|id| Resource::Parameters(*id))),
            Self::PolyakUpdate(targets, _) => {
                let sources = targets.iter().filter_map(|id| plan.models[id.0].target_of);
                reads.extend(sources.map(Resource::Parameters));
                writes.extend(targets.iter().map(|id| Resource::Parameters(*id)));
            }
            _ => {}
        }
        if let Self::Learn(_, _, follows) = self {
            writes.extend(follows.iter().map(|follow| Resource::Parameters(follow.target)));
        }
        if let Self::Descend(id) | Self::Learn(_, id, _) = self {
            let models = &plan.optimisers[id.0].models;
            reads.push(Resource::Step(*id));
            reads.extend(models.iter().map(|id| Resource::Gradient(*id)));
            writes.extend(models.iter().map(|id| Resource::Parameters(*id)));
        }
        Access { reads, writes }
    }
}
