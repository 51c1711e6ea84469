//! A thousand CartPoles at once: named arrays, updated in place, on all cores.
//!
//! `cargo run --release -p warp-examples --example 02_step_many`

use std::time::Instant;
use warp_envs::VecOptions;

const REPLICAS: usize = 1024;
const STEPS: usize = 20_000;

fn main() -> anyhow::Result<()> {
    let options = VecOptions { n_envs: REPLICAS, threads: 0, ..VecOptions::default() };
    let mut envs = warp_envs::registry().get("cartpole")?.make(&"".parse()?, &options)?;
    let obs = envs.store().id("obs.pole")?;
    let started = Instant::now();
    for _ in 0..STEPS {
        for replica in 0..REPLICAS {
            let theta = envs.store().slice::<f32>(obs)[replica * 4 + 2];
            envs.actions_mut(0)?.discrete()[replica] = i32::from(theta > 0.0);
        }
        envs.step()?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let episodes = envs.take_episodes();
    let mean = episodes.length.sum / episodes.count as f64;
    println!("{} episodes of {mean:.1} steps on average", episodes.count);
    println!("{:.1} M steps/s", (REPLICAS * STEPS) as f64 / seconds / 1e6);
    Ok(())
}
