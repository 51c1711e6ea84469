//! Few rows that act go through all layers of a network in one launch: which networks, and what `layers/act_few.cu` needs to
//! know of them.

use crate::fused::wide::network::{Layer, Tower, WideNetwork};
use crate::fused::wide::network_path::NetworkPath;
use crate::model::LAYER_NORM_EPSILON;

/// Rows that one block of `wide_act_few` takes through all layers.
pub(super) const FEW: usize = 8;

/// What `layers/act_few.cu` needs to know of a network, as constants.
pub(in super::super) fn constants(network: &WideNetwork) -> String {
    let depth = network.towers.iter().map(|tower| tower.layers().count()).max().unwrap_or(0);
    let place = |layer: &Layer, [column, gap_at, gap, gain]: [usize; 4], hidden: bool| {
        let Layer { n_in, n_out, weight } = layer;
        format!("{{{n_in}, {n_out}, {weight}, {column}, {gap_at}, {gap}, {gain}, {hidden}}}")
    };
    let tower = |tower: &Tower| {
        let gains = tower.norms.iter().copied().chain(std::iter::repeat(0));
        let hidden = tower.hidden.iter().zip(gains);
        let hidden = hidden.map(|(layer, gain)| place(layer, [0, 0, 0, gain], true));
        let heads = place(&tower.heads, [tower.column, tower.gap_at, tower.gap, 0], false);
        let all = hidden.chain([heads]).collect::<Vec<_>>();
        format!("{{{}}}", all.join(", "))
    };
    let towers: Vec<_> = network.towers.iter().map(tower).collect();
    let (n, widest, norms) = (towers.len(), widest(network), u8::from(network.has_norms()));
    format!(
        "\n#define P_TOWERS {n}\n#define P_DEPTH {depth}\n#define P_WIDEST {widest}\n#define P_NORMS {norms}\n\
         #define P_NORM_EPSILON {LAYER_NORM_EPSILON:?}f\n#define P_LAYERS {{{}}}\n",
        towers.join(", ")
    )
}

/// Outputs of the widest hidden layer.
fn widest(network: &WideNetwork) -> usize {
    let hidden = network.towers.iter().flat_map(|tower| &tower.hidden).map(|layer| layer.n_out);
    hidden.max().unwrap_or(1)
}

/// Whether a block's shared memory has room for [`FEW`] rows between two layers of every tower.
fn few_fit(network: &WideNetwork) -> bool {
    let hidden = network.towers.len() * 2 * widest(network);
    // A byte of a mask for each output.
    let masks = network.n_outputs.div_ceil(4);
    let numbers = hidden + network.observation_width() + network.n_outputs + 1 + masks;
    4 * FEW * numbers <= 40 << 10
}

/// Whether few rows that act go through all layers of `network` in one launch.
pub(in super::super) fn acts_few(network: &WideNetwork, path: &NetworkPath) -> bool {
    matches!(path, NetworkPath::Layers(_) | NetworkPath::Tiled(_)) && few_fit(network)
}
