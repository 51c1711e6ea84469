//! Layouts with rows of outputs, for both twins of the samplers.

use warp_core::{Draw, Purpose};
use warp_sample::{
    ActionLayout, ActionSamples, ActionsMut, Bounding, CategoricalLayout, GaussianLayout, Mode,
    Rows,
};

/// A layout and a batch of rows for it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) layout: ActionLayout,
    pub(crate) outputs: Vec<f32>,
    pub(crate) mask: Option<Vec<u8>>,
    pub(crate) n_rows: usize,
    pub(crate) n_agents: u32,
    pub(crate) first_agent: u32,
}

/// What a sampler gives; empty what it does not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawn {
    pub(crate) discrete: Vec<i32>,
    pub(crate) raw: Vec<f32>,
    pub(crate) bounded: Vec<f32>,
    pub(crate) log_probs: Vec<f32>,
    pub(crate) entropies: Vec<f32>,
}

impl Case {
    pub(crate) fn rows(&self, seed: u64, step: u32) -> Rows {
        let (n_agents, first_agent) = (self.n_agents, self.first_agent);
        Rows { n_agents, first_agent, ..Rows::new(seed, step) }
    }

    fn room(&self) -> Drawn {
        let n = self.n_rows * self.layout.action_width();
        let boxed = self.layout.head_sizes().is_empty();
        Drawn {
            discrete: vec![-1; if boxed { 0 } else { n }],
            raw: vec![0.0; if boxed { n } else { 0 }],
            bounded: vec![0.0; if boxed { n } else { 0 }],
            log_probs: vec![0.0; self.n_rows],
            entropies: vec![0.0; self.n_rows],
        }
    }

    /// By the samplers of the CPU.
    pub(crate) fn sample(&self, rows: &Rows, mode: Mode) -> Drawn {
        let mut drawn = self.room();
        let actions = match drawn.discrete.is_empty() {
            true => ActionsMut::Continuous { raw: &mut drawn.raw, bounded: &mut drawn.bounded },
            false => ActionsMut::Discrete(&mut drawn.discrete),
        };
        let (log_probs, entropies) = (&mut drawn.log_probs[..], &mut drawn.entropies[..]);
        let out = ActionSamples { actions, log_probs, entropies };
        let mask = self.mask.as_deref();
        self.layout.sample(&self.outputs, mask, rows, mode, out).expect("it fits");
        drawn
    }

    /// By the random samplers of the CPU.
    pub(crate) fn random(&self, rows: &Rows) -> Drawn {
        let mut drawn = self.room();
        let actions = match drawn.discrete.is_empty() {
            true => ActionsMut::Continuous { raw: &mut drawn.raw, bounded: &mut drawn.bounded },
            false => ActionsMut::Discrete(&mut drawn.discrete),
        };
        self.layout.random_actions(self.mask.as_deref(), rows, actions).expect("it fits");
        drawn
    }
}

/// One row by itself.
#[allow(dead_code, reason = "not every test that shares this file needs it")]
pub(crate) fn one_row(rows: &Rows, row: usize) -> Rows {
    let (first_replica, first_agent) = (rows.replica(row), rows.agent(row));
    Rows { first_replica, first_agent, n_agents: 1, ..*rows }
}

/// Numbers of all magnitudes: mostly small, some large, some equal, some impossible.
fn outputs(n: usize, stream: u32, boxed: bool) -> Vec<f32> {
    let mut draw = Draw::new(5, stream, 0, Purpose::Initialise);
    let mut number = || match draw.below(if boxed { 12 } else { 16 }) {
        0..8 => draw.uniform_in(-3.0, 3.0),
        8..10 => (draw.below(5) as f32) - 2.0,
        10 => 0.0,
        11 => draw.uniform_in(-9.0, 9.0),
        12 => draw.uniform_in(-200.0, 200.0),
        13 => f32::NEG_INFINITY,
        14 => -3e38,
        _ => draw.uniform_in(50.0, 120.0),
    };
    (0..n).map(|_| number()).collect()
}

fn discrete(name: &'static str, sizes: &[usize], masked: bool, n_agents: u32) -> Case {
    let layout = CategoricalLayout::new(sizes).expect("heads of at least one choice");
    let (n_rows, width) = (1500 + sizes.len(), layout.width());
    let mut outputs = outputs(n_rows * width, width as u32, false);
    let mut draw = Draw::new(6, width as u32, 0, Purpose::Initialise);
    let mut mask: Vec<u8> = (0..n_rows * width).map(|_| u8::from(draw.below(3) > 0)).collect();
    // One choice of every head is possible.
    let mut first = 0;
    for size in sizes.repeat(n_rows) {
        let kept = first + draw.below(size as u32) as usize;
        mask[kept] = 1;
        outputs[kept] = outputs[kept].max(-3e38);
        first += size;
    }
    let (layout, mask) = (ActionLayout::Discrete(layout), masked.then_some(mask));
    Case { name, layout, outputs, mask, n_rows, n_agents, first_agent: 4 }
}

fn boxed(name: &'static str, bounds: &[(f32, f32)], bounding: Bounding) -> Case {
    let (low, high): (Vec<f32>, Vec<f32>) = bounds.iter().copied().unzip();
    let layout = GaussianLayout::new(&low, &high, bounding).expect("bounds in order");
    let layout = layout.with_log_std_range(-4.0, 1.5).expect("a range");
    let n_rows = 1501;
    let outputs = outputs(n_rows * 2 * low.len(), 1000 + low.len() as u32, true);
    let layout = ActionLayout::Continuous(layout);
    Case { name, layout, outputs, mask: None, n_rows, n_agents: 3, first_agent: 0 }
}

/// Every kind of layout, small and large.
pub(crate) fn cases() -> Vec<Case> {
    const ANY: f32 = f32::INFINITY;
    vec![
        discrete("one_head", &[2], false, 1),
        discrete("many_choices", &[21], false, 105),
        discrete("several_heads", &[21, 21], false, 5),
        discrete("more_heads_than_a_block_of_draws", &[3, 2, 1, 4, 2, 5], true, 2),
        discrete("masked", &[11], true, 51),
        discrete("more_choices_than_registers", &[40, 3], true, 3),
        discrete("wider_than_a_tile", &[70, 70], false, 7),
        discrete("many_heads_alike", &[5; 12], true, 2),
        discrete("many_heads_of_four_sizes", &[3, 3, 7, 3, 1, 3, 7, 7, 3, 40, 1], true, 2),
        discrete("rows_moved_apart_in_a_tile", &[8, 24], false, 4),
        boxed("clipped", &[(-1.0, 1.0)], Bounding::Clip),
        boxed("unbounded", &[(-ANY, ANY), (0.0, ANY), (-ANY, 2.0)], Bounding::Clip),
        boxed("squashed", &[(-2.0, 2.0), (0.0, 5.0)], Bounding::Squash),
    ]
}
