//! The CUDA code of an objective: its row functions as they were translated, and functions of plain numbers
//! that call them.

use crate::algorithm::PolicyPlan;
use crate::loss::{Objective, POLICY_FIGURES, POLICY_READS, Part, VALUE_READS};
use std::fmt::Write;

/// Coefficients of an objective that kernels have room for.
pub(super) const MOST_CELLS: usize = 8;

/// How many coefficients a policy's objective has.
pub(super) fn n_cells(plan: &PolicyPlan) -> usize {
    let of = |objective: &Objective| objective.policy.cells.len() + objective.value.cells.len();
    plan.rollouts.as_ref().map_or(0, |rollouts| of(&rollouts.objective))
}

/// The coefficients, the policy's first, as far as there is room for them.
pub(super) fn cells(objective: &Objective) -> [f32; MOST_CELLS] {
    let mut cells = [0.0; MOST_CELLS];
    let given = objective.policy.cells.iter().chain(&objective.value.cells);
    cells.iter_mut().zip(given).for_each(|(cell, given)| *cell = *given);
    cells
}

/// Where kernels find a coefficient among [`cells`].
pub(super) fn cell(objective: &Objective, part: &Part, number: usize) -> String {
    let before =
        if std::ptr::eq(part, &objective.value) { objective.policy.cells.len() } else { 0 };
    format!("cells[{}]", before + number)
}

/// `warp_policy_loss` and `warp_value_loss`, to which `cell(part, number)` gives the text of a cell's value.
pub(super) fn text(objective: &Objective, cell: impl Fn(&Part, usize) -> String) -> String {
    let Objective { policy, value } = objective;
    let [approx_kl, clip_fraction] = POLICY_FIGURES;
    let figures = ["loss", "d_log_prob", approx_kl, clip_fraction];
    part_text("warp_policy_loss", policy, &POLICY_READS, &figures, &cell)
        + &part_text("warp_value_loss", value, &VALUE_READS, &["loss", "d_value"], &cell)
}

/// A function that reads the numbers `reads` and writes all of `writes`: 0 where the part does not.
fn part_text(
    name: &str,
    part: &Part,
    reads: &[&str],
    writes: &[&str],
    cell: &dyn Fn(&Part, usize) -> String,
) -> String {
    // Two files may have functions of the same name.
    let function = part.function;
    let mut text = format!("namespace {name}_rows {{\n{}}}\n", function.text);
    let given = reads.iter().map(|read| format!("float {read}"));
    let taken = writes.iter().map(|write| format!("float& {write}"));
    let parameters: Vec<String> =
        ["const float* cells".into()].into_iter().chain(given).chain(taken).collect();
    let _ = writeln!(text, "__device__ __forceinline__ void {name}({}) {{", parameters.join(", "));
    for write in writes {
        let _ = writeln!(text, "    {write} = 0.0f;");
    }
    let cells = (0..part.cells.len()).map(|number| cell(part, number));
    let columns = function.reads.iter().chain(function.writes);
    let columns = columns.map(|column| format!("{{&{column}, 1u}}"));
    let arguments: Vec<String> = cells.chain(columns).collect();
    let _ = writeln!(text, "    {name}_rows::{}({});\n}}", function.name, arguments.join(", "));
    text
}
