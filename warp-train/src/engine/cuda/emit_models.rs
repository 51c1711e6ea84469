//! The text of what all blocks share: gradients, optimisers, targets and figures.

use super::emit::Emitter;
use super::layout::{Eight, Layer, TILE};
use super::op::Follow;
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
                let across = layer.k / TILE;
                let _ = write!(
                    text,
                    "    if (item < {items}) {{\n        \
                     const int part = item % {parts}, at = item / {parts}, o = at / {across}, i = at % {across};\n{}        \
                     (void)part;\n{}        return;\n    }}\n    item -= {items};\n",
                    tile(layer, "o", "i"),
                    of(*id, l, layer),
                    items = layer.n_tiles() * parts,
                );
            }
        }
        text
    }

    /// Finds the eight tiles number `item`, and which of them is the warp's, with `of` behind.
    fn each_eight(
        &self,
        models: &[ModelId],
        mut of: impl FnMut(ModelId, usize, &Layer) -> String,
    ) -> String {
        let mut text = String::from("    const int warp = threadIdx.x / 32;\n");
        for id in models {
            for (l, layer) in self.scene.layout.model(*id).layers.iter().enumerate() {
                let Eight { high, wide, across, n } = layer.eight();
                let _ = write!(
                    text,
                    "    if (item < {n}) {{\n        \
                     const int o = item / {across} * {high}, i = item % {across} * {wide};\n{}{}        \
                     return;\n    }}\n    item -= {n};\n",
                    tile(layer, &format!("(o + warp / {wide})"), &format!("(i + warp % {wide})")),
                    of(*id, l, layer),
                );
            }
        }
        text
    }

    /// Sums of gradients, which are kept.
    pub(super) fn weights(&self, passes: &[PassId]) -> String {
        let (layout, parts) = (self.scene.layout, self.scene.layout.shares);
        let after = match parts {
            1 => "        if (threadIdx.x == 0) m.squares[tile.number] = squares;\n",
            _ => "        (void)squares;\n",
        };
        self.each_tile(&self.models_of(passes), parts, |model, l, layer| {
            let (slabs, n) = self.slabs(passes, model, (l, layer));
            format!(
                "{slabs}        Record take = {{m.gradient + part * {}ll, 0.0}};\n        \
                 double squares = weight_tile(tile, slabs, {n}, part, {parts}, take);\n{after}",
                layout.n_parameters
            )
        })
    }

    /// Sums of gradients, along which a step is made at once.
    pub(super) fn learn(
        &self,
        passes: &[PassId],
        OptimiserId(o): OptimiserId,
        follows: &[Follow],
    ) -> String {
        let models = self.models_of(passes);
        let of = |model, l, layer: &Layer, call: &dyn Fn(usize) -> String| {
            let (slabs, n) = self.slabs(passes, model, (l, layer));
            let target = self.target(model, follows);
            format!(
                "{slabs}        Descent take = {{m.parameters, m.exp_avg, m.exp_avg_sq, {target}, \
                 m.counters + COUNTER_FAULT, {}u, m.steps[{o}]}};\n        {}\n",
                o + 1,
                call(n)
            )
        };
        if self.scene.crowded() {
            return self.each_eight(&models, |model, l, layer| {
                let Eight { high, wide, .. } = layer.eight();
                of(model, l, layer, &|n| {
                    format!("eight_tiles(tile, {high}, {wide}, slabs, {n}, take);")
                })
            });
        }
        self.each_tile(&models, 1, |model, l, layer| {
            of(model, l, layer, &|n| format!("weight_tile(tile, slabs, {n}, part, 1, take);"))
        })
    }

    /// What a step knows of the target that follows a model, if one does: how far behind the model's parameters it
    /// lies, how fast it follows, and whether passes go back through it.
    fn target(&self, model: ModelId, follows: &[Follow]) -> String {
        let plan = self.scene.plan;
        let of_model = |follow: &&Follow| plan.models[follow.target.0].target_of == Some(model);
        let Some(Follow { target, tau }) = follows.iter().find(of_model) else {
            return "0ll, 0.0f, false".into();
        };
        let first = |id: ModelId| self.scene.layout.model(id).parameters.start as i64;
        let behind = first(*target) - first(model);
        let back = plan.passes.iter().any(|pass| pass.model == *target && pass.back.is_some());
        format!("{behind}ll, m.cells[{}], {back}", tau.0)
    }

    /// The rows that a layer's gradient is summed of, as `slabs`, and how many passes have them.
    fn slabs(
        &self,
        passes: &[PassId],
        model: ModelId,
        (l, layer): (usize, &Layer),
    ) -> (String, usize) {
        let own = passes.iter().filter(|id| self.scene.plan.passes[id.0].model == model);
        let slabs: Vec<String> = own.map(|id| self.slab(*id, l, layer)).collect();
        (format!("        const Slab slabs[] = {{{}}};\n", slabs.join(", ")), slabs.len())
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
            "        double squares = 0.0;\n        each_of_tile<N_THREADS>(tile, [&](long long to) {{\n            \
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
        let apply = "        each_of_tile<N_THREADS>(tile, [&](long long to) {\n            \
             adam(step, m.gradient[to] * scale, m.parameters[to], m.exp_avg[to], m.exp_avg_sq[to]);\n        });\n        \
             pack_tile<N_THREADS>(tile, m.parameters);\n";
        text + &self.each_tile(models, 1, |_, _, _| apply.into())
    }

    /// Moves targets by the share in cell `tau` towards their sources.
    pub(super) fn blend(&self, targets: &[ModelId], tau: usize, threads: usize) -> String {
        let layout = self.scene.layout;
        let first = |id: ModelId| layout.model(id).parameters.start;
        let text = format!("    const float tau = m.cells[{tau}];\n");
        text + &self.each_tile(targets, 1, |id, _, _| {
            let source = self.scene.plan.models[id.0].target_of.unwrap_or(id);
            format!(
                "        each_of_tile<{threads}>(tile, [&](long long to) {{\n            \
                 m.parameters[to] += tau * (m.parameters[to + {} - {}] - m.parameters[to]);\n        }});\n        \
                 pack_tile<{threads}>(tile, m.parameters);\n",
                first(source),
                first(id)
            )
        })
    }

    /// Packs what the host has set.
    pub(super) fn pack(&self, models: &[ModelId], threads: usize) -> String {
        self.each_tile(models, 1, |_, _, _| {
            format!("        pack_tile<{threads}>(tile, m.parameters);\n")
        })
    }

    /// Adds means of columns to the figures' sums.
    pub(super) fn figures(&self, figures: &[FigureId]) -> String {
        let plan = self.scene.plan;
        let mut text = String::new();
        for (item, id) in figures.iter().enumerate() {
            let column = plan.figures[id.0].column;
            let n = self.scene.layout.of_rows(plan.columns[column.0].rows).rows;
            let _ = writeln!(
                text,
                "    if (item == {item}) add_mean(m.column[{}], {n}, m.figures + {});",
                column.0,
                2 * id.0
            );
        }
        text
    }
}

/// The description of the tile of a layer's weights that is number `o` among those of its outputs and number `i`
/// among those of its inputs.
fn tile(layer: &Layer, o: &str, i: &str) -> String {
    let Layer { inputs, outputs, k, n, weight, bias, tile, packed, packed_back } = *layer;
    format!(
        "        const WeightTile tile = {{{weight}ll + {o} * {}ll + {i} * 32, {k}, \
         {i} == 0 ? {bias}ll + {o} * 32 : -1ll, {outputs} - 32 * {o}, {inputs} - 32 * {i}, \
         {tile} + {o} * {} + {i}, m.packed + {packed}ll + ({o} * {} + 2 * {i}) * 512, \
         m.packed + {packed_back}ll + ({i} * {} + 2 * {o}) * 512}};\n",
        TILE * k,
        k / TILE,
        k / 16,
        n / 16
    )
}
