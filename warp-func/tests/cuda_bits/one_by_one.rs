//! A kernel for every function: in units that are compiled side by side, launched one after the other.

use super::files::Bodies;
use libtest_mimic::Failed;
use warp_func::cuda::{Arg, Build, Kernels, Launch, Source};

/// Functions of one unit: few, so that several processor cores share the compiler's work.
const TOGETHER: usize = 20;

/// Units that are compiled at a time: there may be a hundred, and each takes memory.
pub(crate) fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Units with `kernel(k)` for every function, below `head`.
pub(crate) fn units(
    bodies: &Bodies,
    n: usize,
    head: &str,
    kernel: impl Fn(usize) -> String,
) -> Vec<Source> {
    let unit = |first: usize| {
        let kernels: String = (first..n.min(first + TOGETHER)).map(&kernel).collect();
        let name = format!("{}_{first}.cu", bodies.name);
        let mut source = Source::new(&name, format!("{head}{kernels}"));
        source.headers.push(("bodies.cuh".into(), bodies.text.clone()));
        source
    };
    (0..n).step_by(TOGETHER).map(unit).collect()
}

/// Launches `of_PREFIX_k` for every function; an error names the function that it came from.
pub(crate) fn launch(
    kernels: &Kernels,
    units: &[Source],
    (bodies, prefix, n): (&Bodies, &str, usize),
    (launch, args): (&Launch, &[Arg]),
) -> Result<(), Failed> {
    let units: Vec<_> = units.iter().map(|unit| (unit, Build::Parity)).collect();
    let mut modules = Vec::new();
    for some in units.chunks(at_once()) {
        modules.extend(kernels.compile_all(some)?);
    }
    for k in 0..n {
        let run = || -> Result<(), warp_func::Error> {
            let kernel = modules[k / TOGETHER].function(&format!("of_{prefix}_{k}"))?;
            kernel.launch(launch, args)?;
            // A trap is told here, or it would seem to be a later function's.
            Ok(kernels.device().synchronize()?)
        };
        let text = || bodies.text_of(&format!("{prefix}_{k}"));
        run().map_err(|error| format!("{prefix}_{k}: {error}\n{}", text()))?;
    }
    Ok(())
}
