//! The C code that surrounds a CUDA body: everything that it may name, generated from the Rust
//! declarations.
//!
//! [`kernel_text`] is the whole of it, in order: dimensions, parameters, state, tables, groups, the
//! constants of the spec, and the body itself. Parameters are written as constants, so that a
//! compiled body is made for its configuration.

use crate::env::{Env, Table, TableData};
use crate::kernel::{Kernel, declare};
use crate::space::Space;
use crate::spec::{EnvSpec, LimitEnds};
use crate::state::{DType, Field, Record, Scalars, State};
use std::fmt::Write;

/// The source of `team.cuh`.
pub const TEAM_CUH: &str = include_str!("team.cuh");

/// The source of `translated.cuh`: the runtime of generated code.
pub const TRANSLATED_CUH: &str = include_str!("translated.cuh");

/// The headers that a body's code includes: name and source.
pub const HEADERS: [(&str, &str); 5] = [
    ("math.cuh", crate::math::MATH_CUH),
    ("philox.cuh", crate::philox::PHILOX_CUH),
    ("draw.cuh", crate::draw::DRAW_CUH),
    ("team.cuh", TEAM_CUH),
    ("translated.cuh", TRANSLATED_CUH),
];

/// Replaces CUDA when a host C++ compiler builds the same code, for tests; to be included first.
/// Defining `WARP_TEAM` before it gives teams of that many threads of the host.
pub const HOST_SHIM: &str = include_str!("host_shim.h");

/// The whole C text of an environment, its body included.
#[must_use]
pub fn kernel_text<E: Env>(env: &E, kernel: &Kernel) -> String {
    let surroundings = Surroundings {
        declared: declare::<E::Params, E::State>(&env.dims()),
        params: <E::Params as Record>::NAME,
        params_fields: <E::Params as Record>::FIELDS,
        params_bits: env.params().to_bits(),
        state: <E::State as Record>::NAME,
        scalars: <E::State as State>::SCALARS,
        spec: env.spec(),
        tables: env.tables(),
    };
    surroundings.text(kernel)
}

/// What surrounds a body: an environment's declarations, whatever its type.
struct Surroundings<'a> {
    /// Parameters and state as C structs.
    declared: String,
    /// The name of the parameters' type.
    params: &'static str,
    params_fields: &'static [Field],
    params_bits: Vec<u32>,
    /// The name of the state's type.
    state: &'static str,
    scalars: bool,
    spec: EnvSpec,
    tables: Vec<Table<'a>>,
}

impl Surroundings<'_> {
    /// The whole text, with the body of `kernel`.
    fn text(&self, kernel: &Kernel) -> String {
        let Self { params, state, spec, tables, .. } = self;
        let mut text = String::from(INCLUDES);
        text += &self.declared;
        let _ = writeln!(text, "typedef {params} Params;");
        let _ = writeln!(text, "typedef {state} State;");
        let _ = writeln!(text, "enum {{ N_GROUPS = {} }};", spec.groups.len());
        let typed = tables.iter().map(|t| (t.name, c_type(&t.data))).collect::<Vec<_>>();
        table_structs(&mut text, &typed);
        text += GROUP_STRUCTS;
        constants(&mut text, spec, self.scalars);
        lengths(&mut text, spec, tables);
        let _ = writeln!(text, "#line 1 \"{}\"\n{}", kernel.file, kernel.text);
        text += "#line 1 \"environment.cuh\"\n";
        baked_env(&mut text, &self.params_bits, self.params_fields, &typed);
        text
    }
}

const INCLUDES: &str =
    "#include \"draw.cuh\"\n#include \"team.cuh\"\n#include \"translated.cuh\"\n\n";

/// What a body gets and fills, one entry per group.
const GROUP_STRUCTS: &str = "\
struct Actions { const int* discrete[N_GROUPS]; const float* continuous[N_GROUPS]; };
struct StepOut {
    float* reward[N_GROUPS];
    unsigned char* alive[N_GROUPS];
    bool terminated;
    float* statistics;
};
struct Observation {
    float* obs[N_GROUPS];
    unsigned char* action_mask[N_GROUPS];
    float* global;
};
";

fn c_type(data: &TableData<'_>) -> &'static str {
    match data {
        TableData::F32(_) => "float",
        TableData::I32(_) => "int",
    }
}

/// The tables by themselves, which kernels are passed, and behind the parameters, which bodies see.
fn table_structs(text: &mut String, tables: &[(&str, &str)]) {
    let fields = |text: &mut String| {
        for (name, c_type) in tables {
            let _ = writeln!(text, "    const {c_type}* {name};");
        }
    };
    text.push_str("struct WarpTables {\n");
    fields(text);
    // An empty struct is no kernel argument.
    text.push_str("    const void* end;\n};\nstruct Env {\n    Params params;\n");
    fields(text);
    text.push_str("};\n");
}

/// `warp_env`, which yields the parameters as constants.
fn baked_env(text: &mut String, bits: &[u32], fields: &[Field], tables: &[(&str, &str)]) {
    text.push_str("__device__ inline Env warp_env(const WarpTables& tables) {\n    Env env;\n");
    for (field, bits) in fields.iter().zip(bits) {
        let name = field.name;
        let _ = match field.dtype {
            DType::F32 => {
                let value = f32::from_bits(*bits);
                writeln!(
                    text,
                    "    env.params.{name} = __int_as_float((int)0x{bits:08x}u); // {value}"
                )
            }
            DType::I32 => writeln!(text, "    env.params.{name} = {};", *bits as i32),
            DType::U32 | DType::U8 => writeln!(text, "    env.params.{name} = {bits}u;"),
        };
    }
    for (name, _) in tables {
        let _ = writeln!(text, "    env.{name} = tables.{name};");
    }
    text.push_str("    return env;\n}\n");
}

/// What the framework's kernels need to know of the spec.
fn constants(text: &mut String, spec: &EnvSpec, scalars: bool) {
    let limit = spec.time_limit;
    let terminates = u8::from(limit.ends == LimitEnds::Terminated);
    let global = spec.global_observation.as_ref().map_or(0, |space| space.flatten().width);
    let _ = writeln!(text, "#define WARP_SCALARS {}", u8::from(scalars));
    // Whoever runs replicas with a limit of their own has said so before.
    let _ =
        writeln!(text, "#ifndef WARP_TIME_LIMIT\n#define WARP_TIME_LIMIT {}u\n#endif", limit.steps);
    let _ = writeln!(text, "#define WARP_LIMIT_TERMINATES {terminates}");
    let _ = writeln!(text, "#define WARP_N_STATISTICS {}", spec.statistics.len());
    let _ = writeln!(text, "#define WARP_GLOBAL_WIDTH {global}");
    for (g, group) in spec.groups.iter().enumerate() {
        box_bounds(text, g, &group.action);
    }
}

/// The lengths of what a body gets and fills, by field and group, and of the tables.
fn lengths(text: &mut String, spec: &EnvSpec, tables: &[Table<'_>]) {
    for (g, group) in spec.groups.iter().enumerate() {
        let n = group.n_agents;
        let actions = n * group.action.action_width();
        let boxed = matches!(group.action, Space::Box { .. });
        let lengths = [
            ("obs", n * group.observation_width()),
            ("action_mask", n * group.mask_width()),
            ("reward", n),
            ("alive", if group.mortal { n } else { 0 }),
            ("discrete", if boxed { 0 } else { actions }),
            ("continuous", if boxed { actions } else { 0 }),
        ];
        for (field, len) in lengths {
            let _ = writeln!(text, "#define WARP_LEN_{field}_{g} {len}u");
        }
    }
    for table in tables {
        let len = match table.data {
            TableData::F32(data) => data.len(),
            TableData::I32(data) => data.len(),
        };
        let _ = writeln!(text, "#define WARP_TABLE_LEN_{} {len}u", table.name);
    }
}

/// The bounds of a Box, as bits: infinities have no literal.
fn box_bounds(text: &mut String, g: usize, action: &Space) {
    let Space::Box { low, high, .. } = action else { return };
    for (name, values) in [("LOW", low), ("HIGH", high)] {
        let bits =
            values.iter().map(|v| format!("0x{:08x}u", v.to_bits())).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "#define WARP_{name}_{g} {{{bits}}}");
    }
}
