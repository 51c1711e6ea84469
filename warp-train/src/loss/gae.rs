//! Generalised advantage estimation (Schulman et al., 2016), row by row.
//!
//! Where an agent's episode ended the recursion stops. A terminated episode is worth nothing beyond
//! its end; a truncated one is worth the value of its last observation.

/// What the recursion reads: one number per step and row, row-major `[n_steps, n_rows]`.
#[derive(Debug, Clone, Copy)]
pub struct Trajectory<'a> {
    /// Rows: agents of all replicas.
    pub n_rows: usize,
    /// Reward of the step.
    pub rewards: &'a [f32],
    /// Value of the observation before the step.
    pub values: &'a [f32],
    /// 1 where the agent's episode ended in the step, however it ended.
    pub ended: &'a [u8],
    /// Value of the last observation of an episode truncated in the step, else 0.
    pub truncated_values: &'a [f32],
    /// Value of the observation after the last step, `[n_rows]`.
    pub last_values: &'a [f32],
}

/// Writes advantages and returns (advantage + value), `[n_steps, n_rows]` each.
pub fn gae(
    trajectory: Trajectory<'_>,
    gamma: f32,
    lambda: f32,
    advantages: &mut [f32],
    returns: &mut [f32],
) {
    let Trajectory { n_rows, rewards, values, ended, truncated_values, last_values } = trajectory;
    let n_steps = rewards.len() / n_rows.max(1);
    for t in (0..n_steps).rev() {
        let last = t + 1 == n_steps;
        for (row, last_value) in last_values.iter().enumerate() {
            let at = t * n_rows + row;
            let (next_value, next_advantage) = match (ended[at], last) {
                (0, true) => (*last_value, 0.0),
                (0, false) => (values[at + n_rows], advantages[at + n_rows]),
                _ => (truncated_values[at], 0.0),
            };
            let delta = rewards[at] + gamma * next_value - values[at];
            advantages[at] = delta + gamma * lambda * next_advantage;
            returns[at] = advantages[at] + values[at];
        }
    }
}

/// WarpDrive's returns, kept for comparison: the last row's return is its reward where the episode
/// ended there and the value of its own observation elsewhere (not the next one's, undiscounted,
/// without the reward); before it `R = r + gamma R'` up to an episode's end, however it ended.
pub fn warpdrive_returns(
    trajectory: Trajectory<'_>,
    gamma: f32,
    advantages: &mut [f32],
    returns: &mut [f32],
) {
    let Trajectory { n_rows, rewards, values, ended, .. } = trajectory;
    let n_steps = rewards.len() / n_rows.max(1);
    for t in (0..n_steps).rev() {
        for row in 0..n_rows {
            let at = t * n_rows + row;
            returns[at] = match (ended[at], t + 1 == n_steps) {
                (0, true) => values[at],
                (0, false) => rewards[at] + gamma * returns[at + n_rows],
                _ => rewards[at],
            };
            advantages[at] = returns[at] - values[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: sum over k of (gamma lambda)^k delta[t + k], up to the episode's end.
    fn by_definition(t: usize, row: usize, traj: &Trajectory<'_>, gamma: f64, lambda: f64) -> f64 {
        let n = traj.n_rows;
        let n_steps = traj.rewards.len() / n;
        let (mut sum, mut weight) = (0.0, 1.0);
        for k in t..n_steps {
            let at = k * n + row;
            let next = if traj.ended[at] != 0 {
                traj.truncated_values[at]
            } else if k + 1 == n_steps {
                traj.last_values[row]
            } else {
                traj.values[at + n]
            };
            let delta =
                f64::from(traj.rewards[at]) + gamma * f64::from(next) - f64::from(traj.values[at]);
            sum += weight * delta;
            if traj.ended[at] != 0 {
                break;
            }
            weight *= gamma * lambda;
        }
        sum
    }

    proptest! {
        #[test]
        fn equals_its_definition(
            n_rows in 1usize..4,
            steps in prop::collection::vec(
                prop::collection::vec((-2.0f32..2.0, -2.0f32..2.0, 0u8..4, -2.0f32..2.0), 3), 1..20),
            last in prop::collection::vec(-2.0f32..2.0, 3),
            gamma in 0.0f32..1.0,
            lambda in 0.0f32..1.0,
        ) {
            let cells = || steps.iter().flat_map(|row| &row[..n_rows]);
            let rewards: Vec<f32> = cells().map(|c| c.0).collect();
            let values: Vec<f32> = cells().map(|c| c.1).collect();
            // 2: terminated, 3: truncated.
            let ended: Vec<u8> = cells().map(|c| u8::from(c.2 >= 2)).collect();
            let truncated_values: Vec<f32> =
                cells().map(|c| if c.2 == 3 { c.3 } else { 0.0 }).collect();
            let traj = Trajectory {
                n_rows, rewards: &rewards, values: &values, ended: &ended,
                truncated_values: &truncated_values, last_values: &last[..n_rows],
            };
            let (mut advantages, mut returns) = (vec![0.0; rewards.len()], vec![0.0; rewards.len()]);
            gae(traj, gamma, lambda, &mut advantages, &mut returns);
            for t in 0..steps.len() {
                for row in 0..n_rows {
                    let at = t * n_rows + row;
                    let expected =
                        by_definition(t, row, &traj, f64::from(gamma), f64::from(lambda));
                    prop_assert!((f64::from(advantages[at]) - expected).abs() < 1e-4);
                    prop_assert!((returns[at] - advantages[at] - values[at]).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn the_originals_last_step_ignores_its_reward() {
        let traj = Trajectory {
            n_rows: 2,
            rewards: &[1.0, 1.0, 5.0, 7.0],
            values: &[0.5, 0.5, 0.25, 0.25],
            ended: &[0, 0, 0, 1],
            truncated_values: &[0.0; 4],
            last_values: &[9.0, 9.0],
        };
        let (mut advantages, mut returns) = ([0.0; 4], [0.0; 4]);
        warpdrive_returns(traj, 0.5, &mut advantages, &mut returns);
        assert_eq!(returns, [1.0 + 0.5 * 0.25, 1.0 + 0.5 * 7.0, 0.25, 7.0]);
        assert_eq!(advantages, [0.625, 4.0, 0.0, 6.75]);
    }
}
