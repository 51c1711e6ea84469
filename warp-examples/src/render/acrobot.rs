//! The two-link arm below the bar that its tip must reach.

use warp_func::drawing::{Scene, View, colours};

/// Height of the bar above the joint, m; each link is 1 m long.
const BAR: f32 = 1.0;

pub(super) fn draw(view: &View<'_>) -> Option<Scene> {
    let (theta1, theta2) = (view.number("theta1")?, view.number("theta2")?);
    let mut scene = Scene::new(-2.4..2.4, -2.2..2.2);
    scene.line(&[(-2.6, BAR), (2.6, BAR)], 0.03, colours::GREEN);
    let elbow = (theta1.sin(), -theta1.cos());
    let both = theta1 + theta2;
    let tip = (elbow.0 + both.sin(), elbow.1 - both.cos());
    scene.line(&[(0.0, 0.0), elbow], 0.2, colours::BLUE);
    scene.line(&[elbow, tip], 0.2, colours::RED);
    scene.disc((0.0, 0.0), 0.08, colours::INK);
    scene.disc(elbow, 0.1, colours::AMBER);
    scene.disc(tip, 0.06, colours::INK);
    Some(scene)
}
