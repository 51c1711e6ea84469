//! The CUDA code of a program: constants of the plan, the fixed texts, row functions, a function for each
//! piece of work, and the kernel that goes through its segments.

use super::context::{ProgramContext, namespace};
use super::emit::Emitter;
use super::layout::MOST_WHOLE_INPUTS;
use super::machine::{GROUP_BYTES, LEARN_BYTES, half_bytes};
use super::memory::{self, COUNTERS};
use super::op::Op;
use super::priorities;
use super::ranks;
use super::ring::ring_steps;
use super::row_tiles::RowTiles;
use super::schedule::{Segment, segments};
use super::shards::{self, Sizes};
use crate::algorithm::{ColumnId, PassId, RowsOf};
use crate::model::LAYER_NORM_EPSILON;
use crate::optimiser::UpdateRule;
use std::fmt::Write;
use warp_func::cuda::{Launch, NEXT_KERNEL, Source};

const TILE: &str = include_str!("tile.cu");
const SINGLE: &str = include_str!("single.cu");
const PACKED: &str = include_str!("packed.cu");
const SHARED_PASS: &str = include_str!("shared_pass.cu");
const HALF: &str = include_str!("half.cu");
const HALF_SUMS: &str = include_str!("half_sums.cu");
const SINGLE_BACK: &str = include_str!("single_back.cu");
const FIRST: &str = include_str!("first.cu");
const WHOLE: &str = include_str!("whole.cu");
const GRADIENT: &str = include_str!("gradient.cu");
const LEARN_TILE: &str = include_str!("learn_tile.cu");
const EIGHT_TILES: &str = concat!(
    include_str!("eight_tiles.cu"),
    include_str!("recompute.cu"),
    include_str!("eight_steps.cu")
);
const REPLAY: &str = include_str!("replay.cu");
const NORM: &str = include_str!("norm.cu");
const NORM_HALF: &str = include_str!("norm_half.cu");
const PRIORITIES: &str = include_str!("priorities.cu");
const RANKS: &str = include_str!("ranks.cu");
const EARLY: &str = include_str!("early.cu");
const ACTING: &str = include_str!("acting.cu");
/// The part of packed weights that is to stay in the second-level cache where many runs share it.
const PACKED_STAY: &str = "0.375";
/// The kernel of every program.
pub(super) const KERNEL: &str = "program";
/// Threads of a block.
const THREADS: u32 = 256;
/// Shared memory of the sums of gradients, and of products for 16 rows.
const GRADIENT_BYTES: usize = 8 * 36 * 32 * 4;
const PRODUCT_BYTES: usize = 8 * 16 * 32 * 4;

/// A program's text and how it is launched.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) source: Source,
    pub(super) launch: Launch,
}

impl ProgramContext<'_> {
    /// The program that does `ops`, whose rows are all those that act, or all of a batch.
    pub(super) fn program(&self, ops: &[Op]) -> Program {
        let segments = segments(ops, self.plan);
        let acts = segments.iter().any(|segment| segment.rows == Some(RowsOf::Acting));
        let tiles = if acts { self.layout.acting } else { self.layout.batch };
        let learns = ops.iter().any(|op| matches!(op, Op::Learn(..)));
        let mut emitter = Emitter::new(self, tiles);
        let bodies: Vec<String> = segments.iter().map(|segment| emitter.segment(segment)).collect();
        let blocks = self.blocks(&segments, tiles, &emitter);
        let mut text = String::from("#include \"draw.cuh\"\n#include \"translated.cuh\"\n");
        let _ = writeln!(text, "#define BLOCKS {blocks}u\n#define BLOCK (blockIdx.x % BLOCKS)");
        self.constants(tiles, &mut text);
        if self.crowded() {
            let _ = writeln!(text, "#define PACKED_STAY \"{PACKED_STAY}\"");
        }
        let products: &[&str] = if self.layout.half {
            &[SHARED_PASS, PACKED, HALF, HALF_SUMS, SINGLE_BACK]
        } else {
            &[SINGLE]
        };
        text += &[&[NEXT_KERNEL, TILE][..], products, &[GRADIENT][..]].concat().join("\n");
        if self.layout.models.iter().any(|model| !model.norms.is_empty()) {
            let _ = writeln!(text, "#define NORM_EPSILON {LAYER_NORM_EPSILON:?}f");
            text += if self.layout.half { NORM_HALF } else { NORM };
        }
        if self.crowded() {
            text += FIRST;
            let _ = writeln!(text, "#define GROUP_BYTES {GROUP_BYTES}");
            text += EIGHT_TILES;
        } else if learns && self.brings_tiles() {
            let _ = writeln!(text, "#define LEARN_BYTES {LEARN_BYTES}");
            text += LEARN_TILE;
        }
        text += &self.memory();
        text += OF_RUN;
        let passes = || (0..self.plan.passes.len()).map(PassId);
        if tiles.high == 1 && passes().any(|id| self.layout.is_whole(self.plan, id)) {
            let _ = writeln!(text, "#define MOST_WHOLE_INPUTS {MOST_WHOLE_INPUTS}");
            text += WHOLE;
        }
        text += &self.replay();
        if self.stores(ops) {
            text += EARLY;
        }
        self.row_functions(ops, &mut text);
        text += &emitter.functions;
        text += &self.kernel(self.begin(ops, &segments), tiles, &bodies);
        text = self.by_number(text);
        let products = match self.layout.half {
            true => half_bytes(tiles.high, self.layout.widest),
            false => PRODUCT_BYTES * tiles.high,
        };
        let steps = match (self.crowded(), learns && self.brings_tiles()) {
            (true, _) => GROUP_BYTES,
            (false, true) => LEARN_BYTES,
            (false, false) => 0,
        };
        let shared = GRADIENT_BYTES.max(products).max(steps);
        let launch = Launch {
            blocks: (self.runs * blocks) as u32,
            threads: THREADS,
            shared_bytes: shared as u32,
            cooperative: segments.len() > 1 && !self.all_have_places(blocks),
        };
        Program { source: Source::new("program.cu", text), launch }
    }

    /// What is on the device.
    fn memory(&self) -> String {
        memory::text(self.plan, self.agents.groups.len(), self.division) + SEED
    }

    /// The same text, with draws of a batch's rows by their numbers among the rows of all ranks and shards.
    fn by_number(&self, text: String) -> String {
        match self.has_ranks() || self.has_shards() {
            true => text.replace(DRAW_OF_SAMPLE, DRAW_OF_RANKS_SAMPLE),
            false => text,
        }
    }

    /// The replay memory: how steps come into it and batches out of it.
    fn replay(&self) -> String {
        let priorities = match self.plan.replay.priority {
            None => String::new(),
            Some(_) if self.division.exchanges(self.plan) => [PRIORITIES, RANKS].concat(),
            Some(_) => PRIORITIES.into(),
        };
        if !self.has_shards() {
            return [REPLAY, ACTING].join("\n") + &priorities;
        }
        let sizes = Sizes::new(self.plan, self.place, self.division);
        let of_each = [&sizes.of_each(REPLAY), ACTING, &sizes.of_each(&priorities)].concat();
        sizes.text() + &shards::of_several(of_each)
    }

    /// As many blocks as the largest segment can use, but not more than run at the same time.
    fn blocks(&self, segments: &[Segment], tiles: RowTiles, emitter: &Emitter<'_>) -> usize {
        let of_rows = segments.iter().filter(|segment| segment.rows.is_some());
        let of_rows = of_rows.map(|_| tiles.n * tiles.team).max().unwrap_or(0);
        let most = self.machine.most_blocks();
        let most = (most / tiles.team).max(1) * tiles.team;
        of_rows.max(emitter.most_items).next_multiple_of(tiles.team).clamp(tiles.team, most)
    }

    fn constants(&self, tiles: RowTiles, text: &mut String) {
        let (plan, place, agents) = (self.plan, self.place, self.agents);
        let mut define = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "#define {name} {value}");
        };
        let width = |column: ColumnId| plan.columns[column.0].width;
        define("BF16", &u8::from(self.layout.bf16));
        define("TEAM", &tiles.team);
        define("SHARE", &format!("{}u", tiles.share));
        define("TILES_HIGH", &tiles.high);
        define("MOST_INPUTS", &self.most_inputs());
        for (name, value) in [
            ("N_ROWS", place.n_rows),
            ("N_AGENTS", place.n_agents),
            ("FIRST_AGENT", place.first_agent as usize),
            ("POLICY", place.policy),
            ("BATCH", plan.batch_size),
            ("RING_STEPS", ring_steps(plan, place.n_rows)),
            ("N_STEP", plan.replay.n_step),
            ("OBS", width(plan.replay.obs)),
            ("ACTION", width(plan.replay.action)),
            ("MASK", plan.replay.mask.map_or(0, width)),
        ] {
            define(name, &format!("{value}u"));
        }
        define("CELL_GAMMA", &plan.replay.gamma.0);
        // The same for all optimisers of a policy.
        let config = plan.optimisers.first().map(|one| one.config).unwrap_or_default();
        define("RMSPROP", &u8::from(config.rule == UpdateRule::RmsProp));
        let decays = plan.optimisers.iter().any(|one| one.config.weight_decay > 0.0);
        define("DECAYS", &u8::from(decays));
        for (i, name) in COUNTERS.iter().enumerate() {
            define(&format!("COUNTER_{name}"), &i);
        }
        define("COUNTER_STEPS", &COUNTERS.len());
        define("NOTHING_ALLOWED", &format!("{}u", memory::NOTHING_ALLOWED));
        let (replay, acting) = (&plan.replay, &plan.acting);
        for (name, column) in [
            ("OBS", Some(replay.obs)),
            ("ACTION", Some(replay.action)),
            ("REWARD", Some(replay.reward)),
            ("DISCOUNT", Some(replay.discount)),
            ("NEXT_OBS", Some(replay.next_obs)),
            ("WEIGHT", Some(replay.weight)),
            ("MASK", replay.mask),
            ("NEXT_MASK", replay.next_mask),
            ("ACTING_OBS", Some(acting.obs)),
            ("ACTING_ACTION", Some(acting.action)),
            ("ACTING_MASK", acting.mask),
            ("ENV_ACTION", Some(acting.env_action)),
            ("BEGINS", Some(acting.begins)),
        ] {
            if let Some(column) = column {
                define(&format!("COLUMN_{name}"), &column.0);
            }
        }
        define("N_GROUPS_HERE", &agents.groups.len());
        define("GROUP_FIRST", &list(agents.groups.iter().map(|rows| rows.at)));
        let shifts: Vec<_> = agents.groups.iter().map(|rows| rows.shift().to_string()).collect();
        define("GROUP_SHIFT", &format!("{{{}}}", shifts.join(", ")));
        define("GROUP_AGENTS", &list(agents.groups.iter().map(|rows| rows.of_group)));
        define("DISCRETE", &agents.discrete);
        define("MORTAL", &agents.mortal);
        self.constants_of_replay(text);
    }

    fn constants_of_replay(&self, text: &mut String) {
        let cells = ring_steps(self.plan, self.place.n_rows) * self.place.n_rows;
        *text += &priorities::constants(self.plan, cells / self.division.shards);
        if self.has_ranks() || self.has_shards() {
            let rank_counter = COUNTERS.len() + self.plan.optimisers.len();
            *text += &ranks::constants(self.plan, self.division, rank_counter);
        }
    }

    /// Whether an update keeps the step before it.
    fn stores(&self, ops: &[Op]) -> bool {
        ops.contains(&Op::StoreIfDrawn)
    }

    /// How the kernel of segments begins: when it waits for the kernel before, and lets the next one begin.
    fn begin(&self, ops: &[Op], segments: &[Segment]) -> &'static str {
        match self.runs {
            // Acting may come to its place and wait there for the end of this.
            1 if self.stores(ops) => "    allow_next_kernel();\n",
            1 => "",
            // Of several runs, acting that waited so long would keep others from that place. But an update may begin early:
            // it waits for acting and the environment's step alone, which are short and at their places already.
            _ if self.stores(ops) || segments.first().is_some_and(Segment::advances_first) => "",
            _ if ops.contains(&Op::LoadObservations) => {
                "    allow_next_kernel();\n    wait_for_previous_kernel();\n"
            }
            _ => "    wait_for_previous_kernel();\n",
        }
    }

    /// The kernel that goes through all segments.
    fn kernel(&self, begin: &str, tiles: RowTiles, bodies: &[String]) -> String {
        let cluster = match tiles.team {
            1 => String::new(),
            team => format!("__cluster_dims__({team}, 1, 1) "),
        };
        let body = bodies.join("    grid_sync(m.barrier, phase);\n");
        let phase = match bodies.len() {
            0 | 1 => "",
            _ => "    unsigned int phase = phase_of(m.barrier);\n",
        };
        let share = if tiles.share > 1 { "    share_begin();\n" } else { "" };
        let (parameter, of_run) = match self.runs {
            1 => ("const __grid_constant__ Memory one", "one"),
            _ => ("const Memory* runs", "runs[blockIdx.x / BLOCKS]"),
        };
        format!(
            "extern \"C\" __global__ void {cluster}__launch_bounds__({THREADS}, 2) {KERNEL}(\
             {parameter}) {{\n    begin({of_run});\n{share}{begin}{phase}{body}}}\n"
        )
    }

    /// The texts of the row functions' files, each in a namespace of its own.
    fn row_functions(&self, ops: &[Op], text: &mut String) {
        let mut known: Vec<&str> = Vec::new();
        for op in ops {
            let Op::Rows(id) = op else { continue };
            let function = self.plan.rows[id.0].function;
            if !known.contains(&function.text) {
                known.push(function.text);
                let _ = writeln!(
                    text,
                    "namespace {} {{\n{}\n}}",
                    namespace(self.plan, op),
                    function.text
                );
            }
        }
    }
}

/// The replay memory alone, for tests on the host.
#[cfg(test)]
pub(super) fn memory_text(context: &ProgramContext<'_>) -> String {
    let mut text = String::new();
    context.constants(context.layout.batch, &mut text);
    context.by_number(text + &context.memory() + &context.replay())
}

/// How a row of a batch draws; where each rank or shard has a part of it, by its number among the rows of all of them.
const DRAW_OF_SAMPLE: &str = "warp_draw(seed_of(m), row,";
const DRAW_OF_RANKS_SAMPLE: &str = "warp_draw(seed_of(m), FIRST_SAMPLE + row,";

const SEED: &str = "\
__device__ inline unsigned long long seed_of(const Memory& m) {
    return (unsigned long long)m.counters[COUNTER_SEED_HIGH] << 32 | m.counters[COUNTER_SEED_LOW];
}
";

/// What a block works on, in shared memory, where all functions find it.
const OF_RUN: &str = "__shared__ Memory m;

__device__ inline void begin(const Memory& of_run) {
    const unsigned long long* from = (const unsigned long long*)&of_run;
    for (unsigned int i = threadIdx.x; i < sizeof(Memory) / 8; i += N_THREADS) ((unsigned long long*)&m)[i] = from[i];
    __syncthreads();
}
";

fn list(values: impl Iterator<Item = usize>) -> String {
    format!("{{{}}}", values.map(|value| format!("{value}u")).collect::<Vec<_>>().join(", "))
}
