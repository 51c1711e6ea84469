//! `warp bench --device cuda`: cycles of an environment on a GPU.
//!
//! A cycle samples random actions, steps every replica and resets finished episodes. Several steps share
//! a launch; each writes its observations, rewards and flags to the arrays that a learner would
//! read, where the next overwrites them. With `--check` the state after the steps is compared with
//! the CPU's, bit for bit, in the parity build.

use super::{BenchArgs, write_random_actions};
use crate::Outcome;
use crate::commands::{print_json, say};
use crate::output::short;
use anyhow::{Result, bail};
use serde_json::json;
use std::time::Instant;
use warp_func::cuda::{Build, CudaVecEnv, Kernels, parity};
use warp_func::{Registry, VecEnv, VecOptions};
use warp_train::TrainConfig;

/// Default number of steps per launch.
const STEPS: u32 = 100;
/// Launches whose median is reported.
const SAMPLES: usize = 9;

/// Runs the command.
///
/// # Errors
/// An environment without a CUDA body, too little memory, or a state that differs from the CPU's.
pub(super) fn execute(
    args: &BenchArgs,
    config: &TrainConfig,
    registry: &Registry,
    kernels: &Kernels,
    started: Instant,
) -> Result<Outcome> {
    let entry = registry.get(&config.run.env_id)?;
    let options = VecOptions { threads: 0, ..config.vec_options() };
    let mut envs = entry.make_cuda(&config.env, &options, kernels, Build::Release)?;
    let cuda = gpu(&mut *envs)?;
    cuda.cycle(1)?;
    cuda.gpu().synchronize()?;
    let first_step = started.elapsed().as_secs_f64();
    let steps_per_launch = args.steps.unwrap_or(STEPS);
    let seconds = time_cycles(cuda, steps_per_launch)?;
    let steps = u64::from(steps_per_launch) * config.run.num_envs as u64;
    let rate = steps as f64 / seconds;
    if args.check {
        check(steps_per_launch, config, registry, kernels)?;
    }
    let report = json!({
        "env": config.run.env_id,
        "device": "cuda",
        "gpu": cuda.gpu().info().name,
        "envs": config.run.num_envs,
        "steps_per_launch": steps_per_launch,
        "launches_per_step": 1.0 / f64::from(steps_per_launch),
        "observations_written": true,
        "env_steps_per_second": rate,
        "launch_seconds": seconds,
        "threads_per_replica": cuda.text().team,
        "checked_against_cpu": args.check,
        "start_to_first_step_seconds": first_step,
        "compile_seconds": kernels.compile_seconds(),
    });
    if args.json {
        print_json(&report)?;
    } else {
        let (env, n) = (&config.run.env_id, config.run.num_envs);
        say(&format!(
            "{env}, {n} replicas, {steps_per_launch} steps per launch, observations written"
        ))?;
        say(&format!("random actions, step, reset     {}steps/s", short(rate)))?;
        say(&format!(
            "start to first step {first_step:.2} s, of which compiling {:.2} s",
            kernels.compile_seconds()
        ))?;
    }
    Ok(Outcome::Done)
}

/// Steps per second of an environment with random actions.
///
/// # Errors
/// An environment without a CUDA body, or too little memory.
pub(super) fn rate_of_world(
    config: &TrainConfig,
    registry: &Registry,
    kernels: &Kernels,
) -> Result<f64> {
    let entry = registry.get(&config.run.env_id)?;
    let options = VecOptions { threads: 0, ..config.vec_options() };
    let mut envs = entry.make_cuda(&config.env, &options, kernels, Build::Release)?;
    let steps = u64::from(STEPS) * config.run.num_envs as u64;
    Ok(steps as f64 / time_cycles(gpu(&mut *envs)?, STEPS)?)
}

fn gpu(envs: &mut dyn VecEnv) -> Result<&mut CudaVecEnv> {
    match envs.as_cuda() {
        Some(cuda) => Ok(cuda),
        None => bail!("the environment was created for another device"),
    }
}

/// Median seconds of a launch of `steps` steps, each from fresh starts.
fn time_cycles(cuda: &mut CudaVecEnv, steps: u32) -> Result<f64> {
    let mut samples = Vec::new();
    for _ in 0..=SAMPLES {
        cuda.device_reset()?;
        cuda.gpu().synchronize()?;
        let started = Instant::now();
        cuda.cycle(steps)?;
        cuda.gpu().synchronize()?;
        samples.push(started.elapsed().as_secs_f64());
    }
    // The first one warms up.
    let mut samples = samples.split_off(1);
    samples.sort_by(f64::total_cmp);
    Ok(samples[samples.len() / 2])
}

/// The state after the steps, on both devices.
fn check(steps: u32, config: &TrainConfig, registry: &Registry, kernels: &Kernels) -> Result<()> {
    let entry = registry.get(&config.run.env_id)?;
    let options = VecOptions { threads: 0, ..config.vec_options() };
    let mut on_cpu = entry.make(&config.env, &options)?;
    for step in 0..steps {
        write_random_actions(&mut *on_cpu, step)?;
        on_cpu.step()?;
    }
    let mut on_gpu = entry.make_cuda(&config.env, &options, kernels, Build::Parity)?;
    gpu(&mut *on_gpu)?.cycle(steps)?;
    on_gpu.sync()?;
    for id in on_cpu.ids().persistent() {
        let name = on_cpu.store().array(id).name().to_string();
        let equal = parity::equal(&*on_cpu, &*on_gpu, id);
        anyhow::ensure!(equal, "after {steps} steps array \"{name}\" differs from the CPU's");
    }
    Ok(())
}
