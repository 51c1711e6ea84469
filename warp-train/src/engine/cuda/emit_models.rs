//! The code of the work that all blocks share: gradients, optimisers, targets and metrics.

use super::emit::Emitter;
use super::layer::{Layer, TILE, TileGroup};
use super::layout::{Layout, ModelShape, Part};
use super::op::{Follow, Op};
use super::ranks;
use super::recompute::InputsShape;
use crate::algorithm::{FigureId, ModelId, OptimiserId, PassId};
use crate::engine::collectives;
use std::fmt::Write;

impl Emitter<'_> {
    /// Parts of `op` that all blocks share.
    pub(super) fn items(&self, op: &Op) -> usize {
        let layout = self.context.layout;
        let tiles = |models: &[ModelId]| -> usize {
            models.iter().map(|id| layout.model(*id).tiles.len()).sum()
        };
        match op {
            Op::WeightGradients(passes) => tiles(&self.models_of(passes)) * layout.shares,
            Op::Learn(passes, ..) if self.context.crowded() => {
                self.models_of(passes).iter().map(|id| layout.model(*id).groups()).sum()
            }
            Op::Learn(passes, ..) | Op::Gather(passes) => tiles(&self.models_of(passes)),
            Op::Descend(id) | Op::Sum(id) => tiles(&self.context.plan.optimisers[id.0].models),
            Op::PolyakUpdate(models, _) | Op::Pack(models) => tiles(models),
            Op::Figures(figures) => figures.len(),
            Op::AddPriorities
            | Op::SampleByPriority
            | Op::UpdatePriorities
            | Op::PriorityStats
            | Op::ImportanceWeights => self.context.division.shards,
            _ => 0,
        }
    }

    /// The models of `passes`, each once.
    fn models_of(&self, passes: &[PassId]) -> Vec<ModelId> {
        let mut models: Vec<_> =
            passes.iter().map(|id| self.context.plan.passes[id.0].model).collect();
        models.sort_unstable();
        models.dedup();
        models
    }

    /// Finds the tile of weights number `item` among those of `models`, with `of` behind its description,
    /// which may use `o` and `i`, its part of the outputs and the inputs; `parts` items are one tile.
    fn each_tile(
        &self,
        models: &[ModelId],
        parts: usize,
        mut of: impl FnMut(ModelId, Part, &Layer) -> String,
    ) -> String {
        let mut text = String::new();
        for id in models {
            for (part, layer) in self.context.layout.model(*id).parts() {
                let across = layer.k / TILE;
                let _ = write!(
                    text,
                    "    if (item < {items}) {{\n        \
                     const int part = item % {parts}, at = item / {parts}, o = at / {across}, i = at % {across};\n        \
                     const WeightTile tile = {};\n        (void)part;\n{}        return;\n    }}\n    item -= {items};\n",
                    self.tile(layer, "o", "i"),
                    of(*id, part, layer),
                    items = layer.n_tiles() * parts,
                );
            }
        }
        text
    }

    /// Where a model's gradient over the rows here goes: to where other ranks hear of it, if there are any.
    fn gradient(&self, model: ModelId) -> String {
        let (plan, layout) = (self.context.plan, self.context.layout);
        let told = self.context.has_ranks().then(|| ranks::place(plan, layout, model)).flatten();
        told.map_or("m.gradient".into(), |(o, behind)| format!("(m.told[{o}] + {behind}ll)"))
    }

    /// Sums of gradients, which are kept.
    pub(super) fn weight_gradients(&self, passes: &[PassId]) -> String {
        let (layout, parts) = (self.context.layout, self.context.layout.shares);
        let after = match parts {
            1 if self.context.has_ranks() => "        (void)squares;\n",
            1 => "        if (threadIdx.x == 0) m.squares[tile.number] = squares;\n",
            _ => "        (void)squares;\n",
        };
        self.each_tile(&self.models_of(passes), parts, |model, part, layer| {
            let slabs = self.slabs(passes, model, (part, layer));
            let (slabs, n) = (slabs.join(", "), slabs.len());
            let gradient = if parts > 1 { "m.gradient".into() } else { self.gradient(model) };
            let pairwise = self.pairwise(model, part);
            format!(
                "        const Slab slabs[] = {{{slabs}}};\n        Record take = {{{gradient} + part * {}ll, 0.0}};\n        \
                 double squares = weight_tile(tile, slabs, {n}, part, {parts}, {pairwise}, take);\n{after}",
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
        if self.context.crowded() {
            return self.learn_by_groups(passes, &models, OptimiserId(o), follows);
        }
        if self.learns_at_once(passes) {
            return self.learn_by_tiles(passes, &models, OptimiserId(o), follows);
        }
        self.each_tile(&models, 1, |model, part, layer| {
            let slabs = self.slabs(passes, model, (part, layer));
            let descent = self.descent(model, OptimiserId(o), follows);
            let pairwise = self.pairwise(model, part);
            format!(
                "        const Slab slabs[] = {{{}}};\n        auto take = {descent};\n        \
                 weight_tile(tile, slabs, {}, part, 1, {pairwise}, take);\n",
                slabs.join(", "),
                slabs.len()
            )
        })
    }

    /// Sums and steps of several tiles at a time: which they are is found first, so that there is one call for all layers, and
    /// what it is told stays in registers.
    fn learn_by_groups(
        &self,
        passes: &[PassId],
        models: &[ModelId],
        optimiser: OptimiserId,
        follows: &[Follow],
    ) -> String {
        let of_model = |id: &ModelId| {
            passes.iter().filter(|pass| self.context.plan.passes[pass.0].model == *id).count()
        };
        let most = models.iter().map(of_model).max().unwrap_or(0);
        let mut text = format!(
            "    WeightTile tile;\n    TileGroup group;\n    int n_slabs;\n    Slab slabs[{most}];\n    Recomputed recomputed;\n    FirstParts parts;\n    Descent take;\n"
        );
        text += &self.find_part(models, |id, part, layer| {
            self.learn_group(passes, id, (part, layer), optimiser, follows)
        });
        text + "    step_tiles(tile, group, slabs, n_slabs, recomputed, parts, take);\n"
    }

    /// Finds what has `item`: of each part there are so many items, and what is to be said of one.
    fn find_part(
        &self,
        models: &[ModelId],
        of: impl Fn(ModelId, Part, &Layer) -> (usize, String),
    ) -> String {
        let parts = |id: &ModelId| self.context.layout.model(*id).parts();
        let mut all: Vec<_> = models
            .iter()
            .flat_map(|id| parts(id).map(|(part, layer)| (*id, part, layer)))
            .collect();
        // Small layers first: a fleet of 64 makes 2 % more updates than in the layers' order, 6 % more than with large ones
        // first.
        all.sort_by_key(|(_, _, layer)| layer.k * layer.n);
        let mut text = String::new();
        for (id, part, layer) in &all {
            let (n, found) = of(*id, *part, layer);
            let _ =
                write!(text, "    if (item < {n}) {{\n{found}    }} else {{\n    item -= {n};\n");
        }
        text + "    return;\n    " + &"}".repeat(all.len()) + "\n"
    }

    /// Does `work` with the tile number `item` among those of `models`, which may use what `of_model` sets of the
    /// `declared` variables.
    ///
    /// With large batches on one GPU, the tile is found first, so that there is one text for all layers: `fast_td3` is
    /// compiled in half the time. With small ones, a text for each layer saves 3 % of an update.
    fn with_tile(
        &self,
        models: &[ModelId],
        declared: &str,
        of_model: impl Fn(ModelId) -> String,
        work: &str,
    ) -> String {
        if self.context.layout.shares == 1 || self.context.has_ranks() {
            return self
                .each_tile(models, 1, |id, _, _| format!("{declared}{}{work}", of_model(id)));
        }
        let find = self.find_part(models, |id, _, layer| {
            let across = layer.k / TILE;
            let found = format!(
                "        const int o = item / {across}, i = item % {across};\n        tile = {};\n{}",
                self.tile(layer, "o", "i"),
                of_model(id)
            );
            (layer.n_tiles(), found)
        });
        format!("    WeightTile tile;\n{declared}{find}{work}")
    }

    /// Whether all that a tile needs is brought at once: each model must have one pass that learns.
    fn learns_at_once(&self, passes: &[PassId]) -> bool {
        self.context.brings_tiles() && self.models_of(passes).len() == passes.len()
    }

    /// As `learn_by_groups`, a tile at a time.
    fn learn_by_tiles(
        &self,
        passes: &[PassId],
        models: &[ModelId],
        optimiser: OptimiserId,
        follows: &[Follow],
    ) -> String {
        let find = self.find_part(models, |id, part, layer| {
            let across = layer.k / TILE;
            let found = format!(
                "        const int o = item / {across}, i = item % {across};\n        tile = {};\n        slab = {};\n        \
                 pairwise = {};\n        take = {};\n",
                self.tile(layer, "o", "i"),
                self.slabs(passes, id, (part, layer)).concat(),
                self.pairwise(id, part),
                self.descent(id, optimiser, follows)
            );
            (layer.n_tiles(), found)
        });
        "    WeightTile tile;\n    Slab slab;\n    bool pairwise;\n    DescentAhead take;\n"
            .to_owned()
            + &find
            + "    learn_tile(tile, slab, pairwise, take);\n"
    }

    /// Says what the tiles of a part of a model are.
    fn learn_group(
        &self,
        passes: &[PassId],
        id: ModelId,
        (part, layer): (Part, &Layer),
        optimiser: OptimiserId,
        follows: &[Follow],
    ) -> (usize, String) {
        let TileGroup { high, wide, across, n, halves } =
            self.context.layout.model(id).group(part, layer);
        let slabs = self.slabs(passes, id, (part, layer));
        let recomputed = self.recomputed(passes, id, part).unwrap_or("Recomputed{}".into());
        let parts = self.first_parts(passes, (id, part), &format!("2 * (o + own / {wide})"));
        let parts = parts.unwrap_or("FirstParts{}".into());
        let assign = |(i, slab): (usize, &String)| format!("        slabs[{i}] = {slab};\n");
        let found = format!(
            "        const int o = item / {across} * {high}, i = item % {across} * {wide}, own = threadIdx.x / {};\n        \
             tile = {};\n        group = {{{high}, {wide}, {halves}}};\n        n_slabs = {};\n{}        recomputed = {recomputed};\n        parts = {parts};\n        take = {};\n",
            64 / halves,
            self.tile(layer, &format!("(o + own / {wide})"), &format!("(i + own % {wide})")),
            slabs.len(),
            slabs.iter().enumerate().map(assign).collect::<String>(),
            self.descent(id, optimiser, follows)
        );
        (n, found)
    }

    /// Whether the sums of a layer's gradients are in the order of first.cu.
    fn pairwise(&self, model: ModelId, part: Part) -> bool {
        part == Part::Layer(0) && self.context.layout.model(model).omitted.is_summed(0)
    }

    /// Where passes keep their parts of the sums of a part, from 16 outputs times `before` on; none of others than first
    /// layers.
    fn first_parts(
        &self,
        passes: &[PassId],
        (model, part): (ModelId, Part),
        before: &str,
    ) -> Option<String> {
        let layout = self.context.layout;
        let id = passes.iter().find(|id| self.context.plan.passes[id.0].model == model)?;
        let at = layout.pass(*id).substitute.first.filter(|_| part == Part::Layer(0))?;
        Some(self.first_parts_at(at, layout.model(model).layers[0].n, before))
    }

    /// A first layer's parts that lie there in the scratch memory.
    pub(super) fn first_parts_at(&self, at: usize, outputs: usize, before: &str) -> String {
        format!("FirstParts{{(float*)(m.scratch + {at}ll), {outputs}, {before}}}")
    }

    /// What derivatives by the sums of a layer are made of, if they are recomputed, from the group's first output on.
    fn recomputed(&self, passes: &[PassId], model: ModelId, part: Part) -> Option<String> {
        let Part::Layer(l) = part else { return None };
        let layout = self.context.layout;
        let ModelShape { layers, omitted, .. } = layout.model(model);
        let of_model = |id: &&PassId| self.context.plan.passes[id.0].model == model;
        let shape =
            layout.pass(*passes.iter().find(of_model).filter(|_| omitted.is_recomputed(l))?);
        let (on, weights) = (shape.on[l + 1]?, shape.substitute.weights?);
        let inputs = |InputsShape { operands, weights, biases }| {
            format!(
                ", m.scratch + {operands}ll, (const uint2*)(m.scratch + {weights}ll) + 64 * i, \
                 (const float*)(m.scratch + {biases}ll) + 32 * i"
            )
        };
        Some(format!(
            "Recomputed{{m.scratch + {}ll, {}, (const unsigned char*)(m.scratch + {on}ll), {}, \
             (const uint2*)(m.scratch + {weights}ll){}}}",
            shape.deltas[l + 1],
            layers[l + 1].n,
            8 * layers[l].n,
            shape.substitute.inputs.map_or(String::new(), inputs)
        ))
    }

    /// The step along a model's gradients, and a target that follows it, if one does: how far behind the model's
    /// parameters it lies, how fast it follows, and whether passes go back through it.
    fn descent(&self, model: ModelId, OptimiserId(o): OptimiserId, follows: &[Follow]) -> String {
        let plan = self.context.plan;
        let of_model = |follow: &&Follow| plan.models[follow.target.0].target_of == Some(model);
        let first = |id: ModelId| self.context.layout.model(id).parameters.start as i64;
        let follow = follows.iter().find(of_model);
        let behind = follow.map_or(0, |follow| first(follow.target) - first(model));
        let is_back =
            |target| plan.passes.iter().any(|pass| pass.model == target && pass.back.is_some());
        let back = follow.is_some_and(|follow| is_back(follow.target));
        // Any cell, where nothing follows.
        let tau = follow.map_or(0, |follow| follow.tau.0);
        let (kind, constants) = match self.context.crowded() {
            true => ("Descent", format!("m.steps[{o}], m.cells[{tau}]")),
            false => ("DescentAhead", format!("m.steps + {o}, m.cells + {tau}")),
        };
        format!(
            "{kind}{{m.parameters, m.exp_avg, m.exp_avg_sq, {behind}ll, {back}, m.counters + COUNTER_FAULT, {}u, \
             {{{constants}}}}}",
            o + 1
        )
    }

    /// The rows that a layer's gradient is summed of, one for each pass that has them.
    fn slabs(
        &self,
        passes: &[PassId],
        model: ModelId,
        (part, layer): (Part, &Layer),
    ) -> Vec<String> {
        let own = passes.iter().filter(|id| self.context.plan.passes[id.0].model == model);
        own.map(|id| self.slab(*id, part, layer)).collect()
    }

    fn slab(&self, id: PassId, part: Part, Layer { k, n, .. }: &Layer) -> String {
        let shape = self.context.layout.pass(id);
        let (x, k, d) = match part {
            Part::Layer(l) => (shape.inputs[l], k, shape.deltas[l]),
            // Nothing is taken of the products with x: there are no inputs.
            Part::Gains(l) => (shape.norms[l].gains, n, shape.norms[l].gains),
            Part::Shifts(l) => (shape.norms[l].shifts, n, shape.norms[l].shifts),
        };
        let rows = self.context.plan.columns[self.context.plan.passes[id.0].output.0].rows;
        format!(
            "Slab{{m.scratch + {x}ll + 32 * i, m.scratch + {d}ll + 32 * o, {k}, {n}, {}}}",
            self.context.layout.of_rows(rows).padded()
        )
    }

    /// Adds the shares of gradients up.
    pub(super) fn gather(&self, passes: &[PassId]) -> String {
        let Layout { shares, n_parameters, .. } = self.context.layout;
        let share = format!("m.gradient[share * {n_parameters}ll + to]");
        let work = sum_of_copies("share", *shares, &share, "gradient[to]");
        let models = self.models_of(passes);
        let gradient = |model| format!("        gradient = {};\n", self.gradient(model));
        self.with_tile(&models, "    float* gradient;\n", gradient, &work)
    }

    /// Adds the gradients of an optimiser's models up over ranks.
    pub(super) fn sum_ranks(&self, OptimiserId(o): OptimiserId) -> String {
        let (plan, layout) = (self.context.plan, self.context.layout);
        let models = &plan.optimisers[o].models;
        let n: usize = models.iter().map(|id| layout.model(*id).parameters.len()).sum();
        let copies = collectives::copies(n, self.context.division.ranks);
        self.each_tile(models, 1, |model, _, _| {
            let behind = ranks::place(plan, layout, model).map_or(0, |(_, behind)| behind);
            let from = format!("m.heard[{o}][rank * {n}ll + to + {behind}ll]");
            sum_of_copies("rank", copies, &from, "m.gradient[to]")
        })
    }

    /// A step along gradients that lie there, by the norm of all.
    pub(super) fn descend(&self, OptimiserId(o): OptimiserId) -> String {
        let models = &self.context.plan.optimisers[o].models;
        let mut text = String::from("    double squares = 0.0;\n");
        for id in models {
            let tiles = &self.context.layout.model(*id).tiles;
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
             const DescentStep step = m.steps[{o}];\n",
            o + 1
        );
        let work = "    each_of_tile<N_THREADS>(tile, [&](long long to) {\n        \
             descend(step, m.gradient[to] * scale, m.parameters[to], m.exp_avg[to], m.exp_avg_sq[to]);\n    });\n    \
             pack_tile<N_THREADS>(tile, m.parameters);\n";
        text + &self.with_tile(models, "", |_| String::new(), work)
    }

    /// Moves targets by the share in cell `tau` towards their sources.
    pub(super) fn polyak_update(&self, targets: &[ModelId], tau: usize, threads: usize) -> String {
        let first = |id: ModelId| self.context.layout.model(id).parameters.start as i64;
        let source = |id: ModelId| self.context.plan.models[id.0].target_of.unwrap_or(id);
        let behind = |id| format!("        behind = {}ll;\n", first(source(id)) - first(id));
        let work = format!(
            "    each_of_tile<{threads}>(tile, [&](long long to) {{\n        \
             m.parameters[to] = __fmaf_rn(tau, m.parameters[to + behind] - m.parameters[to], m.parameters[to]);\n    }});\n    \
             pack_tile<{threads}>(tile, m.parameters);\n"
        );
        let text = format!("    const float tau = m.cells[{tau}];\n");
        text + &self.with_tile(targets, "    long long behind;\n", behind, &work)
    }

    /// Packs what the host has set.
    pub(super) fn pack(&self, models: &[ModelId], threads: usize) -> String {
        let work = format!("    pack_tile<{threads}>(tile, m.parameters);\n");
        self.with_tile(models, "", |_| String::new(), &work)
    }

    /// Adds means of columns to the figures' sums.
    pub(super) fn figures(&self, figures: &[FigureId]) -> String {
        let plan = self.context.plan;
        let mut text = String::new();
        for (item, id) in figures.iter().enumerate() {
            let column = plan.figures[id.0].column;
            let n = self.context.layout.of_rows(plan.columns[column.0].rows).rows;
            let _ = writeln!(
                text,
                "    if (item == {item}) add_mean(m.column[{}], {n}, m.figures + {});",
                column.0,
                2 * id.0
            );
        }
        text
    }

    /// The description of the tile of a layer's weights that is number `o` among those of its outputs and number `i`
    /// among those of its inputs.
    fn tile(&self, layer: &Layer, o: &str, i: &str) -> String {
        let Layer { inputs, outputs, k, n, weight, bias, tile, packed, packed_back } = *layer;
        let across = k / TILE;
        let first = match self.context.layout.half {
            true => format!("({o} * {across} + {i}) * {}ll", TILE * TILE),
            false => format!("{o} * {}ll + {i} * 32", TILE * k),
        };
        format!(
            "WeightTile{{{weight}ll + {first}, {k}, \
             {i} == 0 ? {bias}ll + {o} * 32 : -1ll, {outputs} - 32 * {o}, {inputs} - 32 * {i}, \
             {tile} + {o} * {across} + {i}, m.packed + {packed}ll + ({o} * {} + 2 * {i}) * 512, \
             m.packed + {packed_back}ll + ({i} * {} + 2 * {o}) * 512}}",
            k / 16,
            n / 16
        )
    }
}

/// Sums so many `copies` of a tile's numbers, which lie at `from`, and their squares.
fn sum_of_copies(copy: &str, copies: usize, from: &str, to: &str) -> String {
    format!(
        "    double squares = 0.0;\n    each_of_tile<N_THREADS>(tile, [&](long long to) {{\n        \
         float sum = 0.0f;\n        \
         for (int {copy} = 0; {copy} < {copies}; ++{copy}) sum += {from};\n        \
         {to} = sum;\n        squares += (double)sum * (double)sum;\n    }});\n    \
         squares = block_sum(squares);\n    if (threadIdx.x == 0) m.squares[tile.number] = squares;\n"
    )
}
