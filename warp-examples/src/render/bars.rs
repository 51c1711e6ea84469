//! An environment without a drawing of its own: what its agents observe, as bars.

use warp_core::{GroupSpec, Space};
use warp_func::drawing::{Scene, View, colours};

/// Agents of a group that are shown.
const AGENTS: usize = 4;
/// Numbers of an observation that are shown.
const NUMBERS: usize = 96;

pub(super) fn draw(view: &View<'_>) -> Scene {
    let mut rows = Vec::new();
    for group in &view.spec().groups {
        let width = group.observation_width();
        let values = view.array::<f32>(&format!("obs.{}", group.name)).unwrap_or_default();
        for agent in 0..group.n_agents.min(AGENTS) {
            let several = group.n_agents > 1;
            let number = if several { format!(" {agent}") } else { String::new() };
            let own = values.get(agent * width..(agent + 1) * width).unwrap_or_default();
            rows.push((format!("{}{number}", group.name), heights(group, own)));
        }
    }
    let row_height = 0.9 / rows.len().max(1) as f32;
    let mut scene = Scene::new(0.0..1.6, 0.0..0.95);
    for (i, (name, heights)) in rows.iter().enumerate() {
        let middle = 0.92 - (i as f32 + 0.5) * row_height;
        let reach = 0.38 * row_height;
        let step = 1.2 / heights.len().max(1) as f32;
        scene.label((0.17, middle - 0.015), name.as_str(), 0.055_f32.min(0.5 * row_height));
        for (j, height) in heights.iter().enumerate() {
            let x = 0.35 + j as f32 * step;
            let colour = if *height < 0.0 { colours::RED } else { colours::BLUE };
            scene.rectangle(
                (x + 0.1 * step, middle),
                (x + 0.9 * step, middle + height * reach),
                colour,
            );
        }
        scene.line(&[(0.34, middle), (1.56, middle)], 0.003, colours::GROUND);
    }
    scene
}

/// Each number between -1 and 1: by its bounds where it has some, else squeezed.
fn heights(group: &GroupSpec, values: &[f32]) -> Vec<f32> {
    let squeezed = |x: f32| x / (1.0 + x.abs());
    let height = |(i, x): (usize, &f32)| {
        let largest = match &group.observation {
            Space::Box { low, high, .. } if low.len() == values.len() => {
                low[i].abs().max(high[i].abs())
            }
            _ => f32::INFINITY,
        };
        let known = largest.is_finite() && largest > 0.0;
        let height = if known { (x / largest).clamp(-1.0, 1.0) } else { squeezed(*x) };
        if height.is_finite() { height } else { 0.0 }
    };
    values.iter().enumerate().take(NUMBERS).map(height).collect()
}
