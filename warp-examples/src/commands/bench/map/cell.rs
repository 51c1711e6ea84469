//! A cell of the map: an environment, an algorithm, a network and a number of replicas, and the list of cells.

use crate::settings;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use warp_func::Registry;
use warp_train::TrainConfig;

/// Worlds, from one agent with few numbers to many agents with many.
const WORLDS: [&str; 7] =
    ["cartpole", "acrobot", "pendulum", "tag_gridworld", "tag_continuous", "covid19", "rice_n"];
/// The one whose actions are continuous, for algorithms that need that.
const CONTINUOUS: &str = "pendulum";
/// Hidden layers.
const NETWORKS: [&str; 5] = ["64-64", "128-128", "256-256", "512-512-512", "1024-1024-1024-1024"];
const REPLICAS: [usize; 3] = [256, 2048, 16384];

/// The cells that are measured unless others are asked for, a line each: the last word lists numbers of replicas.
const CORE: [&str; 26] = [
    "cartpole ppo 64-64 separate 256,2048,16384",
    "cartpole ppo 128-128 separate 2048,16384",
    "cartpole ppo 256-256 separate 2048,16384",
    "cartpole ppo 512-512-512 separate 2048,16384",
    "cartpole ppo 1024-1024-1024-1024 separate 2048",
    "cartpole a2c 64-64 shared 2048,16384",
    "cartpole a2c 256-256 separate 2048",
    "acrobot ppo 64-64 separate 2048,16384",
    "acrobot ppo 256-256 separate 2048",
    "pendulum ppo 64-64 separate 256,2048,16384",
    "pendulum ppo 256-256 separate 2048",
    "pendulum ppo 512-512-512 separate 2048",
    "pendulum sac 64-64 separate 256",
    "pendulum sac 256-256 separate 256,2048",
    "tag_gridworld ppo 64-64 separate 2048,16384",
    "tag_gridworld ppo 128-128 separate 2048",
    "tag_gridworld a2c 64-64 shared 2048",
    "tag_continuous ppo 64-64 separate 256,2048",
    "tag_continuous ppo 256-256 separate 256,2048",
    "tag_continuous a2c 256-256 separate 2048",
    "covid19 ppo 64-64 separate 256,2048",
    "covid19 ppo 256-256 separate 256",
    "covid19 a2c 64-64 separate 2048",
    "rice_n ppo 64-64 separate 256,2048",
    "rice_n ppo 256-256 separate 256",
    "rice_n a2c 64-64 separate 2048",
];

/// Whether policy and value share their hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sharing {
    Separate,
    Shared,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) world: String,
    pub(super) algorithm: String,
    /// Hidden layers.
    pub(super) network: String,
    pub(super) sharing: Sharing,
    pub(super) replicas: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { world, algorithm, network, replicas, .. } = self;
        write!(f, "{world} {algorithm} {network} {} {replicas}", self.sharing)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Separate => "separate",
            Self::Shared => "shared",
        })
    }
}

impl FromStr for Sharing {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "separate" => Ok(Self::Separate),
            "shared" => Ok(Self::Shared),
            _ => anyhow::bail!("\"{word}\": expected separate or shared"),
        }
    }
}

impl Cell {
    /// The cells of a line of [`CORE`].
    fn of_line(line: &str) -> Result<Vec<Self>> {
        let words: Vec<_> = line.split(' ').collect();
        let [world, algorithm, network, sharing, replicas] = words[..] else {
            anyhow::bail!(
                "\"{line}\": expected an environment, an algorithm, a network, separate or shared, \
                 and replicas"
            );
        };
        let cell = |replicas: &str| {
            Ok(Self {
                world: world.into(),
                algorithm: algorithm.into(),
                network: network.into(),
                sharing: sharing.parse()?,
                replicas: replicas.parse().with_context(|| format!("\"{line}\""))?,
            })
        };
        replicas.split(',').map(cell).collect()
    }

    /// All cells that there are.
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        let mut add = |world: &str, algorithm: &str, sharing: Sharing| {
            for network in NETWORKS {
                for replicas in REPLICAS {
                    let [world, algorithm, network] = [world, algorithm, network].map(String::from);
                    cells.push(Self { world, algorithm, network, sharing, replicas });
                }
            }
        };
        for world in WORLDS {
            for algorithm in ["ppo", "a2c"] {
                add(world, algorithm, Sharing::Separate);
                add(world, algorithm, Sharing::Shared);
            }
        }
        add(CONTINUOUS, "sac", Sharing::Separate);
        cells
    }

    /// The cells that `asked` names: `core`, `all`, or words that a cell's name has to contain; smallest numbers of
    /// replicas first.
    ///
    /// # Errors
    /// Words that no cell has.
    pub(super) fn asked(asked: &str) -> Result<Vec<Self>> {
        let core = || CORE.iter().map(|line| Self::of_line(line)).collect::<Result<Vec<_>>>();
        let cells = match asked {
            "core" => core()?.concat(),
            "all" => Self::all(),
            words => {
                let has = |cell: &Self| {
                    let name = format!(" {cell} ");
                    words.split(' ').all(|word| name.contains(&format!(" {word} ")))
                };
                Self::all().into_iter().filter(has).collect()
            }
        };
        ensure!(
            !cells.is_empty(),
            "--cells \"{asked}\": no cell has all of these words; expected core, all, or some of a cell's words, \
             such as \"cartpole ppo 64-64 separate 2048\""
        );
        Ok(cells)
    }

    /// The run that is measured: the world's default configuration but for what the cell says, with passes and
    /// rollouts that are the same in all cells of an algorithm.
    ///
    /// # Errors
    /// A configuration that does not fit.
    pub(super) fn config(&self, extra: &[String], registry: &Registry) -> Result<TrainConfig> {
        let layers = self.network.replace('-', ", ");
        let mut sets = vec![
            format!("algorithm={}", self.algorithm),
            format!("num_envs={}", self.replicas),
            "checkpoint_steps=0".into(),
        ];
        if self.world == "tag_continuous" {
            sets.extend(["env.num_taggers=5".into(), "env.num_runners=100".into()]);
        }
        let default = settings::configure(&self.world, &sets, registry)?;
        let reads = |key: &str| default.policies.iter().any(|plan| plan.algorithm.reads(key));
        if reads("learning_starts") {
            sets.push("learning_starts=0".into());
        } else {
            sets.push(format!("num_steps={}", self.num_steps()));
            sets.push(format!("shared_trunk={}", self.sharing == Sharing::Shared));
        }
        let passes = ["num_minibatches", "update_epochs"].into_iter().filter(|key| reads(key));
        let of_policy: Vec<_> = passes.map(|key| format!("{key}=4")).collect();
        let of_policy = [of_policy, vec![format!("hidden=[{layers}]")]].concat();
        // Policies of a default configuration may have networks and passes of their own.
        if let [_, _, ..] = default.policies[..] {
            let names = default.policies.iter().map(|plan| &plan.name);
            sets.extend(
                names.flat_map(|name| {
                    of_policy.iter().map(move |set| format!("policy.{name}.{set}"))
                }),
            );
        }
        sets.extend(of_policy);
        sets.extend_from_slice(extra);
        settings::configure(&self.world, &sets, registry)
    }

    fn num_steps(&self) -> usize {
        match &self.world[..] {
            "tag_gridworld" => 100,
            "tag_continuous" => 50,
            "covid19" | "rice_n" => 20,
            _ => 128,
        }
    }

    /// Whether `other` is one step away: the next number of replicas or the next network, or another world, algorithm
    /// or sharing, all else being equal.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let network = |cell: &Self| NETWORKS.iter().position(|name| *name == cell.network);
        let replicas = |cell: &Self| REPLICAS.iter().position(|n| *n == cell.replicas);
        let apart = |a: Option<usize>, b: Option<usize>| match (a, b) {
            (Some(a), Some(b)) => a.abs_diff(b),
            _ => usize::MAX,
        };
        let steps = [
            usize::from(self.world != other.world),
            usize::from(self.algorithm != other.algorithm),
            usize::from(self.sharing != other.sharing),
            apart(network(self), network(other)),
            apart(replicas(self), replicas(other)),
        ];
        steps.iter().fold(0, |sum: usize, n| sum.saturating_add(*n)) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(line: &str) -> Cell {
        Cell::of_line(line).unwrap().remove(0)
    }

    #[test]
    fn the_core_is_about_forty_of_all_cells() {
        let (core, all) = (Cell::asked("core").unwrap(), Cell::asked("all").unwrap());
        assert!((38..=44).contains(&core.len()), "{}", core.len());
        assert_eq!(all.len(), 7 * 2 * 2 * 15 + 15);
        assert!(core.iter().all(|cell| all.contains(cell)));
        let registry = warp_envs::registry();
        core.iter().for_each(|cell| drop(cell.config(&[], &registry).unwrap()));
    }

    #[test]
    fn words_choose_cells() {
        assert_eq!(Cell::asked("pendulum sac").unwrap().len(), 15);
        assert_eq!(Cell::asked("cartpole ppo 64-64 separate 2048").unwrap().len(), 1);
        let error = Cell::asked("cartpole sac").unwrap_err().to_string();
        assert!(error.contains("no cell has all of these words"), "{error}");
    }

    #[test]
    fn neighbours_differ_in_one_step() {
        let here = cell("cartpole ppo 128-128 separate 2048");
        for beside in [
            "cartpole ppo 64-64 separate 2048",
            "cartpole ppo 256-256 separate 2048",
            "cartpole ppo 128-128 separate 256",
            "acrobot ppo 128-128 separate 2048",
            "cartpole a2c 128-128 separate 2048",
            "cartpole ppo 128-128 shared 2048",
        ] {
            assert!(here.is_beside(&cell(beside)), "{beside}");
        }
        for away in [
            "cartpole ppo 128-128 separate 2048",
            "cartpole ppo 512-512-512 separate 2048",
            "acrobot ppo 64-64 separate 2048",
        ] {
            assert!(!here.is_beside(&cell(away)), "{away}");
        }
    }
}
