//! The sizes of layers on tensor cores one by one, as the kernels in `tiled/` need to know them.

use super::clusters::RolloutClusters;
use crate::algorithm::PolicyPlan;
use crate::fused::wide::lanes;
use crate::fused::wide::machine::SharedMemory;
use crate::fused::wide::network::{Layer, Tower, WideNetwork};
use crate::model::LAYER_NORM_EPSILON;
use std::fmt::Write;
use std::iter;
use warp_func::cuda::Launch;

/// Rows of a block of a matrix, and of a tile.
pub(in super::super) const BLOCK_ROWS: usize = 128;
/// Columns of a block.
pub(super) const BLOCK_COLUMNS: usize = 64;
/// Bytes of a block.
pub(super) const BLOCK: usize = 2 * BLOCK_ROWS * BLOCK_COLUMNS;
/// Columns of a tile of a hidden layer, and where there are fewer columns or tiles.
pub(super) const WIDE: usize = 256;
pub(super) const NARROW: usize = 128;
/// Outputs of a tower that tiles of its last hidden layer make at most.
pub(super) const FEW: usize = 8;
/// Columns of a hidden layer that is normalised, at most: then a lane keeps 64 sums for gains and 64 for shifts in registers.
const MOST_NORMED: usize = 2048;
/// Columns of which each thread of a warp has eight.
const NORM_PART: usize = 256;
/// Bytes that a block takes in a nanosecond while it makes a tile of the gradient of weights.
const BLOCK_RATE: f64 = 90.0;
/// Nanoseconds that a weight of a copy of the gradient takes, to be written and to be read.
const COPY_TIME: f64 = 0.006;

/// Rows of a tile whose outputs stay in shared memory.
const HEAD_ROWS: usize = 32;
/// Groups of four warps of a block that makes them.
const HEAD_GROUPS: usize = 2;
/// Blocks of these that share a multiprocessor.
const HEAD_BLOCKS: usize = 2;
/// Shared memory that such a block declares, at most.
const HEADS_STATIC: usize = 1 << 10;

/// A layer as the kernels see it; places are in bytes of a tower's image, or numbers of its biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct TiledLayer {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) image: usize,
    pub(super) turned: usize,
    pub(super) biases: usize,
    pub(super) squares: usize,
}

/// Blocks of a multiprocessor that normalise at a time, on either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct NormBlocks {
    pub(super) forward: usize,
    pub(super) back: usize,
}

/// How outputs stay in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct HeadsAtOnce {
    /// Stages of shared memory for weights, for each group of four warps.
    stages: usize,
    /// Of a block.
    shared_bytes: usize,
}

impl HeadsAtOnce {
    /// For so many rows.
    pub(super) fn launch(&self, rows: usize, multiprocessors: usize) -> Launch {
        let blocks = rows.div_ceil(HEAD_ROWS).min(HEAD_BLOCKS * multiprocessors) as u32;
        let (threads, shared_bytes) = (128 * HEAD_GROUPS as u32, self.shared_bytes as u32);
        Launch { blocks, threads, shared_bytes, cooperative: false }
    }
}

/// How the gradient of a layer's weights is divided.
#[derive(Debug, Clone, Copy)]
struct WeightTiles {
    tiles: usize,
    /// That a block reads of the operands of one.
    bytes_per_row: usize,
}

/// The layers of a network's towers, padded; all towers have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct TiledShape {
    pub(super) towers: Vec<Tower>,
    pub(super) layers: Vec<TiledLayer>,
    /// Bytes of a tower's image, its biases, and its squares of 64 by 64 weights.
    pub(super) end: TiledLayer,
    /// How outputs stay in shared memory until they are dealt with, if they do.
    pub(in super::super) at_once: Option<HeadsAtOnce>,
    /// Clusters that make a rollout in one launch, if they do.
    pub(in super::super) rollout: Option<RolloutClusters>,
}

impl TiledShape {
    /// The shape of `network`, unless it has no hidden layer, towers that differ in theirs, or layers that are normalised
    /// and too wide for it.
    pub(super) fn new(network: &WideNetwork) -> Option<Self> {
        let towers = network.towers.clone();
        let widths = |tower: &Tower| tower.hidden.iter().map(|l| l.n_out).collect::<Vec<_>>();
        let hidden = widths(towers.first()?);
        let norms = towers.first()?.norms.len();
        let alike = towers.iter().all(|t| widths(t) == hidden && t.norms.len() == norms);
        let fit = norms == 0 || hidden.iter().all(|width| *width <= MOST_NORMED);
        if !alike || !fit || hidden.is_empty() {
            return None;
        }
        let columns = towers.iter().map(output_columns).max()?;
        let mut outputs: Vec<_> =
            hidden.iter().map(|width| width.next_multiple_of(BLOCK_ROWS)).collect();
        outputs.push(columns.next_multiple_of(BLOCK_COLUMNS));
        let inputs = network.observation_width().next_multiple_of(BLOCK_COLUMNS);
        let mut next =
            TiledLayer { inputs, outputs: 0, image: 0, turned: 0, biases: 0, squares: 0 };
        let mut layers = Vec::new();
        for outputs in outputs {
            let inputs = next.inputs;
            // Biases, gains, shifts.
            let vectors = if layers.len() < norms { 3 } else { 1 };
            let turned = next.image + 2 * outputs.next_multiple_of(BLOCK_ROWS) * inputs;
            layers.push(TiledLayer { outputs, turned, ..next });
            next = TiledLayer {
                inputs: outputs,
                outputs: 0,
                // Gradients of observations are nobody's.
                image: turned + if layers.len() > 1 { 2 * inputs * outputs } else { 0 },
                turned: 0,
                biases: next.biases + vectors * outputs,
                squares: next.squares + inputs / BLOCK_COLUMNS * (outputs / BLOCK_COLUMNS),
            };
        }
        Some(Self { towers, layers, end: next, at_once: None, rollout: None })
    }

    /// The shape of `network` with what `plan` decides.
    pub(in super::super) fn of_policy(network: &WideNetwork, plan: &PolicyPlan) -> Option<Self> {
        let shape = Self::new(network)?;
        let are_many = lanes::size_of_many_heads(plan.layout.head_sizes()) > 0;
        let at_once = are_many.then(|| shape.heads_at_once(network.n_outputs + 1)).flatten();
        Some(Self { at_once, ..shape })
    }

    /// Hidden layers, as the kernels see them.
    pub(super) fn hidden(&self) -> &[TiledLayer] {
        &self.layers[..self.layers.len() - 1]
    }

    /// Halves of a row of observations that is kept: what they are copied by is 16 bytes long.
    pub(in super::super) fn kept_width(&self) -> usize {
        self.towers[0].hidden[0].n_in.next_multiple_of(8)
    }

    pub(super) fn heads(&self) -> &TiledLayer {
        &self.layers[self.layers.len() - 1]
    }

    /// Whether hidden layers are normalised.
    pub(in super::super) fn is_normed(&self) -> bool {
        self.towers.iter().any(|tower| !tower.norms.is_empty())
    }

    /// Whether the last hidden layer's tiles make their part of towers' outputs: if these are few, and if tiles have activations.
    pub(super) fn makes_outputs(&self) -> bool {
        let are_few = self.towers.iter().all(|tower| output_columns(tower) <= FEW);
        are_few && !self.is_normed()
    }

    /// Blocks of a multiprocessor that go through rows of a normalised layer, as registers allow.
    pub(super) fn norm_blocks(&self) -> NormBlocks {
        let (forward, back) = match self.norm_parts() {
            0..=2 => (3, 2),
            3..=4 => (2, 1),
            _ => (1, 1),
        };
        NormBlocks { forward, back }
    }

    /// Whether parts of rows that are normalised have all columns.
    fn has_whole_parts(&self) -> bool {
        let hidden = self.towers.iter().flat_map(|tower| &tower.hidden);
        hidden.into_iter().all(|layer| layer.n_out.is_multiple_of(NORM_PART))
    }

    /// Parts of a row that is normalised.
    fn norm_parts(&self) -> usize {
        let widest = self.hidden().iter().map(|layer| layer.outputs).max().unwrap_or(0);
        widest.div_ceil(NORM_PART)
    }

    /// Bytes between launches of one row.
    pub(in super::super) fn row_bytes(&self) -> usize {
        let hidden = self.hidden().iter().map(|layer| layer.outputs).sum::<usize>();
        // Sums of normalised layers and activations, or these alone.
        let kept = if self.is_normed() { 2 } else { 1 };
        let of_tower = kept * hidden + self.heads().outputs;
        2 * (self.layers[0].inputs + self.towers.len() * of_tower)
    }

    /// Copies of the gradient with which the weights of all layers take the least time: few leave `multiprocessors` idle in
    /// layers of few tiles, each takes memory's time.
    pub(in super::super) fn copies(&self, chunk: usize, multiprocessors: usize) -> usize {
        let layers = self.towers.iter().flat_map(Tower::layers);
        let of_copy = layers.map(|l| l.n_in * l.n_out).sum::<usize>() as f64 * COPY_TIME;
        let time = |copies: usize| {
            let rows = chunk as f64 / copies as f64;
            let of_layer = |l: &TiledLayer| {
                let WeightTiles { tiles, bytes_per_row } = self.weight_tiles(l);
                let rounds = (tiles * copies).div_ceil(multiprocessors);
                rounds as f64 * rows * bytes_per_row as f64 / BLOCK_RATE
            };
            self.layers.iter().map(of_layer).sum::<f64>() + copies as f64 * of_copy
        };
        let most = chunk.div_ceil(BLOCK_ROWS).min(multiprocessors);
        (1..=most).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(1)
    }

    /// The tiles of the gradient of a layer's weights, of all towers.
    fn weight_tiles(&self, layer: &TiledLayer) -> WeightTiles {
        let is_last = self.layers.last() == Some(layer);
        let (columns, tiles) = if is_last {
            let blocks = |tower: &Tower| (tower.heads.n_out + tower.gap).div_ceil(BLOCK_COLUMNS);
            let across: usize = self.towers.iter().map(blocks).sum();
            (BLOCK_COLUMNS, layer.inputs.div_ceil(BLOCK_ROWS) * across)
        } else {
            let columns = columns_of(layer.inputs);
            let tiles = layer.outputs.div_ceil(BLOCK_ROWS) * (layer.inputs / columns);
            (columns, tiles * self.towers.len())
        };
        WeightTiles { tiles, bytes_per_row: 2 * (BLOCK_ROWS + columns) }
    }

    /// Blocks of 64 outputs of all towers.
    fn output_blocks(&self) -> usize {
        self.towers.iter().map(|tower| output_columns(tower).div_ceil(BLOCK_COLUMNS)).sum()
    }

    /// Blocks of 64 columns of the last hidden layer that are not all padding.
    fn output_parts(&self) -> usize {
        self.towers[0].heads.n_in.div_ceil(BLOCK_COLUMNS)
    }

    /// How rows of so many outputs stay in shared memory, if there is room.
    fn heads_at_once(&self, row: usize) -> Option<HeadsAtOnce> {
        // Weights of a stage: 64 outputs by 64 columns.
        const WEIGHTS: usize = 2 * BLOCK_COLUMNS * BLOCK_COLUMNS;
        let inputs = self.towers.len() * self.output_parts() * 2 * BLOCK_COLUMNS * HEAD_ROWS;
        let others = inputs + HEAD_ROWS * 4 * (row | 1);
        let room = SharedMemory::H200.of_each(HEAD_BLOCKS).checked_sub(others + HEADS_STATIC)?;
        let stages = (room / (HEAD_GROUPS * WEIGHTS)).min(2);
        let shared_bytes = others + stages * HEAD_GROUPS * WEIGHTS;
        let fits = stages > 0 && !self.makes_outputs();
        fits.then_some(HeadsAtOnce { stages, shared_bytes })
    }

    /// Widths of the products that the text needs.
    pub(in super::super) const PRODUCTS: [usize; 5] = [8, HEAD_ROWS, 64, 128, 256];

    /// What the kernels need to know, as constants.
    pub(in super::super) fn constants(&self, tanh: bool) -> String {
        let mut text = String::from("\n");
        let place = |(real, padded): (&Layer, &TiledLayer), gain: usize| {
            let Layer { n_in, n_out, weight } = real;
            let TiledLayer { inputs, outputs, image, turned, biases, squares } = padded;
            format!(
                "{{{n_in}, {n_out}, {weight}u, {inputs}, {outputs}, {image}u, {turned}u, {biases}, {squares}, {gain}u}}"
            )
        };
        let places = |tower: &Tower| {
            let gains = tower.norms.iter().copied().chain(iter::repeat(0));
            let places = tower.layers().zip(&self.layers).zip(gains);
            let places = places.map(|(layer, gain)| place(layer, gain));
            format!("{{{}}}", places.collect::<Vec<_>>().join(", "))
        };
        let head = |t: &Tower| format!("{{{}, {}, {}}}", t.column, t.gap_at, t.gap);
        let of_towers = |of: &dyn Fn(&Tower) -> String| {
            format!("{{{}}}", self.towers.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        for (name, value) in [
            ("TOWERS", self.towers.len().to_string()),
            ("DEPTH", self.hidden().len().to_string()),
            ("INPUTS", self.layers[0].inputs.to_string()),
            ("COLUMNS", self.heads().outputs.to_string()),
            ("PLACES", of_towers(&places)),
            ("HEADS", of_towers(&head)),
            ("OUTPUT_COLUMNS", of_towers(&|tower| output_columns(tower).to_string())),
            ("TANH", u8::from(tanh).to_string()),
            ("FEW", u8::from(self.makes_outputs()).to_string()),
            ("NORMED", u8::from(self.is_normed()).to_string()),
            ("PARTS", self.norm_parts().to_string()),
            ("NORM_BLOCKS", self.norm_blocks().forward.to_string()),
            ("NORM_BACK_BLOCKS", self.norm_blocks().back.to_string()),
            ("WHOLE", u8::from(self.has_whole_parts()).to_string()),
            ("EPSILON", format!("{LAYER_NORM_EPSILON:e}f")),
            ("HEAD_PARTS", self.output_parts().to_string()),
            ("HEAD_CHUNKS", self.output_blocks().to_string()),
            ("HEAD_STAGES", self.at_once.map_or(0, |heads| heads.stages).to_string()),
            ("HEAD_ROWS", format!("{HEAD_ROWS}u")),
            ("HEAD_GROUPS", format!("{HEAD_GROUPS}u")),
            ("HEAD_BLOCKS", HEAD_BLOCKS.to_string()),
        ] {
            let _ = writeln!(text, "#define U_{name} {value}");
        }
        text
    }
}

/// Columns of a tower's outputs, those of a gap among them.
fn output_columns(tower: &Tower) -> usize {
    tower.heads.n_out + tower.gap
}

/// Columns of a tile of the gradient of weights of so many inputs.
pub(super) fn columns_of(inputs: usize) -> usize {
    [WIDE, NARROW].into_iter().find(|n| inputs.is_multiple_of(*n)).unwrap_or(BLOCK_COLUMNS)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fused::wide::network::Role;

    pub(in super::super) fn network(
        inputs: usize,
        hidden: &[usize],
        outputs: usize,
    ) -> WideNetwork {
        let mut n_in = inputs;
        let mut layer = |n_out: usize| {
            let layer = Layer { n_in, n_out, weight: 0 };
            n_in = n_out;
            layer
        };
        let hidden = hidden.iter().map(|n| layer(*n)).collect();
        let heads = layer(outputs);
        let tower = Tower {
            role: Role::Both,
            hidden,
            norms: Vec::new(),
            heads,
            column: 0,
            gap_at: 0,
            gap: 0,
        };
        WideNetwork::of_towers(vec![tower], outputs)
    }

    #[test]
    fn layers_are_padded_and_lie_behind_each_other() {
        let shape = TiledShape::new(&network(4, &[512, 300], 3)).unwrap();
        let [first, second, heads] = shape.layers[..] else { panic!("{shape:?}") };
        assert_eq!((first.inputs, first.outputs, first.image), (64, 512, 0));
        assert_eq!((second.inputs, second.outputs, second.squares), (512, 384, 8));
        // The first layer has no transposed weights.
        assert_eq!((second.image, second.turned), (2 * 64 * 512, 2 * 64 * 512 + 2 * 512 * 384));
        assert_eq!((heads.outputs, heads.biases), (64, 512 + 384));
        assert_eq!(heads.image, second.turned + 2 * 512 * 384);
        // The image of output layers has whole blocks, the transposed one has too.
        assert_eq!(shape.end.image, heads.image + 2 * 384 * (128 + 64));
        assert_eq!(shape.row_bytes(), 2 * (64 + 512 + 384 + 64));
    }

    #[test]
    fn normalised_layers_have_three_vectors_and_keep_sums() {
        let normed = |hidden: &[usize]| {
            let mut network = network(4, hidden, 3);
            network.towers[0].norms = vec![0; hidden.len()];
            TiledShape::new(&network)
        };
        let shape = normed(&[512, 300]).unwrap();
        assert!(shape.is_normed() && !shape.makes_outputs());
        assert_eq!(shape.layers.iter().map(|l| l.biases).collect::<Vec<_>>(), [0, 1536, 2688]);
        assert_eq!(shape.row_bytes(), 2 * (64 + 2 * (512 + 384) + 64));
        assert_eq!((shape.norm_parts(), shape.has_whole_parts()), (2, false));
        assert_eq!((normed(&[2048]).is_some(), normed(&[2049])), (true, None));
    }

    /// Rice_n's 570 outputs and a value.
    #[test]
    fn outputs_of_many_heads_have_room_beside_narrow_layers() {
        let at_once = |hidden: usize, towers: usize| {
            let tower = || network(1044, &[hidden], 570).towers.swap_remove(0);
            let towers = (0..towers).map(|_| tower()).collect();
            let shape = TiledShape::new(&WideNetwork::of_towers(towers, 570)).unwrap();
            let at_once = shape.heads_at_once(571)?;
            assert!(HEAD_BLOCKS * (at_once.shared_bytes + HEADS_STATIC + 1024) <= 228 << 10);
            Some(at_once.stages)
        };
        let stages = [(64, 2), (128, 2), (192, 2), (256, 2), (128, 1), (256, 1)];
        let stages = stages.map(|(hidden, towers)| at_once(hidden, towers));
        assert_eq!(stages, [Some(2), Some(1), Some(1), None, Some(2), Some(1)]);
        let few = TiledShape::new(&network(4, &[512], 3)).unwrap();
        assert_eq!(few.heads_at_once(4), None, "the last hidden layer makes them");
        assert_eq!((few.kept_width(), few.layers[0].inputs), (8, 64));
    }

    #[test]
    fn networks_without_hidden_layers_have_no_shape() {
        assert_eq!(TiledShape::new(&network(4, &[], 3)), None);
    }

    #[test]
    fn copies_are_as_many_as_save_time() {
        let copies = |inputs: usize, hidden: &[usize], outputs: usize, chunk: usize| {
            let tower = || network(inputs, hidden, outputs).towers.swap_remove(0);
            let network = WideNetwork::of_towers(vec![tower(), tower()], outputs);
            TiledShape::new(&network).unwrap().copies(chunk, 132)
        };
        // Tiles of hidden layers fill the device.
        assert_eq!(copies(4, &[512, 512, 512], 3, 1 << 16), 8);
        assert_eq!(copies(4, &[1024, 1024, 1024, 1024], 3, 1 << 16), 4);
        // The first layer has 34 tiles, the second has two, which would take long with few copies.
        assert_eq!(copies(1043, &[64, 64], 571, 34_560), 14);
        // A copy has at least a block of rows.
        assert_eq!(copies(4, &[64, 64], 3, 200), 2);
    }
}
