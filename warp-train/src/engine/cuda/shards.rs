//! Several shards of a replay memory on one GPU. The texts of one shard do the work of each, with the memory as that
//! shard has it, so that its samples are those of a GPU with that shard alone.

use super::ranks::Division;
use crate::algorithm::Plan;
use crate::engine::cpu::Place;

const SHARDS: &str = include_str!("shards.cu");

/// What texts of one shard say, and what they say where there are several.
const REPLACED: [(&str, &str); 2] = [
    // In replay.cu.
    (
        "if (row < BATCH) sample_row(m, row);",
        "if (row < SHARDS * SHARD_BATCH) sample_row(of_shard(m, row / SHARD_BATCH), row % SHARD_BATCH);",
    ),
    // In acting.cu.
    ("unsigned long long at = step * N_ROWS + row,", "unsigned long long at = cell_of(step, row),"),
];

/// One thread's work for all shards.
pub(super) const RAISE_MAX_PRIORITY: &str = "        for (unsigned int shard = 0; shard < SHARDS; ++shard) raise_max_priority(of_shard(m, shard));\n";

/// The sizes of a rank's rows and of its part of a batch, and of what a shard has of either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    rows: usize,
    batch: usize,
    shards: usize,
}

impl Sizes {
    pub(super) fn new(plan: &Plan, place: &Place, Division { shards, .. }: Division) -> Self {
        Self { rows: place.n_rows, batch: plan.batch_size, shards }
    }

    /// What stands before all that knows of a shard.
    pub(super) fn text(self) -> String {
        let Self { rows, batch, shards } = self;
        let sizes =
            [("SHARDS", shards), ("SHARD_ROWS", rows / shards), ("SHARD_BATCH", batch / shards)];
        let define = |(name, n)| format!("#define {name} {n}u\n");
        sizes.into_iter().map(define).collect::<String>() + SHARDS
    }

    /// A text of one shard, with a shard's sizes.
    pub(super) fn of_each(self, text: &str) -> String {
        let Self { rows, batch, shards } = self;
        let sizes = |shards: usize| {
            let (rows, batch) = (rows / shards, batch / shards);
            format!("#undef N_ROWS\n#define N_ROWS {rows}u\n#undef BATCH\n#define BATCH {batch}u\n")
        };
        format!("{}{text}\n{}", sizes(shards), sizes(1))
    }
}

/// The text of a program of one shard as that of several.
pub(super) fn of_several(text: String) -> String {
    REPLACED.into_iter().fold(text, |text, (one, several)| text.replace(one, several))
}

#[cfg(test)]
mod tests {
    use super::super::context::ProgramContext;
    use super::super::layout::Layout;
    use super::super::test_compiler;
    use super::super::text::memory_text;
    use super::super::{H200, Setting};
    use super::*;
    use crate::algorithm::{ColumnId, Engine, Planned};
    use crate::config::TrainConfig;
    use crate::engine::cpu::CpuEngine;
    use crate::engine::off_policy::planned;
    use crate::memory::{GOES_ON, TERMINATED, TRUNCATED, Transition};
    use std::process::Command;
    use warp_core::kernel_text::{HEADERS, HOST_SHIM};

    /// Steps, behind each of which there is an update; more than memories hold.
    const STEPS: u32 = 30;
    /// Keys of a run's first policy, and whether its agents are to leave before their episode ends.
    const CASES: [(&str, bool); 4] = [
        ("env_id = \"pendulum\"\nalgorithm = \"sac\"\nbatch_size = 36\nbuffer_size = 160", false),
        ("env_id = \"pendulum\"\nalgorithm = \"td3\"\nbatch_size = 36\nbuffer_size = 160", true),
        (
            "env_id = \"cartpole\"\nalgorithm = \"dqn\"\nbatch_size = 24\nbuffer_size = 200\nn_step = 3\n\
             prioritised = true\npriority_beta = 0.4",
            true,
        ),
        (
            "env_id = \"covid19\"\nalgorithm = \"dqn\"\nbatch_size = 24\nbuffer_size = 9000\n\
             prioritised = true",
            false,
        ),
    ];

    fn number(t: u32, row: usize, i: usize) -> f32 {
        ((t as usize * 31 + row * 7 + i * 3) % 64) as f32 / 8.0 - 4.0
    }

    fn chance(t: u32, row: usize, of: usize) -> bool {
        (t as usize * 5 + row * 3).is_multiple_of(of)
    }

    /// What a GPU's texts make of that, and what the CPU does.
    struct Both {
        config: TrainConfig,
        setting: Setting,
        plan: Plan,
    }

    impl Both {
        fn new((keys, mortal): (&str, bool), shards: usize) -> Self {
            let keys = format!("seed = 5\nnum_envs = 12\nshards = {shards}\n{keys}");
            let config =
                TrainConfig::resolve(&keys.parse().unwrap(), &warp_envs::registry()).unwrap();
            let Planned { plan, .. } = planned(&config, &config.policies[0]).unwrap();
            let mut setting = Setting::new(&config, (0, 0));
            setting.agents.mortal = mortal;
            Self { config, setting, plan }
        }

        /// The columns of a batch, in the order of the program.
        fn columns(&self) -> Vec<ColumnId> {
            let replay = &self.plan.replay;
            let all = [replay.obs, replay.action, replay.reward, replay.discount, replay.next_obs];
            let masks = replay.mask.into_iter().chain(replay.next_mask);
            all.into_iter().chain([replay.weight]).chain(masks).collect()
        }

        /// Nothing without a C++ compiler.
        fn on_gpu(&self) -> Option<Vec<u32>> {
            let compiler = test_compiler::find()?;
            let Self { config, setting: Setting { place, agents, .. }, plan } = self;
            let division = self.setting.division();
            let layout = Layout::new(plan, place.n_rows, H200, self.setting.precision);
            let (layout, machine) = (&layout, H200);
            let context =
                ProgramContext { plan, layout, place, agents, runs: 1, division, machine };
            let cells = plan.cells.iter().map(|cell| format!("{:?}f", cell.value.at(0) as f32));
            let cells: Vec<String> = cells.collect();
            let widest = plan.columns.iter().map(|column| column.width).max().unwrap_or(1);
            let text = format!(
                "#define STEPS {STEPS}u\n#define WIDEST {widest}\n#define N_COUNTERS 64\n\
                 #define SEED {}u\n#define CELL_VALUES {{{}}}\n#include \"shards_host.cpp\"\n",
                config.run.seed,
                cells.join(", ")
            );
            let memory = memory_text(&context);
            let own = [
                ("host_shim.h", HOST_SHIM),
                ("memory_text.h", &*memory),
                ("shards_host.cpp", include_str!("shards_host.cpp")),
                ("program.cpp", &text),
            ];
            let texts: Vec<_> = HEADERS.into_iter().chain(own).collect();
            let (id, shards) = (std::process::id(), division.shards);
            let folder = format!("warp-replay-{id}-{}-{shards}", plan.columns.len());
            let folder = std::env::temp_dir().join(folder);
            let path = compiler.program("replay", &texts, &folder).unwrap();
            let output = Command::new(path).output().unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
            assert!(output.status.success());
            let said = String::from_utf8(output.stdout).unwrap();
            Some(said.split_whitespace().map(|word| word.parse().unwrap()).collect())
        }

        fn on_cpu(&self) -> Vec<u32> {
            let Setting { place, agents, .. } = &self.setting;
            let (plan, sharing) = (self.plan.clone(), self.config.sharing());
            let activation = self.config.policies[0].config.activation;
            let mut cpu = CpuEngine::new(plan, *place, &sharing, activation, 1).unwrap();
            let mut said = Vec::new();
            for t in 0..STEPS {
                self.store(&mut cpu, t, agents.mortal);
                cpu.sample().unwrap();
                let columns = self.columns();
                let numbers = columns.iter().flat_map(|id| cpu.column(*id));
                said.extend(numbers.map(|x| x.to_bits()));
                if self.plan.replay.priority.is_some() {
                    let errors = cpu.column_mut(self.plan.replay.error).iter_mut().enumerate();
                    errors.for_each(|(row, error)| *error = number(t, row, 0) + 4.0);
                }
                cpu.finish_update().unwrap();
            }
            said
        }

        fn store(&self, cpu: &mut CpuEngine, t: u32, mortal: bool) {
            let Place { n_rows, n_agents, .. } = self.setting.place;
            let replay = &self.plan.replay;
            let width = |id: ColumnId| self.plan.columns[id.0].width;
            let ends = |row: usize| match row / n_agents {
                replica if chance(t, replica, 9) => TERMINATED,
                replica if chance(t, replica, 11) => TRUNCATED,
                _ => GOES_ON,
            };
            let numbers = |width: usize, of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
                (0..n_rows * width).map(|at| of(at / width, at % width)).collect()
            };
            let flags = |width: usize, of: &dyn Fn(usize, usize) -> bool| -> Vec<u8> {
                (0..n_rows * width).map(|at| u8::from(of(at / width, at % width))).collect()
            };
            let (obs, action, mask) =
                (width(replay.obs), width(replay.action), replay.mask.map_or(0, width));
            let next = |row, i| number(t + 1, row, if ends(row) > 0 { i + 20 } else { i });
            let next_allowed = |row, i| match ends(row) {
                TERMINATED => true,
                ends => !chance(t + 1, row + i, if ends == TRUNCATED { 4 } else { 3 }),
            };
            cpu.memory_mut().store(&Transition {
                obs: &numbers(obs, &|row, i| number(t, row, i)),
                action: &numbers(action, &|row, i| number(t, row, i + 40)),
                reward: &numbers(1, &|row, _| number(t, row, 50)),
                next_obs: &numbers(obs, &next),
                ends: &(0..n_rows).map(ends).collect::<Vec<u8>>(),
                alive: &flags(1, &|row, _| !(mortal && chance(t, row, 4))),
                mask: &flags(mask, &|row, i| !chance(t, row + i, 3)),
                next_mask: &flags(mask, &next_allowed),
            });
        }
    }

    #[test]
    fn batches_have_the_samples_and_weights_of_the_cpus_shards() {
        for case in CASES {
            for shards in [1, 2, 4] {
                let both = Both::new(case, shards);
                let Some(found) = both.on_gpu() else { return };
                let expected = both.on_cpu();
                assert_eq!(found.len(), expected.len(), "{}", case.0);
                let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
                assert_eq!(differ, 0, "{shards} shards: {}", case.0);
            }
        }
    }

    #[test]
    fn texts_of_several_shards_say_otherwise_what_is_theirs() {
        let text = |shards| {
            let Both { config, .. } = Both::new(CASES[2], shards);
            let sources = super::super::sources(&config, H200).unwrap();
            sources.into_iter().map(|(source, _)| source.text.to_string()).collect::<String>()
        };
        let (one, several) = (text(1), text(4));
        for (of_one, of_several) in REPLACED {
            assert!(one.contains(of_one) && several.contains(of_several), "{of_one}");
        }
    }
}
