//! Minibatches of several shards on one GPU: cases for the kernels of either path, and what holds of them.

use crate::engine::cuda::test_compiler;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use warp_core::kernel_text::{HEADERS, HOST_SHIM};

/// Numbers of the samples of an epoch's minibatches.
pub(super) type Minibatches = Vec<Vec<usize>>;

/// Says where minibatches begin and the last one ends, behind how many there are, and then the samples of each epoch in
/// its order.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// Minibatches of each epoch.
    pub(super) fn minibatches<const N: usize>(&self, arguments: [usize; N]) -> Vec<Minibatches> {
        let arguments = arguments.map(|n| n.to_string());
        let output = Command::new(&self.path).args(&arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<usize> = said.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let (begins, epochs) = numbers[1..].split_at(numbers[0] + 1);
        let of_epoch = |epoch: &[usize]| -> Minibatches {
            begins.windows(2).map(|range| epoch[range[0]..range[1]].to_vec()).collect()
        };
        epochs.chunks(begins[numbers[0]]).map(of_epoch).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A rollout on one GPU, and how it is learned from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) steps: usize,
    pub(super) agents: usize,
    pub(super) replicas: usize,
    pub(super) minibatches: usize,
    /// Here, and the number of the first of them.
    pub(super) shards: usize,
    pub(super) first_shard: usize,
    /// Of each line of samples one shard has as many as another; a line is a step, or an agent at a step.
    pub(super) line: usize,
}

impl Given {
    pub(super) const EPOCHS: usize = 2;

    /// One shard and several, parts that differ in size by one, several agents, shards behind those of another GPU.
    pub(super) fn all(line: fn(&Self) -> usize) -> impl Iterator<Item = Self> {
        let cases = [
            (8, 1, 6, 4, 1, 0),
            (8, 1, 6, 4, 2, 0),
            (5, 3, 6, 7, 3, 3),
            (7, 1, 4, 3, 4, 0),
            (9, 2, 80, 5, 2, 6),
        ];
        cases.into_iter().map(move |(steps, agents, replicas, minibatches, shards, first_shard)| {
            let of =
                Self { steps, agents, replicas, minibatches, shards, first_shard, line: replicas };
            Self { line: line(&of), ..of }
        })
    }

    pub(super) fn samples(&self) -> usize {
        self.steps * self.agents * self.replicas
    }

    /// What a GPU has that holds only shard number `shard` of those here.
    pub(super) fn alone(&self, shard: usize) -> Self {
        let (replicas, line) = (self.replicas / self.shards, self.line / self.shards);
        Self { replicas, line, shards: 1, first_shard: self.first_shard + shard, ..*self }
    }

    /// The number here of a sample of [`Given::alone`].
    fn of_alone(&self, shard: usize, sample: usize) -> usize {
        let own = self.line / self.shards;
        sample / own * self.line + shard * own + sample % own
    }

    fn shard_of(&self, sample: usize) -> usize {
        sample % self.line * self.shards / self.line
    }

    /// Builds a program with these sizes as macros `names`: minibatches, shards, agents.
    pub(super) fn program(
        &self,
        of: &str,
        names: [&str; 3],
        texts: &[(&str, &str)],
    ) -> Option<Program> {
        let compiler = test_compiler::find()?;
        let numbers = [self.minibatches, self.shards, self.agents];
        let define = |(name, n)| format!("#define {name} {n}u\n");
        let mut text: String = names.into_iter().zip(numbers).map(define).collect();
        text += &format!("#define EPOCHS {}\n#include \"{of}_host.cpp\"\n", Self::EPOCHS);
        let own = [("host_shim.h", HOST_SHIM), ("program.cpp", &text)];
        let texts: Vec<_> = HEADERS.into_iter().chain(own).chain(texts.iter().copied()).collect();
        let own = numbers.map(|n| n.to_string()).join("-");
        let folder = std::env::temp_dir().join(format!("warp-{of}-{}-{own}", std::process::id()));
        let path = compiler.program(of, &texts, &folder).unwrap();
        Some(Program { path, folder })
    }

    /// Checks `epochs` of the samples that `counts`: they have each of them once, in orders that differ, and minibatch
    /// `u` of `M` has `n (u + 1) / M - n u / M` of every shard's `n`. `alone` makes the epochs of a GPU with one shard
    /// of these, whose parts they have.
    pub(super) fn check(
        &self,
        epochs: &[Minibatches],
        counts: impl Fn(usize) -> bool,
        alone: impl Fn(usize) -> Vec<Minibatches>,
    ) {
        let all: BTreeSet<usize> = (0..self.samples()).filter(|sample| counts(*sample)).collect();
        let of_shard = |samples: &mut dyn Iterator<Item = usize>, shard: usize| {
            samples.filter(|sample| self.shard_of(*sample) == shard).collect::<BTreeSet<_>>()
        };
        assert_eq!(epochs.len(), Self::EPOCHS, "{self:?}");
        // Few may be in the same order by chance.
        assert!(all.len() < 12 || epochs[0] != epochs[1], "{self:?}");
        for minibatches in epochs {
            let taken: BTreeSet<usize> = minibatches.iter().flatten().copied().collect();
            assert_eq!(taken, all, "{self:?}");
            assert_eq!(minibatches.iter().map(Vec::len).sum::<usize>(), all.len(), "{self:?}");
        }
        for shard in 0..self.shards {
            let (n, alone) = (of_shard(&mut all.iter().copied(), shard).len(), alone(shard));
            for (minibatches, alone) in epochs.iter().zip(&alone) {
                for (u, (samples, alone)) in minibatches.iter().zip(alone).enumerate() {
                    let part = of_shard(&mut samples.iter().copied(), shard);
                    let parts = minibatches.len();
                    assert_eq!(part.len(), n * (u + 1) / parts - n * u / parts, "{self:?}");
                    let alone = alone.iter().map(|sample| self.of_alone(shard, *sample));
                    assert_eq!(part, alone.collect(), "{self:?}, minibatch {u}, shard {shard}");
                }
            }
        }
    }
}
