//! Whole rollouts of layers on tensor cores one by one: clusters of blocks that have room for a network together, and their
//! launch. Host side of `tiled/rollout.cu`.

use super::shape::{BLOCK_COLUMNS, TiledShape};
use super::{TiledNetwork, Towers};
use crate::error::Result;
use crate::fused::wide::args::TiledRolloutArgs;
use crate::fused::wide::kernels::TiledRolloutKernels;
use crate::fused::wide::network::Role;
use crate::fused::wide::policy::{Rows, WidePolicy};
use crate::fused::wide::rollout::Stage;
use crate::fused::wide::text::list;
use std::fmt::Write;
use warp_func::cuda::{CudaVecEnv, KernelArgs, Launch, Module};

/// Replicas that a cluster takes: tiles of 16 rows share eight warps.
const ROWS: [usize; 2] = [64, 32];
/// Blocks of a cluster at most, which every device has.
const LARGEST: usize = 8;
/// Bytes that the kernel declares for itself, at most.
const DECLARED: usize = 8 << 10;
/// Bytes of 64 by 64 weights.
const SQUARE: usize = 2 * BLOCK_COLUMNS * BLOCK_COLUMNS;

/// Blocks that take replicas through a rollout together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct RolloutClusters {
    /// Blocks of a cluster.
    size: usize,
    /// Replicas of a cluster.
    replicas: usize,
    /// Shared memory of a block.
    shared_bytes: usize,
}

impl RolloutClusters {
    /// Those with the least work for each block, if all have room at once, for so many `replicas` and at most `most_blocks` of
    /// `block_bytes` of shared memory. None for networks with many outputs, or more than 64 numbers to see.
    pub(in super::super) fn new(
        shape: &TiledShape,
        replicas: usize,
        most_blocks: usize,
        block_bytes: usize,
    ) -> Option<Self> {
        if !shape.makes_outputs() || shape.layers[0].inputs != BLOCK_COLUMNS {
            return None;
        }
        let blocks = blocks_into(shape);
        let all = ROWS.iter().flat_map(|rows| (2..=LARGEST).map(move |size| (*rows, size)));
        let all = all.filter_map(|(rows, size)| Self::of(&blocks, rows, size));
        let fit = all.filter(|clusters| {
            let n = clusters.blocks(replicas);
            let have_room = clusters.shared_bytes + DECLARED <= block_bytes;
            have_room && n <= most_blocks && n <= clusters.size * clusters.most()
        });
        fit.min_by_key(|clusters| (clusters.work(&blocks), clusters.size))
    }

    /// Of so many blocks, each of which has part in every layer.
    fn of(blocks: &[usize], replicas: usize, size: usize) -> Option<Self> {
        let hidden = &blocks[1..];
        if hidden.iter().any(|given| *given < size) {
            return None;
        }
        let weights: usize = squares(blocks, size).sum();
        let most = |odd: usize| hidden.iter().skip(odd).step_by(2).max().copied().unwrap_or(0);
        let columns = BLOCK_COLUMNS * (blocks[0] + most(0) + most(1));
        Some(Self { size, replicas, shared_bytes: SQUARE * weights + 2 * replicas * columns })
    }

    /// How many have room at once on an H200, with a block on each multiprocessor: these are groups that share no cluster, at least
    /// seven of 16 and one of 14 (room for 15 clusters of eight and 66 of two was measured). Where there is room for fewer, the others
    /// follow.
    fn most(&self) -> usize {
        7 * (16 / self.size) + 14 / self.size
    }

    /// Products of a block that has most.
    fn work(&self, blocks: &[usize]) -> usize {
        self.replicas * squares(blocks, self.size).sum::<usize>()
    }

    /// Blocks of all clusters for so many replicas.
    pub(in super::super) fn blocks(&self, replicas: usize) -> usize {
        replicas.div_ceil(self.replicas) * self.size
    }

    /// For so many replicas.
    fn launch(&self, replicas: usize) -> Launch {
        let blocks = self.blocks(replicas) as u32;
        Launch { blocks, threads: 256, shared_bytes: self.shared_bytes as u32, cooperative: false }
    }

    /// What the kernel needs to know beside the constants of `shape`, as constants.
    pub(in super::super) fn constants(&self, shape: &TiledShape, sums_obs: bool) -> String {
        let mut text = String::new();
        let acts = shape.towers.iter().position(|tower| Stage::Act.has(tower.role)).unwrap_or(0);
        let values = shape.towers[acts].role == Role::Both;
        for (name, value) in [
            ("CLUSTER", format!("{}u", self.size)),
            ("CLUSTER_ROWS", format!("{}u", self.replicas)),
            ("TOWER", acts.to_string()),
            ("VALUES", values.to_string()),
            ("BLOCKS_INTO", list(blocks_into(shape).into_iter())),
            ("SUMS_OBS", u8::from(sums_obs).to_string()),
            ("DECLARED", DECLARED.to_string()),
        ] {
            let _ = writeln!(text, "#define U_{name} {value}");
        }
        text
    }
}

/// Blocks of 64 columns of each layer's inputs that are not all padding.
fn blocks_into(shape: &TiledShape) -> Vec<usize> {
    shape.towers[0].layers().map(|layer| layer.n_in.div_ceil(BLOCK_COLUMNS)).collect()
}

/// Squares of weights of each hidden layer that a block of a cluster of `size` has, at most.
fn squares(blocks: &[usize], size: usize) -> impl Iterator<Item = usize> {
    blocks.windows(2).map(move |of| of[0] * of[1].div_ceil(size))
}

/// What rolls out in one launch.
#[derive(Debug)]
pub(in super::super) struct TiledRollout {
    clusters: RolloutClusters,
    kernels: TiledRolloutKernels,
}

impl TiledRollout {
    /// By `clusters`, with the kernels of `unit`.
    ///
    /// # Errors
    /// A unit without them.
    pub(in super::super) fn new(clusters: RolloutClusters, unit: &Module) -> Result<Self> {
        Ok(Self { clusters, kernels: TiledRolloutKernels::of(unit)? })
    }
}

impl WidePolicy {
    /// Starts a whole rollout in one launch.
    pub(in super::super) fn tiled_roll_out(
        &self,
        tiled: &TiledNetwork,
        rollout: &TiledRollout,
        envs: &mut CudaVecEnv,
    ) -> Result<()> {
        let (a, steps) = (&self.arrays, self.sizes.steps as u32);
        let sums = self.normaliser.sums().filter(|_| self.sizes.obs_blocks > 0);
        let args = TiledRolloutArgs {
            step: self.step(0, self.sizes.rows, &a.values, Some(envs)),
            seen: self.seen(),
            outcome: self.outcome_args(0),
            steps,
            image: &tiled.image,
            image_tower: tiled.shape.end.image as u64,
            biases: &tiled.biases,
            biases_tower: tiled.shape.end.biases as u32,
            few: &tiled.few,
            sums_obs: i32::from(sums.is_some()),
            sums: sums.unwrap_or(&self.normaliser.factors),
        };
        let [tables, arrays, run] = envs.args().clone();
        let launch = rollout.clusters.launch(self.sizes.rows);
        rollout.kernels.tiled_rollout.launch(&launch, &[tables, arrays, run, args.arg()])?;
        Ok(envs.tick(steps)?)
    }

    /// Values of all that was seen in a rollout in one launch, if another tower has them than that which acted.
    pub(in super::super) fn values_of_rollout(&self, tiled: &TiledNetwork) -> Result<()> {
        let critic = tiled.shape.towers.iter().position(|tower| tower.role == Role::Critic);
        let (Some(first), Some(_)) = (critic, &tiled.rollout) else { return Ok(()) };
        let towers = Towers { first, n: 1 };
        let (a, s) = (&self.arrays, &self.sizes);
        let at_once = s.chunk.max(s.part);
        for at in (0..s.cells).step_by(at_once) {
            let rows = at_once.min(s.cells - at);
            let seen = Rows { x: &a.obs, at, sampled: false, first: 0, rows };
            self.tiled_towers(tiled, &seen, towers)?;
            self.take_values(rows, &a.values, at)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::network;
    use super::*;
    use crate::fused::wide::whole_fp32::SharedMemory;

    fn clusters_of(
        most: usize,
        inputs: usize,
        hidden: &[usize],
        replicas: usize,
    ) -> Option<[usize; 2]> {
        let shape = TiledShape::new(&network(inputs, hidden, 3))?;
        let found = RolloutClusters::new(&shape, replicas, most, SharedMemory::H200.per_block)?;
        Some([found.size, found.replicas])
    }

    fn clusters(inputs: usize, hidden: &[usize], replicas: usize) -> Option<[usize; 2]> {
        clusters_of(132, inputs, hidden, replicas)
    }

    #[test]
    fn clusters_are_those_with_the_least_work_that_have_room_at_once() {
        assert_eq!(clusters(4, &[256, 256, 256], 256), Some([4, 32]));
        // There is room for 63 clusters of two, and for as many of those with 64 replicas.
        assert_eq!(clusters(4, &[256, 256, 256], 63 * 32), Some([2, 32]));
        assert_eq!(clusters(4, &[256, 256, 256], 2048), Some([2, 64]));
        assert_eq!(clusters(4, &[512, 512, 512], 256), Some([8, 32]));
        assert_eq!(clusters(4, &[512, 512, 512], 2048), None);
        // A device of fewer multiprocessors, or a part of one.
        assert_eq!(clusters_of(32, 4, &[256, 256, 256], 256), Some([4, 32]));
        assert_eq!(clusters_of(31, 4, &[256, 256, 256], 256), Some([2, 32]));
        assert_eq!(clusters_of(16, 4, &[256, 256, 256], 600), None);
        // Three blocks have two of five parts each at most, as four have.
        assert_eq!(clusters(4, &[300, 300], 2048), Some([3, 64]));
    }

    #[test]
    fn every_block_of_a_cluster_has_part_in_every_layer() {
        assert_eq!(clusters(4, &[512, 128], 256), Some([2, 32]));
        assert_eq!(clusters(4, &[512, 64], 256), None);
        assert_eq!(clusters(64, &[320], 256), Some([5, 32]));
        assert_eq!(clusters(65, &[320], 256), None);
    }
}
