//! The code of passes in half precision: blocks of a team have passes of their own, or share them by twos, fours or eights.

use super::emit::Emitter;
use super::layer::Layer;
use super::op::BackwardTarget;
use super::recompute::InputsShape;
use super::row_tiles::{RowTiles, WARPS};
use crate::algorithm::{ColumnId, PassId};
use std::fmt::Write;

/// What is not kept.
pub(super) const NOWHERE: &str = "(Kept*)0";

impl Emitter<'_> {
    /// Runs passes.
    pub(super) fn forward_in_halves(&self, passes: &[PassId], target: BackwardTarget) -> String {
        self.each_pass(&self.kept_last(passes), |id| {
            let (pass, layers) = self.pass(id);
            if self.context.layout.is_whole(self.context.plan, id) {
                return self.forward_as_whole(id);
            }
            let shape = self.context.layout.pass(id);
            // Gradients need all that a layer reads, slopes only what a hidden one writes.
            let recomputed = shape.substitute.inputs.filter(|_| target == BackwardTarget::ParametersForStep);
            // Slopes of what is normalised are worked out.
            let has_slopes = |l: usize| l > 0 && shape.on[l].is_none() && shape.norms.is_empty();
            let is_kept = |l: usize| {
                (pass.learns() && (recomputed.is_none() || l != 1))
                    || (pass.back.is_some() && has_slopes(l))
            };
            let kept = |l: usize| match is_kept(l) {
                true => self.kept(shape.inputs[l], layers[l].k),
                false => NOWHERE.into(),
            };
            // Weights of the first and the last layer are small. Those of the second are asked for before inputs are put in
            // place, those of others while the layer before them is computed.
            let prefetch = |l: usize| match l + 1 < layers.len() {
                true => self.prefetch(&layers[l], layers[l].packed),
                false => String::new(),
            };
            let mut text = prefetch(1);
            text += &self.put_columns::<false>(&pass.inputs, &self.by_one(kept(0)), layers[0].k);
            for (l, Layer { outputs, k, n, bias, packed, .. }) in layers.iter().enumerate() {
                let (x, y) = buffers(l);
                if l > 0 {
                    text += &prefetch(l + 1);
                }
                let (weights, bias) =
                    (format!("m.packed + {packed}ll"), format!("m.parameters + {bias}ll"));
                text += self.sync();
                if let Some(recomputed) = recomputed.filter(|_| l == 0) {
                    text += &self.keep_first_layer(recomputed, &layers[0]);
                }
                let hidden = |epilogue: &str, kept: &str, on: &str| {
                    let high = self.high(n / 32);
                    format!(
                        "        hidden_layer<{high}, {k}, {epilogue}>({x}, {weights}, {{{{{y}, {kept}, {n}}}, {bias}, {on}}});\n"
                    )
                };
                text += &match (l + 1 < layers.len(), self.norm(id, l)) {
                    (true, Some(_)) => {
                        let normalise = self.normalise_in_halves(id, l, y, &kept(l + 1));
                        hidden("LINEAR", NOWHERE, "0") + self.sync() + &normalise
                    }
                    (true, None) => {
                        let on = shape.on[l + 1].map_or("0".into(), |at| on(at, *n));
                        hidden(self.activation(pass), &kept(l + 1), &on)
                    }
                    (false, _) => format!(
                        "{}last_layer<{k}>({x}, {weights}, {bias}, parts, m.column[{}] + first * {outputs}, \
                         {outputs}, rows);\n",
                        self.one_does(),
                        pass.output.0
                    ),
                };
            }
            text
        })
    }

    /// Goes back through passes.
    pub(super) fn backward_in_halves(&self, passes: &[PassId], target: BackwardTarget) -> String {
        self.each_pass(&self.last_first(passes), |id| {
            let (pass, layers) = self.pass(id);
            let (Some(back), Some(head)) = (&pass.back, layers.last()) else {
                return String::new();
            };
            if self.context.layout.is_whole(self.context.plan, id) {
                return self.back_as_whole(id, target);
            }
            let shape = self.context.layout.pass(id);
            // Derivatives by weights need those by sums, those by inputs do not.
            let omitted = self.context.layout.model(pass.model).omitted;
            let kept = |l: usize| match target {
                BackwardTarget::ParametersForStep
                    if omitted.is_recomputed(l) || (l == 0 && shape.substitute.first.is_some()) =>
                {
                    NOWHERE.into()
                }
                BackwardTarget::Parameters | BackwardTarget::ParametersForStep => {
                    self.kept(shape.deltas[l], layers[l].n)
                }
                BackwardTarget::Input => NOWHERE.into(),
            };
            // Derivatives by the layer before an output layer of one column are products of two numbers.
            let is_single = head.outputs == 1 && layers.len() > 1;
            let prefetch = |l: usize| match l {
                0 => String::new(),
                _ => self.prefetch(&layers[l], layers[l].packed_back),
            };
            let mut text = prefetch(layers.len().saturating_sub(2));
            if !is_single {
                let kept = self.by_one(kept(layers.len() - 1));
                text += &self.put_columns::<true>(&[back.d_output], &kept, head.n);
            }
            let first =
                shape.substitute.first.filter(|_| target == BackwardTarget::ParametersForStep);
            if first.is_some() {
                let (from, k) = (self.kept(shape.inputs[0], layers[0].k), layers[0].k);
                let _ = writeln!(text, "        put_first_inputs({from}, {k}, parts);");
            }
            if let Some(to) =
                shape.substitute.weights.filter(|_| target == BackwardTarget::ParametersForStep)
            {
                text += &keep_weights(head.packed_back, to, head.k);
            }
            if !is_single || self.tiles.share > 1 {
                text += self.sync();
            }
            for (step, l) in (1..layers.len()).rev().enumerate() {
                if step > 0 {
                    text += &prefetch(l - 1);
                }
                let single = (is_single && step == 0).then(|| self.by_one(kept(l)));
                text += &self.layer_back(id, (l, step), single, target, &kept(l - 1));
            }
            if let Some(at) = first {
                let _ = writeln!(
                    text,
                    "        sum_first_layer({}, parts, {}, tile);",
                    buffers(layers.len() - 1).0,
                    self.first_parts_at(at, layers[0].n, "0")
                );
            }
            if target == BackwardTarget::Input {
                text += &self.inputs_back(id);
            }
            text
        })
    }

    /// Goes back through a first layer to the input whose derivatives are wanted.
    fn inputs_back(&self, id: PassId) -> String {
        let (pass, layers) = self.pass(id);
        let Some(to) = pass.back.as_ref().and_then(|back| back.d_input) else {
            return String::new();
        };
        let width = |i: usize| self.width(pass.inputs[i]);
        let (before, width) = ((0..to.input).map(width).sum::<usize>(), width(to.input));
        let Layer { n, packed_back, .. } = layers[0];
        format!(
            "{}inputs_back<{n}>({}, m.packed + {packed_back}ll, parts, \
             m.column[{}] + first * {width}, {before}, {width}, rows);\n",
            self.one_does(),
            buffers(layers.len() - 1).0,
            to.column.0
        )
    }

    /// Goes back through layer number `l`, `step` layers from the last, to the outputs of the hidden one before it, which are
    /// `kept`; if it is one of a single column, its derivatives are kept at `single`.
    fn layer_back(
        &self,
        id: PassId,
        (l, step): (usize, usize),
        single: Option<String>,
        target: BackwardTarget,
        kept: &str,
    ) -> String {
        let (pass, layers) = self.pass(id);
        let shape = self.context.layout.pass(id);
        let (x, y) = buffers(step);
        let Layer { k, n, weight, packed_back, .. } = layers[l];
        let normed = self.norm(id, l - 1).is_some();
        let slopes = match shape.on[l] {
            _ if normed => format!("NoSlopes{{{{{y}, {NOWHERE}, {k}}}}}"),
            Some(at) => format!("ReluSlopes{{{{{y}, {kept}, {k}}}, {}}}", on(at, k)),
            None => {
                let from = self.kept(shape.inputs[l], k);
                format!("TanhSlopes{{{{{y}, {kept}, {k}}}, {from}}}")
            }
        };
        let (high, d) = (self.high(k / 32), pass.back.as_ref().map(|back| back.d_output.0));
        let call = match (single, d) {
            (Some(single), Some(d)) => format!(
                "single_back<{high}>(m.column[{d}] + first, m.parameters + {weight}ll, {single}, rows"
            ),
            _ => format!("layer_back<{high}, {n}>({x}, m.packed + {packed_back}ll"),
        };
        let text = format!("        {call}, {slopes});\n{}", self.sync());
        if !normed {
            return text;
        }
        text + &self.normalise_back_in_halves(id, l - 1, y, target, kept) + self.sync()
    }

    /// Keeps what a first layer's outputs are made of.
    fn keep_first_layer(&self, recomputed: InputsShape, layer: &Layer) -> String {
        let Layer { k, n, bias, packed, .. } = layer;
        let InputsShape { operands, weights, biases } = recomputed;
        format!(
            "        keep_operands(x, {k}, {});\n{}        \
             if (tile == 0) keep_biases(m.parameters + {bias}ll, (float*)(m.scratch + {biases}ll), {n});\n",
            self.kept(operands, 8),
            keep_weights(*packed, weights, *n)
        )
    }

    /// Puts columns side by side, with zeros behind them up to `width`.
    fn put_columns<const BACK: bool>(&self, ids: &[ColumnId], kept: &str, width: usize) -> String {
        let columns = self.side_by_side_columns(ids);
        format!("        put_columns<{BACK}>({{x, {kept}, {width}}}, {columns}, rows);\n")
    }

    /// Where columns that stand side by side begin, and how many numbers those up to each have.
    pub(super) fn side_by_side_columns(&self, ids: &[ColumnId]) -> String {
        let columns: Vec<_> = ids
            .iter()
            .map(|id| format!("m.column[{}] + first * {}", id.0, self.width(*id)))
            .collect();
        let mut ends: Vec<usize> = ids
            .iter()
            .scan(0, |end, id| {
                *end += self.width(*id);
                Some(*end)
            })
            .collect();
        // Columns that are not there have no numbers.
        ends.resize(self.context.most_inputs(), ends.last().copied().unwrap_or(0));
        format!(
            "{{{{{}}}, {{{}}}}}",
            columns.join(", "),
            ends.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
        )
    }

    pub(super) fn width(&self, id: ColumnId) -> usize {
        self.context.plan.columns[id.0].width
    }

    /// In the forward pass: where many runs share the caches, what is needed again comes last.
    fn kept_last(&self, passes: &[PassId]) -> Vec<PassId> {
        let mut passes = passes.to_vec();
        if self.context.crowded() {
            passes.sort_by_key(|id| self.pass(*id).0.back.is_some());
        }
        passes
    }

    /// In the backward pass: where many runs share the caches, what was kept last is taken first.
    fn last_first(&self, passes: &[PassId]) -> Vec<PassId> {
        let mut passes = passes.to_vec();
        if self.context.crowded() {
            passes.reverse();
        }
        passes
    }

    /// Prefetches a layer's weights, `packed` for one direction, while the layer that is computed before it still runs: where
    /// many runs share the second-level cache, few of them are still in it.
    fn prefetch(&self, layer: &Layer, packed: usize) -> String {
        if !self.context.crowded() {
            return String::new();
        }
        let bytes = layer.k * layer.n * size_of::<u16>();
        format!(
            "        prefetch_packed(m.packed + {packed}ll, {bytes}u, tile, {}u);\n",
            self.tiles.n
        )
    }

    /// Waits for all that share a pass.
    pub(super) fn sync(&self) -> &'static str {
        if self.tiles.share > 1 { "        share_sync();\n" } else { "        __syncthreads();\n" }
    }

    /// The beginning of what one of those that share a pass does.
    fn one_does(&self) -> &'static str {
        if self.tiles.share > 1 { "        if (SHARER == 0u) " } else { "        " }
    }

    /// Where one of those that share a pass keeps what all of them have.
    fn by_one(&self, kept: String) -> String {
        match self.tiles.share > 1 && kept != NOWHERE {
            true => format!("SHARER == 0u ? {kept} : {NOWHERE}"),
            false => kept,
        }
    }

    /// What the blocks of a team do with their passes, one after the other.
    fn each_pass(&self, passes: &[PassId], of: impl Fn(PassId) -> String) -> String {
        let rows = self.context.plan.columns[self.pass(passes[0]).0.output.0].rows;
        let distance = 16 * self.tiles.high * (self.context.layout.widest + 8);
        let mut text = self.tile_rows(rows);
        let _ = writeln!(
            text,
            "    Half *x = (Half*)shared, *y = x + {distance};\n    float* parts = (float*)(y + {distance});\n    (void)parts;"
        );
        for (i, id) in passes.iter().enumerate() {
            let text_of_pass = of(*id);
            let _ = writeln!(
                text,
                "    if (member / SHARE == {i}u % (TEAM / SHARE)) {{\n{text_of_pass}        __syncthreads();\n    }}"
            );
        }
        text
    }

    /// The first row of a tile of what is kept.
    pub(super) fn kept(&self, at: usize, width: usize) -> String {
        format!("m.scratch + {at}ll + first * {width}")
    }

    /// How many times 16 rows a warp takes at a time: all, unless warps would be idle.
    fn high(&self, chunks: usize) -> usize {
        let RowTiles { high, share, .. } = self.tiles;
        if chunks * high <= WARPS * share { 1 } else { high }
    }
}

/// Keeps packed weights of so many columns, which are needed as they were when they have made their step.
fn keep_weights(packed: usize, to: usize, columns: usize) -> String {
    format!(
        "        if (tile == 0) keep_weights(m.packed + {packed}ll, m.scratch + {to}ll, {columns});\n"
    )
}

/// Where it is kept which of a tile's outputs of relu are on.
pub(super) fn on(at: usize, width: usize) -> String {
    format!("(unsigned char*)(m.scratch + {at}ll) + first * {}", width / 8)
}

/// Where layer number `l` reads and writes.
fn buffers(l: usize) -> (&'static str, &'static str) {
    if l.is_multiple_of(2) { ("x", "y") } else { ("y", "x") }
}

#[cfg(test)]
mod tests {
    use super::super::{H200, sources};
    use crate::config::TrainConfig;

    /// Places of weights that the programs of so many runs with these hidden layers prefetch, and in the same pass multiply by.
    fn prefetched(hidden: &str, runs: usize) -> (usize, usize) {
        let keys = format!("env_id = \"pendulum\"\nalgorithm = \"sac\"\nhidden = {hidden}");
        let config = TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap();
        let mut found = (0, 0);
        for (source, _) in sources(&config, H200.shared_by(runs)).unwrap() {
            let request = "prefetch_packed(m.packed + ";
            for (at, _) in source.text.match_indices(request) {
                let (place, behind) = source.text[at + request.len()..].split_once("ll, ").unwrap();
                let pass = behind.split("if (member").next().unwrap();
                found.0 += 1;
                found.1 += usize::from(pass.contains(&format!("m.packed + {place}ll")));
            }
        }
        found
    }

    #[test]
    fn weights_between_hidden_layers_are_prefetched_where_many_runs_share_a_cache() {
        assert_eq!([prefetched("[]", 64), prefetched("[64]", 64)], [(0, 0); 2]);
        // An update has 13 passes of the actor and four critics.
        assert_eq!(prefetched("[64, 64]", 64), (13, 13));
        // Two layers in each, and in the pass that acts, which is another function where there are only two hidden layers.
        assert_eq!(prefetched("[64, 64, 64]", 64), (28, 28));
        assert_eq!(prefetched("[64, 64]", 1), (0, 0));
    }
}
