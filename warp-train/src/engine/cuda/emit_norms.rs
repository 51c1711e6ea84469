//! The code of normalised layers, in fp32: a layer's sums are written, and normalised when all of a row are there.

use super::emit::Emitter;
use super::layout::{Norm, NormShape};
use crate::algorithm::PassId;
use std::fmt::Write;

impl Emitter<'_> {
    /// Normalises and activates the outputs of layer `l` of those of `passes` that do so with it.
    pub(super) fn normalise(&self, passes: &[PassId], l: usize) -> String {
        let mut text = String::new();
        for id in passes {
            let Some((norm, shape)) = self.norm(*id, l) else { continue };
            let _ = writeln!(
                text,
                "    normalise({}, {}, m.scratch + {}ll + first * {}, (int)member);",
                normed(norm, shape),
                self.activation(self.pass(*id).0),
                self.context.layout.pass(*id).inputs[l + 1],
                norm.gain.n
            );
        }
        after_products(text)
    }

    /// Goes back through the normalisation of layer `l`, of those of `passes` that have one.
    pub(super) fn normalise_back(&self, passes: &[(PassId, usize)]) -> String {
        let mut text = String::new();
        for (id, l) in passes {
            let Some((norm, shape)) = self.norm(*id, *l) else { continue };
            let n = norm.gain.n;
            let _ = writeln!(
                text,
                "    normalise_back({}, m.scratch + {}ll + first * {n}, m.scratch + {}ll + first * {n}, \
                 m.scratch + {}ll + first * {n}, (int)member);",
                normed(norm, shape),
                shape.shifts,
                shape.gains,
                self.context.layout.pass(*id).deltas[*l]
            );
        }
        after_products(text)
    }

    /// How layer `l` of a pass is normalised, and where that is kept.
    pub(super) fn norm(&self, id: PassId, l: usize) -> Option<(&Norm, &NormShape)> {
        let layout = self.context.layout;
        let norm = layout.model(self.context.plan.passes[id.0].model).norms.get(l)?;
        Some((norm, layout.pass(id).norms.get(l)?))
    }
}

/// A `NormOf` of norm.cu.
fn normed(Norm { gain, shift }: &Norm, shape: &NormShape) -> String {
    format!(
        "NormOf{{m.scratch + {}ll + first * {n}, m.scratch + {}ll + first, m.parameters + {}ll, \
         m.parameters + {}ll, {}, {n}}}",
        shape.unit,
        shape.inverse,
        gain.bias,
        shift.bias,
        gain.outputs,
        n = gain.n
    )
}

/// Work that needs the sums of whole rows, behind that of writing them.
fn after_products(text: String) -> String {
    if text.is_empty() { text } else { format!("    team_sync();\n{text}") }
}
