//! Whole networks in fp32: which networks have them, what the kernels in `whole_fp32/` need to know, and their
//! launches.
//!
//! For networks whose weights, also transposed, and all activations of a tile of rows fit into a
//! block's shared memory, and whose gradients fit into its registers; all others run layer by layer.

use crate::error::Result;
use crate::fused::wide::args::{FusedActArgs, FusedLearnArgs};
use crate::fused::wide::kernels::FusedTowers;
use crate::fused::wide::network::{Role, Tower, WideNetwork};
use crate::fused::wide::policy::WidePolicy;
use crate::fused::wide::rollout::Stage;
use std::fmt::Write;
use warp_data::cuda::{DeviceArray, DeviceInfo};
use warp_func::cuda::{DeviceEnvs, KernelArgs, Launch};

/// Threads of a block, and rows of a tile when it learns.
const THREADS: usize = 128;
/// Rows of a tile that acts: many fill the registers, few give more multiprocessors work.
const ACT_ROWS: [usize; 2] = [32, 64];
/// Rows that act at a time, up to which tiles have few.
const FEW_ROWS: usize = 8192;
/// Blocks that share a multiprocessor at most.
const MOST_BLOCKS: usize = 4;
/// Bytes of a multiprocessor's shared memory that a block takes for itself.
const OWN_BYTES: usize = 1024;
/// Numbers that a thread can hold beside addresses and operands; 255 registers are all it has.
const MOST_NUMBERS: usize = 184;
/// Registers of a thread beside the numbers it holds.
const OTHER_REGISTERS: usize = 40;
/// Registers of a multiprocessor, for each of a block's threads.
const REGISTERS: usize = 65_536 / THREADS;

/// Shared memory of a GPU, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedMemory {
    pub(super) per_block: usize,
    pub(super) per_multiprocessor: usize,
}

impl SharedMemory {
    /// Limits of the H200.
    pub(super) const H200: Self = Self { per_block: 232_448, per_multiprocessor: 233_472 };

    pub(super) fn of(info: &DeviceInfo) -> Self {
        let per_multiprocessor = info.shared_per_multiprocessor as usize;
        Self { per_block: info.shared_per_block as usize, per_multiprocessor }
    }

    /// For each of so many blocks of a multiprocessor, without what is kept back of each.
    pub(super) fn of_each(self, blocks: usize) -> usize {
        self.per_multiprocessor / blocks - OWN_BYTES
    }
}

/// The sizes of a network's fused kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FusedShape {
    pub(super) towers: usize,
    learns: Blocks,
    acts: Blocks,
}

/// Blocks of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Blocks {
    /// Rows of a tile.
    rows: usize,
    /// Shared memory of a block, in bytes.
    bytes: usize,
    /// Blocks that share a multiprocessor.
    together: usize,
}

impl Blocks {
    /// Blocks for each of `towers`, so that all of them run at once.
    fn of_tower(&self, rows: usize, towers: usize, multiprocessors: usize) -> usize {
        rows.div_ceil(self.rows).clamp(1, (multiprocessors * self.together / towers).max(1))
    }

    fn launch(&self, blocks: usize) -> Launch {
        let (threads, shared_bytes) = (THREADS as u32, self.bytes as u32);
        Launch { blocks: blocks as u32, threads, shared_bytes, cooperative: false }
    }
}

impl FusedShape {
    /// The shape of `network` for so many `rows` that act at a time, if all its towers have one.
    pub(super) fn new(network: &WideNetwork, rows: usize, shared: SharedMemory) -> Option<Self> {
        let towers = || network.towers.iter();
        let widths = |tower: &Tower| -> Vec<usize> {
            tower.hidden.iter().map(|layer| layer.n_out).collect()
        };
        let whole = |tower: &Tower| {
            let widths = widths(tower);
            !widths.is_empty()
                && widths.iter().all(|width| width % 32 == 0 && (32..=128).contains(width))
        };
        if !towers().all(whole) {
            return None;
        }
        let n = network.n_outputs;
        let blocks = |rows: usize, learns: bool, most: usize| -> Option<Blocks> {
            let bytes = towers().map(|tower| shared_bytes(tower, n, rows, learns)).max()?;
            let together = (shared.per_multiprocessor / (bytes + OWN_BYTES)).min(most);
            Some(Blocks { rows, bytes, together: together.clamp(1, MOST_BLOCKS) })
        };
        let numbers = towers().map(|tower| numbers_held(tower, n)).max()?;
        let learns = blocks(THREADS, true, REGISTERS / (numbers + OTHER_REGISTERS))?;
        if learns.bytes > shared.per_block || numbers > MOST_NUMBERS {
            return None;
        }
        let acts = blocks(ACT_ROWS[usize::from(rows > FEW_ROWS)], false, MOST_BLOCKS)?;
        Some(Self { towers: network.towers.len(), learns, acts })
    }

    /// Copies of the gradient that minibatches of at most `samples` are summed into.
    pub(super) fn copies(&self, samples: usize, multiprocessors: usize) -> usize {
        self.learns.of_tower(samples, self.towers, multiprocessors)
    }

    /// What the kernels are made for.
    pub(super) fn constants(&self, network: &WideNetwork, tanh: bool) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("TOWERS", self.towers),
            ("TANH", usize::from(tanh)),
            ("BLOCKS", self.learns.together),
            ("ACT_ROWS", self.acts.rows),
            ("ACT_BLOCKS", self.acts.together),
        ] {
            let _ = write!(text, "\n#define F_{name} {value}");
        }
        text.push_str("\ntemplate <int T> struct FusedTower;\n");
        for (t, tower) in network.towers.iter().enumerate() {
            let widths: Vec<_> = tower.layers().map(|layer| layer.n_in).collect();
            let weights: Vec<_> = tower.layers().map(|layer| layer.weight).collect();
            let (depth, outs) = (tower.hidden.len(), tower.heads.n_out);
            let (gap_at, gap) = (tower.gap_at, tower.gap);
            let (acts, values) = (tower.role != Role::Critic, tower.role != Role::Actor);
            let _ = writeln!(
                text,
                "template <> struct FusedTower<{t}> {{\n\
                 static constexpr int depth = {depth}, outs = {outs}, gap_at = {gap_at}, gap = {gap};\n\
                 static constexpr bool acts = {acts}, values = {values};"
            );
            for (name, numbers) in [("width", widths), ("weight", weights)] {
                let numbers = numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                let _ = writeln!(
                    text,
                    "__host__ __device__ static constexpr int {name}(int l) {{\n\
                     constexpr int of[] = {{{numbers}}};\nreturn of[l];\n}}"
                );
            }
            text.push_str("};\n");
        }
        text
    }
}

/// Numbers per row of a tower's outputs.
fn columns(tower: &Tower, n_outputs: usize) -> usize {
    match tower.role {
        Role::Both => n_outputs + 1,
        Role::Actor => n_outputs,
        Role::Critic => 1,
    }
}

/// Shared memory of a tower with tiles of so many rows, as `whole_fp32/tower.cu` deals it out.
fn shared_bytes(tower: &Tower, n_outputs: usize, rows: usize, learns: bool) -> usize {
    let outs = tower.heads.n_out;
    let tiles: usize = tower.layers().map(|layer| layer.n_in * rows).sum();
    let weights: usize = tower.layers().map(|layer| layer.n_in * layer.n_out).sum();
    let turned: usize = tower.hidden.iter().skip(1).map(|layer| layer.n_in * layer.n_out).sum();
    let biases: usize = tower.layers().map(|layer| layer.n_out).sum();
    let all = tiles + weights + biases + if learns { turned } else { 0 };
    // Outputs, an odd number apart, their gradients, and five figures of two words.
    let per_row = (columns(tower, n_outputs) | 1) + if learns { outs + 10 } else { 0 };
    4 * (all.next_multiple_of(4) + per_row * rows)
}

/// Numbers that a thread holds: its part of the gradients and of a product.
fn numbers_held(tower: &Tower, n_outputs: usize) -> usize {
    let matrices: usize =
        tower.hidden.iter().skip(1).map(|layer| layer.n_in * layer.n_out / 64).sum();
    let inputs = tower.hidden.first().map_or(0, |layer| layer.n_in);
    let vectors = inputs + tower.heads.n_out + tower.hidden.len() + columns(tower, n_outputs);
    let wide = tower.hidden.iter().any(|layer| layer.n_out % 64 == 0);
    matrices + vectors + if wide { 64 } else { 32 }
}

impl WidePolicy {
    /// Gradients of a minibatch; returns how many blocks of loss sums it left.
    pub(super) fn fused_gradients(
        &self,
        towers: &FusedTowers,
        order: &DeviceArray,
    ) -> Result<usize> {
        let a = &self.arrays;
        let args = FusedLearnArgs {
            settings: &a.settings,
            state: &a.state,
            order,
            copies: self.sizes.copies as u32,
            obs: &a.obs,
            from: self.samples(),
            parameters: &a.parameters,
            partial: &a.partial,
            n_parameters: self.network.n_parameters as u32,
            parts: &a.losses,
        };
        let blocks = self.sizes.copies * towers.shape.towers;
        towers.learns.fused_learn.launch(&towers.shape.learns.launch(blocks), &[args.arg()])?;
        Ok(blocks)
    }

    /// Acts at step `t`, or computes values.
    pub(super) fn fused_act(
        &self,
        towers: &FusedTowers,
        stage: Stage,
        t: usize,
        envs: Option<&dyn DeviceEnvs>,
    ) -> Result<()> {
        let FusedTowers { shape, acts, .. } = towers;
        let (step, seen) = (self.step_of_towers(stage, t, envs), self.seen());
        let n_towers = if stage == Stage::Act { shape.towers } else { 1 };
        let multiprocessors = self.device.info().n_multiprocessors as usize;
        let rows = step.rows as usize;
        let blocks = n_towers * shape.acts.of_tower(rows, n_towers, multiprocessors);
        let given = &self.arrays.cut_obs;
        let args = FusedActArgs { step, seen, stage: stage as i32, given };
        Ok(acts.fused_act.launch(&shape.acts.launch(blocks), &[args.arg()])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fused::wide::network::Layer;

    fn network(inputs: usize, hidden: &[usize], outputs: usize) -> WideNetwork {
        let chain = |mut n_in: usize, widths: &[usize]| -> Vec<Layer> {
            let layer = |n_out: &usize| {
                let layer = Layer { n_in, n_out: *n_out, weight: 0 };
                n_in = *n_out;
                layer
            };
            widths.iter().map(layer).collect()
        };
        let tower = |role, outs| {
            let n_in = hidden.last().copied().unwrap_or(inputs);
            let heads = Layer { n_in, n_out: outs, weight: 0 };
            Tower {
                role,
                hidden: chain(inputs, hidden),
                norms: Vec::new(),
                heads,
                column: 0,
                gap_at: outs,
                gap: 0,
            }
        };
        WideNetwork::of_towers(vec![tower(Role::Actor, outputs), tower(Role::Critic, 1)], outputs)
    }

    /// What the kernels compute for themselves, as they printed it.
    #[test]
    fn sizes_are_those_of_the_kernels() {
        let shape = |n, rows| FusedShape::new(&n, rows, SharedMemory::H200).unwrap();
        let found = shape(network(4, &[64, 64], 2), 256);
        assert_eq!(found.learns, Blocks { rows: 128, bytes: 110_096, together: 2 });
        assert_eq!(found.acts, Blocks { rows: 32, bytes: 35_728, together: 4 });
        let found = shape(network(21, &[32, 32], 5), 1 << 20);
        assert_eq!(found.learns, Blocks { rows: 128, bytes: 65_568, together: 3 });
        assert_eq!(found.acts, Blocks { rows: 64, bytes: 30_752, together: 4 });
    }

    #[test]
    fn networks_that_do_not_fit_have_no_shape() {
        for (inputs, hidden) in [
            (4, &[][..]),
            (4, &[40]),
            (4, &[256]),
            (71, &[64, 64]),
            (4, &[64, 64, 64]),
            (4, &[128, 128]),
        ] {
            let found = FusedShape::new(&network(inputs, hidden, 2), 256, SharedMemory::H200);
            assert_eq!(found, None, "{hidden:?}");
        }
        let small = SharedMemory { per_block: 101_376, per_multiprocessor: 102_400 };
        assert_eq!(FusedShape::new(&network(4, &[64, 64], 2), 256, small), None);
    }

    #[test]
    fn few_samples_have_few_copies() {
        let shape = FusedShape::new(&network(4, &[64, 64], 2), 256, SharedMemory::H200).unwrap();
        assert_eq!([1, 128, 129, 1 << 20].map(|n| shape.copies(n, 132)), [1, 1, 2, 132]);
    }
}
