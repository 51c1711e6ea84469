//! Puts pieces of work together that need not wait for all blocks: a program is a row of segments, between
//! which all blocks meet.

use super::op::{BackwardTarget, Follow, Op, Scope};
use super::ranks::Exchanged;
use crate::algorithm::{CellId, ModelId, OptimiserId, PassId, Plan, RowsOf};

/// Work without a meeting of all blocks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    /// Whose rows, where tiles go through it one by one; else its parts are shared by all blocks.
    pub(super) rows: Option<RowsOf>,
    /// In this order.
    pub(super) ops: Vec<Op>,
    /// What one thread does meanwhile.
    pub(super) single: Vec<Op>,
}

impl Segment {
    /// Whether making place for a step is its only single piece of work. It is then done before the rest, so that an update
    /// may begin as soon as there is that place.
    pub(super) fn advances_first(&self) -> bool {
        self.single == [Op::AdvanceRing]
    }
}

/// The segments of `ops`, each as early as what it needs allows.
pub(super) fn segments(ops: &[Op], plan: &Plan) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for op in ops {
        let scope = op.scope(plan);
        let index = place(&segments, op, scope, plan).unwrap_or_else(|| {
            let rows = if let Scope::Rows(rows) = scope { Some(rows) } else { None };
            segments.push(Segment { rows, ops: Vec::new(), single: Vec::new() });
            segments.len() - 1
        });
        let segment = &mut segments[index];
        let to = if scope == Scope::Anywhere { &mut segment.single } else { &mut segment.ops };
        to.push(op.clone());
    }
    segments
}

/// The first segment that can take `op`.
fn place(segments: &[Segment], op: &Op, scope: Scope, plan: &Plan) -> Option<usize> {
    let mut found = None;
    for (index, segment) in segments.iter().enumerate().rev() {
        let meets = |ops: &[Op]| ops.iter().any(|other| op.conflicts(other, plan));
        let conflict = meets(&segment.ops) || meets(&segment.single);
        let fits = match scope {
            Scope::Anywhere => !conflict,
            Scope::Everywhere => segment.rows.is_none() && !conflict,
            // A tile's own work is done in order.
            Scope::Rows(rows) => segment.rows == Some(rows) && !meets(&segment.single),
        };
        if fits {
            found = Some(index);
        }
        if conflict {
            break;
        }
    }
    found
}

/// A program of an update, and what ranks exchange behind it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Part {
    pub(super) ops: Vec<Op>,
    pub(super) exchanged: Vec<Exchanged>,
}

/// Cuts `ops` where ranks exchange something; each as early as what it needs allows, so that much is exchanged at
/// once.
pub(super) fn cut(ops: &[Op], plan: &Plan) -> Vec<Part> {
    let (mut parts, mut places) = (vec![Part::default()], Vec::new());
    for op in ops {
        let behind = |(other, place): (&Op, &usize)| {
            op.conflicts(other, plan)
                .then_some(place + usize::from(matches!(other, Op::Exchange(_))))
        };
        let place = ops.iter().zip(&places).filter_map(behind).max().unwrap_or(0);
        parts.resize_with(parts.len().max(place + 1), Part::default);
        match op {
            Op::Exchange(exchanged) => parts[place].exchanged.push(*exchanged),
            op => parts[place].ops.push(op.clone()),
        }
        places.push(place);
    }
    parts
}

/// Makes one of gradients and the step along them, where nothing is clipped and nothing shared.
pub(super) fn fuse(ops: &[Op], plan: &Plan) -> Vec<Op> {
    let mut fused = ops.to_vec();
    let mut at = 0;
    while at < fused.len() {
        let Op::Descend(optimiser) = fused[at] else {
            at += 1;
            continue;
        };
        let weights = fused[..at].iter().rposition(|op| learns(op, optimiser, plan).is_some());
        let clipped = plan.optimisers[optimiser.0].max_grad_norm > 0.0;
        let alone = |weights: &usize| {
            let between = &fused[weights + 1..at];
            !clipped && !between.iter().any(|op| op.conflicts(&fused[*weights], plan))
        };
        match weights.filter(alone) {
            Some(weights) => {
                let passes = learns(&fused[weights], optimiser, plan).unwrap_or_default();
                fused[at] = Op::Learn(passes, optimiser, Vec::new());
                fused.remove(weights);
            }
            None => at += 1,
        }
    }
    follow(&mut fused, plan);
    let learned =
        |op: &Op| if let Op::Learn(passes, ..) = op { passes.clone() } else { Vec::new() };
    let learned: Vec<PassId> = fused.iter().flat_map(learned).collect();
    fused.into_iter().flat_map(|op| for_step(op, &learned, plan)).collect()
}

/// `op`, whose passes keep only what a step needs if that is all that becomes of their gradients: those that `learned`
/// names, which are parted from others that learn.
fn for_step(op: Op, learned: &[PassId], plan: &Plan) -> Vec<Op> {
    let (passes, of): (_, fn(Vec<PassId>, BackwardTarget) -> Op) = match &op {
        Op::Forward(passes, BackwardTarget::Parameters) => (passes, Op::Forward),
        Op::Backward(passes, BackwardTarget::Parameters) => (passes, Op::Backward),
        _ => return vec![op],
    };
    if !passes.iter().any(|id| learned.contains(id)) {
        return vec![op];
    }
    let otherwise = |id: &PassId| plan.passes[id.0].learns() && !learned.contains(id);
    let (rest, step): (Vec<_>, Vec<_>) = passes.iter().copied().partition(otherwise);
    let parts = [(step, BackwardTarget::ParametersForStep), (rest, BackwardTarget::Parameters)];
    let parts = parts.into_iter().filter(|(passes, _)| !passes.is_empty());
    parts.map(|(passes, target)| of(passes, target)).collect()
}

/// Lets targets follow as soon as their models have made their steps, where nothing between needs them as they were.
fn follow(ops: &mut Vec<Op>, plan: &Plan) {
    for at in (0..ops.len()).rev() {
        let Op::PolyakUpdate(targets, tau) = ops[at].clone() else { continue };
        let left: Vec<ModelId> = targets
            .into_iter()
            .filter(|target| !follows(&mut ops[..at], *target, tau, plan))
            .collect();
        match left.is_empty() {
            true => drop(ops.remove(at)),
            false => ops[at] = Op::PolyakUpdate(left, tau),
        }
    }
}

/// Whether `target` now follows in the last of `ops` that makes its model's step.
fn follows(ops: &mut [Op], target: ModelId, tau: CellId, plan: &Plan) -> bool {
    let Some(source) = plan.models[target.0].target_of else { return false };
    let steps = |op: &Op| matches!(op, Op::Learn(_, id, _) if plan.optimisers[id.0].models.contains(&source));
    let Some(step) = ops.iter().rposition(steps) else { return false };
    let update = Op::PolyakUpdate(vec![target], tau);
    if ops[step + 1..].iter().any(|op| op.conflicts(&update, plan)) {
        return false;
    }
    if let Op::Learn(_, _, follows) = &mut ops[step] {
        follows.push(Follow { target, tau });
    }
    true
}

/// The passes of a sum of gradients that are those of all of an optimiser's models, and of no others.
fn learns(op: &Op, optimiser: OptimiserId, plan: &Plan) -> Option<Vec<PassId>> {
    let Op::WeightGradients(passes) = op else { return None };
    let models = &plan.optimisers[optimiser.0].models;
    let of = |pass: &PassId| plan.passes[pass.0].model;
    let known = passes.iter().all(|pass| models.contains(&of(pass)));
    let all = models.iter().all(|model| passes.iter().any(|pass| of(pass) == *model));
    (known && all).then(|| passes.clone())
}

#[cfg(test)]
mod tests {
    use super::super::tracer::{How, updating};
    use super::*;
    use crate::algorithm::{Planned, Variant};
    use crate::config::TrainConfig;
    use crate::engine::off_policy::planned;

    fn update_of(keys: &str, variant: usize, how: How) -> (Plan, Vec<Op>) {
        let table = keys.parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        let Planned { plan, algorithm } = planned(&config, &config.policies[0]).unwrap();
        let ops = updating(&*algorithm, Variant(variant), how).unwrap();
        (plan, ops)
    }

    /// An update of TD3 with its actor.
    fn update() -> (Plan, Vec<Op>) {
        update_of("env_id = \"pendulum\"\nalgorithm = \"td3\"", 1, How::default())
    }

    /// What ranks exchange behind each part of an update.
    fn exchanged(keys: &str, how: How) -> Vec<Vec<Exchanged>> {
        let (plan, ops) = update_of(keys, 0, How { ranks: true, ..how });
        let parts = cut(&ops, &plan);
        // What must be done before something else still is, behind an exchange in a later part.
        let places = |op: &Op| match op {
            Op::Exchange(exchanged) => {
                parts.iter().position(|part| part.exchanged.contains(exchanged))
            }
            op => parts.iter().position(|part| part.ops.contains(op)),
        };
        for (i, op) in ops.iter().enumerate() {
            for before in ops[..i].iter().filter(|before| op.conflicts(before, &plan)) {
                let behind = usize::from(matches!(before, Op::Exchange(_)));
                assert!(places(op) >= places(before).map(|place| place + behind), "{op:?}");
            }
        }
        parts.into_iter().map(|part| part.exchanged).collect()
    }

    #[test]
    fn ranks_exchange_much_at_once() {
        let gradient = |o| Exchanged::Gradient(OptimiserId(o));
        let sac = "env_id = \"pendulum\"\nalgorithm = \"sac\"";
        let [critics, actor, temperature] = [0, 1, 2].map(gradient);
        assert_eq!(
            exchanged(sac, How::default()),
            [vec![critics, temperature], vec![actor], vec![]]
        );
        let prioritised = How { prioritised: true, ..How::default() };
        assert_eq!(
            exchanged(&format!("{sac}\nprioritised = true"), prioritised),
            [
                vec![Exchanged::PriorityStats],
                vec![critics, temperature, Exchanged::MaxPriority],
                vec![actor],
                vec![]
            ]
        );
        let dqn = "env_id = \"cartpole\"\nalgorithm = \"dqn\"";
        assert_eq!(exchanged(dqn, How { shared: true, ..How::default() }), [vec![critics], vec![]]);
    }

    #[test]
    fn one_rank_does_an_update_in_one_part() {
        let (plan, ops) = update();
        let ops = fuse(&ops, &plan);
        assert_eq!(cut(&ops, &plan), [Part { ops, exchanged: Vec::new() }]);
    }

    fn n_following(ops: &[Op]) -> usize {
        let n = |op: &Op| if let Op::Learn(_, _, follows) = op { follows.len() } else { 0 };
        ops.iter().map(n).sum()
    }

    #[test]
    fn targets_follow_with_the_steps_of_their_models() {
        let (plan, ops) = update();
        let fused = fuse(&ops, &plan);
        assert_eq!(n_following(&fused), 3);
        assert!(!fused.iter().any(|op| matches!(op, Op::PolyakUpdate(..) | Op::Descend(_))));
    }

    #[test]
    fn a_target_that_is_needed_as_it_was_does_not_follow_early() {
        let (plan, mut ops) = update();
        // The target of the first critic is run once more behind the critics' step.
        let critic = plan.models.iter().position(|model| model.target_of == Some(ModelId(2)));
        let target = ModelId(critic.unwrap());
        let pass = plan.passes.iter().position(|pass| pass.model == target).unwrap();
        let update = ops.iter().position(|op| matches!(op, Op::PolyakUpdate(..))).unwrap();
        ops.insert(update, Op::Forward(vec![PassId(pass)], BackwardTarget::Parameters));
        let fused = fuse(&ops, &plan);
        assert_eq!(n_following(&fused), 2);
        let left = fused.iter().find_map(|op| match op {
            Op::PolyakUpdate(targets, _) => Some(targets.clone()),
            _ => None,
        });
        assert_eq!(left, Some(vec![target]));
    }

    fn n_for_steps(ops: &[Op]) -> usize {
        let is = |op: &&Op| {
            matches!(
                op,
                Op::Forward(_, BackwardTarget::ParametersForStep)
                    | Op::Backward(_, BackwardTarget::ParametersForStep)
            )
        };
        ops.iter().filter(is).count()
    }

    #[test]
    fn passes_whose_gradients_make_a_step_at_once_keep_less() {
        let (plan, ops) = update();
        // Forward and backward, of the critics and of the actor.
        assert_eq!((n_for_steps(&ops), n_for_steps(&fuse(&ops, &plan))), (0, 4));
    }

    #[test]
    fn passes_that_learn_otherwise_keep_all() {
        let (plan, _) = update();
        let learning: Vec<PassId> =
            (0..plan.passes.len()).filter(|i| plan.passes[*i].learns()).map(PassId).collect();
        let (first, rest) = learning.split_at(1);
        let parts =
            for_step(Op::Forward(learning.clone(), BackwardTarget::Parameters), first, &plan);
        let step = Op::Forward(first.to_vec(), BackwardTarget::ParametersForStep);
        assert_eq!(parts, [step, Op::Forward(rest.to_vec(), BackwardTarget::Parameters)]);
    }

    #[test]
    fn a_clipped_step_has_no_followers() {
        let (mut plan, ops) = update();
        plan.optimisers.iter_mut().for_each(|optimiser| optimiser.max_grad_norm = 1.0);
        let fused = fuse(&ops, &plan);
        assert_eq!((n_following(&fused), n_for_steps(&fused)), (0, 0));
        assert!(
            fused.iter().any(|op| matches!(op, Op::PolyakUpdate(targets, _) if targets.len() == 3))
        );
    }
}
