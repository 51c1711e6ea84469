//! Which runs a fleet has, and which of them go into one launch.

use crate::algorithm::Rollouts;
use crate::algorithm::{PolicyConfig, PolicyPlan};
use crate::config::{FOLDER_KEYS, RECORD_KEYS, RunConfig, TrainConfig};
use crate::error::{Error, Result};
use crate::run::parallel::each;
use crate::world::World;
use std::collections::BTreeSet;
use std::ops::Range;
use warp_core::EnvSpec;
use warp_core::toml::{Table, Value};
use warp_func::ResetPool;

/// One run of a fleet.
#[derive(Debug, Clone)]
pub struct FleetRun {
    /// Its number in the fleet.
    pub number: usize,
    /// The swept keys with this run's values.
    pub swept: Vec<(String, Value)>,
    /// The complete configuration, seed included.
    pub config: TrainConfig,
    /// Whether it may go on in a later launch, where it is longer.
    pub pauses: bool,
}

/// Checks that runs of a fleet may differ in `key`.
///
/// # Errors
/// A key in which they may not, with the reason.
pub fn check_sweepable(key: &str) -> Result<()> {
    let reason = match key.rsplit('.').next().unwrap_or(key) {
        "seed" => "use --seeds A..B for several seeds",
        "env_id" => "a fleet has one environment",
        "total_steps" => "all runs of a fleet have the same length",
        key if RECORD_KEYS.contains(&key) => {
            "a fleet has its own records, keeps only the last weights of its runs and does not \
             evaluate during training"
        }
        key if FOLDER_KEYS.contains(&key) => "a fleet has one folder",
        "pool_file" | "pool_digest" => "all runs of a fleet read the same files",
        "groups" => "all runs of a fleet have the same policies",
        _ => return Ok(()),
    };
    Err(Error::Invalid(format!("{key} can't be swept: {reason}")))
}

/// The positions of `runs`, gathered into launches: runs in one launch have the same arrays and the
/// same program, and differ in their seeds and in plain numbers of the algorithm.
#[must_use]
pub fn launches(runs: &[FleetRun]) -> Vec<Vec<usize>> {
    let mut found: Vec<(Shape<'_>, Vec<usize>)> = Vec::new();
    for setting in settings(runs) {
        let shape = Shape::of(&runs[setting.start].config);
        let known = found.iter().position(|(known, _)| *known == shape);
        let launch = known.unwrap_or(found.len());
        if launch == found.len() {
            found.push((shape, Vec::new()));
        }
        found[launch].1.extend(setting);
    }
    found.into_iter().map(|(_, launch)| launch).collect()
}

/// The positions of `runs` that follow each other and differ in their seeds alone.
#[must_use]
pub fn settings(runs: &[FleetRun]) -> Vec<Range<usize>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COMPARERS);
    let begins = each(threads, runs.len().div_ceil(COMPARED), |part| {
        let first = part * COMPARED;
        let mut before = first.checked_sub(1).map(|before| Setting::of(&runs[before].config));
        let mut begins = Vec::new();
        for (run, place) in runs[first..].iter().take(COMPARED).zip(first..) {
            if !before.as_mut().is_some_and(|setting| setting.is_of(&run.config)) {
                before = Some(Setting::of(&run.config));
                begins.push(place);
            }
        }
        begins
    });
    let begins = begins.concat();
    let ends = begins.iter().copied().skip(1).chain([runs.len()]);
    begins.iter().zip(ends).map(|(begin, end)| *begin..end).collect()
}

/// Threads that compare runs, at most, and how many runs each compares at a time.
const COMPARERS: usize = 8;
const COMPARED: usize = 512;

/// The numbers of those of the runs `left` that one of several processes trains: of each launch as many as any other
/// process, since runs of a launch take about as long as each other.
pub(super) fn dealt(left: &[FleetRun], world: &World) -> BTreeSet<usize> {
    let order = launches(left).concat().into_iter();
    order.skip(world.rank()).step_by(world.size()).map(|place| left[place].number).collect()
}

/// What runs have in common that differ in their seeds at most.
struct Setting<'a> {
    config: &'a TrainConfig,
    /// With the seed of the run that was compared last.
    run: RunConfig,
}

impl<'a> Setting<'a> {
    /// That of a run with this configuration.
    fn of(config: &'a TrainConfig) -> Self {
        Self { config, run: config.run.clone() }
    }

    /// Whether a run of this configuration has it.
    fn is_of(&mut self, config: &TrainConfig) -> bool {
        self.run.seed = config.run.seed;
        let TrainConfig { policies, env, spec, pool, .. } = self.config;
        self.run == config.run
            && (policies, env, spec, pool)
                == (&config.policies, &config.env, &config.spec, &config.pool)
    }
}

/// What all runs of a launch have in common: a configuration without its seed and its numbers.
#[derive(PartialEq)]
struct Shape<'a> {
    run: RunConfig,
    policies: Vec<PolicyPlan>,
    env: &'a Table,
    spec: &'a EnvSpec,
    pool: Option<&'a ResetPool>,
}

impl<'a> Shape<'a> {
    fn of(config: &'a TrainConfig) -> Self {
        let plan = |plan: &PolicyPlan| PolicyPlan {
            config: without_numbers(&plan.config),
            own: if plan.rollouts.is_some() { Table::new() } else { plan.own.clone() },
            rollouts: plan.rollouts.as_ref().map(Rollouts::without_numbers),
            ..plan.clone()
        };
        Self {
            run: RunConfig { seed: 0, ..config.run.clone() },
            policies: config.policies.iter().map(plan).collect(),
            env: &config.env,
            spec: &config.spec,
            pool: config.pool.as_deref(),
        }
    }
}

/// The configuration with the numbers that the runs of one launch may differ in at their defaults.
fn without_numbers(config: &PolicyConfig) -> PolicyConfig {
    let default = PolicyConfig::default();
    PolicyConfig {
        learning_rate: default.learning_rate,
        gamma: default.gamma,
        gae_lambda: default.gae_lambda,
        clip_coef: default.clip_coef,
        ent_coef: default.ent_coef,
        vf_coef: default.vf_coef,
        max_grad_norm: default.max_grad_norm,
        adam_eps: default.adam_eps,
        log_std_init: default.log_std_init,
        init: default.init,
        ..config.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: usize, keys: &str) -> FleetRun {
        let table = format!("env_id = \"cartpole\"\n{keys}").parse().unwrap();
        let config = TrainConfig::resolve(&table, &warp_envs::registry()).unwrap();
        FleetRun { number, swept: Vec::new(), pauses: false, config }
    }

    #[test]
    fn what_has_another_shape_goes_into_another_launch() {
        let keys = [
            "",
            "seed = 7",
            "hidden = [32]",
            "learning_rate = 0.5\ngamma = 0.5\nclip_coef = 0.3",
            "num_envs = 5",
            "hidden = [32]\nseed = 3",
            "[env]\nepisode_length = 50",
            "[policy.pole]\ngroups = [\"pole\"]\nent_coef = 0.5",
            "seed = 9\n[policy.pole]\ngroups = [\"pole\"]\nent_coef = 0.5",
            "num_envs = 5\nseed = 1",
            "num_envs = 5\nseed = 2",
        ];
        let runs: Vec<_> = keys.iter().enumerate().map(|(i, keys)| run(i, keys)).collect();
        let found = launches(&runs);
        assert_eq!(found, [vec![0, 1, 3, 7, 8], vec![2, 5], vec![4, 9, 10], vec![6]]);
        assert!(launches(&[]).is_empty());
    }

    #[test]
    fn settings_are_told_apart_wherever_they_begin() {
        let all = ["", "hidden = [32]", "num_envs = 5"].map(|keys| run(0, keys).config);
        for [first, second] in
            [[COMPARED, COMPARED + 1], [1, 2 * COMPARED], [COMPARED - 1, 2 * COMPARED + 7]]
        {
            let seeded = |number: usize| {
                let place = usize::from(number >= first) + usize::from(number >= second);
                let mut config = all[place].clone();
                config.run.seed = number as u64;
                FleetRun { number, swept: Vec::new(), pauses: false, config }
            };
            let runs: Vec<_> = (0..2 * COMPARED + 9).map(seeded).collect();
            assert_eq!(settings(&runs), [0..first, first..second, second..runs.len()]);
        }
        assert!(settings(&[]).is_empty());
    }

    #[test]
    fn every_run_is_dealt_once_and_every_launch_evenly() {
        let keys = (0..24).map(|i| format!("seed = {i}\nhidden = [{}]", 8 + i % 2));
        let runs: Vec<_> = keys.enumerate().map(|(i, keys)| run(5 + i, &keys)).collect();
        let links = crate::world::threads(4, std::time::Duration::from_secs(1));
        let worlds = links.into_iter().enumerate().map(|(rank, link)| World::new(rank, 4, link));
        let shares: Vec<_> = worlds.map(|world| dealt(&runs, &world)).collect();
        let all: BTreeSet<usize> = shares.iter().flatten().copied().collect();
        assert_eq!((all.len(), all.first(), all.last()), (24, Some(&5), Some(&28)));
        for share in &shares {
            let even = share.iter().filter(|number| **number % 2 == 0).count();
            assert_eq!((share.len(), even), (6, 3));
        }
        assert_eq!(dealt(&runs, &World::default()), all);
    }

    #[test]
    fn what_no_fleet_can_sweep_is_refused() {
        for key in ["seed", "env_id", "total_steps", "pool_file", "policy.pole.groups"] {
            let error = check_sweepable(key).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key} can't be swept: ")), "{error}");
        }
        for key in ["learning_rate", "env.episode_length", "policy.pole.gamma", "hidden"] {
            check_sweepable(key).unwrap();
        }
    }
}
