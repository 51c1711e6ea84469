//! CUDA bodies as data: the source code, the layout of its threads, and the C declarations that it needs.
//!
//! An environment's `step.cu` contains three `__device__` functions with fixed names ([`FUNCTIONS`]),
//! which the framework's own kernels call. Structs are never written twice: [`declare`] generates the C
//! code from the Rust declaration, with a `static_assert` for every size and offset.
//!
//! # Writing a body
//!
//! The code is C++17 without includes, and contains only `__device__` functions and constants:
//!
//! ```c
//! __device__ void reset(const Env& env, State& state, WarpDraw& draw);
//! __device__ void observe(const Env& env, const State& state, Observation& out);
//! __device__ void step(const Env& env, State& state, const Actions& actions, WarpDraw& draw,
//!                      StepOut& out);
//! ```
//!
//! `Env` has the parameters (`env.params.gravity`) and a pointer per table; `State` is the Rust state,
//! values for a state of scalars and pointers for one with rows (`*state.timestep`); `Actions`, `StepOut`
//! and `Observation` have the fields of [`crate::env`], a pointer per group (`out.reward[0][agent]`).
//! Every dimension of `Env::dims` is a constant of its name. Maths and random numbers are `warp_sin`,
//! `warp_draw_uniform(&draw)` and so on, the counterparts of [`crate::math`] and [`crate::Draw`].
//!
//! With [`Layout::TeamPerReplica`] all threads of the team call each function together: `for (int a =
//! warp_first(); a < n_agents; a += warp_stride())` covers a thread's part, `warp_sync()` synchronises
//! the team, `WARP_SHARED(float, name, count)` is scratch of the team, `warp_team_sum(int)` and
//! `warp_team_any(bool)` return the same result to all of them. The team is synchronised before and after
//! each function; only the first thread writes `out.terminated` and `out.statistics`; each thread has a
//! copy of `draw`. Rows of observations begin at multiples of 16 bytes where their size is one.
//!
//! Bodies are bit-identical if they perform the same operations in the same order: sums over agents have
//! a fixed order, whatever the size of the team, and are never float atomics; counts may be
//! `warp_atomic_add(int*, int)`.

use crate::by_value::declared;
use crate::error::{Error, Result};
use crate::state::{Field, Record, State};
use std::fmt::Write;

/// The names of the `__device__` functions that every CUDA body defines.
pub const FUNCTIONS: [&str; 3] = ["reset", "observe", "step"];

/// The CUDA body of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Its file name, for the compiler's diagnostics.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
    /// How threads are mapped to it.
    pub layout: Layout,
}

/// How a CUDA body is mapped to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One thread steps one replica, whose state is in registers.
    ThreadPerReplica,
    /// A team of threads, part of a warp or a whole block, steps one replica; its agents are strided
    /// over the threads.
    TeamPerReplica,
}

impl Kernel {
    /// Checks that the code defines [`FUNCTIONS`] and no kernel of its own.
    ///
    /// # Errors
    /// The name of what is missing or superfluous.
    pub fn validate(&self) -> Result<()> {
        let fail = |reason: String| Err(Error::InvalidSpec { env: self.file.into(), reason });
        if self.text.contains("__global__") {
            return fail(
                "a CUDA body holds __device__ functions only, but has a __global__".into(),
            );
        }
        let defines = |name: &str| {
            self.text.match_indices(name).any(|(at, _)| {
                let line = self.text[..at].rfind('\n').map_or(0, |n| n + 1);
                let starts_word =
                    !self.text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                let called = self.text[at + name.len()..].trim_start().starts_with('(');
                let before = &self.text[line..at];
                starts_word
                    && called
                    && before.contains("__device__")
                    && !before.contains(['{', '('])
            })
        };
        match FUNCTIONS.iter().find(|name| !defines(name)) {
            Some(name) => fail(format!("the CUDA body defines no __device__ function \"{name}\"")),
            None => Ok(()),
        }
    }
}

/// The C code that declares an environment's dimensions, parameters and state.
///
/// `dims` are the symbolic dimensions with their sizes. A state of scalars becomes a plain struct
/// of the same layout as the Rust one, its arrays values of `translated.cuh`; a state with rows becomes a
/// struct of pointers.
#[must_use]
pub fn declare<P: Record, S: State>(dims: &[(&'static str, usize)]) -> String {
    let mut text = String::from(OFFSET);
    for (name, size) in dims {
        let _ = writeln!(text, "enum {{ {name} = {size} }};");
    }
    plain_struct(&mut text, P::NAME, P::FIELDS);
    if S::SCALARS {
        plain_struct(&mut text, S::NAME, S::FIELDS);
    } else {
        view_struct(&mut text, S::NAME, S::FIELDS);
    }
    text
}

/// Where a field lies in its struct, by the name that each compiler has for it.
pub(crate) const OFFSET: &str = "\
#ifdef __CUDACC_RTC__
#define WARP_OFFSET(type, field) __INTADDR__(&((type*)0)->field)
#else
#define WARP_OFFSET(type, field) __builtin_offsetof(type, field)
#endif
";

fn plain_struct(text: &mut String, name: &str, fields: &[Field]) {
    let _ = writeln!(text, "struct {name} {{");
    let mut at = 0;
    let mut asserts = String::new();
    for (member, len) in declared(fields.iter().map(|field| field.name)) {
        let c_type = fields[at].dtype.c_name();
        let _ = match len {
            None => writeln!(text, "    {c_type} {member};"),
            Some(len) => writeln!(text, "    WarpArray<{c_type}, {len}> {member};"),
        };
        let _ = writeln!(
            asserts,
            "static_assert(WARP_OFFSET({name}, {member}) == {}, \"{name}.{member} moved\");",
            4 * at,
        );
        at += len.unwrap_or(1);
    }
    let _ = writeln!(text, "}};");
    // C++ gives an empty struct one byte; there is nothing in it whose place could be wrong.
    if fields.is_empty() {
        return;
    }
    text.push_str(&asserts);
    let size = 4 * fields.len();
    let _ = writeln!(text, "static_assert(sizeof({name}) == {size}, \"{name} changed its size\");");
}

fn view_struct(text: &mut String, name: &str, fields: &[Field]) {
    let _ = writeln!(text, "struct {name} {{");
    for field in fields {
        let _ = write!(text, "    {}* {};", field.dtype.c_name(), field.name);
        let _ = match field.dims {
            [] => writeln!(text),
            dims => writeln!(text, " // [{}]", dims.join(", ")),
        };
    }
    let _ = writeln!(text, "}};");
    let size = format!("{} * sizeof(void*)", fields.len());
    let _ = writeln!(text, "static_assert(sizeof({name}) == {size}, \"{name} changed its size\");");
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::state! { struct Flat { x: f32, n: i32 } }
    crate::state! { struct Board { left: i32, cells: [u32; 4], x: f32 } }
    crate::state! { struct Rows { loc: [f32; n_agents], pairs: [i32; n_agents, k], left: i32 } }
    crate::params! { struct Params { g: f32, levels: u32 } }

    #[test]
    fn c_text_is_made_from_the_rust_declaration() {
        let text = declare::<Params, Flat>(&[]);
        assert!(text.contains("struct Params {\n    float g;\n    unsigned int levels;\n};"));
        assert!(text.contains("struct Flat {\n    float x;\n    int n;\n};"));
        assert!(text.contains("static_assert(WARP_OFFSET(Flat, n) == 4"));
        assert_eq!(std::mem::offset_of!(Flat, n), 4);
        assert_eq!(size_of::<Flat>(), 8);
        let text = declare::<Params, Board>(&[]);
        assert!(
            text.contains("    int left;\n    WarpArray<unsigned int, 4> cells;\n    float x;\n")
        );
        assert!(text.contains("static_assert(WARP_OFFSET(Board, cells) == 4"));
        assert!(text.contains("static_assert(WARP_OFFSET(Board, x) == 20"));
        assert_eq!((std::mem::offset_of!(Board, x), size_of::<Board>()), (20, 24));
        let (mut loc, mut pairs, mut left) = ([0.5; 5], [7; 10], 3);
        let rows = Rows { loc: &mut loc, pairs: &mut pairs, left: &mut left };
        assert_eq!((rows.loc[4], rows.pairs[9], *rows.left), (0.5, 7, 3));
        let text = declare::<Params, Rows<'static>>(&[("n_agents", 5), ("k", 2)]);
        assert!(text.contains("enum { n_agents = 5 };\nenum { k = 2 };\n"));
        assert!(text.contains("    float* loc; // [n_agents]\n    int* pairs; // [n_agents, k]\n"));
        assert!(text.contains("    int* left;\n"));
    }

    #[test]
    fn a_body_must_define_the_three_functions_and_no_kernel() {
        let kernel = |text| Kernel { file: "toy.cu", text, layout: Layout::ThreadPerReplica };
        let good = "__device__ void reset(S& s) {}\n__device__ inline void observe(S& s) {}\n\
                    __device__ void step (S& s) {}\n";
        assert_eq!(kernel(good).validate(), Ok(()));
        let missing = kernel("__device__ void reset() {}\n__device__ void observe() {}\n");
        assert!(missing.validate().unwrap_err().to_string().contains("\"step\""));
        let calls_only =
            kernel("__device__ void reset() { step(); }\n__device__ void observe() {}");
        assert!(calls_only.validate().unwrap_err().to_string().contains("\"step\""));
        let global = kernel("__global__ void step() {}");
        assert!(global.validate().unwrap_err().to_string().contains("__global__"));
    }
}
