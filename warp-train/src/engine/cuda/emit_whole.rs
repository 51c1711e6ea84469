//! The code of passes of two hidden layers as a whole.

use super::emit::Emitter;
use super::emit_halves::{NOWHERE, on};
use super::op::BackwardTarget;
use crate::algorithm::PassId;

impl Emitter<'_> {
    /// A pass from its inputs to its outputs.
    pub(super) fn forward_as_whole(&self, id: PassId) -> String {
        let (pass, layers) = self.pass(id);
        let (shape, activation) = (self.context.layout.pass(id), self.activation(pass));
        let kept = |l: usize| match self.is_kept(id, l) {
            true => self.kept(shape.inputs[l], layers[l].k),
            false => NOWHERE.into(),
        };
        let hidden = |l: usize| {
            let on = shape.on[l].map_or("0".into(), |at| on(at, layers[l].k));
            format!("{{{}, {on}}}", kept(l))
        };
        let [first, second, last] = [0, 1, 2].map(|l| layers[l]);
        format!(
            "        forward_whole<{}, {}, {}, {}, {activation}>({{{}, m.parameters + {}ll, m.packed + {}ll, {}, {}, {}, \
             m.column[{}] + first * {outputs}, {outputs}, {}}}, rows);\n",
            first.k,
            terms(first.inputs),
            second.k,
            last.k,
            self.side_by_side_columns(&pass.inputs),
            first.weight,
            first.packed,
            kept(0),
            hidden(1),
            hidden(2),
            pass.output.0,
            last.n,
            outputs = last.outputs,
        )
    }

    /// Whether a layer's inputs are kept: gradients need all that it reads, slopes only what a hidden one writes.
    fn is_kept(&self, id: PassId, l: usize) -> bool {
        let pass = self.pass(id).0;
        let has_bits = self.context.layout.pass(id).on[l].is_some();
        pass.learns() || (pass.back.is_some() && l > 0 && !has_bits)
    }

    /// The kind of slopes of a layer's inputs, and where they are.
    fn slopes(&self, id: PassId, l: usize) -> (&'static str, String) {
        let (shape, k) = (self.context.layout.pass(id), self.pass(id).1[l].k);
        match shape.on[l] {
            Some(at) => ("ReluSlopes", on(at, k)),
            None => ("TanhSlopes", self.kept(shape.inputs[l], k)),
        }
    }

    /// A pass from derivatives by its outputs back to what is wanted.
    pub(super) fn back_as_whole(&self, id: PassId, target: BackwardTarget) -> String {
        let (pass, layers) = self.pass(id);
        let shape = self.context.layout.pass(id);
        let Some(back) = &pass.back else { return String::new() };
        let kept = |l: usize| match target {
            BackwardTarget::Parameters | BackwardTarget::ParametersForStep => {
                self.kept(shape.deltas[l], layers[l].n)
            }
            BackwardTarget::Input => NOWHERE.into(),
        };
        let slopes = |l: usize| {
            let (slopes, from) = self.slopes(id, l);
            format!("{slopes}{{{{0, {}, {}}}, {from}}}", kept(l - 1), layers[l].k)
        };
        let to = back.d_input.filter(|_| target == BackwardTarget::Input);
        let to = to.map_or("0, 0, 0".into(), |to| {
            let width = |i: usize| self.width(pass.inputs[i]);
            let (before, width) = ((0..to.input).map(width).sum::<usize>(), width(to.input));
            format!("m.column[{}] + first * {width}, {before}, {width}", to.column.0)
        });
        let [first, second, last] = [0, 1, 2].map(|l| layers[l]);
        format!(
            "        backward_whole<{}, {}, {}, {}, {}>(BackwardPass<{}>{{{}, m.packed + {}ll, {}, {}, {}, {to}}}, rows);\n",
            first.k,
            second.k,
            last.k,
            last.n,
            terms(last.outputs),
            self.slopes(id, 1).0,
            self.side_by_side_columns(&[back.d_output]),
            first.packed,
            kept(2),
            slopes(2),
            slopes(1),
        )
    }
}

/// So many terms in whole rounds of products: layers of nearly as many share their code.
fn terms(n: usize) -> usize {
    n.max(1).next_multiple_of(16)
}
