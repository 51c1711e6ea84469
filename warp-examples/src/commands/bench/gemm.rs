//! `warp bench gemm`: how fast the CPU makes the products of linear layers, which is what learning there can
//! reach at best.

use super::{BenchArgs, print_json, say};
use crate::Outcome;
use crate::commands::thread_count;
use anyhow::Result;
use serde_json::json;
use warp_train::native::Linear;

/// What stands for an environment among the benchmarks.
pub(super) const NAME: &str = "gemm";
/// Widths of layers with as many inputs as outputs.
const WIDTHS: [usize; 5] = [64, 128, 256, 512, 1024];

/// Runs `warp bench gemm`.
///
/// # Errors
/// A standard output that is closed.
pub(super) fn execute(args: &BenchArgs) -> Result<Outcome> {
    let threads = thread_count(args.threads);
    let seconds = args.seconds / (3 * WIDTHS.len()) as f64;
    let mut rows = Vec::new();
    for width in WIDTHS {
        let layer = Linear { inputs: width, outputs: width, goes_back: true };
        let rate = |product| layer.rate(product, threads, seconds) / 1e9;
        let rates: Vec<f64> = layer.products().iter().map(|product| rate(*product)).collect();
        rows.push((width, rates));
    }
    if args.json {
        let layer = |(width, rates): &(usize, Vec<f64>)| {
            json!({ "inputs": width, "outputs": width, "forward": rates[0], "to_weights": rates[1],
                    "to_inputs": rates[2] })
        };
        let layers: Vec<_> = rows.iter().map(layer).collect();
        print_json(&json!({ "threads": threads, "unit": "GFLOP/s", "layers": layers }))?;
        return Ok(Outcome::Done);
    }
    say(&format!("products of 256 rows, f32, {threads} threads, GFLOP/s in total"))?;
    say(&format!("{:>12} {:>10} {:>12} {:>12}", "layer", "forward", "to weights", "to inputs"))?;
    rows.iter().try_for_each(|(width, rates)| {
        let layer = format!("{width} x {width}");
        say(&format!("{layer:>12} {:10.1} {:12.1} {:12.1}", rates[0], rates[1], rates[2]))
    })?;
    Ok(Outcome::Done)
}
