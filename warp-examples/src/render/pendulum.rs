//! The pendulum, with the torque of the last step as an arc around its joint.

use warp_func::drawing::{Scene, View, colours};

pub(super) fn draw(view: &View<'_>) -> Option<Scene> {
    let theta = view.number("theta")?;
    let mut scene = Scene::new(-1.35..1.35, -1.2..1.2);
    scene.line(&[(0.0, 1.03), (0.0, 1.14)], 0.02, colours::GREEN);
    let tip = (-theta.sin(), theta.cos());
    scene.line(&[(0.0, 0.0), tip], 0.16, colours::RED);
    scene.disc(tip, 0.12, colours::RED);
    scene.disc((0.0, 0.0), 0.06, colours::INK);
    if let Some(push) = view.push("pendulum").filter(|push| push.abs() > 0.02) {
        let at = |part: f32| {
            // From the top, against the clock for a positive torque.
            let angle = std::f32::consts::FRAC_PI_2 + push * 2.4 * part;
            (0.34 * angle.cos(), 0.34 * angle.sin())
        };
        let arc: Vec<_> = (0..=20).map(|i| at(i as f32 / 20.0)).collect();
        scene.line(&arc, 0.035, colours::AMBER);
        let (end, before) = (at(1.0), at(1.0 - 0.1 / push.abs()));
        let (dx, dy) = (end.0 - before.0, end.1 - before.1);
        let stretch = 0.11 / dx.hypot(dy);
        let beyond = (end.0 + stretch * dx, end.1 + stretch * dy);
        scene.arrow(end, beyond, 0.035, colours::AMBER);
    }
    Some(scene)
}
