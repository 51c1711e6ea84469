//! What an engine does for an algorithm, as a list that can be looked at before any of it is done.

use super::layout::Layout;
use super::ranks::{Division, Told};
use crate::algorithm::{
    Algorithm, CellId, ColumnId, Engine, FigureId, Gradients, ModelId, OptimiserId, PassId, Plan,
    RowsId, RowsOf, Variant,
};
use crate::error::Result;

/// A piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// Writes what agents see into the acting columns.
    Look,
    /// Hands actions to the environments.
    Send,
    /// Makes place for a step in the replay memory.
    Turn,
    /// Keeps what came of a step.
    Store,
    /// The same by every block that needs the step at once, and by the last block.
    StoreIfDrawn,
    /// Notes whose episodes end with a step that is not kept.
    NoteEnds,
    /// Gives the transitions of a stored step their first priorities.
    AddPriorities,
    /// Samples a batch by priorities.
    SampleByPriority,
    /// Samples a batch uniformly, or gathers what was sampled by priorities.
    Sample,
    /// Runs passes, which keep what derivatives that are wanted need.
    Forward(Vec<PassId>, Wanted),
    /// Goes back through passes, down to what is wanted.
    Deltas(Vec<PassId>, Wanted),
    /// Sums the gradients of the passes' models, in shares.
    Weights(Vec<PassId>),
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
    /// Gathers what all ranks tell: the end of a program.
    Exchange(Told),
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
pub(super) enum Wanted {
    Parameters,
    /// The same, where [`Op::Learn`] takes them all for a step: less needs to be kept.
    ParametersForStep,
    Input,
}

/// Which threads do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Each row needs what belongs to it alone.
    Rows(RowsOf),
    /// All blocks share the work, which needs all rows.
    Everywhere,
    /// One thread, anywhere.
    Anywhere,
}

/// What a piece of work reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
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
struct Touched {
    reads: Vec<Thing>,
    writes: Vec<Thing>,
}

impl Op {
    pub(super) fn reach(&self, plan: &Plan) -> Reach {
        let rows_of = |column: ColumnId| Reach::Rows(plan.columns[column.0].rows);
        match self {
            Self::Look | Self::Send | Self::Store | Self::NoteEnds => Reach::Rows(RowsOf::Acting),
            Self::Sample | Self::StoreIfDrawn => Reach::Rows(RowsOf::Batch),
            Self::Forward(passes, _) | Self::Deltas(passes, _) => {
                rows_of(plan.passes[passes[0].0].output)
            }
            Self::Rows(id) => rows_of(plan.rows[id.0].writes[0]),
            Self::Turn | Self::Count(_) | Self::Advance | Self::RaiseMaxPriority => Reach::Anywhere,
            Self::AddPriorities
            | Self::SampleByPriority
            | Self::UpdatePriorities
            | Self::Exchange(_)
            | Self::Sum(_)
            | Self::PriorityStats
            | Self::ImportanceWeights
            | Self::Weights(_)
            | Self::Gather(_)
            | Self::Descend(_)
            | Self::Learn(..)
            | Self::Pack(_)
            | Self::PolyakUpdate(..)
            | Self::Figures(_) => Reach::Everywhere,
        }
    }

    /// Checks that passes have the gradients that this needs.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        match self {
            Self::Weights(passes) => plan.check_backward(passes, Gradients::OfParameters),
            Self::Deltas(passes, Wanted::Input) => plan.check_backward(passes, Gradients::OfInput),
            _ => Ok(()),
        }
    }

    /// Whether one of the two must be done before the other.
    pub(super) fn conflicts(&self, other: &Self, plan: &Plan) -> bool {
        let (a, b) = (self.touches(plan), other.touches(plan));
        let meet = |x: &[Thing], y: &[Thing]| x.iter().any(|thing| y.contains(thing));
        meet(&a.writes, &b.writes) || meet(&a.writes, &b.reads) || meet(&a.reads, &b.writes)
    }

    /// Whether it writes what the other reads or writes.
    pub(super) fn overwrites(&self, other: &Self, plan: &Plan) -> bool {
        let Touched { reads, writes } = other.touches(plan);
        let own = self.touches(plan).writes;
        own.iter().any(|thing| reads.contains(thing) || writes.contains(thing))
    }

    /// Whether several blocks can do it at the same time: they write the same.
    pub(super) fn can_repeat(&self, plan: &Plan) -> bool {
        let Touched { reads, writes } = self.touches(plan);
        let repeatable = match self {
            Self::Rows(id) => plan.rows[id.0].function.repeatable,
            _ => true,
        };
        repeatable && !writes.iter().any(|thing| reads.contains(thing))
    }

    /// Parts that blocks of a team have of it, each of a block or of as many as share a pass: one for each pass.
    pub(super) fn n_parts(&self) -> usize {
        match self {
            Self::Forward(passes, _) | Self::Deltas(passes, _) => passes.len(),
            _ => 1,
        }
    }

    fn touches(&self, plan: &Plan) -> Touched {
        let (acting, replay) = (&plan.acting, &plan.replay);
        let columns =
            |ids: &[ColumnId]| ids.iter().map(|id| Thing::Column(*id)).collect::<Vec<_>>();
        let mask = |column: Option<ColumnId>| column.map(Thing::Column);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match self {
            Self::Look => {
                reads.push(Thing::World);
                writes.extend([Thing::Column(acting.obs), Thing::Alive]);
                writes.extend(mask(acting.mask));
            }
            Self::Send => {
                reads.push(Thing::Column(acting.env_action));
                writes.push(Thing::World);
            }
            Self::Turn => writes.push(Thing::RingPlace),
            Self::Store | Self::StoreIfDrawn => {
                reads.extend([Thing::World, Thing::Alive, Thing::RingPlace]);
                reads.extend(columns(&[acting.obs, acting.action]));
                reads.extend(mask(acting.mask));
                writes.extend([Thing::Ring, Thing::Column(acting.begins)]);
            }
            Self::NoteEnds => {
                reads.push(Thing::World);
                writes.push(Thing::Column(acting.begins));
            }
            Self::Sample => {
                reads.extend([Thing::Ring, Thing::RingPlace, Thing::Updates, Thing::Sampled]);
                let of = [replay.obs, replay.action, replay.reward, replay.discount];
                writes.extend(columns(&of));
                writes.extend(columns(&[replay.next_obs, replay.weight]));
                writes.extend(mask(replay.mask).into_iter().chain(mask(replay.next_mask)));
            }
            Self::AddPriorities => {
                reads.extend([Thing::Ring, Thing::RingPlace]);
                writes.push(Thing::Priorities);
            }
            Self::SampleByPriority => {
                reads.extend([Thing::Ring, Thing::RingPlace, Thing::Updates, Thing::Priorities]);
                writes.extend([Thing::Sampled, Thing::Column(replay.weight)]);
            }
            Self::UpdatePriorities => {
                reads.extend([Thing::Ring, Thing::Sampled, Thing::Column(replay.error)]);
                writes.push(Thing::Priorities);
            }
            Self::Rows(id) => {
                let rows = &plan.rows[id.0];
                reads.extend(columns(&rows.reads));
                reads.push(Thing::Updates);
                writes.extend(columns(&rows.writes));
            }
            Self::Count(id) => writes.push(Thing::Step(*id)),
            Self::Figures(figures) => {
                reads.extend(figures.iter().map(|id| Thing::Column(plan.figures[id.0].column)));
                writes.extend(figures.iter().map(|id| Thing::Figure(*id)));
            }
            Self::Advance => writes.push(Thing::Updates),
            Self::Exchange(_)
            | Self::Sum(_)
            | Self::PriorityStats
            | Self::ImportanceWeights
            | Self::RaiseMaxPriority => {
                return self.touches_ranks(plan);
            }
            _ => return self.touches_models(plan),
        }
        Touched { reads, writes }
    }

    /// The same of what several ranks do.
    fn touches_ranks(&self, plan: &Plan) -> Touched {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match self {
            Self::Exchange(Told::Gradient(id)) | Self::Sum(id) => {
                let models = &plan.optimisers[id.0].models;
                writes.extend(models.iter().map(|id| Thing::Gradient(*id)));
            }
            Self::PriorityStats => {
                reads.extend([Thing::Sampled, Thing::Priorities]);
                writes.push(Thing::PriorityStats);
            }
            Self::Exchange(Told::PriorityStats) => writes.push(Thing::PriorityStats),
            Self::ImportanceWeights => {
                reads.extend([
                    Thing::Ring,
                    Thing::Sampled,
                    Thing::Priorities,
                    Thing::PriorityStats,
                ]);
                writes.push(Thing::Column(plan.replay.weight));
            }
            Self::Exchange(Told::MaxPriority) => {
                reads.push(Thing::Priorities);
                writes.push(Thing::MaxPriorityOfRanks);
            }
            Self::RaiseMaxPriority => {
                reads.push(Thing::MaxPriorityOfRanks);
                writes.push(Thing::Priorities);
            }
            _ => {}
        }
        Touched { reads, writes }
    }

    fn touches_models(&self, plan: &Plan) -> Touched {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let model = |pass: &PassId| plan.passes[pass.0].model;
        match self {
            Self::Forward(passes, _) => {
                for pass in passes {
                    reads.extend(plan.passes[pass.0].inputs.iter().map(|id| Thing::Column(*id)));
                    reads.push(Thing::Parameters(model(pass)));
                    writes.push(Thing::Column(plan.passes[pass.0].output));
                    writes.push(Thing::Kept(*pass));
                }
            }
            Self::Deltas(passes, wanted) => {
                for pass in passes {
                    reads.extend([Thing::Kept(*pass), Thing::Parameters(model(pass))]);
                    writes.push(Thing::Deltas(*pass));
                    let Some(back) = &plan.passes[pass.0].back else { continue };
                    reads.push(Thing::Column(back.d_output));
                    let to = back.d_input.filter(|_| *wanted == Wanted::Input);
                    writes.extend(to.map(|to| Thing::Column(to.column)));
                }
            }
            Self::Weights(passes) | Self::Learn(passes, ..) => {
                for pass in passes {
                    reads.extend([Thing::Kept(*pass), Thing::Deltas(*pass)]);
                    writes.push(Thing::Gradient(model(pass)));
                }
            }
            Self::Gather(passes) => {
                writes.extend(passes.iter().map(|pass| Thing::Gradient(model(pass))));
            }
            Self::Pack(models) => writes.extend(models.iter().map(|id| Thing::Parameters(*id))),
            Self::PolyakUpdate(targets, _) => {
                let sources = targets.iter().filter_map(|id| plan.models[id.0].target_of);
                reads.extend(sources.map(Thing::Parameters));
                writes.extend(targets.iter().map(|id| Thing::Parameters(*id)));
            }
            _ => {}
        }
        if let Self::Learn(_, _, follows) = self {
            writes.extend(follows.iter().map(|follow| Thing::Parameters(follow.target)));
        }
        if let Self::Descend(id) | Self::Learn(_, id, _) = self {
            let models = &plan.optimisers[id.0].models;
            reads.push(Thing::Step(*id));
            reads.extend(models.iter().map(|id| Thing::Gradient(*id)));
            writes.extend(models.iter().map(|id| Thing::Parameters(*id)));
        }
        Touched { reads, writes }
    }
}

/// An engine that does nothing and writes down what it was asked for.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    pub(super) how: How,
    pub(super) ops: Vec<Op>,
}

/// What of a plan and its layout decides which pieces of work there are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    /// Whether gradients are summed in shares.
    pub(super) shared: bool,
    /// Whether samples have priorities.
    pub(super) prioritised: bool,
    /// Whether other ranks learn, too.
    pub(super) ranks: bool,
    /// Whether there are several shards here.
    pub(super) shards: bool,
    /// Whether steps are few rows, which an update can keep by itself: in a run by itself it may begin before the step
    /// before it has been made.
    pub(super) stores: bool,
}

/// Rows of a step that several blocks may keep: those of the smallest tile.
const FEW_ROWS: usize = 16;

impl How {
    /// Of a plan that is followed by a run that is so divided.
    pub(super) fn of(plan: &Plan, layout: &Layout, Division { ranks, shards }: Division) -> Self {
        let (shared, prioritised) = (layout.shares > 1, plan.replay.priority.is_some());
        let (ranks, shards) = (ranks > 1, shards > 1);
        let few = layout.acting.rows <= FEW_ROWS;
        let stores = few && !prioritised && !ranks && !shards;
        Self { shared, prioritised, ranks, shards, stores }
    }

    /// What ranks tell each other of priorities, if there are several.
    fn telling(self, told: Told) -> Option<Op> {
        self.ranks.then_some(Op::Exchange(told))
    }

    /// The work of keeping what came of a step, or of not doing so.
    pub(super) fn storing(self, kept: bool) -> Vec<Op> {
        match kept {
            true => [Op::Store]
                .into_iter()
                .chain(self.prioritised.then_some(Op::AddPriorities))
                .collect(),
            false => vec![Op::NoteEnds],
        }
    }

    /// The work at the end of an update.
    pub(super) fn ending(self) -> Vec<Op> {
        let mut ops = Vec::new();
        if self.prioritised {
            ops.push(Op::UpdatePriorities);
            if self.ranks || self.shards {
                ops.extend(self.telling(Told::MaxPriority));
                ops.push(Op::RaiseMaxPriority);
            }
        }
        ops.push(Op::Advance);
        ops
    }
}

impl Engine for Tracer {
    fn sample(&mut self) -> Result<()> {
        let How { prioritised, ranks, shards, .. } = self.how;
        self.ops.extend(prioritised.then_some(Op::SampleByPriority));
        self.ops.push(Op::Sample);
        if prioritised && (ranks || shards) {
            self.ops.push(Op::PriorityStats);
            self.ops.extend(self.how.telling(Told::PriorityStats));
            self.ops.push(Op::ImportanceWeights);
        }
        Ok(())
    }

    fn forward(&mut self, passes: &[PassId]) -> Result<()> {
        self.ops.push(Op::Forward(passes.into(), Wanted::Parameters));
        Ok(())
    }

    fn backward(&mut self, passes: &[PassId], want: Gradients) -> Result<()> {
        if want == Gradients::OfInput {
            self.ops.push(Op::Deltas(passes.into(), Wanted::Input));
            return Ok(());
        }
        self.ops.push(Op::Deltas(passes.into(), Wanted::Parameters));
        self.ops.push(Op::Weights(passes.into()));
        if self.how.shared {
            self.ops.push(Op::Gather(passes.into()));
        }
        Ok(())
    }

    fn rows(&mut self, rows: RowsId) -> Result<()> {
        self.ops.push(Op::Rows(rows));
        Ok(())
    }

    fn step(&mut self, optimiser: OptimiserId) -> Result<()> {
        self.ops.push(Op::Count(optimiser));
        if self.how.ranks {
            self.ops.extend([Op::Exchange(Told::Gradient(optimiser)), Op::Sum(optimiser)]);
        }
        self.ops.push(Op::Descend(optimiser));
        Ok(())
    }

    fn polyak_update(&mut self, targets: &[ModelId], tau: CellId) -> Result<()> {
        self.ops.push(Op::PolyakUpdate(targets.into(), tau));
        Ok(())
    }

    fn figures(&mut self, figures: &[FigureId]) -> Result<()> {
        self.ops.push(Op::Figures(figures.into()));
        Ok(())
    }
}

/// The work of an algorithm's acting, with place made in the memory for what comes of it if that is `kept`.
pub(super) fn acting(algorithm: &dyn Algorithm, kept: bool) -> Result<Vec<Op>> {
    let mut tracer = Tracer::default();
    algorithm.act(&mut tracer)?;
    let mut ops = vec![Op::Look];
    ops.append(&mut tracer.ops);
    ops.push(Op::Send);
    ops.extend(kept.then_some(Op::Turn));
    Ok(ops)
}

/// Packs all weights.
pub(super) fn packing(plan: &Plan) -> Vec<Op> {
    vec![Op::Pack((0..plan.models.len()).map(ModelId).collect())]
}

/// The work of an update.
pub(super) fn updating(algorithm: &dyn Algorithm, variant: Variant, how: How) -> Result<Vec<Op>> {
    let mut tracer = Tracer { how, ops: Vec::new() };
    algorithm.update(&mut tracer, variant)?;
    tracer.ops.extend(how.ending());
    Ok(tracer.ops)
}
