//! The text of what all blocks share: gradients, optimisers, targets and figures.

use super::emit::{BLENDED, Emitter};
use super::layout::{Layer, TILE};
use crate::algorithm::{FigureId, ModelId, OptimiserId, PassId};
use std::fmt::Write;

impl Emitter<'_> {
    /// Finds the tile of weights number `item` among those of `models`, with `of` behind its description,
    /// which may use `o` and `i`, its part of the outputs and the inputs; `parts` items are one tile.
    fn each_tile(
        &self,
        models: &[ModelId],
        parts: usize,
        mut of: impl FnMut(ModelId, usize, &Layer) -> String,
    ) -> String {
        let mut text = String::new();
        for id in models {
            for (l, layer) in self.scene.layout.model(*id).layers.iter().enumerate() {
                let Layer { inputs, outputs, k, weight, bias, tile, .. } = *layer;
                let across = k / TILE;
                let _ = write!(
                    text,
                    "    if (item < {n}) {{\n        \
                     const int part = item % {parts}, at = item / {parts}, o = at / {across}, i = at % {across};\n        \
                     const WeightTile tile = {{{weight}ll + o * {}ll + i * 32, {k}, \
                     i == 0 ? {bias}ll + o * 32 : -1ll, {outputs} - 32 * o, {inputs} - 32 * i, {tile} + at}};\n        \
                     (void)part;\n{}        return;\n    }}\n    item -= {n};\n",
                    TILE * k,
                    of(*id, l, layer),
                    n = layer.n_tiles() * parts,
                );
            }
        }
        text
    }

    /// Sums of gradients, which are kept, or along which a step is made at once.
    pub(super) fn weights(&self, passes: &[PassId], optimiser: Option<OptimiserId>) -> String {
        let layout = self.scene.layout;
        let parts = if optimiser.is_some() { 1 } else { layout.shares };
        let take = match optimiser {
            Some(OptimiserId(o)) => format!(
                "        Descent take = {{m.parameters, m.exp_avg, m.exp_avg_sq, \
                 m.counters + COUNTER_FAULT, {}u, m.steps[{o}]}};\n",
                o + 1
            ),
            None => format!(
                "        Record take = {{m.gradient + part * {}ll, 0.0}};\n",
                layout.n_parameters
            ),
        };
        let after = match (optimiser, parts) {
            (None, 1) => "        if (threadIdx.x == 0) m.squares[tile.number] = squares;\n",
            _ => "",
        };
        self.each_tile(&self.models_of(passes), parts, |model, l, layer| {
            let own = passes.iter().filter(|id| self.scene.plan.passes[id.0].model == model);
            let slabs: Vec<String> = own.map(|id| self.slab(*id, l, layer)).collect();
            format!(
                "{take}        const Slab slabs[] = {{{}}};\n        \
                 double squares = weight_tile(tile, slabs, {}, part, {parts}, take);\n        (void)squares;\n{after}",
                slabs.join(", "),
                slabs.len(),
            )
        })
    }

    fn slab(&self, id: PassId, l: usize, Layer { k, n, .. }: &Layer) -> String {
        let shape = self.scene.layout.pass(id);
        let rows = self.scene.plan.columns[self.scene.plan.passes[id.0].output.0].rows;
        format!(
            "{{m.scratch + {}ll + 32 * i, m.scratch + {}ll + 32 * o, {k}, {n}, {}}}",
            shape.inputs[l],
            shape.deltas[l],
            self.scene.layout.of_rows(rows).padded()
        )
    }

    /// Adds the shares of gradients up.
    pub(super) fn gather(&self, passes: &[PassId]) -> String {
        let layout = self.scene.layout;
        let sum = format!(
            "        double squares = 0.0;\n        each_of_tile(tile, [&](long long to) {{\n            \
             float sum = 0.0f;\n            \
             for (int share = 0; share < {}; ++share) sum += m.gradient[share * {}ll + to];\n            \
             m.gradient[to] = sum;\n            squares += (double)sum * (double)sum;\n        }});\n        \
             squares = block_sum(squares);\n        if (threadIdx.x == 0) m.squares[tile.number] = squares;\n",
            layout.shares, layout.n_parameters
        );
        self.each_tile(&self.models_of(passes), 1, |_, _, _| sum.clone())
    }

    /// A step along gradients that lie there, by the norm of all.
    pub(super) fn adam(&self, OptimiserId(o): OptimiserId) -> String {
        let models = &self.scene.plan.optimisers[o].models;
        let mut text = String::from("    double squares = 0.0;\n");
        for id in models {
            let tiles = &self.scene.layout.model(*id).tiles;
            let _ = writeln!(
                text,
                "    for (int i = threadIdx.x; i < {}; i += N_THREADS) squares += m.squares[{} + i];",
                tiles.len(),
                tiles.start
            );
        }
        let _ = write!(
            text,
            "    const double norm = sqrt(block_sum(squares)), most = m.constants[4 * {o} + 3];\n    \
             if (!(norm - norm == 0.0)) {{\n        m.counters[COUNTER_FAULT] = {}u;\n        return;\n    }}\n    \
             const double part_of_norm = most > 0.0 ? most / (norm + 1e-6) : 1.0;\n    \
             const float scale = (float)(part_of_norm < 1.0 ? part_of_norm : 1.0);\n    \
             const AdamStep step = m.steps[{o}];\n",
            o + 1
        );
        let apply = "        each_of_tile(tile, [&](long long to) {\n            \
             adam(step, m.gradient[to] * scale, m.parameters[to], m.exp_avg[to], m.exp_avg_sq[to]);\n        });\n";
        text + &self.each_tile(models, 1, |_, _, _| apply.into())
    }

    /// Moves targets by the share in cell `tau` towards their sources.
    pub(super) fn blend(&self, targets: &[ModelId], tau: usize) -> String {
        let mut text = format!("    const float tau = m.cells[{tau}];\n");
        for id in targets {
            let Some(source) = self.scene.plan.models[id.0].target_of else { continue };
            let layout = self.scene.layout;
            let (to, from) = (&layout.model(*id).parameters, &layout.model(source).parameters);
            let _ = write!(
                text,
                "    if (item < {parts}) {{\n        \
                 for (int i = item * {BLENDED} + threadIdx.x; i < {n} && i < (item + 1) * {BLENDED}; i += N_THREADS) {{\n            \
                 float* target = m.parameters + {}ll + i;\n            \
                 *target += tau * (m.parameters[{}ll + i] - *target);\n        }}\n        return;\n    }}\n    \
                 item -= {parts};\n",
                to.start,
                from.start,
                parts = to.len().div_ceil(BLENDED),
                n = to.len(),
            );
        }
        text
    }

    /// Adds means of columns to the figures' sums.
    pub(super) fn figures(&self, figures: &[FigureId]) -> String {
        let plan = self.scene.plan;
        let mut text = String::new();
        for (item, id) in figures.iter().enumerate() {
            let column = plan.figures[id.0].column;
            let n = self.scene.layout.of_rows(plan.columns[column.0].rows).rows;
            let _ = write!(
                text,
                "    if (item == {item}) {{\n        double sum = 0.0;\n        \
                 for (int i = threadIdx.x; i < {n}; i += N_THREADS) sum += (double)m.column[{}][i];\n        \
                 sum = block_sum(sum);\n        if (threadIdx.x == 0) {{\n            \
                 m.figures[{}] += sum / {n}.0;\n            m.figures[{}] += 1.0;\n        }}\n        return;\n    }}\n",
                column.0,
                2 * id.0,
                2 * id.0 + 1
            );
        }
        text
    }
}
