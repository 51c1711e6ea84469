//! The layers of a network one by one: forward, back, and the gradients of their weights.
//!
//! For networks in fp32 and for those that tensor cores do not take as a whole. One product of matrices
//! serves all three; how much of the result a block makes depends on its shape.

use super::network::{Layer, Tower, WideNetwork};
use super::policy::{Rows, WidePolicy, all};
use crate::error::Result;
use warp_data::cuda::DeviceArray;
use warp_func::VecEnv;
use warp_func::cuda::{Arg, CudaVecEnv, Launch};

/// How layers are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// In fp32.
    Single,
    /// On tensor cores, with half-precision operands and fp32 sums.
    Half,
}

/// Part of a product that a block makes, numbered as in `gemm.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tile {
    Square = 0,
    Large = 1,
    Narrow = 2,
    FewRows = 3,
    FewColumns = 4,
}

impl Tile {
    fn shape(self) -> (usize, usize) {
        match self {
            Self::Square => (64, 64),
            Self::Large => (128, 64),
            Self::Narrow => (256, 16),
            Self::FewRows => (16, 64),
            Self::FewColumns => (64, 16),
        }
    }

    /// Tiles of `rows` by `columns` numbers.
    pub(super) fn count(self, rows: usize, columns: usize) -> usize {
        let (r, c) = self.shape();
        rows.div_ceil(r) * columns.div_ceil(c)
    }

    /// For rows of samples; `wanted` blocks keep the device busy.
    fn of_samples(product: Product, (rows, columns): (usize, usize), wanted: usize) -> Self {
        match product {
            Product::Half => Self::Square,
            Product::Single if columns <= 16 => Self::Narrow,
            Product::Single if Self::Large.count(rows, columns) >= wanted => Self::Large,
            Product::Single => Self::Square,
        }
    }

    /// For the gradients of a layer's weights.
    pub(super) fn of_weights(product: Product, layer: &Layer) -> Self {
        match product {
            Product::Half => Self::Square,
            Product::Single if layer.n_out <= 16 => Self::FewRows,
            Product::Single if layer.n_in <= 16 => Self::FewColumns,
            Product::Single if layer.n_out >= 128 => Self::Large,
            Product::Single => Self::Square,
        }
    }
}

impl Product {
    /// Tiles of the gradients of a layer's weights. On tensor cores biases are the weights of one more
    /// input.
    pub(super) fn weight_tiles(self, layer: &Layer) -> usize {
        let inputs = match self {
            Self::Half => layer.n_in + 1,
            Self::Single => layer.n_in.max(1),
        };
        Tile::of_weights(self, layer).count(layer.n_out, inputs)
    }
}

/// Rows that one block of `wide_act_few` takes through all layers.
const FEW: usize = 8;

/// What `act_few.cu` needs to know of a network, as constants.
pub(super) fn constants(network: &WideNetwork) -> String {
    let depth = network.towers.iter().map(|tower| tower.layers().count()).max().unwrap_or(0);
    let place = |layer: &Layer, [column, gap_at, gap]: [usize; 3], hidden: bool| {
        let Layer { n_in, n_out, weight } = layer;
        format!("{{{n_in}, {n_out}, {weight}, {column}, {gap_at}, {gap}, {hidden}}}")
    };
    let tower = |tower: &Tower| {
        let hidden = tower.hidden.iter().map(|layer| place(layer, [0; 3], true));
        let heads = place(&tower.heads, [tower.column, tower.gap_at, tower.gap], false);
        let all = hidden.chain([heads]).collect::<Vec<_>>();
        format!("{{{}}}", all.join(", "))
    };
    let towers: Vec<_> = network.towers.iter().map(tower).collect();
    let (n, widest) = (towers.len(), widest(network));
    format!(
        "\n#define P_TOWERS {n}\n#define P_DEPTH {depth}\n#define P_WIDEST {widest}\n\
         #define P_LAYERS {{{}}}\n",
        towers.join(", ")
    )
}

/// Outputs of the widest hidden layer.
fn widest(network: &WideNetwork) -> usize {
    let hidden = network.towers.iter().flat_map(|tower| &tower.hidden).map(|layer| layer.n_out);
    hidden.max().unwrap_or(1)
}

/// Whether a block's shared memory has room for [`FEW`] rows between two layers of every tower.
pub(super) fn few_fit(network: &WideNetwork) -> bool {
    let hidden = network.towers.len() * 2 * widest(network);
    let numbers = hidden + network.observation_width() + network.n_outputs + 1;
    4 * FEW * numbers <= 40 << 10
}

impl WidePolicy {
    /// Whether so few rows act at a time that one launch for all layers is fastest.
    pub(super) fn acts_few(&self) -> bool {
        let few = self.sizes.rows <= 2 * FEW * self.enough_blocks();
        self.foreign.is_none() && few && few_fit(&self.network)
    }

    /// Looks and acts at step `t`, where rows are few.
    pub(super) fn act_few(&self, t: usize, envs: &CudaVecEnv) -> Result<()> {
        let (a, s) = (&self.arrays, &self.sizes);
        let args = [
            all(&self.places),
            all(&a.state),
            Arg::U64(envs.options().seed),
            Arg::U32(envs.options().first_replica),
            Arg::U32(t as u32),
            Arg::U32(s.rows as u32),
            all(&a.obs),
            all(&a.masks),
            all(&a.weights),
            all(&self.normaliser.factors),
            all(&a.parameters),
            all(&a.actions),
            all(&a.raws),
            all(&a.log_probs),
            all(&a.values),
            Arg::I32(self.activation()),
        ];
        let threads = 256 * self.network.towers.len();
        let blocks = s.rows.div_ceil(FEW);
        let launch = Launch::over(blocks * threads, threads as u32);
        self.kit.launch("wide_act_few", &launch, &args)
    }

    /// Runs the network in fp32 on some rows; `outs` then has their outputs and values.
    pub(super) fn layers(&self, rows: &Rows<'_>) -> Result<()> {
        if let Some(foreign) = &self.foreign {
            let (x, outs) = ((rows.x, rows.at), &self.arrays.outs);
            return foreign.borrow_mut().forward(x, rows.rows, outs, rows.sampled);
        }
        for (t, tower) in self.network.towers.iter().enumerate() {
            let (mut x, mut at) = (rows.x, rows.at);
            for (layer, y) in tower.hidden.iter().zip(&self.arrays.hidden[t]) {
                let to =
                    [Arg::U32(0), Arg::U32(layer.n_out as u32), Arg::U32(u32::MAX), Arg::U32(0)];
                let args = (layer, y, to, self.activation());
                self.layer((x, at), args, rows)?;
                (x, at) = (y, 0);
            }
            let to = self.columns(tower);
            self.layer((x, at), (&tower.heads, &self.arrays.outs, to, 0), rows)?;
        }
        Ok(())
    }

    /// First column, columns per row, and the gap of a tower's outputs.
    pub(super) fn columns(&self, tower: &Tower) -> [Arg; 4] {
        [tower.column, self.out_row(), tower.gap_at, tower.gap].map(|n| Arg::U32(n as u32))
    }

    fn layer(
        &self,
        (x, at): (&DeviceArray, usize),
        (layer, y, to, activation): (&Layer, &DeviceArray, [Arg; 4], i32),
        rows: &Rows<'_>,
    ) -> Result<()> {
        let [column, row, gap_at, gap] = to;
        let tile = Tile::of_samples(self.product, (rows.rows, layer.n_out), self.enough_blocks());
        let args = [
            all(x),
            Arg::U64(at as u64),
            all(&self.arrays.parameters),
            Arg::U32(layer.weight as u32),
            Arg::U32(layer.n_in as u32),
            Arg::U32(layer.n_out as u32),
            all(y),
            column,
            row,
            gap_at,
            gap,
            all(&self.arrays.state),
            Arg::I32(i32::from(rows.sampled)),
            Arg::U32(rows.first as u32),
            Arg::U32(rows.rows as u32),
            Arg::I32(activation),
            Arg::I32(tile as i32),
        ];
        self.kit.launch("wide_layer", &blocks(tile.count(rows.rows, layer.n_out)), &args)
    }

    /// From the gradients of a tower's outputs to those of its weights.
    pub(super) fn backward(&self, t: usize, first: usize) -> Result<()> {
        let (a, tower) = (&self.arrays, &self.network.towers[t]);
        let hidden = &a.hidden[t];
        let mut above = &tower.heads;
        let (mut dy, mut to) = (&a.outs, self.columns(tower));
        for l in (0..hidden.len()).rev() {
            self.layer_weights((dy, to.clone()), &hidden[l], above, first)?;
            let dx = &a.d_hidden[l % 2];
            self.layer_inputs((dy, to), above, (&hidden[l], dx), first)?;
            above = &tower.hidden[l];
            dy = dx;
            to = [0, above.n_out, above.n_out, 0].map(|n| Arg::U32(n as u32));
        }
        self.layer_weights((dy, to), &a.gathered, above, first)
    }

    fn layer_inputs(
        &self,
        (dy, to): (&DeviceArray, [Arg; 4]),
        layer: &Layer,
        (h, dx): (&DeviceArray, &DeviceArray),
        first: usize,
    ) -> Result<()> {
        let [column, row, gap_at, gap] = to;
        let rows = self.sizes.chunk;
        let tile = Tile::of_samples(self.product, (rows, layer.n_in), self.enough_blocks());
        let args = [
            all(dy),
            column,
            row,
            all(&self.arrays.parameters),
            Arg::U32(layer.weight as u32),
            Arg::U32(layer.n_in as u32),
            Arg::U32(layer.n_out as u32),
            gap_at,
            gap,
            all(h),
            all(dx),
            all(&self.arrays.state),
            Arg::U32(first as u32),
            Arg::U32(rows as u32),
            Arg::I32(self.activation()),
            Arg::I32(tile as i32),
        ];
        self.kit.launch("wide_layer_inputs", &blocks(tile.count(rows, layer.n_in)), &args)
    }

    pub(super) fn layer_weights(
        &self,
        (dy, to): (&DeviceArray, [Arg; 4]),
        x: &DeviceArray,
        layer: &Layer,
        first: usize,
    ) -> Result<()> {
        let [column, row, gap_at, gap] = to;
        let copies = self.sizes.copies;
        let args = [
            all(dy),
            column,
            row,
            gap_at,
            gap,
            all(x),
            Arg::U32(layer.n_in as u32),
            Arg::U32(layer.n_out as u32),
            all(&self.arrays.partial),
            Arg::U32(self.network.n_parameters as u32),
            Arg::U32(layer.weight as u32),
            all(&self.arrays.state),
            Arg::U32(first as u32),
            Arg::U32(self.sizes.chunk as u32),
            Arg::U32(copies as u32),
            Arg::I32(Tile::of_weights(self.product, layer) as i32),
        ];
        let tiles = self.product.weight_tiles(layer);
        self.kit.launch("wide_layer_weights", &blocks(tiles * copies), &args)
    }

    /// Blocks that give every multiprocessor work.
    fn enough_blocks(&self) -> usize {
        self.device.info().n_multiprocessors as usize
    }
}

fn blocks(n: usize) -> Launch {
    Launch::over(n * 256, 256)
}
