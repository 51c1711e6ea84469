//! Which replicas' samples are learned from: those in which an episode reached its goal, and for each of them
//! some in which none did (the key `neg_pos_env_ratio`).

use crate::algorithm::PolicyPlan;
use crate::config::TrainConfig;
use std::ops::Range;
use warp_core::Draw;
use warp_func::VecEnv;

/// The statistic that says whether an episode reached its goal, where an environment has it.
pub(crate) const GOAL_REACHED: &str = "goal_reached";

/// Where episodes of a rollout reached their goals.
#[derive(Debug)]
pub(super) struct Goals {
    /// Place of the statistic among those of the environment.
    statistic: Option<usize>,
    /// Steps after which an episode ends by itself.
    limit: u32,
    /// Steps that each replica's episode had before the step at hand, u32 `[n_envs]`.
    lengths: Vec<u32>,
    /// Whether an episode of the replica reached its goal in this rollout, `[n_envs]`.
    reached: Vec<bool>,
}

/// Which replicas are learned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected {
    /// By replica.
    pub(super) replicas: Vec<bool>,
    /// How many of them reached a goal.
    positive: usize,
}

impl Selected {
    /// Replicas that reached a goal, and others that are learned from.
    pub(super) fn counts(&self) -> [f64; 2] {
        let all = self.replicas.iter().filter(|selected| **selected).count();
        [self.positive as f64, (all - self.positive) as f64]
    }
}

impl Goals {
    /// For the rollouts of `plan`, if it selects replicas.
    pub(super) fn new(plan: &PolicyPlan, config: &TrainConfig) -> Option<Self> {
        plan.config.neg_pos_env_ratio?;
        let spec = &config.spec;
        Some(Self {
            statistic: spec.statistics.iter().position(|name| name == GOAL_REACHED),
            limit: spec.time_limit.steps,
            lengths: Vec::new(),
            reached: vec![false; config.n_envs()],
        })
    }

    /// Looks at the environments before step `t`.
    pub(super) fn look(&mut self, t: usize, envs: &dyn VecEnv) {
        if t == 0 {
            self.reached.fill(false);
        }
        self.lengths.clear();
        self.lengths.extend_from_slice(envs.store().slice(envs.ids().episode_length));
    }

    /// Takes in the step that followed the last look.
    pub(super) fn note(&mut self, envs: &dyn VecEnv) {
        let (ids, store) = (envs.ids(), envs.store());
        let (terminated, truncated) =
            (store.slice::<u8>(ids.terminated), store.slice::<u8>(ids.truncated));
        let statistics = ids.final_statistic.map(|id| store.slice::<f32>(id));
        let width = envs.spec().statistics.len();
        for (replica, reached) in self.reached.iter_mut().enumerate() {
            *reached |= match self.statistic.zip(statistics) {
                Some((place, statistics)) => {
                    let ended = terminated[replica] | truncated[replica] != 0;
                    ended && statistics[replica * width + place] > 0.0
                }
                None => terminated[replica] != 0 && self.lengths[replica] + 1 < self.limit,
            };
        }
    }

    /// Which of the replicas `range` are learned from: those that reached a goal, and `ratio` times as many of
    /// the others, drawn by `draw`; all of them if none reached one or there are not so many others.
    pub(super) fn select(&self, range: Range<usize>, ratio: f64, mut draw: Draw) -> Selected {
        let mut selected = self.reached[range].to_vec();
        let positive = selected.iter().filter(|reached| **reached).count();
        let mut others: Vec<usize> =
            (0..selected.len()).filter(|replica| !selected[*replica]).collect();
        let wanted = (positive as f64 * ratio) as usize;
        if positive == 0 || wanted >= others.len() {
            selected.fill(true);
            return Selected { replicas: selected, positive };
        }
        // The first steps of Fisher and Yates's shuffle.
        for i in 0..wanted {
            let other = i + draw.below((others.len() - i) as u32) as usize;
            others.swap(i, other);
            selected[others[i]] = true;
        }
        Selected { replicas: selected, positive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_core::Purpose;

    fn goals(reached: &[bool]) -> Goals {
        Goals { statistic: None, limit: 9, lengths: Vec::new(), reached: reached.to_vec() }
    }

    fn draw(n: u32) -> Draw {
        Draw::new(1, 0, n, Purpose::Learn)
    }

    #[test]
    fn some_replicas_without_a_goal_are_kept_for_each_with_one() {
        let mut reached = [false; 40];
        (reached[3], reached[20]) = (true, true);
        let goals = goals(&reached);
        let mut kept = [0; 40];
        for n in 0..2000 {
            let selected = goals.select(0..40, 4.5, draw(n));
            assert_eq!(selected.counts(), [2.0, 9.0]);
            let selected = selected.replicas;
            assert_eq!(selected.iter().filter(|kept| **kept).count(), 2 + 9);
            kept.iter_mut().zip(selected).for_each(|(sum, kept)| *sum += usize::from(kept));
        }
        // Each of the 38 others as often: 2000 * 9 / 38 = 474, deviation 19.
        assert!(kept.iter().all(|n| *n == 2000 || (400..550).contains(n)), "{kept:?}");
        assert_eq!((kept[3], kept[20]), (2000, 2000));
        // A shard by itself: no goal among these.
        let none = goals.select(21..30, 1.0, draw(0));
        assert_eq!((none.counts(), none.replicas), ([0.0, 9.0], vec![true; 9]));
        assert_eq!(goals.select(2..5, 0.0, draw(0)).replicas, [false, true, false]);
    }

    /// Cartpole with the original's rules terminates an episode at its limit, too.
    #[test]
    fn a_goal_is_an_end_before_the_limit() {
        let text = "env_id = \"cartpole\"\nnum_envs = 16\nneg_pos_env_ratio = 1\n\
                    [env]\npreset = \"warpdrive\"\nepisode_length = 10";
        let registry = warp_envs::registry();
        let config = TrainConfig::resolve(&text.parse().unwrap(), &registry).unwrap();
        let entry = registry.get("cartpole").unwrap();
        let mut envs = entry.make(&config.env, &config.vec_options()).unwrap();
        let mut goals = Goals::new(&config.policies[0], &config).unwrap();
        let (mut steps, mut expected) = ([0; 16], [false; 16]);
        for t in 0..40 {
            goals.look(t, &*envs);
            // Some push to one side alone and fall, others to either side in turn.
            let actions = envs.actions_mut(0).unwrap().discrete();
            actions.iter_mut().enumerate().for_each(|(i, a)| *a = ((i % 2) * t % 2) as i32);
            envs.step().unwrap();
            goals.note(&*envs);
            for (i, ended) in envs.store().slice::<u8>(envs.ids().terminated).iter().enumerate() {
                steps[i] += 1;
                expected[i] |= *ended != 0 && steps[i] < 10;
                steps[i] *= i32::from(*ended == 0);
            }
        }
        assert_eq!(goals.reached, expected);
        assert!(expected.contains(&true) && expected.contains(&false), "{expected:?}");
        goals.look(0, &*envs);
        assert_eq!(goals.reached, [false; 16]);
    }

    #[test]
    fn all_are_kept_where_there_are_not_enough_others() {
        let goals = goals(&[true, false, false, true]);
        assert_eq!(goals.select(0..4, 1.0, draw(0)).replicas, [true; 4]);
        assert_eq!(goals.select(0..4, 0.5, draw(0)).counts(), [2.0, 1.0]);
    }
}
