//! The path on the energies, seen from above, and the energy along it, with the barrier.
//!
//! Above, a cell has the colour of the lowest energy in its column; with two atoms, of what the first
//! one finds while the second is where it is now. Below, the energy from step to step.

use super::past::Past;
use warp_envs::catalysis::Landscape;
use warp_func::drawing::{Colour, Point, Scene, View, colours};

/// Height of the profile, as a share of the map's width.
const PROFILE: f32 = 0.42;
/// Shades of the map: few, since films have few colours.
const SHADES: f32 = 24.0;
/// From low to high.
const LOW: [f32; 3] = [38.0, 70.0, 120.0];
const MIDDLE: [f32; 3] = [130.0, 180.0, 190.0];
const HIGH: [f32; 3] = [246.0, 240.0, 226.0];

pub(super) fn draw(view: &View<'_>, past: &Past) -> Option<Scene> {
    let backdrop = past.backdrop(view)?;
    let (landscape, states) = (&backdrop.landscape, past.states());
    let now = states.last()?;
    let [nx, ny, _] = landscape.setting.cells.map(|n| n as f32);
    let height = PROFILE * nx;
    let mut scene = Scene::new(-0.04 * nx..1.04 * nx, -1.2 * height..1.04 * ny);
    map(&mut scene, landscape, now);
    let best = backdrop.best.as_ref().map_or(&[][..], |best| &best.path);
    for atom in 0..now.len() / 3 {
        way(&mut scene, best, atom, 0.012 * nx, colours::INK);
        way(&mut scene, states, atom, 0.02 * nx, colours::RED);
    }
    for (atom, goal) in landscape.setting.goal.chunks_exact(3).enumerate() {
        let (x, y) = middle(goal);
        let half = 0.42;
        scene.rectangle((x - half, y - half), (x + half, y + half), colours::GREEN);
        let colour = if atom == 0 { colours::RED } else { colours::AMBER };
        scene.disc(middle(&now[3 * atom..]), 0.55, colours::BACKGROUND);
        scene.disc(middle(&now[3 * atom..]), 0.42, colour);
    }
    profile(&mut scene, landscape, states, best, nx, height);
    Some(scene)
}

/// The middle of a cell.
fn middle(state: &[i32]) -> Point {
    (state[0] as f32 + 0.5, state[1] as f32 + 0.5)
}

/// The energies from above.
fn map(scene: &mut Scene, landscape: &Landscape, now: &[i32]) {
    let setting = &landscape.setting;
    let lowest = landscape.energies.iter().copied().filter(|e| *e >= setting.ienergy);
    let lowest = lowest.fold(f64::INFINITY, f64::min).min(setting.ienergy + setting.max_denergy);
    let range = setting.ienergy + setting.max_denergy - lowest;
    let mut state = now.to_vec();
    for x in 0..setting.cells[0] {
        for y in 0..setting.cells[1] {
            let energies = (setting.slab.0..setting.slab.1).filter_map(|z| {
                state[..3].copy_from_slice(&[x, y, z]);
                landscape.energy(&state)
            });
            let energy = energies.fold(f64::INFINITY, f64::min);
            // The root shows what is near the bottom, where paths lie.
            let height = (((energy - lowest) / range).clamp(0.0, 1.0) as f32).sqrt();
            let corner = (x as f32, y as f32);
            // A little larger than the cell, so that nothing shows between two of them.
            scene.rectangle(corner, (corner.0 + 1.04, corner.1 + 1.04), shade(height));
        }
    }
}

fn shade(height: f32) -> Colour {
    let height = (height * SHADES).round() / SHADES;
    let (from, to, part) = match height < 0.5 {
        true => (LOW, MIDDLE, 2.0 * height),
        false => (MIDDLE, HIGH, 2.0 * height - 1.0),
    };
    let [red, green, blue] = [0, 1, 2].map(|i| (from[i] + (to[i] - from[i]) * part) as u8);
    Colour(red, green, blue, 255)
}

/// The way of one atom from above, broken where it leaves on one side and comes back on the other.
fn way(scene: &mut Scene, states: &[Vec<i32>], atom: usize, width: f32, colour: Colour) {
    let points: Vec<Point> = states.iter().map(|state| middle(&state[3 * atom..])).collect();
    let near = |a: &Point, b: &Point| (a.0 - b.0).abs() <= 1.0 && (a.1 - b.1).abs() <= 1.0;
    for part in points.chunk_by(near).filter(|part| part.len() > 1) {
        scene.line(part, width, colour);
    }
}

/// The energy above the start's along both ways.
fn profile(
    scene: &mut Scene,
    landscape: &Landscape,
    states: &[Vec<i32>],
    best: &[Vec<i32>],
    width: f32,
    height: f32,
) {
    let Some(start) = states.first().and_then(|state| landscape.energy(state)) else { return };
    let most = landscape.setting.ienergy + landscape.setting.max_denergy;
    // Outside the slab there is no energy; it costs as much as the highest.
    let energy =
        |state: &Vec<i32>| (landscape.energy(state).unwrap_or(most).min(most) - start) as f32;
    let (own, known): (Vec<f32>, Vec<f32>) =
        (states.iter().map(energy).collect(), best.iter().map(energy).collect());
    let all = || own.iter().chain(&known).copied();
    let (low, high) = (all().fold(0.0, f32::min), all().fold(0.1, f32::max));
    let steps = own.len().max(known.len()).max(2) - 1;
    let size = 0.12 * height;
    let (bottom, top) = (-1.12 * height, -1.35 * size);
    let at = |step: usize, energy: f32| {
        let up = (energy - low) / (high - low);
        (width * step as f32 / steps as f32, bottom + up * (top - size - bottom))
    };
    let line = |energies: &[f32]| -> Vec<Point> {
        energies.iter().enumerate().map(|(step, energy)| at(step, *energy)).collect()
    };
    scene.line(&[at(0, 0.0), at(steps, 0.0)], 0.004 * width, colours::GROUND);
    scene.line(&line(&known), 0.008 * width, colours::INK);
    scene.line(&line(&own), 0.014 * width, colours::RED);
    let barrier = own.iter().copied().fold(0.0, f32::max);
    let peak = own.iter().position(|energy| *energy == barrier).unwrap_or(0);
    scene.disc(at(peak, barrier), 0.014 * width, colours::AMBER);
    let text = format!("energy, barrier {barrier:.2} eV");
    scene.label((0.5 * width, top), text, size);
    scene.legend = vec![
        (colours::RED, "path".into()),
        (colours::INK, "best path".into()),
        (colours::GREEN, "goal".into()),
    ];
}
