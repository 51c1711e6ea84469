//! The rows of the training tables: the reports that they come from, and the other cells of the
//! same row.

/// One line of a table.
pub(super) struct Row {
    /// What its reports are called.
    pub(super) key: &'static str,
    pub(super) work: &'static str,
    /// Environment steps per second of the best peer that was measured on the same machine.
    pub(super) peer: Option<f64>,
    /// The drawing that its curves are in.
    pub(super) drawing: &'static str,
}

impl Row {
    /// The names of the reports that it can have.
    pub(super) fn reports(&self) -> [String; 2] {
        ["fp16", "fp32"].map(|precision| format!("{}-{precision}", self.key))
    }
}

const fn row(
    key: &'static str,
    work: &'static str,
    peer: Option<f64>,
    drawing: &'static str,
) -> Row {
    Row { key, work, peer, drawing }
}

pub(super) const GPU: [Row; 19] = [
    row(
        "ppo-cartpole-4",
        "PPO cartpole, 2 x (64, 64) tanh, PureJaxRL's configuration",
        Some(88.7e3),
        "ppo",
    ),
    row(
        "ppo-cartpole-256",
        "PPO cartpole, 2 x (64, 64) tanh, 128 steps, 4 epochs of 4 minibatches",
        Some(4.7e6),
        "ppo",
    ),
    row("ppo-cartpole-2048", "the same", Some(24.8e6), "ppo"),
    row("ppo-cartpole-16384", "the same", Some(66.4e6), "ppo"),
    row("ppo-cartpole-65536", "the same", Some(86.2e6), "ppo"),
    row(
        "ppo-cartpole-shared-4096",
        "PPO cartpole, one shared (64, 64), 32 steps, 1 epoch, 1 minibatch",
        None,
        "ppo",
    ),
    row(
        "a2c-cartpole-100",
        "A2C cartpole, shared (32, 32) relu, 100 steps",
        Some(86.6e3),
        "a2c-cartpole",
    ),
    row("a2c-cartpole-1000", "the same", Some(882e3), "a2c-cartpole"),
    row("a2c-cartpole-10000", "the same", Some(8.83e6), "a2c-cartpole"),
    row("a2c-cartpole-100000", "the same", Some(72e6), "a2c-cartpole"),
    row(
        "a2c-acrobot-100",
        "A2C acrobot, shared (32, 32) relu, 100 steps",
        Some(133e3),
        "a2c-acrobot",
    ),
    row("a2c-acrobot-1000", "the same", Some(1.31e6), "a2c-acrobot"),
    row("a2c-acrobot-10000", "the same", Some(12.5e6), "a2c-acrobot"),
    row("a2c-acrobot-100000", "the same", Some(85.3e6), "a2c-acrobot"),
    row(
        "a2c-tag_gridworld-2000",
        "A2C tag_gridworld, 5 agents, shared (32, 32), 100 steps",
        Some(3.72e6),
        "a2c-tag_gridworld",
    ),
    row("a2c-tag_gridworld-10000", "the same", Some(16.1e6), "a2c-tag_gridworld"),
    row(
        "a2c-tag_continuous-60",
        "A2C tag_continuous, 105 agents, two (256, 256), 416 steps",
        Some(30.1e3),
        "a2c-tag_continuous",
    ),
    row("a2c-tag_continuous-500", "the same, 50 steps", Some(120e3), "a2c-tag_continuous"),
    row("a2c-tag_continuous-2000", "the same, 50 steps", Some(165e3), "a2c-tag_continuous"),
];

pub(super) const CPU: [Row; 3] = [
    row("cpu-ppo-cartpole-32", "PPO cartpole, the default configuration", None, "cpu"),
    row("cpu-ppo-cartpole-4", "PPO cartpole, PureJaxRL's configuration", None, "cpu"),
    row("cpu-ppo-cartpole-1024", "PPO cartpole, 1,024 replicas", None, "cpu"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_key_of_its_own_and_a_line_in_the_script() {
        let script = include_str!("../bundle/run.sh");
        let mut keys: Vec<_> = GPU.iter().chain(&CPU).map(|row| row.key).collect();
        let wanted = |key: &&&str| !key.starts_with("cpu-");
        for key in keys.iter().filter(wanted) {
            let (name, _) = key.rsplit_once('-').unwrap();
            assert!(script.contains(&format!("row {name} ")), "{key}");
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), GPU.len() + CPU.len());
    }
}
