//! The car on the hill, with the push of the last step. Both mountain cars are drawn alike.

use warp_func::drawing::{Point, Scene, View, colours, placed};

/// The ends of the track.
const ENDS: (f32, f32) = (-1.2, 0.6);

/// Height of the track.
fn height(x: f32) -> f32 {
    0.45 * (3.0 * x).sin() + 0.55
}

/// The flag stands at 0.5.
pub(super) fn draw(view: &View<'_>) -> Option<Scene> {
    on_hill(view, 0.5)
}

/// The flag stands at 0.45.
pub(super) fn draw_continuous(view: &View<'_>) -> Option<Scene> {
    on_hill(view, 0.45)
}

fn on_hill(view: &View<'_>, goal: f32) -> Option<Scene> {
    let x = view.number("position")?;
    let mut scene = Scene::new(-1.3..0.7, -0.05..1.3);
    let track: Vec<Point> = (0..=120)
        .map(|i| ENDS.0 + (ENDS.1 - ENDS.0) * i as f32 / 120.0)
        .map(|x| (x, height(x)))
        .collect();
    let below = [(ENDS.1, -0.2), (ENDS.0, -0.2)];
    scene.polygon(&[&track[..], &below].concat(), colours::GRID);
    scene.line(&track, 0.012, colours::GROUND);
    let foot = (goal, height(goal));
    scene.line(&[foot, (goal, foot.1 + 0.24)], 0.01, colours::INK);
    let flag = [(goal, foot.1 + 0.24), (goal, foot.1 + 0.14), (goal + 0.1, foot.1 + 0.19)];
    scene.polygon(&flag, colours::GREEN);
    let slope = (1.35 * (3.0 * x).cos()).atan();
    let at = |point: Point| placed(point, slope, (x, height(x)));
    let body = [
        (-0.085, 0.03),
        (0.085, 0.03),
        (0.085, 0.07),
        (0.035, 0.105),
        (-0.05, 0.105),
        (-0.085, 0.07),
    ];
    scene.polygon(&body.map(at), colours::RED);
    for wheel in [-0.05, 0.05] {
        scene.disc(at((wheel, 0.026)), 0.026, colours::INK);
    }
    if let Some(push) = view.push("car").filter(|push| push.abs() > 0.02) {
        let side = 0.1 * push.signum();
        let (from, to) = (at((side, 0.06)), at((side + 0.14 * push, 0.06)));
        scene.arrow(from, to, 0.014, colours::AMBER);
    }
    Some(scene)
}
