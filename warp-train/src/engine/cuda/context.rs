//! What decides a program's text.

use super::layout::Layout;
use super::machine::{LEARN_BYTES, Machine};
use super::op::Op;
use super::ranks::Division;
use crate::algorithm::{Plan, PolicyPlan};
use crate::engine::cpu::Place;
use crate::engine::rollout::GroupRows;
use warp_core::EnvSpec;

/// The agents of a policy, as the text knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agents {
    /// Those of each group, and of a group whose agents don't lie one after the other several times.
    pub(super) groups: Vec<GroupRows>,
    /// Whether actions are numbers of choices.
    pub(super) discrete: bool,
    /// Whether agents can leave before their episode ends.
    pub(super) mortal: bool,
}

impl Agents {
    /// Those of `policy`.
    pub(super) fn new(spec: &EnvSpec, policy: &PolicyPlan) -> Self {
        Self {
            groups: GroupRows::of(policy, spec),
            discrete: !policy.group(spec).action.head_sizes().is_empty(),
            mortal: policy.is_mortal(spec),
        }
    }
}

/// All that decides a program's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) layout: &'a Layout,
    pub(super) place: &'a Place,
    pub(super) agents: &'a Agents,
    /// Runs side by side.
    pub(super) runs: usize,
    pub(super) division: Division,
    pub(super) machine: Machine,
}

impl ProgramContext<'_> {
    /// Whether several ranks learn together.
    pub(super) fn has_ranks(&self) -> bool {
        self.division.ranks > 1
    }

    /// Whether this rank has several shards of the replay memory.
    pub(super) fn has_shards(&self) -> bool {
        self.division.shards > 1
    }

    /// Whether all blocks of many runs fit on the GPU at once, so many for each run, those of launches beside this one
    /// included. Blocks of a run wait for each other; but whatever keeps them from their places ends by itself, so that
    /// their launch need not wait until there are places for all of them.
    pub(super) fn all_have_places(&self, blocks: usize) -> bool {
        self.crowded() && self.machine.runs() * blocks <= self.machine.most_runs()
    }

    /// Whether a block takes several tiles of weights at a time, since a run has few blocks.
    pub(super) fn crowded(&self) -> bool {
        self.layout.half && self.machine.is_crowded()
    }

    /// Whether a block takes one tile of weights at a time and brings all it needs into shared memory at once.
    pub(super) fn brings_tiles(&self) -> bool {
        self.layout.half && !self.crowded() && self.machine.fits_twice(LEARN_BYTES)
    }

    /// Columns that a pass reads, at most.
    pub(super) fn most_inputs(&self) -> usize {
        self.plan.passes.iter().map(|pass| pass.inputs.len()).max().unwrap_or(0).max(1)
    }
}

/// The namespace of a row function's file: one per text, numbered by its first use in the plan.
pub(super) fn namespace(plan: &Plan, op: &Op) -> String {
    let Op::Rows(id) = op else { return String::new() };
    let text = plan.rows[id.0].function.text;
    let first = plan.rows.iter().position(|rows| rows.function.text == text);
    format!("rows_of_file_{}", first.unwrap_or(0))
}
