//! Cart and pole, with the push of the last step.

use warp_func::drawing::{Scene, View, colours};

/// Where the cart leaves the track, m.
const X_LIMIT: f32 = 2.4;
/// Length of the pole, m.
const LENGTH: f32 = 1.0;

pub(super) fn draw(view: &View<'_>) -> Option<Scene> {
    let (x, theta) = (view.number("x")?, view.number("theta")?);
    let mut scene = Scene::new(-2.7..2.7, -0.6..1.6);
    scene.line(&[(-3.0, -0.28), (3.0, -0.28)], 0.02, colours::GROUND);
    for end in [-X_LIMIT, X_LIMIT] {
        scene.line(&[(end, -0.38), (end, -0.18)], 0.03, colours::GROUND);
    }
    scene.rectangle((x - 0.36, -0.2), (x + 0.36, 0.14), colours::INK);
    for wheel in [-0.2, 0.2] {
        scene.disc((x + wheel, -0.2), 0.085, colours::GROUND);
    }
    let tip = (x + LENGTH * theta.sin(), LENGTH * theta.cos());
    scene.line(&[(x, 0.02), (tip.0, tip.1 + 0.02)], 0.1, colours::RED);
    scene.disc((x, 0.02), 0.06, colours::AMBER);
    if let Some(push) = view.push("pole") {
        let side = x + 0.42 * push;
        scene.arrow((side, -0.03), (side + 0.4 * push, -0.03), 0.05, colours::AMBER);
    }
    Some(scene)
}
