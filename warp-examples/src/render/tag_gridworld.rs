//! The grid with its taggers and the runner.

use std::collections::HashMap;
use warp_func::drawing::{Scene, View, colours};

pub(super) fn draw(view: &View<'_>) -> Option<Scene> {
    let (xs, ys) = (view.array::<i32>("loc_x")?, view.array::<i32>("loc_y")?);
    let cells = view.key("grid_length")? + 1.0;
    let mut scene = Scene::new(-0.4..cells + 0.4, -0.4..cells + 0.4);
    // So many lines that they would touch are left out.
    if cells <= 60.0 {
        for i in 0..=cells as i32 {
            let i = i as f32;
            scene.line(&[(i, 0.0), (i, cells)], 0.03, colours::GRID);
            scene.line(&[(0.0, i), (cells, i)], 0.03, colours::GRID);
        }
    }
    let corners = [(0.0, 0.0), (cells, 0.0), (cells, cells), (0.0, cells), (0.0, 0.0)];
    scene.line(&corners, 0.06, colours::GROUND);
    let n_taggers = view.spec().groups.first()?.n_agents;
    let places: Vec<(i32, i32)> = xs.iter().copied().zip(ys.iter().copied()).collect();
    let mut on_cell: HashMap<(i32, i32), usize> = HashMap::new();
    for place in &places {
        *on_cell.entry(*place).or_default() += 1;
    }
    let mut drawn: HashMap<(i32, i32), usize> = HashMap::new();
    for (i, (x, y)) in places.iter().enumerate() {
        // Those on one cell stand side by side.
        let here = on_cell[&(*x, *y)];
        let before = drawn.entry((*x, *y)).or_default();
        *before += 1;
        let turn = std::f32::consts::TAU * *before as f32 / here as f32;
        let (away, radius) = if here > 1 { (0.2, 0.22) } else { (0.0, 0.34) };
        let centre = (*x as f32 + 0.5 + away * turn.cos(), *y as f32 + 0.5 + away * turn.sin());
        let colour = if i < n_taggers { colours::RED } else { colours::BLUE };
        scene.disc(centre, radius, colour);
    }
    scene.legend = vec![(colours::RED, "tagger".into()), (colours::BLUE, "runner".into())];
    Some(scene)
}
