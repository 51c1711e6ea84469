//! What the ranks of a run exchange during a policy's updates: gradients, and statistics of priorities. A program ends
//! with what this rank tells the others, and the next one begins with what all of them have told.
//!
//! Several shards of one rank exchange statistics of their priorities as ranks do, but within a program.

use super::layout::Layout;
use super::priorities::PriorityArrays;
use crate::algorithm::{ModelId, OptimiserId, Plan};
use crate::engine::collectives::{self, AllGather, Gathered, RankConnector, Room};
use crate::error::Result;
use std::fmt::Write;
use warp_core::DType::F32;
use warp_data::cuda::{Device, DeviceArray};
use warp_func::cuda::{Build, Kernels, Source};

/// How a run is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    /// Ranks that learn together.
    pub(super) ranks: usize,
    /// Shards of the replay memory that each rank has.
    pub(super) shards: usize,
}

impl Division {
    /// Whether ranks exchange something, or shards do.
    pub(super) fn exchanges(self, plan: &Plan) -> bool {
        self.ranks > 1 || (self.shards > 1 && plan.replay.priority.is_some())
    }
}

/// Something that all ranks exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Exchanged {
    /// Sums of the gradients of an optimiser's models over the rows here.
    Gradient(OptimiserId),
    /// Of each shard the sum of all priorities, and the least one in its part of the batch.
    PriorityStats,
    /// The largest priority of each shard so far.
    MaxPriority,
}

impl Exchanged {
    /// All that the ranks of `plan` exchange; each has its number in this order.
    fn all(plan: &Plan) -> Vec<Self> {
        let gradients = (0..plan.optimisers.len()).map(|o| Self::Gradient(OptimiserId(o)));
        let of_priorities =
            plan.replay.priority.map_or(&[][..], |_| &[Self::PriorityStats, Self::MaxPriority]);
        gradients.chain(of_priorities.iter().copied()).collect()
    }

    /// How many that are.
    pub(super) fn n(plan: &Plan) -> usize {
        Self::all(plan).len()
    }

    fn number(self, plan: &Plan) -> usize {
        Self::all(plan).iter().position(|exchanged| *exchanged == self).unwrap_or(0)
    }

    /// How many numbers it is, of so many shards.
    fn len(self, plan: &Plan, layout: &Layout, shards: usize) -> usize {
        match self {
            Self::Gradient(OptimiserId(o)) => {
                let models = &plan.optimisers[o].models;
                models.iter().map(|id| layout.model(*id).parameters.len()).sum()
            }
            Self::PriorityStats => 2 * shards,
            Self::MaxPriority => shards,
        }
    }

    /// In how many copies it is heard where each has `len` numbers: those of all ranks, or the sum of large gradients.
    fn copies(self, len: usize, ranks: usize) -> usize {
        match self {
            Self::Gradient(_) => collectives::copies(len, ranks),
            Self::PriorityStats | Self::MaxPriority => ranks,
        }
    }
}

/// Where the gradient of a model that is optimised lies among those that are told: which optimiser's they are, and
/// how far the first of the model's numbers lies behind its place among all parameters.
pub(super) fn place(plan: &Plan, layout: &Layout, model: ModelId) -> Option<(usize, i64)> {
    let owns = |models: &[ModelId]| models.contains(&model);
    let optimiser = plan.optimisers.iter().position(|optimiser| owns(&optimiser.models))?;
    let before = plan.optimisers[optimiser].models.iter().take_while(|id| **id != model);
    let before: usize = before.map(|id| layout.model(*id).parameters.len()).sum();
    Some((optimiser, before as i64 - layout.model(model).parameters.start as i64))
}

/// What texts of several ranks or shards know of them, with each shard as a rank of its own; `rank_counter` is the
/// number of the counter that says which rank it is.
pub(super) fn constants(plan: &Plan, division: Division, rank_counter: usize) -> String {
    let Division { ranks, shards } = division;
    let mut text = format!("#define RANKS {}\n", ranks * shards);
    let _ = match shards {
        1 => writeln!(text, "#define FIRST_SAMPLE (m.counters[{rank_counter}] * BATCH)"),
        _ => writeln!(
            text,
            "#define FIRST_SAMPLE ((m.counters[{rank_counter}] * SHARDS + (unsigned int)m.shard) * SHARD_BATCH)"
        ),
    };
    if plan.replay.priority.is_some() {
        let [stats, largest] = [Exchanged::PriorityStats, Exchanged::MaxPriority]
            .map(|exchanged| exchanged.number(plan));
        let _ = writeln!(
            text,
            "#define EXCHANGED_PRIORITY_STATS {stats}\n#define EXCHANGED_MAX_PRIORITY {largest}"
        );
    }
    text
}

/// What this rank tells, and what it hears of all ranks; each by its number.
#[derive(Debug)]
pub(super) struct RankArrays {
    /// f32 `[len]`.
    pub(super) told: Vec<DeviceArray>,
    /// f32 `[ranks, len]`, or `[len]` for sums; what is told itself where there is one rank.
    pub(super) heard: Vec<DeviceArray>,
}

impl RankArrays {
    pub(super) fn new(
        device: &Device,
        (plan, layout): (&Plan, &Layout),
        Division { ranks, shards }: Division,
        priorities: &PriorityArrays,
    ) -> Result<Self> {
        let make = |name: &str, n: usize| DeviceArray::zeros(device, name, F32, &[n]);
        let len = |exchanged: &Exchanged| match exchanged {
            // Nobody would hear it.
            Exchanged::Gradient(_) if ranks == 1 => 1,
            exchanged => exchanged.len(plan, layout, shards),
        };
        let all = Exchanged::all(plan);
        let told = all.iter().map(|exchanged| match exchanged {
            Exchanged::MaxPriority => Ok(priorities.largest.clone()),
            exchanged => make("told to ranks", len(exchanged)),
        });
        let told = told.collect::<warp_data::Result<Vec<_>>>()?;
        let n_heard =
            |exchanged: &Exchanged| exchanged.copies(len(exchanged), ranks) * len(exchanged);
        let heard = all.iter().map(|exchanged| make("heard of ranks", n_heard(exchanged)));
        let heard = if ranks == 1 { Ok(told.clone()) } else { heard.collect() };
        Ok(Self { told, heard: heard? })
    }

    /// What is gathered of `exchanged`.
    pub(super) fn gathered(&self, plan: &Plan, exchanged: &[Exchanged]) -> Vec<Gathered<'_>> {
        let numbers = exchanged.iter().map(|exchanged| exchanged.number(plan));
        numbers.map(|i| Gathered { own: &self.told[i], all: &self.heard[i] }).collect()
    }
}

/// The text of what gathers.
pub(super) fn source(ranks: usize) -> Source {
    Source::new("all_gather.cu", format!("#define P_RANKS {ranks}\n{}", collectives::text()))
}

/// The way to the other ranks, which are all to call it.
///
/// # Errors
/// As [`AllGather::new`], or text that does not compile.
pub(super) fn join(
    kernels: &Kernels,
    connector: &RankConnector,
    (plan, layout, shards): (&Plan, &Layout, usize),
) -> Result<AllGather> {
    let world = connector.world();
    let compile = || kernels.compile(&source(world.size()), Build::Parity);
    let module = world.first_then_others("a kernel that gathers", compile)??;
    let words =
        Exchanged::all(plan).iter().map(|exchanged| exchanged.len(plan, layout, shards)).sum();
    let room = Room { words, module: &module, may_wait: true };
    AllGather::new(connector, room)
}

#[cfg(test)]
mod tests {
    use super::super::{H200, sources};
    use super::*;
    use crate::algorithm::Planned;
    use crate::config::TrainConfig;
    use crate::engine::off_policy::planned;
    use crate::world::{World, threads};
    use std::time::Duration;

    const KEYS: &str =
        "env_id = \"pendulum\"\nalgorithm = \"sac\"\nnum_envs = 4\nprioritised = true";

    fn config() -> TrainConfig {
        TrainConfig::resolve(&KEYS.parse().unwrap(), &warp_envs::registry()).unwrap()
    }

    fn texts(rank: usize, size: usize) -> Vec<String> {
        texts_of(config(), rank, size)
    }

    fn texts_of(config: TrainConfig, rank: usize, size: usize) -> Vec<String> {
        let link = threads(size, Duration::from_secs(1)).swap_remove(rank);
        let config = config.on_rank(World::new(rank, size, link)).unwrap();
        let all = sources(&config, H200).unwrap();
        all.into_iter().map(|(source, _)| source.text.to_string()).collect()
    }

    #[test]
    fn rows_of_a_batch_draw_by_their_numbers_among_those_of_all_ranks() {
        let (one, two) = (texts(0, 1).concat(), texts(0, 2).concat());
        let [own, of_ranks] = ["(seed_of(m), row,", "(seed_of(m), FIRST_SAMPLE + row,"];
        assert!(one.contains(own) && !one.contains("FIRST_SAMPLE") && !one.contains("RANKS"));
        assert!(!two.contains(own) && two.contains(of_ranks));
        assert_eq!(texts(0, 2), texts(1, 2), "all ranks find the same texts compiled");
    }

    #[test]
    fn large_gradients_are_heard_as_their_sum() {
        // Both critics have two layers of 1024 x 1024: 16 MiB on each rank, and a little more.
        for (width, copies) in [(64, 2), (1024, 1)] {
            let mut config = config();
            config.policies[0].config.hidden = vec![width; 3];
            let text = texts_of(config, 0, 2).concat();
            assert!(text.contains(&format!("rank < {copies}; ++rank) sum += m.heard[0]")));
        }
    }

    #[test]
    fn gradients_of_an_optimiser_lie_behind_each_other() {
        let config = config();
        let Planned { plan, .. } = planned(&config, &config.policies[0]).unwrap();
        let layout = Layout::new(&plan, 4, H200, config.policies[0].config.precision);
        for (o, optimiser) in plan.optimisers.iter().enumerate() {
            let mut end = 0;
            for id in &optimiser.models {
                let parameters = &layout.model(*id).parameters;
                let (found, behind) = place(&plan, &layout, *id).unwrap();
                assert_eq!((found, parameters.start as i64 + behind), (o, end));
                end += parameters.len() as i64;
            }
            assert_eq!(Exchanged::Gradient(OptimiserId(o)).len(&plan, &layout, 1) as i64, end);
        }
        // Targets are not optimised.
        let target = plan.models.iter().position(|model| model.target_of.is_some()).unwrap();
        assert_eq!(place(&plan, &layout, ModelId(target)), None);
    }
}
