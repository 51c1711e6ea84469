//! The code around an environment's CUDA body: its arrays as structs, its sizes as functions, and the
//! kernels that call it.

use crate::blueprint::{Blueprint, Body};
use crate::cuda::compiler::Source;
use crate::error::{Error, Result};
use crate::pool::StateField;
use std::fmt::Write;
use warp_core::by_value::declared;
use warp_core::space::ACTION_MASK;
use warp_core::{DType, EnvSpec, GroupSpec, Layout, Space};

/// How kernels begin while the one before them runs.
pub const NEXT_KERNEL: &str = include_str!("next_kernel.cuh");
const SHARED: &str = include_str!("env_shared.cuh");
const THREAD: &str = include_str!("env_thread.cu");
const TEAM: &str = include_str!("env_team.cu");

/// Shared memory that the states of a block's teams may take together, so that several blocks fit
/// into one multiprocessor.
const SHARED_STATE: usize = 200 * 1024;
/// Threads of a block of single-agent replicas.
const BLOCK: u32 = 128;
/// Threads of a block of small teams: few, so that blocks spread evenly.
const SMALL_TEAMS_BLOCK: u32 = 32;
/// Threads of a team at most; more agents are strided over them.
const LARGEST_TEAM: usize = 128;
/// Of the observations of all agents, so many numbers are one thread's to write; where there are more, a
/// replica has more threads than agents.
const WRITTEN_BY_THREAD: usize = 64;

/// Functions of a body whose agent sees a number, beside `observe`: the number, and the mask beside it.
const SHOWN_NUMBER: &str = " shown_number(const State& state)";
const SHOWN_MASK: &str = " shown_mask(const State& state, ";

/// An environment's source code, to which other kernels can be appended, and how to launch its kernels.
#[derive(Debug, Clone)]
pub struct EnvKernels {
    /// Declarations, body and everything that accesses the arrays; no kernel yet.
    pub text: String,
    /// Macros that the code needs.
    pub defines: Vec<(String, String)>,
    /// Threads that work on one replica.
    pub team: u32,
    /// Replicas in one block.
    pub teams: u32,
    /// Shared memory of one block, in bytes.
    pub shared_bytes: u32,
    file: &'static str,
    layout: Layout,
}

/// Parts of the executor's kernels, each a translation unit, so that they are compiled side by side, or not at all
/// where nobody asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorPart {
    /// A new episode in every replica.
    Reset,
    /// Observations of states that were set from outside.
    Observe,
    /// Steps with the actions in the arrays, and sums over ended episodes.
    Step,
    /// Steps with random actions.
    Cycle,
    /// Steps of several runs in one launch.
    Runs,
}

impl ExecutorPart {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Reset, Self::Observe, Self::Step, Self::Cycle, Self::Runs];
    /// What every executor needs.
    pub const FIRST: [Self; 2] = [Self::Reset, Self::Step];

    /// The macro that selects its kernels.
    fn selector(self) -> &'static str {
        match self {
            Self::Reset => "WARP_HAS_RESET",
            Self::Observe => "WARP_HAS_OBSERVE",
            Self::Step => "WARP_HAS_STEP",
            Self::Cycle => "WARP_HAS_CYCLE",
            Self::Runs => "WARP_HAS_RUNS",
        }
    }
}

impl EnvKernels {
    /// A translation unit of this code followed by `kernels`.
    #[must_use]
    pub fn source(&self, name: &str, kernels: &str) -> Source {
        let text = format!("{}\n#line 1 \"{name}\"\n{kernels}", self.text);
        Source { defines: self.defines.clone(), ..Source::new(name, text) }
    }

    /// The translation unit of a part of the executor's own kernels.
    #[must_use]
    pub fn executor(&self, part: ExecutorPart) -> Source {
        self.steps().define(part.selector(), 1)
    }

    /// What the executor's kernels are written with, and none of them: for kernels of others.
    #[must_use]
    pub fn steps(&self) -> Source {
        let (name, layout) = match self.layout {
            Layout::ThreadPerReplica => ("env_thread.cu", THREAD),
            Layout::TeamPerReplica => ("env_team.cu", TEAM),
        };
        let kernels = format!("{NEXT_KERNEL}\n{SHARED}\n#line 1 \"{name}\"\n{layout}");
        Source {
            name: format!("{} ({name})", self.file),
            ..self.source("env_shared.cuh", &kernels)
        }
    }
}

/// The code around the body of `blueprint`.
///
/// # Errors
/// An environment without a CUDA body.
pub fn env_kernels(blueprint: &Blueprint) -> Result<EnvKernels> {
    let body =
        blueprint.body.as_ref().ok_or_else(|| Error::NoBody { env: blueprint.name.into() })?;
    let words = state_words(&blueprint.fields);
    let (team, teams) = team_of(body, &blueprint.spec);
    let shared = if body.layout == Layout::TeamPerReplica { 4 * words * teams as usize } else { 0 };
    let in_shared = shared > 0 && shared <= SHARED_STATE;
    let mut text = body.text.clone();
    array_structs(&mut text, &blueprint.fields);
    size_functions(&mut text, &blueprint.spec);
    match body.layout {
        Layout::ThreadPerReplica => scalar_access(&mut text, &blueprint.fields),
        Layout::TeamPerReplica => row_access(&mut text, &blueprint.fields),
    }
    let define = |name: &str, value: usize| (name.to_string(), value.to_string());
    let mut defines = vec![
        define("WARP_STATE_WORDS", words),
        define("WARP_STATE_IN_SHARED", usize::from(in_shared)),
    ];
    if body.layout == Layout::TeamPerReplica {
        defines.push(define("WARP_TEAM", team as usize));
        defines.push(define("WARP_TEAMS", teams as usize));
    }
    if shows_one_number(body, &blueprint.spec) {
        defines.push(define("WARP_ONE_HOT", 1));
    }
    let shared_bytes = if in_shared { shared as u32 } else { 0 };
    let (file, layout) = (body.file, body.layout);
    Ok(EnvKernels { text, defines, team, teams, shared_bytes, file, layout })
}

/// Whether a single agent sees a number that the body has a function for, [`SHOWN_NUMBER`], and one for the mask beside it:
/// then its row need not be written as a whole.
fn shows_one_number(body: &Body, spec: &EnvSpec) -> bool {
    let [GroupSpec { n_agents: 1, observation, .. }] = &spec.groups[..] else { return false };
    let (number, mask) = match observation {
        Space::Discrete { .. } => (true, false),
        Space::Dict(parts) => {
            let is_mask = |(name, _): &&(String, Space)| name == ACTION_MASK;
            let seen: Vec<_> = parts.iter().filter(|part| !is_mask(part)).collect();
            let number = matches!(seen[..], [(_, Space::Discrete { .. })]);
            (number, seen.len() < parts.len())
        }
        _ => (false, false),
    };
    let has = |function: &str| body.text.contains(function);
    body.layout == Layout::ThreadPerReplica
        && spec.global_observation.is_none()
        && number
        && has(SHOWN_NUMBER)
        && (!mask || has(SHOWN_MASK))
}

/// Threads per team and teams per block.
fn team_of(body: &Body, spec: &EnvSpec) -> (u32, u32) {
    if body.layout == Layout::ThreadPerReplica {
        return (1, BLOCK);
    }
    let n_agents = spec.n_agents();
    let observed = spec.groups.iter().map(|group| group.n_agents * group.observation_width());
    let threads = n_agents.max(observed.sum::<usize>() / WRITTEN_BY_THREAD);
    if threads <= 16 {
        // At least two, since a team of one has no place in shared memory.
        let team = threads.next_power_of_two().max(2) as u32;
        return (team, SMALL_TEAMS_BLOCK / team);
    }
    // Crowds fill shared memory with few blocks: more threads in each keep the GPU busy.
    let most = if n_agents < 512 { LARGEST_TEAM } else { 2 * LARGEST_TEAM };
    (threads.next_multiple_of(32).min(most) as u32, 1)
}

fn field_words(field: &StateField) -> usize {
    field.dims.iter().product()
}

/// Words of one replica's state.
fn state_words(fields: &[StateField]) -> usize {
    fields.iter().map(field_words).sum()
}

/// `WarpStateArrays`, `WarpArrays` and `WarpRun`; `env.rs` fills them in this order.
fn array_structs(text: &mut String, fields: &[StateField]) {
    text.push_str("struct WarpStateArrays {\n");
    let mut at = 0;
    for (name, len) in declared(fields.iter().map(|field| field.name)) {
        let c_type = fields[at].dtype.c_name();
        let _ = match len {
            None => writeln!(text, "    {c_type}* {name};"),
            // Each element has a column of its own, so that neighbouring threads load neighbours.
            Some(len) => writeln!(text, "    {c_type}* {name}[{len}];"),
        };
        at += len.unwrap_or(1);
    }
    text.push_str("};\n");
    text.push_str(ARRAYS);
}

const ARRAYS: &str = "\
struct WarpArrays {
    WarpStateArrays state;
    WarpStateArrays pool;
    float* obs[N_GROUPS];
    float* final_obs[N_GROUPS];
    unsigned char* action_mask[N_GROUPS];
    unsigned char* final_action_mask[N_GROUPS];
    int* discrete[N_GROUPS];
    float* continuous[N_GROUPS];
    float* reward[N_GROUPS];
    unsigned char* alive[N_GROUPS];
    unsigned char* agent_terminated[N_GROUPS];
    float* episode_return[N_GROUPS];
    float* ended_return[N_GROUPS];
    float* ended_return_min[N_GROUPS];
    float* ended_return_max[N_GROUPS];
    unsigned char* terminated;
    unsigned char* truncated;
    unsigned int* episode_length;
    float* statistic;
    float* final_statistic;
    float* global_obs;
    unsigned int* run_step;
    unsigned int* ended;
    float* ended_length;
    float* ended_length_min;
    float* ended_length_max;
    float* ended_statistic;
};
struct WarpRun {
    unsigned long long seed, start_seed;
    unsigned int first_replica, n_envs, start, pool_rows, auto_reset, end;
};
";

/// Sizes per group as functions of its number, which unrolled loops turn into constants.
fn size_functions(text: &mut String, spec: &EnvSpec) {
    let mut add = |name: &str, of: &dyn Fn(usize, &GroupSpec) -> usize| {
        let _ = writeln!(text, "__device__ constexpr int warp_{name}(int g) {{ return {}; }}", {
            let chain = spec.groups.iter().enumerate();
            chain.fold(String::new(), |chain, (g, group)| {
                format!("{chain}g == {g} ? {} : ", of(g, group))
            }) + "0"
        });
    };
    add("agents", &|_, g| g.n_agents);
    add("first_agent", &|g, _| spec.first_agent(g));
    add("obs_width", &|_, g| g.observation_width());
    add("mask_width", &|_, g| g.mask_width());
    add("action_width", &|_, g| g.action.action_width());
    add("continuous", &|_, g| usize::from(matches!(g.action, Space::Box { .. })));
    add("mortal", &|_, g| usize::from(g.mortal));
    let before = |index: usize, size: &dyn Fn(&GroupSpec) -> usize| -> usize {
        spec.groups[..index].iter().map(size).sum()
    };
    let obs = |g: &GroupSpec| g.n_agents * g.observation_width();
    let mask = |g: &GroupSpec| g.n_agents * g.mask_width();
    let action = |g: &GroupSpec| g.n_agents * g.action.action_width();
    add("obs_offset", &|g, _| before(g, &obs));
    add("mask_offset", &|g, _| before(g, &mask));
    add("action_offset", &|g, _| before(g, &action));
    let n = spec.groups.len();
    for (name, total) in [
        ("AGENTS", spec.n_agents()),
        ("OBS", before(n, &obs)),
        ("MASK", before(n, &mask)),
        ("ACTIONS", before(n, &action)),
    ] {
        let _ = writeln!(text, "#define WARP_{name}_TOTAL {total}");
    }
    head_functions(text, spec);
    each_group(text, n);
}

/// Head sizes and bounds by group and index.
fn head_functions(text: &mut String, spec: &EnvSpec) {
    let mut add = |c_type: &str, name: &str, of: &dyn Fn(&GroupSpec) -> Vec<String>| {
        let _ = writeln!(text, "__device__ inline {c_type} warp_{name}(int g, int i) {{");
        for (g, group) in spec.groups.iter().enumerate() {
            for (i, value) in of(group).iter().enumerate() {
                let _ = writeln!(text, "    if (g == {g} && i == {i}) return {value};");
            }
        }
        let _ = writeln!(text, "    return 0;\n}}");
    };
    add("int", "head", &|g| g.action.head_sizes().iter().map(usize::to_string).collect());
    let bits = |values: &[f32]| {
        values.iter().map(|v| format!("__int_as_float((int)0x{:08x}u)", v.to_bits())).collect()
    };
    add("float", "low", &|g| match &g.action {
        Space::Box { low, .. } => bits(low),
        _ => Vec::new(),
    });
    add("float", "high", &|g| match &g.action {
        Space::Box { high, .. } => bits(high),
        _ => Vec::new(),
    });
}

/// Calls with the width as a template's argument, group by group.
fn each_group(text: &mut String, n: usize) {
    let _ = write!(text, "#define WARP_EACH_GROUP(call, to, r, seen)");
    for g in 0..n {
        let _ = write!(text, " call<{g}>(to, r, seen);");
    }
    text.push('\n');
    text.push_str(WRITE_OBS);
}

const WRITE_OBS: &str = "\
template <int width> __device__ inline void warp_write_row(float* to, const float* from);
struct WarpSeen;
template <int g> __device__ inline void warp_write_obs(float* const* to, unsigned int r,
                                                       const WarpSeen& seen);
";

/// How a thread loads, saves and begins a state of scalars.
fn scalar_access(text: &mut String, fields: &[StateField]) {
    let mut each = |head: &str, line: &dyn Fn(&str) -> String, tail: &str| {
        text.push_str(head);
        fields.iter().for_each(|field| text.push_str(&line(field.name)));
        text.push_str(tail);
    };
    let head = "__device__ inline State warp_load_row(const WarpStateArrays& a, unsigned int r) {\n    State state;\n";
    each(head, &|f| format!("    state.{f} = a.{f}[r];\n"), "    return state;\n}\n");
    let head = "__device__ inline void warp_save(const WarpArrays& a, unsigned int r, const State& state) {\n";
    each(head, &|f| format!("    a.state.{f}[r] = state.{f};\n"), "}\n");
    text.push_str(SCALARS);
}

const SCALARS: &str = "\
__device__ inline State warp_load(const WarpArrays& a, unsigned int r) {
    return warp_load_row(a.state, r);
}
__device__ inline void warp_begin(const Env& env, const WarpRun& run, const WarpArrays& a,
                                  unsigned int r, unsigned int step, State& state) {
    if (run.start == 2u) {
        WarpDraw draw = warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_RESET);
        state = warp_load_row(a.pool, warp_draw_below(&draw, run.pool_rows));
        return;
    }
    WarpDraw draw = run.start == 1u
        ? warp_draw(run.start_seed, 0u, 0u, WARP_PURPOSE_RESET)
        : warp_draw(run.seed, run.first_replica + r, step, WARP_PURPOSE_RESET);
    reset(env, state, draw);
}
";

/// How a team sees a state with rows: in the arrays, in shared memory, and copied between them.
fn row_access(text: &mut String, fields: &[StateField]) {
    text.push_str(
        "__device__ inline State warp_view_of(const WarpStateArrays& a, unsigned int r) {\n    State state;\n",
    );
    for field in fields {
        let (name, words) = (field.name, field_words(field));
        let _ = writeln!(text, "    state.{name} = a.{name} + (unsigned long long)r * {words}u;");
    }
    text.push_str("    return state;\n}\n");
    text.push_str(
        "__device__ inline State warp_view(const WarpArrays& a, unsigned int r) { return warp_view_of(a.state, r); }\n\
         __device__ inline State warp_view_words(unsigned int* words) {\n    State state;\n",
    );
    let mut at = 0;
    for field in fields {
        let _ =
            writeln!(text, "    state.{} = ({}*)(words + {at});", field.name, c_name(field.dtype));
        at += field_words(field);
    }
    text.push_str("    return state;\n}\n");
    text.push_str("__device__ inline void warp_copy_state(State& to, const State& from) {\n");
    for field in fields {
        let (name, words) = (field.name, field_words(field));
        let _ = writeln!(
            text,
            "    for (int i = warp_first(); i < {words}; i += warp_stride()) to.{name}[i] = from.{name}[i];"
        );
    }
    text.push_str("}\n");
}

fn c_name(dtype: DType) -> &'static str {
    dtype.c_name()
}
