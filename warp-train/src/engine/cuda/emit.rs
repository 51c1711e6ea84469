//! The code of each operation: calls of fixed functions with a plan's offsets and widths as constants.

use super::context::{ProgramContext, namespace};
use super::layer::{Layer, TILE};
use super::op::{BackwardTarget, Op};
use super::row_tiles::{RowTiles, WARPS};
use super::schedule::Segment;
use super::shards;
use crate::algorithm::{OptimiserId, Pass, PassId, RowsId, RowsOf};
use crate::engine::cpu::ACTING_BITS;
use crate::model::Activation;
use std::fmt::Write;

/// Numbers of an observation up to which every block of a team draws all rows of a tile. Twin of SAMPLE_LANES.
const MOST_SAMPLED: usize = 64;

/// The beginning of acting.
const ADVANCE_FIRST: &str = "    wait_for_previous_kernel();
    if (BLOCK == BLOCKS - 1u && threadIdx.x == 0) {
        advance_ring(m);
        __threadfence();
    }
    __syncthreads();
    allow_next_kernel();
";

/// Writes functions and counts what they need.
#[derive(Debug)]
pub(super) struct Emitter<'a> {
    pub(super) context: &'a ProgramContext<'a>,
    pub(super) tiles: RowTiles,
    /// The functions so far.
    pub(super) functions: String,
    n_functions: usize,
    /// Whether the team meets within the last function.
    last_meets: bool,
    /// Parts of the largest segment whose parts all blocks share.
    pub(super) most_items: usize,
}

/// A product of each pass at the same depth.
struct Job {
    /// What `Product`s are made of, for column part `c`.
    product: String,
    /// Parts of 32 columns, and the first of them.
    parts: usize,
    first: usize,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(context: &'a ProgramContext<'a>, tiles: RowTiles) -> Self {
        Self {
            context,
            tiles,
            functions: String::new(),
            n_functions: 0,
            last_meets: false,
            most_items: 0,
        }
    }

    /// What stands in the kernel for a segment.
    pub(super) fn segment(&mut self, segment: &Segment) -> String {
        let advances = segment.advances_first();
        let mut text = if advances { ADVANCE_FIRST.into() } else { String::new() };
        text += &match segment.rows {
            Some(rows) => self.of_tiles(&segment.ops, rows),
            None => self.of_items(&segment.ops),
        };
        if segment.ops.contains(&Op::StoreIfDrawn) {
            // What is still made reads what the other segments write.
            text +=
                "    if (BLOCK == BLOCKS - 1u) store_now(m);\n    wait_for_previous_kernel();\n";
        }
        if !advances {
            text += &self.singles(&segment.single);
        }
        text
    }

    /// Each of `ops` by a thread of another warp, all at the same time.
    fn singles(&self, ops: &[Op]) -> String {
        let single = |(i, op): (usize, &Op)| {
            let thread = 32 * (i % WARPS);
            format!(
                "    if (BLOCK == BLOCKS - 1u && threadIdx.x == {thread}) {{\n{}    }}\n",
                self.single(op)
            )
        };
        ops.iter().enumerate().map(single).collect()
    }

    /// Tiles go through all of `ops`, one after the other.
    fn of_tiles(&mut self, ops: &[Op], rows: RowsOf) -> String {
        let n = self.context.layout.of_rows(rows).n;
        let mut text = format!(
            "    for (unsigned int tile = BLOCK / TEAM; tile < {n}u; tile += BLOCKS / TEAM) {{\n        \
             const unsigned int block = BLOCK % TEAM;\n"
        );
        let plan = self.context.plan;
        let mut pending: Vec<&Op> = Vec::new();
        // What every block has done for itself, and all that since the team met.
        let (mut own, mut done): (Vec<&Op>, Vec<&Op>) = (Vec::new(), Vec::new());
        let samples_early = ops.contains(&Op::StoreIfDrawn) && self.is_by_all(&Op::Sample);
        for (i, op) in ops.iter().enumerate() {
            // Sampling keeps the step, too.
            if samples_early && *op == Op::StoreIfDrawn {
                continue;
            }
            let waits = |others: &[&Op]| others.iter().any(|other| op.conflicts(other, plan));
            if waits(&pending) || done.iter().any(|other| op.overwrites(other, plan)) {
                text += "        team_sync();\n";
                [&mut pending, &mut own, &mut done].into_iter().for_each(Vec::clear);
            } else if waits(&own) {
                text += "        __syncthreads();\n";
                own.clear();
            }
            let call = match op {
                Op::Sample if samples_early => "sample_early(m, ".into(),
                _ => self.function(op),
            };
            if self.is_by_all(op) {
                let _ = writeln!(text, "        {call}tile, {}u);", i % WARPS);
                own.push(op);
                done.push(op);
                continue;
            }
            // Its parts go to those blocks of the team that come behind the ones with earlier parts.
            let before = ops[..i].iter().map(Op::n_parts).sum::<usize>();
            let before = before * self.tiles.share % self.tiles.team;
            let _ = writeln!(
                text,
                "        {call}tile, (block + {}u) % TEAM);",
                self.tiles.team - before
            );
            // Layers wait for each other.
            if self.last_meets {
                pending.clear();
            }
            pending.push(op);
        }
        text + "    }\n"
    }

    /// All blocks share the parts of `ops`; their warps do where there are few blocks.
    fn of_items(&mut self, ops: &[Op]) -> String {
        let (small, large): (Vec<&Op>, _) = ops.iter().partition(|op| self.item_threads(op) == 32);
        let mut text = String::new();
        if !large.is_empty() {
            text += &self.items_of(&large, "BLOCK", "BLOCKS");
        }
        if !small.is_empty() {
            let (first, step) = ("BLOCK * N_WARPS + threadIdx.x / 32", "BLOCKS * N_WARPS");
            text += "    __syncthreads();\n";
            text += &self.items_of(&small, first, step);
        }
        text
    }

    /// Threads that do one part of `op`.
    pub(super) fn item_threads(&self, op: &Op) -> usize {
        let by_warp = self.context.runs > 1 && self.context.layout.half;
        match op {
            Op::PolyakUpdate(..) | Op::Pack(_) if by_warp => 32,
            _ => 32 * WARPS,
        }
    }

    fn items_of(&mut self, ops: &[&Op], first: &str, step: &str) -> String {
        let mut parts = String::new();
        let mut total = 0;
        for op in ops {
            let n = self.items(op);
            let call = self.function(op);
            let _ = writeln!(
                parts,
                "        if (item < {}) {{ {call}item - {total}); continue; }}",
                total + n
            );
            total += n;
        }
        self.most_items = self.most_items.max(total);
        format!("    for (int item = {first}; item < {total}; item += {step}) {{\n{parts}    }}\n")
    }

    fn single(&self, op: &Op) -> String {
        match op {
            Op::AdvanceRing => "        advance_ring(m);\n".into(),
            Op::RaiseMaxPriority if self.context.has_shards() => shards::RAISE_MAX_PRIORITY.into(),
            Op::RaiseMaxPriority => "        raise_max_priority(m);\n".into(),
            Op::Advance => "        m.counters[COUNTER_UPDATES] += 1u;\n".into(),
            Op::Count(OptimiserId(i)) => {
                let optimiser = &self.context.plan.optimisers[*i];
                let (rate, decay) = (optimiser.learning_rate.0, optimiser.config.weight_decay);
                format!(
                    "        begin_step(m.counters + COUNTER_STEPS + {i}, m.constants + 4 * {i}, \
                     m.cells[{rate}], {decay:?}, m.steps + {i});\n"
                )
            }
            _ => String::new(),
        }
    }

    /// Writes the function that does `op` and gives the beginning of a call.
    fn function(&mut self, op: &Op) -> String {
        self.last_meets = false;
        match op {
            Op::LoadObservations => return "load_observations(m, ".into(),
            Op::WriteActions => return "write_actions(m, ".into(),
            Op::Store => return "store(m, ".into(),
            Op::StoreIfDrawn => return "store_if_drawn(m, ".into(),
            Op::NoteEnds => return "note_ends(m, ".into(),
            Op::Sample if self.is_by_all(op) => return "sample_by_all(m, ".into(),
            Op::Sample => return "sample_tile(m, ".into(),
            _ => {}
        }
        let name = format!("work_{}", self.n_functions);
        self.n_functions += 1;
        let by_tile = matches!(op, Op::Forward(..) | Op::Backward(..) | Op::Rows(_));
        let parameters = match by_tile {
            true => "unsigned int tile, unsigned int member",
            false => "int item",
        };
        let half = self.context.layout.half;
        let body = match op {
            Op::Forward(passes, target) if half => self.forward_in_halves(passes, *target),
            Op::Backward(passes, target) if half => self.backward_in_halves(passes, *target),
            Op::Forward(passes, _) => self.forward(passes),
            Op::Backward(passes, target) => self.backward(passes, *target),
            Op::Rows(id) => self.rows(*id, op),
            Op::WeightGradients(passes) => self.weight_gradients(passes),
            Op::Learn(passes, optimiser, follows) => self.learn(passes, *optimiser, follows),
            Op::Gather(passes) => self.gather(passes),
            Op::Sum(id) => self.sum_ranks(*id),
            Op::Descend(id) => self.descend(*id),
            Op::PolyakUpdate(targets, tau) => {
                self.polyak_update(targets, tau.0, self.item_threads(op))
            }
            Op::Pack(models) => self.pack(models, self.item_threads(op)),
            Op::Figures(figures) => self.figures(figures),
            Op::AddPriorities => self.of_priorities("add_priorities"),
            Op::SampleByPriority => self.of_priorities("sample_by_priority"),
            Op::UpdatePriorities => self.of_priorities("update_priorities"),
            Op::PriorityStats => self.of_priorities("tell_priority_stats"),
            Op::ImportanceWeights => self.of_priorities("importance_weights"),
            _ => String::new(),
        };
        self.last_meets = body.contains("team_sync");
        let _ = writeln!(
            self.functions,
            "// {op:?}\n__device__ inline void {name}({parameters}) {{\n{body}}}"
        );
        name + "("
    }

    /// Work on the priorities of all that is here, or of one of several shards.
    fn of_priorities(&self, function: &str) -> String {
        let memory = if self.context.has_shards() { "of_shard(m, item)" } else { "m" };
        format!("    {function}({memory});\n")
    }

    /// The rows of a tile that there are.
    pub(super) fn tile_rows(&self, rows: RowsOf) -> String {
        let n = self.context.layout.of_rows(rows).rows;
        format!(
            "    const long long first = (long long)tile * TILE_ROWS;\n    \
             const int rows = {n} - first < TILE_ROWS ? (int)({n} - first) : TILE_ROWS;\n"
        )
    }

    pub(super) fn pass(&self, id: PassId) -> (&'a Pass, &'a [Layer]) {
        let pass = &self.context.plan.passes[id.0];
        (pass, &self.context.layout.model(pass.model).layers)
    }

    fn forward(&self, passes: &[PassId]) -> String {
        let rows = self.context.plan.columns[self.pass(passes[0]).0.output.0].rows;
        let mut text = self.tile_rows(rows);
        for id in passes {
            let (pass, layers) = self.pass(*id);
            let (to, k) = (self.context.layout.pass(*id).inputs[0], layers[0].k);
            let inputs = self.inputs(pass);
            let _ =
                writeln!(text, "    assemble(m.scratch + {to}ll + first * {k}, {k}, {inputs});");
        }
        text += "    __syncthreads();\n";
        let deepest = passes.iter().map(|id| self.pass(*id).1.len()).max().unwrap_or(0);
        for l in 0..deepest {
            if l > 0 {
                text += "    team_sync();\n";
            }
            let deep = passes.iter().copied().filter(|id| self.pass(*id).1.len() > l);
            let deep: Vec<PassId> = deep.collect();
            let jobs: Vec<Job> = deep.iter().map(|id| self.forward_job(*id, l)).collect();
            text += &self.products(&jobs, false);
            text += &self.normalise(&deep, l);
        }
        text
    }

    /// How many numbers a pass reads, how many rows there are, and what says where they come from.
    fn inputs(&self, pass: &Pass) -> String {
        let mut from = String::new();
        let mut before = 0;
        for column in &pass.inputs {
            let width = self.context.plan.columns[column.0].width;
            let _ = write!(
                from,
                "if (column < {}) return m.column[{}][(first + row) * {width} + column - {before}]; ",
                before + width,
                column.0
            );
            before += width;
        }
        format!("{before}, rows, [&](int row, int column) -> float {{ {from}return 0.0f; }}")
    }

    fn forward_job(&self, id: PassId, l: usize) -> Job {
        let (pass, layers) = self.pass(id);
        let (shape, layer) = (self.context.layout.pass(id), layers[l]);
        let Layer { k, n, weight, bias, outputs, .. } = layer;
        let head = l + 1 == layers.len();
        let (to, stride, high, rows, epilogue) = match head {
            true => {
                let column = pass.output.0;
                let to = format!("m.column[{column}] + first * {outputs}");
                (to, outputs, format!("high_of({outputs} - 32 * c)"), "rows", "LINEAR")
            }
            false => {
                let (to, epilogue) = match self.norm(id, l) {
                    Some((_, norm)) => (norm.unit, "LINEAR"),
                    None => (shape.inputs[l + 1], self.activation(pass)),
                };
                let to = format!("m.scratch + {to}ll + first * {n}");
                (to, n, "32".to_string(), "TILE_ROWS", epilogue)
            }
        };
        let product = format!(
            "{{m.scratch + {}ll + first * {k}, {k}, m.parameters + {weight}ll + c * {}ll, {k}, \
             m.parameters + {bias}ll + c * 32, 0, {to} + c * 32, {stride}, 0, {high}, {rows}, {epilogue}}}",
            shape.inputs[l],
            TILE * k
        );
        Job { product, parts: n / TILE, first: 0 }
    }

    pub(super) fn activation(&self, pass: &Pass) -> &'static str {
        match self.context.plan.models[pass.model.0].network.activation {
            Activation::Tanh => "TANH",
            Activation::Relu => "RELU",
        }
    }

    fn backward(&self, passes: &[PassId], target: BackwardTarget) -> String {
        let rows = self.context.plan.columns[self.pass(passes[0]).0.output.0].rows;
        let mut text = self.tile_rows(rows);
        for id in passes {
            let (pass, layers) = self.pass(*id);
            let (Some(back), Some(head)) = (&pass.back, layers.last()) else { continue };
            let to = self.context.layout.pass(*id).deltas[layers.len() - 1];
            let _ = writeln!(
                text,
                "    assemble(m.scratch + {to}ll + first * {n}, {n}, {outputs}, rows, \
                 [&](int row, int column) -> float {{ \
                 return m.column[{}][(first + row) * {outputs} + column]; }});",
                back.d_output.0,
                n = head.n,
                outputs = head.outputs
            );
        }
        text += "    __syncthreads();\n";
        let deepest = passes.iter().map(|id| self.pass(*id).1.len()).max().unwrap_or(0);
        let mut first = true;
        // From each pass's last layer down: step s is layer depth - 1 - s.
        for step in 0..deepest {
            let jobs: Vec<Job> =
                passes.iter().filter_map(|id| self.delta_job(*id, step, target)).collect();
            if jobs.is_empty() {
                continue;
            }
            if !first {
                text += "    team_sync();\n";
            }
            first = false;
            text += &self.products(&jobs, true);
            let below = |id: &PassId| Some((*id, self.pass(*id).1.len().checked_sub(step + 2)?));
            text += &self.normalise_back(&passes.iter().filter_map(below).collect::<Vec<_>>());
        }
        text
    }

    fn delta_job(&self, id: PassId, step: usize, target: BackwardTarget) -> Option<Job> {
        let (pass, layers) = self.pass(id);
        let shape = self.context.layout.pass(id);
        let l = layers.len().checked_sub(step + 1)?;
        let Layer { k, n, weight, .. } = layers[l];
        let x = format!("m.scratch + {}ll + first * {n}, {n}", shape.deltas[l]);
        let w = format!("m.parameters + {weight}ll + c * 32, {k}, 0");
        if l > 0 {
            let slope = format!("{}_SLOPE", self.activation(pass));
            let to = self.norm(id, l - 1).map_or(shape.deltas[l - 1], |(_, norm)| norm.shifts);
            let product = format!(
                "{{{x}, {w}, m.scratch + {}ll + first * {k} + c * 32, \
                 m.scratch + {to}ll + first * {k} + c * 32, {k}, 0, 32, TILE_ROWS, {slope}}}",
                shape.inputs[l]
            );
            return Some(Job { product, parts: k / TILE, first: 0 });
        }
        let to = pass.back.as_ref()?.d_input.filter(|_| target == BackwardTarget::Input)?;
        let width = |i: usize| self.context.plan.columns[pass.inputs[i].0].width;
        let before: usize = (0..to.input).map(width).sum();
        let (low, width) = (before / TILE, width(to.input));
        let product = format!(
            "{{{x}, {w}, 0, m.column[{}] + first * {width} + c * 32 - {before}, {width}, \
             low_of({before} - 32 * c), high_of({} - 32 * c), rows, PLAIN}}",
            to.column.0,
            before + width
        );
        Some(Job { product, parts: (before + width).div_ceil(TILE) - low, first: low })
    }

    /// A call of `products` that does all jobs.
    fn products(&self, jobs: &[Job], turned: bool) -> String {
        let n: usize = jobs.iter().map(|job| job.parts).sum();
        let split = WARPS / n.div_ceil(self.tiles.team_alone).next_power_of_two().min(WARPS);
        let mut choices = String::new();
        let mut before = 0;
        for Job { product, parts, first } in jobs {
            before += parts;
            let _ = writeln!(
                choices,
                "        if (i < {before}) {{ int c = i - {} + {first}; return {product}; }}",
                before - parts
            );
        }
        format!(
            "    products<{split}, {turned}>({n}, (int)member, [&](int i) -> Product {{\n{choices}        \
             return Product{{}};\n    }});\n"
        )
    }

    /// Whether every block of a team does it, since that takes less time than waiting for the one that does.
    fn is_by_all(&self, op: &Op) -> bool {
        let shares = self.tiles.team > 1 && self.tiles.high == 1;
        let few = match op {
            Op::StoreIfDrawn => return true,
            Op::Rows(_) => true,
            Op::Sample => self.width(self.context.plan.replay.obs) <= MOST_SAMPLED,
            _ => false,
        };
        shares && few && op.can_repeat(self.context.plan)
    }

    fn rows(&self, RowsId(index): RowsId, op: &Op) -> String {
        let plan = self.context.plan;
        let rows = &plan.rows[index];
        let of = plan.columns[rows.writes[0].0].rows;
        let mut text = self.tile_rows(of);
        // Where all do it, a warp each, so that those that need nothing of each other go on side by side.
        text += match self.is_by_all(op) {
            true => "    const int of_tile = (int)threadIdx.x - 32 * (int)member;\n",
            false => "    const int of_tile = member == 0 ? (int)threadIdx.x : -1;\n",
        };
        text += "    const unsigned int row = (unsigned int)first + of_tile;\n    \
                 if (of_tile < 0 || of_tile >= rows) return;\n";
        let mut arguments: Vec<String> = Vec::new();
        if rows.function.draws {
            text += &match of {
                RowsOf::Acting => format!(
                    "    WarpDraw draw = warp_draw(seed_of(m), m.counters[COUNTER_FIRST_REPLICA] + \
                     row / N_AGENTS, *m.run_step, WARP_PURPOSE_NOISE);\n    \
                     draw = warp_draw_agent(&draw, {index}u << {ACTING_BITS} | \
                     (FIRST_AGENT + row % N_AGENTS));\n"
                ),
                _ => format!(
                    "    WarpDraw draw = warp_draw(seed_of(m), row, m.counters[COUNTER_UPDATES], \
                     WARP_PURPOSE_LEARN);\n    draw = warp_draw_agent(&draw, POLICY << 16 | {index}u);\n"
                ),
            };
            arguments.push("draw".into());
        }
        arguments.extend(rows.cells.iter().map(|id| format!("m.cells[{}]", id.0)));
        let mut slice = |c_type: &str, column: &crate::algorithm::ColumnId| {
            let (width, shared) =
                (plan.columns[column.0].width, plan.columns[column.0].rows == RowsOf::Shared);
            let at = if shared { String::new() } else { format!(" + (long long)row * {width}") };
            arguments.push(format!("WarpSlice<{c_type}>{{m.column[{}]{at}, {width}u}}", column.0));
        };
        rows.reads.iter().for_each(|column| slice("const float", column));
        rows.writes.iter().for_each(|column| slice("float", column));
        let call = arguments.join(",\n        ");
        let _ = writeln!(text, "    {}::{}({call});", namespace(plan, op), rows.function.name);
        text
    }
}
