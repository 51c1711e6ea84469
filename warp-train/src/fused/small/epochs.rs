//! `epochs.cuh` on the host: every sample once an epoch, the same part of each shard in a minibatch, and the parts that
//! a GPU for each shard would have.
//!
//! Without a C++ compiler (`$CXX`, or `c++`, `g++`, `clang++` on the path) this says so and holds nothing.

use super::shared::SmallRun;
use super::text::EPOCHS;
use crate::fused::sharded::{Given, Program};
use warp_core::device_struct::declare;
use warp_func::cuda::DeviceStruct;

fn program(of: &Given) -> Option<Program> {
    let run = declare(&[SmallRun::STRUCT]);
    let texts = [
        ("epochs.cuh", EPOCHS),
        ("epochs_host.cpp", include_str!("epochs_host.cpp")),
        ("small_run.h", &run),
    ];
    of.program("epochs", ["MINIBATCHES", "LOCAL_SHARDS", "AGENTS"], &texts)
}

#[test]
fn minibatches_have_the_parts_of_a_gpu_for_each_shard() {
    // Samples are numbered step by step, agent by agent, replica by replica.
    for of in Given::all(|of| of.replicas) {
        let (Some(together), Some(alone)) = (program(&of), program(&of.alone(0))) else { return };
        let run = |program: &Program, of: &Given| {
            program.minibatches([of.replicas * of.agents, of.steps, of.first_shard])
        };
        let epochs = run(&together, &of);
        of.check(&epochs, |_| true, |shard| run(&alone, &of.alone(shard)));
    }
}
