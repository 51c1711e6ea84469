//! The code of normalised layers: a layer's sums are written, and normalised when all of a row are there.

use super::emit::Emitter;
use super::emit_halves::NOWHERE;
use super::layer::Norm;
use super::layout::NormShape;
use super::op::BackwardTarget;
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
                "    normalise({}, {n}, {}, m.scratch + {}ll + first * {n}, (int)member);",
                normed(norm, shape),
                self.activation(self.pass(*id).0),
                self.context.layout.pass(*id).inputs[l + 1],
                n = norm.gain.n
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
                "    normalise_back({}, {n}, m.scratch + {}ll + first * {n}, m.scratch + {}ll + first * {n}, \
                 m.scratch + {}ll + first * {n}, (int)member);",
                normed(norm, shape),
                shape.shifts,
                shape.gains,
                self.context.layout.pass(*id).deltas[*l]
            );
        }
        after_products(text)
    }

    /// Normalises and activates the sums of layer `l` that a tile of half precision has in `y`; outputs are `kept`.
    pub(super) fn normalise_in_halves(&self, id: PassId, l: usize, y: &str, kept: &str) -> String {
        let Some((norm, shape)) = self.norm(id, l) else { return String::new() };
        let (pass, _) = self.pass(id);
        let of = match pass.back {
            Some(_) => normed(norm, shape),
            None => normed_alone(norm, "0", "0"),
        };
        let (n, activation) = (norm.gain.n, self.activation(pass));
        format!("        normalise<{n}, {activation}>({y}, {of}, {kept});\n")
    }

    /// Goes back through the normalisation of layer `l` from derivatives that a tile of half precision has in `d` to those by
    /// sums, which are `kept`; then, what derivatives by gains and shifts are summed of is kept, too.
    pub(super) fn normalise_back_in_halves(
        &self,
        id: PassId,
        l: usize,
        d: &str,
        target: BackwardTarget,
        kept: &str,
    ) -> String {
        let Some((norm, shape)) = self.norm(id, l) else { return String::new() };
        let (pass, _) = self.pass(id);
        let n = norm.gain.n;
        let [gains, shifts] = [shape.gains, shape.shifts].map(|at| match target {
            BackwardTarget::Parameters | BackwardTarget::ParametersForStep => self.kept(at, n),
            BackwardTarget::Input => NOWHERE.into(),
        });
        format!(
            "        normalise_back<{n}, {}_SLOPE>({d}, {}, {{{gains}, {shifts}, {kept}}});\n",
            self.activation(pass),
            normed(norm, shape)
        )
    }

    /// How layer `l` of a pass is normalised, and where that is kept.
    pub(super) fn norm(&self, id: PassId, l: usize) -> Option<(&Norm, &NormShape)> {
        let layout = self.context.layout;
        let norm = layout.model(self.context.plan.passes[id.0].model).norms.get(l)?;
        Some((norm, layout.pass(id).norms.get(l)?))
    }
}

/// A `NormOf` of norm.cu or norm_half.cu, which keeps what it computes.
fn normed(norm: &Norm, shape: &NormShape) -> String {
    let unit = format!("m.scratch + {}ll + first * {}", shape.unit, norm.gain.n);
    normed_alone(norm, &unit, &format!("(float*)(m.scratch + {}ll) + first", shape.inverse))
}

/// A `NormOf` that keeps what it computes at `unit` and `inverse`.
fn normed_alone(Norm { gain, shift }: &Norm, unit: &str, inverse: &str) -> String {
    format!(
        "NormOf{{{unit}, {inverse}, m.parameters + {}ll, m.parameters + {}ll, {}}}",
        gain.bias, shift.bias, gain.outputs
    )
}

/// Work that needs the sums of whole rows, behind that of writing them.
fn after_products(text: String) -> String {
    if text.is_empty() { text } else { format!("    team_sync();\n{text}") }
}
