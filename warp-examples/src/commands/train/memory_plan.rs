//! `warp train -v`: the code path of a run's iterations, and the memory plan, with every array, before its
//! first step.

use crate::commands::Device;
use crate::output::tell;
use anyhow::Result;
use warp_data::memory::{available, human};
use warp_train::rollout::{PolicyRollout, Rollout};
use warp_train::{TrainConfig, Trainer};

/// One array: its name, what it is, and its bytes.
type Line = (String, String, u128);

/// Prints the path and plan of `trainer` to standard error.
///
/// # Errors
/// A GPU's driver that refuses.
pub(super) fn show(trainer: &Trainer, device: &Device) -> Result<()> {
    if let Some(path) = trainer.learner().path() {
        tell(&format!("path: {path}"));
    }
    let store = trainer.envs().store();
    let mut lines: Vec<Line> =
        store.arrays().map(|a| line(a.name(), a.dtype(), a.shape())).collect();
    let of_envs = sum(&lines);
    if let Some(all) = trainer.rollout() {
        let parts = all.policies.iter().zip(&trainer.config().policies);
        lines.extend(parts.flat_map(|(part, plan)| rollout_lines(all, part, &plan.name)));
    }
    tell(&table("host", &lines, available().map(u128::from)));
    match device {
        Device::Cpu => tell(&per_replica(trainer.config(), of_envs, sum(&lines))),
        #[cfg(feature = "cuda")]
        Device::Cuda(kernels) => {
            let gpu = kernels.device();
            let held = gpu.allocations();
            let lines: Vec<Line> = held
                .iter()
                .map(|h| (h.name.to_string(), kind(h.dtype, &h.shape), u128::from(h.bytes)))
                .collect();
            tell(&table("GPU", &lines, Some(u128::from(gpu.free_bytes()?))));
            tell(&per_replica(trainer.config(), of_envs, sum(&lines)));
        }
    }
    Ok(())
}

fn sum(lines: &[Line]) -> u128 {
    lines.iter().map(|(.., bytes)| bytes).sum()
}

/// Memory per replica and per step of a replica, from the totals `of_envs` and `all`.
fn per_replica(config: &TrainConfig, of_envs: u128, all: u128) -> String {
    let replicas = (config.n_envs() as u128).max(1);
    let steps = replicas * (config.run.num_steps as u128).max(1);
    let (env, learner) = (of_envs / replicas, all.saturating_sub(of_envs) / steps);
    format!(
        "per replica: {} (environment); per replica and rollout step: {} (learner)",
        human(env),
        human(learner)
    )
}

fn kind(dtype: warp_data::DType, shape: &[usize]) -> String {
    format!("{dtype} {shape:?}")
}

fn line(name: &str, dtype: warp_data::DType, shape: &[usize]) -> Line {
    let elements = shape.iter().map(|n| *n as u128).product::<u128>();
    (name.into(), kind(dtype, shape), elements * dtype.size() as u128)
}

/// A policy's part of a rollout.
fn rollout_lines(all: &Rollout, rollout: &PolicyRollout, policy: &str) -> Vec<Line> {
    use warp_data::DType::{F32, U8};
    let (steps, rows, width) = (all.n_steps, rollout.n_rows, rollout.width);
    let actions = rollout.layout.action_width();
    let mut lines = vec![
        line("obs", F32, &[steps + 1, rows, width]),
        line("actions", F32, &[steps, rows, actions]),
        line("values", F32, &[steps + 1, rows]),
        line("log_probs", F32, &[steps, rows]),
        line("rewards", F32, &[steps, rows]),
        line("truncated_values", F32, &[steps, rows]),
        line("ended", U8, &[steps, rows]),
    ];
    if !rollout.action_mask.is_empty() {
        let mask = rollout.action_mask.len() / ((steps + 1) * rows).max(1);
        lines.push(line("action_mask", U8, &[steps + 1, rows, mask]));
    }
    if !rollout.weights.is_empty() {
        lines.push(line("weights", F32, &[steps, rows]));
    }
    lines.into_iter().map(|(name, kind, n)| (format!("rollout.{policy}.{name}"), kind, n)).collect()
}

/// The lines, largest arrays first, and their sum.
fn table(place: &str, lines: &[Line], free: Option<u128>) -> String {
    let mut sorted: Vec<&Line> = lines.iter().filter(|(.., bytes)| *bytes > 0).collect();
    sorted.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    let mut text = format!("memory plan of the {place}\n");
    for (name, kind, bytes) in sorted {
        text += &format!("{:>12}  {name:<32} {kind}\n", human(*bytes));
    }
    let total = human(sum(lines));
    let free = free.map_or("unknown".into(), human);
    text + &format!("{total:>12}  in total; {free} are left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_data::DType;

    #[test]
    fn the_largest_array_comes_first_and_the_sum_last() {
        let lines = [line("a", DType::U8, &[3]), line("b", DType::F32, &[512, 2])];
        let wanted = "memory plan of the host\n     4.0 KiB  b                                f32 [512, 2]\n     \
                      3 bytes  a                                u8 [3]\n     4.0 KiB  in total; 1.0 MiB are left";
        assert_eq!(table("host", &lines, Some(1 << 20)), wanted);
    }
}
