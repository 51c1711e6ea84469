//! Functions of scalars: one thread for every function and tuple of arguments.

use super::files::Bodies;
use super::one_by_one;
use libtest_mimic::Failed;
use warp_core::DType;
use warp_func::cuda::{Arg, DeviceArray, Kernels, Launch, Source};

/// Words of arguments of one call.
const ARGUMENTS: usize = 6;

/// Functions and calls of each.
struct Scalars {
    bodies: Bodies,
    n: usize,
    calls: usize,
}

fn read() -> Result<Scalars, Failed> {
    let bodies = Bodies::read("scalars")?;
    let calls = bodies.input.len() / ARGUMENTS;
    let n = bodies.count(calls)?;
    Ok(Scalars { bodies, n, calls })
}

/// The kernels, as text.
pub(crate) fn units() -> Result<Vec<Source>, Failed> {
    Ok(units_of_scalars(&read()?))
}

fn units_of_scalars(scalars: &Scalars) -> Vec<Source> {
    let (n, calls) = (scalars.n, scalars.calls);
    let head = "#include \"draw.cuh\"\n#include \"translated.cuh\"\n#include \"bodies.cuh\"\n";
    one_by_one::units(&scalars.bodies, n, head, |k| {
        format!(
            "extern \"C\" __global__ void of_f_{k}(const unsigned int* in, unsigned int* out) {{
    unsigned int call = threadIdx.x;
    if (call >= {calls}u) return;
    const unsigned int* w = in + call * {ARGUMENTS}u;
    out[call * {n}u + {k}u] =
        f_{k}(warp_float(w[0]), warp_float(w[1]), (int)w[2], (int)w[3], w[4], w[5]);
}}
"
        )
    })
}

/// Runs all functions and compares every word.
pub(crate) fn compare(kernels: &Kernels) -> Result<(), Failed> {
    let scalars = read()?;
    let Scalars { bodies, n, calls } = &scalars;
    let device = kernels.device();
    let input = DeviceArray::from_slice(device, "input", &[bodies.input.len()], &bodies.input)?;
    let out = DeviceArray::zeros(device, "out", DType::U32, &[*calls, *n])?;
    let args = [Arg::array(&input, bodies.input.len()), Arg::array(&out, calls * n)];
    let launch = Launch { blocks: 1, threads: *calls as u32, ..Launch::default() };
    let units = units_of_scalars(&scalars);
    one_by_one::launch(kernels, &units, (bodies, "f", *n), (&launch, &args))?;
    let words = out.pull::<u32>()?;
    let Some(at) = (0..words.len()).find(|&at| words[at] != bodies.expected[at]) else {
        return Ok(());
    };
    let (k, call) = (at % n, at / n);
    let differs = |k: &usize| (0..*calls).any(|c| words[c * n + k] != bodies.expected[c * n + k]);
    let message = format!(
        "{} of {n} functions differ, first f_{k} for {:x?}: {:x} from Rust, {:x} from the GPU\n{}",
        (0..*n).filter(differs).count(),
        &bodies.input[ARGUMENTS * call..ARGUMENTS * (call + 1)],
        bodies.expected[at],
        words[at],
        bodies.text_of(&format!("f_{k}")),
    );
    Err(message.into())
}
