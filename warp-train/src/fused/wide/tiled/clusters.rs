//! Clusters of blocks that have room for a network together, and make a rollout of layers on tensor cores in one launch.

use super::shape::{BLOCK_COLUMNS, TiledShape};
use crate::fused::wide::args::list;
use crate::fused::wide::network::{Role, Stage};
use std::fmt::Write;
use warp_func::cuda::Launch;

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
    pub(super) fn launch(&self, replicas: usize) -> Launch {
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

#[cfg(test)]
mod tests {
    use super::super::shape::tests::network;
    use super::*;
    use crate::fused::wide::machine::SharedMemory;

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
